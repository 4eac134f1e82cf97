//! Polls of hostile nodes: generated replies pass through the code that parses, prices, checks and publishes them.
//! Each publication is checked against a second, independent implementation of the rules.
//!
//! The tests run a sample; `benches/replies.rs` runs millions of replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use gas_suggestion::config::{Chain, Config};
use gas_suggestion::extras::sections;
use gas_suggestion::fees::plausibility;
use gas_suggestion::fees::{
    self, BlockAge, ChainParameters, FeeHistory, Market, Pricing, PricingType, Suggestion,
};
use gas_suggestion::nodes as upstream;
use gas_suggestion::nodes::FeeHistoryRequest;
use gas_suggestion::poll::judge::{Judge, PublishDecision, Report};
use gas_suggestion::store::{Accepted, ChainStore, Publisher};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Number of replies by outcome: `published`, `known`, `confirmed`, or the reason of a rejection.
pub(crate) type Tally = BTreeMap<&'static str, u64>;

const BLOCK_TIME: Duration = Duration::from_secs(2);
const WINDOW: usize = 20;

/// Runs polls until this many replies are parsed.
///
/// # Panics
///
/// Panics with the rule and the reply when a publication violates a rule.
pub(crate) fn run(replies: u64, seed: u64) -> Tally {
    let mut tally = Tally::new();
    let mut random = Random(seed);
    let chains = chains();
    while tally.values().sum::<u64>() < replies {
        let chain = &chains[random.below(chains.len())];
        run_session(chain, &mut random, &mut tally);
    }
    tally
}

/// Returns chains with one and with two percentiles, with and without floors.
fn chains() -> Vec<Chain> {
    const FLOORS: &str = "base_fee_floor = \"1 gwei\"\npriority_fee_floor = \"20 gwei\"\n";
    const TWO: &str = "reward_percentiles = [60, 100]\n";
    let texts = ["", FLOORS, TWO, &[TWO, FLOORS].concat(), "zero_base_fee = \"eip-1559\"\n"];
    let chain = |pricing: &&str| {
        let text = format!(
            "[chains.a]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]\nblock_time = \"2s\"\n\
             max_age = \"1h\"\nhistory_blocks = 64\n[chains.a.pricing]\n{pricing}"
        );
        Config::from_toml(&text, &sections()).unwrap().chains.remove(0)
    };
    texts.iter().map(chain).collect()
}

/// Runs 200 polls of one chain through up to three nodes.
fn run_session(chain: &Chain, random: &mut Random, tally: &mut Tally) {
    let (store, mut publishers) = ChainStore::new(std::slice::from_ref(chain));
    let mut poller = Poller {
        store,
        publisher: publishers.remove(0),
        heads: Judge::new(BLOCK_TIME, chain.max_age),
        request: FeeHistoryRequest::new(&chain.pricing),
        chain: chain.clone(),
        rules: HeadRules::default(),
        last_history: None,
        base_fee_unit: random.amount(false) / 128,
    };
    let nodes = 1 + random.below(3);
    let hostility = random.below(4);
    let mut now = Instant::now();
    let mut head = random.next() >> random.below(64);
    for _ in 0..200 {
        // Mostly a block per poll; sometimes a pause, a burst or a reset.
        now += BLOCK_TIME * (1 + u32::try_from(random.below(20) / 19 * random.below(30)).unwrap());
        head = match random.below(60) {
            0 => random.next() >> random.below(64),
            1 => head.saturating_sub(random.next() >> 50),
            2..10 => head,
            _ => head.saturating_add(1 + u64::try_from(random.below(3)).unwrap()),
        };
        poller.poll(nodes, head, hostility, now, random, tally);
    }
}

struct Poller {
    store: ChainStore,
    publisher: Publisher,
    heads: Judge,
    request: FeeHistoryRequest,
    chain: Chain,
    rules: HeadRules,
    last_history: Option<FeeHistory>,
    /// Base fees of the chain are 64 to 128 of these.
    base_fee_unit: u128,
}

impl Poller {
    /// Polls the nodes in order, as the service does. Stops at the first accepted reply, unless the round has to
    /// query other nodes too.
    fn poll(
        &mut self,
        nodes: usize,
        head: u64,
        hostility: usize,
        now: Instant,
        random: &mut Random,
        tally: &mut Tally,
    ) {
        let mut round = self.heads.start_round(now);
        let mut unconfirmed = Vec::new();
        let mut claims: Vec<Claim> = Vec::new();
        let mut published = Vec::new();
        for node in 0..nodes {
            let lag = if random.below(8) == 0 { random.below(12) } else { 0 };
            let head = head.saturating_sub(u64::try_from(lag).unwrap());
            let percentiles = self.chain.pricing.percentiles().iter().count();
            let reply = reply(head, hostility, self.base_fee_unit, percentiles, random);
            let outcome = read(&reply, &self.request, &self.chain).and_then(|(history, market)| {
                let claimed = history.newest_block();
                let earlier = self.last_history.as_ref();
                let report = Report {
                    upstream: node,
                    head: claimed,
                    base_fee: history.newest_known_base_fee(),
                    block_age: BlockAge::Unknown,
                    is_of_now: false,
                    suspicious_amounts: plausibility::suspicious_amounts(
                        &history,
                        earlier,
                        &self.chain.pricing,
                        &ChainParameters::from_pricing(&self.chain.pricing),
                    ),
                };
                let decision = round.check(report);
                claims.push(Claim { node, head: claimed, is_plausible: decision.is_ok() });
                match decision {
                    Ok(PublishDecision::Publish) => {
                        published.push((history, market, reply, None));
                        Ok("published")
                    }
                    Ok(PublishDecision::AlreadyPublished) => Ok("known"),
                    Err(implausible) => {
                        unconfirmed.push((node, history, market, reply));
                        Err(implausible.reason())
                    }
                }
            });
            let (Ok(name) | Err(name)) = outcome;
            *tally.entry(name).or_default() += 1;
            if outcome.is_ok() && !round.should_query_others() {
                break;
            }
        }
        if let Some(confirmed) = round.finish().confirmed {
            let is_confirmed = |(node, ..): &(usize, _, _, _)| *node == confirmed.upstream;
            let found = unconfirmed.into_iter().find(is_confirmed).unwrap();
            *tally.entry("confirmed").or_default() += 1;
            published.push((found.1, found.2, found.3, Some(found.0)));
        }
        self.rules.claimed(&claims, now);
        for (history, market, reply, confirmed) in published {
            let head = history.newest_block();
            self.rules
                .head(head, &claims, confirmed, now)
                .and_then(|()| if confirmed.is_some() { Ok(()) } else { check_base_fees(&history) })
                .and_then(|()| {
                    self.last_history = Some(history.clone());
                    self.publisher.publish(Accepted::now(&history, market));
                    self.check_published(&history, &reply)
                })
                .unwrap_or_else(|violation| {
                    panic!("{violation}: {}", String::from_utf8_lossy(&reply))
                });
        }
    }

    /// Checks the served suggestion against the reply that it was calculated from.
    fn check_published(&self, history: &FeeHistory, reply: &[u8]) -> Result<(), String> {
        let fresh = self.store.chains()[0].servable_snapshot().map_err(|why| format!("{why:?}"))?;
        let snapshot = &fresh.snapshot;
        ensure(snapshot.newest_block == history.newest_block(), "another block is served")?;
        ensure(history.blocks().len() <= WINDOW, "more blocks than the window")?;
        let sent = String::from_utf8_lossy(reply).replace("NaN", "null");
        let sent: BTreeMap<String, &RawValue> =
            serde_json::from_str(&sent).map_err(|error| error.to_string())?;
        let is = |name, text| sent.get(name).is_some_and(|value| value.get() == text);
        let is_error = sent.contains_key("error") && !is("error", "null");
        ensure(!is_error && is("id", "7"), "not a response to the call")?;
        let has_rewards = sent.get("result").is_some_and(|result| has_a_reward(result));
        check_suggestion(&snapshot.market.suggestion, &self.chain.pricing, has_rewards)?;
        let body: Value =
            serde_json::from_slice(&snapshot.body).map_err(|error| error.to_string())?;
        for tier in ["medium", "high"] {
            for amount in ["max_fee_per_gas", "max_priority_fee_per_gas"] {
                let text = body[tier][amount].as_str().unwrap_or_default();
                let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                ensure(is_decimal && text.parse::<u128>().is_ok(), "an amount is not decimal wei")?;
            }
        }
        Ok(())
    }
}

/// Checks the rules of a suggestion that need no other implementation.
pub(crate) fn check_suggestion(
    suggestion: &Suggestion,
    pricing: &Pricing,
    has_rewards: bool,
) -> Result<(), String> {
    let Suggestion { pricing_type, base_fee_per_gas, tiers } = suggestion;
    for tier in tiers.into_array() {
        let sum = base_fee_per_gas.checked_add(tier.max_priority_fee_per_gas);
        ensure(sum == Some(tier.max_fee_per_gas), "the fees do not add up")?;
        ensure(
            tier.max_priority_fee_per_gas >= pricing.priority_fee_floor.max(1),
            "below the floor",
        )?;
    }
    let tips = tiers.map(|tier| tier.max_priority_fee_per_gas);
    ensure(tips.into_array().is_sorted(), "the tips do not ascend")?;
    match pricing_type {
        PricingType::Legacy => ensure(*base_fee_per_gas == 0, "a base fee of a gas price")?,
        PricingType::Eip1559 => {
            ensure(*base_fee_per_gas >= pricing.base_fee_floor, "below the base fee floor")?;
        }
    }
    ensure(has_rewards || pricing.has_priority_fee_floor(), "a tip from missing rewards")
}

type Priced = (FeeHistory, Market);

fn read(reply: &[u8], request: &FeeHistoryRequest, chain: &Chain) -> Result<Priced, &'static str> {
    let result = upstream::parse_reply(reply, 200, 7).map_err(|error| error.reason())?;
    let history = request.parse(&result).map_err(|error| upstream::Error::from(error).reason())?;
    let parameters = fees::ChainParameters::from_pricing(&chain.pricing);
    let market = fees::price(&history, &[], &chain.pricing, &parameters)
        .map_err(fees::PricingError::reason)?;
    Ok((history, market))
}

/// Returns an error if a base fee is over eight times that of the block before, or under an eighth of it. After 0 any may
/// follow.
fn check_base_fees(history: &FeeHistory) -> Result<(), String> {
    let mined = history.blocks().iter().map(|block| block.base_fee);
    let all: Vec<_> = mined.chain(history.next_base_fee()).collect();
    let is_leap = |pair: &[u128]| {
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        pair[0] > 0 && high - low > 1000 && high / 8 > low
    };
    ensure(!all.windows(2).any(is_leap), "a leap of the base fee")
}

/// Head that a node reports in a poll.
struct Claim {
    node: usize,
    head: u64,
    is_plausible: bool,
}

/// Second implementation of the rules for heads, as simple as possible.
#[derive(Default)]
struct HeadRules {
    published: Option<(u64, Instant)>,
    /// Successive replies of each node that were not plausible.
    suspicious: BTreeMap<usize, u32>,
    /// When a reply was last published, or known.
    plausible_at: Option<Instant>,
    /// Highest head that needs no confirmation in this poll, if the chain is 100 times faster than configured.
    highest: u128,
}

impl HeadRules {
    /// Time without a plausible reply or a new block after which any node is believed.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Returns the highest head that needs no confirmation on a chain that is `speed_up` times faster than configured.
    fn highest(&self, now: Instant, speed_up: u32) -> u128 {
        let Some((last, since)) = self.published else { return u128::MAX };
        let expected = (now - since).as_nanos().div_ceil((BLOCK_TIME / speed_up).as_nanos());
        u128::from(last) + 2 * expected + 5
    }

    fn claimed(&mut self, claims: &[Claim], now: Instant) {
        self.highest = self.highest(now, 100);
        for claim in claims {
            let count = self.suspicious.entry(claim.node).or_default();
            *count = if claim.is_plausible { 0 } else { *count + 1 };
            if claim.is_plausible {
                self.plausible_at = Some(now);
            }
        }
    }

    fn head(
        &mut self,
        head: u64,
        claims: &[Claim],
        confirmed: Option<usize>,
        now: Instant,
    ) -> Result<(), String> {
        match (self.published, confirmed) {
            (Some((last, _)), None) => {
                ensure(head >= last, "a lower head")?;
                ensure(u128::from(head) <= self.highest, "a head too far ahead")?;
            }
            (_, Some(node)) => {
                let near = claims.iter().filter(|claim| claim.head.abs_diff(head) <= 5);
                let agree = near.map(|claim| claim.node).collect::<BTreeSet<_>>().len() >= 2;
                ensure(agree || self.suspicious[&node] >= 3, "published without confirmation")?;
                let stands_still =
                    self.published.is_some_and(|(_, since)| now - since >= Self::PATIENCE);
                let other = claims.iter().find(|claim| claim.is_plausible);
                let is_preferred = other.is_none_or(|other| node < other.node);
                ensure(agree || is_preferred || stands_still, "another node was plausible")?;
            }
            (None, None) => {}
        }
        if self.published.is_none_or(|(last, _)| last != head) {
            self.published = Some((head, now));
        }
        Ok(())
    }
}

fn ensure(holds: bool, rule: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("broken: {rule}")) }
}

/// Returns true if the first element of any row of rewards in a result is a quantity.
fn has_a_reward(result: &RawValue) -> bool {
    fn elements(array: &RawValue) -> Vec<&RawValue> {
        serde_json::from_str(array.get()).unwrap_or_default()
    }
    let is_quantity = |element: &&RawValue| {
        let text = element.get().trim_matches('"');
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex || text.parse::<u64>().is_ok()
    };
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(result.get()).unwrap();
    let rows = members.get("reward").map(|rows| elements(rows)).unwrap_or_default();
    rows.into_iter().any(|row| elements(row).first().is_some_and(is_quantity))
}

/// Generates a reply to call 7 by a node at block `head`: valid, or broken in some ways.
fn reply(
    head: u64,
    hostility: usize,
    base_fee_unit: u128,
    percentiles: usize,
    random: &mut Random,
) -> Vec<u8> {
    let blocks = if random.below(10) == 0 { random.below(64) } else { WINDOW };
    let is_absurd = hostility > 0 && random.below(10) == 0;
    let amount = |random: &mut Random| format!("{:#x}", random.amount(is_absurd));
    let oldest = head.saturating_sub(u64::try_from(blocks).unwrap().saturating_sub(1));
    let base_fee = |block: usize| {
        // It rises for 64 blocks and falls for 64.
        let phase = (oldest % 128 + u64::try_from(block).unwrap()) % 128;
        base_fee_unit * u128::from(64 + phase.min(128 - phase))
    };
    let mut base_fees: Vec<Value> =
        (0..=blocks).map(|block| format!("{:#x}", base_fee(block)).into()).collect();
    if hostility > 0 && random.below(10) == 0 {
        let at = random.below(blocks + 1);
        base_fees[at] = amount(random).into();
    }
    let rewards: Vec<Value> = (0..blocks)
        .map(|_| (0..percentiles).map(|_| amount(random)).collect::<Vec<_>>().into())
        .collect();
    let mut result = json!({
        "oldestBlock": format!("{oldest:#x}"),
        "baseFeePerGas": base_fees,
        "gasUsedRatio": vec![0.5; blocks],
        "reward": rewards,
    });
    let mut envelope = json!({ "jsonrpc": "2.0", "id": 7 });
    for _ in 0..(random.below(3) * hostility).min(3) {
        break_result(&mut result, random);
    }
    envelope["result"] = result;
    if hostility > 0 && random.below(12) == 0 {
        match random.below(6) {
            0 => envelope["id"] = odd_value(random),
            1 => envelope["error"] = odd_value(random),
            2 => envelope["error"] = json!({ "code": -32005, "message": "limit" }),
            3 => envelope["error"] = json!({ "code": -32601 }),
            4 => envelope["result"] = odd_value(random),
            _ => _ = envelope.as_object_mut().unwrap().remove("id"),
        }
    }
    let mut bytes = envelope.to_string().into_bytes();
    if hostility > 0 {
        match random.below(40) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                let at = random.below(bytes.len());
                bytes[at] = random.next().to_le_bytes()[0];
            }
            2 => bytes = String::from_utf8(bytes).unwrap().replace("0.5", "NaN").into_bytes(),
            3 => bytes = b"<html>".to_vec(),
            4 => bytes.clear(),
            _ => {}
        }
    }
    bytes
}

fn break_result(result: &mut Value, random: &mut Random) {
    const MEMBERS: [&str; 4] = ["oldestBlock", "baseFeePerGas", "gasUsedRatio", "reward"];
    let member = MEMBERS[random.below(4)];
    let Some(object) = result.as_object_mut() else { return };
    let kind = random.below(12);
    match kind {
        0 => _ = object.remove(member),
        1 => _ = object.insert(member.into(), odd_value(random)),
        2 => {
            if let Some(value) = object.remove(member) {
                object.insert(member.to_lowercase(), value);
            }
        }
        3..8 => {
            if let Some(Value::Array(array)) = object.get_mut(member) {
                match kind {
                    6 => array.truncate(random.below(array.len() + 1)),
                    7 => array.push(odd_value(random)),
                    _ if array.is_empty() => {}
                    _ => {
                        let at = random.below(array.len());
                        array[at] = odd_value(random);
                    }
                }
            }
        }
        8 => {
            // The same degenerate reward row for every block: null, empty, zeros or nulls.
            let row = [json!(null), json!([]), json!(["0x0", "0x0"]), json!([null])];
            object.insert("reward".into(), vec![row[random.below(4)].clone(); WINDOW].into());
        }
        9 => _ = object.insert("reward".into(), Value::Null),
        10 => _ = object.insert("baseFeePerGas".into(), vec!["0x0"; WINDOW + 1].into()),
        _ => {
            let head = random.next() >> random.below(64);
            object.insert("oldestBlock".into(), format!("{head:#x}").into());
        }
    }
}

/// Returns an invalid or unusual value that some nodes send instead of a valid one.
fn odd_value(random: &mut Random) -> Value {
    let values = ODD_VALUES.as_array().unwrap();
    values[random.below(values.len())].clone()
}

static ODD_VALUES: LazyLock<Value> = LazyLock::new(|| {
    let values = r#"[
        null, "0x", "0x00000a", "-0x5", "12", "", 0, 7, -1, 1.5, 18446744073709551615,
        "0xffffffffffffffffffffffffffffffff", "0x100000000000000000000000000000000", "0xde0b6b3a764000000",
        [], ["0x1"], [null, "0x1"], {}, true, "latest", "0x7fffffffffffffff", "0xffffffffffffffff"
    ]"#;
    serde_json::from_str(values).unwrap()
});

/// `SplitMix64` generator: the same seed yields the same sequence on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// Returns an amount in wei: usually realistic, sometimes 0. With `is_absurd` it may be as large as `u128::MAX`.
    fn amount(&mut self, is_absurd: bool) -> u128 {
        match self.below(40) {
            0 if is_absurd => u128::MAX,
            1..8 if is_absurd => u128::from(self.next()) << self.below(64),
            0..4 => 0,
            _ => u128::from(self.next() % 1_000_000_000_000),
        }
    }
}
