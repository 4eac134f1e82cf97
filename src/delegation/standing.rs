//! Whether the API is worth waiting for, where somebody else can answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What became of the last requests. An API that let one wait in vain is left alone for a while; then one
/// request finds out whether it is back, while the others do not wait.
#[derive(Debug)]
pub(super) struct Standing {
    /// `None`: it answers.
    silent_until: Mutex<Option<Instant>>,
    timeout: Duration,
}

impl Standing {
    const PAUSE: Duration = Duration::from_secs(10);

    /// Of an API that has this long to answer.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { silent_until: Mutex::new(None), timeout }
    }

    /// Whether a request may wait for it.
    pub(super) fn is_worth_waiting_for(&self, now: Instant) -> bool {
        let mut silent_until = self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        match *silent_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                *silent_until = Some(now + self.timeout);
                true
            }
        }
    }

    /// It did not answer in time.
    pub(super) fn was_silent(&self, now: Instant) {
        self.set(Some(now + Self::PAUSE));
    }

    /// Nothing was asked after all; somebody else may.
    pub(super) fn was_not_asked(&self, now: Instant) {
        let mut silent_until = self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        *silent_until = silent_until.map(|_| now);
    }

    /// Something came of asking it.
    pub(super) fn has_answered(&self) {
        self.set(None);
    }

    fn set(&self, silent_until: Option<Instant>) {
        *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner) = silent_until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_silence_one_request_at_a_time_finds_out_whether_it_is_over() {
        let timeout = Duration::from_secs(5);
        let standing = Standing::new(timeout);
        let now = Instant::now();
        assert!(standing.is_worth_waiting_for(now) && standing.is_worth_waiting_for(now));
        standing.was_silent(now);
        let almost = now + Standing::PAUSE.saturating_sub(Duration::from_nanos(1));
        assert!(!standing.is_worth_waiting_for(almost));
        let later = now + Standing::PAUSE;
        assert!(standing.is_worth_waiting_for(later));
        assert!(!standing.is_worth_waiting_for(later));
        // Whoever was to find out is gone.
        assert!(standing.is_worth_waiting_for(later + timeout));
        standing.was_not_asked(later);
        assert!(standing.is_worth_waiting_for(later) && !standing.is_worth_waiting_for(later));
        standing.has_answered();
        standing.was_not_asked(later);
        assert!(standing.is_worth_waiting_for(later) && standing.is_worth_waiting_for(later));
    }
}
