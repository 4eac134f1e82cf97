//! How many bytes requests and answers may hold together, whatever their number.
//!
//! The beginning of each is free, so that those who hold large ones leave room for small ones: what
//! that comes to is bounded by the number of connections.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An account of bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    bytes: Arc<Semaphore>,
}

/// What one request or answer holds, until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    memory: Memory,
    /// What it has had in all.
    total: usize,
    charged: Option<OwnedSemaphorePermit>,
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

    /// Holds nothing yet.
    pub(crate) fn hold(&self) -> Hold {
        Hold { memory: self.clone(), total: 0, charged: None }
    }
}

impl Hold {
    /// The beginning of each that is not charged.
    pub(crate) const FREE_BYTES: usize = 16 * 1024;

    /// Takes `count` bytes more, at once or not at all.
    pub(crate) fn add(&mut self, count: usize) -> Result<(), Exhausted> {
        let total = self.total.saturating_add(count);
        let charged = |total: usize| total.saturating_sub(Self::FREE_BYTES);
        let more = charged(total).saturating_sub(charged(self.total));
        if more > 0 {
            let more = u32::try_from(more).map_err(|_| Exhausted)?;
            let account = Arc::clone(&self.memory.bytes);
            let permit = account.try_acquire_many_owned(more).map_err(|_| Exhausted)?;
            match &mut self.charged {
                Some(charged) => charged.merge(permit),
                None => self.charged = Some(permit),
            }
        }
        self.total = total;
        Ok(())
    }

    /// `bytes` that are held until the last part of them is gone.
    pub(crate) fn over(self, bytes: Vec<u8>) -> Bytes {
        if self.charged.is_none() {
            return bytes.into();
        }
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

    const FREE: usize = Hold::FREE_BYTES;

    #[test]
    fn what_is_held_is_given_back_when_the_last_part_of_it_is_gone() {
        let memory = Memory::new(10);
        let mut hold = memory.hold();
        hold.add(FREE + 4).unwrap();
        hold.add(6).unwrap();
        assert_eq!(hold.add(1), Err(Exhausted));
        assert_eq!(hold.add(usize::MAX), Err(Exhausted));
        assert_eq!(memory.hold().add(FREE + 1), Err(Exhausted));
        let part = hold.over(vec![7; 10]).slice(2..3);
        assert_eq!(memory.hold().add(FREE + 1), Err(Exhausted));
        drop(part);
        let mut hold = memory.hold();
        hold.add(FREE + 10).unwrap();
        drop(hold);
        assert_eq!(memory.hold().add(FREE + 10), Ok(()));
    }

    #[test]
    fn small_ones_have_room_when_all_is_taken() {
        let memory = Memory::new(0);
        let mut hold = memory.hold();
        assert_eq!(hold.add(FREE), Ok(()));
        assert_eq!(hold.add(1), Err(Exhausted));
        assert_eq!(hold.over(vec![1, 2]), vec![1, 2]);
    }
}
