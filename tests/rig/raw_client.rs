//! A raw HTTP/1.1 client for requests that client libraries do not send.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::http_message::{Kind, Message, get};
use crate::test_server::wait_until;

/// Timeout of every wait in tests. Longer than any expected event takes.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A client connection.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::from_stream(TcpStream::connect(address).await.unwrap())
    }

    /// Connects from the loopback address `source`.
    pub(crate) async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        Self::from_stream(socket.connect(address).await.unwrap())
    }

    /// Like [`connect_from`](Self::connect_from), with a small receive buffer, so that the service cannot send much.
    pub(crate) async fn connect_with_small_buffer(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind((source, 0).into()).unwrap();
        Self::from_stream(socket.connect(address).await.unwrap())
    }

    pub(crate) fn from_stream(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends `bytes` and ignores errors: a closed connection is noticed when the response is read.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes).await;
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Reads the next response. `None` when the peer closes instead.
    pub(crate) async fn read_response(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some((response, length)) = Message::parse_first(Kind::Response, &self.received) {
                self.received.drain(..length);
                return Ok(Some(response));
            }
            if self.read_more().await? == 0 {
                let rest = String::from_utf8_lossy(&self.received);
                assert_eq!(rest, "", "closed within a response");
                return Ok(None);
            }
        }
    }

    /// Reads what arrives next. Returns 0 at the end of the connection.
    async fn read_more(&mut self) -> io::Result<usize> {
        let read = self.stream.read_buf(&mut self.received);
        tokio::time::timeout(TIMEOUT, read).await.expect("more bytes or the end")
    }

    /// Sends `request` and reads the response.
    pub(crate) async fn request(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request).await;
        self.read_response().await.unwrap().expect("a response")
    }

    /// Sends a GET request and returns the status of the response.
    pub(crate) async fn status(&mut self, path: &str) -> u16 {
        self.request(get(path, "")).await.status()
    }

    /// Repeats a GET request until its status is 200.
    pub(crate) async fn wait_for_ok(&mut self, path: &str) {
        wait_until(path, async || self.status(path).await == 200).await;
    }

    /// Reads all responses until the peer closes the connection. Panics if the peer resets it.
    pub(crate) async fn read_until_closed(&mut self) -> Vec<Message> {
        let mut responses = Vec::new();
        while let Some(response) = self.read_response().await.unwrap() {
            responses.push(response);
        }
        responses
    }

    /// Reads the next `count` bytes.
    pub(crate) async fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert_ne!(self.read_more().await.unwrap(), 0, "the connection was closed");
        }
        self.received.drain(..count).collect()
    }

    /// Reads bytes until `what` has occurred `count` times.
    pub(crate) async fn read_bytes_until(&mut self, what: &[u8], count: usize) -> Vec<u8> {
        let found = |bytes: &[u8]| bytes.windows(what.len()).filter(|some| *some == what).count();
        while found(&self.received) < count {
            assert_ne!(self.read_more().await.unwrap(), 0, "the connection was closed");
        }
        std::mem::take(&mut self.received)
    }

    /// Reads all bytes until the peer closes or resets.
    pub(crate) async fn read_bytes_until_closed(&mut self) -> Vec<u8> {
        let read = self.stream.read_to_end(&mut self.received);
        let _ = tokio::time::timeout(TIMEOUT, read).await.expect("an end");
        std::mem::take(&mut self.received)
    }
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The message is complete.
    Complete,
    /// The connection was closed before the end of the message.
    Closed,
    Reset,
}

/// Sends `request` on its own connection and reads the response at the same time.
pub(crate) async fn exchange(
    address: SocketAddr,
    request: &[u8],
) -> (Option<Message>, ConnectionEnd) {
    let kind = if request.starts_with(b"HEAD") { Kind::HeadResponse } else { Kind::Response };
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut received = Vec::new();
    let reading = async {
        loop {
            if Message::is_complete_in(kind, &received) {
                return ConnectionEnd::Complete;
            }
            match reader.read_buf(&mut received).await {
                Ok(0) => return ConnectionEnd::Closed,
                Ok(_) => {}
                Err(_) => return ConnectionEnd::Reset,
            }
        }
    };
    let writing = async {
        // The write may fail, because the peer may respond without reading the rest.
        let _ = writer.write_all(request).await;
        std::future::pending().await
    };
    let both = async {
        tokio::select! { end = reading => end, end = writing => end }
    };
    let end = tokio::time::timeout(TIMEOUT, both).await.expect("a response or the end");
    (Message::parse(kind, &received), end)
}

/// Returns a free port for a process that cannot report its own, or for a dead URL. It is outside the ephemeral
/// range, so the system does not assign it to others in the meantime.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 8000).unwrap();
    loop {
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(count < 8000, "no port is free");
        let port = 20_000 + (start + count) % 8000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
