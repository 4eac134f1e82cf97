//! Pairs of fees that were quoted at the newest heads, and whether the blocks after each head kept them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::fees::Tier;
use crate::store::{EntryWindow, RecentBlocks, StoredChain};

/// A count over the quotes of all heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Index of the pair.
    pub pair: usize,
    /// Number of blocks after the head of which one has to include the pair.
    pub within: usize,
}

/// Outcomes of one question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptCount {
    /// Quotes that one of the blocks would have included.
    pub kept: u32,
    /// Quotes whose blocks are known.
    pub judged: u32,
    /// Quotes whose blocks can no longer become known: some were never seen, or have no usable rewards.
    pub unjudged: u32,
}

impl KeptCount {
    /// Returns the share that was kept, from 0 to 1; `None` before `least` were judged.
    #[must_use]
    pub fn share(self, least: u32) -> Option<f64> {
        let is_enough = self.judged >= least.max(1);
        is_enough.then(|| f64::from(self.kept) / f64::from(self.judged))
    }
}

/// Quotes of one chain in the last hour, at most 1,000 of them. A restart begins anew.
#[derive(Debug)]
pub struct QuoteRecord {
    /// At most 32.
    questions: Vec<Question>,
    /// Highest number of blocks of a question.
    longest: usize,
    started: Instant,
    /// Blocks after which a grade is final, although a question is open.
    final_depth: usize,
    /// Heads whose grades may still change, in ascending order.
    open: VecDeque<OpenHead>,
    /// Heads whose grades are final, oldest first.
    graded: VecDeque<GradedHead>,
}

/// The quotes that were published last while a block was the newest one.
#[derive(Debug)]
struct OpenHead {
    number: u64,
    pairs: Box<[Tier]>,
    /// Percentile of the rewards that they were made of.
    percentile: f64,
    /// Seconds since the start.
    published_after: u32,
}

/// Outcomes of one head: a bit for each question.
#[derive(Debug, Clone, Copy, Default)]
struct Grade {
    kept: u32,
    judged: u32,
}

#[derive(Debug, Clone, Copy)]
struct GradedHead {
    grade: Grade,
    /// Seconds since the start.
    published_after: u32,
}

impl QuoteRecord {
    /// Age of the oldest quotes that count.
    pub const WINDOW: Duration = Duration::from_hours(1);

    /// Highest number of quotes that count.
    pub const MAX_QUOTES: usize = 1000;

    /// Creates a record of a chain without quotes.
    #[must_use]
    pub fn new(chain: &StoredChain, questions: Vec<Question>, now: Instant) -> Self {
        /// Blocks until a further reading has ended.
        const READING_DELAY: u64 = 5;
        /// Rewards that are read later do not count.
        const MAX_DELAY: u64 = 256;
        // One reading may fail.
        let delay = chain.config().reading_interval(chain.block_time()).map_or(0, |interval| {
            interval.get().saturating_mul(2).saturating_add(READING_DELAY).min(MAX_DELAY)
        });
        let longest = questions.iter().map(|question| question.within).max().unwrap_or_default();
        Self {
            questions,
            longest,
            started: now,
            final_depth: usize::try_from(delay).unwrap_or_default().saturating_add(longest),
            open: VecDeque::new(),
            graded: VecDeque::new(),
        }
    }

    /// Records the `pairs` that were quoted at the block `number`, made of rewards at `percentile`. Those at the same block
    /// and above it are replaced while they are open. `blocks` are the recent ones.
    pub fn record(
        &mut self,
        number: u64,
        pairs: impl Iterator<Item = Tier>,
        percentile: f64,
        blocks: &RecentBlocks,
        now: Instant,
    ) {
        while self.open.back().is_some_and(|head| head.number >= number) {
            self.open.pop_back();
        }
        let published_after = self.seconds_since_start(now);
        // A copy, because the allocator leaves a shrunk vector where it is.
        let pairs = pairs.collect::<Vec<_>>().as_slice().into();
        self.open.push_back(OpenHead { number, pairs, percentile, published_after });
        let mut known = None;
        while let Some(head) = self.open.front() {
            let depth = usize::try_from(number.saturating_sub(head.number)).unwrap_or(usize::MAX);
            if depth <= self.longest {
                break;
            }
            let known = known.get_or_insert_with(|| self.known(blocks));
            let grade = self.grade(head, known);
            if !self.is_judged(grade) && depth <= self.final_depth {
                break;
            }
            self.graded.push_back(GradedHead { grade, published_after: head.published_after });
            self.open.pop_front();
        }
        self.forget_old(published_after);
    }

    fn forget_old(&mut self, now: u32) {
        while let Some(oldest) = self.graded.front()
            && (self.graded.len() > Self::MAX_QUOTES || !oldest.is_within_window(now))
        {
            self.graded.pop_front();
        }
    }

    /// Returns the newest blocks whose tips are known, as many as open heads may need.
    fn known(&self, blocks: &RecentBlocks) -> EntryWindow {
        blocks.newest_entries(self.final_depth.saturating_add(self.longest))
    }

    fn grade(&self, head: &OpenHead, known: &EntryWindow) -> Grade {
        let mut grade = Grade::default();
        if head.percentile.total_cmp(&known.percentile).is_ne() {
            return grade;
        }
        for (bit, question) in self.questions.iter().enumerate() {
            let blocks = known.after(head.number, question.within);
            let kept = blocks
                .zip(head.pairs.get(question.pair))
                .and_then(|(blocks, pair)| pair.kept_by(blocks));
            if let Some(is_kept) = kept {
                grade.judged |= 1 << bit;
                grade.kept |= u32::from(is_kept) << bit;
            }
        }
        grade
    }

    /// Returns true if no question is open. What is read later changes nothing, unless it is of another branch.
    fn is_judged(&self, grade: Grade) -> bool {
        usize::try_from(grade.judged.count_ones()).is_ok_and(|count| count >= self.questions.len())
    }

    /// Returns the outcomes of the questions, in their order, with the recent `blocks`.
    #[must_use]
    pub fn counts(&self, blocks: &RecentBlocks, now: Instant) -> Vec<KeptCount> {
        let now = self.seconds_since_start(now);
        let known = self.known(blocks);
        let graded = self.graded.iter().map(|head| (*head, true));
        let open = self.open.iter().map(|head| {
            let grade = self.grade(head, &known);
            (GradedHead { grade, published_after: head.published_after }, false)
        });
        let newest = graded.chain(open).rev().take(Self::MAX_QUOTES);
        let mut counts = vec![KeptCount::default(); self.questions.len()];
        for (head, is_final) in newest.take_while(|(head, _)| head.is_within_window(now)) {
            for (bit, count) in counts.iter_mut().enumerate() {
                let [kept, judged] = [head.grade.kept, head.grade.judged].map(|it| it >> bit & 1);
                count.kept = count.kept.saturating_add(kept);
                count.judged = count.judged.saturating_add(judged);
                let unjudged = u32::from(is_final).saturating_sub(judged);
                count.unjudged = count.unjudged.saturating_add(unjudged);
            }
        }
        counts
    }

    fn seconds_since_start(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.started).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

impl GradedHead {
    /// Returns true if its quotes count at second `now`.
    fn is_within_window(self, now: u32) -> bool {
        u64::from(now.saturating_sub(self.published_after)) <= QuoteRecord::WINDOW.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::tests::market;
    use crate::fees::{Block, FeeHistory, Rewards};
    use crate::store::Accepted;
    use crate::store::tests::store_with_chain;

    #[test]
    fn pairs_are_forgotten_once_they_are_judged() {
        let (_, chain, mut publisher) = store_with_chain("block_time = \"1s\"");
        let (pricing, now) = (chain.config().pricing, Instant::now());
        let questions = [0, 1].map(|pair| Question { pair, within: 25 }).to_vec();
        let mut record = QuoteRecord::new(&chain, questions, now);
        // The tip of one is too low.
        let pairs = [5, 6].map(|tip| Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: 20 });
        let history = |number: u64, count: usize, rewards: Rewards| {
            let rewards = Some(rewards);
            let block = Block { base_fee: 9, gas_used_ratio: Some(0.5), rewards };
            let oldest = number + 1 - u64::try_from(count).unwrap();
            FeeHistory::new(oldest, vec![block; count], None).unwrap()
        };
        let mut play = |number: u64, is_read: bool| {
            let polled = history(number, 20, [7, 0]);
            publisher.publish(Accepted::now(&polled, market(&polled, &pricing)));
            chain.read_together(|blocks| {
                record.record(number, pairs.into_iter(), 10.0, blocks, now);
            });
            if is_read && number.is_multiple_of(10) {
                publisher.add_reading(&history(number, 10, [6, 7]));
            }
            let counts = chain.read_together(|blocks| record.counts(blocks, now));
            (record.open.len(), counts.into_iter().map(|it| (it.kept, it.judged, it.unjudged)))
        };
        // When block 180 is recorded, tips are known up to block 170, so the heads from 146 on wait.
        let (open, counts) = (100..=180).map(|number| play(number, true)).last().unwrap();
        assert_eq!((open, counts.collect()), (35, vec![(0, 56, 0), (56, 56, 0)]));
        // Where they are not read, pairs wait for 50 blocks.
        let open = (181..300).map(|number| play(number, false).0).max();
        assert_eq!(open, Some(51));
    }
}
