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
//! 3. The history file is written. [`Server::run`] returns, which ends the pollers and the admin listener. The exit status is 0.
//!
//! A second signal stops everything at once. A task that ends by itself is a crash: the service drains without
//! `drain_delay` and exits with status 1.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use crate::api::{self, ReadinessState};
use crate::cli::start_summary;
use crate::config::{Config, Limits};
use crate::extras::delegation::Delegations;
use crate::extras::replicas::ReplicaSync;
use crate::extras::rpc::reads::Reads;
use crate::extras::trend::file::HistoryFile;
use crate::extras::trend::refill as history_refill;
use crate::extras::trend::refill::HistoryRefill;
use crate::extras::verification::proxy::Proxy;
use crate::http::client_limits::ClientTable;
use crate::http::listener::{
    Listener, MAX_REJECTIONS, RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES, Shutdown,
};
use crate::http::memory_limit::MemoryShares;
use crate::http::serving_threads::ServingThreads;
use crate::nodes::{ChainUpstreams, JsonRpcClient, NewHeadsSubscription};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::poll::chain_parameters::HeaderReader;
use crate::poll::{PollTiming, Poller};
use crate::poll::{freshness_log, gauges};
use crate::store::{ChainStore, Publisher};

/// Memory of the admin listener's clients.
const ADMIN_MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// The service with its listeners bound, not yet serving.
#[derive(Debug)]
pub struct Server {
    config: Config,
    public: TcpListener,
    admin: TcpListener,
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
        Ok(Self { config, public, admin, background: JoinSet::new() })
    }

    /// Address of the public listener. With port 0 in the configuration it has the assigned port.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not return the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.public.local_addr()
    }

    /// Address of the admin listener.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not return the address.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
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
        let client = JsonRpcClient::new(&self.config).context("cannot set up the HTTP client")?;
        let (store, publishers) = ChainStore::new(&self.config.chains);
        let history_file = self.open_history_file(&store).await;
        let metrics = Metrics::new();
        let limit = self.config.limits.memory.bytes();
        let memory_shares = MemoryShares::new(limit, &self.config.chains);
        let limits = self.limits(&memory_shares);
        tracing::info!(
            memory_limit = limit,
            memory_budget = memory_shares.budget,
            max_connections = limits.max_connections,
            "limits derived"
        );
        let memory = MemoryBudget::new(memory_shares.budget);
        let shutdown = Shutdown::default();
        let health = ReadinessState::new(store.clone(), shutdown.draining.clone());

        let upstreams = ChainUpstreams::for_chains(&client, &self.config.chains, &metrics);
        gauges::register(&store, &upstreams, &metrics);
        let reads = Reads::new(&self.config.rpc, &store, &upstreams, &memory, &metrics);
        let replicas =
            ReplicaSync::new(&self.config.redis, &self.config.chains, &upstreams, &metrics);
        let replicas = replicas.context("cannot set up the Redis client")?;
        let api = &self.config.delegation.api_url;
        let shared_budget = replicas.as_ref().map(|shared| shared.shared_budget(api));
        let timings = match replicas {
            Some(sync) => {
                let (coordinators, connection) = sync.into_parts();
                self.background.spawn(connection.map(|never| match never {}));
                coordinators
                    .into_iter()
                    .map(|coordinator| PollTiming::Coordinator(Box::new(coordinator)))
                    .collect()
            }
            None => self.start_new_heads(&metrics).context("cannot set up the HTTP client")?,
        };
        let turns = Arc::new(Semaphore::new(history_refill::MAX_CONCURRENT));
        for ((publisher, upstreams), timing) in publishers.into_iter().zip(upstreams).zip(timings) {
            self.start_chain(publisher, upstreams, timing, &memory, &turns, &metrics);
        }
        for chain in store.chains() {
            let watch = freshness_log::watch(chain.clone());
            self.background.spawn(watch.map(|never| match never {}));
        }
        // The admin listener keeps serving while the public one drains, because probes and scrapes continue.
        let admin = api::admin(&self.config, health.clone(), &metrics);
        let admin_limits = limits.for_admin();
        let clients = ClientTable::new(&admin_limits, &[]);
        // A budget of its own, so that clients cannot keep probes and scrapes out.
        let admin_memory = MemoryBudget::new(ADMIN_MEMORY_BYTES);
        let admin = Listener::new("admin", admin, clients, &admin_limits, admin_memory, &metrics);
        let background = [Handle::current()];
        self.background.spawn(async move {
            admin.serve(self.admin, &background, Shutdown::default()).await;
            Ok(())
        });
        let verification_proxy = Proxy::for_verification(&self.config.verification, &metrics);
        let verification_proxy = verification_proxy.context("cannot set up the HTTP client")?;
        let delegations =
            Delegations::new(&self.config.delegation, &reads, shared_budget, &metrics);
        let delegations = delegations.context("cannot set up the HTTP client")?;
        let public = api::public(
            &self.config,
            &store,
            &reads,
            verification_proxy,
            delegations,
            health,
            &metrics,
        );
        let clients = ClientTable::new(&limits, &self.config.server.trusted_proxies);
        let public = Listener::new("public", public, clients, &limits, memory, &metrics);
        let threads = ServingThreads::start(self.config.server.threads.count());
        let threads = threads.context("cannot start the serving threads")?;
        let mut serving =
            pin!(public.serve(self.public, threads.runtimes(), shutdown.clone()).fuse());

        let crash = tokio::select! {
            () = stop_signal => None,
            Some(ended) = self.background.join_next() => Some(task_error(ended)),
            () = &mut serving => Some(anyhow!("the public listener ended unexpectedly")),
        };
        tracing::info!("shutting down");
        shutdown.start_draining();
        if crash.is_none() {
            // The listener keeps accepting.
            let _ = tokio::time::timeout(self.config.server.drain_delay, &mut serving).await;
        }
        shutdown.closing.cancel();
        if tokio::time::timeout(self.config.server.shutdown_grace, serving).await.is_err() {
            tracing::warn!("requests aborted after the shutdown grace period");
        }
        if let Some(file) = history_file {
            file.save().await;
        }
        crash.map_or(Ok(()), Err)
    }
}

impl Server {
    /// Starts a subscription to block announcements for each chain with `ws_urls`. Returns the poll timing of every
    /// chain, in the order of the configuration.
    fn start_new_heads(&mut self, metrics: &Metrics) -> Result<Vec<PollTiming>, reqwest::Error> {
        let mut timings = Vec::new();
        for chain in &self.config.chains {
            let announced =
                NewHeadsSubscription::new(chain, metrics)?.map(|(listener, announced)| {
                    self.background.spawn(listener.run().map(|never| match never {}));
                    announced
                });
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
        turns: &Arc<Semaphore>,
        metrics: &Metrics,
    ) {
        if self.config.history.refill {
            let refill = HistoryRefill::new(publisher.chain(), &upstreams, memory, turns);
            self.background.spawn(refill.run().map(|never| match never {}));
        }
        let header_reader = HeaderReader::new(publisher.chain(), &upstreams, memory, metrics);
        let header_parameters = header_reader.map(|(reader, parameters)| {
            self.background.spawn(reader.run().map(|never| match never {}));
            parameters
        });
        let poller = Poller::new(upstreams, publisher, header_parameters, metrics.clone());
        self.background.spawn(poller.run(timing).map(|never| match never {}));
    }

    /// Reads the history file, if there is one, and starts to write it.
    async fn open_history_file(&mut self, store: &ChainStore) -> Option<HistoryFile> {
        let (config, store) = (self.config.history.clone(), store.clone());
        let open = tokio::task::spawn_blocking(move || HistoryFile::open(&config, &store));
        let file = open.await.ok().flatten()?;
        self.background.spawn(file.clone().keep().map(|never| match never {}));
        Some(file)
    }

    /// Returns the configured limits. The number of connections fits into memory. It leaves some of the process's open
    /// files to upstream connections and the admin listener, so that a flood of clients cannot stop the polls.
    fn limits(&self, memory: &MemoryShares) -> Limits {
        const SPARE_FILES: usize = 64;
        let chains = self.config.chains.iter();
        let sockets = chains.clone().filter(|chain| !chain.ws_urls.is_empty()).count();
        let urls: usize = chains.map(|chain| chain.upstream_urls().len()).sum();
        let read_connections = self.config.rpc.max_in_flight.get();
        let reserved_files = urls
            .saturating_mul(read_connections.saturating_add(2))
            .saturating_add(sockets)
            .saturating_add(self.config.verification.max_in_flight.get())
            .saturating_add(self.config.delegation.max_in_flight.get())
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
