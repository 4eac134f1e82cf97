//! How the quotes that were served did: each is graded by the blocks that followed it.
//!
//! "Covered" means that the max fee was at least the base fee of a later block. "Outbid" means that the tip, as far as
//! the max fee leaves room for it, was at least the next block's reward at a percentile. No transaction was sent
//! with these fees, so nothing here says that one was included.
//!
//! A score covers the last hour: at least 100 and at most 1,000 quotes. A restart begins anew. With replicas, each
//! replica grades what it served itself. Until a head is 25 blocks deep, a reorg replaces its blocks by number.

mod gauges;
mod grade;
mod metrics;
mod routes;
mod state;
mod summary;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join};
use crate::fees::{self, FeeHistory, GRADED_PERCENTILES, Market, Pricing, Rewards, Strategy};
use grade::{Grade, GradingBlock, Quote, TipOutcome, grade};
use metrics::ScoreMetrics;
use state::Scores;

pub(crate) use summary::{Quantiles, Score, TierScore};

pub(crate) const EXTRA: Extra = Extra::new("score", Join::Always(join));

/// Grades what is published, and adds the route and the gauges.
fn join(assembly: &mut Assembly) {
    let scores = Scores::new(&assembly.store);
    assembly.observe(|chain| Arc::clone(scores.scorer(chain)));
    let metrics = assembly.metrics.set::<ScoreMetrics>();
    let (of_gauges, store) = (scores.clone(), assembly.store.clone());
    assembly.metrics.on_scrape(move |_| {
        for chain in store.chains() {
            gauges::update(&metrics, chain, &of_gauges);
        }
    });
    let routes = OpenApiRouter::new().routes(routes!(routes::get_score));
    assembly.routes.add(routes.with_state(scores));
    assembly.routes.write_examples(routes::write_example);
}

/// Distances in blocks at which base fees are compared.
pub(crate) const DISTANCES: [usize; 3] = [1, 5, 25];

/// Blocks after which a grade is final; more if the rewards are read later.
const FINAL_DEPTH: usize = 25;

/// Blocks until a further reading has ended.
const READING_DELAY: usize = 5;

/// Maximum number of reward percentiles that quotes are graded by: all that polls and further readings have.
const MAX_PERCENTILES: usize = Rewards::MAX_COLUMNS + GRADED_PERCENTILES.len();

/// Age of the oldest quotes of a score.
pub(crate) const WINDOW: Duration = Duration::from_hours(1);
const MIN_QUOTES: usize = 100;
const MAX_QUOTES: usize = 1000;

/// A head that moves further skips blocks that are not counted one by one.
const MAX_JUMP: u64 = 1000;

/// Quotes of one chain, and the blocks that followed.
#[derive(Debug)]
pub(crate) struct Scorer {
    pricing: Pricing,
    /// Strategy of the last quote: while asks are unknown, the network's rule.
    strategy: Strategy,
    /// Reward percentiles that polls request.
    polled: Vec<f64>,
    /// Reward percentiles that quotes are graded by: those of polls, and of further readings if there are any.
    percentiles: Vec<f64>,
    /// Blocks after which a grade is final.
    final_depth: usize,
    started: Instant,
    /// Number of the first of `open`.
    oldest_open: u64,
    /// Number of the newest block.
    newest: u64,
    /// Heads whose grades may still change: consecutive block numbers up to the newest.
    open: VecDeque<OpenHead>,
    /// Heads that are deep enough, oldest first.
    graded: VecDeque<GradedHead>,
    /// Numbers without a quote since the last of `graded`.
    skipped: u16,
    totals: Totals,
}

/// Known block and quote of one block number.
#[derive(Debug, Clone, Copy, Default)]
struct OpenHead {
    /// The block as it was seen last; `None`: never seen, or removed by a reorg.
    mined: Option<GradingBlock>,
    /// The quote that was published last while this was the newest block, and seconds since the start.
    quote: Option<(Quote, u32)>,
}

/// A head with a quote.
#[derive(Debug, Clone, Copy)]
struct GradedHead {
    grade: Grade,
    /// Seconds since the start.
    published_after: u32,
    /// Numbers without a quote right before this one.
    skipped_before: u16,
}

/// Counts over final grades since the start. The outer index of tiers: medium, high. The inner one: misses, hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// By tier and distance, in the order of [`DISTANCES`].
    pub covered: [[[u64; 2]; 3]; 2],
    /// By tier and percentile, in the order of [`graded_percentiles`].
    pub outbid: [[[u64; 2]; MAX_PERCENTILES]; 2],
    /// Heads whose next block had no usable rewards.
    pub no_rewards: u64,
    /// Heads whose next block was never seen.
    pub gap: u64,
    /// Blocks that were never the newest one of a published reply.
    pub no_quote: u64,
}

impl Scorer {
    /// Creates a score without quotes of a chain with this `pricing`.
    #[must_use]
    pub(crate) fn new(
        pricing: &Pricing,
        reading_interval: Option<NonZeroU64>,
        now: Instant,
    ) -> Self {
        let interval = reading_interval.and_then(|interval| usize::try_from(interval.get()).ok());
        // One reading may fail.
        let deepest =
            interval.map_or(0, |blocks| blocks.saturating_mul(2).saturating_add(READING_DELAY));
        Self {
            pricing: *pricing,
            strategy: pricing.strategy,
            polled: pricing.percentiles().iter().collect(),
            percentiles: graded_percentiles(pricing, reading_interval.is_some()),
            final_depth: FINAL_DEPTH.max(deepest),
            started: now,
            oldest_open: 0,
            newest: 0,
            open: VecDeque::new(),
            graded: VecDeque::with_capacity(MAX_QUOTES),
            skipped: 0,
            totals: Totals::default(),
        }
    }

    /// Reward percentiles that quotes are graded by.
    #[must_use]
    pub(crate) fn percentiles(&self) -> &[f64] {
        &self.percentiles
    }

    /// Counts since the start.
    #[must_use]
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Records the blocks of a published history, and the quote that was made from it, and closes what is deep.
    pub(crate) fn record(&mut self, history: &FeeHistory, market: &Market, now: Instant) {
        self.move_to(history.newest_block());
        let have_ratios = fees::have_ratios(history.blocks().iter());
        let polled = std::mem::take(&mut self.polled);
        let graded = std::mem::take(&mut self.percentiles);
        for (number, block) in (history.oldest_block()..).zip(history.blocks()) {
            if let Some(head) = self.open_head_mut(number) {
                let known = head.mined.take().filter(|known| known.is_same(block));
                let mut mined = known.unwrap_or_else(|| GradingBlock::new(block, have_ratios));
                mined.add_rewards(block, &polled, &graded);
                head.mined = Some(mined);
            }
        }
        (self.polled, self.percentiles) = (polled, graded);
        let quote = Quote::new(market, &self.pricing);
        self.strategy = market.strategy;
        let now = self.seconds_since_start(now);
        if let Some(head) = self.open_head_mut(history.newest_block()) {
            head.quote = Some((quote, now));
        }
        while self.open.len() > self.final_depth {
            self.close_oldest();
        }
        self.open.shrink_to(self.final_depth.saturating_mul(2));
        self.forget_old(now);
    }

    /// Records a further reading of rewards at [`GRADED_PERCENTILES`].
    pub(crate) fn add_reading(&mut self, reading: &FeeHistory) {
        let graded = std::mem::take(&mut self.percentiles);
        for (number, block) in (reading.oldest_block()..).zip(reading.blocks()) {
            let mined = self.open_head_mut(number).and_then(|head| head.mined.as_mut());
            if let Some(mined) = mined.filter(|mined| mined.is_same(block)) {
                mined.add_rewards(block, &GRADED_PERCENTILES, &graded);
            }
        }
        self.percentiles = graded;
    }

    /// Opens all numbers up to the new head. Removes the blocks above it.
    fn move_to(&mut self, newest: u64) {
        let is_far = newest.saturating_sub(self.newest) > MAX_JUMP;
        self.newest = newest;
        if self.open.is_empty() || newest < self.oldest_open || is_far {
            if is_far {
                while !self.open.is_empty() {
                    self.close_oldest();
                }
            }
            self.open.clear();
            self.oldest_open = newest;
            self.open.push_back(OpenHead::default());
        }
        while self.open_head_mut(newest).is_none() {
            self.open.push_back(OpenHead::default());
        }
        let known = usize::try_from(newest.saturating_sub(self.oldest_open)).unwrap_or(usize::MAX);
        for head in self.open.iter_mut().skip(known.saturating_add(1)) {
            head.mined = None;
        }
    }

    fn open_head_mut(&mut self, number: u64) -> Option<&mut OpenHead> {
        let index = usize::try_from(number.checked_sub(self.oldest_open)?).ok()?;
        self.open.get_mut(index)
    }

    /// Grades the oldest open head for good.
    fn close_oldest(&mut self) {
        let graded = self.grade_open(0);
        if self.open.pop_front().is_none() {
            return;
        }
        self.oldest_open = self.oldest_open.saturating_add(1);
        let Some((grade, published_after)) = graded else {
            self.totals.no_quote = self.totals.no_quote.saturating_add(1);
            self.skipped = self.skipped.saturating_add(1);
            return;
        };
        self.totals.count(&grade, self.percentiles.len());
        if self.graded.len() >= MAX_QUOTES {
            self.graded.pop_front();
        }
        let skipped_before = std::mem::take(&mut self.skipped);
        self.graded.push_back(GradedHead { grade, published_after, skipped_before });
    }

    /// Grades the quote at this index of the open heads by the blocks that are known. Returns when it was published, too;
    /// `None`: there is no quote.
    fn grade_open(&self, index: usize) -> Option<(Grade, u32)> {
        let (quote, published_after) = self.open.get(index)?.quote?;
        let is_newest = self.oldest_open.checked_add(u64::try_from(index).ok()?)? >= self.newest;
        let after = |distance: usize| self.open.get(index.checked_add(distance)?)?.mined.as_ref();
        Some((grade(&quote, after, is_newest, &self.percentiles), published_after))
    }

    fn forget_old(&mut self, now: u32) {
        while let Some(first) = self.graded.front() {
            let is_old = !is_within_window(first.published_after, now);
            if !is_old || self.graded.len() <= MIN_QUOTES {
                return;
            }
            self.graded.pop_front();
        }
    }

    /// Returns the score at `now`.
    #[must_use]
    pub(crate) fn score(&self, now: Instant) -> Score {
        let now = self.seconds_since_start(now);
        let known =
            usize::try_from(self.newest.saturating_sub(self.oldest_open)).unwrap_or_default();
        let open = (0..self.open.len().min(known.saturating_add(1))).rev();
        let open = open.map(|index| self.grade_open(index));
        let skipped = |count: u16| (0..count).map(|_| None);
        let final_grades = self.graded.iter().rev().flat_map(|head| {
            let quote = Some((head.grade, head.published_after));
            std::iter::once(quote).chain(skipped(head.skipped_before))
        });
        // Numbers without a quote count if there is an older quote in the window.
        let (mut grades, mut no_quote, mut since_last) = (Vec::new(), 0_usize, 0_usize);
        let mut oldest = None;
        for head in open.chain(skipped(self.skipped)).chain(final_grades) {
            let Some((grade, published_after)) = head else {
                since_last = since_last.saturating_add(1);
                continue;
            };
            let is_recent = is_within_window(published_after, now);
            if grades.len() >= if is_recent { MAX_QUOTES } else { MIN_QUOTES } {
                break;
            }
            no_quote = no_quote.saturating_add(std::mem::take(&mut since_last));
            grades.push(grade);
            oldest = Some(published_after);
        }
        let seconds = u64::from(now.saturating_sub(oldest.unwrap_or(now)));
        let pricing = Pricing { strategy: self.strategy, ..self.pricing };
        summary::summarise(&grades, no_quote, seconds, &pricing, &self.percentiles)
    }

    fn seconds_since_start(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.started).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

/// Returns the reward percentiles that quotes are graded by, in ascending order.
fn graded_percentiles(pricing: &Pricing, has_readings: bool) -> Vec<f64> {
    let read = if has_readings { &GRADED_PERCENTILES[..] } else { &[] };
    let mut all: Vec<f64> = pricing.percentiles().iter().collect();
    all.extend_from_slice(read);
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    all
}

/// Returns true if a quote that was published at that second belongs to a score at second `now`.
fn is_within_window(published_after: u32, now: u32) -> bool {
    u64::from(now.saturating_sub(published_after)) <= WINDOW.as_secs()
}

impl Totals {
    fn count(&mut self, grade: &Grade, percentiles: usize) {
        let add = |counts: &mut [u64; 2], is_hit: Option<bool>| {
            let Some(is_hit) = is_hit else { return };
            if let Some(count) = counts.get_mut(usize::from(is_hit)) {
                *count = count.saturating_add(1);
            }
        };
        for (tier, (covered, outbid)) in
            grade.tiers.iter().zip(self.covered.iter_mut().zip(&mut self.outbid))
        {
            for (counts, is_covered) in covered.iter_mut().zip(tier.covered) {
                add(counts, is_covered);
            }
            for (counts, is_outbid) in outbid.iter_mut().zip(tier.outbid).take(percentiles) {
                add(counts, is_outbid);
            }
        }
        match grade.tips {
            TipOutcome::NoRewards => self.no_rewards = self.no_rewards.saturating_add(1),
            TipOutcome::Gap => self.gap = self.gap.saturating_add(1),
            TipOutcome::Judged | TipOutcome::NoAsk | TipOutcome::Pending => {}
        }
    }
}

#[cfg(test)]
mod tests;
