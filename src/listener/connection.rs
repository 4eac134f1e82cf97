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

use super::Drain;
use super::line::{Line, Missed, Order};
use super::tape::Framing;
use super::watched::Watched;
use crate::api::{App, EndBy, Endless};
use crate::clients::Visitor;

/// The most that the headers of a request, its first line included, may take.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Answers requests until the client goes, misses a deadline or sends what cannot be read, or the
/// `line` is told to finish.
pub(super) async fn serve(
    stream: TcpStream,
    app: App,
    visitor: Visitor,
    line: Arc<Line>,
    drain: Arc<Drain>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let answer = |request: Request<Incoming>| {
        let framing = line.received_head(request.headers());
        let answer = match framing {
            Framing::Ambiguous => Either::Left(ready(Ok(app.refusal(StatusCode::BAD_REQUEST)))),
            Framing::Plain | Framing::Unfinished | Framing::Chunked => {
                Either::Right(app.answer(request, &visitor))
            }
        };
        let (line, drain) = (Arc::clone(&line), Arc::clone(&drain));
        answer.map(move |answer| {
            answer.map(|mut response| {
                let is_last = match framing {
                    Framing::Plain => false,
                    Framing::Unfinished => line.may_owe_a_body(),
                    Framing::Chunked | Framing::Ambiguous => true,
                };
                if is_last || drain.has_begun() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                if let Some(EndBy(deadline)) = response.extensions_mut().remove() {
                    line.has_to_end_by(deadline);
                }
                if response.extensions_mut().remove::<Endless>().is_some() {
                    line.is_endless();
                }
                response.map(|body| Tracked { body, line })
            })
        })
    };
    let stream = TokioIo::new(Watched::new(stream, Arc::clone(&line)));
    let mut connection = http1::Builder::new()
        // Answers are small: one buffer is cheaper than a list of them.
        .writev(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, service_fn(answer));

    let mut is_finishing = false;
    let ended = poll_fn(|context| {
        let mut connection = Pin::new(&mut connection);
        match line.order(context) {
            Order::Serve => {}
            Order::Finish if is_finishing => {}
            Order::Finish => {
                is_finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            Order::Cut(missed) => return Poll::Ready(Err(missed)),
        }
        connection.poll(context).map(Ok)
    });
    let ended = ended.await;
    if let Ok(Err(error)) = &ended {
        // Clients go away in the middle all the time.
        tracing::debug!(%error, "a connection ended early");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        if cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut) {
            line.is_given_up();
        }
    }
    let stream = connection.into_parts().io.into_inner();
    // Who is not answered yet, or owes nothing, has nothing to send that would be waited for.
    let may_go_on = ended.is_ok() && line.may_owe_a_body();
    let refusal = match ended {
        Ok(Err(error)) if error.is_user() => {
            // An answer broke off. To a client that goes by the end of the connection, as HTTP/1.0
            // does, any other end would be that of the answer.
            let _ = stream.into_stream().set_zero_linger();
            return;
        }
        Ok(outcome) => match stream.own_answer() {
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) if line.is_in_first_line() => {
                Some(StatusCode::URI_TOO_LONG)
            }
            Some(status) => Some(status),
            // To the preface of HTTP/2 hyper says nothing.
            None if outcome.is_err_and(|error| error.is_parse()) && line.owes_nothing() => {
                Some(StatusCode::BAD_REQUEST)
            }
            None => None,
        },
        Err(Missed::Head) if line.has_part_of_a_request() => Some(StatusCode::REQUEST_TIMEOUT),
        Err(Missed::Write) => {
            // Nothing more will be taken, so nothing more is to be kept for it.
            let _ = stream.into_stream().set_zero_linger();
            return;
        }
        Err(_) => None,
    };
    let stream = stream.into_stream();
    if let Some(status) = refusal {
        close_with(stream, app.refusal(status)).await;
    } else {
        let patience = if may_go_on { Patience::OF_A_BODY } else { Patience::OF_A_HEAD };
        close_after(stream, &[], patience, || !drain.has_begun()).await;
    }
}

/// Sends `response` and closes the connection.
pub(super) async fn close_with(stream: TcpStream, response: Response<Body>) {
    close_after(stream, &to_bytes(response).await, Patience::OF_A_HEAD, || true).await;
}

/// For how long a client is read on that has its last answer.
struct Patience {
    /// Between two pieces.
    pause: Duration,
    total: Duration,
    bytes: usize,
}

impl Patience {
    /// Of what came before there was a request.
    const OF_A_HEAD: Self = Self {
        pause: Duration::from_millis(500),
        total: Duration::from_millis(500),
        bytes: 256 * 1024,
    };
    /// Of the rest of a body that was refused. Many clients look for an answer only when all of it is
    /// sent, and never see the one of a connection that breaks before; what is above the limit is
    /// seldom far above it.
    const OF_A_BODY: Self = Self {
        pause: Duration::from_millis(500),
        total: Duration::from_secs(10),
        bytes: 64 * 1024 * 1024,
    };
}

/// Sends these `last_words` and closes the connection, after what the client is still sending, as far
/// as there is time for that: to close before could take the last answer away from it.
async fn close_after(
    mut stream: TcpStream,
    last_words: &[u8],
    patience: Patience,
    is_there_time: impl Fn() -> bool,
) {
    const MOST_AT_ONCE: usize = 16 * 1024;
    let Patience { pause, total, bytes: mut left } = patience;
    let farewell = async {
        let said = async {
            stream.write_all(last_words).await?;
            stream.shutdown().await
        };
        if !matches!(timeout(pause, said).await, Ok(Ok(()))) {
            return;
        }
        let mut buffer = Vec::with_capacity(MOST_AT_ONCE);
        while left > 0 && is_there_time() {
            buffer.clear();
            match timeout(pause, stream.read_buf(&mut buffer)).await {
                Ok(Ok(1..)) => left = left.saturating_sub(buffer.len()),
                // A client that is gone, or takes its time, is none of our business any more.
                _ => return,
            }
        }
    };
    let _ = timeout(total, farewell).await;
}

/// A response as HTTP/1.1 for the end of a connection.
async fn to_bytes(response: Response<Body>) -> Vec<u8> {
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

/// A body that is made as fast as the client takes it, and tells the line when the last of it was made.
struct Tracked {
    body: Body,
    line: Arc<Line>,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.line.made_answer();
    }
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.line.is_taking(context) {
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
