//! One request on a connection of its own, and all that comes back.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::message::{Kind, Message};
use crate::raw::PATIENCE;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it said.
    Whole,
    /// The connection was closed in good order, and before that.
    Closed,
    Reset,
}

/// Sends `request` on a connection of its own while it reads what comes back.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> (Option<Message>, End) {
    let kind = if request.starts_with(b"HEAD") { Kind::AnswerToHead } else { Kind::Answer };
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut received = Vec::new();
    let reading = async {
        loop {
            if Message::ends_in(kind, &received) {
                return End::Whole;
            }
            match reader.read_buf(&mut received).await {
                Ok(0) => return End::Closed,
                Ok(_) => {}
                Err(_) => return End::Reset,
            }
        }
    };
    let writing = async {
        // Whoever has answered need not take the rest.
        let _ = writer.write_all(request).await;
        std::future::pending::<()>().await;
    };
    let both = async {
        tokio::select! {
            end = reading => end,
            () = writing => unreachable!("it never ends"),
        }
    };
    let end = tokio::time::timeout(PATIENCE, both).await.expect("an answer or an end");
    (Message::of(kind, &received), end)
}

/// A request without a body.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A request with a body of known length.
pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// A request with a body that comes in these chunks.
pub(crate) fn post_chunked(path: &str, headers: &str, chunks: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
    [head.as_bytes(), chunks].concat()
}
