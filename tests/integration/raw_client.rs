//! A raw HTTP/1.1 client for requests that client libraries do not send.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Timeout of every wait in tests. Longer than any expected event takes.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A client connection.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
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
    pub(crate) async fn read_response(&mut self) -> io::Result<Option<Response>> {
        loop {
            if let Some((response, length)) = Response::parse(&self.received) {
                self.received.drain(..length);
                return Ok(Some(response));
            }
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(TIMEOUT, read).await.expect("a response or the end");
            if read? == 0 {
                let rest = String::from_utf8_lossy(&self.received);
                assert_eq!(rest, "", "closed within a response");
                return Ok(None);
            }
        }
    }

    /// Sends `request` and reads the response.
    pub(crate) async fn request(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request).await;
        self.read_response().await.unwrap().expect("a response")
    }

    /// Reads all responses until the peer closes the connection. Panics if the peer resets it.
    pub(crate) async fn read_until_closed(&mut self) -> Vec<Response> {
        let mut responses = Vec::new();
        while let Some(response) = self.read_response().await.unwrap() {
            responses.push(response);
        }
        responses
    }

    /// Reads the next `count` bytes.
    pub(crate) async fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(TIMEOUT, read).await.expect("enough bytes").unwrap();
            assert_ne!(read, 0, "the connection was closed");
        }
        self.received.drain(..count).collect()
    }

    /// Reads bytes until `what` has occurred `count` times.
    pub(crate) async fn read_bytes_until(&mut self, what: &[u8], count: usize) -> Vec<u8> {
        let found = |bytes: &[u8]| bytes.windows(what.len()).filter(|some| *some == what).count();
        while found(&self.received) < count {
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(TIMEOUT, read).await.expect("more bytes").unwrap();
            assert_ne!(read, 0, "the connection was closed");
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

/// Builds a GET request.
pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
}

impl Response {
    /// Parses the response at the start of `bytes`. Returns it with its length.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next()?;
        let has_version = |version| first.strip_prefix(version);
        let status =
            has_version("HTTP/1.1 ").or_else(|| has_version("HTTP/1.0 ")).expect("a status line");
        let headers = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let mut response = Self {
            status: status[..3].parse().unwrap(),
            headers: headers.collect(),
            body: String::new(),
        };
        let length = match response.header("content-length") {
            "" if response.status == 204 => 0,
            length => length.parse().expect("a length"),
        };
        let body = bytes.get(end..end + length)?;
        response.body = String::from_utf8(body.to_vec()).unwrap();
        Some((response, end + length))
    }

    /// Returns a header's only value, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(one, _)| one == name);
        let value = values.next().map_or("", |(_, value)| value);
        assert!(values.next().is_none(), "{name} twice in {self:#?}");
        value
    }

    pub(crate) fn closes_connection(&self) -> bool {
        self.header("connection") == "close"
    }

    /// Returns the status and the code of the problem document, which every error must have. The code is empty for
    /// successes.
    pub(crate) fn outcome(&self) -> (u16, String) {
        if self.status < 400 {
            return (self.status, String::new());
        }
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:#?}");
        assert_eq!(self.header("cache-control"), "no-store", "{self:#?}");
        assert_eq!(self.header("access-control-allow-origin"), "*", "{self:#?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], self.status, "{self:#?}");
        assert_eq!(body["request_id"], self.header("x-request-id"), "{self:#?}");
        assert_ne!(self.header("x-request-id"), "", "{self:#?}");
        (self.status, body["code"].as_str().unwrap().to_owned())
    }
}

/// Returns a free port for a process that cannot report its own. It is outside the ephemeral range, so the system
/// does not assign it to a client in the meantime.
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
