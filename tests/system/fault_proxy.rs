//! A proxy in front of a node that forwards calls and injects faults into the replies.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http_client;
use crate::http_message::{self, Message};

/// A proxy on a free loopback port. It stops when it is dropped, and with it the sender of its settings.
pub(crate) struct FaultProxy {
    address: SocketAddr,
    setting: watch::Sender<Setting>,
    /// Number of the newest switch that has taken effect.
    applied_switches: watch::Receiver<u64>,
    connections: Arc<AtomicUsize>,
}

/// A fault that the proxy injects into the replies to polls, or to all calls.
#[derive(Clone)]
pub(crate) struct Fault {
    kind: Kind,
    is_for_all: bool,
}

#[derive(Clone)]
pub(crate) enum Kind {
    /// Sends the node's reply unchanged.
    Pass,
    /// Sends a byte of the reply per interval.
    Drip(Duration),
    /// Sends a body that never ends, in chunks.
    Endless,
    /// Resets the connection instead of a reply.
    Reset,
    /// Never replies.
    Blackhole,
    /// Refuses new connections and closes the open ones.
    Refuse,
    /// Never replies on connections that are open now; new ones work.
    DeadPool,
    /// Sends another reply, computed from the call and the node's reply.
    Rewrite(Arc<Rewrite>),
}

type Rewrite = dyn Fn(&Call, Value) -> Reply + Send + Sync;

pub(crate) struct Call {
    /// Path and query.
    pub(crate) path: String,
    pub(crate) json: Value,
}

/// A reply to send.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The declared length. The connection is closed after a body of another length.
    pub(crate) declared: usize,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { status, headers: Vec::new(), declared: body.len(), body }
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

    fn bytes(&self) -> Vec<u8> {
        let Self { status, headers, body, declared } = self;
        let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {declared}\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

impl Fault {
    pub(crate) fn in_fee_histories(kind: Kind) -> Self {
        Self { kind, is_for_all: false }
    }

    pub(crate) fn everywhere(kind: Kind) -> Self {
        Self { kind, is_for_all: true }
    }

    pub(crate) fn for_all_calls(self) -> Self {
        Self::everywhere(self.kind)
    }

    pub(crate) fn rewrite(make: impl Fn(&Call, Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::in_fee_histories(Kind::Rewrite(Arc::new(make)))
    }

    /// Returns a fault that replaces each reply by a fixed one, in which `{path}` becomes the request path.
    pub(crate) fn fixed(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::rewrite(move |call, _| Reply::new(status, body.replace("{path}", &call.path)))
    }

    /// Returns a fault that sends the node's reply with changed members.
    pub(crate) fn envelope(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::rewrite(move |_, mut reply| {
            change(&mut reply);
            Reply::json(&reply)
        })
    }
}

#[derive(Clone)]
struct Setting {
    fault: Fault,
    /// Number of switches so far.
    switches: u64,
}

impl FaultProxy {
    /// Starts a proxy in front of the node at `target`, without a fault.
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let fault = Fault::everywhere(Kind::Pass);
        let (setting, settings) = watch::channel(Setting { fault, switches: 0 });
        let (in_force_sender, applied_switches) = watch::channel(0);
        let connections = Arc::<AtomicUsize>::default();
        let proxy =
            Proxy { target, client: http_client::new(), connections: Arc::clone(&connections) };
        tokio::spawn(proxy.run(listener, settings, in_force_sender));
        Self { address, setting, applied_switches, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Switches to `fault`, and returns once it has taken effect.
    pub(crate) async fn switch(&self, fault: Fault) {
        let switches = self.setting.borrow().switches + 1;
        self.setting.send_replace(Setting { fault, switches });
        let mut applied_switches = self.applied_switches.clone();
        applied_switches.wait_for(|last| *last >= switches).await.expect("the proxy runs");
    }

    /// Returns the number of connections so far.
    pub(crate) fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
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
    connections: Arc<AtomicUsize>,
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
            if matches!(fault.kind, Kind::Refuse) {
                connections.shutdown().await;
                drop(listener);
                let socket = bind_without_listening(address).await;
                applied_switches.send_replace(switches);
                let lifted = |setting: &Setting| !matches!(setting.fault.kind, Kind::Refuse);
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
                    self.connections.fetch_add(1, Ordering::Relaxed);
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
            let Setting { fault, switches } = connection.settings.borrow().clone();
            let is_affected = fault.is_for_all || call.json["method"] == "eth_feeHistory";
            let kind = if is_affected { fault.kind } else { Kind::Pass };
            match kind {
                Kind::Reset => return connection.stream.set_zero_linger().unwrap(),
                Kind::DeadPool if connection.switches == switches => {}
                Kind::Blackhole | Kind::DeadPool => std::future::pending().await,
                _ => {}
            }
            let Some(reply) = self.forward(&call).await else { return };
            if connection.reply(&call, reply, kind).await.is_none() {
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
            if let Some((request, length)) =
                Message::parse_first(http_message::Kind::Request, buffer)
            {
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

    /// Sends the reply with this fault. `None`: the connection has to be closed.
    async fn reply(&mut self, call: &Call, json: Value, kind: Kind) -> Option<()> {
        let mut reply = Reply::json(&json);
        match kind {
            Kind::Drip(pause) => {
                let mut ticks = tokio::time::interval(pause);
                for byte in reply.bytes() {
                    ticks.tick().await;
                    self.stream.write_all(&[byte]).await.ok()?;
                }
                return Some(());
            }
            Kind::Endless => {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                self.stream.write_all(head).await.ok()?;
                let chunk = [b"4000\r\n", " ".repeat(0x4000).as_bytes(), b"\r\n"].concat();
                loop {
                    self.stream.write_all(&chunk).await.ok()?;
                }
            }
            Kind::Rewrite(make) => reply = make(call, json),
            _ => {}
        }
        self.stream.write_all(&reply.bytes()).await.ok()?;
        (reply.declared == reply.body.len()).then_some(())
    }
}
