//! Thousands of subscribers of one chain: the time until the last of them has a new value, and the memory per
//! subscriber.
//!
//! Usage: `streams SUBSCRIBERS SILENT BLOCKS`. It serves a mock node with a new block for each poll, and prints the
//! free loopback address on which it listens. It then reads from stdin the address and process id of the service that
//! polls the node, subscribes, and measures. The time of a value starts at the node's reply, so it includes the
//! service's own work. SILENT further subscribers never read; they stay until the next line on stdin.
//!
//! It fails if a subscriber misses the newest value or receives an older one, if the median time to the last subscriber
//! is 100 ms or more, or if a subscriber takes 20 KB or more (60 KB with SILENT subscribers).

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Limit of the median time to the last subscriber.
const MAX_TIME: Duration = Duration::from_millis(100);
/// Limit of the service's memory per subscriber.
const MAX_BYTES: u64 = 20_000;
/// Limit with subscribers that never read: the service holds their unsent event in memory.
const MAX_BYTES_STALLED: u64 = 3 * MAX_BYTES;
/// Timeout for every awaited event.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Subscribers per client address. The default limits are 1,024 connections and a burst of 1,000 requests.
const STREAMS_PER_ADDRESS: usize = 900;
/// Receive buffer of subscribers that never read.
const SMALL_BUFFER: u32 = 4096;
const FIRST_BLOCK: u64 = 1000;

fn main() -> ExitCode {
    let numbers: Vec<usize> =
        std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let &[subscribers @ (1..), silent, blocks @ (1..)] = numbers.as_slice() else {
        eprintln!("usage: streams SUBSCRIBERS SILENT BLOCKS; benches/streams.sh starts it");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime
        .and_then(|runtime| LocalSet::new().block_on(&runtime, run(subscribers, silent, blocks)))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("streams: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A chain with a new block at a new price for each poll, once `is_running`.
#[derive(Debug, Default)]
struct Chain {
    is_running: bool,
    /// Times at which the node sent each block after the first to the service.
    sent_at: Vec<Instant>,
}

type SharedChain = Arc<Mutex<Chain>>;

async fn reply(State(chain): State<SharedChain>, Json(call): Json<Value>) -> Json<Value> {
    let result = match call.get("method").and_then(Value::as_str) {
        Some("eth_chainId") => json!("0x7e4"),
        Some("eth_feeHistory") => {
            let mut chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
            // Readings of rewards ask for more blocks. They are no polls.
            let is_poll = call.pointer("/params/0") == Some(&json!("0x14"));
            if chain.is_running && is_poll {
                chain.sent_at.push(Instant::now());
            }
            fee_history(FIRST_BLOCK + count(chain.sent_at.len()))
        }
        _ => Value::Null,
    };
    Json(json!({"jsonrpc": "2.0", "id": call.get("id"), "result": result}))
}

fn fee_history(newest: u64) -> Value {
    let wei = |amount: u64| format!("{amount:#x}");
    json!({
        "oldestBlock": wei(newest - 19),
        "baseFeePerGas": vec![wei(2_000_000_000 + newest); 21],
        "gasUsedRatio": vec![0.5; 20],
        "reward": vec![[wei(30_000_000_000)]; 20],
    })
}

/// Progress of the subscribers.
#[derive(Debug, Default)]
struct Progress {
    /// By block: number of subscribers that have it, and when the last of them received it.
    received: Vec<(usize, Option<Instant>)>,
    /// Number of subscribers with a value.
    begun: usize,
    /// Number of subscribers with the last block.
    done: usize,
    errors: Vec<String>,
}

/// Returns true if all results are within the limits.
async fn run(subscribers: usize, silent: usize, blocks: usize) -> io::Result<bool> {
    let chain = SharedChain::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    let app = Router::new().fallback(post(reply)).with_state(Arc::clone(&chain));
    tokio::task::spawn_local(async move { axum::serve(listener, app).await });

    let line = next_line().await?;
    let wrong = || io::Error::other(format!("no address and process id: {line}"));
    let (address, process) = line.split_once(' ').ok_or_else(wrong)?;
    let address: SocketAddr = address.parse().map_err(|_| wrong())?;

    let progress = Rc::new(RefCell::new(Progress::default()));
    progress.borrow_mut().received.resize(blocks + 1, (0, None));
    let (changed, mut receiver) = watch::channel(());
    let changed = Rc::new(changed);
    let subscribe = |number| {
        let (progress, changed) = (Rc::clone(&progress), Rc::clone(&changed));
        async move {
            let stream = connect(address, number, None).await?;
            tokio::task::spawn_local(async move {
                if let Err(error) = follow(stream, &progress, &changed).await {
                    progress.borrow_mut().errors.push(error.to_string());
                    changed.send_replace(());
                }
            });
            Ok::<_, io::Error>(())
        }
    };
    // The first subscriber triggers one-time allocations, which do not count.
    subscribe(0).await?;
    wait(&mut receiver, || progress.borrow().begun == 1).await?;
    let before = resident_bytes(process)?;
    for number in 1..subscribers {
        subscribe(number).await?;
    }
    wait(&mut receiver, || progress.borrow().begun == subscribers).await?;
    println!("{subscribers} subscribers have the first value");
    let mut never_reading = Vec::new();
    for number in 0..silent {
        never_reading.push(connect(address, subscribers + number, Some(SMALL_BUFFER)).await?);
    }

    chain.lock().unwrap_or_else(PoisonError::into_inner).is_running = true;
    let all_done = || progress.borrow().done == subscribers;
    let end = TIMEOUT + Duration::from_secs(1) * u32::try_from(blocks).unwrap_or(u32::MAX);
    let is_complete = tokio::time::timeout(end, wait(&mut receiver, all_done)).await;
    let after = resident_bytes(process)?;
    let passed = {
        let progress = progress.borrow();
        for error in progress.errors.iter().take(5) {
            println!("a subscriber: {error}");
        }
        if !matches!(is_complete, Ok(Ok(()))) || !progress.errors.is_empty() {
            println!("{} of {subscribers} subscribers have the newest value", progress.done);
            return Ok(false);
        }
        let sent_at = chain.lock().unwrap_or_else(PoisonError::into_inner).sent_at.clone();
        let is_quick = report(&progress, &sent_at, subscribers);
        let limit = if silent > 0 { MAX_BYTES_STALLED } else { MAX_BYTES };
        report_memory(before, after, subscribers + silent, limit) && is_quick
    };
    if silent > 0 {
        println!("holding");
        next_line().await?;
    }
    drop(never_reading);
    Ok(passed)
}

async fn next_line() -> io::Result<String> {
    let line = tokio::task::spawn_blocking(|| io::stdin().lines().next()).await?;
    line.ok_or(io::ErrorKind::UnexpectedEof)?
}

async fn wait(receiver: &mut watch::Receiver<()>, is_so: impl Fn() -> bool) -> io::Result<()> {
    let all = async { while !is_so() && receiver.changed().await.is_ok() {} };
    let late = || io::Error::other("not every subscriber received a value in time");
    tokio::time::timeout(TIMEOUT * 4, all).await.map_err(|_| late())
}

/// Subscribes from one of several loopback addresses, which count as separate clients.
async fn connect(address: SocketAddr, number: usize, buffer: Option<u32>) -> io::Result<TcpStream> {
    let last = u8::try_from(1 + number / STREAMS_PER_ADDRESS).map_err(io::Error::other)?;
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    let mut stream = socket.connect(address).await?;
    let request = "GET /v1/ronin/gas-suggestion/stream HTTP/1.1\r\nHost: a\r\n\
                   Accept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Records the events of a subscriber until the last measured block.
async fn follow(
    mut stream: TcpStream,
    progress: &RefCell<Progress>,
    changed: &watch::Sender<()>,
) -> io::Result<()> {
    const MARK: &str = "\nid: ";
    let mut received = Vec::new();
    let mut last = None;
    loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::Error::other("the stream ended"));
        }
        let now = Instant::now();
        let text = String::from_utf8_lossy(&received);
        // An empty line ends an event.
        let Some((whole, rest)) = text.rsplit_once("\n\n") else { continue };
        for event in whole.split(MARK).skip(1) {
            let number = event.split_once('-').and_then(|(number, _)| number.parse::<u64>().ok());
            let block = number.and_then(|number| number.checked_sub(FIRST_BLOCK));
            let block = block.and_then(|block| usize::try_from(block).ok());
            let block = block.ok_or_else(|| io::Error::other(format!("not an id: {event}")))?;
            if last.is_some_and(|last| block <= last) {
                return Err(io::Error::other(format!("{block} came after {last:?}")));
            }
            let mut progress = progress.borrow_mut();
            progress.begun += usize::from(last.is_none());
            last = Some(block);
            if let Some((count, since)) = progress.received.get_mut(block) {
                *count += 1;
                *since = Some(now);
            }
            // The chain continues after the measured blocks. A later one may replace the last of them.
            let is_done = block + 1 >= progress.received.len();
            progress.done += usize::from(is_done);
            changed.send_replace(());
            if is_done {
                return Ok(());
            }
        }
        received = rest.as_bytes().to_vec();
    }
}

fn report(progress: &Progress, sent_at: &[Instant], subscribers: usize) -> bool {
    let received = progress.received.iter().skip(1);
    let newest: Vec<_> = received.zip(sent_at).collect();
    let skipped: usize = newest.iter().map(|((count, _), _)| subscribers - count).sum();
    let mut times: Vec<Duration> = newest
        .iter()
        .filter_map(|((_, last), sent_at)| Some(last.as_ref()?.duration_since(**sent_at)))
        .collect();
    times.sort();
    let percentile = |percent: usize| {
        times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(Duration::MAX)
    };
    println!(
        "{} values; {skipped} of {} deliveries skipped in favour of a newer value",
        times.len(),
        times.len() * subscribers
    );
    let is_met = percentile(50) < MAX_TIME;
    println!(
        "from the node's reply to the last subscriber: median {:.1?} (min {:.1?}, p90 {:.1?}, max {:.1?}); \
         under {MAX_TIME:?}: {}",
        percentile(50),
        percentile(0),
        percentile(90),
        percentile(100),
        verdict(is_met)
    );
    is_met
}

fn report_memory(before: u64, after: u64, subscribers: usize, limit: u64) -> bool {
    // The first subscriber was connected before the measurement.
    let bytes_each = after.saturating_sub(before) / count(subscribers.saturating_sub(1).max(1));
    let is_met = bytes_each < limit;
    println!(
        "resident memory of the service per subscriber: {bytes_each} bytes; under {limit}: {}",
        verdict(is_met)
    );
    is_met
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT met" }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Returns the resident memory of the process with this id.
fn resident_bytes(process: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS in the process status"))
}
