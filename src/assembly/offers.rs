//! Values that extras hand to each other.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::fees::Tier;
use crate::store::StoredChain;

/// Returns fees that the next block of a chain includes, with their probabilities in percent, ascending; `None`: too few blocks
/// are known. They belong to the newest publication; nothing must be published meanwhile.
pub(crate) type NextBlockFees = Arc<dyn Fn(&StoredChain) -> Option<Vec<(u8, Tier)>> + Send + Sync>;

/// States that several processes share, or that outlive one.
#[async_trait]
pub trait SharedStates: Debug + Send + Sync {
    /// Replaces the entry of what `name` names by one with the state `new`, if it is still `known`; "": there is none yet.
    /// An empty `new` replaces nothing. `None`: there is no answer. Dropping the future may or may not replace it.
    async fn replace(&self, name: &str, known: &str, new: &str) -> Option<SharedState>;
}

/// Entry of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedState {
    /// The whole entry: its time in milliseconds since 1970 by the clock of the store, a space, and the state. "": there is
    /// none.
    pub entry: String,
    /// True if it was entered by this call.
    pub is_own: bool,
    /// Time since it was entered. A time in the future is from before the clock was put back, and counts as long ago.
    pub age: Duration,
}

impl SharedState {
    /// Time for which an entry is kept.
    pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

    /// Creates the answer of a store whose clock reads `now`, in milliseconds since 1970.
    #[must_use]
    pub fn new(entry: String, is_own: bool, now: u64) -> Self {
        let time = entry.split(' ').next().and_then(|time| time.parse().ok());
        let age = time.and_then(|time| now.checked_sub(time)).map(Duration::from_millis);
        Self { entry, is_own, age: age.unwrap_or(Duration::MAX) }
    }

    /// The state; "": there is none.
    #[must_use]
    pub fn state(&self) -> &str {
        self.entry.split_once(' ').map_or("", |(_, state)| state)
    }
}
