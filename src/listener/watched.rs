//! A stream that tells a [`Line`] what passes through it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::line::Line;

/// A client's stream.
///
/// What hyper says by itself, to a request that it cannot read, is kept back: it has no body, and
/// every error of this service has one. See [`own_answer`](Self::own_answer).
#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    line: Arc<Line>,
    kept_back: Vec<u8>,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, line: Arc<Line>) -> Self {
        Self { stream, line, kept_back: Vec::new() }
    }

    /// The status that hyper answered by itself, if it did.
    pub(super) fn own_answer(&self) -> Option<StatusCode> {
        let versions: [&[u8]; 2] = [b"HTTP/1.1 ", b"HTTP/1.0 "];
        let status = versions.iter().find_map(|version| self.kept_back.strip_prefix(*version))?;
        StatusCode::from_bytes(status.get(..3)?).ok()
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        match buffer.filled().get(before..) {
            Some(bytes) if !bytes.is_empty() => this.line.received(bytes),
            _ => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        const LONGEST_STATUS_LINE: usize = 64;
        let this = self.get_mut();
        if this.line.owes_nothing() {
            let free = LONGEST_STATUS_LINE.saturating_sub(this.kept_back.len());
            this.kept_back.extend(bytes.iter().take(free));
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        match written {
            Poll::Ready(_) => this.line.sent_some(),
            Poll::Pending => this.line.is_blocked(),
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        this.line.sent_all();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.kept_back.is_empty() {
            // There is still something to be said.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}
