//! The strategy that is not served, in the shadow: it is priced at the blocks at which the served one was, and graded by
//! the same rule.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::summary::{Score, TierScore};
use super::{Quoted, Scorer};
use crate::fees::{
    self, Block, ChainParameters, FeeHistory, FurtherPercentiles, GRADED_PERCENTILES, Pricing,
    Rewards, Strategy,
};
use crate::store::{Publication, RecentBlocks};

/// Quotes of the other strategy of one chain.
#[derive(Debug)]
pub(crate) struct Alternative {
    pricing: Pricing,
    percentiles: Vec<f64>,
    /// Heads that are not priced yet, because their rewards are not read: in ascending order.
    pending: VecDeque<PendingHead>,
    advice: Advice,
}

/// A head at which the served strategy was priced.
#[derive(Debug, Clone, Copy)]
struct PendingHead {
    number: u64,
    parameters: ChainParameters,
}

/// Decides when the operator reads that the other strategy would be better.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    /// Since when it is better without a break.
    better_since: Option<Instant>,
    was_given: bool,
}

/// How the two strategies did at the same blocks, by their medium tiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// Served, then the other one.
    pub(crate) overpaid_mean: [u128; 2],
    /// Shares of blocks whose fair tip was reached, from 0 to 1; served, then the other one.
    pub(crate) reached: [f64; 2],
}

impl Alternative {
    /// Heads that wait for their rewards at most.
    const MAX_PENDING: usize = 1024;
    /// Heads that are priced at one publication at most: readers wait meanwhile.
    const PRICED_AT_ONCE: usize = 4;

    /// Creates the alternative to `served`, without quotes.
    pub(crate) fn new(served: &Pricing) -> Self {
        let pricing = served.alternative();
        Self {
            percentiles: pricing.polled_percentiles(),
            pricing,
            pending: VecDeque::new(),
            advice: Advice::default(),
        }
    }

    pub(crate) fn strategy(&self) -> Strategy {
        self.pricing.strategy
    }

    /// Quotes at the head of a publication that `scorer` has, once the rewards are known.
    pub(crate) fn published(&mut self, publication: &Publication<'_>, scorer: &mut Scorer) {
        let number = publication.history.newest_block();
        // A reorganisation replaces the heads above, and a head is priced as it was published last.
        while self.pending.back().is_some_and(|head| head.number >= number) {
            self.pending.pop_back();
        }
        if self.pending.len() >= Self::MAX_PENDING {
            self.pending.pop_front();
        }
        let parameters = publication.snapshot.market.chain_parameters;
        self.pending.push_back(PendingHead { number, parameters });
        self.price_pending(publication.blocks, scorer);
    }

    /// Prices the heads whose rewards are known by now.
    pub(crate) fn price_pending(&mut self, blocks: &RecentBlocks, scorer: &mut Scorer) {
        for _ in 0..Self::PRICED_AT_ONCE {
            let Some(&head) = self.pending.front() else { return };
            let wanted = self.pricing.history_blocks();
            let history = blocks.history(head.number, wanted, &self.percentiles);
            let is_read = |history: &FeeHistory| {
                let newest = history.blocks().last();
                newest.is_some_and(|block| block.rewards.is_some())
            };
            match history {
                // Once its grade is final, a quote at a block that was never read would be of no use.
                Some(history) if !is_read(&history) && !scorer.is_final(head.number) => return,
                Some(history) if !is_read(&history) => {}
                Some(history) if history.blocks().len() == wanted => {
                    let market = fees::price(&history, &self.pricing, &head.parameters);
                    // A fallback is not what this strategy would have served with all rewards.
                    if let Some(market) = market.ok().filter(|it| it.strategy == self.strategy()) {
                        let quoted = Quoted::Alternative;
                        scorer.add_quote(quoted, head.number, &market, &self.pricing);
                    }
                }
                // Too few blocks are known, or the head was replaced.
                _ => {}
            }
            self.pending.pop_front();
        }
    }

    /// Returns the score at `now`; `None` while nothing is priced.
    pub(crate) fn score(&self, scorer: &Scorer, now: Instant) -> Option<Score> {
        let score = scorer.score_of(Quoted::Alternative, &self.pricing, now);
        Some(score).filter(|score| score.heads > 0)
    }

    /// Returns how both strategies did, if this one has been better for long enough. It does so once.
    pub(crate) fn advice(&mut self, scorer: &Scorer, now: Instant) -> Option<Comparison> {
        let served = scorer.score(now);
        let other = self.score(scorer, now);
        let better = other.and_then(|other| Comparison::if_better(&served, &other));
        self.advice.record(better, now)
    }
}

/// How both strategies would have done on recorded blocks.
#[derive(Debug)]
pub(crate) struct ReplayedScores {
    /// Strategy of the pricing, then the other one.
    pub(crate) strategies: [Strategy; 2],
    pub(crate) scores: [Score; 2],
    /// `None`: the other one is not better.
    pub(crate) better: Option<Comparison>,
}

/// Prices and grades the blocks of `history`, whose rewards are those at [`GRADED_PERCENTILES`], by both strategies. `None`:
/// the pricing has other percentiles.
pub(crate) fn replay(history: &FeeHistory, pricing: &Pricing) -> Option<ReplayedScores> {
    let further_percentiles = FurtherPercentiles::default();
    let served = Pricing { further_percentiles, ..*pricing };
    let both = [served, served.alternative()];
    let strategies = both.map(|pricing| pricing.strategy);
    let calibrated = both.iter().find(|pricing| pricing.strategy == Strategy::Calibrated)?;
    let wanted = calibrated.history_blocks();
    let now = Instant::now();
    // The recording has the rewards that this strategy polls.
    let mut scorer = Scorer::new(calibrated, None, now);
    let quoted = [Quoted::Served, Quoted::Alternative];
    let blocks = history.blocks();
    for (first, known) in (history.oldest_block()..).zip(blocks.windows(wanted)) {
        let newest = first.checked_add(u64::try_from(wanted).ok()?.checked_sub(1)?)?;
        let next = newest.checked_add(1).and_then(|next| history.base_fee(next));
        let next = next.or(history.next_base_fee());
        scorer.add_blocks(&FeeHistory::new(first, known.to_vec(), next)?);
        for (quoted, pricing) in quoted.into_iter().zip(&both) {
            let columns = with_percentiles(known, &pricing.polled_percentiles())?;
            let priced = FeeHistory::new(first, columns, next)?;
            let parameters = ChainParameters::without_header(pricing);
            if let Ok(market) = fees::price(&priced, pricing, &parameters) {
                scorer.add_quote(quoted, newest, &market, pricing);
            }
        }
        scorer.close_deep(now);
    }
    let [served, other] = &both;
    let replayed = [
        scorer.score_of(Quoted::Served, served, now),
        scorer.score_of(Quoted::Alternative, other, now),
    ];
    let [of_served, of_other] = &replayed;
    let better = Comparison::if_better(of_served, of_other);
    Some(ReplayedScores { strategies, scores: replayed, better })
}

/// Returns blocks whose rewards are at [`GRADED_PERCENTILES`] with those at `wanted` ones. `None`: there are others.
fn with_percentiles(blocks: &[Block], wanted: &[f64]) -> Option<Vec<Block>> {
    let column = |wanted: &f64| fees::column_of(*wanted, &GRADED_PERCENTILES);
    let columns: Vec<usize> = wanted.iter().map(column).collect::<Option<_>>()?;
    let convert = |block: &Block| {
        let rewards: Option<Vec<u128>> =
            columns.iter().map(|column| block.reward(*column)).collect();
        Block { rewards: rewards.map(|rewards| Rewards::new(&rewards)), ..*block }
    };
    Some(blocks.iter().map(convert).collect())
}

impl Advice {
    /// Time for which a strategy has to be better.
    const PERIOD: Duration = Duration::from_hours(1);

    /// Records whether the other strategy is better at `now`. Returns the comparison if it has been for long enough, once.
    pub(crate) fn record(
        &mut self,
        better: Option<Comparison>,
        now: Instant,
    ) -> Option<Comparison> {
        let Some(comparison) = better else {
            self.better_since = None;
            return None;
        };
        let since = *self.better_since.get_or_insert(now);
        let is_due = now.saturating_duration_since(since) >= Self::PERIOD && !self.was_given;
        self.was_given |= is_due;
        is_due.then_some(comparison)
    }
}

impl Comparison {
    /// Least number of quotes of each strategy that are compared.
    const MIN_JUDGED: u32 = 100;

    /// Returns the comparison if the `other` strategy has overpaid less than half, and has kept its target, or that of the
    /// served one if it has none. A target is kept unless the share misses it by more than chance.
    pub(crate) fn if_better(served: &Score, other: &Score) -> Option<Self> {
        let [of_served, of_other] = [served, other].map(|score| &score.tiers[0]);
        let judged = |tier: &TierScore| tier.fair.map_or(0, |share| share.total);
        if judged(of_served).min(judged(of_other)) < Self::MIN_JUDGED {
            return None;
        }
        let target = of_other.target.or(of_served.target)?;
        let overpaid_mean = [of_served.overpaid_mean?, of_other.overpaid_mean?];
        let reached = [of_served.fair?, of_other.fair?];
        let [of_served, of_other] = overpaid_mean;
        let is_cheap = of_other < of_served.div_ceil(2);
        let keeps_target = super::summary::calibration(reached[1], target).high >= 0.0;
        (is_cheap && keeps_target)
            .then(|| Self { overpaid_mean, reached: reached.map(fees::statistics::Share::value) })
    }
}
