//! Base fees of the last hour in steps of 5 s, for chains with shorter block times.

use std::collections::VecDeque;
use std::time::Duration;

use crate::fees::BaseFeeStep;

/// Steps without gaps, which begin at multiples of [`BaseFeeStep::TIME`] since 1970.
#[derive(Debug, Default)]
pub(super) struct BaseFeeSteps {
    steps: VecDeque<BaseFeeStep>,
    /// Number of steps since 1970 up to the last one.
    newest: u64,
    oldest_block: u64,
    newest_block: u64,
}

impl BaseFeeSteps {
    /// Steps of an hour.
    const MAX: usize = 720;

    /// Adds the steps up to the block `newest`, the last of those with these base fees, which was seen so many milliseconds
    /// after 1970. Blocks before it are dated back by `block_time`.
    pub(super) fn update(
        &mut self,
        base_fees: impl ExactSizeIterator<Item = u128>,
        newest: u64,
        seen_at: u64,
        block_time: Duration,
    ) {
        let age = |blocks_before: u64| u128::from(blocks_before) * block_time.as_millis();
        let remembered = u64::try_from(base_fees.len()).unwrap_or(u64::MAX);
        let oldest = newest.saturating_add(1).saturating_sub(remembered);
        // At the start, and when a reading has brought older blocks, all that are remembered are dated anew.
        let added = if self.steps.is_empty() || oldest < self.oldest_block {
            self.steps.clear();
            self.steps.reserve_exact(Self::MAX);
            self.oldest_block = oldest;
            remembered
        } else {
            newest.saturating_sub(self.newest_block).min(remembered)
        };
        let skipped = usize::try_from(remembered - added).unwrap_or(usize::MAX);
        for (before, base_fee) in (0..added).rev().zip(base_fees.skip(skipped)) {
            let time = u128::from(seen_at).saturating_sub(age(before));
            let step = time / BaseFeeStep::TIME.as_millis();
            self.add(u64::try_from(step).unwrap_or(u64::MAX), base_fee);
        }
        self.newest_block = newest;
        self.steps.make_contiguous();
    }

    /// Returns the steps, oldest first.
    pub(super) fn all(&self) -> &[BaseFeeStep] {
        self.steps.as_slices().0
    }

    fn add(&mut self, step: u64, base_fee: u128) {
        // A clock that was put back dates nothing into the past.
        let later = step.saturating_sub(self.newest);
        if let (0, Some(last)) = (later, self.steps.back_mut()) {
            *last = BaseFeeStep { last: base_fee, highest: last.highest.max(base_fee) };
            return;
        }
        let last = self.steps.back().copied();
        let added = usize::try_from(later).unwrap_or(usize::MAX).max(1);
        let surplus = self.steps.len().saturating_add(added).saturating_sub(Self::MAX);
        self.steps.drain(..surplus.min(self.steps.len()));
        if let Some(last) = last.filter(|_| added <= Self::MAX) {
            // While no block comes, the base fee stays.
            let same = BaseFeeStep::from_base_fee(last.last);
            self.steps.extend(std::iter::repeat_n(same, added.saturating_sub(1)));
        }
        self.newest = step;
        self.steps.push_back(BaseFeeStep::from_base_fee(base_fee));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::tests::history_of;
    use crate::fees::{FeeHistory, Pricing};
    use crate::store::RecentBlocks;

    fn blocks_up_to(newest: u64, base_fees: &[u128]) -> FeeHistory {
        history_of(newest + 1 - u64::try_from(base_fees.len()).unwrap(), base_fees, None)
    }

    fn pairs(steps: &[BaseFeeStep]) -> Vec<(u128, u128)> {
        steps.iter().map(|step| (step.last, step.highest)).collect()
    }

    #[test]
    fn blocks_of_five_seconds_are_a_step_and_slower_ones_are_steps() {
        let mut blocks = RecentBlocks::new(64, &Pricing::default(), None);
        let mut update = |newest, base_fees: &[u128], seen_at, block_time| {
            blocks.extend(&blocks_up_to(newest, base_fees));
            blocks.update_steps(seen_at, block_time);
            pairs(&blocks.base_fee_steps(block_time))
        };
        // Seconds 98, 100, 102, 104 and 106.
        let two_seconds = Duration::from_secs(2);
        let found = update(14, &[5, 9, 7, 6, 8], 106_000, two_seconds);
        assert_eq!(found, [(5, 5), (6, 9), (8, 8)]);
        // The same head again changes nothing. The next blocks come after a pause.
        assert_eq!(update(14, &[8], 107_000, two_seconds).len(), 3);
        let found = update(16, &[8, 3, 4], 118_000, two_seconds);
        assert_eq!(found[2..], [(8, 8), (8, 8), (4, 4)]);
        // A clock that is put back adds to the last step.
        assert_eq!(update(17, &[4, 2], 60_000, two_seconds)[4..], [(2, 4)]);
        let found = update(17, &[2], 60_000, Duration::from_secs(5));
        assert_eq!(found, [5, 9, 7, 6, 8, 3, 4, 2].map(|fee| (fee, fee)));
    }

    #[test]
    fn steps_reach_an_hour_back_and_a_reading_fills_them_at_the_start() {
        let mut blocks = RecentBlocks::new(1024, &Pricing::default(), 10.try_into().ok());
        blocks.extend(&blocks_up_to(2000, &[7; 20]));
        let block_time = Duration::from_millis(500);
        let update = |blocks: &mut RecentBlocks, seen_at| {
            blocks.update_steps(seen_at, block_time);
            pairs(&blocks.base_fee_steps(block_time))
        };
        assert_eq!(update(&mut blocks, 1_000_000).len(), 3);
        blocks.add_reading(&blocks_up_to(2000, &[7; 1000]));
        assert_eq!(update(&mut blocks, 1_000_100).len(), 101);
        for number in 0..9000 {
            blocks.extend(&blocks_up_to(2001 + number, &[7, 8]));
            blocks.update_steps(1_000_500 + 500 * number, block_time);
        }
        assert_eq!(update(&mut blocks, 6_000_000).len(), BaseFeeSteps::MAX);
        // After a pause of more than an hour they begin anew.
        blocks.extend(&blocks_up_to(11_001, &[8, 9]));
        assert_eq!(update(&mut blocks, 60_000_000), [(9, 9)]);
    }
}
