//! One connection, from its first byte to its last.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::future::{Either, FutureExt, ready};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::DrainFlag;
use super::connection_state::{ConnectionCommand, ConnectionState, Timeout};
use super::framing::Framing;
use super::monitored_stream::MonitoredStream;
use crate::api::{App, BodyDeadline, Streaming};
use crate::client_limits::ConnectedPeer;

/// Limit of the request line and the headers together.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Serves requests until the client leaves, misses a deadline or sends invalid bytes, or `state` commands to drain.
pub(super) async fn serve(
    stream: TcpStream,
    app: App,
    peer: ConnectedPeer,
    state: Arc<ConnectionState>,
    drain_flag: Arc<DrainFlag>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let handle = |request: Request<Incoming>| {
        let framing = state.on_request_head(request.headers());
        let response_future = match framing {
            Framing::Ambiguous => {
                Either::Left(ready(Ok(app.rejection_response(StatusCode::BAD_REQUEST))))
            }
            Framing::Complete | Framing::Incomplete | Framing::Chunked => {
                Either::Right(app.handle(request, &peer))
            }
        };
        let (state, drain_flag) = (Arc::clone(&state), Arc::clone(&drain_flag));
        response_future.map(move |answer| {
            answer.map(|mut response| {
                let must_close = match framing {
                    Framing::Complete => false,
                    Framing::Incomplete => state.may_be_in_body(),
                    Framing::Chunked | Framing::Ambiguous => true,
                };
                if must_close || drain_flag.is_set() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                if let Some(BodyDeadline(deadline)) = response.extensions_mut().remove() {
                    state.set_body_deadline(deadline);
                }
                if response.extensions_mut().remove::<Streaming>().is_some() {
                    state.mark_streaming();
                }
                response.map(|body| TrackedBody { body, state })
            })
        })
    };
    let stream = TokioIo::new(MonitoredStream::new(stream, Arc::clone(&state)));
    let mut connection = http1::Builder::new()
        // Responses are small: copying into one buffer is cheaper than a vectored write.
        .writev(false)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(stream, service_fn(handle));

    let mut is_draining = false;
    let run = poll_fn(|context| {
        let mut connection = Pin::new(&mut connection);
        match state.poll_command(context) {
            ConnectionCommand::Run => {}
            ConnectionCommand::Drain if is_draining => {}
            ConnectionCommand::Drain => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            ConnectionCommand::Abort(expired) => return Poll::Ready(Err(expired)),
        }
        connection.poll(context).map(Ok)
    });
    let result = run.await;
    if let Ok(Err(error)) = &result {
        // Clients often disconnect early, so this is not a warning.
        tracing::debug!(%error, "connection closed early");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        if cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut) {
            state.mark_kernel_timeout();
        }
    }
    let stream = connection.into_parts().io.into_inner();
    // Only a client that got its response before the end of its request body may still be sending.
    let may_send_body = result.is_ok() && state.may_be_in_body();
    let rejection_status = match result {
        Ok(Err(error)) if error.is_user() => {
            // The response broke off, so the connection is reset. A client that reads until the connection closes, as
            // with HTTP/1.0, would take an orderly close for the end of the response.
            let _ = stream.into_stream().set_zero_linger();
            return;
        }
        Ok(outcome) => match stream.hyper_error_status() {
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) if state.is_in_request_line() => {
                Some(StatusCode::URI_TOO_LONG)
            }
            Some(status) => Some(status),
            // hyper does not respond to the HTTP/2 preface.
            None if outcome.is_err_and(|error| error.is_parse())
                && state.has_no_response_in_flight() =>
            {
                Some(StatusCode::BAD_REQUEST)
            }
            None => None,
        },
        Err(Timeout::Header) if state.has_partial_request() => Some(StatusCode::REQUEST_TIMEOUT),
        Err(Timeout::Write) => {
            // The client reads nothing more, so the kernel need not keep unsent bytes.
            let _ = stream.into_stream().set_zero_linger();
            return;
        }
        Err(_) => None,
    };
    let stream = stream.into_stream();
    if let Some(status) = rejection_status {
        respond_and_close(stream, app.rejection_response(status)).await;
    } else {
        let limits =
            if may_send_body { LingerLimits::AFTER_BODY } else { LingerLimits::AFTER_HEADER };
        lingering_close(stream, &[], limits, || !drain_flag.is_set()).await;
    }
}

/// Sends `response` and closes the connection.
pub(super) async fn respond_and_close(stream: TcpStream, response: Response<Body>) {
    lingering_close(
        stream,
        &serialize_response(response).await,
        LingerLimits::AFTER_HEADER,
        || true,
    )
    .await;
}

/// Limits for reading on from a client that has got its last response.
struct LingerLimits {
    /// Between two reads.
    read_timeout: Duration,
    total_timeout: Duration,
    max_bytes: usize,
}

impl LingerLimits {
    /// Limits for a close with no request body pending.
    const AFTER_HEADER: Self = Self {
        read_timeout: Duration::from_millis(500),
        total_timeout: Duration::from_millis(500),
        max_bytes: 256 * 1024,
    };
    /// Limits for draining the rest of an unfinished request body. Many clients read the response only after sending
    /// the whole
    /// body, and miss it if the connection breaks before; most bodies exceed the limit only slightly.
    const AFTER_BODY: Self = Self {
        read_timeout: Duration::from_millis(500),
        total_timeout: Duration::from_secs(10),
        max_bytes: 64 * 1024 * 1024,
    };
}

/// Sends `response` and closes the connection after reading what the client still sends, within the limits. Closing
/// earlier could reset the connection before the client has read the response. Ends early when `may_linger` is false.
async fn lingering_close(
    mut stream: TcpStream,
    response: &[u8],
    limits: LingerLimits,
    may_linger: impl Fn() -> bool,
) {
    const READ_BUFFER_BYTES: usize = 16 * 1024;
    let LingerLimits { read_timeout, total_timeout, max_bytes: mut remaining } = limits;
    let linger = async {
        let send = async {
            stream.write_all(response).await?;
            stream.shutdown().await
        };
        if !matches!(timeout(read_timeout, send).await, Ok(Ok(()))) {
            return;
        }
        let mut buffer = Vec::with_capacity(READ_BUFFER_BYTES);
        while remaining > 0 && may_linger() {
            buffer.clear();
            match timeout(read_timeout, stream.read_buf(&mut buffer)).await {
                Ok(Ok(1..)) => remaining = remaining.saturating_sub(buffer.len()),
                // The client has gone or is too slow: stop waiting.
                _ => return,
            }
        }
    };
    let _ = timeout(total_timeout, linger).await;
}

/// Serialises a response as HTTP/1.1 for a connection that hyper no longer handles.
async fn serialize_response(response: Response<Body>) -> Vec<u8> {
    let (mut parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let date = httpdate::fmt_http_date(SystemTime::now());
    let mut bytes = format!("HTTP/1.1 {}\r\ndate: {date}\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

/// A body that produces data only as fast as the client reads it, and reports to the connection state when it has
/// ended.
struct TrackedBody {
    body: Body,
    state: Arc<ConnectionState>,
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.state.on_body_finished();
    }
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.state.poll_writable(context) {
            return Poll::Pending;
        }
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
