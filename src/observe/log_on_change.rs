//! Logs a state only when it changes.

use parking_lot::Mutex;

/// Last logged state: success, or the kind of failure.
#[derive(Debug, Default)]
pub(crate) struct LogOnChange {
    last_outcome: Mutex<Option<Result<(), &'static str>>>,
}

impl LogOnChange {
    /// Records a success. Returns what it is, if it should be logged: `reached` the first time, `recovered` after a failure.
    pub(crate) fn success(&self) -> Option<&'static str> {
        match self.last_outcome.lock().replace(Ok(())) {
            None => Some("reached"),
            Some(Err(_)) => Some("recovered"),
            Some(Ok(())) => None,
        }
    }

    /// Records `outcome`; returns true if it differs from the last one and should be logged.
    pub(crate) fn changed_to(&self, outcome: Result<(), &'static str>) -> bool {
        self.last_outcome.lock().replace(outcome) != Some(outcome)
    }
}
