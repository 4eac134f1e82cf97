//! Tells the log of what something is like when that changes, not each time it is looked at.

use crossbeam_utils::atomic::AtomicCell;

/// What the log was last told of one thing: that it is well, or the kind of failure.
#[derive(Debug, Default)]
pub(crate) struct News {
    told: AtomicCell<Option<Result<(), &'static str>>>,
}

impl News {
    /// Whether the log is to be told of `outcome`, which it then counts as having been.
    pub(crate) fn is(&self, outcome: Result<(), &'static str>) -> bool {
        self.told.swap(Some(outcome)) != Some(outcome)
    }
}
