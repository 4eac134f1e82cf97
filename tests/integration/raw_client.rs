//! HTTP/1.1 byte by byte, for what no client library would send.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// No answer that a test waits for takes this long unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A client's end of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
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

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).await.unwrap())
    }

    /// From a loopback address of one's own.
    pub(crate) async fn open_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        Self::of(socket.connect(address).await.unwrap())
    }

    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends what the other side takes; that it has closed, its answers tell.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes).await;
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// The next response; `None` when the other side closed instead.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Response>> {
        loop {
            if let Some((response, length)) = Response::parse(&self.received) {
                self.received.drain(..length);
                return Ok(Some(response));
            }
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(PATIENCE, read).await.expect("an answer or an end");
            if read? == 0 {
                let rest = String::from_utf8_lossy(&self.received);
                assert_eq!(rest, "", "it closed in the middle of an answer");
                return Ok(None);
            }
        }
    }

    /// The only answer to `request`.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request).await;
        self.next().await.unwrap().expect("an answer")
    }

    /// All responses until the other side closes, which it has to do in good order.
    pub(crate) async fn until_closed(&mut self) -> Vec<Response> {
        let mut responses = Vec::new();
        while let Some(response) = self.next().await.unwrap() {
            responses.push(response);
        }
        responses
    }

    /// The next bytes, as many as these.
    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(PATIENCE, read).await.expect("enough bytes").unwrap();
            assert_ne!(read, 0, "it closed");
        }
        self.received.drain(..count).collect()
    }

    /// All bytes until this has come so often.
    pub(crate) async fn bytes_until(&mut self, what: &[u8], count: usize) -> Vec<u8> {
        let found = |bytes: &[u8]| bytes.windows(what.len()).filter(|some| *some == what).count();
        while found(&self.received) < count {
            let read = self.stream.read_buf(&mut self.received);
            let read = tokio::time::timeout(PATIENCE, read).await.expect("more bytes").unwrap();
            assert_ne!(read, 0, "it closed");
        }
        std::mem::take(&mut self.received)
    }

    /// All bytes until the other side closes, in whatever way.
    pub(crate) async fn bytes_until_closed(&mut self) -> Vec<u8> {
        let read = self.stream.read_to_end(&mut self.received);
        let _ = tokio::time::timeout(PATIENCE, read).await.expect("an end");
        std::mem::take(&mut self.received)
    }
}

/// A request without a body.
pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
}

impl Response {
    /// The response that `bytes` begin with, and its length.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next()?;
        let is_of = |version| first.strip_prefix(version);
        let status = is_of("HTTP/1.1 ").or_else(|| is_of("HTTP/1.0 ")).expect("a status line");
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

    /// A header's only value; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(one, _)| one == name);
        let value = values.next().map_or("", |(_, value)| value);
        assert!(values.next().is_none(), "{name} twice in {self:#?}");
        value
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == "close"
    }

    /// The status, and the code of the problem that every error has to be; empty for no error.
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

/// A port for a process that cannot tell which one it took: none of those that the system gives to
/// clients, so that it stays free while nobody listens on it.
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
