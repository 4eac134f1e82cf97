//! A Redis server in memory. It runs the service's own scripts in Lua, by the clock of the world.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gas_suggestion::assembly::{ByteStream, Dial};
use mlua::{Function, Lua, MultiValue, Table, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::plan::{Garbled, RedisFault};

thread_local! {
    static LUA: Lua = Lua::new();
    /// Compiled scripts, by digest.
    static COMPILED: RefCell<BTreeMap<String, Function>> = const { RefCell::new(BTreeMap::new()) };
}

/// The server, as all replicas see it.
#[derive(Debug, Clone)]
pub struct Redis {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<RedisFault>,
    /// Milliseconds by which its clock is ahead.
    clock_error: i64,
    values: BTreeMap<Vec<u8>, Stored>,
    scripts: BTreeMap<String, Vec<u8>>,
    subscribers: Vec<(Vec<u8>, mpsc::UnboundedSender<Vec<u8>>)>,
    connections: CancellationToken,
}

#[derive(Debug)]
struct Stored {
    value: Vec<u8>,
    ends_at: Option<Duration>,
}

/// A reply.
enum Reply {
    Status(&'static str),
    Error(String),
    Integer(i64),
    Bytes(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Redis {
    pub fn new() -> Self {
        Self { state: Arc::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a fault.
    pub fn begin(&self, fault: RedisFault) {
        self.with(|state| match fault {
            RedisFault::Forgets => state.values.clear(),
            RedisFault::Disconnects => state.disconnect(),
            RedisFault::Steps(milliseconds) => state.clock_error += milliseconds,
            RedisFault::FailsOver(milliseconds) => {
                state.disconnect();
                state.values.clear();
                state.scripts.clear();
                state.clock_error = milliseconds;
            }
            RedisFault::Down => {
                state.disconnect();
                state.faults.push(fault);
            }
            fault => state.faults.push(fault),
        });
    }

    /// Ends a fault.
    pub fn end(&self, fault: RedisFault) {
        self.with(|state| {
            if let Some(index) = state.faults.iter().position(|known| *known == fault) {
                state.faults.remove(index);
            }
        });
    }

    fn has(&self, fault: RedisFault) -> bool {
        self.with(|state| state.faults.contains(&fault))
    }

    /// Milliseconds that replies come later.
    fn slowness(&self) -> u64 {
        let slow = |fault: &RedisFault| if let RedisFault::Slow(ms) = fault { *ms } else { 0 };
        self.with(|state| state.faults.iter().map(slow).sum())
    }

    async fn serve(self, stream: DuplexStream) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (sender, mut outgoing) = mpsc::unbounded_channel::<Vec<u8>>();
        let ended = self.with(|state| state.connections.clone());
        let writing = async {
            while let Some(bytes) = outgoing.recv().await {
                if writer.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        };
        let reading = async {
            let mut buffer = Vec::new();
            loop {
                while let Some(command) = parse(&mut buffer) {
                    tokio::time::sleep(Duration::from_millis(1 + self.slowness())).await;
                    while self.has(RedisFault::Hangs) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    let reply = self.with(|state| state.run(&command, &sender));
                    if sender.send(reply).is_err() {
                        return;
                    }
                }
                if matches!(reader.read_buf(&mut buffer).await, Ok(0) | Err(_)) {
                    return;
                }
            }
        };
        tokio::select! {
            () = ended.cancelled() => {}
            () = writing => {}
            () = reading => {}
        }
    }
}

impl Dial for Redis {
    fn connect(&self, _: &str, _: u16) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let redis = self.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if redis.has(RedisFault::Down) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (client, server) = tokio::io::duplex(64 * 1024);
            tokio::spawn(redis.serve(server));
            let client: Box<dyn ByteStream> = Box::new(client);
            Ok(client)
        }
        .boxed()
    }
}

impl State {
    fn disconnect(&mut self) {
        self.connections.cancel();
        self.connections = CancellationToken::new();
        self.subscribers.clear();
    }

    fn now(&self) -> Duration {
        let true_time = clock::WALL_START + clock::now();
        let error = Duration::from_millis(self.clock_error.unsigned_abs());
        if self.clock_error < 0 { true_time.saturating_sub(error) } else { true_time + error }
    }

    /// Runs a command of a connection and returns the bytes of its reply.
    fn run(&mut self, command: &[Vec<u8>], connection: &mpsc::UnboundedSender<Vec<u8>>) -> Vec<u8> {
        let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
        let mut bytes = Vec::new();
        match (name.as_str(), &command[1..]) {
            ("HELLO", _) => bytes.extend(
                b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:3\r\n",
            ),
            ("CLIENT" | "SELECT" | "PING", _) => Reply::Status("OK").write(&mut bytes),
            ("SUBSCRIBE", channels) => {
                for (index, channel) in channels.iter().enumerate() {
                    self.subscribers.push((channel.clone(), connection.clone()));
                    bytes.extend(b">3\r\n$9\r\nsubscribe\r\n");
                    Reply::Bytes(channel.clone()).write(&mut bytes);
                    Reply::Integer(index as i64 + 1).write(&mut bytes);
                }
            }
            ("SCRIPT", [load, script]) if load.eq_ignore_ascii_case(b"LOAD") => {
                let digest = sha1_smol::Sha1::from(script).digest().to_string();
                self.scripts.insert(digest.clone(), script.clone());
                Reply::Bytes(digest.into_bytes()).write(&mut bytes);
            }
            ("EVALSHA", [digest, count, arguments @ ..]) => {
                let digest = String::from_utf8_lossy(digest).into_owned();
                let reply = match self.scripts.get(&digest).cloned() {
                    None => Reply::Error("NOSCRIPT No matching script".into()),
                    Some(script) => {
                        let keys = number(count) as usize;
                        self.evaluate(&digest, &script, &arguments[..keys], &arguments[keys..])
                    }
                };
                reply.write(&mut bytes);
            }
            _ => Reply::Error(format!("ERR unknown command {name}")).write(&mut bytes),
        }
        bytes
    }

    fn evaluate(
        &mut self,
        digest: &str,
        script: &[u8],
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
    ) -> Reply {
        let evaluated = LUA.with(|lua| {
            let state = RefCell::new(self);
            lua.scope(|scope| {
                let list = |values: &[Vec<u8>]| {
                    lua.create_sequence_from(
                        values
                            .iter()
                            .map(|it| lua.create_string(it))
                            .collect::<Result<Vec<_>, _>>()?,
                    )
                };
                let call = scope.create_function_mut(|lua, arguments: MultiValue| {
                    let arguments: Vec<Vec<u8>> =
                        arguments.iter().map(to_bytes).collect::<mlua::Result<_>>()?;
                    let reply = state.borrow_mut().call(&arguments);
                    reply.into_lua(lua)
                })?;
                let redis = lua.create_table()?;
                redis.set("call", &call)?;
                redis.set("pcall", call)?;
                lua.globals().set("redis", redis)?;
                lua.globals().set("KEYS", list(keys)?)?;
                lua.globals().set("ARGV", list(arguments)?)?;
                let result: Value = compiled(lua, digest, script)?.call(())?;
                Ok(Reply::from_lua(&result))
            })
        });
        evaluated.unwrap_or_else(|error| match error.to_string() {
            text if text.contains("READONLY") => {
                Reply::Error("READONLY You can't write against a read only replica.".into())
            }
            text => Reply::Error(format!("ERR {}", text.replace(['\r', '\n'], " "))),
        })
    }

    /// Returns what is stored or sent instead of a record.
    fn garble(&self, record: &[u8]) -> Vec<u8> {
        // A claim has the name of a replica, which is short.
        let is_record = record.len() > 200;
        assert!(!is_record || record.starts_with(b"{"), "a record is an object");
        let garbled = self.faults.iter().find_map(|fault| match fault {
            RedisFault::Garbles(garbled) if is_record => Some(garbled),
            _ => None,
        });
        match garbled {
            None => record.to_vec(),
            Some(Garbled::Empty) => Vec::new(),
            Some(Garbled::NoText) => record.iter().map(|byte| byte | 0x80).collect(),
            Some(Garbled::Half) => record[..record.len() / 2].to_vec(),
            Some(Garbled::Shifted(offset)) => {
                const NAME: &str = "\"oldest_block\":";
                let text = String::from_utf8_lossy(record);
                let (before, rest) = text.split_once(NAME).expect("a record has its blocks");
                let (number, rest) = rest.split_once(',').expect("more follows");
                let number =
                    number.parse::<u64>().expect("a number").saturating_add_signed(*offset);
                format!("{before}{NAME}{number},{rest}").into_bytes()
            }
        }
    }

    /// Runs a command of a script.
    fn call(&mut self, command: &[Vec<u8>]) -> Reply {
        let now = self.now();
        self.values.retain(|_, stored| stored.ends_at.is_none_or(|ends_at| ends_at > now));
        let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
        match (name.as_str(), &command[1..]) {
            ("TIME", []) => Reply::Array(vec![
                Reply::Bytes(now.as_secs().to_string().into_bytes()),
                Reply::Bytes(now.subsec_micros().to_string().into_bytes()),
            ]),
            ("SET", [key, value, options @ ..]) => {
                if self.faults.contains(&RedisFault::ReadOnly) {
                    return Reply::Error("READONLY".into());
                }
                let text = |it: &Vec<u8>| String::from_utf8_lossy(it).to_ascii_uppercase();
                let options: Vec<_> = options.iter().map(text).collect();
                if options.iter().any(|it| it == "NX") && self.values.contains_key(key) {
                    return Reply::Null;
                }
                let milliseconds =
                    options.iter().position(|it| it == "PX").map(|at| &options[at + 1]);
                let lasts = milliseconds.and_then(|it| it.parse().ok()).map(Duration::from_millis);
                let stored =
                    Stored { value: self.garble(value), ends_at: lasts.map(|lasts| now + lasts) };
                self.values.insert(key.clone(), stored);
                Reply::Status("OK")
            }
            ("GET", [key]) => match self.values.get(key) {
                Some(stored) => Reply::Bytes(stored.value.clone()),
                None => Reply::Null,
            },
            ("GETRANGE", [key, _, last]) => {
                let value = self.values.get(key).map(|stored| stored.value.clone());
                let mut value = value.unwrap_or_default();
                value.truncate(number(last) as usize + 1);
                Reply::Bytes(value)
            }
            ("PUBLISH", [channel, message]) => {
                let mut bytes = b">3\r\n$7\r\nmessage\r\n".to_vec();
                Reply::Bytes(channel.clone()).write(&mut bytes);
                Reply::Bytes(self.garble(message)).write(&mut bytes);
                if !self.faults.contains(&RedisFault::LosesMessages) {
                    for (_, subscriber) in self.subscribers.iter().filter(|it| it.0 == *channel) {
                        // A connection that has ended reads nothing.
                        let _ = subscriber.send(bytes.clone());
                    }
                }
                Reply::Integer(1)
            }
            _ => Reply::Error(format!("ERR unknown command {name}")),
        }
    }
}

impl Reply {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Status(text) => bytes.extend(format!("+{text}\r\n").bytes()),
            Self::Error(text) => bytes.extend(format!("-{text}\r\n").bytes()),
            Self::Integer(value) => bytes.extend(format!(":{value}\r\n").bytes()),
            Self::Bytes(value) => {
                bytes.extend(format!("${}\r\n", value.len()).bytes());
                bytes.extend(value);
                bytes.extend(b"\r\n");
            }
            Self::Null => bytes.extend(b"_\r\n"),
            Self::Array(items) => {
                bytes.extend(format!("*{}\r\n", items.len()).bytes());
                for item in items {
                    item.write(bytes);
                }
            }
        }
    }

    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Status(text) => {
                let status = lua.create_table()?;
                status.set("ok", text)?;
                Value::Table(status)
            }
            Self::Error(text) => return Err(mlua::Error::runtime(text)),
            Self::Integer(value) => Value::Number(value as f64),
            Self::Bytes(value) => Value::String(lua.create_string(value)?),
            Self::Null => Value::Boolean(false),
            Self::Array(items) => {
                let items: Vec<_> =
                    items.into_iter().map(|item| item.into_lua(lua)).collect::<Result<_, _>>()?;
                Value::Table(lua.create_sequence_from(items)?)
            }
        })
    }

    fn from_lua(value: &Value) -> Self {
        match value {
            Value::Integer(value) => Self::Integer(*value),
            Value::Number(value) => Self::Integer(*value as i64),
            Value::String(value) => Self::Bytes(value.as_bytes().to_vec()),
            Value::Boolean(true) => Self::Integer(1),
            Value::Table(table) => Self::from_table(table),
            _ => Self::Null,
        }
    }

    fn from_table(table: &Table) -> Self {
        Self::Array(table.sequence_values().flatten().map(|it| Self::from_lua(&it)).collect())
    }
}

/// Returns the function of a script.
fn compiled(lua: &Lua, digest: &str, script: &[u8]) -> mlua::Result<Function> {
    if let Some(known) = COMPILED.with_borrow(|known| known.get(digest).cloned()) {
        return Ok(known);
    }
    let function = lua.load(script).into_function()?;
    COMPILED.with_borrow_mut(|known| known.insert(digest.to_owned(), function.clone()));
    Ok(function)
}

fn to_bytes(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(value) => Ok(value.as_bytes().to_vec()),
        Value::Integer(value) => Ok(value.to_string().into_bytes()),
        Value::Number(value) => Ok(format!("{value:.0}").into_bytes()),
        value => Err(mlua::Error::runtime(format!("not an argument: {value:?}"))),
    }
}

fn number(bytes: &[u8]) -> u64 {
    String::from_utf8_lossy(bytes).parse().unwrap_or_default()
}

/// Takes one command, an array of strings, from the bytes that have arrived.
fn parse(buffer: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut rest = buffer.as_slice();
    let line = |rest: &mut &[u8]| {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let value = number(rest.get(1..end)?) as usize;
        *rest = &rest[end + 2..];
        Some(value)
    };
    let count = line(&mut rest)?;
    let mut command = Vec::with_capacity(count);
    for _ in 0..count {
        let length = line(&mut rest)?;
        command.push(rest.get(..length)?.to_vec());
        rest = rest.get(length + 2..)?;
    }
    let used = buffer.len() - rest.len();
    buffer.drain(..used);
    Some(command)
}
