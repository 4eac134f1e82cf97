//! Accepts connections and serves HTTP/1.1 on them. TLS and HTTP/2 belong to the proxy in front.
//!
//! Nothing queues here: a connection over the limit is refused at once. Every connection has deadlines, and a request
//! that cannot be parsed gets a problem document like every other error.
//!
//! The accept loop is the service's own, because `axum::serve` has no deadlines for connections.
//!
//! A request with both `Content-Length` and `Transfer-Encoding` is rejected, because a proxy in front may have used
//! either (RFC 9112, section 6.1). hyper removes the length before a handler sees the request.

mod connection;
mod connection_state;
mod framing;
mod monitored_stream;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use enum_map::{Enum, EnumMap};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::api::App;
use crate::client_limits::ClientTable;
use crate::config::Limits;
use crate::metrics::{Counter, DeadlineLabels, ListenerOutcomeLabels, Metrics, counters};
use connection_state::{CoarseClock, ConnectionState, Timeout, Timeouts};

/// Number of refused connections that get a response at a time. Further ones are closed without a response.
pub(crate) const MAX_REJECTIONS: usize = 256;

/// Signals that end a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// From now on every response closes its connection.
    pub(crate) draining: CancellationToken,
    /// From now on no connection is accepted, and idle ones are closed.
    pub(crate) closing: CancellationToken,
}

/// True if every response closes its connection. Cheap to read per request.
#[derive(Debug, Default)]
struct DrainFlag(AtomicBool);

impl DrainFlag {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// State of a listener while it serves.
pub(crate) struct Listener {
    app: App,
    clients: ClientTable,
    /// 0: no limit.
    max_connections: usize,
    timeouts: Timeouts,
    clock: Arc<CoarseClock>,
    drain_flag: Arc<DrainFlag>,
    connections: JoinSet<()>,
    states: HashMap<Id, Arc<ConnectionState>>,
    rejections: JoinSet<()>,
    accept_counters: EnumMap<AcceptOutcome, Counter>,
    timeout_counters: EnumMap<Timeout, Counter>,
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum AcceptOutcome {
    Accepted,
    RefusedOverloaded,
    RefusedClientLimit,
}

impl Listener {
    /// Creates a listener that serves `app` within `limits` and labels its metrics with `listener`.
    pub(crate) fn new(
        listener: &'static str,
        app: App,
        clients: ClientTable,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Self {
        Self {
            app,
            clients,
            max_connections: limits.max_connections,
            timeouts: Timeouts::new(limits),
            clock: Arc::new(CoarseClock::new()),
            drain_flag: Arc::default(),
            connections: JoinSet::new(),
            states: HashMap::new(),
            rejections: JoinSet::new(),
            accept_counters: counters(&metrics.connections_total, |outcome| {
                ListenerOutcomeLabels { listener, outcome }
            }),
            timeout_counters: counters(&metrics.connection_timeouts_total, |deadline| {
                DeadlineLabels { listener, deadline }
            }),
        }
    }

    /// Serves until `shutdown`, and returns when the last request in flight is finished.
    /// Dropping the future closes all connections.
    pub(crate) async fn serve(mut self, listener: TcpListener, shutdown: Shutdown) {
        let mut ticker = tokio::time::interval(CoarseClock::TICK);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = AcceptBackoff::default();
        loop {
            tokio::select! {
                accepted = listener.accept(), if !backoff.is_active() => match accepted {
                    Ok((stream, peer)) => {
                        backoff.reset();
                        self.accept_connection(stream, peer.ip());
                    }
                    Err(error) => backoff.start(&error),
                },
                _ = ticker.tick() => {
                    self.check_timeouts();
                    backoff.log_recovery();
                }
                Some(ended) = self.connections.join_next_with_id() => self.remove_ended(ended),
                Some(_) = self.rejections.join_next() => {}
                () = shutdown.draining.cancelled(), if !self.drain_flag.is_set() => {
                    self.drain_flag.0.store(true, Ordering::Relaxed);
                }
                () = shutdown.closing.cancelled() => break,
            }
        }
        drop(listener);
        self.drain_flag.0.store(true, Ordering::Relaxed);
        self.states.values().for_each(|state| state.drain());
        while !self.connections.is_empty() {
            tokio::select! {
                Some(ended) = self.connections.join_next_with_id() => self.remove_ended(ended),
                _ = ticker.tick() => self.check_timeouts(),
            }
        }
    }

    fn accept_connection(&mut self, stream: TcpStream, address: std::net::IpAddr) {
        if self.max_connections > 0 && self.connections.len() >= self.max_connections {
            self.accept_counters[AcceptOutcome::RefusedOverloaded].increment();
            return self.reject(stream, StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(peer) = self.clients.connect(address) else {
            self.accept_counters[AcceptOutcome::RefusedClientLimit].increment();
            return self.reject(stream, StatusCode::TOO_MANY_REQUESTS);
        };
        self.accept_counters[AcceptOutcome::Accepted].increment();
        let state = Arc::new(ConnectionState::new(&self.clock));
        let (app, drain_flag) = (self.app.clone(), Arc::clone(&self.drain_flag));
        let task = connection::serve(stream, app, peer, Arc::clone(&state), drain_flag);
        let id = self.connections.spawn(task).id();
        self.states.insert(id, state);
    }

    fn reject(&mut self, stream: TcpStream, status: StatusCode) {
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections
                .spawn(connection::respond_and_close(stream, self.app.rejection_response(status)));
        }
    }

    fn check_timeouts(&self) {
        let now = Instant::now();
        self.clock.advance(now);
        for state in self.states.values() {
            if let Some(timeout) = state.check_timeouts(self.timeouts) {
                self.timeout_counters[timeout].increment();
            }
        }
        self.clients.remove_idle(now);
    }

    fn remove_ended(&mut self, joined: Result<(Id, ()), tokio::task::JoinError>) {
        let id = joined.map_or_else(|error| error.id(), |(id, ())| id);
        if self.states.remove(&id).is_some_and(|state| state.timed_out_in_kernel()) {
            self.timeout_counters[Timeout::Write].increment();
        }
    }
}

/// Pause of accepting after an error, so that a shortage of file descriptors does not cause a busy loop.
///
/// During a shortage failures and successes alternate; it is logged once.
#[derive(Debug, Default)]
struct AcceptBackoff {
    until: Option<Instant>,
    failures: u32,
    last_failure: Option<Instant>,
}

impl AcceptBackoff {
    const INITIAL_DELAY: Duration = Duration::from_millis(50);
    const MAX_DELAY: Duration = Duration::from_secs(1);
    /// The shortage is over after this time without an error.
    const RECOVERY_PERIOD: Duration = Duration::from_secs(30);

    fn is_active(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    fn start(&mut self, error: &std::io::Error) {
        let now = Instant::now();
        if self.last_failure.replace(now).is_none() {
            tracing::warn!(%error, "cannot accept connections");
        }
        let delay = Self::INITIAL_DELAY.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + delay.min(Self::MAX_DELAY));
    }

    fn reset(&mut self) {
        self.until = None;
        self.failures = 0;
    }

    fn log_recovery(&mut self) {
        if self.last_failure.is_some_and(|last| last.elapsed() > Self::RECOVERY_PERIOD) {
            *self = Self::default();
            tracing::info!("accepting connections recovered");
        }
    }
}
