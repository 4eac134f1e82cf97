//! Delay from a node's new block to a service's first response for it, and the number of polls.
//!
//! Usage, started by `freshness.sh`:
//! - `freshness node BLOCK_MS JITTER_PERCENT`: serves the recorded chains of `demo` until stdin ends. Prints the free
//!   loopback address on which it listens.
//! - `freshness mine NODE BLOCK_MS JITTER_PERCENT`: makes a node mine until stdin ends.
//! - `freshness watch BLOCKS NODE BLOCK_MS PERCENTILES [NAME=SERVICE,ADMIN,CHAIN | NAME=HOST/PATH,MEMBER]...`: samples
//!   a node and the services that poll it every 2 ms. A service is this one, or another that serves its block number in
//!   MEMBER of a JSON object. It also runs plain tickers. Prints a row for each: name, number of blocks, polls per
//!   block, and the median, 90th and 99th percentile and maximum delay in milliseconds. A delay runs from the request
//!   that first showed the block at the node to the first response of the service with it. It is exact to about 2 ms.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gas_suggestion::extras::demo;
use serde_json::Value;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
/// Blocks to wait until the service has learnt the block schedule.
const BLOCKS_TO_LEARN: u64 = 5;
const TICKERS: u32 = 8;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["node", block, jitter] => timing(block, jitter).and_then(node),
        ["mine", node, block, jitter] => {
            timing(block, jitter).and_then(|timing| mine(node, timing))
        }
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

fn timing(block: &str, jitter: &str) -> Result<demo::BlockTiming, BoxError> {
    Ok(demo::BlockTiming {
        block_time: Duration::from_millis(block.parse()?),
        jitter: jitter.parse()?,
    })
}

fn node(timing: demo::BlockTiming) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = demo::ReplayNode::bind(timing)?;
    println!("{}", node.address()?);
    thread::spawn(move || runtime.block_on(node.run()));
    wait_for_end();
    Ok(())
}

fn wait_for_end() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

fn mine(node: &str, timing: demo::BlockTiming) -> Result<(), BoxError> {
    let is_done = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_done);
    thread::spawn(move || {
        wait_for_end();
        over.store(true, Ordering::Relaxed);
    });
    let mut connection = Connection::connect(node)?;
    let started = Instant::now();
    for block in 1.. {
        while let Some(rest) = timing.block_due(block).checked_sub(started.elapsed()) {
            if is_done.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(rest.min(Duration::from_millis(100)));
        }
        connection.call("evm_mine", "")?;
    }
    Ok(())
}

/// A keep-alive HTTP connection.
struct Connection {
    stream: BufReader<TcpStream>,
    /// Host, and path for JSON-RPC calls.
    host: String,
    path: String,
}

struct Response {
    newest_block: Option<u64>,
    body: Vec<u8>,
}

impl Connection {
    fn connect(url: &str) -> Result<Self, BoxError> {
        let (host, path) = url.split_once('/').unwrap_or((url, ""));
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { stream: BufReader::new(stream), host: host.into(), path: format!("/{path}") })
    }

    fn get(&mut self, path: &str) -> Result<Response, BoxError> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        self.send(&request)
    }

    fn call(&mut self, method: &str, params: &str) -> Result<Value, BoxError> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[{params}]}}"
        );
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            self.host,
            body.len()
        );
        let response: Value = serde_json::from_slice(&self.send(&request)?.body)?;
        let result = response.get("result").filter(|result| !result.is_null());
        Ok(result.cloned().ok_or_else(|| format!("{method}: {response}"))?)
    }

    fn send(&mut self, request: &str) -> Result<Response, BoxError> {
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
        Ok(Response { newest_block, body })
    }
}

fn number(hex: &Value) -> Result<u64, BoxError> {
    let digits = hex.as_str().and_then(|text| text.strip_prefix("0x")).ok_or("no quantity")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// First time at which each block was seen.
type Seen = BTreeMap<u64, Instant>;

/// State shared by the observers.
#[derive(Clone, Default)]
struct Observers {
    /// Newest block of the node.
    head: Arc<AtomicU64>,
    is_done: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Observers {
    /// Runs `observe` at an interval and records when each block was first seen.
    fn follow(
        &self,
        every: Duration,
        mut observe: impl FnMut() -> Result<(Instant, Option<u64>), BoxError> + Send + 'static,
    ) -> thread::JoinHandle<Seen> {
        let observers = self.clone();
        thread::spawn(move || {
            let mut seen = Seen::new();
            let mut next = Instant::now();
            while !observers.is_done.load(Ordering::Relaxed) {
                match observe() {
                    Ok((at, Some(head))) => {
                        seen.entry(head).or_insert(at);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let mut failure =
                            observers.failure.lock().unwrap_or_else(PoisonError::into_inner);
                        *failure = Some(error.to_string());
                        observers.is_done.store(true, Ordering::Relaxed);
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
) -> Result<(), BoxError> {
    let (blocks, block): (u64, u64) = (blocks.parse()?, block.parse()?);
    let block = Duration::from_millis(block);
    let observers = Observers::default();
    let mut connection = Connection::connect(node)?;
    let (first, head) =
        (number(&connection.call("eth_blockNumber", "")?)?, Arc::clone(&observers.head));
    head.store(first, Ordering::Relaxed);
    let node_observer = observers.follow(SAMPLE_INTERVAL, move || {
        let sent_at = Instant::now();
        let newest = number(&connection.call("eth_blockNumber", "")?)?;
        head.store(newest, Ordering::Relaxed);
        Ok((sent_at, Some(newest)))
    });
    // A plain ticker sends the same call as the service once per block time. Several run, with different phases.
    let params = format!("\"0x14\",\"latest\",[{percentiles}]");
    let mut tickers = Vec::new();
    for _ in 0..TICKERS {
        let (mut connection, params) = (Connection::connect(node)?, params.clone());
        tickers.push(observers.follow(block, move || {
            let history = connection.call("eth_feeHistory", &params)?;
            let oldest = number(history.get("oldestBlock").unwrap_or(&Value::Null))?;
            let blocks = history.get("gasUsedRatio").and_then(Value::as_array).map_or(0, Vec::len);
            Ok((Instant::now(), (oldest + u64::try_from(blocks)?).checked_sub(1)))
        }));
        thread::sleep(block / TICKERS);
    }
    let (mut observed, mut ours) = (Vec::new(), Vec::new());
    for service in services {
        let (name, rest) = service.split_once('=').ok_or("NAME=…")?;
        let follow = match rest.split(',').collect::<Vec<_>>()[..] {
            [address, admin, chain] => {
                let path = format!("/v1/{chain}/gas-suggestion");
                let mut connection = Connection::connect(address)?;
                ours.push((name, admin, chain));
                observers.follow(SAMPLE_INTERVAL, move || {
                    let newest = connection.get(&path)?.newest_block;
                    Ok((Instant::now(), newest))
                })
            }
            [url, member] => {
                let (mut connection, member) = (Connection::connect(url)?, member.to_owned());
                let path = connection.path.clone();
                observers.follow(SAMPLE_INTERVAL, move || {
                    let response: Value = serde_json::from_slice(&connection.get(&path)?.body)?;
                    Ok((Instant::now(), response.get(&member).and_then(Value::as_u64)))
                })
            }
            _ => return Err("NAME=SERVICE,ADMIN,CHAIN or NAME=HOST/PATH,MEMBER".into()),
        };
        observed.push((name, follow));
    }

    let wait_for = |number: u64| {
        while observers.head.load(Ordering::Relaxed) < number
            && !observers.is_done.load(Ordering::Relaxed)
        {
            thread::sleep(SAMPLE_INTERVAL);
        }
    };
    wait_for(first + BLOCKS_TO_LEARN);
    // Half-way between blocks, so that no poll is in flight.
    thread::sleep(block / 2);
    let before = polls(&ours)?;
    let from = observers.head.load(Ordering::Relaxed) + 1;
    wait_for(from + blocks);
    thread::sleep(block / 2);
    let after = polls(&ours)?;
    let to = observers.head.load(Ordering::Relaxed);
    // Wait until the services have served the last blocks.
    wait_for(to + 3);
    observers.is_done.store(true, Ordering::Relaxed);
    let node_blocks = node_observer.join().map_err(|_| "a thread has panicked")?;
    let mut ticked = Vec::new();
    for ticker in tickers {
        ticked.push(ticker.join().map_err(|_| "a thread has panicked")?);
    }
    if let Some(failure) = observers.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure.into());
    }
    let range = from..to;
    let per_block = |polls: u64| {
        f64::from(u32::try_from(polls).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(to - from + 1).unwrap_or(u32::MAX))
    };
    let mut ticker_lags = Vec::new();
    for seen in ticked {
        ticker_lags.extend(lags(&node_blocks, &seen, range.clone())?);
    }
    row("a plain ticker", "1.00", ticker_lags);
    for (name, follow) in observed {
        let served = follow.join().map_err(|_| "a thread has panicked")?;
        let polls = before.get(name).zip(after.get(name)).map(|(before, after)| after - before);
        let polls = polls.map_or_else(|| "–".into(), |polls| format!("{:.2}", per_block(polls)));
        row(name, &polls, lags(&node_blocks, &served, range.clone())?);
    }
    Ok(())
}

/// Returns the number of polls of each of our services, given as name, admin address and chain.
fn polls<'a>(services: &[(&'a str, &str, &str)]) -> Result<BTreeMap<&'a str, u64>, BoxError> {
    let count = |(name, admin, chain): &(&'a str, &str, &str)| {
        let metrics = String::from_utf8(Connection::connect(admin)?.get("/metrics")?.body)?;
        let counter = format!("gas_suggestion_polls_total{{chain=\"{chain}\",outcome=\"");
        let counts = metrics.lines().filter_map(|line| line.strip_prefix(&counter));
        let counts = counts.filter_map(|rest| rest.split_once(' '));
        let polls = counts.map(|(_, count)| count.parse::<u64>()).sum::<Result<_, _>>()?;
        Ok((*name, polls))
    };
    services.iter().map(count).collect()
}

/// Returns the delay of each block from the node to the service.
fn lags(
    node_blocks: &Seen,
    served: &Seen,
    range: std::ops::Range<u64>,
) -> Result<Vec<Duration>, BoxError> {
    let mut lags = Vec::new();
    for (block, came) in node_blocks.range(range) {
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
