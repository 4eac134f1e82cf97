//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::metered_stream::{ConnectionActivity, MeteredStream};
use super::{BUFFER_BYTES, Shared, ShedReason, Shutdown, Timeout};
use crate::http::app::App;
use crate::http::client_limits::ConnectedPeer;
use crate::http::serving_threads;

/// A connection, from its first byte to its last.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: ConnectedPeer,
    pub(super) activity: Arc<ConnectionActivity>,
    pub(super) shutdown: Shutdown,
}

impl Connection {
    /// Serves requests until the client leaves, misses a deadline or sends invalid bytes, the memory budget is exhausted,
    /// or the listener shuts down.
    pub(super) async fn serve(self, stream: std::net::TcpStream) {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let (memory, activity) = (self.shared.memory.clone(), Arc::clone(&self.activity));
        let stream = TokioIo::new(MeteredStream::new(stream, memory, activity));
        let handler = service_fn(|request| self.handle(request));
        let mut connection = self.shared.http.serve_connection(stream, handler);
        let result = tokio::select! {
            result = &mut connection => result,
            () = self.shutdown.closing.cancelled() => {
                Pin::new(&mut connection).graceful_shutdown();
                (&mut connection).await
            }
        };
        let stream = connection.into_parts().io.into_inner().into_inner();
        if result.is_err_and(|error| self.has_broken_off(&error, &stream)) {
            return;
        }
        tokio::select! {
            () = lingering_close(stream) => {}
            () = self.shutdown.closing.cancelled() => {}
        }
    }

    /// Handles a request. Not an `async fn`, whose future would have room for the request too.
    fn handle(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send {
        serving_threads::record_request();
        self.activity.start_request();
        // A proxy in front may have used a `Content-Length` that hyper removed. Closing the connection ensures that
        // nothing behind the body is taken for a request (RFC 9112, section 6.1).
        let must_close = request.headers().contains_key(header::TRANSFER_ENCODING);
        let response = self.shared.app.handle(request, Ok(&self.peer));
        response.map(move |response| Ok(self.complete(response, must_close)))
    }

    /// Closes the connection after the response where it has to, and marks it as idle once the response is sent.
    fn complete(&self, mut response: Response, must_close: bool) -> Response {
        let is_large = is_large(&response);
        let holds_memory = is_large || self.activity.is_charged();
        if must_close
            || self.shutdown.draining.is_cancelled()
            || (holds_memory && self.shared.memory.is_scarce())
        {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if is_large || response.body().size_hint().exact().is_none() {
            let busy = Busy(Arc::clone(&self.activity));
            // Dropping the body drops this function, which does nothing else.
            return response.map(|body| Body::new(body.inspect_frame(move |_| _ = &busy)));
        }
        self.activity.end_response();
        response
    }

    /// Counts the error that ended the connection. Returns true if there is no response to linger for. Then closing the
    /// stream may reset the connection.
    fn has_broken_off(&self, error: &hyper::Error, stream: &TcpStream) -> bool {
        // Clients often disconnect early, so this is not a warning.
        tracing::debug!(%error, "connection closed early");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        let must_reset = match cause.map(io::Error::kind) {
            _ if error.is_timeout() => {
                self.shared.timeout_counters[Timeout::Header].increment();
                false
            }
            Some(io::ErrorKind::TimedOut) => {
                self.shared.timeout_counters[Timeout::Write].increment();
                false
            }
            Some(io::ErrorKind::OutOfMemory) => {
                self.shared.shed_counters[ShedReason::Memory].increment();
                // The system does not keep what the client has not read.
                true
            }
            // The response broke off. A client that reads until the connection closes, as with HTTP/1.0, would take an
            // orderly close for the end of the response.
            _ if error.is_user() => true,
            _ => return false,
        };
        if must_reset {
            let _ = stream.set_zero_linger();
        }
        true
    }
}

/// Keeps a connection busy until it is dropped.
struct Busy(Arc<ConnectionActivity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end_response();
    }
}

/// Returns true if the response makes the connection's buffers grow.
fn is_large(response: &Response) -> bool {
    const LARGE_BYTES: u64 = 4 * 1024;
    response.body().size_hint().lower() > LARGE_BYTES
}

/// Responds to one request with `status` and closes the connection.
pub(super) async fn reject(stream: std::net::TcpStream, app: App, status: StatusCode) {
    /// Time for the request, and then for the client to close.
    const TIMEOUT: Duration = Duration::from_secs(1);
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let respond =
        |request: Request<Incoming>| app.handle(request, Err(status)).map(Ok::<_, Infallible>);
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service_fn(respond));
    let _ = timeout(TIMEOUT, &mut connection).await;
    let _ = timeout(TIMEOUT, lingering_close(connection.into_parts().io.into_inner())).await;
}

/// Closes the connection after reading what the client still sends, within limits. Closing earlier could reset the
/// connection before the client has read the last response; many clients read it only after sending a whole body.
async fn lingering_close(mut stream: TcpStream) {
    /// Between two reads.
    const READ_TIMEOUT: Duration = Duration::from_millis(500);
    const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
    const MAX_BYTES: usize = 64 * 1024 * 1024;
    let linger = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut buffer = Vec::with_capacity(4 * 1024);
        let mut remaining = MAX_BYTES;
        while remaining > 0 {
            buffer.clear();
            match timeout(READ_TIMEOUT, stream.read_buf(&mut buffer)).await {
                Ok(Ok(1..)) => remaining = remaining.saturating_sub(buffer.len()),
                // The client has gone or is too slow.
                _ => return,
            }
        }
    };
    let _ = timeout(TOTAL_TIMEOUT, linger).await;
}
