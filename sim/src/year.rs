//! Changes that chains made in a year, played to one unchanged process: `gas-suggestion-sim --year`. `--calm CHAINS SECONDS`
//! plays so many chains that change nothing.
//!
//! No number is ever wrong, each change is known within 100 blocks or two readings of headers, no data is late or stale, and
//! nothing is logged above INFO.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Response, StatusCode};
use bytes::Bytes;
use fastrand::Rng;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gas_suggestion::api::App;
use gas_suggestion::assembly::Network;
use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use gas_suggestion::nodes::{Error, NodeTransport};
use gas_suggestion::server::Service;
use reqwest::Url;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::node::Call;
use crate::world::{answer, get};

const GAS_LIMIT: u128 = 60_000_000;
/// Times at which the chains change.
const CHANGES: [u64; 4] = [300, 600, 900, 1200];
const END: u64 = 1500;
/// A block time is known after this time at the latest, two readings of headers included.
const SETTLED: u64 = 151;

/// How a chain makes its blocks.
#[derive(Clone, Copy)]
struct Rules {
    block_ms: i64,
    elasticity: u128,
    denominator: u128,
    minimum: u128,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Headers tell the rule.
    Optimism,
    /// The blocks alone tell it.
    Plain,
    /// No pair of numbers explains the blocks.
    Wild,
    /// The base fee is 0.
    Legacy,
}

struct Block {
    time_ms: i64,
    base_fee: u128,
    gas_used: u128,
}

struct Chain {
    rules: Rules,
    blocks: Vec<Block>,
    next_at_ms: i64,
    rng: Rng,
}

const FIRST: u64 = 1_000_000;

/// Returns the rules of the chain with this index after so many of the changes.
fn rules(chain: usize, changes: usize) -> Rules {
    let plain =
        Rules { block_ms: 2000, elasticity: 2, denominator: 8, minimum: 0, kind: Kind::Plain };
    let optimism = Rules { elasticity: 6, denominator: 50, kind: Kind::Optimism, ..plain };
    match (chain % 4, changes) {
        // Base: another denominator, a minimum base fee, then five blocks a second.
        (0, 0) => optimism,
        (0, 1) => Rules { denominator: 125, ..optimism },
        (0, 2) => Rules { denominator: 125, minimum: 5_000_000, ..optimism },
        (0, _) => Rules { denominator: 125, minimum: 5_000_000, block_ms: 200, ..optimism },
        // BNB: its blocks become faster, also below half a second, and slower again.
        (1, 0) => Rules { block_ms: 750, ..plain },
        (1, 1 | 2) => Rules { block_ms: 450, ..plain },
        (1, _) => Rules { block_ms: 12_000, ..plain },
        // Arbitrum: several targets in place of a rule.
        (2, 0) => Rules { block_ms: 250, ..plain },
        (2, _) => Rules { block_ms: 250, kind: Kind::Wild, ..plain },
        // An unknown chain activates EIP-1559.
        (_, 0) => Rules { block_ms: 1000, kind: Kind::Legacy, ..plain },
        (_, _) => Rules { block_ms: 1000, denominator: 24, ..plain },
    }
}

impl Chain {
    fn new(index: usize) -> Self {
        let rules = rules(index, 0);
        let (blocks, rng) = (Vec::new(), Rng::with_seed(index as u64));
        let mut chain = Self { rules, blocks, next_at_ms: -1100 * rules.block_ms, rng };
        chain.advance(0);
        chain
    }

    fn advance(&mut self, now_ms: i64) {
        while self.next_at_ms <= now_ms {
            let base_fee = match self.blocks.last() {
                None if self.rules.kind == Kind::Legacy => 0,
                None => 8_000_000,
                Some(last) => self.base_fee_after(last),
            };
            // The base fee stays in bounds, and is at its minimum now and then.
            let target = GAS_LIMIT / self.rules.elasticity;
            let most = if base_fee > 20_000_000 { target } else { 2 * target };
            let least = if base_fee < 2_000_000 { target } else { 0 };
            let gas_used = self.rng.u128(least..=most);
            self.blocks.push(Block { time_ms: self.next_at_ms, base_fee, gas_used });
            self.next_at_ms += self.rules.block_ms;
        }
    }

    fn base_fee_after(&self, last: &Block) -> u128 {
        let Rules { elasticity, denominator, minimum, kind, .. } = self.rules;
        let (base_fee, target) = (last.base_fee, GAS_LIMIT / elasticity);
        match kind {
            Kind::Legacy => 0,
            _ if base_fee == 0 => 8_000_000,
            Kind::Wild => base_fee * (960 + last.gas_used * 7919 % 81) / 1000,
            _ if last.gas_used > target => {
                base_fee + (base_fee * (last.gas_used - target) / target / denominator).max(1)
            }
            _ => base_fee - base_fee * (target - last.gas_used) / target / denominator,
        }
        .max(minimum)
    }

    fn newest(&self) -> u64 {
        FIRST + self.blocks.len() as u64 - 1
    }

    fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number.checked_sub(FIRST)?).ok()?)
    }

    fn answer(&self, chain_id: usize, call: &Call) -> Value {
        let number = |tag: &Value| {
            let digits = tag.as_str().and_then(|tag| tag.strip_prefix("0x"));
            digits
                .map_or(self.newest(), |digits| u64::from_str_radix(digits, 16).unwrap_or_default())
        };
        match call.method.as_str() {
            "eth_chainId" => json!(format!("{chain_id:#x}")),
            "eth_getBlockByNumber" => self.header(number(&call.params[0])),
            "eth_feeHistory" => {
                let newest = number(&call.params[1]);
                let count = call.params[0].as_u64().unwrap_or_else(|| number(&call.params[0]));
                let oldest = (newest + 1).saturating_sub(count).max(FIRST);
                let blocks: Vec<_> =
                    (oldest..=newest).filter_map(|number| self.block(number)).collect();
                let next = self.block(newest).map(|last| self.following(newest, last));
                let fees = blocks.iter().map(|block| block.base_fee).chain(next);
                let columns = call.params[2].as_array().map_or(0, Vec::len);
                let ratio = |block: &&Block| block.gas_used as f64 / GAS_LIMIT as f64;
                json!({
                    "oldestBlock": format!("{oldest:#x}"),
                    "baseFeePerGas": fees.map(|fee| format!("{fee:#x}")).collect::<Vec<_>>(),
                    "gasUsedRatio": blocks.iter().map(ratio).collect::<Vec<_>>(),
                    "reward": vec![vec!["0xf4240"; columns]; blocks.len()],
                })
            }
            _ => Value::Null,
        }
    }

    /// Base fee of the block after this one, which may be there already.
    fn following(&self, number: u64, block: &Block) -> u128 {
        self.block(number + 1).map_or_else(|| self.base_fee_after(block), |next| next.base_fee)
    }

    fn header(&self, number: u64) -> Value {
        let Some(block) = self.block(number) else { return Value::Null };
        let seconds = clock::WALL_START.as_secs() as i64 + block.time_ms.div_euclid(1000);
        let Rules { elasticity, denominator, minimum, kind, .. } = self.rules;
        let extra_data = match kind {
            Kind::Optimism => format!("0x01{denominator:08x}{elasticity:08x}{minimum:016x}"),
            _ => "0x".to_owned(),
        };
        json!({
            "number": format!("{number:#x}"),
            "timestamp": format!("{seconds:#x}"),
            "extraData": extra_data,
        })
    }
}

/// The chains.
#[derive(Clone)]
struct Year(Arc<Mutex<Vec<Chain>>>);

impl std::fmt::Debug for Year {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Year")
    }
}

impl NodeTransport for Year {
    fn post(&self, url: &Url, body: Vec<u8>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let year = self.clone();
        let index: usize = url
            .host_str()
            .and_then(|host| host[1..].strip_suffix(".sim")?.parse().ok())
            .expect("a chain");
        async move {
            let call = Call::parse(&body).expect("a call");
            tokio::time::sleep(Duration::from_millis(15)).await;
            let result = year.with(|chains| chains[index].answer(9000 + index, &call));
            tokio::time::sleep(Duration::from_millis(15)).await;
            let reply = json!({"jsonrpc": "2.0", "id": call.id, "result": result});
            Ok(Response::new(reply.to_string().into()))
        }
        .boxed()
    }
}

impl Year {
    fn with<T>(&self, act: impl FnOnce(&mut [Chain]) -> T) -> T {
        let mut chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chains.iter_mut().for_each(|chain| chain.advance(clock::now().as_millis() as i64));
        act(&mut chains)
    }

    /// Plays so much time, and these changes. Returns what was not as it should be.
    async fn play(self, end: Duration, all_changes: &[u64]) -> Vec<String> {
        let count = self.with(|chains| chains.len());
        let chains = (0..count).map(|index| {
            format!(
                "[chains.c{index}]\nchain_id = {}\nrpc_urls = [\"http://c{index}.sim/\"]\n",
                9000 + index
            )
        });
        let text = chains.collect::<String>() + "[history]\nrefill = false\n";
        let config = Config::from_toml(&text, &sections()).expect("a configuration");
        let network = Network { nodes: Some(Arc::new(self.clone())), services: None };
        let service =
            Service::start(config, network, CancellationToken::new()).await.expect("a service");
        let (mut wrong, mut rng, mut changes) = (Vec::new(), Rng::with_seed(7), 0);
        let mut lags = vec![vec![Vec::new(); all_changes.len() + 1]; count];
        while clock::now() < end {
            tokio::time::sleep(Duration::from_millis(rng.u64(50..1500))).await;
            if all_changes.get(changes).is_some_and(|at| clock::now().as_secs() >= *at) {
                changes += 1;
                self.with(|chains| {
                    for (index, chain) in chains.iter_mut().enumerate() {
                        chain.rules = rules(index, changes);
                    }
                });
            }
            let since =
                clock::now().as_secs() - changes.checked_sub(1).map_or(0, |it| all_changes[it]);
            for (index, lags) in lags.iter_mut().enumerate() {
                let lag = self.look(service.app(), index, changes, since, &mut wrong).await;
                lags[changes].extend(lag.filter(|_| since > SETTLED));
            }
        }
        for (index, phases) in lags.iter_mut().enumerate() {
            for (changes, lags) in phases.iter_mut().enumerate() {
                lags.sort_unstable();
                let at = |percent: usize| lags[lags.len() * percent / 100];
                let allowed = (200 / rules(index, changes).block_ms as u64).max(1);
                println!(
                    "chain {index} after {changes} changes: {} blocks behind in the median, {} at 90 %, {} at 99 %",
                    at(50),
                    at(90),
                    at(99)
                );
                if at(99) > allowed {
                    wrong.push(format!("chain {index} after {changes} changes: late"));
                }
            }
        }
        wrong
    }

    /// Looks at all that is said of a chain, so many seconds after the last of so many changes. Returns by how many blocks
    /// it is behind.
    async fn look(
        &self,
        app: &App,
        index: usize,
        changes: usize,
        since: u64,
        wrong: &mut Vec<String>,
    ) -> Option<u64> {
        let (status, _, market) = answer(app, get(&format!("/v1/c{index}/fee-market"))).await;
        let (_, _, chains) = answer(app, get("/v1/chains")).await;
        let newest = market["newest_block"].as_u64();
        let mut check = |holds: bool, what: &str, shown: &Value| {
            if !holds {
                let now = clock::now().as_secs_f64();
                wrong.push(format!("{now:.1} s, chain {index} at {newest:?}: {what}: {shown}"));
            }
        };
        if clock::now() > Duration::from_secs(5) {
            check(status == StatusCode::OK, "no price", &market);
            check(chains[index]["status"] == "fresh", "not fresh", &chains[index]);
        }
        let (newest, now_rules) = (newest?, rules(index, changes));
        let (next, head) = self.with(|chains| {
            let chain = &chains[index];
            let block = chain.block(newest).expect("a block of the chain");
            (chain.following(newest, block), chain.newest())
        });
        let shown_next = &market["next_base_fee_per_gas"];
        // The service may have read the block just before the rules changed.
        let is_next = *shown_next == json!(next.to_string()) || since < 3;
        check(is_next, "next base fee", shown_next);
        let shown = &market["chain_parameters"];
        let is_rule = |rules: Rules| {
            let number = |name: &str| shown[name].as_str().and_then(|text| text.parse().ok());
            let is_known = !matches!(rules.kind, Kind::Wild | Kind::Legacy);
            number("base_fee_change_denominator")
                == is_known.then(|| rules.denominator / (rules.elasticity - 1))
                && number("empty_block_denominator") == is_known.then_some(rules.denominator)
        };
        let adopted = Duration::from_millis(101 * now_rules.block_ms as u64).as_secs().max(61);
        let may_be_old = since <= adopted && changes > 0 && is_rule(rules(index, changes - 1));
        let may_be_unknown = shown["source"].is_null()
            && (shown["reason"] == "unknown" || now_rules.kind == Kind::Legacy)
            && now_rules.kind != Kind::Optimism;
        let is_right = is_rule(now_rules) || may_be_old || (may_be_unknown && since <= adopted);
        check(is_right, "rule", shown);
        let is_timed = chains[index]["block_time_ms"] == json!(now_rules.block_ms);
        check(is_timed || since <= SETTLED, "block time", &chains[index]["block_time_ms"]);
        Some(head - newest)
    }
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Plays the year in this process, which plays nothing else, or so many calm chains for so many seconds. Returns true if all
/// was right.
pub fn run(calm: Option<(usize, u64)>) -> bool {
    let (count, seconds) = calm.unwrap_or((4, END));
    let changes: &[u64] = if calm.is_some() { &[] } else { &CHANGES };
    let lines = Lines::default();
    let log = lines.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(move || log.clone())
        .init();
    let mut wrong = clock::run(1, async {
        let chains = (0..count).map(Chain::new).collect();
        let year = Year(Arc::new(Mutex::new(chains)));
        year.play(Duration::from_secs(seconds), changes).await
    });
    let logged = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    wrong.extend(String::from_utf8_lossy(&logged).lines().map(str::to_owned));
    wrong.iter().take(40).for_each(|it| println!("{it}"));
    println!("the year: {} mistakes", wrong.len());
    wrong.is_empty()
}
