//! The pause of reads while the plan of a URL is used up, so that the polls have what is left.

use std::time::{Duration, Instant};

/// Pause of reads at one URL after a poll that the node refused with a 429. Pure: instants in, waits out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlanPause {
    /// It ends at the first of these times if a poll has succeeded, else at the second one.
    refused: Option<[Instant; 2]>,
}

impl PlanPause {
    /// Records a poll that the node refused because of its rate limit, and that it wants to be repeated at `retry_at`.
    /// Reads pause until then and until a poll succeeds, or for another minute if the node is not polled.
    pub(crate) fn record_refused_poll(&mut self, retry_at: Instant) {
        self.refused = Some([retry_at, retry_at + Duration::from_mins(1)]);
    }

    /// Records a poll that the node answered.
    pub(crate) fn record_poll(&mut self) {
        self.refused = self.refused.map(|[retry_at, _]| [retry_at; 2]);
    }

    /// Returns the time until reads may be sent; zero if there is no pause.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.refused.map_or(Duration::ZERO, |[_, until]| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pause_after_a_refused_poll_until_a_poll_succeeds() {
        const SECOND: Duration = Duration::from_secs(1);
        let (mut pause, now) = (PlanPause::default(), Instant::now());
        pause.record_refused_poll(now + 10 * SECOND);
        assert_eq!(pause.left(now + 20 * SECOND), 50 * SECOND);
        assert_eq!(pause.left(now + 70 * SECOND), Duration::ZERO);
        pause.record_refused_poll(now + 80 * SECOND);
        pause.record_poll();
        assert_eq!(pause.left(now + 75 * SECOND), 5 * SECOND);
        assert_eq!(pause.left(now + 81 * SECOND), Duration::ZERO);
    }
}
