//! Connection to Redis: one per process, for commands and for messages (RESP3).
//!
//! While there is no connection, each command fails at once, and the process works standalone. No command takes longer
//! than [`COMMAND_TIMEOUT`]. The `ConnectionManager` of the library does not fit: it keeps a connection whose commands
//! time out or whose server is read-only, makes commands wait while it connects, and ignores a failed subscription.
//!
//! The library buffers each reply and message until it is complete. What the scripts reply is bounded (`claim.lua`).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, ScriptInvocation, Value,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::metrics::{ConnectionMetrics, ReasonLabels, ReplicaMetrics};
use super::section::RedisUrl;
use super::shared_fee_history::MAX_BYTES;
use crate::assembly::Dial;
use crate::nodes::jitter;
use crate::observe::clock;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{Counter, Metrics};
use crate::observe::redaction::Redactor;

/// Longer than a round trip to another continent. If Redis does not respond, a poll is late by this much.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Newest message of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) received_at: Instant,
    /// Empty if the message was too large.
    pub(crate) record: Bytes,
}

/// Senders of the newest message, by channel.
type Inboxes = HashMap<String, watch::Sender<Option<Message>>>;

/// Task that connects and reconnects.
pub(crate) struct Connector {
    client: Client,
    dial: Option<Arc<dyn Dial>>,
    inboxes: Inboxes,
    status: watch::Sender<ConnectionStatus>,
    reporter: Arc<RedisReporter>,
}

/// Handle for commands. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RedisHandle {
    status: watch::Receiver<ConnectionStatus>,
}

#[derive(Debug, Clone)]
pub(crate) enum ConnectionStatus {
    /// The first attempt is in progress.
    Connecting,
    Connected(ActiveConnection),
    Disconnected,
}

/// One connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ActiveConnection {
    connection: MultiplexedConnection,
    /// Cancelled when the connection is unusable.
    closed: CancellationToken,
    reporter: Arc<RedisReporter>,
}

/// A failed command. It is already logged and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandFailed;

impl Connector {
    /// Creates the connector to `url`, which connects by `dial` if there is one, and a handle for commands.
    pub(crate) fn new(
        url: &RedisUrl,
        dial: Option<Arc<dyn Dial>>,
        metrics: &Metrics,
    ) -> RedisResult<(Self, RedisHandle)> {
        let info = url.expose().clone().into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp_settings = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp_settings);
        let client = Client::open(info)?;
        let (status, receiver) = watch::channel(ConnectionStatus::Connecting);
        let reporter = Arc::new(RedisReporter::new(url, metrics));
        let connector = Self { client, dial, inboxes: Inboxes::new(), status, reporter };
        Ok((connector, RedisHandle { status: receiver }))
    }

    /// Returns the inbox of a channel, which is subscribed to with each connection.
    pub(crate) fn open_inbox(&mut self, channel: String) -> watch::Receiver<Option<Message>> {
        let (sender, inbox) = watch::channel(None);
        self.inboxes.insert(channel, sender);
        inbox
    }

    /// Connects, and reconnects whenever the connection is lost, for ever.
    pub(crate) async fn run(self) -> Infallible {
        /// Delay between attempts, plus a random one of up to the same length, because many replicas lose the server at
        /// once.
        const RECONNECT_DELAY: Duration = Duration::from_millis(500);
        let inboxes = Arc::new(self.inboxes);
        loop {
            let connect = connect(&self.client, self.dial.as_ref(), &inboxes, &self.reporter);
            match tokio::time::timeout(2 * CONNECT_TIMEOUT, connect).await.unwrap_or_else(timed_out)
            {
                Ok(connection) => {
                    let closed = connection.closed.clone();
                    self.status.send_replace(ConnectionStatus::Connected(connection));
                    closed.cancelled().await;
                }
                Err(error) => self.reporter.record_failure(&error),
            }
            self.status.send_replace(ConnectionStatus::Disconnected);
            tokio::time::sleep(RECONNECT_DELAY + jitter::random_up_to(RECONNECT_DELAY)).await;
        }
    }
}

/// Connects once, as a replica does.
pub(super) async fn check(url: &RedisUrl) -> Result<String, String> {
    let connect = async {
        let (mut connector, _) = Connector::new(url, None, &Metrics::new())?;
        // A channel as those of the replicas, which an access list of Redis allows.
        connector.open_inbox("gas:check".to_owned());
        let Connector { client, inboxes, reporter, .. } = connector;
        connect(&client, None, &Arc::new(inboxes), &reporter).await
    };
    match tokio::time::timeout(2 * CONNECT_TIMEOUT, connect).await.unwrap_or_else(timed_out) {
        Ok(_) => Ok("a replica can connect".to_owned()),
        Err(error) => Err(Redactor::new(url.secrets()).redact_text(&error.to_string())),
    }
}

/// Connects, by `dial` if there is one, logs in and subscribes.
async fn connect(
    client: &Client,
    dial: Option<&Arc<dyn Dial>>,
    inboxes: &Arc<Inboxes>,
    reporter: &Arc<RedisReporter>,
) -> RedisResult<ActiveConnection> {
    /// Concurrent commands. Further ones wait within their timeout.
    const MAX_IN_FLIGHT: usize = 256;
    let closed = CancellationToken::new();
    let (receivers, closed_by_server) = (Arc::clone(inboxes), closed.clone());
    let on_push = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            closed_by_server.cancel();
        }
        deliver(&receivers, push);
        Ok::<_, Infallible>(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(COMMAND_TIMEOUT))
        .set_concurrency_limit(MAX_IN_FLIGHT)
        .set_push_sender(on_push);
    let mut connection = match (dial, client.get_connection_info().addr()) {
        (Some(dial), ConnectionAddr::Tcp(host, port)) => {
            let stream = dial.connect(host, *port).await?;
            let settings = client.get_connection_info().redis_settings();
            let (connection, driver) =
                MultiplexedConnection::new_with_config(settings, stream, config).await?;
            tokio::spawn(driver);
            connection
        }
        _ => client.get_multiplexed_async_connection_with_config(&config).await?,
    };
    let channels: Vec<_> = inboxes.keys().collect();
    connection.subscribe(channels).await?;
    Ok(ActiveConnection { connection, closed, reporter: Arc::clone(reporter) })
}

/// Passes a message to the inbox of its channel.
fn deliver(inboxes: &Inboxes, push: PushInfo) -> Option<()> {
    let mut data = push.data.into_iter().filter(|_| push.kind == PushKind::Message);
    let (Value::BulkString(channel), Value::BulkString(mut record)) = (data.next()?, data.next()?)
    else {
        return None;
    };
    let inbox = inboxes.get(str::from_utf8(&channel).ok()?)?;
    if record.len() > MAX_BYTES {
        record = Vec::new();
    }
    inbox.send_replace(Some(Message { received_at: clock::now(), record: record.into() }));
    Some(())
}

impl RedisHandle {
    /// Returns true while the first attempt to connect is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(*self.status.borrow(), ConnectionStatus::Connecting)
    }

    /// Returns the connection, if there is one.
    pub(crate) fn active(&self) -> Option<ActiveConnection> {
        match &*self.status.borrow() {
            ConnectionStatus::Connected(active) if !active.closed.is_cancelled() => {
                Some(active.clone())
            }
            _ => None,
        }
    }

    /// Resolves when the connection was lost or made since the last call; never once the connector has stopped.
    pub(crate) async fn status_changed(&mut self) {
        if self.status.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl ActiveConnection {
    /// Runs a script.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, CommandFailed> {
        let mut connection = self.connection.clone();
        let command = script.invoke_async(&mut connection);
        match tokio::time::timeout(COMMAND_TIMEOUT, command).await.unwrap_or_else(timed_out) {
            Ok(value) => {
                self.reporter.record_success();
                Ok(value)
            }
            Err(error) => {
                self.reporter.record_failure(&error);
                if !is_recoverable(&error) {
                    self.closed.cancel();
                }
                Err(CommandFailed)
            }
        }
    }
}

fn timed_out<T>(_: tokio::time::error::Elapsed) -> RedisResult<T> {
    Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into())
}

/// Returns true if the connection can be kept after this error. A new connection may reach the new primary behind the
/// same name after `READONLY` or `MASTERDOWN`, and logs in again after `NOAUTH`.
fn is_recoverable(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => !["READONLY", "MASTERDOWN", "NOAUTH"].contains(&code),
        None => error.kind() == ErrorKind::UnexpectedReturnType,
    }
}

/// Reports outcomes of commands and connection attempts as metrics, and changes of the outcome in the log.
#[derive(Debug)]
struct RedisReporter {
    up: Gauge,
    failure_counters: Family<ReasonLabels, Counter>,
    outcome_log: LogOnChange,
    redactor: Redactor,
}

impl RedisReporter {
    fn new(url: &RedisUrl, metrics: &Metrics) -> Self {
        Self {
            up: metrics.set::<ConnectionMetrics>().redis_up,
            failure_counters: metrics.set::<ReplicaMetrics>().redis_failures_total,
            outcome_log: LogOnChange::default(),
            redactor: Redactor::new(url.secrets()),
        }
    }

    fn record_success(&self) {
        self.up.set(1);
        if self.outcome_log.changed_to(Ok(())) {
            tracing::info!("Redis connected; sharing polls");
        }
    }

    fn record_failure(&self, error: &RedisError) {
        self.up.set(0);
        let reason = failure_reason(error);
        self.failure_counters.get_or_create(&ReasonLabels { reason }).increment();
        if self.outcome_log.changed_to(Err(reason)) {
            // The client library's texts of other errors may contain whole values.
            let is_readable = error.code().is_some() || error.kind() == ErrorKind::Io;
            let error = if is_readable { error.to_string() } else { error.category().to_owned() };
            let error = self.redactor.redact_text(&error);
            tracing::warn!(reason, error, "Redis unavailable; polling standalone");
        }
    }
}

/// Label of the failure, from a closed list.
fn failure_reason(error: &RedisError) -> &'static str {
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH" | "NOPERM")) => {
            "unauthorized"
        }
        (_, Some("READONLY" | "MASTERDOWN")) => "read_only",
        (_, Some("OOM")) => "out_of_memory",
        (_, Some(_)) => "refused",
        (ErrorKind::Io, None) if error.is_timeout() => "timeout",
        (ErrorKind::Io, None) if error.is_connection_refusal() => "unreachable",
        (ErrorKind::Io, None) => "connection_closed",
        _ => "invalid",
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Connector")
    }
}
