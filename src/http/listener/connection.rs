//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use enum_map::EnumMap;
use futures_util::FutureExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::metered_stream::{ConnectionActivity, MeteredStream};
use super::{BUFFER_BYTES, ShedReason, Shutdown, Timeout};
use crate::http::app::App;
use crate::http::client_limits::ConnectedPeer;
use crate::http::serving_threads;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Counter;

/// Parts of a connection that its listener provides.
pub(crate) struct Settings {
    pub(crate) http: http1::Builder,
    pub(crate) app: App,
    pub(crate) memory: MemoryBudget,
    pub(crate) activity: Arc<ConnectionActivity>,
    pub(crate) timeout_counters: Arc<EnumMap<Timeout, Counter>>,
    pub(crate) shed_counters: Arc<EnumMap<ShedReason, Counter>>,
    pub(crate) shutdown: Shutdown,
}

/// Serves requests until the client leaves, misses a deadline or sends invalid bytes, the memory budget is exhausted, or
/// the listener shuts down.
pub(crate) async fn serve(stream: std::net::TcpStream, peer: ConnectedPeer, settings: Settings) {
    let Settings { http, app, memory, activity, timeout_counters, shed_counters, shutdown } =
        settings;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let (app, peer, draining, memory, activity) = (&app, &peer, &shutdown, &memory, &activity);
    let handle = |request: Request<Incoming>| {
        serving_threads::record_request();
        activity.start_request();
        // A proxy in front may have used a `Content-Length` that hyper removed. Closing the connection ensures that
        // nothing behind the body is taken for a request (RFC 9112, section 6.1).
        let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let response = app.handle(request, Ok(peer));
        async move {
            let mut response = response.await;
            let holds_memory = activity.is_charged() || is_large(&response);
            if is_chunked || draining.is_draining() || (holds_memory && memory.is_scarce()) {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            if is_large(&response) || response.body().size_hint().exact().is_none() {
                let activity = Arc::clone(activity);
                response = response.map(|body| Body::new(BusyBody { body, activity }));
            } else {
                activity.end_response();
            }
            Ok::<_, Infallible>(response)
        }
    };
    let stream = MeteredStream::new(stream, memory.clone(), Arc::clone(activity));
    let mut connection = http.serve_connection(TokioIo::new(stream), service_fn(handle));
    let result = tokio::select! {
        result = &mut connection => result,
        () = shutdown.closing.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let stream = connection.into_parts().io.into_inner().into_inner();
    if let Err(error) = result {
        // Clients often disconnect early, so this is not a warning.
        tracing::debug!(%error, "connection closed early");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        if error.is_timeout() {
            // No response is on its way, so there is nothing to linger for.
            timeout_counters[Timeout::Header].increment();
            return;
        }
        if cause.is_some_and(|cause| cause.kind() == ErrorKind::TimedOut) {
            timeout_counters[Timeout::Write].increment();
            return;
        }
        if cause.is_some_and(|cause| cause.kind() == ErrorKind::OutOfMemory) {
            shed_counters[ShedReason::Memory].increment();
            // The system does not keep what the client has not read.
            let _ = stream.set_zero_linger();
            return;
        }
        if error.is_user() {
            // The response broke off, so the connection is reset. A client that reads until the connection closes, as
            // with HTTP/1.0, would take an orderly close for the end of the response.
            let _ = stream.set_zero_linger();
            return;
        }
    }
    tokio::select! {
        () = lingering_close(stream) => {}
        () = shutdown.closing.cancelled() => {}
    }
}

/// Body of a response. Its connection is busy until it is dropped.
struct BusyBody {
    body: Body,
    activity: Arc<ConnectionActivity>,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for BusyBody {
    fn drop(&mut self) {
        self.activity.end_response();
    }
}

/// Returns true if the response makes the connection's buffers grow.
fn is_large(response: &Response) -> bool {
    const LARGE_BYTES: u64 = 4 * 1024;
    response.body().size_hint().lower() > LARGE_BYTES
}

/// Responds to one request with `status` and closes the connection.
pub(crate) async fn reject(stream: std::net::TcpStream, app: App, status: StatusCode) {
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
