//! Thousands of subscribers of one chain: how long until the last of them has a new value, and what each of
//! them costs.
//!
//! Usage: `streams SUBSCRIBERS SILENT BLOCKS` is a node with a new block for each poll, on a free loopback port,
//! which it prints. It then reads the address of a service that polls it, and that service's process id,
//! subscribes, and measures. A value's time runs from the node's reply, so the service's own work counts. It
//! fails when a subscriber misses the newest value or is told an older one, when half of the values take 100 ms
//! or more to the last subscriber, or when one of these takes 20 KB or more. SILENT more never read, and stay
//! until it is told that they may go.

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

/// What half of the values may take at most.
const MOST_TIME: Duration = Duration::from_millis(100);
/// What a subscriber may take.
const MOST_BYTES: u64 = 20_000;
/// One that never reads takes the event that it does not take, too.
const MOST_BYTES_HELD: u64 = 3 * MOST_BYTES;
/// No event that is waited for takes this long unless it never comes.
const DEADLINE: Duration = Duration::from_secs(30);
/// The service lets one address have 1,024 connections and 1,000 requests at once.
const OF_ONE_ADDRESS: usize = 900;
/// What the system keeps of what is not read.
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

/// A chain of equal blocks at a new price each, one for each poll once it goes on.
#[derive(Debug, Default)]
struct Chain {
    goes_on: bool,
    /// When each block after the first was told.
    told: Vec<Instant>,
}

type Shared = Arc<Mutex<Chain>>;

async fn answer(State(chain): State<Shared>, Json(call): Json<Value>) -> Json<Value> {
    let result = if call.get("method").and_then(Value::as_str) == Some("eth_chainId") {
        json!("0x7e4")
    } else {
        let mut chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
        if chain.goes_on {
            chain.told.push(Instant::now());
        }
        fee_history(FIRST_BLOCK + count(chain.told.len()))
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

/// What the subscribers were told.
#[derive(Debug, Default)]
struct Record {
    /// By block: how many subscribers have it, and since when the last of them has.
    received: Vec<(usize, Option<Instant>)>,
    /// How many have anything.
    begun: usize,
    /// How many have the last block of all.
    done: usize,
    complaints: Vec<String>,
}

/// Whether all is as it should be.
async fn run(subscribers: usize, silent: usize, blocks: usize) -> io::Result<bool> {
    let chain = Shared::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    let app = Router::new().fallback(post(answer)).with_state(Arc::clone(&chain));
    tokio::task::spawn_local(async move { axum::serve(listener, app).await });

    let line = next_line().await?;
    let wrong = || io::Error::other(format!("no address and process id: {line}"));
    let (address, process) = line.split_once(' ').ok_or_else(wrong)?;
    let address: SocketAddr = address.parse().map_err(|_| wrong())?;

    let record = Rc::new(RefCell::new(Record::default()));
    record.borrow_mut().received.resize(blocks + 1, (0, None));
    let (changed, mut progress) = watch::channel(());
    let changed = Rc::new(changed);
    let subscribe = |number| {
        let (record, changed) = (Rc::clone(&record), Rc::clone(&changed));
        async move {
            let stream = connect(address, number, None).await?;
            tokio::task::spawn_local(async move {
                if let Err(error) = follow(stream, &record, &changed).await {
                    record.borrow_mut().complaints.push(error.to_string());
                    changed.send_replace(());
                }
            });
            Ok::<_, io::Error>(())
        }
    };
    // The first finds out what is made once, not for each.
    subscribe(0).await?;
    wait(&mut progress, || record.borrow().begun == 1).await?;
    let before = resident_bytes(process)?;
    for number in 1..subscribers {
        subscribe(number).await?;
    }
    wait(&mut progress, || record.borrow().begun == subscribers).await?;
    println!("{subscribers} subscribers have the first value");
    let mut never_reading = Vec::new();
    for number in 0..silent {
        never_reading.push(connect(address, subscribers + number, Some(SMALL_BUFFER)).await?);
    }

    chain.lock().unwrap_or_else(PoisonError::into_inner).goes_on = true;
    let all_done = || record.borrow().done == subscribers;
    let end = DEADLINE + Duration::from_secs(1) * u32::try_from(blocks).unwrap_or(u32::MAX);
    let is_complete = tokio::time::timeout(end, wait(&mut progress, all_done)).await;
    let after = resident_bytes(process)?;
    let is_well = {
        let record = record.borrow();
        for complaint in record.complaints.iter().take(5) {
            println!("a subscriber: {complaint}");
        }
        if !matches!(is_complete, Ok(Ok(()))) || !record.complaints.is_empty() {
            println!("{} of {subscribers} subscribers have the newest value", record.done);
            return Ok(false);
        }
        let told = chain.lock().unwrap_or_else(PoisonError::into_inner).told.clone();
        let is_quick = report(&record, &told, subscribers);
        let most = if silent > 0 { MOST_BYTES_HELD } else { MOST_BYTES };
        report_memory(before, after, subscribers + silent, most) && is_quick
    };
    if silent > 0 {
        println!("holding");
        next_line().await?;
    }
    drop(never_reading);
    Ok(is_well)
}

async fn next_line() -> io::Result<String> {
    let line = tokio::task::spawn_blocking(|| io::stdin().lines().next()).await?;
    line.ok_or(io::ErrorKind::UnexpectedEof)?
}

async fn wait(progress: &mut watch::Receiver<()>, is_so: impl Fn() -> bool) -> io::Result<()> {
    let all = async { while !is_so() && progress.changed().await.is_ok() {} };
    let late = || io::Error::other("not every subscriber was told a value in time");
    tokio::time::timeout(DEADLINE * 4, all).await.map_err(|_| late())
}

/// A connection from one of several loopback addresses, each of which is a client of its own.
async fn connect(address: SocketAddr, number: usize, buffer: Option<u32>) -> io::Result<TcpStream> {
    let last = u8::try_from(1 + number / OF_ONE_ADDRESS).map_err(io::Error::other)?;
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

/// Notes what comes, until that is the last block.
async fn follow(
    mut stream: TcpStream,
    record: &RefCell<Record>,
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
        // An event is there when the empty line behind it is.
        let Some((whole, rest)) = text.rsplit_once("\n\n") else { continue };
        for event in whole.split(MARK).skip(1) {
            let number = event.split_once('-').and_then(|(number, _)| number.parse::<u64>().ok());
            let block = number.and_then(|number| number.checked_sub(FIRST_BLOCK));
            let block = block.and_then(|block| usize::try_from(block).ok());
            let block = block.ok_or_else(|| io::Error::other(format!("not an id: {event}")))?;
            if last.is_some_and(|last| block <= last) {
                return Err(io::Error::other(format!("{block} came after {last:?}")));
            }
            let mut record = record.borrow_mut();
            // There are more blocks than are measured.
            if block >= record.received.len() {
                return Ok(());
            }
            record.begun += usize::from(last.is_none());
            last = Some(block);
            let end = record.received.len() - 1;
            if let Some((count, since)) = record.received.get_mut(block) {
                *count += 1;
                *since = Some(now);
            }
            if block == end {
                record.done += 1;
            }
            changed.send_replace(());
        }
        received = rest.as_bytes().to_vec();
    }
}

fn report(record: &Record, told: &[Instant], subscribers: usize) -> bool {
    let received = record.received.iter().skip(1);
    let newest: Vec<_> = received.zip(told).collect();
    let skipped: usize = newest.iter().map(|((count, _), _)| subscribers - count).sum();
    let mut times: Vec<Duration> = newest
        .iter()
        .filter_map(|((_, last), told)| Some(last.as_ref()?.duration_since(**told)))
        .collect();
    times.sort();
    let percentile = |percent: usize| {
        times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(Duration::MAX)
    };
    println!(
        "{} values; {skipped} of {} deliveries left out for a newer value",
        times.len(),
        times.len() * subscribers
    );
    let is_met = percentile(50) < MOST_TIME;
    println!(
        "from the node's reply to the last subscriber: median {:.1?} (least {:.1?}, p90 {:.1?}, most {:.1?}); \
         under {MOST_TIME:?}: {}",
        percentile(50),
        percentile(0),
        percentile(90),
        percentile(100),
        verdict(is_met)
    );
    is_met
}

fn report_memory(before: u64, after: u64, subscribers: usize, most: u64) -> bool {
    // The first one was there before.
    let of_each = after.saturating_sub(before) / count(subscribers.saturating_sub(1).max(1));
    let is_met = of_each < most;
    println!(
        "resident memory of the service per subscriber: {of_each} bytes; under {most}: {}",
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

/// Of the process with this id.
fn resident_bytes(process: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no resident memory is told"))
}
