//! How long after a node has a block a service serves it, and how often it asks for that.
//!
//! Usage, started by `freshness.sh`:
//! - `freshness node BLOCK_MS JITTER_PERCENT`: the recorded chains of `demo` on a free loopback port, which it
//!   prints. It ends when its input does.
//! - `freshness mine NODE BLOCK_MS JITTER_PERCENT`: has a node mine, until its input ends.
//! - `freshness watch BLOCKS NODE BLOCK_MS PERCENTILES [NAME=SERVICE,ADMIN,CHAIN | NAME=HOST/PATH,MEMBER]...`: looks
//!   at a node and at services that poll it, ours or another that tells the number of its block in a member of its
//!   JSON, every 2 ms, beside plain tickers of its own, and prints a row for each: its name, polls
//!   per block, and the median, 90th and 99th percentile and maximum of the milliseconds from the moment at which
//!   the node was asked when it first had a block to the one at which it was first served. So what it prints is
//!   exact to about 2 ms.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gas_suggestion::demo;
use serde_json::Value;

const LOOK: Duration = Duration::from_millis(2);
/// Until the service knows the chain's pace.
const BLOCKS_TO_LEARN: u64 = 20;
const TICKERS: u32 = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["node", block, jitter] => pace(block, jitter).and_then(node),
        ["mine", node, block, jitter] => pace(block, jitter).and_then(|pace| mine(node, pace)),
        ["watch", blocks, node, block, percentiles, services @ ..] => {
            watch(blocks, node, block, percentiles, services)
        }
        _ => Err("freshness.sh starts this".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("freshness: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pace(block: &str, jitter: &str) -> Result<demo::Pace, Failure> {
    Ok(demo::Pace { block_time: Duration::from_millis(block.parse()?), jitter: jitter.parse()? })
}

fn node(pace: demo::Pace) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = runtime.block_on(demo::Node::bind(pace))?;
    println!("{}", node.address()?);
    thread::spawn(move || runtime.block_on(node.run()));
    wait_for_end();
    Ok(())
}

fn wait_for_end() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

fn mine(node: &str, pace: demo::Pace) -> Result<(), Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        wait_for_end();
        over.store(true, Ordering::Relaxed);
    });
    let mut connection = Connection::to(node)?;
    let started = Instant::now();
    for block in 1.. {
        while let Some(rest) = pace.due(block).checked_sub(started.elapsed()) {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(rest.min(Duration::from_millis(100)));
        }
        connection.call("evm_mine", "")?;
    }
    Ok(())
}

/// A connection over which one request follows the other.
struct Connection {
    stream: BufReader<TcpStream>,
    /// The host, and the path for calls.
    host: String,
    path: String,
}

struct Answer {
    newest_block: Option<u64>,
    body: Vec<u8>,
}

impl Connection {
    fn to(url: &str) -> Result<Self, Failure> {
        let (host, path) = url.split_once('/').unwrap_or((url, ""));
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { stream: BufReader::new(stream), host: host.into(), path: format!("/{path}") })
    }

    fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        self.exchange(&request)
    }

    fn call(&mut self, method: &str, params: &str) -> Result<Value, Failure> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[{params}]}}"
        );
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            self.host,
            body.len()
        );
        let answer: Value = serde_json::from_slice(&self.exchange(&request)?.body)?;
        let result = answer.get("result").filter(|result| !result.is_null());
        Ok(result.cloned().ok_or_else(|| format!("{method}: {answer}"))?)
    }

    fn exchange(&mut self, request: &str) -> Result<Answer, Failure> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut length, mut newest_block) = (0, None);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the connection has ended".into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", number)) => length = number.parse()?,
                Some(("x-newest-block", number)) => newest_block = Some(number.parse()?),
                None if line.is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { newest_block, body })
    }
}

fn number(hex: &Value) -> Result<u64, Failure> {
    let digits = hex.as_str().and_then(|text| text.strip_prefix("0x")).ok_or("no quantity")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// When each block was there for the first time.
type Seen = BTreeMap<u64, Instant>;

/// What is watched, until it is over.
#[derive(Clone, Default)]
struct Stage {
    /// The node's newest block.
    head: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Stage {
    /// Looks again and again, and keeps when each newest block was first there.
    fn follow(
        &self,
        every: Duration,
        mut look: impl FnMut() -> Result<(Instant, Option<u64>), Failure> + Send + 'static,
    ) -> thread::JoinHandle<Seen> {
        let stage = self.clone();
        thread::spawn(move || {
            let mut seen = Seen::new();
            let mut next = Instant::now();
            while !stage.is_over.load(Ordering::Relaxed) {
                match look() {
                    Ok((at, Some(head))) => {
                        seen.entry(head).or_insert(at);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let mut failure =
                            stage.failure.lock().unwrap_or_else(PoisonError::into_inner);
                        *failure = Some(error.to_string());
                        stage.is_over.store(true, Ordering::Relaxed);
                    }
                }
                next = (next + every).max(Instant::now());
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            seen
        })
    }
}

fn watch(
    blocks: &str,
    node: &str,
    block: &str,
    percentiles: &str,
    services: &[&str],
) -> Result<(), Failure> {
    let (blocks, block): (u64, u64) = (blocks.parse()?, block.parse()?);
    let block = Duration::from_millis(block);
    let stage = Stage::default();
    let mut connection = Connection::to(node)?;
    let (first, head) =
        (number(&connection.call("eth_blockNumber", "")?)?, Arc::clone(&stage.head));
    head.store(first, Ordering::Relaxed);
    let at_node = stage.follow(LOOK, move || {
        let asked = Instant::now();
        let newest = number(&connection.call("eth_blockNumber", "")?)?;
        head.store(newest, Ordering::Relaxed);
        Ok((asked, Some(newest)))
    });
    // A plain ticker asks for what the service asks for. When it begins is chance, so there are several.
    let params = format!("\"0x14\",\"latest\",[{percentiles}]");
    let mut tickers = Vec::new();
    for _ in 0..TICKERS {
        let (mut connection, params) = (Connection::to(node)?, params.clone());
        tickers.push(stage.follow(block, move || {
            let history = connection.call("eth_feeHistory", &params)?;
            let oldest = number(history.get("oldestBlock").unwrap_or(&Value::Null))?;
            let blocks = history.get("gasUsedRatio").and_then(Value::as_array).map_or(0, Vec::len);
            Ok((Instant::now(), (oldest + u64::try_from(blocks)?).checked_sub(1)))
        }));
        thread::sleep(block / TICKERS);
    }
    let (mut watched, mut ours) = (Vec::new(), Vec::new());
    for service in services {
        let (name, rest) = service.split_once('=').ok_or("NAME=…")?;
        let follow = match rest.split(',').collect::<Vec<_>>()[..] {
            [address, admin, chain] => {
                let path = format!("/v1/{chain}/gas-suggestion");
                let mut connection = Connection::to(address)?;
                ours.push((name, admin, chain));
                stage.follow(LOOK, move || {
                    let newest = connection.get(&path)?.newest_block;
                    Ok((Instant::now(), newest))
                })
            }
            [url, member] => {
                let (mut connection, member) = (Connection::to(url)?, member.to_owned());
                let path = connection.path.clone();
                stage.follow(LOOK, move || {
                    let answer: Value = serde_json::from_slice(&connection.get(&path)?.body)?;
                    Ok((Instant::now(), answer.get(&member).and_then(Value::as_u64)))
                })
            }
            _ => return Err("NAME=SERVICE,ADMIN,CHAIN or NAME=HOST/PATH,MEMBER".into()),
        };
        watched.push((name, follow));
    }

    let wait_for = |number: u64| {
        while stage.head.load(Ordering::Relaxed) < number && !stage.is_over.load(Ordering::Relaxed)
        {
            thread::sleep(LOOK);
        }
    };
    wait_for(first + BLOCKS_TO_LEARN);
    // Far from the polls for any block.
    thread::sleep(block / 2);
    let before = polls(&ours)?;
    let from = stage.head.load(Ordering::Relaxed) + 1;
    wait_for(from + blocks);
    thread::sleep(block / 2);
    let after = polls(&ours)?;
    let to = stage.head.load(Ordering::Relaxed);
    // What came last has to be served, too.
    wait_for(to + 3);
    stage.is_over.store(true, Ordering::Relaxed);
    let there = at_node.join().map_err(|_| "a thread has panicked")?;
    let mut ticked = Vec::new();
    for ticker in tickers {
        ticked.push(ticker.join().map_err(|_| "a thread has panicked")?);
    }
    if let Some(failure) = stage.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure.into());
    }
    let range = from..to;
    let per_block = |polls: u64| {
        f64::from(u32::try_from(polls).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(to - from + 1).unwrap_or(u32::MAX))
    };
    let mut of_tickers = Vec::new();
    for seen in ticked {
        of_tickers.extend(lags(&there, &seen, range.clone())?);
    }
    row("a plain ticker", "1.00", of_tickers);
    for (name, follow) in watched {
        let served = follow.join().map_err(|_| "a thread has panicked")?;
        let polls = before.get(name).zip(after.get(name)).map(|(before, after)| after - before);
        let polls = polls.map_or_else(|| "–".into(), |polls| format!("{:.2}", per_block(polls)));
        row(name, &polls, lags(&there, &served, range.clone())?);
    }
    Ok(())
}

/// How often each of our services, a name with its admin listener and its chain, has polled.
fn polls<'a>(services: &[(&'a str, &str, &str)]) -> Result<BTreeMap<&'a str, u64>, Failure> {
    let count = |(name, admin, chain): &(&'a str, &str, &str)| {
        let metrics = String::from_utf8(Connection::to(admin)?.get("/metrics")?.body)?;
        let counter = format!("gas_suggestion_polls_total{{chain=\"{chain}\",outcome=\"");
        let counts = metrics.lines().filter_map(|line| line.strip_prefix(&counter));
        let counts = counts.filter_map(|rest| rest.split_once(' '));
        let polls = counts.map(|(_, count)| count.parse::<u64>()).sum::<Result<_, _>>()?;
        Ok((*name, polls))
    };
    services.iter().map(count).collect()
}

/// How long after it was at the node each block was served.
fn lags(
    there: &Seen,
    served: &Seen,
    range: std::ops::Range<u64>,
) -> Result<Vec<Duration>, Failure> {
    let mut lags = Vec::new();
    for (block, came) in there.range(range) {
        let (_, at) = served.range(block..).next().ok_or("the last blocks were never served")?;
        lags.push(at.saturating_duration_since(*came));
    }
    Ok(lags)
}

fn row(name: &str, polls_per_block: &str, mut lags: Vec<Duration>) {
    lags.sort_unstable();
    let at = |percent: usize| {
        let index = (lags.len() * percent / 100).min(lags.len().saturating_sub(1));
        lags.get(index).map_or(0.0, |lag| lag.as_secs_f64() * 1000.0)
    };
    println!(
        "{name},{},{polls_per_block},{:.0},{:.0},{:.0},{:.0}",
        lags.len(),
        at(50),
        at(90),
        at(99),
        at(100)
    );
}
