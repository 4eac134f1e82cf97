//! Writes JSON-RPC responses around results, which stay byte for byte those of the node.

use std::collections::VecDeque;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use super::request::RpcError;
use crate::http::chunked_body::ChunkedBody;
use crate::observe::memory_budget::{MemoryBudget, MemoryExhausted, Reservation};

/// Parts of a response or of a batch of responses.
#[derive(Debug, Default)]
pub(crate) struct RpcResponseBuilder {
    chunks: VecDeque<Bytes>,
    /// Only for a batch: the uncharged first bytes of each response add up, so the batch charges them.
    batch_reservation: Option<Reservation>,
}

/// Returns a response up to the value of the member `member_name`.
fn envelope_start(id: Option<&RawValue>, member_name: &str) -> String {
    let id = id.map_or("null", RawValue::get);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member_name}\":")
}

impl RpcResponseBuilder {
    /// Starts a batch. Responses that are not charged yet are charged to `memory`.
    pub(crate) fn for_batch(memory: &MemoryBudget) -> Self {
        Self { chunks: VecDeque::new(), batch_reservation: Some(memory.reservation()) }
    }

    /// Builds the response to the call `id`, with the member `member_name` and its `value`. `None`: the call has no
    /// readable id.
    pub(crate) fn for_call(id: Option<&RawValue>, member_name: &str, value: Bytes) -> Self {
        let prefix = envelope_start(id, member_name);
        let chunks = [Bytes::from(prefix), value, Bytes::from_static(b"}")];
        Self { chunks: chunks.into(), batch_reservation: None }
    }

    pub(crate) fn from_error(id: Option<&RawValue>, error: &RpcError) -> Self {
        let error = serde_json::to_vec(error).expect("a number and a text serialise");
        Self::for_call(id, "error", error.into())
    }

    /// Builds a batch in which each of `ids` gets `error`, in one piece: there can be thousands.
    ///
    /// # Errors
    ///
    /// Fails if the memory budget is exhausted.
    pub(crate) fn for_rejected_batch(
        ids: &[&RawValue],
        error: &RpcError,
        memory: &MemoryBudget,
    ) -> Result<Self, MemoryExhausted> {
        let error = serde_json::to_string(error).expect("a number and a text serialise");
        let mut json = String::new();
        for id in ids {
            json.push(if json.is_empty() { '[' } else { ',' });
            json.push_str(&envelope_start(Some(id), "error"));
            json.push_str(&error);
            json.push('}');
        }
        json.push(']');
        let mut reservation = memory.reservation();
        json.shrink_to_fit();
        reservation.try_grow(json.len())?;
        let chunks = [reservation.into_bytes(json.into_bytes())].into();
        Ok(Self { chunks, batch_reservation: None })
    }

    /// Appends one response to a batch.
    ///
    /// # Errors
    ///
    /// Fails if the memory budget is exhausted.
    pub(crate) fn append(&mut self, response: Self) -> Result<(), MemoryExhausted> {
        if !response.chunks.is_empty() {
            let separator: &[u8] = if self.chunks.is_empty() { b"[" } else { b"," };
            self.chunks.push_back(Bytes::from_static(separator));
            // Bytes that the response alone did not have to charge.
            let uncharged_bytes =
                response.chunks.iter().map(|piece| piece.len().min(Reservation::FREE_BYTES)).sum();
            if let Some(reservation) = &mut self.batch_reservation {
                reservation.try_grow(uncharged_bytes)?;
            }
            self.chunks.extend(response.chunks);
        }
        Ok(())
    }

    /// Returns the bytes of the response, of a batch without its brackets.
    pub(crate) fn size(&self) -> usize {
        self.chunks.iter().map(Bytes::len).fold(0, usize::saturating_add)
    }

    /// Returns the body. `None`: there is nothing to send.
    pub(crate) fn into_body(mut self) -> Option<Body> {
        if self.chunks.is_empty() {
            return None;
        }
        if self.batch_reservation.is_some() {
            self.chunks.push_back(Bytes::from_static(b"]"));
        }
        let length = self.size();
        if length <= Reservation::FREE_BYTES {
            let mut buffer = BytesMut::with_capacity(length);
            self.chunks.into_iter().for_each(|piece| buffer.put(piece));
            return Some(Body::from(buffer.freeze()));
        }
        Some(Body::new(ChunkedBody::new(self.chunks, self.batch_reservation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_response(id: &str, result: impl Into<Bytes>) -> RpcResponseBuilder {
        RpcResponseBuilder::for_call(
            Some(serde_json::from_str(id).unwrap()),
            "result",
            result.into(),
        )
    }

    #[test]
    fn batch_memory_is_reserved_until_the_body_is_dropped() {
        let memory = MemoryBudget::new(Reservation::FREE_BYTES * 5 / 2);
        let mut batch = RpcResponseBuilder::for_batch(&memory);
        let large = || result_response("1", "7".repeat(Reservation::FREE_BYTES + 1));
        (0..3).for_each(|_| batch.append(large()).unwrap());
        assert_eq!(batch.append(large()), Err(MemoryExhausted));
        drop(batch);
        let memory = MemoryBudget::new(Reservation::FREE_BYTES / 2);
        let small = || result_response("1", "7".repeat(Reservation::FREE_BYTES / 2));
        let mut batch = RpcResponseBuilder::for_batch(&memory);
        batch.append(small()).unwrap();
        batch.append(small()).unwrap();
        assert_eq!(batch.append(small()), Err(MemoryExhausted));
        drop(batch);
        let mut batch = RpcResponseBuilder::for_batch(&memory);
        (0..2).for_each(|_| batch.append(small()).unwrap());
        let body = batch.into_body();
        assert_eq!(
            memory.reservation().try_grow(Reservation::FREE_BYTES * 3 / 2),
            Err(MemoryExhausted)
        );
        drop(body);
        assert_eq!(memory.reservation().try_grow(Reservation::FREE_BYTES * 3 / 2), Ok(()));

        let error = RpcError::batch_too_long(100, 200);
        let id: &RawValue = serde_json::from_str("1").unwrap();
        let reject = |count| {
            RpcResponseBuilder::for_rejected_batch(&vec![id; count], &error, &memory).map(|_| ())
        };
        assert_eq!(reject(20), Ok(()));
        assert_eq!(reject(30), Err(MemoryExhausted));
    }
}
