//! Counts over grades: of a score, or since the start.

use serde::Serialize;
use utoipa::ToSchema;

use super::MAX_PERCENTILES;
use super::grade::{Grade, TipOutcome};

/// Misses and hits.
pub(super) type Outcomes = [u32; 2];

/// Counts over grades.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Medium and high.
    pub(super) tiers: [TierTotals; 2],
    /// Suggestions whose tip was compared.
    pub(super) judged: usize,
    pub(super) unjudged: Unjudged,
}

/// Counts of one tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TierTotals {
    /// By distance, in the order of [`DISTANCES`](super::DISTANCES).
    pub(super) covered: [Outcomes; 3],
    /// By percentile, in the order of the graded ones.
    pub(super) outbid: [Outcomes; MAX_PERCENTILES],
    /// By whether a configured floor decided.
    pub(super) floor_decided: Outcomes,
}

/// Suggestions, and blocks, that could not be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Unjudged {
    /// The node returned no usable rewards of the next block.
    pub(super) no_rewards: usize,
    /// The next block was never seen.
    pub(super) gap: usize,
    /// Blocks at which nothing was suggested.
    pub(super) no_quote: usize,
}

impl Totals {
    /// Counts the grade of a quote; `None`: there was none.
    pub(super) fn count(&mut self, grade: Option<&Grade>) {
        let Some(grade) = grade else {
            self.unjudged.no_quote += 1;
            return;
        };
        for (counts, tier) in self.tiers.iter_mut().zip(&grade.tiers) {
            let covered = counts.covered.iter_mut().zip(tier.covered);
            let outbid = counts.outbid.iter_mut().zip(tier.outbid);
            let floor_decided = (&mut counts.floor_decided, Some(tier.is_floor));
            for ([misses, hits], is_hit) in covered.chain(outbid).chain([floor_decided]) {
                match is_hit {
                    Some(true) => *hits = hits.saturating_add(1),
                    Some(false) => *misses = misses.saturating_add(1),
                    None => {}
                }
            }
        }
        match grade.tips {
            TipOutcome::Judged => self.judged += 1,
            TipOutcome::NoRewards => self.unjudged.no_rewards += 1,
            TipOutcome::Gap => self.unjudged.gap += 1,
            TipOutcome::NoAsk | TipOutcome::Pending => {}
        }
    }
}
