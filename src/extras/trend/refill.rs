//! Fills the fee trend of a chain with blocks that were mined before the service started, or while it was stopped.
//!
//! One task per chain starts with the first data. It walks over the blocks by `eth_feeHistory`, from new to old, as far as
//! the node has them, down to the first hour of the week that is not known, or to the newest one of the database. It dates
//! them by headers: the first block of each call exactly, and those up to the next known block evenly. The tip at each block
//! is computed from the blocks up to it, as it would have been suggested.
//!
//! The first call repeats the polled blocks, and each later one the oldest block of the call before. A reply that cannot be the past of what is
//! known is not used, and its upstream is not called again. See [`FeeTrend::refill`](super::FeeTrend::refill) for what changes.
//!
//! A failure ends the task, and what it has added stays. The service does not wait for it.

mod past_blocks;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{
    DatedBlock, MAX_CLOCK_DIFFERENCE, PastSpan, Period, RefilledHours, Trends, seconds_since_1970,
};
use crate::extras::reads::ReadNodes;
use crate::fees::FeeHistory;
use crate::fees::plausibility::{self, KnownBlock};
use crate::nodes::FeeHistoryRequest;
use crate::store::StoredChain;
use past_blocks::{PastBlocks, RefillError};

/// Number of chains that are filled at the same time. Each holds an hour of blocks meanwhile.
pub(crate) const MAX_CONCURRENT: usize = 8;

/// Blocks of one call. geth returns up to 1,024; half of that takes a node less than a second.
const BLOCKS_PER_CALL: usize = 512;

/// Longest pause between two calls of `eth_feeHistory`. It is a block time on a faster chain, which has more blocks.
const PAUSE: Duration = Duration::from_millis(500);

/// Shortest wait after a failed call.
const RETRY_WAIT: Duration = Duration::from_millis(200);

/// Oldest block that is read: the one after the genesis block, which may have no time.
const FIRST_BLOCK: u64 = 1;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Filler of one chain's trend.
#[derive(Debug)]
pub(crate) struct HistoryRefill {
    chain: StoredChain,
    trends: Trends,
    blocks: PastBlocks,
    pause: Duration,
    /// Known hours before this second are complete.
    complete_until: u32,
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
        let blocks = PastBlocks {
            upstreams: Arc::clone(upstreams),
            request: FeeHistoryRequest::new(&config.pricing.for_whole_histories()),
            retry_wait: RETRY_WAIT.max(pause),
            rejected: Vec::new(),
        };
        let complete_until = trends.with(chain, |trend| trend.newest_closed_hour());
        let (chain, trends, turns) = (chain.clone(), trends.clone(), Arc::clone(turns));
        Self { chain, trends, blocks, pause, complete_until, turns }
    }

    /// Fills the trend once, then waits for ever. Dropping the future ends it.
    pub(crate) async fn run(mut self) -> Infallible {
        let key = self.chain.config().key.clone();
        let outcome = self.fill().await;
        let now = seconds_since_1970();
        let shown = self.trends.with(&self.chain, |trend| trend.buckets(Period::Week, now));
        let hours = shown.first().map_or(0, |hour| now.saturating_sub(hour.first.into()) / HOUR);
        match outcome {
            Ok(()) => tracing::info!(chain = key, hours, "fee trend filled from fee history"),
            Err(error) => {
                let reason = error.to_string();
                let message = "fee trend not filled further from fee history";
                tracing::info!(chain = key, hours, reason, "{message}");
            }
        }
        std::future::pending().await
    }

    async fn fill(&mut self) -> Result<(), RefillError> {
        self.chain.first_data().await;
        let turns = Arc::clone(&self.turns);
        let _turn = turns.acquire().await;
        let (head, time) = self.head().await?;
        let days = u64::from(self.trends.days);
        let oldest = (time - time % HOUR + HOUR).saturating_sub(days * DAY);
        let mut hours = self.trends.with(&self.chain, |trend| {
            trend.start_refill(head.number, oldest, self.complete_until)
        });
        let walked = self.walk(head, time, &mut hours).await;
        // A failure loses nothing that was read.
        self.trends.with(&self.chain, |trend| trend.finish_refill(&mut hours));
        walked
    }

    /// Adds the blocks below the known block `above`, the newest first.
    async fn walk(
        &mut self,
        mut above: KnownBlock,
        mut time: u64,
        hours: &mut RefilledHours,
    ) -> Result<(), RefillError> {
        let chain = self.chain.clone();
        let pricing = &chain.config().pricing.for_whole_histories();
        // Each call has the blocks that the tip of its first one depends on.
        let overlap = chain.config().pricing.history_blocks().saturating_sub(1);
        let mut per_call = BLOCKS_PER_CALL.max(2 * overlap);
        while above.number > FIRST_BLOCK && time > hours.from.into() {
            let all = usize::try_from(above.number.saturating_add(1)).unwrap_or(usize::MAX);
            let span = match self.blocks.history(above.number, per_call.min(all)).await? {
                Some((upstream, history)) => {
                    if !plausibility::is_plausible_past(&history, above, pricing) {
                        self.blocks.reject(upstream, &chain.config().key)?;
                        continue;
                    }
                    let first = first_priced(&history, overlap);
                    first.filter(|first| *first < above.number).map(|first| (history, first))
                }
                None => None,
            };
            let dated = match &span {
                Some((_, first)) => self.blocks.time_with_source(*first).await?,
                None => None,
            };
            let (Some((history, number)), Some((upstream, first_time))) = (span, dated) else {
                // The node may limit the number of blocks, may be slow, or has no older ones.
                per_call = shortened(per_call.min(all), overlap).ok_or(RefillError::NoHistory)?;
                continue;
            };
            if first_time > time {
                self.blocks.reject(upstream, &chain.config().key)?;
                continue;
            }
            let first = DatedBlock { number, time: first_time };
            let span = PastSpan {
                history: &history,
                first,
                above: DatedBlock { number: above.number, time },
            };
            let samples = span.samples(pricing);
            self.trends.with(&chain, |trend| trend.refill(hours, &samples));
            let base_fee = history.base_fee(number).ok_or(RefillError::NoHistory)?;
            above = KnownBlock { number, base_fee };
            time = first_time;
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }

    /// Returns the newest block and its time, if that agrees with the clock.
    async fn head(&self) -> Result<(KnownBlock, u64), RefillError> {
        let newest = self.chain.snapshot_with_blocks(1).ok();
        let (_, newest) = newest.ok_or(RefillError::NoHead)?;
        let number = newest.newest_block;
        let base_fee = newest.blocks.last().ok_or(RefillError::NoHead)?.base_fee;
        let time = self.blocks.time(number).await?.ok_or(RefillError::NoHead)?;
        let agrees = time.abs_diff(seconds_since_1970()) <= MAX_CLOCK_DIFFERENCE;
        agrees.then_some((KnownBlock { number, base_fee }, time)).ok_or(RefillError::Clock)
    }
}

/// Returns the first block that has all blocks before it that its tip depends on.
fn first_priced(history: &FeeHistory, overlap: usize) -> Option<u64> {
    match history.oldest_block() {
        0 => Some(FIRST_BLOCK),
        oldest => oldest.checked_add(to_u64(overlap)),
    }
}

/// Returns a smaller number of blocks to request; `None`: fewer have no new block.
fn shortened(count: usize, overlap: usize) -> Option<usize> {
    let least = overlap.saturating_add(1);
    let shorter = least.saturating_add(count.saturating_sub(least) / 2);
    (shorter > least && shorter < count).then_some(shorter)
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
