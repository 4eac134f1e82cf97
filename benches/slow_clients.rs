//! What clients that hold their connections and give nothing back do to those that ask and go.
//!
//! Usage: `slow_clients ADDRESS`, of a service with the built-in deadlines and a chain `ethereum`.
//! It fails when good requests take too long meanwhile, or a bad connection outlives its deadline.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

const OF_EACH_KIND: u32 = 1000;
/// No client has more connections than one may have.
const SOURCES: u32 = 16;
/// How long good requests are measured before there is any other.
const BEFORE: Duration = Duration::from_secs(8);
const MOST_P99: Duration = Duration::from_millis(50);
const MOST_LATE: Duration = Duration::from_secs(1);
/// A bad connection that is still there by now is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(40);

const GOOD: &[u8] = b"GET /v1/ethereum/gas-suggestion HTTP/1.1\r\nHost: a\r\n\r\n";

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It sends nothing.
    Silent,
    /// It sends one byte of its headers a second.
    Dripping,
    /// It sends the beginning of a body.
    Stalling,
    /// It sends requests as fast as it can and reads no answer.
    NotReading,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Silent, Self::Dripping, Self::Stalling, Self::NotReading];

    /// The built-in `header_timeout`, `body_timeout` and `write_timeout`.
    const fn deadline(self) -> Duration {
        match self {
            Self::Silent | Self::Dripping | Self::Stalling => Duration::from_secs(10),
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

/// Whether all went as it should.
async fn run(address: SocketAddr) -> io::Result<bool> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let before = Good::measure(address);
    sleep(BEFORE).await;
    let before = before.finish().await?;

    let during = Good::measure(address);
    let sightings = Sightings::start(address);
    let mut bad = JoinSet::new();
    for count in 0..OF_EACH_KIND {
        for kind in Kind::ALL {
            // From 127.0.1.0 on; the good ones come from 127.0.0.1.
            let source = Ipv4Addr::from_bits(0x7f00_0100 + count % SOURCES);
            let stream = open(kind, source, address).await?;
            bad.spawn(endure(kind, stream.local_addr()?, stream));
        }
        // When this is answered, those before it were accepted. A connection that finds no place in
        // the system's queue is one for its client alone, and the service could not end it.
        ask(&mut TcpStream::connect(address).await?).await?;
    }
    let mut ends = Vec::new();
    while let Some(end) = bad.join_next().await {
        ends.push(end?);
    }
    let during = during.finish().await?;
    let sightings = sightings.finish().await?;

    let mut is_well = true;
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
        is_well &= percentile(during, 99) < MOST_P99;
    }
    println!("\nbad connections      count  deadline (s)  gone after (s): first    last");
    for kind in Kind::ALL {
        let mut gone: Vec<_> =
            ends.iter().filter(|end| end.kind == kind).map(|end| sightings.lifetime(end)).collect();
        gone.sort();
        let (first, last) = (percentile(&gone, 0), percentile(&gone, 100));
        println!(
            "{kind:19} {:6} {:13} {:21.2} {:7.2}",
            gone.len(),
            kind.deadline().as_secs(),
            first.as_secs_f64(),
            last.as_secs_f64()
        );
        is_well &= last <= kind.deadline() + MOST_LATE;
    }
    println!("\n{}", if is_well { "all within the limits" } else { "NOT within the limits" });
    Ok(is_well)
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

/// A bad connection from when its deadline began to its end.
struct End {
    kind: Kind,
    client: SocketAddr,
    since: Instant,
    at: Instant,
}

/// Behaves as a client of this kind until the service closes the connection.
async fn endure(kind: Kind, client: SocketAddr, mut stream: TcpStream) -> End {
    let mut since = Instant::now();
    let gone = async {
        match kind {
            Kind::Silent => until_closed(&mut stream).await,
            Kind::Dripping => {
                let (mut from, mut to) = stream.split();
                let mut ticker = interval(Duration::from_secs(1));
                let mut head = GOOD.iter().copied().cycle();
                let dripping = async {
                    loop {
                        ticker.tick().await;
                        let Some(byte) = head.next() else { continue };
                        // That the other side is gone is what reading tells.
                        let _ = to.write_all(&[byte]).await;
                    }
                };
                tokio::select! {
                    () = until_closed(&mut from) => {}
                    () = dripping => {}
                }
            }
            Kind::Stalling => {
                let begin = b"POST /v1/chains HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{";
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
                            // Nobody reads it, but the system takes a little more now and then.
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
    if timeout(PATIENCE, gone).await.is_err() {
        eprintln!("a client that {kind} is still connected");
    }
    End { kind, client, since, at: Instant::now() }
}

async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

/// The service's ends of connections, as the system lists them.
///
/// The client's end is not enough: one that is full may get a reset that it has to doubt (RFC 5961)
/// and hear of the end seconds later, when it asks again.
struct Sightings {
    last: HashMap<SocketAddr, Instant>,
}

/// Looking for them.
struct Lookout {
    stop: watch::Sender<()>,
    task: tokio::task::JoinHandle<io::Result<Sightings>>,
}

impl Sightings {
    const EVERY: Duration = Duration::from_millis(200);

    fn start(service: SocketAddr) -> Lookout {
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
                last.extend(table.lines().filter_map(|line| Some((peer_of(service, line)?, now))));
            }
            Ok(Self { last })
        });
        Lookout { stop, task }
    }

    /// How long the connection was there, from when its deadline began.
    fn lifetime(&self, end: &End) -> Duration {
        let last = self.last.get(&end.client).map_or(end.since, |last| *last + Self::EVERY);
        last.min(end.at).saturating_duration_since(end.since)
    }
}

impl Lookout {
    async fn finish(self) -> io::Result<Sightings> {
        drop(self.stop);
        self.task.await?
    }
}

/// Whose connection to the service this line of the system's table is, if it is established.
fn peer_of(service: SocketAddr, line: &str) -> Option<SocketAddr> {
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

/// Good requests under way, at a steady pace.
struct Good {
    stop: watch::Sender<()>,
    kept: tokio::task::JoinHandle<io::Result<Vec<Duration>>>,
    new: tokio::task::JoinHandle<io::Result<Vec<Duration>>>,
}

/// How long they took, in ascending order.
struct Latencies {
    kept: Vec<Duration>,
    new: Vec<Duration>,
}

impl Good {
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
    pace: Duration,
    is_kept: bool,
    mut stopped: watch::Receiver<()>,
) -> io::Result<Vec<Duration>> {
    let mut ticker = interval(pace);
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
        ask(&mut stream).await?;
        latencies.push(started.elapsed());
        kept = is_kept.then_some(stream);
    }
    latencies.sort();
    Ok(latencies)
}

/// One request, answered with 200.
async fn ask(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(GOOD).await?;
    let mut answer = Vec::new();
    // The last bytes of every suggestion.
    while !answer.ends_with(b"\"}}") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::Error::other("a good request was not answered"));
        }
    }
    if answer.starts_with(b"HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()))
    }
}

/// Of values in ascending order.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(place).copied().unwrap_or(Duration::MAX)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
