//! The connection to Redis: one per process, for commands and for what others publish (RESP3).
//!
//! Whatever goes wrong with it, the process goes on alone until it is there again. No command waits for a
//! connection, and none for longer than [`DEADLINE`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metrics::Gauge;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, IntoConnectionInfo, ProtocolVersion,
    PushInfo, PushKind, RedisError, RedisResult, Script, ScriptInvocation, Value,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::blank::Blanks;
use crate::config::RedisUrl;
use crate::jitter;
use crate::metrics::Metrics;
use crate::news::News;

/// Longer than Redis takes from another continent, and shorter than anybody notices.
const DEADLINE: Duration = Duration::from_millis(500);
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
/// Commands under way at a time; one that finds no place in time fails.
const MAX_IN_FLIGHT: usize = 256;

pub(super) const CLAIM: &str = include_str!("claim.lua");
pub(super) const PUBLISH: &str = include_str!("publish.lua");
pub(super) const DISCARD: &str = include_str!("discard.lua");
pub(super) const POOL: &str = include_str!("pool.lua");
const SCRIPTS: [&str; 4] = [CLAIM, PUBLISH, DISCARD, POOL];

/// What takes the messages of a channel. It must not wait.
pub(super) type Ear = Box<dyn Fn(Bytes) + Send + Sync>;

/// What connects, and connects again.
pub(super) struct Connector {
    client: Client,
    ears: Arc<HashMap<String, Ear>>,
    state: watch::Sender<State>,
    standing: Arc<Standing>,
}

/// The connection as those see it that use it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    /// For the first time.
    Connecting,
    Up(Line),
    Down,
}

/// One connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Line {
    connection: MultiplexedConnection,
    /// Cancelled when it is of no more use.
    lost: CancellationToken,
    standing: Arc<Standing>,
}

/// What came of the last commands.
#[derive(Debug)]
struct Standing {
    up: Gauge,
    news: News,
    metrics: Metrics,
    blanks: Blanks,
}

/// A command that came to nothing, which the log and the metrics know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed;

impl Connector {
    /// What connects to `url` and gives each message to its channel's ear, and the connection that there will
    /// be.
    pub(super) fn new(
        url: &RedisUrl,
        ears: HashMap<String, Ear>,
        metrics: &Metrics,
    ) -> RedisResult<(Self, Link)> {
        let info = url.expose().clone().into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let (state, watched) = watch::channel(State::Connecting);
        let standing = Standing {
            up: metrics.redis_up(),
            news: News::default(),
            metrics: metrics.clone(),
            blanks: Blanks::of(url.secrets()),
        };
        standing.up.set(0);
        let connector = Self { client, ears: Arc::new(ears), state, standing: Arc::new(standing) };
        Ok((connector, Link { state: watched }))
    }

    /// Connects, and connects again whenever the connection is lost, for ever.
    pub(super) async fn run(self) -> Infallible {
        /// Between attempts, and as much again by chance: many replicas have lost the same server.
        const PAUSE: Duration = Duration::from_millis(500);
        loop {
            match self.connect().await {
                Ok(line) => {
                    let lost = line.lost.clone();
                    self.state.send_replace(State::Up(line));
                    lost.cancelled().await;
                }
                Err(error) => self.standing.failed(&error),
            }
            self.state.send_replace(State::Down);
            tokio::time::sleep(PAUSE + jitter::up_to(PAUSE)).await;
        }
    }

    async fn connect(&self) -> RedisResult<Line> {
        let lost = CancellationToken::new();
        let (ears, end) = (Arc::clone(&self.ears), lost.clone());
        let listen = move |push| {
            hear(&ears, &end, push);
            Ok::<_, Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(DEADLINE))
            .set_concurrency_limit(MAX_IN_FLIGHT)
            .set_push_sender(listen);
        let connect = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let channels: Vec<_> = self.ears.keys().collect();
            connection.subscribe(channels).await?;
            // Now, so that no turn has to wait for it.
            for script in SCRIPTS {
                Script::new(script).load_async(&mut connection).await?;
            }
            Ok(connection)
        };
        let connection = tokio::time::timeout(2 * CONNECT_DEADLINE, connect).await;
        let connection = connection.unwrap_or_else(|_| Err(too_late()))?;
        Ok(Line { connection, lost, standing: Arc::clone(&self.standing) })
    }
}

fn hear(ears: &HashMap<String, Ear>, lost: &CancellationToken, push: PushInfo) {
    match push.kind {
        PushKind::Disconnection => lost.cancel(),
        PushKind::Message => {
            let mut data = push.data.into_iter();
            let (Some(Value::BulkString(channel)), Some(Value::BulkString(message))) =
                (data.next(), data.next())
            else {
                return;
            };
            let ear = str::from_utf8(&channel).ok().and_then(|channel| ears.get(channel));
            if let Some(ear) = ear {
                ear(message.into());
            }
        }
        _ => {}
    }
}

impl Link {
    /// What there is of it now.
    pub(super) fn state(&self) -> watch::Ref<'_, State> {
        self.state.borrow()
    }

    /// The connection, if there is one now.
    pub(super) fn line(&self) -> Option<Line> {
        match &*self.state.borrow() {
            State::Up(line) if !line.lost.is_cancelled() => Some(line.clone()),
            _ => None,
        }
    }

    /// Resolves when [`state`](Self::state) has become another since this resolved last; never, when nothing
    /// connects any more.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Line {
    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, Failed> {
        let mut connection = self.connection.clone();
        self.within(script.invoke_async(&mut connection)).await
    }

    /// Sends commands that depend on each other for nothing.
    pub(super) async fn send(&self, commands: &redis::Pipeline) -> Result<(), Failed> {
        let mut connection = self.connection.clone();
        self.within(commands.exec_async(&mut connection)).await
    }

    async fn within<T>(&self, outcome: impl Future<Output = RedisResult<T>>) -> Result<T, Failed> {
        let outcome = tokio::time::timeout(DEADLINE, outcome).await;
        match outcome.unwrap_or_else(|_| Err(too_late())) {
            Ok(value) => {
                self.standing.answers();
                Ok(value)
            }
            Err(error) => {
                self.standing.failed(&error);
                if !keeps_answering(&error) {
                    self.lost.cancel();
                }
                Err(Failed)
            }
        }
    }
}

fn too_late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Whether a server that says this may do what it is asked for another time. One that is not the primary any
/// more may have another behind its name, and one that wants a password now has to be given it.
fn keeps_answering(error: &RedisError) -> bool {
    const NO_MORE: [&str; 3] = ["READONLY", "MASTERDOWN", "NOAUTH"];
    match error.code() {
        Some(code) => !NO_MORE.contains(&code),
        None => error.kind() == ErrorKind::UnexpectedReturnType,
    }
}

impl Standing {
    fn answers(&self) {
        self.up.set(1);
        if self.news.is(Ok(())) {
            tracing::info!("what is polled is shared by Redis");
        }
    }

    fn failed(&self, error: &RedisError) {
        self.up.set(0);
        let reason = reason(error);
        self.metrics.redis_failure(reason).increment(1);
        if self.news.is(Err(reason)) {
            // The client shows whole values in others.
            let is_readable = error.code().is_some() || error.kind() == ErrorKind::Io;
            let error = if is_readable { error.to_string() } else { error.category().to_owned() };
            let error = self.blanks.in_text(&error);
            tracing::warn!(reason, error, "Redis fails; this replica goes on alone");
        }
    }
}

/// The kind of failure, from a closed list.
fn reason(error: &RedisError) -> &'static str {
    const UNAUTHORISED: [&str; 3] = ["WRONGPASS", "NOAUTH", "NOPERM"];
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) => "unauthorized",
        (_, Some(code)) if UNAUTHORISED.contains(&code) => "unauthorized",
        (_, Some("READONLY" | "MASTERDOWN")) => "read_only",
        (_, Some("OOM")) => "full",
        (_, Some(_)) => "refused",
        (ErrorKind::Io, None) if error.is_timeout() => "timeout",
        (ErrorKind::Io, None) if error.is_connection_refusal() => "unreachable",
        (ErrorKind::Io, None) => "broken",
        _ => "invalid",
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Connector")
    }
}
