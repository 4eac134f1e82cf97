//! Logs a state only when it changes.

use std::sync::{Mutex, PoisonError};

/// Last logged state: success, or the kind of failure.
#[derive(Debug, Default)]
pub(crate) struct LogOnChange {
    last_outcome: Mutex<Option<Result<(), &'static str>>>,
}

impl LogOnChange {
    /// Records `outcome`; returns true if it differs from the last one and should be logged.
    pub(crate) fn changed_to(&self, outcome: Result<(), &'static str>) -> bool {
        let mut last_outcome = self.last_outcome.lock().unwrap_or_else(PoisonError::into_inner);
        last_outcome.replace(outcome) != Some(outcome)
    }
}
