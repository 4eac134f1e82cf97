//! The composition root: binds the listeners, starts the tasks, drains them.
//!
//! Start: [`Server::bind`] returns when both listeners are bound. [`Server::run`] starts the pollers, then the admin
//! listener, then the public one. `/readyz` returns 200 once every chain was polled and one of them has data.
//!
//! Stop, on the first SIGTERM, SIGINT or SIGHUP:
//!
//! 1. `/readyz` returns 503, event streams end, and every public response closes its connection. Connections are still
//!    accepted for `drain_delay`, so that a load balancer can react.
//! 2. The public listener accepts no more connections and closes idle ones. Requests in flight may finish within
//!    `shutdown_grace`; the rest are aborted.
//! 3. The endings of the features run: the history database is written. [`Server::run`] returns, which ends the pollers and
//!    the admin listener. The exit status is 0.
//!
//! A second signal stops everything at once. A task that ends by itself is a crash: the service drains without
//! `drain_delay` and exits with status 1.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::{self, App, ReadinessState};
use crate::assembly::{Assembly, Ending};
use crate::cli::start_summary;
use crate::config::{Config, Limits};
use crate::extras::EXTRAS;
use crate::http::client_limits::ClientTable;
use crate::http::listener::{
    Listener, MAX_REJECTIONS, RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES, Shutdown,
};
use crate::http::memory_limit::MemoryShares;
use crate::http::serving_threads::ServingThreads;
use crate::nodes::{ChainUpstreams, NewHeadsSubscription};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::poll::chain_parameters::HeaderReader;
use crate::poll::{PollTiming, Poller};
use crate::poll::{freshness_log, gauges};
use crate::store::Publisher;

/// Memory of the admin listener's clients.
const ADMIN_MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// The service with its listeners bound, not yet serving.
#[derive(Debug)]
pub struct Server {
    config: Config,
    /// `None`: it is served.
    public: Option<TcpListener>,
    /// `None`: it is served.
    admin: Option<TcpListener>,
    background: JoinSet<anyhow::Result<()>>,
}

impl Server {
    /// Binds both listeners. Polling starts with [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Fails if an address cannot be bound; the error names it.
    #[expect(clippy::unused_async, reason = "a listener is bound within a runtime")]
    pub async fn bind(config: Config) -> anyhow::Result<Self> {
        let write_timeout = config.limits.write_timeout;
        let public = bind("server.listen", config.server.listen, write_timeout)?;
        let admin = bind("server.admin_listen", config.server.admin_listen, write_timeout)?;
        Ok(Self { config, public: Some(public), admin: Some(admin), background: JoinSet::new() })
    }

    /// Address of the public listener. With port 0 in the configuration it has the assigned port.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not return the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        local_address(self.public.as_ref())
    }

    /// Address of the admin listener.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not return the address.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        local_address(self.admin.as_ref())
    }

    /// Adds a task that runs beside the service. Like every task it must not end before the service does.
    pub fn add_task(&mut self, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.background.spawn(task);
    }

    /// Serves until `stop_signal` resolves, then lets requests in flight finish for at most `shutdown_grace`. Dropping
    /// the future stops everything at once.
    ///
    /// # Errors
    ///
    /// Fails if a task ended unexpectedly; the service has drained by then.
    pub async fn run(mut self, stop_signal: impl Future<Output = ()>) -> anyhow::Result<()> {
        start_summary::report(&self.config, self.address()?, self.admin_address()?);
        let assembly = Assembly::new(self.config.clone(), EXTRAS)?;
        let mut running = self.start(assembly).await?;
        let crash = tokio::select! {
            () = stop_signal => None,
            Some(ended) = self.background.join_next() => Some(task_error(ended)),
            () = &mut running.serving => Some(anyhow!("the public listener ended unexpectedly")),
        };
        self.drain(running, crash.is_some()).await;
        crash.map_or(Ok(()), Err)
    }

    /// Starts the polls and both listeners.
    async fn start(&mut self, mut assembly: Assembly) -> anyhow::Result<Running> {
        let limits = self.limits(assembly.memory_shares);
        tracing::info!(
            memory_limit = self.config.limits.memory.bytes(),
            memory_budget = assembly.memory_shares.budget,
            max_connections = limits.max_connections,
            "limits derived"
        );
        let shutdown = Shutdown::default();
        let health = ReadinessState::new(assembly.store.clone(), shutdown.draining.clone());
        gauges::register(&assembly.store, &assembly.upstreams, &assembly.metrics);
        self.start_polls(&mut assembly).await?;
        let Assembly { store, memory, metrics, routes, endings, .. } = assembly;
        self.start_admin(&limits, health.clone(), &metrics)?;
        let public = api::public(&self.config, &store, routes, health, &memory, &metrics);
        let clients = ClientTable::new(&limits, &self.config.server.trusted_proxies);
        let public = Listener::new("public", public, clients, &limits, memory, &metrics);
        let threads = ServingThreads::start(self.config.server.threads.count());
        let threads = threads.context("cannot start the serving threads")?;
        let (listener, until) = (take(&mut self.public)?, shutdown.clone());
        let serving =
            async move { public.serve(listener, threads.runtimes(), until).await }.boxed().fuse();
        Ok(Running { serving, shutdown, endings })
    }

    /// Lets requests in flight finish, and ends what has to be ended. Does not wait for load balancers after a crash.
    async fn drain(&self, running: Running, is_crash: bool) {
        let Running { mut serving, shutdown, endings } = running;
        tracing::info!("shutting down");
        shutdown.start_draining();
        if !is_crash {
            // The listener keeps accepting.
            let _ = tokio::time::timeout(self.config.server.drain_delay, &mut serving).await;
        }
        shutdown.closing.cancel();
        if tokio::time::timeout(self.config.server.shutdown_grace, serving).await.is_err() {
            tracing::warn!("requests aborted after the shutdown grace period");
        }
        for ending in endings {
            ending.await;
        }
    }

    /// Starts to poll all chains, after what the features do before the first poll.
    async fn start_polls(&mut self, assembly: &mut Assembly) -> anyhow::Result<()> {
        for preparation in std::mem::take(&mut assembly.preparations) {
            for task in preparation.await {
                self.background.spawn(task);
            }
        }
        for task in std::mem::take(&mut assembly.tasks) {
            self.background.spawn(task);
        }
        let timings = match assembly.shared_polls.take() {
            Some(polls) => polls.into_iter().map(PollTiming::Shared).collect(),
            None => {
                self.start_new_heads(&assembly.metrics).context("cannot set up the HTTP client")?
            }
        };
        let publishers = std::mem::take(&mut assembly.publishers).into_iter();
        let upstreams = assembly.upstreams.iter().map(Arc::clone);
        for ((publisher, upstreams), timing) in publishers.zip(upstreams).zip(timings) {
            self.start_chain(publisher, upstreams, timing, &assembly.memory, &assembly.metrics);
        }
        for chain in assembly.store.chains() {
            let watch = freshness_log::watch(chain.clone());
            self.background.spawn(watch.map(|never| match never {}));
        }
        Ok(())
    }

    /// Starts the admin listener, which keeps serving while the public one drains, because probes and scrapes continue.
    fn start_admin(
        &mut self,
        limits: &Limits,
        health: ReadinessState,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let admin = api::admin(&self.config, health, metrics);
        let limits = limits.for_admin();
        let clients = ClientTable::new(&limits, &[]);
        // A budget of its own, so that clients cannot keep probes and scrapes out.
        let memory = MemoryBudget::new(ADMIN_MEMORY_BYTES);
        let admin = Listener::new("admin", admin, clients, &limits, memory, metrics);
        let background = [Handle::current()];
        let listener = take(&mut self.admin)?;
        self.background.spawn(async move {
            admin.serve(listener, &background, Shutdown::default()).await;
            Ok(())
        });
        Ok(())
    }

    /// Starts a subscription to block announcements for each chain with `ws_urls`. Returns the poll timing of every
    /// chain, in the order of the configuration.
    fn start_new_heads(&mut self, metrics: &Metrics) -> Result<Vec<PollTiming>, reqwest::Error> {
        let mut timings = Vec::new();
        for chain in &self.config.chains {
            let announced = NewHeadsSubscription::new(chain, &self.config.upstream, metrics)?.map(
                |(listener, announced)| {
                    self.background.spawn(listener.run().map(|never| match never {}));
                    announced
                },
            );
            timings.push(PollTiming::Schedule(announced));
        }
        Ok(timings)
    }

    /// Starts to poll a chain, and to read what else is needed of its blocks.
    fn start_chain(
        &mut self,
        publisher: Publisher,
        upstreams: Arc<ChainUpstreams>,
        timing: PollTiming,
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) {
        let header_reader = HeaderReader::new(publisher.chain(), &upstreams, memory, metrics);
        let header_parameters = header_reader.map(|(reader, parameters)| {
            self.background.spawn(reader.run().map(|never| match never {}));
            parameters
        });
        let poller = Poller::new(upstreams, publisher, header_parameters, memory, metrics.clone());
        self.background.spawn(poller.run(timing).map(|never| match never {}));
    }

    /// Returns the configured limits. The number of connections fits into memory. It leaves some of the process's open
    /// files to upstream connections and the admin listener, so that a flood of clients cannot stop the polls.
    fn limits(&self, memory: MemoryShares) -> Limits {
        const SPARE_FILES: usize = 64;
        let chains = self.config.chains.iter();
        let sockets = chains.clone().filter(|chain| !chain.ws_urls.is_empty()).count();
        let urls: usize = chains.map(|chain| chain.upstream_urls().len()).sum();
        let needs = self.config.needs();
        let reserved_files = urls
            .saturating_mul(needs.node_connections.saturating_add(2))
            .saturating_add(sockets)
            .saturating_add(needs.connections)
            .saturating_add(Limits::MAX_ADMIN_CONNECTIONS + MAX_REJECTIONS + SPARE_FILES);
        let mut limits = self.config.limits.clone();
        match limits.max_connections {
            0 => limits.max_connections = memory.max_connections,
            configured if configured > memory.max_connections => {
                limits.max_connections = memory.max_connections;
                tracing::info!(
                    configured,
                    max_connections = memory.max_connections,
                    "connection limit lowered to fit the memory limit"
                );
            }
            _ => {}
        }
        let open_files = match rlimit::increase_nofile_limit(u64::MAX) {
            Ok(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Err(error) => {
                tracing::warn!(%error, "cannot read the open-file limit");
                return limits;
            }
        };
        let available = open_files.saturating_sub(reserved_files).max(open_files / 4).max(1);
        if limits.max_connections > available {
            tracing::warn!(
                configured = limits.max_connections,
                max_connections = available,
                open_files,
                "connection limit lowered to fit the open-file limit"
            );
            limits.max_connections = available;
        }
        limits
    }
}

/// The service while it serves.
struct Running {
    serving: Fuse<BoxFuture<'static, ()>>,
    shutdown: Shutdown,
    /// Futures that run after the last request.
    endings: Vec<Ending>,
}

/// Returns the address of a listener.
fn local_address(listener: Option<&TcpListener>) -> std::io::Result<SocketAddr> {
    let listener = listener.ok_or_else(|| std::io::Error::other("the service runs already"))?;
    listener.local_addr()
}

/// Takes a listener, which is served once.
fn take(listener: &mut Option<TcpListener>) -> anyhow::Result<TcpListener> {
    listener.take().context("the service runs already")
}

/// Returns the OpenAPI document of the public listener's routes.
///
/// # Errors
///
/// Fails if the service cannot be put together.
pub fn document(config: &Config) -> anyhow::Result<String> {
    let assembly = Assembly::new(config.clone(), EXTRAS)?;
    Ok(api::document(config, &assembly.routes).to_pretty_json()?)
}

/// Returns the OpenAPI document of the public listener's routes for any chain: it does not depend on the configured
/// chains. Its examples are of a sample chain.
///
/// # Errors
///
/// Fails if the service cannot be put together.
pub fn generic_document(config: &Config) -> anyhow::Result<String> {
    const SAMPLE: &str = "[chains.ethereum]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1\"]";
    let assembly = Assembly::new(config.clone(), EXTRAS)?;
    let sample = Config::from_toml(SAMPLE, &[])?;
    let sample = sample.chains.first().context("the sample has a chain")?;
    Ok(api::generic_document(config, sample, &assembly.routes).to_pretty_json()?)
}

/// Builds the routes of the public listener without listeners and polls. `publish` gets the writers of the chains, in
/// their order. The service is shutting down once `shutdown` is cancelled. Needs no runtime.
///
/// # Errors
///
/// Fails if the service cannot be put together.
pub fn public_app(
    config: &Config,
    publish: impl FnOnce(&mut [Publisher]),
    shutdown: CancellationToken,
) -> anyhow::Result<App> {
    let mut assembly = Assembly::new(config.clone(), EXTRAS)?;
    publish(&mut assembly.publishers);
    let Assembly { store, memory, metrics, routes, .. } = assembly;
    let health = ReadinessState::new(store.clone(), shutdown);
    Ok(api::public(config, &store, routes, health, &memory, &metrics))
}

fn bind(key: &str, address: SocketAddr, write_timeout: Duration) -> anyhow::Result<TcpListener> {
    let flag = format!("--{}", key.trim_start_matches("server.").replace('_', "-"));
    let message = || format!("cannot listen on {address} ({key} or {flag})");
    listen(address, write_timeout).with_context(message)
}

/// Listens at `address`. The kernel closes a connection whose client reads nothing for `write_timeout`.
fn listen(address: SocketAddr, write_timeout: Duration) -> std::io::Result<TcpListener> {
    const BACKLOG: u32 = 1024;
    /// The kernel stores milliseconds in 31 bits.
    const MAX_USER_TIMEOUT: Duration = Duration::from_hours(24 * 24);
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted service can take over its port at once.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(u32::try_from(SEND_BUFFER_BYTES).unwrap_or(u32::MAX))?;
    socket.set_recv_buffer_size(u32::try_from(RECEIVE_BUFFER_BYTES).unwrap_or(u32::MAX))?;
    // TCP_USER_TIMEOUT of connections. Data in the system's send buffer is invisible to the service. Without this
    // timeout the system would retry for a quarter of an hour, and for ever if the client never reads on.
    #[cfg(target_os = "linux")]
    if !write_timeout.is_zero() {
        let user_timeout = write_timeout.min(MAX_USER_TIMEOUT);
        socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(user_timeout))?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns the error of a task that ended although it should run for ever.
fn task_error(ended: Result<anyhow::Result<()>, JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a task ended unexpectedly"),
        Ok(Err(error)) => error.context("a task failed"),
        Err(error) => anyhow::Error::new(error).context("a task panicked"),
    }
}

#[cfg(test)]
mod tests;
