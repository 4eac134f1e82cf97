//! Fills gaps of the fee trend of a chain with blocks that were mined before the service started, or while it was stopped.
//!
//! One task per chain starts with the first data. It walks over the blocks by `eth_feeHistory`, from new to old, and
//! dates them by headers: the first block of each call exactly, and those up to the next known block evenly. First comes
//! the gap between the database and the first poll, or everything before the poll without a database. Then come missing
//! hours, the newest first, as far as the node has them. The tip at each block is computed from the blocks up to it, as
//! it would have been suggested.
//!
//! Each call repeats the oldest block of the call before, or of the polls. A reply that cannot be the past of what is
//! known is not used, and its upstream is not called again. Nothing that was observed or restored changes, see
//! [`FeeTrend::refill`].
//!
//! A failure ends the task, and what it has added stays. The service does not wait for it.

mod past_blocks;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{
    DAYS_IN_MEMORY, DatedBlock, FeeTrend, MAX_CLOCK_DIFFERENCE, PastSpan, RefilledHour, Trends,
};
use crate::extras::reads::ReadNodes;
use crate::fees::FeeHistory;
use crate::fees::plausibility::{self, KnownBlock};
use crate::nodes::FeeHistoryRequest;
use crate::observe::memory_budget::MemoryBudget;
use crate::store::{StoredChain, seconds_since_1970};
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
    /// Newest block before the first poll, and its time in seconds since 1970.
    newest_known: Option<(u64, u32)>,
    turns: Arc<Semaphore>,
}

/// Lower end of a walk.
#[derive(Debug, Clone, Copy)]
struct Floor {
    /// First block that is wanted.
    number: u64,
    /// First second that is wanted.
    time: u64,
    /// The known block below, if there is one.
    known: Option<KnownBlock>,
}

impl HistoryRefill {
    /// Creates the filler, before the first poll of `chain`. At most as many run at a time as there are `turns`. Replies
    /// are charged to `memory`.
    pub(crate) fn new(
        chain: &StoredChain,
        trends: &Trends,
        upstreams: &Arc<ReadNodes>,
        memory: &MemoryBudget,
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
            memory: memory.clone(),
            request: FeeHistoryRequest::new(&config.pricing.for_whole_histories()),
            retry_wait: RETRY_WAIT.max(pause),
            rejected: Vec::new(),
        };
        let newest_known = trends.with(chain, FeeTrend::expect_samples);
        let (chain, trends, turns) = (chain.clone(), trends.clone(), Arc::clone(turns));
        Self { chain, trends, blocks, pause, newest_known, turns }
    }

    /// Fills the trend once, then waits for ever. Dropping the future ends it.
    pub(crate) async fn run(mut self) -> Infallible {
        let key = self.chain.config().key.clone();
        let outcome = self.fill().await;
        let oldest = self.trends.with(&self.chain, |trend| trend.oldest_hour());
        let now = seconds_since_1970();
        let hours = oldest.map_or(0, |oldest| now.saturating_sub(oldest.into()) / HOUR);
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
        let oldest_polled = self.oldest_recent_block();
        let turns = Arc::clone(&self.turns);
        let _turn = turns.acquire().await;
        let filled = self.fill_up_to(oldest_polled).await;
        self.trends.with(&self.chain, FeeTrend::finish_samples);
        let (head, oldest_wanted) = filled?;
        self.fill_missing_hours(head, oldest_wanted).await
    }

    /// Fills what is missing between the history file and the first block of the first poll, or all before that block.
    /// Returns the newest block, and the first second that is kept.
    async fn fill_up_to(
        &mut self,
        oldest_polled: Option<KnownBlock>,
    ) -> Result<(DatedBlock, u64), RefillError> {
        let head = self.head().await?;
        let days = u64::from(self.trends.days.min(DAYS_IN_MEMORY));
        let oldest_wanted = (head.time - head.time % HOUR + HOUR).saturating_sub(days * DAY);
        let above = oldest_polled.ok_or(RefillError::NoHead)?;
        let newest_known = self.newest_known;
        if newest_known.is_some_and(|(number, _)| number.saturating_add(1) >= above.number) {
            return Ok((head, oldest_wanted));
        }
        let time = self.blocks.time(above.number).await?.ok_or(RefillError::NoHistory)?;
        let earliest = newest_known.map_or(0, |(_, time)| time);
        let (refilled, base_fee) = self.trends.with(&self.chain, |trend| {
            let refilled = trend.start_samples(above.number, oldest_wanted, earliest);
            (refilled, newest_known.and_then(|(number, _)| trend.base_fee(number)))
        });
        let floor = Floor {
            number: newest_known.map_or(FIRST_BLOCK, |(number, _)| number.saturating_add(1)),
            time: oldest_wanted,
            known: newest_known.zip(base_fee).map(|((number, _), base_fee)| KnownBlock {
                number,
                lowest_base_fee: base_fee.into(),
                highest_base_fee: base_fee.into(),
            }),
        };
        self.walk(above, time, floor, refilled).await?;
        Ok((head, oldest_wanted))
    }

    /// Fills hours before those that are known, and between them.
    async fn fill_missing_hours(
        &mut self,
        head: DatedBlock,
        oldest_wanted: u64,
    ) -> Result<(), RefillError> {
        let block_time = self.chain.config().block_time;
        let mut end = u64::MAX;
        loop {
            let gap = self.trends.with(&self.chain, |trend| trend.gap_before(end, oldest_wanted));
            let Some(gap) = gap else { return Ok(()) };
            end = gap.from;
            let known_from = u64::from(gap.next.first);
            let mut first = self.blocks.first_from(known_from, head, block_time).await?;
            if first.time / HOUR > known_from / HOUR {
                // Polls see a block later than its header says. So the known block may be the one before.
                first = self.block_before(first).await?;
            }
            // The node may not have the headers of that time.
            if first.time / HOUR != known_from / HOUR {
                return Err(RefillError::NoHistory);
            }
            let above = KnownBlock {
                number: first.number,
                lowest_base_fee: gap.next.base_fee.min.into(),
                highest_base_fee: gap.next.base_fee.max.into(),
            };
            let floor = Floor { number: FIRST_BLOCK, time: gap.from, known: None };
            let refilled = self.trends.with(&self.chain, |trend| trend.start_gap(&gap));
            self.walk(above, first.time, floor, refilled).await?;
        }
    }

    async fn block_before(&self, block: DatedBlock) -> Result<DatedBlock, RefillError> {
        let number = block.number.checked_sub(1).ok_or(RefillError::NoHistory)?;
        let time = self.blocks.time(number).await?.ok_or(RefillError::NoHistory)?;
        Ok(DatedBlock { number, time })
    }

    /// Adds the blocks below the known block `above`, down to `floor`, the newest first.
    async fn walk(
        &mut self,
        above: KnownBlock,
        time: u64,
        floor: Floor,
        mut refilled: RefilledHour,
    ) -> Result<(), RefillError> {
        let walked = self.walk_down(above, time, floor, &mut refilled).await;
        // A failure loses nothing that was read.
        self.trends.with(&self.chain, |trend| trend.finish_refill(&refilled));
        walked
    }

    async fn walk_down(
        &mut self,
        mut above: KnownBlock,
        mut time: u64,
        floor: Floor,
        refilled: &mut RefilledHour,
    ) -> Result<(), RefillError> {
        let chain = self.chain.clone();
        let pricing = &chain.config().pricing.for_whole_histories();
        // Each call has the blocks that the tip of its first one depends on.
        let overlap = self.blocks_before();
        let mut per_call = BLOCKS_PER_CALL.max(2 * overlap);
        while above.number > floor.number && time > floor.time {
            // The known blocks at both ends are compared.
            let oldest = floor.number.saturating_sub(to_u64(overlap.max(1)));
            let wanted = (above.number - oldest).saturating_add(1);
            let count = per_call.min(usize::try_from(wanted).unwrap_or(usize::MAX));
            let span = match self.blocks.history(above.number, count).await? {
                Some((upstream, history)) => {
                    let known: Vec<_> = [above].into_iter().chain(floor.known).collect();
                    if !plausibility::is_plausible_past(&history, &known, pricing) {
                        self.blocks.reject(upstream, &chain.config().key)?;
                        continue;
                    }
                    first_priced(&history, overlap)
                        .map(|first| first.max(floor.number))
                        .filter(|first| *first < above.number)
                        .map(|first| (history, first))
                }
                None => None,
            };
            let dated = match &span {
                Some((_, first)) => self.blocks.time_with_source(*first).await?,
                None => None,
            };
            let (Some((history, number)), Some((upstream, first_time))) = (span, dated) else {
                // The node may limit the number of blocks, may be slow, or has no older ones.
                per_call = shortened(count, overlap).ok_or(RefillError::NoHistory)?;
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
            self.trends.with(&chain, |trend| trend.refill(refilled, &samples));
            let base_fee = history.base_fee(number).ok_or(RefillError::NoHistory)?;
            above = KnownBlock { number, lowest_base_fee: base_fee, highest_base_fee: base_fee };
            time = first_time;
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }

    /// Returns the oldest block that polls have read, without a gap up to the newest one.
    fn oldest_recent_block(&self) -> Option<KnownBlock> {
        // Blocks below these may come from another reading, which the trend does not observe.
        let count = self.chain.config().pricing.window_blocks.get();
        let (_, window) = self.chain.snapshot_with_blocks(count).ok()?;
        let base_fee = window.blocks.first()?.base_fee;
        let later = to_u64(window.blocks.len()).saturating_sub(1);
        Some(KnownBlock {
            number: window.newest_block.checked_sub(later)?,
            lowest_base_fee: base_fee,
            highest_base_fee: base_fee,
        })
    }

    /// Number of blocks before a block that its tip depends on.
    fn blocks_before(&self) -> usize {
        self.chain.config().pricing.history_blocks().saturating_sub(1)
    }

    /// Returns the newest block, if its time agrees with the clock.
    async fn head(&self) -> Result<DatedBlock, RefillError> {
        let number = self.chain.newest_block().ok_or(RefillError::NoHead)?;
        let time = self.blocks.time(number).await?.ok_or(RefillError::NoHead)?;
        if time.abs_diff(seconds_since_1970()) > MAX_CLOCK_DIFFERENCE {
            return Err(RefillError::Clock);
        }
        Ok(DatedBlock { number, time })
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
