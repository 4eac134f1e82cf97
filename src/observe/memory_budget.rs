//! Budget of the bytes that clients make the service hold: bodies of requests and responses, what the buffers of a
//! connection have grown by, streams and cached responses.
//!
//! The first 2 KiB of each body are not charged, so small bodies pass when the budget is exhausted. The memory of the
//! connections, which `memory_limit` sets aside, covers them.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A budget of bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    semaphore: Arc<Semaphore>,
    total: usize,
}

/// Bytes that one holder has reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// Bytes reserved in total.
    total: usize,
    charged: OwnedSemaphorePermit,
}

/// Error: the budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget for clients is exhausted")]
pub struct MemoryExhausted;

impl MemoryBudget {
    /// Creates a budget of `bytes`.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let total = bytes.min(Semaphore::MAX_PERMITS);
        Self { semaphore: Arc::new(Semaphore::new(total)), total }
    }

    /// Size of the whole budget in bytes.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns true if less than half of the budget is left.
    pub(crate) fn is_scarce(&self) -> bool {
        self.semaphore.available_permits() < self.total / 2
    }

    /// Reserves `count` bytes, of which every one is charged.
    pub(crate) fn try_charge(&self, count: usize) -> Result<Reservation, MemoryExhausted> {
        let mut reservation = self.reservation();
        reservation.total = Reservation::FREE_BYTES;
        reservation.try_grow(count)?;
        Ok(reservation)
    }

    /// Charges the bytes of a body that is complete, until their last slice is dropped.
    pub(crate) fn try_hold(&self, mut bytes: Vec<u8>) -> Result<Bytes, MemoryExhausted> {
        let mut reservation = self.reservation();
        bytes.shrink_to_fit();
        reservation.try_grow(bytes.len())?;
        Ok(reservation.into_bytes(bytes))
    }

    /// Creates an empty reservation.
    pub(crate) fn reservation(&self) -> Reservation {
        let charged = Arc::clone(&self.semaphore).try_acquire_many_owned(0);
        Reservation { total: 0, charged: charged.expect("no bytes are always left") }
    }
}

impl Reservation {
    /// Bytes of each reservation that are not charged.
    pub(crate) const FREE_BYTES: usize = 2 * 1024;

    /// Reserves `count` more bytes, all or none.
    pub(crate) fn try_grow(&mut self, count: usize) -> Result<(), MemoryExhausted> {
        let total = self.total.saturating_add(count);
        let additional = Self::charged_bytes(total) - Self::charged_bytes(self.total);
        let additional = u32::try_from(additional).map_err(|_| MemoryExhausted)?;
        let semaphore = Arc::clone(self.charged.semaphore());
        let charged = semaphore.try_acquire_many_owned(additional);
        self.charged.merge(charged.map_err(|_| MemoryExhausted)?);
        self.total = total;
        Ok(())
    }

    /// Releases what exceeds `total` bytes.
    fn shrink_to(&mut self, total: usize) {
        let kept = Self::charged_bytes(total);
        drop(self.charged.split(self.charged.num_permits().saturating_sub(kept)));
        self.total = self.total.min(total);
    }

    fn charged_bytes(total: usize) -> usize {
        total.saturating_sub(Self::FREE_BYTES)
    }

    /// Wraps `bytes` so that the reservation is released when their last slice is dropped.
    pub(crate) fn into_bytes(self, bytes: Vec<u8>) -> Bytes {
        if self.charged.num_permits() == 0 {
            return bytes.into();
        }
        Bytes::from_owner(ReservedBytes { bytes, _reservation: self })
    }
}

/// A body that is being read. Its capacity is charged, not only its length.
#[derive(Debug)]
pub(crate) struct ReservedBuffer {
    bytes: Vec<u8>,
    max_bytes: usize,
    reservation: Reservation,
}

impl ReservedBuffer {
    /// Creates an empty buffer for up to `max_bytes` bytes.
    pub(crate) fn new(max_bytes: usize, memory: &MemoryBudget) -> Self {
        Self { bytes: Vec::new(), max_bytes, reservation: memory.reservation() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends `chunk`. The caller checks the length.
    pub(crate) fn try_extend(&mut self, chunk: &[u8]) -> Result<(), MemoryExhausted> {
        let needed = self.bytes.len().saturating_add(chunk.len());
        let capacity = self.bytes.capacity();
        if needed > capacity {
            let doubled = capacity.saturating_mul(2).min(self.max_bytes).max(needed);
            self.reservation.try_grow(doubled.saturating_sub(capacity))?;
            self.bytes.reserve_exact(doubled.saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Returns the body, which is charged until its last slice is dropped.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        self.reservation.shrink_to(self.bytes.len());
        self.reservation.into_bytes(self.bytes)
    }
}

struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: usize = Reservation::FREE_BYTES;

    #[test]
    fn reserved_bytes_are_released_when_the_last_slice_is_dropped() {
        let budget = MemoryBudget::new(10);
        let mut reservation = budget.reservation();
        reservation.try_grow(FREE + 4).unwrap();
        reservation.try_grow(6).unwrap();
        assert_eq!(reservation.try_grow(1), Err(MemoryExhausted));
        assert_eq!(reservation.try_grow(usize::MAX), Err(MemoryExhausted));
        assert_eq!(budget.reservation().try_grow(FREE), Ok(()));
        assert_eq!(budget.reservation().try_grow(FREE + 1), Err(MemoryExhausted));
        let part = reservation.into_bytes(vec![7; 10]).slice(2..3);
        assert_eq!(budget.reservation().try_grow(FREE + 1), Err(MemoryExhausted));
        drop(part);
        let mut reservation = budget.reservation();
        reservation.try_grow(FREE + 10).unwrap();
        drop(reservation);
        assert_eq!(budget.reservation().try_grow(FREE + 10), Ok(()));
    }

    #[test]
    fn buffer_is_charged_for_its_capacity_while_it_grows() {
        let budget = MemoryBudget::new(4 * FREE);
        let mut buffer = ReservedBuffer::new(8 * FREE, &budget);
        buffer.try_extend(&vec![1; 2 * FREE]).unwrap();
        assert_eq!(budget.semaphore.available_permits(), 3 * FREE);
        buffer.try_extend(&[2]).unwrap();
        assert_eq!(budget.semaphore.available_permits(), FREE);
        assert_eq!(buffer.try_extend(&vec![3; 2 * FREE]), Err(MemoryExhausted));
        let body = buffer.into_bytes();
        assert_eq!(
            (body.len(), budget.semaphore.available_permits()),
            (2 * FREE + 1, 3 * FREE - 1)
        );
        drop(body);
        assert_eq!(budget.semaphore.available_permits(), 4 * FREE);
        let mut buffer = ReservedBuffer::new(3 * FREE, &budget);
        (0..3).for_each(|_| buffer.try_extend(&vec![1; FREE]).unwrap());
        assert_eq!(budget.semaphore.available_permits(), 2 * FREE);
    }
}
