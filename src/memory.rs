//! How many bytes requests and answers may hold together, whatever their number.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An account of bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    bytes: Arc<Semaphore>,
}

/// Bytes that are taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    permit: OwnedSemaphorePermit,
}

/// All bytes of the account are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory is left for requests and answers")]
pub struct Exhausted;

impl Memory {
    /// An account of `bytes`, none of them taken.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))) }
    }

    /// Takes `count` bytes at once or not at all.
    pub(crate) fn take(&self, count: usize) -> Result<Hold, Exhausted> {
        let count = u32::try_from(count).map_err(|_| Exhausted)?;
        let permit = Arc::clone(&self.bytes).try_acquire_many_owned(count);
        permit.map(|permit| Hold { permit }).map_err(|_| Exhausted)
    }
}

impl Hold {
    /// Holds what `other` holds as well, of the same account.
    pub(crate) fn add(&mut self, other: Self) {
        self.permit.merge(other.permit);
    }

    /// `bytes` that are held until the last part of them is gone.
    pub(crate) fn over(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held { bytes, _hold: self })
    }
}

struct Held {
    bytes: Vec<u8>,
    _hold: Hold,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back_when_it_is_dropped() {
        let memory = Memory::new(10);
        let mut hold = memory.take(4).unwrap();
        hold.add(memory.take(6).unwrap());
        assert!(memory.take(1).is_err());
        assert!(memory.take(0).is_ok());
        drop(hold);
        assert!(memory.take(11).is_err());
        let part = memory.take(10).unwrap().over(vec![7; 10]).slice(2..3);
        assert!(memory.take(1).is_err());
        drop(part);
        assert!(memory.take(usize::MAX).is_err());
        assert!(memory.take(10).is_ok());
    }
}
