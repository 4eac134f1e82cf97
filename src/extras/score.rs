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
mod holds;
mod metrics;
mod routes;
mod state;
mod summary;
mod totals;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use utoipa_axum::router::OpenApiRouter;

use crate::api::routes::routes;
use crate::assembly::{Assembly, Extra};
use crate::fees::{self, FeeHistory, GRADED_PERCENTILES, Market, Pricing, Strategy};
use crate::store::StoredChain;
use grade::{Grade, GradingBlock, Quote, grade};
use holds::HoldRecord;
use metrics::ScoreMetrics;
use state::Scores;
use totals::Totals;

pub(crate) const EXTRA: Extra = Extra { name: "score", sections: &[], command: None, join };

/// Grades what is published, and adds the route and the gauges.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let scores = Scores::new(&assembly.store);
    assembly.observe(|chain| Arc::clone(scores.scorer(chain)));
    let metrics = assembly.metrics.set::<ScoreMetrics>();
    let of_gauges = scores.clone();
    assembly.metrics.on_scrape(move |_| gauges::update(&metrics, &of_gauges));
    let routes = OpenApiRouter::new().routes(routes!(routes::get_score));
    assembly.routes.timed.push(routes.with_state(scores));
    Ok(())
}

/// Distances in blocks at which base fees are compared.
pub(crate) const DISTANCES: [usize; 3] = [1, 5, 25];

/// Blocks after which a grade is final; more if the rewards are read later.
const FINAL_DEPTH: usize = 25;

/// Blocks until a further reading has ended.
const READING_DELAY: usize = 5;

/// Maximum number of reward percentiles that quotes are graded by: all that polls and further readings have.
const MAX_PERCENTILES: usize = fees::MAX_PERCENTILES + GRADED_PERCENTILES.len();

/// Age of the oldest quotes of a score.
pub(crate) const WINDOW: Duration = Duration::from_hours(1);
const MIN_QUOTES: usize = 100;
const MAX_QUOTES: usize = 1000;

/// A head that moves further skips blocks that are not counted one by one.
const MAX_JUMP: u64 = 1000;

/// Quotes of one chain, and the blocks that followed.
#[derive(Debug)]
pub(crate) struct Scorer {
    chain: StoredChain,
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
    /// Heads that are deep enough.
    graded: GradedHeads,
    /// Counts over final grades since the start.
    totals: Totals,
    holds: HoldRecord,
}

/// Known block and quote of one block number.
#[derive(Debug, Clone, Copy, Default)]
struct OpenHead {
    /// The block as it was seen last; `None`: never seen, or removed by a reorg.
    mined: Option<GradingBlock>,
    /// The quote that was published last while this was the newest block, and seconds since the start.
    quote: Option<(Quote, u32)>,
}

/// Heads with a quote, oldest first: those of the window, or more.
#[derive(Debug, Clone)]
struct GradedHeads(VecDeque<GradedHead>);

/// A head with a quote.
#[derive(Debug, Clone, Copy)]
struct GradedHead {
    grade: Grade,
    /// Seconds since the start.
    published_after: u32,
    /// Numbers without a quote right after this one.
    skipped: u32,
}

impl Scorer {
    /// Creates a score without quotes. `reading_interval` is the number of blocks between two further readings, if there are
    /// any.
    #[must_use]
    pub(crate) fn new(
        chain: &StoredChain,
        reading_interval: Option<NonZeroU64>,
        now: Instant,
    ) -> Self {
        let pricing = &chain.config().pricing;
        let interval = reading_interval.and_then(|interval| usize::try_from(interval.get()).ok());
        // One reading may fail.
        let deepest =
            interval.map_or(0, |blocks| blocks.saturating_mul(2).saturating_add(READING_DELAY));
        Self {
            chain: chain.clone(),
            strategy: pricing.strategy,
            polled: pricing.percentiles().iter().collect(),
            percentiles: graded_percentiles(pricing, reading_interval.is_some()),
            final_depth: FINAL_DEPTH.max(deepest),
            started: now,
            oldest_open: 0,
            newest: 0,
            open: VecDeque::new(),
            graded: GradedHeads(VecDeque::with_capacity(MAX_QUOTES)),
            totals: Totals::default(),
            holds: HoldRecord::default(),
        }
    }

    /// Records the blocks of a published history, and the quote that was made from it, and closes what is deep.
    pub(crate) fn record(&mut self, history: &FeeHistory, market: &Market, now: Instant) {
        let now = self.seconds_until(now);
        self.move_to(history.newest_block());
        let have_ratios = fees::have_ratios(history.blocks().iter());
        for (number, block) in (history.oldest_block()..).zip(history.blocks()) {
            if let Some(head) = open_head(&mut self.open, self.oldest_open, number) {
                let known = head.mined.filter(|known| known.block.is_same_as(block));
                let mut mined = known.unwrap_or_else(|| GradingBlock::new(block, have_ratios));
                mined.add_rewards(block, &self.polled, &self.percentiles);
                head.mined = Some(mined);
            }
        }
        self.strategy = market.strategy;
        if let Some(head) = open_head(&mut self.open, self.oldest_open, self.newest) {
            head.quote = Some((Quote::new(market, &self.chain.config().pricing), now));
        }
        while self.open.len() > self.final_depth {
            self.close_oldest();
        }
        self.open.shrink_to(self.final_depth.saturating_mul(2));
        self.graded.forget_old(now);
    }

    /// Records a further reading of rewards at [`GRADED_PERCENTILES`].
    pub(crate) fn add_reading(&mut self, reading: &FeeHistory) {
        for (number, block) in (reading.oldest_block()..).zip(reading.blocks()) {
            let head = open_head(&mut self.open, self.oldest_open, number);
            let mined = head.and_then(|head| head.mined.as_mut());
            if let Some(mined) = mined.filter(|mined| mined.block.is_same_as(block)) {
                mined.add_rewards(block, &GRADED_PERCENTILES, &self.percentiles);
            }
        }
    }

    /// Returns the seconds from the start to `now`.
    fn seconds_until(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.started).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// Opens all numbers up to the new head. Removes the blocks above it.
    fn move_to(&mut self, newest: u64) {
        let is_far = newest.saturating_sub(self.newest) > MAX_JUMP;
        self.newest = newest;
        while is_far && !self.open.is_empty() {
            self.close_oldest();
        }
        if self.open.is_empty() || newest < self.oldest_open {
            self.open.clear();
            self.oldest_open = newest;
        }
        let known = self.known();
        self.open.resize(self.open.len().max(known), OpenHead::default());
        for head in self.open.iter_mut().skip(known) {
            head.mined = None;
        }
    }

    /// Number of open heads up to the newest one. A reorg leaves quotes above it.
    fn known(&self) -> usize {
        let older = self.newest.saturating_sub(self.oldest_open);
        usize::try_from(older).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Grades the oldest open head for good.
    fn close_oldest(&mut self) {
        let graded = self.grade_open(0);
        self.open.pop_front();
        self.oldest_open = self.oldest_open.saturating_add(1);
        self.totals.count(graded.as_ref().map(|head| &head.grade));
        self.graded.push(graded);
    }

    /// Grades the quote at this index of the open heads by the blocks that are known; `None`: there is no quote.
    fn grade_open(&self, index: usize) -> Option<GradedHead> {
        let (quote, published_after) = self.open.get(index)?.quote?;
        let is_newest = self.oldest_open.checked_add(u64::try_from(index).ok()?)? >= self.newest;
        let after = |distance: usize| self.open.get(index.checked_add(distance)?)?.mined.as_ref();
        let grade = grade(&quote, after, is_newest, &self.percentiles);
        Some(GradedHead { grade, published_after, skipped: 0 })
    }
}

impl GradedHeads {
    /// Appends the next number; `None`: it has no quote. Such numbers count if there is an older quote.
    fn push(&mut self, graded: Option<GradedHead>) {
        if let Some(graded) = graded {
            if self.0.len() >= MAX_QUOTES {
                self.0.pop_front();
            }
            self.0.push_back(graded);
        } else if let Some(last) = self.0.back_mut() {
            last.skipped = last.skipped.saturating_add(1);
        }
    }

    fn forget_old(&mut self, now: u32) {
        let is_old = |head: &GradedHead| {
            u64::from(now.saturating_sub(head.published_after)) > WINDOW.as_secs()
        };
        while self.0.len() > MIN_QUOTES && self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }
}

fn open_head(open: &mut VecDeque<OpenHead>, oldest: u64, number: u64) -> Option<&mut OpenHead> {
    open.get_mut(usize::try_from(number.checked_sub(oldest)?).ok()?)
}

/// Returns the reward percentiles that quotes are graded by, in ascending order.
fn graded_percentiles(pricing: &Pricing, has_readings: bool) -> Vec<f64> {
    let mut all: Vec<f64> = pricing.percentiles().iter().collect();
    all.extend(GRADED_PERCENTILES.iter().filter(|_| has_readings));
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
