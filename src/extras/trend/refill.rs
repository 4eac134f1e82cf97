//! Fills the fee trend of a chain with blocks that were mined before the service started, or while it was stopped.
//!
//! One task per chain starts with the first data. It walks over the blocks by `eth_feeHistory`, from new to old, as far as
//! the node has them, down to the first hour of the week that is not known, or to the newest one of the database. It dates
//! them by headers: the first block of each call exactly, and those up to the next known block evenly. The tip at each block
//! is computed from the blocks up to it, as it would have been suggested.
//!
//! The first call repeats the polled blocks, and each later one the oldest block of the call before. A reply that cannot be
//! the past of what is known is not used, and its upstream is not called again. See
//! [`FeeTrend::refill`](super::FeeTrend::refill) for what changes.
//!
//! A failure ends the task, and what it has added stays. The service does not wait for it.

mod past_blocks;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::fill::RefilledHours;
use super::observation::{DatedBlock, past_samples};
use super::{DAY, HOUR, MAX_CLOCK_DIFFERENCE, Period, Trends, seconds_since_1970};
use crate::extras::reads::ReadNodes;
use crate::fees::Pricing;
use crate::store::StoredChain;
use past_blocks::RefillError;

/// Number of chains that are filled at the same time. Each holds an hour of blocks meanwhile.
pub(crate) const MAX_CONCURRENT: usize = 8;

/// Blocks of one call. geth returns up to 1,024; half of that takes a node less than a second.
const BLOCKS_PER_CALL: usize = 512;

/// Longest pause between two calls of `eth_feeHistory`. It is a block time on a faster chain, which has more blocks.
const PAUSE: Duration = Duration::from_millis(500);

/// Oldest block that is read: the one after the genesis block, which may have no time.
const FIRST_BLOCK: u64 = 1;

/// Filler of one chain's trend.
#[derive(Debug)]
pub(crate) struct HistoryRefill {
    chain: StoredChain,
    trends: Trends,
    upstreams: Arc<ReadNodes>,
    /// Its percentiles are those of the blocks that are read.
    pricing: Pricing,
    pause: Duration,
    /// Indices of the upstreams that contradicted known blocks. They are not called again.
    rejected: Vec<usize>,
    hours: RefilledHours,
    turns: Arc<Semaphore>,
}

impl HistoryRefill {
    /// Creates the filler, before the first poll of `chain`. At most as many run at a time as there are `turns`.
    pub(crate) fn new(
        chain: &StoredChain,
        trends: &Trends,
        upstreams: &Arc<ReadNodes>,
        turns: &Arc<Semaphore>,
    ) -> Self {
        let config = chain.config();
        // Two calls a pause; half of the budget is left to clients.
        let limits = config
            .upstream_urls()
            .into_iter()
            .filter_map(|url| config.reads_per_minute_of(url.url()));
        let of_budget = limits.min().map(|limit| Duration::from_mins(4) / limit.get());
        let pause = PAUSE.min(config.block_time).max(of_budget.unwrap_or_default());
        Self {
            chain: chain.clone(),
            trends: trends.clone(),
            upstreams: Arc::clone(upstreams),
            pricing: config.pricing.for_whole_histories(),
            pause,
            rejected: Vec::new(),
            hours: trends.trend(chain).known_hours(),
            turns: Arc::clone(turns),
        }
    }

    /// Fills the trend once, then waits for ever. Dropping the future ends it.
    pub(crate) async fn run(mut self) -> Infallible {
        let outcome = self.fill().await;
        let chain = self.chain.config().key.as_str();
        let now = seconds_since_1970();
        let shown = self.trends.trend(&self.chain).buckets(Period::Week, now);
        let oldest = shown.first().map_or(now, |hour| hour.first.into());
        let hours = now.saturating_sub(oldest) / u64::from(HOUR);
        match outcome {
            Ok(()) => tracing::info!(chain, hours, "fee trend filled from fee history"),
            Err(error) => {
                let reason = error.to_string();
                let message = "fee trend not filled further from fee history";
                tracing::info!(chain, hours, reason, "{message}");
            }
        }
        std::future::pending().await
    }

    async fn fill(&mut self) -> Result<(), RefillError> {
        self.chain.first_data().await;
        let _turn = Arc::clone(&self.turns).acquire_owned().await;
        let head = self.head().await?;
        let (hour, kept) = (u64::from(HOUR), u64::from(self.trends.days * DAY));
        let oldest = (head.time - head.time % hour + hour).saturating_sub(kept);
        self.trends.trend(&self.chain).start_refill(&mut self.hours, head.number, oldest);
        let walked = self.walk(head).await;
        // A failure loses nothing that was read.
        self.trends.trend(&self.chain).finish_refill(std::mem::take(&mut self.hours));
        walked
    }

    /// Returns the newest block, if its time agrees with the clock.
    async fn head(&self) -> Result<DatedBlock, RefillError> {
        let newest = self.chain.snapshot_with_blocks(1);
        let (_, newest) = newest.map_err(|_| RefillError::NoHead)?;
        let number = newest.newest_block;
        let base_fee = newest.blocks.last().ok_or(RefillError::NoHead)?.base_fee;
        let (_, time) = self.time(number).await?.ok_or(RefillError::NoHead)?;
        let agrees = time.abs_diff(seconds_since_1970()) <= MAX_CLOCK_DIFFERENCE;
        agrees.then_some(DatedBlock { number, base_fee, time }).ok_or(RefillError::Clock)
    }

    /// Adds the blocks below the known block `above`, the newest first.
    async fn walk(&mut self, mut above: DatedBlock) -> Result<(), RefillError> {
        // Each call has the blocks that the tip of its first one depends on.
        let overlap = self.pricing.history_blocks().saturating_sub(1);
        let mut per_call = BLOCKS_PER_CALL.max(2 * overlap);
        while above.number > FIRST_BLOCK && above.time > self.hours.from.into() {
            let all = usize::try_from(above.number.saturating_add(1)).unwrap_or(usize::MAX);
            let count = per_call.min(all);
            let Some((history, first)) = self.read_below(above, count, overlap).await? else {
                // The node may limit the number of blocks, may be slow, or has no older ones.
                per_call = shortened(count, overlap).ok_or(RefillError::NoHistory)?;
                continue;
            };
            let samples = past_samples(&history, first, above, &self.pricing);
            self.trends.trend(&self.chain).refill(&mut self.hours, &samples);
            above = first;
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }
}

/// Returns a smaller number of blocks to request; `None`: fewer have no new block.
fn shortened(count: usize, overlap: usize) -> Option<usize> {
    let least = overlap.saturating_add(1);
    let shorter = least.saturating_add(count.saturating_sub(least) / 2);
    (shorter > least && shorter < count).then_some(shorter)
}
