//! Latency of good requests beside clients that hold their connections.
//!
//! Usage: `slow_clients ADDRESS`, the address of a service with the default timeouts and a chain `ethereum`. It fails
//! if good requests take too long, or if a slow connection outlives its deadline.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

const CLIENTS_PER_KIND: u32 = 1000;
/// Number of client addresses, so that none exceeds its connection limit.
const SOURCES: u32 = 16;
/// Duration of the measurement without slow clients.
const BEFORE: Duration = Duration::from_secs(8);
const MAX_P99: Duration = Duration::from_millis(50);
const MAX_OVERRUN: Duration = Duration::from_secs(1);
/// Time limit for the end of a slow connection.
const TIMEOUT: Duration = Duration::from_secs(90);

const GOOD: &[u8] = b"GET /v1/ethereum/gas-suggestion HTTP/1.1\r\nHost: a\r\n\r\n";

/// Behaviour of a slow client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sends nothing.
    Silent,
    /// Sends one byte of its headers per second.
    Dripping,
    /// Sends the beginning of a body.
    Stalling,
    /// Sends requests as fast as possible and reads no response.
    NotReading,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Silent, Self::Dripping, Self::Stalling, Self::NotReading];

    /// Returns the default `header_timeout`, `body_timeout` or `write_timeout` of the service.
    const fn deadline(self) -> Duration {
        match self {
            Self::Silent | Self::Dripping => Duration::from_secs(75),
            Self::Stalling => Duration::from_secs(10),
            Self::NotReading => Duration::from_secs(30),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Silent => "sends nothing",
            Self::Dripping => "drips its headers",
            Self::Stalling => "stalls its body",
            Self::NotReading => "does not read",
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let Some(address) = address else {
        eprintln!("usage: slow_clients ADDRESS; benches/slow_clients.sh starts a service for it");
        return ExitCode::from(2);
    };
    match run(address).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("slow_clients: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if all results are within the limits.
async fn run(address: SocketAddr) -> io::Result<bool> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let before = GoodRequests::measure(address);
    sleep(BEFORE).await;
    let before = before.finish().await?;

    let during = GoodRequests::measure(address);
    let connection_log = ConnectionLog::start(address);
    let mut bad = JoinSet::new();
    for count in 0..CLIENTS_PER_KIND {
        for kind in Kind::ALL {
            // Slow clients use 127.0.1.0 and up; good requests come from 127.0.0.1.
            let source = Ipv4Addr::from_bits(0x7f00_0100 + count % SOURCES);
            let stream = open(kind, source, address).await?;
            bad.spawn(hold_connection(kind, stream.local_addr()?, stream));
        }
        // After this response, all earlier connections have been accepted. The service could not close a
        // connection that is still in the kernel's backlog.
        request(&mut TcpStream::connect(address).await?).await?;
    }
    let mut ends = Vec::new();
    while let Some(end) = bad.join_next().await {
        ends.push(end?);
    }
    let during = during.finish().await?;
    let connection_log = connection_log.finish().await?;

    let mut passed = true;
    println!("good requests (ms)   before: p50    p99    during: p50    p99  requests");
    for (name, before, during) in [
        ("kept connection", &before.kept, &during.kept),
        ("new connection", &before.new, &during.new),
    ] {
        println!(
            "{name:19} {:12.2} {:6.2} {:14.2} {:6.2} {:9}",
            millis(percentile(before, 50)),
            millis(percentile(before, 99)),
            millis(percentile(during, 50)),
            millis(percentile(during, 99)),
            during.len()
        );
        passed &= percentile(during, 99) < MAX_P99;
    }
    println!("\nbad connections      count  deadline (s)  gone after (s): first    last");
    for kind in Kind::ALL {
        let mut gone: Vec<_> = ends
            .iter()
            .filter(|end| end.kind == kind)
            .map(|end| connection_log.lifetime(end))
            .collect();
        gone.sort();
        let (first, last) = (percentile(&gone, 0), percentile(&gone, 100));
        println!(
            "{kind:19} {:6} {:13} {:21.2} {:7.2}",
            gone.len(),
            kind.deadline().as_secs(),
            first.as_secs_f64(),
            last.as_secs_f64()
        );
        passed &= last <= kind.deadline() + MAX_OVERRUN;
    }
    println!("\n{}", if passed { "all within the limits" } else { "NOT within the limits" });
    Ok(passed)
}

async fn open(kind: Kind, source: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    const SMALL: u32 = 4096;
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    if kind == Kind::NotReading {
        socket.set_recv_buffer_size(SMALL)?;
        socket.set_send_buffer_size(SMALL)?;
    }
    socket.connect(address).await
}

/// A slow connection, from the start of its deadline to its end.
struct End {
    kind: Kind,
    client: SocketAddr,
    since: Instant,
    at: Instant,
}

/// Behaves as a client of this kind until the service closes the connection.
async fn hold_connection(kind: Kind, client: SocketAddr, mut stream: TcpStream) -> End {
    let mut since = Instant::now();
    let gone = async {
        match kind {
            Kind::Silent => until_closed(&mut stream).await,
            Kind::Dripping => {
                let (mut from, mut to) = stream.split();
                let mut ticker = interval(Duration::from_secs(1));
                let mut head =
                    b"GET / HTTP/1.1\r\nHost: ".iter().copied().chain(std::iter::repeat(b'a'));
                let dripping = async {
                    loop {
                        ticker.tick().await;
                        let Some(byte) = head.next() else { continue };
                        // The reading half detects the end.
                        let _ = to.write_all(&[byte]).await;
                    }
                };
                tokio::select! {
                    () = until_closed(&mut from) => {}
                    () = dripping => {}
                }
            }
            Kind::Stalling => {
                let begin =
                    b"POST /rpc/ethereum HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{";
                if stream.write_all(begin).await.is_ok() {
                    until_closed(&mut stream).await;
                }
            }
            Kind::NotReading => {
                let requests = GOOD.repeat(100);
                let mut ticker = interval(Duration::from_millis(100));
                let mut queue = vec![0; 64 * 1024];
                let mut taken = 0;
                loop {
                    tokio::select! {
                        written = stream.write(&requests) => match written {
                            Ok(_) => since = Instant::now(),
                            Err(_) => break,
                        },
                        _ = ticker.tick() => {
                            // The kernel still accepts a little of the response now and then, which restarts the
                            // deadline.
                            let queued = timeout(Duration::ZERO, stream.peek(&mut queue)).await;
                            let length = queued.map_or(0, Result::unwrap_or_default);
                            if length > taken {
                                (taken, since) = (length, Instant::now());
                            }
                        }
                    }
                }
            }
        }
    };
    if timeout(TIMEOUT, gone).await.is_err() {
        eprintln!("a client that {kind} is still connected");
    }
    End { kind, client, since, at: Instant::now() }
}

async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

/// When the kernel last listed each connection of the service, by client address.
///
/// The client's view is not enough: with a full buffer its kernel may challenge a reset (RFC 5961), so the client
/// notices the end seconds later.
struct ConnectionLog {
    last: HashMap<SocketAddr, Instant>,
}

/// Task that builds a [`ConnectionLog`] until `stop` is dropped.
struct Observation {
    stop: watch::Sender<()>,
    task: tokio::task::JoinHandle<io::Result<ConnectionLog>>,
}

impl ConnectionLog {
    const EVERY: Duration = Duration::from_millis(200);

    fn start(service: SocketAddr) -> Observation {
        let (stop, mut stopped) = watch::channel(());
        let task = tokio::spawn(async move {
            let mut last = HashMap::new();
            let mut ticker = interval(Self::EVERY);
            loop {
                tokio::select! {
                    _ = ticker.tick() => {}
                    _ = stopped.changed() => break,
                }
                let table = std::fs::read_to_string("/proc/net/tcp")?;
                let now = Instant::now();
                last.extend(
                    table.lines().filter_map(|line| Some((client_address(service, line)?, now))),
                );
            }
            Ok(Self { last })
        });
        Observation { stop, task }
    }

    /// Returns the lifetime of the connection since the start of its deadline.
    fn lifetime(&self, end: &End) -> Duration {
        let last = self.last.get(&end.client).map_or(end.since, |last| *last + Self::EVERY);
        last.min(end.at).saturating_duration_since(end.since)
    }
}

impl Observation {
    async fn finish(self) -> io::Result<ConnectionLog> {
        drop(self.stop);
        self.task.await?
    }
}

/// Returns the client address if this line of `/proc/net/tcp` is an established connection to the service.
fn client_address(service: SocketAddr, line: &str) -> Option<SocketAddr> {
    const ESTABLISHED: &str = "01";
    let address = |text: &str| {
        let (ip, port) = text.split_once(':')?;
        let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(SocketAddr::from((ip, port)))
    };
    let mut fields = line.split_whitespace().skip(1);
    let (own, peer) = (address(fields.next()?)?, address(fields.next()?)?);
    (own == service && fields.next()? == ESTABLISHED).then_some(peer)
}

/// Good requests at a steady rate, on a kept connection and on new ones.
struct GoodRequests {
    stop: watch::Sender<()>,
    kept: tokio::task::JoinHandle<io::Result<Vec<Duration>>>,
    new: tokio::task::JoinHandle<io::Result<Vec<Duration>>>,
}

/// Latencies in ascending order.
struct Latencies {
    kept: Vec<Duration>,
    new: Vec<Duration>,
}

impl GoodRequests {
    const KEPT_EVERY: Duration = Duration::from_millis(5);
    const NEW_EVERY: Duration = Duration::from_millis(10);

    fn measure(address: SocketAddr) -> Self {
        let (stop, stopped) = watch::channel(());
        let kept = tokio::spawn(measure(address, Self::KEPT_EVERY, true, stopped.clone()));
        let new = tokio::spawn(measure(address, Self::NEW_EVERY, false, stopped));
        Self { stop, kept, new }
    }

    async fn finish(self) -> io::Result<Latencies> {
        drop(self.stop);
        Ok(Latencies { kept: self.kept.await??, new: self.new.await?? })
    }
}

async fn measure(
    address: SocketAddr,
    period: Duration,
    is_kept: bool,
    mut stopped: watch::Receiver<()>,
) -> io::Result<Vec<Duration>> {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut kept = None;
    let mut latencies = Vec::new();
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            _ = stopped.changed() => break,
        }
        let started = Instant::now();
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => TcpStream::connect(address).await?,
        };
        request(&mut stream).await?;
        latencies.push(started.elapsed());
        kept = is_kept.then_some(stream);
    }
    latencies.sort();
    Ok(latencies)
}

/// Sends one request that must succeed.
async fn request(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(GOOD).await?;
    let mut response = Vec::new();
    // Every suggestion ends with these bytes.
    while !response.ends_with(b"\"}}") {
        if stream.read_buf(&mut response).await? == 0 {
            return Err(io::Error::other("no response to a good request"));
        }
    }
    if response.starts_with(b"HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&response).into_owned()))
    }
}

/// Returns a percentile of values in ascending order.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or(Duration::MAX)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
