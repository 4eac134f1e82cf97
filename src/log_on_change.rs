//! Tells the log of what something is like when that changes, not each time it is looked at.

use crossbeam_utils::atomic::AtomicCell;

/// What the log was last told of one thing: that it is well, or the kind of failure.
#[derive(Debug, Default)]
pub(crate) struct LogOnChange {
    last_outcome: AtomicCell<Option<Result<(), &'static str>>>,
}

impl LogOnChange {
    /// Returns true if the log is to be told of `outcome`, which it then counts as having been.
    pub(crate) fn changed_to(&self, outcome: Result<(), &'static str>) -> bool {
        self.last_outcome.swap(Some(outcome)) != Some(outcome)
    }
}
