//! The score of base fees that were said to hold for a time: those of `hold` on `/fees` and `/cost`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::totals::Outcomes;
use crate::api::hold::Hold;
use crate::fees::{BaseFeeStep, Target};
use crate::store::Publication;

/// Seconds for which a base fee is said to hold.
pub(super) const TIMES: [u64; 3] = [15, 30, 60];

/// Shares of cases in which it should.
pub(super) const SHARES: [f64; 3] = [0.95, 0.99, 0.999];

/// Promises of one chain. A promise is made each 5 s, or at each longer block, so that their number is bounded.
#[derive(Debug, Default)]
pub(super) struct HoldRecord {
    newest_block: u64,
    last_made_at: Option<Instant>,
    /// In the order of [`TIMES`].
    times: [TimeRecord; TIMES.len()],
}

/// Promises for one time.
#[derive(Debug, Default)]
struct TimeRecord {
    /// Oldest first.
    open: VecDeque<Promise>,
    /// Broken and kept promises since the start, in the order of [`SHARES`].
    totals: [Outcomes; SHARES.len()],
}

/// Base fees in wei that a head promises.
#[derive(Debug)]
struct Promise {
    made_at: Instant,
    head: u64,
    /// In the order of [`SHARES`].
    bounds: [u128; SHARES.len()],
    /// Highest base fee after the head so far.
    highest: u128,
}

impl HoldRecord {
    /// Judges the promises whose time is over, and makes new ones. Blocks are dated back from the newest one; those after the
    /// time do not count. After a gap, or a reorganisation of their head, promises are forgotten.
    pub(super) fn record(&mut self, publication: &Publication<'_>, now: Instant) {
        let Publication { history, snapshot, .. } = *publication;
        let newest = history.newest_block();
        let is_gap = history.oldest_block() > self.newest_block.saturating_add(1);
        self.newest_block = newest;
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_due = self.last_made_at.is_none_or(|at| age(at) >= BaseFeeStep::TIME);
        if is_due {
            self.last_made_at = Some(now);
        }
        for (seconds, record) in TIMES.into_iter().zip(&mut self.times) {
            let time = Duration::from_secs(seconds);
            record.open.retain(|promise| !is_gap && promise.head <= newest);
            for (number, block) in (history.oldest_block()..).zip(history.blocks()) {
                let later = u32::try_from(newest.saturating_sub(number)).unwrap_or(u32::MAX);
                let block_age = snapshot.block_time.saturating_mul(later);
                let counts = |it: &&mut Promise| {
                    it.head < number && age(it.made_at).saturating_sub(block_age) <= time
                };
                for promise in record.open.iter_mut().filter(counts) {
                    promise.highest = promise.highest.max(block.base_fee);
                }
            }
            while let Some(promise) = record.open.pop_front_if(|it| age(it.made_at) > time) {
                record.count(&promise);
            }
            if is_due && let Some(bounds) = bounds(time, publication) {
                record.open.push_back(Promise { made_at: now, head: newest, bounds, highest: 0 });
            }
        }
    }

    /// Returns time, share, and the counts of broken and kept promises, of each kind.
    pub(super) fn totals(&self) -> impl Iterator<Item = (u64, f64, Outcomes)> {
        TIMES.into_iter().zip(&self.times).flat_map(|(seconds, record)| {
            SHARES.into_iter().zip(record.totals).map(move |(share, it)| (seconds, share, it))
        })
    }
}

impl TimeRecord {
    fn count(&mut self, promise: &Promise) {
        for ([broken, kept], bound) in self.totals.iter_mut().zip(promise.bounds) {
            let count = if promise.highest <= bound { kept } else { broken };
            *count = count.saturating_add(1);
        }
    }
}

/// Returns the base fee that holds for `time` in each share; `None`: pricing is legacy.
fn bounds(time: Duration, publication: &Publication<'_>) -> Option<[u128; SHARES.len()]> {
    let mut bounds = [0; SHARES.len()];
    for (bound, share) in bounds.iter_mut().zip(SHARES) {
        let hold = Hold { time, share: Target::new(share)? };
        *bound =
            hold.base_fee(publication.chain, publication.snapshot, publication.blocks)?.base_fee;
    }
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::tests::{GWEI, history_of};
    use crate::store::Accepted;
    use crate::store::tests::{reply, store_with_chain};

    #[test]
    fn a_promise_is_kept_unless_a_block_within_its_time_has_more() {
        let (_, chain, mut publisher) = store_with_chain("block_time = \"6s\"");
        let (mut record, start) = (HoldRecord::default(), Instant::now());
        let mut play = |number, base_fees: &[u128], second| {
            let newest = base_fees.last().copied().unwrap();
            let (_, market) = reply(&chain.config().pricing, number, newest);
            let oldest = number + 1 - u64::try_from(base_fees.len()).unwrap();
            let history = history_of(oldest, base_fees, None);
            publisher.publish(Accepted::now(&history, market));
            let (snapshot, history) = (&chain.newest_snapshot().unwrap(), &history);
            chain.read_together(|blocks| {
                let publication = Publication { chain: chain.config(), snapshot, history, blocks };
                record.record(&publication, start + Duration::from_secs(second));
            });
            // Those at 95 %.
            record.totals().step_by(3).map(|(_, _, counts)| counts).collect::<Vec<_>>()
        };
        // Full blocks raise 100 gwei to 143 in 15 s, 181 in 30 s, and at most 200.
        play(10, &[100 * GWEI], 0);
        // Too soon for a promise of its own.
        play(11, &[100 * GWEI], 3);
        assert_eq!(play(12, &[160 * GWEI], 15), [[0, 0]; 3]);
        // The block of second 16 is too late for the first of them.
        assert_eq!(play(13, &[190 * GWEI], 16), [[1, 0], [0, 0], [0, 0]]);
        assert_eq!(play(14, &[90 * GWEI], 31), [[1, 1], [1, 0], [0, 0]]);
        let counts = play(15, &[90 * GWEI], 61);
        assert_eq!(counts, [[1, 2], [1, 1], [0, 1]]);
        // A late poll brings blocks of seconds 71 to 95. The dear one, of second 89, is within 30 s of second 61.
        let counts = play(20, &[90, 90, 90, 400, 90].map(|gwei| gwei * GWEI), 95);
        assert_eq!(counts, [[1, 3], [2, 2], [1, 2]]);
        // After a gap nothing is judged.
        assert_eq!(play(22, &[90 * GWEI], 300), counts);
    }
}
