//! An HTTP upstream that plays a script and keeps every byte that it was sent.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::message::{Kind, Message};
use crate::raw::PATIENCE;

/// An upstream on a free loopback port. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Vec<Step>>,
    seen: watch::Sender<Vec<Seen>>,
    /// How many scripts may go on at a [`Step::Wait`].
    gate: Semaphore,
}

/// What the upstream does on a connection, one after the other; behind the last step it reads until
/// the other side ends.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads until the headers are there.
    Head,
    /// Reads until the whole request is there.
    Request,
    /// Does nothing, until a test opens the gate.
    Wait,
    Say(Vec<u8>),
    /// Says one byte after every pause.
    Drip(Duration, Vec<u8>),
    /// Says this every few milliseconds until nobody takes it.
    Endlessly(Vec<u8>),
    /// Closes the connection, whatever was not read.
    Close,
    /// Resets the connection.
    Reset,
}

/// A connection as it was so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    /// The other side has ended it.
    pub(crate) is_ended: bool,
}

impl Seen {
    /// The request, or what there is of it.
    pub(crate) fn request(&self) -> Message {
        Message::of(Kind::Request, &self.bytes).expect("a request's headers")
    }

    pub(crate) fn is_whole(&self) -> bool {
        Message::ends_in(Kind::Request, &self.bytes) && self.request().is_whole
    }
}

/// Reads the request and says this.
pub(crate) fn answering(bytes: impl Into<Vec<u8>>) -> Vec<Step> {
    vec![Step::Request, Step::Say(bytes.into())]
}

/// An answer with its length.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

impl Upstream {
    /// An upstream that plays `script` on every connection.
    pub(crate) async fn start(script: Vec<Step>) -> Self {
        Self::of(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(), script)
    }

    /// The same at this port.
    pub(crate) async fn at(port: u16, script: Vec<Step>) -> Self {
        Self::of(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap(), script)
    }

    /// The same, with little room for what it has not read.
    pub(crate) fn narrow(script: Vec<Step>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self::of(socket.listen(64).unwrap(), script)
    }

    fn of(listener: TcpListener, script: Vec<Step>) -> Self {
        let address = listener.local_addr().unwrap();
        let (script, seen) = (Mutex::new(script), watch::Sender::new(Vec::new()));
        let shared = Arc::new(Shared { script, seen, gate: Semaphore::new(0) });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Below a path, as the real one is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/server", self.address)
    }

    /// Plays `script` on the connections to come.
    pub(crate) fn play(&self, script: Vec<Step>) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Lets this many scripts go on at their [`Step::Wait`].
    pub(crate) fn open(&self, count: usize) {
        self.shared.gate.add_permits(count);
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.seen.borrow().len()
    }

    /// All connections so far.
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// The connection with this number, once it is as expected.
    pub(crate) async fn until(&self, number: usize, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.shared.seen.subscribe();
        let is_so = |all: &Vec<Seen>| all.get(number).is_some_and(&is_so);
        let waiting = tokio::time::timeout(PATIENCE, seen.wait_for(is_so)).await;
        let count = self.connections();
        assert!(waiting.is_ok(), "connection {number} of {count} is not as expected");
        self.shared.seen.borrow()[number].clone()
    }

    /// The whole request of the connection with this number.
    pub(crate) async fn request(&self, number: usize) -> Message {
        self.until(number, Seen::is_whole).await.request()
    }

    /// The connection with this number after its end.
    pub(crate) async fn ended(&self, number: usize) -> Seen {
        self.until(number, |seen| seen.is_ended).await
    }
}

impl Drop for Upstream {
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
                let number = shared.seen.borrow().len();
                shared.seen.send_modify(|all| all.push(Seen::default()));
                let script = shared.script.lock().unwrap().clone();
                let player = Player { stream, number, shared: Arc::clone(&shared) };
                connections.spawn(player.play(script));
            }
            Some(played) = connections.join_next() => played.unwrap(),
        }
    }
}

/// One connection.
struct Player {
    stream: TcpStream,
    number: usize,
    shared: Arc<Shared>,
}

impl Player {
    async fn play(mut self, script: Vec<Step>) {
        for step in script {
            let is_on = match step {
                Step::Head => self.read_until(ends_head).await,
                Step::Request => {
                    self.read_until(|bytes| Message::ends_in(Kind::Request, bytes)).await
                }
                Step::Wait => {
                    self.shared.gate.acquire().await.unwrap().forget();
                    true
                }
                Step::Say(bytes) => self.stream.write_all(&bytes).await.is_ok(),
                Step::Drip(pause, bytes) => self.drip(pause, &bytes).await,
                Step::Endlessly(bytes) => self.repeat(&bytes).await,
                Step::Close => return,
                Step::Reset => return self.stream.set_zero_linger().unwrap(),
            };
            if !is_on {
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

    /// Whether it came to that before the end.
    async fn read_until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let change = |change: &dyn Fn(&mut Seen)| {
            self.shared.seen.send_modify(|all| change(&mut all[self.number]));
        };
        while !is_enough(&self.shared.seen.borrow()[self.number].bytes) {
            match self.stream.read(&mut buffer).await {
                Ok(read) if read > 0 => change(&|seen| seen.bytes.extend(&buffer[..read])),
                _ => {
                    change(&|seen| seen.is_ended = true);
                    return false;
                }
            }
        }
        true
    }
}

fn ends_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|four| four == b"\r\n\r\n")
}
