//! Instances that are restarted one after the other, behind a balancer that asks them whether they
//! are ready: no request may fail.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::command::{FREE_PORTS, Process};
use crate::raw::{Connection, PATIENCE, Response, free_port, get};

const RESTARTS: usize = 20;
const CLIENTS: usize = 4;
const DRAIN_DELAY: Duration = Duration::from_millis(400);
/// How often the balancer asks, which is far below the delay.
const PROBING: Duration = Duration::from_millis(10);

/// An instance as the balancer sees it.
#[derive(Debug)]
struct Backend {
    address: SocketAddr,
    admin: SocketAddr,
    /// When it was last asked and said that it was ready; `None` when it said something else.
    ready: Mutex<Option<Instant>>,
    /// Connections that may be used again.
    idle: Mutex<Vec<Connection>>,
    answered: AtomicU64,
    told_to_close: AtomicU64,
}

/// Sends requests to whoever is ready.
#[derive(Debug)]
struct Balancer {
    backends: [Backend; 2],
    next: AtomicU64,
    failures: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Backend {
    fn new() -> Self {
        let [address, admin] = [free_port(), free_port()].map(|port| (Ipv4Addr::LOCALHOST, port));
        Self {
            address: address.into(),
            admin: admin.into(),
            ready: Mutex::default(),
            idle: Mutex::default(),
            answered: AtomicU64::new(0),
            told_to_close: AtomicU64::new(0),
        }
    }

    fn start(&self) -> Process {
        let [address, admin] = [self.address, self.admin].map(|address| address.to_string());
        let drain_delay = format!("{}ms", DRAIN_DELAY.as_millis());
        let mut variables = FREE_PORTS.to_vec();
        variables.extend([
            ("GAS_SERVER__LISTEN", address.as_str()),
            ("GAS_SERVER__ADMIN_LISTEN", admin.as_str()),
            ("GAS_SERVER__DRAIN_DELAY", &drain_delay),
            ("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0"),
        ]);
        Process::start(&["demo"], &variables)
    }

    async fn probe(&self) -> Option<u16> {
        let mut client = Connection::of(TcpStream::connect(self.admin).await.ok()?);
        client.try_send(get("/readyz", "Connection: close\r\n")).await.ok()?;
        Some(client.next().await.ok()??.status)
    }

    /// Waits until the balancer has heard that the instance is ready, or is not.
    async fn wait_until_ready(&self, is_ready: bool) {
        let since = Instant::now();
        while self.ready.lock().unwrap().is_some() != is_ready {
            assert!(since.elapsed() < PATIENCE, "ready is not {is_ready}");
            tokio::time::sleep(PROBING).await;
        }
    }

    /// Waits until so many requests more were answered.
    async fn wait_for_answers(&self, count: u64) {
        let (since, before) = (Instant::now(), self.answered.load(Ordering::SeqCst));
        while self.answered.load(Ordering::SeqCst) < before + count {
            assert!(since.elapsed() < PATIENCE, "there is no load");
            tokio::time::sleep(PROBING).await;
        }
    }

    /// One request over a connection that the instance did not say it would close, or a new one.
    async fn ask(&self, request: &str) -> Result<Response, String> {
        let reused = self.idle.lock().unwrap().pop();
        let kind = if reused.is_some() { "a used connection" } else { "a new connection" };
        let mut connection = match reused {
            Some(connection) => connection,
            None => Connection::of(
                TcpStream::connect(self.address)
                    .await
                    .map_err(|error| format!("{kind}: {error}"))?,
            ),
        };
        let sent = connection.try_send(request).await;
        sent.map_err(|error| format!("{kind}: {error}"))?;
        let answer = connection.next().await.map_err(|error| format!("{kind}: {error}"))?;
        let answer = answer.ok_or_else(|| format!("{kind}: closed without an answer"))?;
        if answer.closes() {
            self.told_to_close.fetch_add(1, Ordering::SeqCst);
            let rest = connection.until_closed().await;
            assert_eq!(rest, [], "more than one answer");
        } else {
            self.idle.lock().unwrap().push(connection);
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        Ok(answer)
    }
}

impl Balancer {
    /// Asks one of its instances again and again whether it is ready.
    async fn watch(self: Arc<Self>, place: usize) {
        let backend = &self.backends[place];
        while !self.is_over.load(Ordering::SeqCst) {
            let asked = Instant::now();
            let is_ready = backend.probe().await == Some(200);
            *backend.ready.lock().unwrap() = is_ready.then_some(asked);
            if !is_ready {
                // Nothing is sent over those that were open before.
                backend.idle.lock().unwrap().clear();
            }
            tokio::time::sleep(PROBING).await;
        }
    }

    /// Asks without a pause, those that are ready in turn; one that is not answered is a failure.
    async fn ask(self: Arc<Self>, client: usize) {
        for count in 0_u64.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let turn = usize::try_from(self.next.fetch_add(1, Ordering::SeqCst)).unwrap();
            let mut in_turn = (turn..turn + 2).map(|turn| &self.backends[turn % 2]);
            let ready = in_turn.find_map(|one| one.ready.lock().unwrap().map(|asked| (one, asked)));
            let Some((backend, asked)) = ready else {
                self.failures.lock().unwrap().push("nobody is ready".into());
                return;
            };
            let id = format!("{client}-{count}");
            let request = get("/v1/ethereum/gas-suggestion", &format!("X-Request-Id: {id}\r\n"));
            let failure = match backend.ask(&request).await {
                Ok(answer) if answer.status == 200 && answer.header("x-request-id") == id => None,
                Ok(answer) => Some(format!("{answer:#?}")),
                // Had this test slept for longer than an instance drains, it could not know better.
                Err(_) if asked.elapsed() >= DRAIN_DELAY => None,
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                self.failures.lock().unwrap().push(failure);
            }
            // A few hundred requests a second are load enough.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_can_be_restarted_in_turn_without_one_failed_request() {
    let balancer = Arc::new(Balancer {
        backends: [Backend::new(), Backend::new()],
        next: AtomicU64::new(0),
        failures: Mutex::default(),
        is_over: AtomicBool::new(false),
    });
    let mut instances = balancer.backends.each_ref().map(|backend| Some(backend.start()));
    let mut tasks = JoinSet::new();
    for place in 0..2 {
        tasks.spawn(Arc::clone(&balancer).watch(place));
    }
    for backend in &balancer.backends {
        backend.wait_until_ready(true).await;
    }
    for client in 0..CLIENTS {
        tasks.spawn(Arc::clone(&balancer).ask(client));
    }
    let mut draining_seen = 0;
    for restart in 0..RESTARTS {
        let place = restart % 2;
        let (backend, other) = (&balancer.backends[place], &balancer.backends[1 - place]);
        backend.wait_for_answers(20).await;
        let instance = instances[place].take().unwrap();
        instance.signal("-TERM");
        let signalled = Instant::now();
        let status = not_ready(backend).await;
        // It is not ready, but takes connections still, and tells each to close.
        let late = TcpStream::connect(backend.address).await;
        if signalled.elapsed() < DRAIN_DELAY {
            assert_eq!(status, Some(503), "{restart}");
            let answer = Connection::of(late.unwrap()).ask(get("/livez", "")).await;
            assert!(answer.status == 200 && answer.closes(), "{restart}: {answer:#?}");
            draining_seen += 1;
        }
        backend.wait_until_ready(false).await;
        other.wait_for_answers(20).await;
        let ended = tokio::task::spawn_blocking(|| instance.end()).await.unwrap();
        assert_eq!(ended.0, Some(0), "{restart}: {}", ended.1);
        assert!(ended.1.contains("\"message\":\"stopping\""), "{restart}: {}", ended.1);
        assert!(TcpStream::connect(backend.address).await.is_err(), "{restart}");
        other.wait_for_answers(20).await;
        instances[place] = Some(backend.start());
        backend.wait_until_ready(true).await;
        assert_eq!(*balancer.failures.lock().unwrap(), [""; 0], "{restart}");
    }
    balancer.is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(*balancer.failures.lock().unwrap(), [""; 0]);
    assert!(draining_seen > RESTARTS / 2, "{draining_seen} times it was seen to drain");
    for backend in &balancer.backends {
        let told = backend.told_to_close.load(Ordering::SeqCst);
        assert!(told > 0, "no connection that was in use was told to close");
    }
}

/// What the instance says first that is not that it is ready.
async fn not_ready(backend: &Backend) -> Option<u16> {
    let since = Instant::now();
    loop {
        let status = backend.probe().await;
        if status != Some(200) {
            return status;
        }
        assert!(since.elapsed() < PATIENCE, "it stays ready");
    }
}
