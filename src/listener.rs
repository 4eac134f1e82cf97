//! Accepts connections and serves HTTP/1.1 on them; TLS and HTTP/2 belong to the edge in front.
//!
//! Nothing queues here: a connection too many is answered at once. Every connection has deadlines
//! for what is waited for, and what cannot be read is answered in the form of every other error.

mod connection;
mod line;
mod tape;
mod watched;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use metrics::Counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::api::App;
use crate::clients::Clients;
use crate::config::Limits;
use crate::metrics::Metrics;
use line::{Clock, Deadlines, Line, Missed};

/// How many refused connections are being told so; more are closed without a word.
pub(crate) const MAX_REFUSALS: usize = 256;

/// How a listener is told to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    /// From here on every answer closes its connection.
    pub(crate) drain: CancellationToken,
    /// From here on no connection is accepted and idle ones are closed.
    pub(crate) close: CancellationToken,
}

/// Whether every answer closes its connection: a flag that costs a request next to nothing.
#[derive(Debug, Default)]
struct Drain(AtomicBool);

impl Drain {
    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A listener's state while it serves.
pub(crate) struct Listener {
    app: App,
    clients: Clients,
    /// 0: any number.
    max_connections: usize,
    deadlines: Deadlines,
    clock: Arc<Clock>,
    drain: Arc<Drain>,
    connections: JoinSet<()>,
    lines: HashMap<Id, Arc<Line>>,
    refusals: JoinSet<()>,
    counters: Counters,
}

struct Counters {
    accepted: Counter,
    overloaded: Counter,
    too_many_of_client: Counter,
    late_head: Counter,
    late_idle: Counter,
    late_write: Counter,
}

impl Counters {
    fn new(listener: &'static str, metrics: &Metrics) -> Self {
        let connections = |outcome| metrics.connections(listener, outcome);
        let cut = |deadline| metrics.connections_cut(listener, deadline);
        Self {
            accepted: connections("accepted"),
            overloaded: connections("refused_overloaded"),
            too_many_of_client: connections("refused_too_many_of_client"),
            late_head: cut("header"),
            late_idle: cut("idle"),
            late_write: cut("write"),
        }
    }
}

impl Listener {
    /// Will answer with `app`, within `limits`, and count under `name`.
    pub(crate) fn new(
        name: &'static str,
        app: App,
        clients: Clients,
        limits: &Limits,
        metrics: &Metrics,
    ) -> Self {
        Self {
            app,
            clients,
            max_connections: limits.max_connections,
            deadlines: Deadlines::new(limits),
            clock: Arc::new(Clock::new()),
            drain: Arc::default(),
            connections: JoinSet::new(),
            lines: HashMap::new(),
            refusals: JoinSet::new(),
            counters: Counters::new(name, metrics),
        }
    }

    /// Serves until it is told to `stop`, and returns when the last request under way is answered.
    /// Dropping the future cuts all connections.
    pub(crate) async fn serve(mut self, listener: TcpListener, stop: Stop) {
        let mut ticker = tokio::time::interval(Clock::STEP);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = Pause::default();
        loop {
            tokio::select! {
                accepted = listener.accept(), if !pause.is_on() => match accepted {
                    Ok((stream, peer)) => {
                        pause.is_over();
                        self.take(stream, peer.ip());
                    }
                    Err(error) => pause.begin(&error),
                },
                _ = ticker.tick() => {
                    self.sweep();
                    pause.settle();
                }
                Some(ended) = self.connections.join_next_with_id() => self.forget(ended),
                Some(_) = self.refusals.join_next() => {}
                () = stop.drain.cancelled(), if !self.drain.has_begun() => {
                    self.drain.0.store(true, Ordering::Relaxed);
                }
                () = stop.close.cancelled() => break,
            }
        }
        drop(listener);
        self.drain.0.store(true, Ordering::Relaxed);
        self.lines.values().for_each(|line| line.finish());
        while !self.connections.is_empty() {
            tokio::select! {
                Some(ended) = self.connections.join_next_with_id() => self.forget(ended),
                _ = ticker.tick() => self.sweep(),
            }
        }
    }

    fn take(&mut self, stream: TcpStream, peer: std::net::IpAddr) {
        if self.max_connections > 0 && self.connections.len() >= self.max_connections {
            self.counters.overloaded.increment(1);
            return self.refuse(stream, StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(visitor) = self.clients.connect(peer) else {
            self.counters.too_many_of_client.increment(1);
            return self.refuse(stream, StatusCode::TOO_MANY_REQUESTS);
        };
        self.counters.accepted.increment(1);
        let line = Arc::new(Line::new(&self.clock));
        let (app, drain) = (self.app.clone(), Arc::clone(&self.drain));
        let served = connection::serve(stream, app, visitor, Arc::clone(&line), drain);
        let id = self.connections.spawn(served).id();
        self.lines.insert(id, line);
    }

    fn refuse(&mut self, stream: TcpStream, status: StatusCode) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.spawn(connection::close_with(stream, self.app.refusal(status)));
        }
    }

    fn sweep(&self) {
        let now = Instant::now();
        self.clock.tell(now);
        for line in self.lines.values() {
            match line.check(self.deadlines) {
                Some(Missed::Head) => self.counters.late_head.increment(1),
                Some(Missed::Idle) => self.counters.late_idle.increment(1),
                Some(Missed::Write) => self.counters.late_write.increment(1),
                None => {}
            }
        }
        self.clients.sweep(now);
    }

    fn forget(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        if self.lines.remove(&id).is_some_and(|line| line.was_given_up()) {
            self.counters.late_write.increment(1);
        }
    }
}

/// A pause of accepting after an error, so that running out of file descriptors is no busy loop.
///
/// Where they are short, an error follows a success follows an error: that is told once.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    failures: u32,
    last_failure: Option<Instant>,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(1);
    /// Without an error for this long, the shortage is over.
    const CALM: Duration = Duration::from_secs(30);

    fn is_on(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    fn begin(&mut self, error: &std::io::Error) {
        let now = Instant::now();
        if self.last_failure.replace(now).is_none() {
            tracing::warn!(%error, "cannot accept connections");
        }
        let length = Self::FIRST.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + length.min(Self::LONGEST));
    }

    fn is_over(&mut self) {
        self.until = None;
        self.failures = 0;
    }

    fn settle(&mut self) {
        if self.last_failure.is_some_and(|last| last.elapsed() > Self::CALM) {
            *self = Self::default();
            tracing::info!("connections are accepted again");
        }
    }
}
