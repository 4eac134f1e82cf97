//! Connection to Redis: one per process, for commands and for messages (RESP3).
//!
//! While there is no connection, the process works standalone. No command waits for a connection, and none takes longer
//! than [`COMMAND_TIMEOUT`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, IntoConnectionInfo, ProtocolVersion,
    PushInfo, PushKind, RedisError, RedisResult, Script, ScriptInvocation, Value,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::RedisUrl;
use crate::jitter;
use crate::log_on_change::LogOnChange;
use crate::metrics::{Counter, Metrics, ReasonLabels};
use crate::redaction::Redactor;

/// Longer than a round trip to another continent. If Redis does not respond, a poll is late by this much.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Concurrent commands. Further ones wait within their timeout.
const MAX_IN_FLIGHT: usize = 256;

pub(super) const CLAIM_SCRIPT: &str = include_str!("claim.lua");
pub(super) const PUBLISH_SCRIPT: &str = include_str!("publish.lua");
pub(super) const DISCARD_SCRIPT: &str = include_str!("discard.lua");
pub(super) const RESERVE_SCRIPT: &str = include_str!("reserve.lua");
const SCRIPTS: [&str; 4] = [CLAIM_SCRIPT, PUBLISH_SCRIPT, DISCARD_SCRIPT, RESERVE_SCRIPT];

/// Handler of a channel's messages. It must not block.
pub(super) type MessageHandler = Box<dyn Fn(Bytes) + Send + Sync>;

/// Task that connects and reconnects.
pub(super) struct Connector {
    client: Client,
    handlers: Arc<HashMap<String, MessageHandler>>,
    status: watch::Sender<ConnectionStatus>,
    health: Arc<RedisReporter>,
}

/// Handle for commands. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RedisHandle {
    status: watch::Receiver<ConnectionStatus>,
}

#[derive(Debug, Clone)]
pub(super) enum ConnectionStatus {
    /// The first attempt is in progress.
    Connecting,
    Connected(ActiveConnection),
    Disconnected,
}

/// One connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ActiveConnection {
    connection: MultiplexedConnection,
    /// Cancelled when the connection is unusable.
    closed: CancellationToken,
    health: Arc<RedisReporter>,
}

/// Reports outcomes of commands and connection attempts as metrics, and changes of the outcome in the log.
#[derive(Debug)]
struct RedisReporter {
    up: Gauge,
    failure_counters: Family<ReasonLabels, Counter>,
    outcome_log: LogOnChange,
    redactor: Redactor,
}

/// A failed command. It is already logged and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommandFailed;

impl Connector {
    /// Creates the connector to `url`, which passes each message to its channel's handler, and a handle for commands.
    pub(super) fn new(
        url: &RedisUrl,
        handlers: HashMap<String, MessageHandler>,
        metrics: &Metrics,
    ) -> RedisResult<(Self, RedisHandle)> {
        let info = url.expose().clone().into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let (status_sender, status_receiver) = watch::channel(ConnectionStatus::Connecting);
        let health = RedisReporter {
            up: Gauge::default(),
            failure_counters: metrics.redis_failures_total.clone(),
            outcome_log: LogOnChange::default(),
            redactor: Redactor::new(url.secrets()),
        };
        metrics.registry().register(
            "gas_suggestion_redis_up",
            "1 if the last Redis command succeeded",
            health.up.clone(),
        );
        let connector = Self {
            client,
            handlers: Arc::new(handlers),
            status: status_sender,
            health: Arc::new(health),
        };
        Ok((connector, RedisHandle { status: status_receiver }))
    }

    /// Connects, and reconnects whenever the connection is lost, for ever.
    pub(super) async fn run(self) -> Infallible {
        /// Delay between attempts, plus a random one of up to the same length, because many replicas lose the server at
        /// once.
        const RECONNECT_DELAY: Duration = Duration::from_millis(500);
        loop {
            match self.connect().await {
                Ok(connection) => {
                    let closed = connection.closed.clone();
                    self.status.send_replace(ConnectionStatus::Connected(connection));
                    closed.cancelled().await;
                }
                Err(error) => self.health.record_failure(&error),
            }
            self.status.send_replace(ConnectionStatus::Disconnected);
            tokio::time::sleep(RECONNECT_DELAY + jitter::random_up_to(RECONNECT_DELAY)).await;
        }
    }

    async fn connect(&self) -> RedisResult<ActiveConnection> {
        let closed = CancellationToken::new();
        let (handlers, closed_by_server) = (Arc::clone(&self.handlers), closed.clone());
        let on_push = move |push| {
            dispatch_push(&handlers, &closed_by_server, push);
            Ok::<_, Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(COMMAND_TIMEOUT))
            .set_concurrency_limit(MAX_IN_FLIGHT)
            .set_push_sender(on_push);
        let connect = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let channels: Vec<_> = self.handlers.keys().collect();
            connection.subscribe(channels).await?;
            // Loaded now, so that no poll has to wait for it.
            for script in SCRIPTS {
                Script::new(script).load_async(&mut connection).await?;
            }
            Ok(connection)
        };
        let connection = tokio::time::timeout(2 * CONNECT_TIMEOUT, connect).await;
        let connection = connection.unwrap_or_else(|_| Err(timeout_error()))?;
        Ok(ActiveConnection { connection, closed, health: Arc::clone(&self.health) })
    }
}

fn dispatch_push(
    handlers: &HashMap<String, MessageHandler>,
    closed: &CancellationToken,
    push: PushInfo,
) {
    match push.kind {
        PushKind::Disconnection => closed.cancel(),
        PushKind::Message => {
            let mut data = push.data.into_iter();
            let (Some(Value::BulkString(channel)), Some(Value::BulkString(message))) =
                (data.next(), data.next())
            else {
                return;
            };
            let handler = str::from_utf8(&channel).ok().and_then(|channel| handlers.get(channel));
            if let Some(handler) = handler {
                handler(message.into());
            }
        }
        _ => {}
    }
}

impl RedisHandle {
    /// Current status.
    pub(super) fn status(&self) -> watch::Ref<'_, ConnectionStatus> {
        self.status.borrow()
    }

    /// Returns the connection, if there is one.
    pub(super) fn active(&self) -> Option<ActiveConnection> {
        match &*self.status.borrow() {
            ConnectionStatus::Connected(line) if !line.closed.is_cancelled() => Some(line.clone()),
            _ => None,
        }
    }

    /// Resolves when [`status`](Self::status) has changed since the last call; never once the connector has stopped.
    pub(super) async fn status_changed(&mut self) {
        if self.status.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl ActiveConnection {
    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, CommandFailed> {
        let mut connection = self.connection.clone();
        self.with_timeout(script.invoke_async(&mut connection)).await
    }

    /// Sends independent commands in one pipeline.
    pub(super) async fn send(&self, commands: &redis::Pipeline) -> Result<(), CommandFailed> {
        let mut connection = self.connection.clone();
        self.with_timeout(commands.exec_async(&mut connection)).await
    }

    async fn with_timeout<T>(
        &self,
        command: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, CommandFailed> {
        let outcome = tokio::time::timeout(COMMAND_TIMEOUT, command).await;
        match outcome.unwrap_or_else(|_| Err(timeout_error())) {
            Ok(value) => {
                self.health.record_success();
                Ok(value)
            }
            Err(error) => {
                self.health.record_failure(&error);
                if !is_recoverable(&error) {
                    self.closed.cancel();
                }
                Err(CommandFailed)
            }
        }
    }
}

fn timeout_error() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Returns true if the connection can be kept after this error. A new connection may reach the new primary behind the
/// same name after `READONLY` or `MASTERDOWN`, and logs in again after `NOAUTH`.
fn is_recoverable(error: &RedisError) -> bool {
    const FATAL_CODES: [&str; 3] = ["READONLY", "MASTERDOWN", "NOAUTH"];
    match error.code() {
        Some(code) => !FATAL_CODES.contains(&code),
        None => error.kind() == ErrorKind::UnexpectedReturnType,
    }
}

impl RedisReporter {
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
    const AUTH_ERROR_CODES: [&str; 3] = ["WRONGPASS", "NOAUTH", "NOPERM"];
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) => "unauthorized",
        (_, Some(code)) if AUTH_ERROR_CODES.contains(&code) => "unauthorized",
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
