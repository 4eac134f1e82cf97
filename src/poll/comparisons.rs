//! Comparisons of the upstream in use with another one, now and then. The upstream in use is believed as long as its
//! replies are plausible, so a node that moves prices in small steps is noticed by this alone.
//!
//! [`Comparisons`] is pure: instants and results in, decisions out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Poller;
use crate::fees::{FeeHistory, plausibility};
use crate::nodes::Error;
use crate::nodes::circuit_breaker::Availability;
use crate::observe::clock;

/// Two upstreams, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) in_use: usize,
    pub(crate) other: usize,
}

/// When upstreams are compared, and which ones disagree.
#[derive(Debug)]
pub(crate) struct Comparisons {
    /// When the last comparison began.
    last_at: Instant,
    /// Polls since then.
    polls: u32,
    /// Upstream that was compared last.
    last_other: usize,
    /// Comparisons in a row in which two upstreams disagreed, lower index first.
    disagreements: BTreeMap<[usize; 2], u32>,
}

impl Comparisons {
    /// Polls between two comparisons, as between two checks of records of other processes.
    pub(crate) const POLL_INTERVAL: u32 = 32;
    /// Least time between two comparisons.
    const MIN_INTERVAL: Duration = Duration::from_mins(1);
    /// Comparisons in a row after which a disagreement is a lasting one: a reorganisation is over by then.
    const LASTING: u32 = 3;

    /// Creates the state of a chain that was not polled yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last_at: now, polls: 0, last_other: 0, disagreements: BTreeMap::new() }
    }

    /// Records a poll whose reply was published, and returns true if a comparison is due at `now`.
    pub(crate) fn record_poll(&mut self, now: Instant) -> bool {
        self.polls = self.polls.saturating_add(1);
        self.polls >= Self::POLL_INTERVAL
            && now.saturating_duration_since(self.last_at) >= Self::MIN_INTERVAL
    }

    /// Begins a comparison at `now` with one of the `others`, each in its turn. `None`: there is none.
    pub(crate) fn begin(&mut self, others: &[usize], now: Instant) -> Option<usize> {
        let next = others.iter().copied().find(|other| *other > self.last_other);
        let other = next.or_else(|| others.first().copied())?;
        (self.last_other, self.polls, self.last_at) = (other, 0, now);
        Some(other)
    }

    /// Records the result of a comparison.
    pub(crate) fn record(&mut self, pair: Pair, agrees: bool) {
        let key = [pair.in_use.min(pair.other), pair.in_use.max(pair.other)];
        if agrees {
            self.disagreements.remove(&key);
        } else {
            let count = self.disagreements.entry(key).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Returns true while two upstreams disagree lastingly.
    pub(crate) fn has_disagreement(&self) -> bool {
        self.disagreements.values().any(|count| *count >= Self::LASTING)
    }
}

impl Poller {
    /// Starts to compare the reply that was just published with that of another upstream, if that is due. With
    /// `agreement` each poll compares.
    pub(super) fn compare_if_due(&mut self, published: &FeeHistory) {
        if self.chain.agreement.get() > 1 {
            return;
        }
        let now = clock::now();
        let is_due = self.comparisons.record_poll(now);
        let Some(in_use) = self.judge.source().filter(|_| is_due && self.comparison.is_empty())
        else {
            return;
        };
        let others = self.upstreams.polled().iter().enumerate().filter(|(index, upstream)| {
            *index != in_use && upstream.availability(now) != Availability::Excluded
        });
        let others: Vec<_> = others.map(|(index, _)| index).collect();
        let Some(other) = self.comparisons.begin(&others, now) else { return };
        let (pair, published) = (Pair { in_use, other }, published.clone());
        let request = self.request.clone();
        let upstreams = Arc::clone(&self.upstreams);
        let deadline = upstreams.attempt_deadline();
        self.comparison.spawn(async move {
            let Some(node) = upstreams.polled().get(other) else { return (pair, None) };
            match node.fee_history(&request, deadline).await {
                Ok(history) => (pair, plausibility::agree(&published, &history, [0, 0])),
                Err(error) => {
                    // Polls decide about other failures: the reply was not needed.
                    if matches!(error, Error::RateLimited(_)) {
                        node.record_failure(&error);
                    }
                    (pair, None)
                }
            }
        });
    }

    /// Records the result of the last comparison, if it has ended.
    pub(super) fn finish_comparison(&mut self) {
        while let Some(ended) = self.comparison.try_join_next() {
            let Ok((pair, agrees)) = ended else { continue };
            if let Some(agrees) = agrees {
                self.comparisons.record(pair, agrees);
            }
            let has_disagreement = self.comparisons.has_disagreement();
            self.reporter.record_comparison(pair, agrees, has_disagreement);
            self.doubts.set_disagreement(has_disagreement);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_due_after_32_polls_and_a_minute() {
        let start = Instant::now();
        for (block_time, due_at) in [(2, 64), (12, 384), (1, 60)] {
            let mut comparisons = Comparisons::new(start);
            for round in 1..=3 {
                let from = start + Duration::from_secs((round - 1) * due_at);
                let mut polls = (1..).map(|poll| from + Duration::from_secs(poll * block_time));
                let due = polls.find(|now| comparisons.record_poll(*now)).unwrap();
                assert_eq!(due, start + Duration::from_secs(round * due_at), "{block_time}");
                comparisons.begin(&[1], due);
            }
        }
    }

    #[test]
    fn the_others_are_compared_in_turn() {
        let now = Instant::now();
        let mut comparisons = Comparisons::new(now);
        let mut begin = |others: &[usize]| comparisons.begin(others, now);
        assert_eq!(
            [begin(&[1, 2, 3]), begin(&[1, 2, 3]), begin(&[1, 3])],
            [Some(1), Some(2), Some(3)]
        );
        // The upstream in use has changed.
        assert_eq!([begin(&[0, 2]), begin(&[0, 2]), begin(&[])], [Some(0), Some(2), None]);
    }

    #[test]
    fn three_disagreements_in_a_row_last_until_the_upstreams_agree() {
        let mut comparisons = Comparisons::new(Instant::now());
        let (pair, switched) = (Pair { in_use: 0, other: 1 }, Pair { in_use: 1, other: 0 });
        let third = Pair { in_use: 0, other: 2 };
        for (pair, agrees, is_lasting) in [
            (pair, false, false),
            (pair, false, false),
            (pair, true, false),
            (pair, false, false),
            (third, true, false),
            (pair, false, false),
            (pair, false, true),
            (switched, false, true),
            (third, true, true),
            (switched, true, false),
            (pair, true, false),
        ] {
            comparisons.record(pair, agrees);
            assert_eq!(comparisons.has_disagreement(), is_lasting);
        }
    }
}
