//! Traits of the values that extras offer each other.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// States that several processes enter. One of them learns that it is the first.
#[async_trait]
pub trait SharedStates: Debug + Send + Sync {
    /// Enters `state` of what `name` names, as of this block. Returns true if no other process was there first; the same
    /// state counts again after `repeat`. `None`: there is no answer.
    async fn enter(&self, name: &str, state: &str, block: u64, repeat: Duration) -> Option<bool>;
}
