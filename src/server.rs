//! The composition root: binds the listeners, starts the tasks, drains them.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::api::{self, Health};
use crate::book::Book;
use crate::clients::Clients;
use crate::config::{Config, Limits};
use crate::delegation::Delegations;
use crate::listener::{Listener, MAX_REFUSALS, Stop};
use crate::metrics::Metrics;
use crate::poller::{Poller, Timing};
use crate::proxy::Proxy;
use crate::reads::Reads;
use crate::rpc::{Client, NewHeads, Upstreams};
use crate::shared::Shared;
use crate::{gauges, telemetry, traces};

/// The service with its listeners bound, not serving yet.
#[derive(Debug)]
pub struct Server {
    config: Config,
    public: TcpListener,
    admin: TcpListener,
    background: JoinSet<anyhow::Result<()>>,
}

impl Server {
    /// Binds both listeners. Nothing is polled before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// When an address cannot be had; the text names it.
    #[expect(clippy::unused_async, reason = "a listener is bound within a runtime")]
    pub async fn bind(config: Config) -> anyhow::Result<Self> {
        let patience = config.limits.write_timeout;
        let public = bind("server.listen", config.server.listen, patience)?;
        let admin = bind("server.admin_listen", config.server.admin_listen, patience)?;
        Ok(Self { config, public, admin, background: JoinSet::new() })
    }

    /// Where the public routes are; with port 0 in the configuration, the port that was taken.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.public.local_addr()
    }

    /// Where the admin routes are.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Runs `task` beside the service; like every task it must not end before the service does.
    pub fn add_task(&mut self, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.background.spawn(task);
    }

    /// Serves until `shutdown` resolves, then lets requests under way finish for at most
    /// `shutdown_grace`. Dropping the future stops everything at once.
    ///
    /// # Errors
    ///
    /// When a task ended by itself; the service has drained by then.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        tracing::info!(address = %self.address()?, admin = %self.admin_address()?, "listening");
        let client = Client::new(&self.config).context("cannot set up the HTTP client")?;
        let (book, publishers) = Book::new(&self.config.chains);
        let metrics = Metrics::new();
        let limits = self.limits();
        let stop = Stop::default();
        let health = Health::new(book.clone(), stop.drain.clone());

        let upstreams = Upstreams::of_all(&client, &self.config.chains, &metrics);
        gauges::show(&book, &upstreams, &metrics);
        metrics.watch_losses(telemetry::dropped_lines, traces::lost_spans);
        self.background.spawn(keep_up(metrics.clone()).map(|never| match never {}));
        let reads = Reads::new(&self.config.rpc, &book, &upstreams, &metrics);
        let shared = Shared::new(&self.config.redis, &self.config.chains, &upstreams, &metrics);
        let shared = shared.context("cannot set up the Redis client")?;
        let api = &self.config.delegation.api_url;
        let pool = shared.as_ref().map(|shared| shared.pool(api));
        let timings = match shared {
            Some(shared) => {
                let (turns, connection) = shared.open();
                self.background.spawn(connection.map(|never| match never {}));
                turns.into_iter().map(|turns| Timing::Turns(Box::new(turns))).collect()
            }
            None => self.listen_for_blocks(&metrics).context("cannot set up the HTTP client")?,
        };
        for ((publisher, upstreams), timing) in publishers.into_iter().zip(upstreams).zip(timings) {
            let poller = Poller::new(upstreams, publisher, metrics.clone());
            self.background.spawn(poller.run(timing).map(|never| match never {}));
        }
        // The admin listener answers while the public one drains: that is when it is asked.
        let admin = api::admin(&self.config, health.clone(), &metrics);
        let of_operator = limits.of_operator();
        let clients = Clients::new(&of_operator, &[]);
        let admin = Listener::new("admin", admin, clients, &of_operator, &metrics);
        self.background.spawn(admin.serve(self.admin, Stop::default()).map(Ok));
        let to_verification = Proxy::to_verification(&self.config.verification, &metrics);
        let to_verification = to_verification.context("cannot set up the HTTP client")?;
        let delegations = Delegations::new(&self.config.delegation, &reads, pool, &metrics);
        let delegations = delegations.context("cannot set up the HTTP client")?;
        if let Some(keep) = delegations.as_ref().and_then(Delegations::keep_budget) {
            self.background.spawn(keep.map(|never| match never {}));
        }
        let public = api::public(
            &self.config,
            &book,
            &reads,
            to_verification,
            delegations,
            health,
            &metrics,
        );
        let clients = Clients::new(&limits, &self.config.server.trusted_proxies);
        let public = Listener::new("public", public, clients, &limits, &metrics);
        let mut serving = JoinSet::new();
        serving.spawn(public.serve(self.public, stop.clone()).map(Ok));

        let crash = tokio::select! {
            () = shutdown => None,
            Some(ended) = self.background.join_next() => Some(crash_of(ended)),
            Some(ended) = serving.join_next() => Some(crash_of(ended)),
        };
        tracing::info!("stopping");
        stop.drain.cancel();
        if crash.is_none() {
            tokio::time::sleep(self.config.server.drain_delay).await;
        }
        stop.close.cancel();
        let drained = async { while serving.join_next().await.is_some() {} };
        if tokio::time::timeout(self.config.server.shutdown_grace, drained).await.is_err() {
            tracing::warn!("requests still under way after the grace period were cut off");
        }
        crash.map_or(Ok(()), Err)
    }
}

impl Server {
    /// Each chain's announcements, where it has any.
    fn listen_for_blocks(&mut self, metrics: &Metrics) -> Result<Vec<Timing>, reqwest::Error> {
        let mut timings = Vec::new();
        for chain in &self.config.chains {
            let announced = NewHeads::new(chain, metrics)?.map(|(listener, announced)| {
                self.background.spawn(listener.run().map(|never| match never {}));
                announced
            });
            timings.push(Timing::Blocks(announced));
        }
        Ok(timings)
    }

    /// The configured limits, with no more connections than leave some of the process's open files
    /// to the upstreams and the admin listener: a flood of clients must not end the polling.
    fn limits(&self) -> Limits {
        const OTHERS: usize = 64;
        let chains = self.config.chains.iter();
        let sockets = chains.clone().filter(|chain| !chain.ws_urls.is_empty()).count();
        let urls: usize = chains.map(|chain| chain.rpc_urls.len()).sum();
        let of_reads = self.config.rpc.max_in_flight.get();
        let reserved = urls
            .saturating_mul(of_reads.saturating_add(2))
            .saturating_add(sockets)
            .saturating_add(self.config.verification.max_in_flight.get())
            .saturating_add(self.config.delegation.max_in_flight.get())
            .saturating_add(Limits::MAX_ADMIN_CONNECTIONS + MAX_REFUSALS + OTHERS);
        let mut limits = self.config.limits.clone();
        let open_files = match rlimit::increase_nofile_limit(u64::MAX) {
            Ok(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Err(error) => {
                tracing::warn!(%error, "cannot tell how many files may be open");
                return limits;
            }
        };
        let most = open_files.saturating_sub(reserved).max(open_files / 4).max(1);
        match limits.max_connections {
            0 => limits.max_connections = most,
            configured if configured > most => {
                limits.max_connections = most;
                tracing::warn!(
                    configured,
                    max_connections = most,
                    open_files,
                    "fewer connections than configured: the process may not have more open files"
                );
            }
            _ => {}
        }
        limits
    }
}

/// Keeps what is measured from piling up.
async fn keep_up(metrics: Metrics) -> Infallible {
    let mut ticker = tokio::time::interval(Metrics::UPKEEP_INTERVAL);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticker.tick().await;
        metrics.upkeep();
    }
}

fn bind(key: &str, address: SocketAddr, patience: Duration) -> anyhow::Result<TcpListener> {
    listen(address, patience).with_context(|| format!("cannot listen on {address} ({key})"))
}

/// Listens at `address` for clients that may take nothing of what is sent to them for as long as `patience`.
fn listen(address: SocketAddr, patience: Duration) -> std::io::Result<TcpListener> {
    /// What the system keeps of answers that a client does not take. By itself it would keep
    /// megabytes, and a client that never reads would have as many answers made.
    const SEND_BUFFER_BYTES: u32 = 64 * 1024;
    const BACKLOG: u32 = 1024;
    const OURS_FIRST: Duration = Duration::from_secs(2);
    /// The system counts milliseconds in 31 bits.
    const LONGEST: Duration = Duration::from_hours(24 * 24);
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted service takes its port over at once.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    // What the system has taken over to send is out of our sight. Without this it would try for a quarter of
    // an hour to send it to a client that is gone, and for ever to one that never reads on. Where we see it, we
    // are to be first: the system tells nobody.
    #[cfg(target_os = "linux")]
    if !patience.is_zero() {
        let patience = patience.saturating_add(OURS_FIRST).min(LONGEST);
        socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(patience))?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What a task that should have run for ever says about its end.
fn crash_of(ended: Result<anyhow::Result<()>, JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a task ended by itself"),
        Ok(Err(error)) => error.context("a task failed"),
        Err(error) => anyhow::Error::new(error).context("a task panicked"),
    }
}
