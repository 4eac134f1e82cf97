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

mod service;
mod start_summary;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::api::{self, App, ReadinessState};
use crate::assembly::{Assembly, Network};
use crate::config::{Config, Limits};
use crate::extras::EXTRAS;
use crate::http::client_limits::ClientTable;
use crate::http::listener::{
    Listener, MAX_REJECTIONS, RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES, Shutdown,
};
use crate::http::memory_limit::MemoryShares;
use crate::http::serving_threads::ServingThreads;
use crate::observe::memory_budget::MemoryBudget;
use crate::store::Publisher;
pub use service::Service;
use service::task_error;
pub(crate) use start_summary::{describe, reachable};

/// Memory of the admin listener's clients: of their connections, and of the responses to probes and scrapes.
const ADMIN_MEMORY_BYTES: usize = 24 * 1024 * 1024;

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
    pub async fn run(self, stop_signal: impl Future<Output = ()>) -> anyhow::Result<()> {
        start_summary::report(&self.config, self.address()?, self.admin_address()?);
        let Self { config, public, admin, mut background } = self;
        let shutdown = Shutdown::default();
        let draining = shutdown.draining.clone();
        let mut service = Service::start(config.clone(), Network::default(), draining).await?;
        let limits = limits(&config, service.memory_shares);
        tracing::info!(
            memory_limit = config.limits.memory.bytes(),
            memory_budget = service.memory_shares.budget,
            max_connections = limits.max_connections,
            "limits derived"
        );
        background.spawn(serve_admin(admin, &config, &limits, &service));
        let clients = ClientTable::new(&limits, &config.server.trusted_proxies);
        let (app, memory) = (service.app.clone(), service.memory.clone());
        let listener = Listener::new("public", app, clients, &limits, memory, &service.metrics);
        let threads = ServingThreads::start(config.server.threads.count());
        let threads = threads.context("cannot start the serving threads")?;
        let until = shutdown.clone();
        let serving = async move { listener.serve(public, threads.runtimes(), until).await };
        let mut serving = serving.boxed().fuse();
        let crash = tokio::select! {
            () = stop_signal => None,
            Some(ended) = background.join_next() => Some(task_error(ended)),
            error = service.ended() => Some(error),
            () = &mut serving => Some(anyhow!("the public listener ended unexpectedly")),
        };
        tracing::info!("shutting down");
        shutdown.draining.cancel();
        if crash.is_none() {
            // Load balancers see that the service is not ready. The listener keeps accepting.
            let _ = timeout(config.server.drain_delay, &mut serving).await;
        }
        shutdown.closing.cancel();
        if timeout(config.server.shutdown_grace, serving).await.is_err() {
            tracing::warn!("requests aborted after the shutdown grace period");
        }
        service.stop().await;
        crash.map_or(Ok(()), Err)
    }
}

/// Serves the admin routes. Goes on while the public listener drains, because probes and scrapes continue.
fn serve_admin(
    listener: TcpListener,
    config: &Config,
    limits: &Limits,
    service: &Service,
) -> impl Future<Output = anyhow::Result<()>> + use<> {
    let metrics = &service.metrics;
    // A budget of its own, so that clients cannot keep probes and scrapes out.
    let memory = MemoryBudget::new(ADMIN_MEMORY_BYTES);
    let admin = api::admin(config, service.health.clone(), &memory, metrics);
    let limits = limits.for_admin();
    let clients = ClientTable::new(&limits, &[]);
    let admin = Listener::new("admin", admin, clients, &limits, memory, metrics);
    let background = [Handle::current()];
    async move {
        admin.serve(listener, &background, Shutdown::default()).await;
        Ok(())
    }
}

/// Returns the configured limits. The number of connections fits into memory. It leaves some of the process's open
/// files to upstream connections and the admin listener, so that a flood of clients cannot stop the polls.
fn limits(config: &Config, memory: MemoryShares) -> Limits {
    const SPARE_FILES: usize = 64;
    let chains = config.chains.iter();
    let sockets = chains.clone().filter(|chain| !chain.ws_urls.is_empty()).count();
    let urls: usize = chains.map(|chain| chain.upstream_urls().len()).sum();
    let needs = config.needs();
    let reserved_files = urls
        .saturating_mul(needs.node_connections.saturating_add(2))
        .saturating_add(sockets)
        .saturating_add(needs.connections)
        .saturating_add(Limits::MAX_ADMIN_CONNECTIONS + MAX_REJECTIONS + SPARE_FILES);
    let mut limits = config.limits.clone();
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
    let open_files = open_file_limit();
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

/// Raises the limit of open files as far as the system allows, and returns it.
fn open_file_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current else { return usize::MAX };
    // macOS names no maximum, but refuses more than this, its `OPEN_MAX`.
    let wanted = maximum.unwrap_or(current.max(10_240));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    let limit = if raised.is_ok() { wanted } else { current };
    limit.try_into().unwrap_or(usize::MAX)
}

/// Returns the OpenAPI document of the public listener's routes.
///
/// # Errors
///
/// Fails if the service cannot be put together.
pub fn document(config: &Config) -> anyhow::Result<String> {
    Ok(api::describe(config, &assemble(config)?.routes).json)
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
    let network = Network::default();
    let mut assembly = Assembly::new(config.clone(), EXTRAS, network, shutdown.clone())?;
    publish(&mut assembly.publishers);
    let Assembly { store, memory, metrics, routes, streams, .. } = assembly;
    let health = ReadinessState::new(store.clone(), shutdown);
    Ok(api::public(config, &store, routes, health, streams, &memory, &metrics))
}

/// Puts the service together to describe it.
fn assemble(config: &Config) -> anyhow::Result<Assembly> {
    Assembly::new(config.clone(), EXTRAS, Network::default(), CancellationToken::new())
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

#[cfg(test)]
mod tests;
