//! A proxy in front of a node that forwards calls and injects faults into the replies.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::fixtures::gzip;
use crate::http_client;
use crate::http_message::{Kind, Message};

/// A proxy on a free loopback port. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct FaultProxy {
    address: SocketAddr,
    setting: watch::Sender<Setting>,
    /// Number of the newest switch that has taken effect.
    applied_switches: watch::Receiver<u64>,
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

/// A fault that the proxy injects into a reply.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Sends the node's reply unchanged.
    Pass,
    /// Delays the reply.
    Delay(Duration),
    /// Sends the reply in pieces of this many bytes, with a pause between them.
    Drip(usize, Duration),
    /// Sends only this many bytes of the body, then closes the connection.
    Truncate(usize),
    /// Declares a length that is this many bytes too short.
    CutLength(usize),
    /// Resets the connection instead of a reply.
    Reset,
    /// Never replies.
    Blackhole,
    /// Refuses new connections and closes the open ones.
    Refuse,
    /// Never replies on connections that are open now; new ones work.
    DeadPool,
    /// Declares the reply as gzip.
    Gzip(Gzip),
    /// Sends a reply that is far too large.
    Bloat(Bloat),
    /// Sends another reply, computed from the call and the node's reply.
    Rewrite(Rewrite),
}

/// Body of a reply that is declared as gzip.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gzip {
    /// The reply, compressed correctly.
    Whole,
    /// The first half of the compressed reply.
    Truncated,
    /// The reply, uncompressed.
    Plain,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bloat {
    /// The reply padded by this many bytes, with the correct length.
    Giant(usize),
    /// A reply that never ends, in chunks.
    Endless,
    /// 64 MiB in 64 KiB of gzip.
    Bomb,
    /// The bytes of [`Bomb`](Self::Bomb) without a `content-encoding`.
    UndeclaredBomb,
}

/// Function that computes a reply.
#[derive(Clone)]
pub(crate) struct Rewrite(Arc<Make>);

type Make = dyn Fn(&Call, Value) -> Reply + Send + Sync;

impl fmt::Debug for Rewrite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Rewrite")
    }
}

#[derive(Debug)]
pub(crate) struct Call {
    /// Path and query.
    pub(crate) path: String,
    pub(crate) json: Value,
}

/// A reply to send.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn json(reply: &Value) -> Self {
        Self::new(200, reply.to_string())
    }

    pub(crate) fn error(call: &Call, code: i64, message: &str) -> Self {
        let error = json!({ "code": code, "message": message });
        Self::json(&json!({ "jsonrpc": "2.0", "id": call.json["id"], "error": error }))
    }

    pub(crate) fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }
}

impl Fault {
    pub(crate) fn rewrite(make: impl Fn(&Call, Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::Rewrite(Rewrite(Arc::new(make)))
    }

    /// Returns a fault that sends the node's reply with a changed `result`.
    pub(crate) fn result(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::rewrite(move |_, mut reply| {
            change(&mut reply["result"]);
            Reply::json(&reply)
        })
    }
}

/// Calls that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    FeeHistory,
    ChainId,
}

impl Scope {
    fn covers(self, call: &Value) -> bool {
        match self {
            Self::All => true,
            Self::FeeHistory => call["method"] == "eth_feeHistory",
            Self::ChainId => call["method"] == "eth_chainId",
        }
    }
}

#[derive(Debug, Clone)]
struct Setting {
    fault: Fault,
    scope: Scope,
    /// Number of switches so far.
    switches: u64,
}

/// Connections and calls so far.
#[derive(Debug, Default)]
struct Received {
    connections: usize,
    /// Per call: method, true if the block count was a hex quantity, and time.
    calls: Vec<(String, bool, Instant)>,
}

impl FaultProxy {
    /// Starts a proxy in front of the node at `target`, without a fault.
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, scope) = (Fault::Pass, Scope::All);
        let (setting, settings) = watch::channel(Setting { fault, scope, switches: 0 });
        let (in_force_sender, applied_switches) = watch::channel(0);
        let received = Arc::default();
        let proxy = Proxy { target, client: http_client::new(), received: Arc::clone(&received) };
        let task = tokio::spawn(proxy.run(listener, settings, in_force_sender));
        Self { address, setting, applied_switches, received, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Switches to `fault` for the calls of `scope`, and returns once it has taken effect.
    pub(crate) async fn switch(&self, fault: Fault, scope: Scope) {
        let switches = self.setting.borrow().switches + 1;
        self.setting.send_replace(Setting { fault, scope, switches });
        let mut applied_switches = self.applied_switches.clone();
        applied_switches.wait_for(|last| *last >= switches).await.expect("the proxy runs");
    }

    /// Returns the number of connections so far.
    pub(crate) fn connection_count(&self) -> usize {
        self.received.lock().unwrap().connections
    }

    /// Returns the times of the calls of `method`.
    pub(crate) fn call_times(&self, method: &str) -> Vec<Instant> {
        let received = self.received.lock().unwrap();
        received.calls.iter().filter(|(called, ..)| called == method).map(|(.., at)| *at).collect()
    }

    /// Returns the number of calls so far.
    pub(crate) fn call_count(&self) -> usize {
        self.received.lock().unwrap().calls.len()
    }

    /// Returns the number of calls with a hex block count.
    pub(crate) fn hex_count_calls(&self) -> usize {
        self.received
            .lock()
            .unwrap()
            .calls
            .iter()
            .filter(|(_, is_quantity, _)| *is_quantity)
            .count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Binds a socket that does not listen: it refuses connections and keeps the port reserved.
async fn bind_without_listening(address: SocketAddr) -> TcpSocket {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        match socket.bind(address) {
            Ok(()) => return socket,
            // Between fork and exec, a child process of another test still holds the listener.
            Err(_) if Instant::now() < deadline => tokio::task::yield_now().await,
            Err(error) => panic!("cannot bind {address}: {error}"),
        }
    }
}

#[derive(Clone)]
struct Proxy {
    target: String,
    client: reqwest::Client,
    received: Arc<Mutex<Received>>,
}

impl Proxy {
    async fn run(
        self,
        mut listener: TcpListener,
        mut settings: watch::Receiver<Setting>,
        applied_switches: watch::Sender<u64>,
    ) {
        let address = listener.local_addr().unwrap();
        let mut connections = JoinSet::new();
        loop {
            let Setting { fault, switches, .. } = settings.borrow_and_update().clone();
            if matches!(fault, Fault::Refuse) {
                connections.shutdown().await;
                drop(listener);
                let socket = bind_without_listening(address).await;
                applied_switches.send_replace(switches);
                let lifted = |setting: &Setting| !matches!(setting.fault, Fault::Refuse);
                if settings.wait_for(lifted).await.is_err() {
                    return;
                }
                listener = socket.listen(1024).unwrap();
                continue;
            }
            applied_switches.send_replace(switches);
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    self.received.lock().unwrap().connections += 1;
                    let settings = settings.clone();
                    let switches = settings.borrow().switches;
                    let connection = Connection { stream, settings, switches };
                    connections.spawn(self.clone().serve(connection));
                }
                changed = settings.changed() => if changed.is_err() {
                    return;
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// Serves one connection until its first error.
    async fn serve(self, mut connection: Connection) {
        let mut buffer = Vec::new();
        while let Some(call) = connection.read_call(&mut buffer).await {
            let method = call.json["method"].as_str().unwrap_or_default().to_owned();
            let is_quantity = call.json["params"][0].is_string();
            self.received.lock().unwrap().calls.push((method, is_quantity, Instant::now()));
            let setting = connection.settings.borrow().clone();
            let is_old = connection.switches < setting.switches;
            let fault = match setting.fault {
                Fault::DeadPool if is_old => Fault::Blackhole,
                Fault::DeadPool => Fault::Pass,
                fault if setting.scope.covers(&call.json) => fault,
                _ => Fault::Pass,
            };
            match fault {
                Fault::Reset => {
                    connection.stream.set_zero_linger().unwrap();
                    return;
                }
                Fault::Blackhole => std::future::pending().await,
                _ => {}
            }
            let Some(reply) = self.forward(&call).await else { return };
            if connection.reply(&call, reply, fault).await.is_none() {
                return;
            }
        }
    }

    async fn forward(&self, call: &Call) -> Option<Value> {
        let sent = self.client.post(&self.target).json(&call.json).send().await;
        sent.ok()?.json().await.ok()
    }
}

struct Connection {
    stream: TcpStream,
    settings: watch::Receiver<Setting>,
    /// Number of switches when this connection was accepted.
    switches: u64,
}

impl Connection {
    /// Reads the next call. `None`: the peer has closed the connection or does not speak HTTP.
    async fn read_call(&mut self, buffer: &mut Vec<u8>) -> Option<Call> {
        loop {
            // A client that begins with another byte speaks TLS.
            if !buffer.is_empty() && !buffer.starts_with(b"P") {
                return None;
            }
            if let Some((request, length)) = Message::parse_first(Kind::Request, buffer) {
                buffer.drain(..length);
                let path = request.start_line.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?;
                let json = serde_json::from_slice(&request.body).unwrap_or_default();
                return Some(Call { path: path.into(), json });
            }
            if self.stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Sends the reply with `fault`. `None`: the connection has to be closed.
    async fn reply(&mut self, call: &Call, json: Value, fault: Fault) -> Option<()> {
        let reply = Reply::json(&json);
        match fault {
            Fault::Delay(pause) => {
                tokio::time::sleep(pause).await;
                self.send(&reply, reply.body.len()).await
            }
            Fault::Drip(bytes, pause) => {
                let mut ticks = tokio::time::interval(pause);
                for piece in [head(&reply, reply.body.len()), reply.body].concat().chunks(bytes) {
                    ticks.tick().await;
                    self.stream.write_all(piece).await.ok()?;
                }
                Some(())
            }
            Fault::Truncate(bytes) => {
                let body = &reply.body[..bytes.min(reply.body.len())];
                let cut = [head(&reply, reply.body.len()).as_slice(), body].concat();
                self.stream.write_all(&cut).await.ok()?;
                self.stream.shutdown().await.ok()?;
                None
            }
            Fault::CutLength(bytes) => {
                self.send(&reply, reply.body.len() - bytes).await?;
                None
            }
            Fault::Gzip(kind) => {
                let body = match kind {
                    Gzip::Whole => gzip(&reply.body),
                    Gzip::Truncated => {
                        let whole = gzip(&reply.body);
                        whole[..whole.len() / 2].to_vec()
                    }
                    Gzip::Plain => reply.body,
                };
                let reply = Reply::new(200, body).with("content-encoding", "gzip");
                self.send(&reply, reply.body.len()).await
            }
            Fault::Bloat(bloat) => self.bloat(json, bloat).await,
            Fault::Rewrite(Rewrite(make)) => {
                let reply = make(call, json);
                self.send(&reply, reply.body.len()).await
            }
            _ => self.send(&reply, reply.body.len()).await,
        }
    }

    async fn bloat(&mut self, mut json: Value, bloat: Bloat) -> Option<()> {
        match bloat {
            Bloat::Giant(bytes) => {
                json["padding"] = " ".repeat(bytes).into();
                let reply = Reply::json(&json);
                self.send(&reply, reply.body.len()).await
            }
            Bloat::Bomb => {
                let reply = Reply::new(200, BOMB.clone()).with("content-encoding", "gzip");
                self.send(&reply, reply.body.len()).await
            }
            Bloat::UndeclaredBomb => {
                let reply = Reply::new(200, BOMB.clone());
                self.send(&reply, reply.body.len()).await
            }
            Bloat::Endless => {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                self.stream.write_all(head).await.ok()?;
                let chunk = [b"4000\r\n", " ".repeat(0x4000).as_bytes(), b"\r\n"].concat();
                loop {
                    self.stream.write_all(&chunk).await.ok()?;
                }
            }
        }
    }

    async fn send(&mut self, reply: &Reply, declared: usize) -> Option<()> {
        let bytes = [head(reply, declared).as_slice(), &reply.body].concat();
        self.stream.write_all(&bytes).await.ok()
    }
}

fn head(reply: &Reply, declared: usize) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Status\r\ncontent-length: {declared}\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    (head + "\r\n").into_bytes()
}

/// 64 gzip members of 1 MiB each, which decompress as one stream.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(&vec![b' '; 1 << 20]).repeat(64));
