//! Accepts connections and serves HTTP/1.1 on them. TLS and HTTP/2 belong to the proxy in front.
//!
//! Nothing queues here: a connection over a limit is refused at once, or takes the place of one of a client that has
//! more. Every connection has deadlines, and what it holds in memory is bounded.
//!
//! The accept loop is the service's own, because `axum::serve` has no deadlines for connections and cannot choose their
//! threads.

mod connection;
mod metered_stream;
mod open_connections;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use enum_map::{Enum, EnumMap};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::client_limits::{ClientTable, ConnectedPeer, NoFreeSlot};
use crate::config::Limits;
use crate::http::app::App;
use crate::observe::clock;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::{
    Counter, DeadlineLabels, ListenerOutcomeLabels, ListenerReasonLabels, Metrics, counters,
};
use connection::Connection;
use metered_stream::ConnectionActivity;
use open_connections::OpenConnections;

/// Number of refused connections that get a response at a time. Further ones are closed without a response.
pub(crate) const MAX_REJECTIONS: usize = 256;

/// Number of connections that may be open beyond the limit while they are being closed for others.
const MAX_CLOSING: usize = 64;

/// Limit of hyper's buffers: the longest head that it reads, and what it holds of a response that the client does not
/// read. Larger than the service's own limit of a head, so that most heads over that limit get a problem document.
const BUFFER_BYTES: usize = 32 * 1024;

/// Size of a connection's send buffer, which Linux doubles. The system's default would hold megabytes for a client that
/// does not read.
pub(crate) const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// Size of a connection's receive buffer, which Linux doubles. Its default grows to megabytes.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 32 * 1024;

/// Signals that end a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// From now on every response closes its connection.
    pub(crate) draining: CancellationToken,
    /// From now on no connection is accepted, and idle ones are closed.
    pub(crate) closing: CancellationToken,
}

impl Shutdown {
    /// Returns the signals for a thread. Checking a token takes its lock, so each thread has its own.
    fn child(&self) -> Self {
        Self { draining: self.draining.child_token(), closing: self.closing.child_token() }
    }
}

/// A listener that does not serve yet.
pub(crate) struct Listener {
    clients: Arc<ClientTable>,
    max_connections: usize,
    accept_counters: EnumMap<AcceptOutcome, Counter>,
    shared: Arc<Shared>,
}

/// Parts that all connections of a listener share.
struct Shared {
    app: App,
    /// Settings of a connection.
    http: http1::Builder,
    memory: MemoryBudget,
    timeout_counters: EnumMap<Timeout, Counter>,
    shed_counters: EnumMap<ShedReason, Counter>,
}

/// Why a connection was closed for the sake of others.
#[derive(Debug, Clone, Copy, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum ShedReason {
    /// A client with fewer connections needed one.
    ConnectionLimit,
    /// The memory budget was exhausted.
    Memory,
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum AcceptOutcome {
    Accepted,
    RefusedOverloaded,
    RefusedClientLimit,
}

/// A deadline that a connection missed.
#[derive(Debug, Clone, Copy, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum Timeout {
    /// For the headers of the next request.
    Header,
    /// For the client to take data.
    Write,
}

impl Listener {
    /// Creates a listener that serves `app` within `limits`, charges what connections hold to `memory`, and labels its
    /// metrics with `listener`.
    pub(crate) fn new(
        listener: &'static str,
        app: App,
        clients: Arc<ClientTable>,
        limits: &Limits,
        memory: MemoryBudget,
        metrics: &Metrics,
    ) -> Self {
        let header_timeout = limits.header_timeout;
        let mut http = http1::Builder::new();
        // Responses are small: copying into one buffer is cheaper than a vectored write.
        http.writev(false)
            .max_buf_size(BUFFER_BYTES)
            .timer(TokioTimer::new())
            .header_read_timeout((!header_timeout.is_zero()).then_some(header_timeout));
        Self {
            clients,
            max_connections: limits.max_connections,
            accept_counters: counters(&metrics.connections_total, |outcome| {
                ListenerOutcomeLabels { listener, outcome }
            }),
            shared: Arc::new(Shared {
                app,
                http,
                memory,
                timeout_counters: counters(&metrics.connection_timeouts_total, |deadline| {
                    DeadlineLabels { listener, deadline }
                }),
                shed_counters: counters(&metrics.connections_shed_total, |reason| {
                    ListenerReasonLabels { listener, reason }
                }),
            }),
        }
    }

    /// Accepts connections and hands them to `runtimes` in turn, until `shutdown`. Returns when the last request in
    /// flight is finished. Dropping the future closes all connections.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        runtimes: &[Handle],
        shutdown: Shutdown,
    ) {
        const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(1);
        let mut clean_up = tokio::time::interval(CLEAN_UP_INTERVAL);
        clean_up.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_logged_error = None;
        let mut open = OpenConnections::default();
        let mut rejections = JoinSet::new();
        let threads: Vec<_> = runtimes.iter().map(|runtime| (runtime, shutdown.child())).collect();
        let mut next_thread = threads.iter().cycle();
        loop {
            // A closed connection holds memory until its thread drops it. Where the threads cannot keep up, new ones wait
            // in the system's queue.
            let can_accept = open.closing_count() < MAX_CLOSING;
            tokio::select! {
                accepted = listener.accept(), if can_accept => match accepted {
                    Ok((stream, peer)) => {
                        let Some((runtime, shutdown)) = next_thread.next() else { return };
                        self.start(stream, peer.ip(), runtime, shutdown, &mut open, &mut rejections);
                    }
                    Err(error) => pause_after_error(&error, &mut last_logged_error).await,
                },
                _ = clean_up.tick() => self.clients.remove_idle(clock::now()),
                Some(_) = open.remove_ended() => {}
                Some(_) = rejections.join_next() => {}
                () = shutdown.closing.cancelled() => break,
            }
        }
        drop(listener);
        while open.remove_ended().await.is_some() {}
    }

    /// Serves a new connection from `address` on `runtime`, or refuses it.
    fn start(
        &self,
        stream: TcpStream,
        address: IpAddr,
        runtime: &Handle,
        shutdown: &Shutdown,
        open: &mut OpenConnections,
        rejections: &mut JoinSet<()>,
    ) {
        // The stream belongs to this runtime, and will belong to the one that serves it.
        let Ok(stream) = stream.into_std() else { return };
        match self.admit(address, open) {
            Ok(peer) => {
                let client = peer.client_key();
                let activity = Arc::new(ConnectionActivity::default());
                let connection = Connection {
                    shared: Arc::clone(&self.shared),
                    peer,
                    activity: Arc::clone(&activity),
                    shutdown: shutdown.clone(),
                };
                open.spawn(client, activity, connection.serve(stream), runtime);
            }
            Err(status) if rejections.len() < MAX_REJECTIONS => {
                let task = connection::reject(stream, self.shared.app.clone(), status);
                rejections.spawn_on(task, runtime);
            }
            Err(_) => {}
        }
    }

    /// Counts a connection from `address` beside the `open` ones, of which it may close one. Returns the status to
    /// refuse it with if it is over a limit.
    fn admit(
        &self,
        address: IpAddr,
        open: &mut OpenConnections,
    ) -> Result<ConnectedPeer, StatusCode> {
        let peer = self.clients.connect(address).map_err(|NoFreeSlot| {
            self.accept_counters[AcceptOutcome::RefusedClientLimit].increment();
            StatusCode::TOO_MANY_REQUESTS
        })?;
        if open.count() >= self.max_connections {
            if !open.shed_for(peer.client_key()) {
                self.accept_counters[AcceptOutcome::RefusedOverloaded].increment();
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
            self.shared.shed_counters[ShedReason::ConnectionLimit].increment();
        }
        self.accept_counters[AcceptOutcome::Accepted].increment();
        Ok(peer)
    }
}

/// Waits after an error of `accept`, so that a lack of file descriptors does not cause a busy loop. Such errors come in
/// thousands, so one is logged per minute.
async fn pause_after_error(error: &std::io::Error, last_logged: &mut Option<Instant>) {
    const PAUSE: Duration = Duration::from_millis(100);
    const LOG_INTERVAL: Duration = Duration::from_mins(1);
    if last_logged.is_none_or(|last| clock::elapsed(last) > LOG_INTERVAL) {
        *last_logged = Some(clock::now());
        tracing::warn!(%error, "cannot accept connections");
    }
    tokio::time::sleep(PAUSE).await;
}
