//! Request body that is cancelled with its request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Error of a request body that ended early. Its owner knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request body was aborted")]
pub(crate) struct RequestBodyAborted;

/// A body that ends with its request. Otherwise a client that continues to send after the response would keep the
/// upstream connection open.
#[derive(Debug)]
pub(crate) struct CancellableBody<B> {
    body: Pin<Box<B>>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<B> CancellableBody<B> {
    pub(crate) fn new(body: B, cancel: CancellationToken) -> Self {
        Self { body: Box::pin(body), cancelled: Box::pin(cancel.cancelled_owned()) }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> Body for CancellableBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(RequestBodyAborted.into())));
        }
        self.body.as_mut().poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
