//! Grades that are final, of the quotes of both strategies.

use std::collections::VecDeque;

use enum_map::{Enum, EnumMap};

use super::Quoted;
use super::grade::{Grade, Outbid, Outcomes, TipOutcome};

/// Heads with a final grade, oldest first, and limited in number.
#[derive(Debug)]
pub(super) struct GradedHeads {
    capacity: usize,
    /// Number of the percentiles that quotes are graded by.
    percentiles: usize,
    heads: VecDeque<GradedHead>,
    /// Whether a quote outbid each percentile: for each head by strategy, then by tier. `None`: it could not be compared.
    /// Most chains have two or three percentiles and could have six, so a head holds no array of them.
    outbid: VecDeque<Option<bool>>,
}

/// The grade of each strategy at a head with a quote. A chain keeps 1,000 of them, so both share what the next block
/// says.
#[derive(Debug, Clone, Copy)]
struct GradedHead {
    fair_price: u64,
    overpaid: EnumMap<Quoted, [u64; 2]>,
    /// `None`: the strategy had no quote.
    outcomes: EnumMap<Quoted, Option<Outcomes>>,
    tips: TipOutcome,
    has_tips: Option<bool>,
    /// Seconds since the start.
    published_after: u32,
    /// Numbers without a quote right before this one.
    skipped_before: u16,
}

/// What is known of a head besides its grades.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadTimes {
    /// When the served quote was published, in seconds since the start.
    pub(super) published_after: u32,
    /// Numbers without a quote right before this one.
    pub(super) skipped_before: u16,
}

impl GradedHeads {
    const STRATEGIES: usize = 2;
    const TIERS: usize = 2;

    /// Creates a ring for this many heads, whose quotes are graded by so many percentiles.
    pub(super) fn new(capacity: usize, percentiles: usize) -> Self {
        let heads = VecDeque::with_capacity(capacity);
        let mut graded = Self { capacity, percentiles, heads, outbid: VecDeque::new() };
        graded.outbid.reserve_exact(capacity.saturating_mul(graded.comparisons()));
        graded
    }

    /// Number of comparisons with percentiles at one head.
    fn comparisons(&self) -> usize {
        Self::STRATEGIES.saturating_mul(Self::TIERS).saturating_mul(self.percentiles)
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns the number of heads for which there is memory.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.heads.capacity().max(self.outbid.capacity() / self.comparisons().max(1))
    }

    /// Adds a head. The oldest one makes room. Returns false if no strategy has a grade.
    pub(super) fn push(&mut self, grades: &EnumMap<Quoted, Option<Grade>>, of: HeadTimes) -> bool {
        let Some(Grade { fair_price, tips, has_tips, .. }) = grades.values().flatten().next()
        else {
            return false;
        };
        if self.len() >= self.capacity {
            self.pop_oldest();
        }
        self.heads.push_back(GradedHead {
            fair_price: *fair_price,
            overpaid: EnumMap::from_fn(|quoted| grades[quoted].map_or([0; 2], |it| it.overpaid)),
            outcomes: EnumMap::from_fn(|quoted| grades[quoted].map(|grade| grade.outcomes)),
            tips: *tips,
            has_tips: *has_tips,
            published_after: of.published_after,
            skipped_before: of.skipped_before,
        });
        for grade in grades.values() {
            let outbid = grade.map_or_else(Default::default, |grade| grade.outbid);
            self.outbid.extend(outbid.iter().flat_map(|tier| tier.iter().take(self.percentiles)));
        }
        true
    }

    pub(super) fn pop_oldest(&mut self) {
        self.heads.pop_front();
        self.outbid.drain(..self.comparisons().min(self.outbid.len()));
    }

    /// Returns when the oldest quote was published, in seconds since the start.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.heads.front().map(|head| head.published_after)
    }

    /// Returns the grades of a strategy, newest first. `None`: it had no quote.
    pub(super) fn newest_first(
        &self,
        quoted: Quoted,
    ) -> impl Iterator<Item = (Option<Grade>, HeadTimes)> {
        (0..self.len()).rev().filter_map(move |index| {
            let head = self.heads.get(index)?;
            let GradedHead { published_after, skipped_before, .. } = *head;
            let grade = head.outcomes[quoted].map(|outcomes| Grade {
                overpaid: head.overpaid[quoted],
                fair_price: head.fair_price,
                outcomes,
                outbid: self.outbid(index, quoted),
                tips: head.tips,
                has_tips: head.has_tips,
            });
            Some((grade, HeadTimes { published_after, skipped_before }))
        })
    }

    fn outbid(&self, index: usize, quoted: Quoted) -> Outbid {
        let mut outbid = Outbid::default();
        let earlier = index.saturating_mul(Self::STRATEGIES).saturating_add(quoted.into_usize());
        let start = earlier.saturating_mul(Self::TIERS).saturating_mul(self.percentiles);
        let mut kept = self.outbid.range(start.min(self.outbid.len())..).copied();
        for tier in &mut outbid {
            for (outcome, kept) in tier.iter_mut().zip(kept.by_ref().take(self.percentiles)) {
                *outcome = kept;
            }
        }
        outbid
    }
}
