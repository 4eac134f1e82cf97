//! Grades that are final, of the quotes of both strategies.

use std::collections::VecDeque;

use enum_map::{Enum, EnumMap};

use super::grade::{Grade, Outbid, Outcomes, TipOutcome};
use super::{MAX_PERCENTILES, Quoted};

/// Heads with a final grade, oldest first, and limited in number.
#[derive(Debug)]
pub(super) struct GradedHeads {
    capacity: usize,
    /// Number of the percentiles that quotes are graded by.
    percentiles: usize,
    heads: VecDeque<GradedHead>,
    /// True where a quote outbid a percentile: for each head by strategy, then by tier, then by percentile. `None`: it could
    /// not be compared. Most chains have two or three percentiles, at most six, so a head holds no array of them.
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

/// Properties of a head besides its grades.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadContext {
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
        let percentiles = percentiles.min(MAX_PERCENTILES);
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
    pub(super) fn push(
        &mut self,
        grades: &EnumMap<Quoted, Option<Grade>>,
        of: HeadContext,
    ) -> bool {
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
    pub(super) fn oldest_published_after(&self) -> Option<u32> {
        self.heads.front().map(|head| head.published_after)
    }

    /// Returns the grades of a strategy, newest first. `None`: it had no quote.
    pub(super) fn newest_first(
        &self,
        quoted: Quoted,
    ) -> impl Iterator<Item = (Option<Grade>, HeadContext)> {
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
            Some((grade, HeadContext { published_after, skipped_before }))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a grade whose outcomes differ from those of other heads, strategies and tiers.
    fn grade_of(seed: u64, percentiles: usize) -> Grade {
        let outcome = |index: u64| match (seed * 7 + index) % 3 {
            0 => None,
            one_or_two => Some(one_or_two == 1),
        };
        let mut outbid = Outbid::default();
        for (index, kept) in
            (0..).zip(outbid.iter_mut().flat_map(|it| it.iter_mut().take(percentiles)))
        {
            *kept = outcome(index * index);
        }
        Grade {
            overpaid: [seed, seed + 1],
            fair_price: 5,
            outcomes: Outcomes {
                covered: [[outcome(1); 3], [outcome(2); 3]],
                is_floor: [false, true],
            },
            outbid,
            tips: TipOutcome::Judged,
            has_tips: Some(true),
        }
    }

    #[test]
    fn each_head_has_its_own_grades_after_older_ones_have_made_room() {
        for percentiles in [0, 2, MAX_PERCENTILES] {
            let mut graded = GradedHeads::new(10, percentiles);
            let pushed_at = |head: u64| {
                EnumMap::from_fn(|quoted| {
                    let seed = head * 2 + u64::from(quoted == Quoted::Alternative);
                    (!seed.is_multiple_of(5)).then(|| grade_of(seed, percentiles))
                })
            };
            for head in 0..37 {
                let context = HeadContext { published_after: head, skipped_before: 0 };
                assert!(graded.push(&pushed_at(head.into()), context));
            }
            graded.pop_oldest();
            assert_eq!((graded.len(), graded.oldest_published_after()), (9, Some(28)));
            for quoted in [Quoted::Served, Quoted::Alternative] {
                let kept: Vec<_> = graded.newest_first(quoted).map(|(grade, _)| grade).collect();
                let pushed: Vec<_> = (28..37).rev().map(|head| pushed_at(head)[quoted]).collect();
                assert_eq!(kept, pushed, "{percentiles} percentiles");
            }
            assert_eq!(graded.allocated(), 10);
            assert!(
                !graded.push(
                    &EnumMap::default(),
                    HeadContext { published_after: 40, skipped_before: 1 }
                )
            );
            assert_eq!(graded.len(), 9);
        }
    }
}
