//! Rolling restarts behind a balancer that probes readiness: no request may fail.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::http_message::{Message, get};
use crate::process::Process;
use crate::raw_client::{RawClient, free_port};
use crate::test_server::wait_until;

const RESTARTS: usize = 8;
const CLIENTS: usize = 4;
const DRAIN_DELAY: Duration = Duration::from_millis(400);
/// Probe interval, far below the drain delay.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// An instance of the service behind the balancer.
struct Backend {
    address: SocketAddr,
    admin: SocketAddr,
    /// Start of the last probe. `None` if the instance was not ready.
    ready: Mutex<Option<Instant>>,
    /// Connections that can be reused.
    idle: Mutex<Vec<RawClient>>,
    served: AtomicU64,
    closing_responses: AtomicU64,
}

/// A load balancer that sends requests to the instances that are ready.
#[derive(Default)]
struct Balancer {
    backends: [Backend; 2],
    next: AtomicU64,
    failures: Mutex<Vec<String>>,
    is_finished: AtomicBool,
}

impl Default for Backend {
    fn default() -> Self {
        let [address, admin] =
            [free_port(), free_port()].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let (ready, idle, served, closing_responses) = Default::default();
        Self { address, admin, ready, idle, served, closing_responses }
    }
}

impl Backend {
    fn start(&self) -> Process {
        let [address, admin] = [self.address, self.admin].map(|address| address.to_string());
        let drain_delay = format!("{}ms", DRAIN_DELAY.as_millis());
        let variables = [
            ("GAS_SERVER__LISTEN", address.as_str()),
            ("GAS_SERVER__ADMIN_LISTEN", &admin),
            ("GAS_SERVER__DRAIN_DELAY", &drain_delay),
            ("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0"),
        ];
        Process::start(&["demo"], &variables)
    }

    async fn probe(&self) -> Option<u16> {
        let mut client = RawClient::from_stream(TcpStream::connect(self.admin).await.ok()?);
        client.try_send(get("/readyz", "Connection: close\r\n")).await.ok()?;
        Some(client.read_response().await.ok()??.status())
    }

    /// Waits until the balancer's probes find the instance ready, or not ready if `is_ready` is false.
    async fn wait_until_ready(&self, is_ready: bool) {
        let is_found = async || self.ready.lock().unwrap().is_some() == is_ready;
        wait_until(&format!("the probes find ready = {is_ready}"), is_found).await;
    }

    /// Waits until the instance has served 20 more requests.
    async fn wait_for_responses(&self) {
        let count = self.served.load(Ordering::SeqCst) + 20;
        wait_until("responses", async || self.served.load(Ordering::SeqCst) >= count).await;
    }

    /// Sends a request over an idle connection or a new one, and keeps the connection unless the response closes it.
    async fn send(&self, request: &str) -> anyhow::Result<Message> {
        let reused = self.idle.lock().unwrap().pop();
        let kind = if reused.is_some() { "a used connection" } else { "a new connection" };
        let mut connection = match reused {
            Some(connection) => connection,
            None => RawClient::from_stream(TcpStream::connect(self.address).await.context(kind)?),
        };
        connection.try_send(request).await.context(kind)?;
        let response = connection.read_response().await.context(kind)?;
        let response = response.with_context(|| format!("{kind}: closed without a response"))?;
        if response.closes_connection() {
            self.closing_responses.fetch_add(1, Ordering::SeqCst);
            let rest = connection.read_until_closed().await;
            assert_eq!(rest, [], "more than one response");
        } else {
            self.idle.lock().unwrap().push(connection);
        }
        self.served.fetch_add(1, Ordering::SeqCst);
        Ok(response)
    }
}

impl Balancer {
    /// Probes the readiness of an instance until the test is over.
    async fn probe_readiness(self: Arc<Self>, index: usize) {
        let backend = &self.backends[index];
        while !self.is_finished.load(Ordering::SeqCst) {
            let probed_at = Instant::now();
            let is_ready = backend.probe().await == Some(200);
            *backend.ready.lock().unwrap() = is_ready.then_some(probed_at);
            if !is_ready {
                // A balancer does not reuse connections to an instance that is not ready.
                backend.idle.lock().unwrap().clear();
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    /// Sends requests to the ready instances in turn. Each request without a good response is a failure.
    async fn send_requests(self: Arc<Self>, client: usize) {
        for count in 0_u64.. {
            if self.is_finished.load(Ordering::SeqCst) {
                return;
            }
            let position = usize::try_from(self.next.fetch_add(1, Ordering::SeqCst)).unwrap();
            let mut candidates =
                [position, position + 1].into_iter().map(|position| &self.backends[position % 2]);
            let ready = candidates.find_map(|one| Some((one, (*one.ready.lock().unwrap())?)));
            let Some((backend, probed_at)) = ready else {
                self.failures.lock().unwrap().push("no instance is ready".into());
                return;
            };
            let id = format!("{client}-{count}");
            let request = get("/v1/ethereum/gas-suggestion", &format!("X-Request-Id: {id}\r\n"));
            let failure = match backend.send(&request).await {
                Ok(response) => {
                    let is_good = response.status() == 200 && response.header("x-request-id") == id;
                    (!is_good).then(|| format!("{response:#?}"))
                }
                // The instance may have stopped since, because its last probe is older than the drain delay.
                Err(_) if probed_at.elapsed() >= DRAIN_DELAY => None,
                Err(failure) => Some(format!("{failure:#}")),
            };
            self.failures.lock().unwrap().extend(failure);
            // The pause limits the load to a few hundred requests per second.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_request() {
    let balancer = Arc::<Balancer>::default();
    let mut instances = balancer.backends.each_ref().map(|backend| Some(backend.start()));
    let mut tasks = JoinSet::new();
    for index in 0..2 {
        tasks.spawn(Arc::clone(&balancer).probe_readiness(index));
    }
    for backend in &balancer.backends {
        backend.wait_until_ready(true).await;
    }
    for client in 0..CLIENTS {
        tasks.spawn(Arc::clone(&balancer).send_requests(client));
    }
    let mut draining_seen = 0;
    for restart in 0..RESTARTS {
        let index = restart % 2;
        let (backend, other) = (&balancer.backends[index], &balancer.backends[1 - index]);
        backend.wait_for_responses().await;
        let instance = instances[index].take().unwrap();
        instance.signal("-TERM");
        let signalled = Instant::now();
        let mut status = Some(200);
        wait_until("an instance that is not ready", async || {
            status = backend.probe().await;
            status != Some(200)
        })
        .await;
        // A draining instance still accepts connections and closes each after its response.
        let mut response = None;
        if let Ok(late) = TcpStream::connect(backend.address).await {
            let mut late = RawClient::from_stream(late);
            late.send(get("/livez", "")).await;
            response = late.read_response().await.ok().flatten();
        }
        if signalled.elapsed() < DRAIN_DELAY {
            assert_eq!(status, Some(503), "{restart}");
            let response = response.expect("a response while it drains");
            assert!(
                response.status() == 200 && response.closes_connection(),
                "{restart}: {response:#?}"
            );
            draining_seen += 1;
        }
        backend.wait_until_ready(false).await;
        other.wait_for_responses().await;
        let exit = tokio::task::spawn_blocking(|| instance.wait()).await.unwrap();
        assert_eq!(exit.0, Some(0), "{restart}: {}", exit.1);
        assert!(exit.1.contains("\"message\":\"shutting down\""), "{restart}: {}", exit.1);
        assert!(TcpStream::connect(backend.address).await.is_err(), "{restart}");
        other.wait_for_responses().await;
        instances[index] = Some(backend.start());
        backend.wait_until_ready(true).await;
        assert_eq!(*balancer.failures.lock().unwrap(), [""; 0], "{restart}");
    }
    balancer.is_finished.store(true, Ordering::SeqCst);
    while let Some(exit) = tasks.join_next().await {
        exit.unwrap();
    }
    assert_eq!(*balancer.failures.lock().unwrap(), [""; 0]);
    assert!(draining_seen > RESTARTS / 2, "draining was observed {draining_seen} times only");
    for backend in &balancer.backends {
        let count = backend.closing_responses.load(Ordering::SeqCst);
        assert!(count > 0, "no response closed a connection");
    }
}
