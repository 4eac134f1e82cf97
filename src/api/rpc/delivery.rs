//! Writes answers around results that are passed on as the bytes that they are.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Frame, SizeHint};
use serde_json::value::RawValue;

use super::envelope::RpcError;
use crate::memory::{Exhausted, Hold, Memory};

/// The pieces of an answer under way, or of a batch of them.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pieces: VecDeque<Bytes>,
    /// Only a batch has this: each of its answers is free of charge by itself, all of them are not.
    batch: Option<Hold>,
}

impl Delivery {
    /// The beginning of a batch, whose answers are held in `memory` as far as they are not already.
    pub(super) fn batch(memory: &Memory) -> Self {
        Self { pieces: VecDeque::new(), batch: Some(memory.hold()) }
    }

    /// The answer to the call `id` (`None`: to what has no readable one), with this `name` and
    /// `value`.
    pub(super) fn of(id: Option<&RawValue>, name: &str, value: Bytes) -> Self {
        let id = id.map_or("null", RawValue::get);
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":");
        let pieces = [Bytes::from(head), value, Bytes::from_static(b"}")];
        Self { pieces: pieces.into(), batch: None }
    }

    pub(super) fn of_error(id: Option<&RawValue>, error: &RpcError) -> Self {
        let error = serde_json::to_vec(error).expect("a number and a text serialise");
        Self::of(id, "error", error.into())
    }

    /// Adds one more answer to a batch, or nothing where there is none.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub(super) fn append(&mut self, one: Self) -> Result<(), Exhausted> {
        if !one.pieces.is_empty() {
            let separator: &[u8] = if self.pieces.is_empty() { b"[" } else { b"," };
            self.pieces.push_back(Bytes::from_static(separator));
            // What of each was free of charge by itself.
            let free = one.pieces.iter().map(|piece| piece.len().min(Hold::FREE_BYTES)).sum();
            if let Some(hold) = &mut self.batch {
                hold.add(free)?;
            }
            self.pieces.extend(one.pieces);
        }
        Ok(())
    }

    /// The body; `None`: there is nothing to say.
    pub(super) fn into_body(mut self) -> Option<Body> {
        if self.pieces.is_empty() {
            return None;
        }
        if self.batch.is_some() {
            self.pieces.push_back(Bytes::from_static(b"]"));
        }
        let length = self.pieces.iter().map(Bytes::len).fold(0, usize::saturating_add);
        if length <= Pieces::MAX_FRAME {
            let mut whole = BytesMut::with_capacity(length);
            self.pieces.into_iter().for_each(|piece| whole.put(piece));
            return Some(Body::from(whole.freeze()));
        }
        Some(Body::new(Pieces { parts: self.pieces, length, _batch: self.batch }))
    }
}

/// A body that shares its bytes with the cache and with other answers: the connection copies what
/// it is given, so it is given little at a time.
struct Pieces {
    parts: VecDeque<Bytes>,
    length: usize,
    _batch: Option<Hold>,
}

impl Pieces {
    const MAX_FRAME: usize = 16 * 1024;
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.parts.front_mut().map(|piece| {
            let length = piece.len().min(Self::MAX_FRAME);
            piece.split_to(length)
        });
        if self.parts.front().is_some_and(Bytes::is_empty) {
            self.parts.pop_front();
        }
        self.length = self.length.saturating_sub(frame.as_ref().map_or(0, Bytes::len));
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        u64::try_from(self.length).map_or_else(|_| SizeHint::default(), SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn text(delivery: Delivery) -> String {
        let body = delivery.into_body().expect("there is something to say");
        let announced = hyper::body::Body::size_hint(&body).exact();
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!(announced, u64::try_from(bytes.len()).ok());
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn one(id: &str, result: impl Into<Bytes>) -> Delivery {
        Delivery::of(Some(serde_json::from_str(id).unwrap()), "result", result.into())
    }

    #[tokio::test]
    async fn an_answer_is_its_result_with_the_id_around_it() {
        assert_eq!(
            text(one("7", " [1, 2] ")).await,
            r#"{"jsonrpc":"2.0","id":7,"result": [1, 2] }"#
        );
        let mut batch = Delivery::batch(&Memory::new(64 * 1024));
        for delivery in [one("1", "2"), Delivery::default(), one("\"a\"", "null")] {
            batch.append(delivery).unwrap();
        }
        assert_eq!(
            text(batch).await,
            r#"[{"jsonrpc":"2.0","id":1,"result":2},{"jsonrpc":"2.0","id":"a","result":null}]"#
        );
    }

    #[tokio::test]
    async fn a_large_answer_comes_in_small_pieces_and_whole() {
        let result = format!("\"{}\"", "x".repeat(100_000));
        let mut batch = Delivery::batch(&Memory::new(64 * 1024));
        batch.append(one("1", result.clone())).unwrap();
        batch.append(one("2", result.clone())).unwrap();
        let mut body = batch.into_body().unwrap();
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.unwrap().into_data().unwrap();
            assert!((1..=Pieces::MAX_FRAME).contains(&frame.len()));
            whole.extend_from_slice(&frame);
        }
        let expected = format!(
            "[{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}},{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}]"
        );
        assert_eq!(whole, expected.as_bytes());
    }

    #[test]
    fn notifications_have_nothing_to_be_said_about() {
        assert!(Delivery::default().into_body().is_none());
        let mut batch = Delivery::batch(&Memory::new(64 * 1024));
        batch.append(Delivery::default()).unwrap();
        assert!(batch.into_body().is_none());
    }

    #[test]
    fn small_answers_of_a_batch_are_charged_together_until_it_is_delivered() {
        let memory = Memory::new(40 * 1024);
        let mut batch = Delivery::batch(&memory);
        let large = || one("1", "7".repeat(Hold::FREE_BYTES + 1));
        (0..3).for_each(|_| batch.append(large()).unwrap());
        assert_eq!(batch.append(large()), Err(Exhausted));
        drop(batch);
        let memory = Memory::new(8 * 1024);
        let small = || one("1", "7".repeat(8 * 1024));
        let mut batch = Delivery::batch(&memory);
        batch.append(small()).unwrap();
        batch.append(small()).unwrap();
        assert_eq!(batch.append(small()), Err(Exhausted));
        drop(batch);
        let mut batch = Delivery::batch(&memory);
        (0..2).for_each(|_| batch.append(small()).unwrap());
        let body = batch.into_body();
        assert_eq!(memory.hold().add(Hold::FREE_BYTES + 8 * 1024), Err(Exhausted));
        drop(body);
        assert_eq!(memory.hold().add(Hold::FREE_BYTES + 8 * 1024), Ok(()));
    }
}
