//! A mock HTTP upstream that plays a script and records all bytes that it receives.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::fixtures::Bytes;
use crate::http_message::{Kind, Message};
use crate::raw_client::TIMEOUT;

/// An upstream on a free loopback port. Stopped when dropped.
#[derive(Debug)]
pub(crate) struct MockUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Vec<Step>>,
    received: watch::Sender<Vec<ReceivedConnection>>,
    /// Permits for [`Step::Wait`].
    gate: Semaphore,
}

/// A step of the script of a connection. After the last step, the upstream reads until the peer closes.
#[derive(Debug, Clone, Deserialize)]
pub(crate) enum Step {
    /// Reads the request headers.
    ReadHeaders,
    /// Reads the whole request.
    ReadRequest,
    /// Waits for [`MockUpstream::release`].
    Wait,
    /// Writes these bytes.
    Write(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Writes one byte per interval, in milliseconds.
    Drip(u64, #[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Writes these bytes every 2 ms until the write fails.
    WriteForever(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Closes the connection, even with unread data.
    Close,
    /// Resets the connection.
    Reset,
}

fn bytes<'a, D: Deserializer<'a>>(text: D) -> Result<Vec<u8>, D::Error> {
    Ok(Bytes::deserialize(text)?.into())
}

/// Data received on a connection so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedConnection {
    pub(crate) bytes: Vec<u8>,
    /// True if the peer has closed the connection.
    pub(crate) is_closed: bool,
}

impl ReceivedConnection {
    /// Parses the request, which may be incomplete.
    pub(crate) fn request(&self) -> Message {
        Message::parse(Kind::Request, &self.bytes).expect("a request's headers")
    }

    pub(crate) fn is_complete(&self) -> bool {
        Message::is_complete_in(Kind::Request, &self.bytes) && self.request().is_complete
    }
}

/// Returns a script that reads the request and writes these bytes.
pub(crate) fn respond_with(bytes: impl Into<Vec<u8>>) -> Vec<Step> {
    vec![Step::ReadRequest, Step::Write(bytes.into())]
}

/// Builds a response with its `Content-Length`.
pub(crate) fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

impl MockUpstream {
    /// Starts an upstream that plays `script` on every connection.
    pub(crate) async fn start(script: Vec<Step>) -> Self {
        Self::from_listener(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(), script)
    }

    /// Like [`start`](Self::start), on this port.
    pub(crate) async fn start_at(port: u16, script: Vec<Step>) -> Self {
        Self::from_listener(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap(), script)
    }

    /// Like [`start`](Self::start), with a small receive buffer.
    pub(crate) fn with_small_receive_buffer(script: Vec<Step>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self::from_listener(socket.listen(64).unwrap(), script)
    }

    fn from_listener(listener: TcpListener, script: Vec<Step>) -> Self {
        let address = listener.local_addr().unwrap();
        let (script, received) = (Mutex::new(script), watch::Sender::new(Vec::new()));
        let shared = Arc::new(Shared { script, received, gate: Semaphore::new(0) });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL with a path, like that of the real upstream.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/server", self.address)
    }

    /// Sets the script of later connections.
    pub(crate) fn set_script(&self, script: Vec<Step>) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Lets `count` scripts pass their [`Step::Wait`].
    pub(crate) fn release(&self, count: usize) {
        self.shared.gate.add_permits(count);
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.shared.received.borrow().len()
    }

    /// Returns all connections so far.
    pub(crate) fn connections(&self) -> Vec<ReceivedConnection> {
        self.shared.received.borrow().clone()
    }

    /// Waits until the connection with this index satisfies `as_expected`.
    pub(crate) async fn wait_for_connection(
        &self,
        index: usize,
        is_so: impl Fn(&ReceivedConnection) -> bool,
    ) -> ReceivedConnection {
        let mut received = self.shared.received.subscribe();
        let is_so = |all: &Vec<ReceivedConnection>| all.get(index).is_some_and(&is_so);
        let waiting = tokio::time::timeout(TIMEOUT, received.wait_for(is_so)).await;
        let count = self.connection_count();
        assert!(waiting.is_ok(), "connection {index} of {count} is not as expected");
        self.shared.received.borrow()[index].clone()
    }

    /// Waits for the whole request of the connection with this index.
    pub(crate) async fn request(&self, index: usize) -> Message {
        self.wait_for_connection(index, ReceivedConnection::is_complete).await.request()
    }

    /// Waits until the peer has closed the connection with this index.
    pub(crate) async fn wait_for_close(&self, index: usize) -> ReceivedConnection {
        self.wait_for_connection(index, |received| received.is_closed).await
    }
}

impl Drop for MockUpstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                stream.set_nodelay(true).unwrap();
                let index = shared.received.borrow().len();
                shared.received.send_modify(|all| all.push(ReceivedConnection::default()));
                let script = shared.script.lock().unwrap().clone();
                let player = ScriptedConnection { stream, index, shared: Arc::clone(&shared) };
                connections.spawn(player.play(script));
            }
            Some(played) = connections.join_next() => played.unwrap(),
        }
    }
}

/// A connection that plays its script.
struct ScriptedConnection {
    stream: TcpStream,
    index: usize,
    shared: Arc<Shared>,
}

impl ScriptedConnection {
    async fn play(mut self, script: Vec<Step>) {
        for step in script {
            let is_open = match step {
                Step::ReadHeaders => {
                    self.read_until(|bytes| bytes.windows(4).any(|end| end == b"\r\n\r\n")).await
                }
                Step::ReadRequest => {
                    self.read_until(|bytes| Message::is_complete_in(Kind::Request, bytes)).await
                }
                Step::Wait => {
                    self.shared.gate.acquire().await.unwrap().forget();
                    true
                }
                Step::Write(bytes) => self.stream.write_all(&bytes).await.is_ok(),
                Step::Drip(pause, bytes) => self.drip(Duration::from_millis(pause), &bytes).await,
                Step::WriteForever(bytes) => self.repeat(&bytes).await,
                Step::Close => return,
                Step::Reset => return self.stream.set_zero_linger().unwrap(),
            };
            if !is_open {
                break;
            }
        }
        self.read_until(|_| false).await;
    }

    async fn repeat(&mut self, bytes: &[u8]) -> bool {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        while self.stream.write_all(bytes).await.is_ok() {
            ticks.tick().await;
        }
        false
    }

    async fn drip(&mut self, pause: Duration, bytes: &[u8]) -> bool {
        let mut ticks = tokio::time::interval(pause);
        for byte in bytes {
            ticks.tick().await;
            if self.stream.write_all(&[*byte]).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Reads until the received bytes satisfy `is_enough`. Returns false if the connection ends before.
    async fn read_until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let change = |change: &dyn Fn(&mut ReceivedConnection)| {
            self.shared.received.send_modify(|all| change(&mut all[self.index]));
        };
        while !is_enough(&self.shared.received.borrow()[self.index].bytes) {
            match self.stream.read(&mut buffer).await {
                Ok(read) if read > 0 => change(&|received| received.bytes.extend(&buffer[..read])),
                _ => {
                    change(&|received| received.is_closed = true);
                    return false;
                }
            }
        }
        true
    }
}
