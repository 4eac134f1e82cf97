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

/// States that several processes enter. One of them learns that it is the first.
#[async_trait]
pub trait SharedStates: Debug + Send + Sync {
    /// Enters `state` of what `name` names, as of this block. Returns true if no other process was there first; the same
    /// state counts again after `repeat`. `None`: there is no answer.
    async fn enter(&self, name: &str, state: &str, block: u64, repeat: Duration) -> Option<bool>;
}
