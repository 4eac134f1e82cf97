//! A stream that reports what passes through it to a [`ConnectionState`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connection_state::ConnectionState;

/// The stream of a client connection.
#[derive(Debug)]
pub(super) struct MonitoredStream {
    stream: TcpStream,
    state: Arc<ConnectionState>,
    /// Response that hyper writes by itself to an unreadable request. It is suppressed because it has no body, and
    /// every error of this service has one. See [`hyper_error_status`](Self::hyper_error_status).
    suppressed: Vec<u8>,
}

impl MonitoredStream {
    pub(super) fn new(stream: TcpStream, state: Arc<ConnectionState>) -> Self {
        Self { stream, state, suppressed: Vec::new() }
    }

    /// The status that hyper answered by itself, if it did.
    pub(super) fn hyper_error_status(&self) -> Option<StatusCode> {
        let versions: [&[u8]; 2] = [b"HTTP/1.1 ", b"HTTP/1.0 "];
        let status = versions.iter().find_map(|version| self.suppressed.strip_prefix(*version))?;
        StatusCode::from_bytes(status.get(..3)?).ok()
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        match buffer.filled().get(before..) {
            Some(bytes) if !bytes.is_empty() => this.state.on_read(bytes),
            _ => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        const MAX_STATUS_LINE_BYTES: usize = 64;
        let this = self.get_mut();
        if this.state.has_no_response_in_flight() {
            let capacity = MAX_STATUS_LINE_BYTES.saturating_sub(this.suppressed.len());
            this.suppressed.extend(bytes.iter().take(capacity));
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        match written {
            Poll::Ready(_) => this.state.on_partial_write(),
            Poll::Pending => this.state.on_write_blocked(),
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        this.state.on_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.suppressed.is_empty() {
            // There is still something to be said.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}
