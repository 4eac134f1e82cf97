//! Sends one request on its own connection and reads the response.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http_message::{Kind, Message};
use crate::raw_client::TIMEOUT;

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
        std::future::pending::<()>().await;
    };
    let both = async {
        tokio::select! {
            end = reading => end,
            () = writing => unreachable!("writing never ends"),
        }
    };
    let end = tokio::time::timeout(TIMEOUT, both).await.expect("a response or the end");
    (Message::parse(kind, &received), end)
}

/// Builds a GET request.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Builds a POST request with a `Content-Length`.
pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Builds a POST request with a chunked body.
pub(crate) fn post_chunked(path: &str, headers: &str, chunks: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
    [head.as_bytes(), chunks].concat()
}
