//! Fills the fee trend of a chain with blocks that were mined before the service started, or while it was stopped.
//!
//! One task per chain starts with the first data. It walks over the blocks by `eth_feeHistory`, from old to new, and
//! dates them by headers: the last block of each call exactly, and the ones before it evenly. First comes the gap after
//! the history file, or the last 24 hours without one. Then come older days, the newest first, as far as the node has
//! them. The tip at each block is computed from the blocks up to it, as it would have been suggested.
//!
//! A failure ends the task, and what it has added stays. The service does not wait for it.

mod past_blocks;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::fee_trend::{FeeTrend, Observation};
use crate::memory_budget::MemoryBudget;
use crate::store::{BlockWindow, StoredChain, seconds_since_1970};
use crate::upstream::{ChainUpstreams, FeeHistoryRequest};
use past_blocks::{DatedBlock, PastBlocks, RefillError};

/// Number of chains that are filled at the same time. Each holds a second trend meanwhile.
pub(crate) const MAX_CONCURRENT: usize = 8;

/// Blocks of one call. geth returns up to 1,024; half of that takes a node less than a second.
const BLOCKS_PER_CALL: usize = 512;

/// Longest pause between two calls of `eth_feeHistory`. It is a block time on a faster chain, which has more blocks.
const PAUSE: Duration = Duration::from_millis(500);

/// Shortest wait after a failed call.
const RETRY_WAIT: Duration = Duration::from_millis(200);

/// Difference between the times of blocks and the clock from which on nothing is filled.
const MAX_CLOCK_DIFFERENCE: u64 = 600;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Filler of one chain's trend.
#[derive(Debug)]
pub(crate) struct HistoryRefill {
    chain: StoredChain,
    blocks: PastBlocks,
    pause: Duration,
    /// The trend before the first poll.
    known: FeeTrend,
    turns: Arc<Semaphore>,
}

impl HistoryRefill {
    /// Creates the filler, before the first poll of `chain`. At most as many run at a time as there are `turns`. Replies
    /// are charged to `memory`.
    pub(crate) fn new(
        chain: &StoredChain,
        upstreams: &Arc<ChainUpstreams>,
        memory: &MemoryBudget,
        turns: &Arc<Semaphore>,
    ) -> Self {
        let config = chain.config();
        // Two calls a pause; half of the budget is left to clients.
        let of_budget = Duration::from_mins(4).checked_div(config.reads_per_minute);
        let pause = PAUSE.min(config.block_time).max(of_budget.unwrap_or_default());
        let blocks = PastBlocks {
            upstreams: Arc::clone(upstreams),
            memory: memory.clone(),
            request: FeeHistoryRequest::new(&config.pricing),
            retry_wait: RETRY_WAIT.max(pause),
        };
        let known = chain.with_fee_trend(|trend| trend.clone());
        Self { chain: chain.clone(), blocks, pause, known, turns: Arc::clone(turns) }
    }

    /// Fills the trend once, then waits for ever. Dropping the future ends it.
    pub(crate) async fn run(mut self) -> Infallible {
        let key = self.chain.config().key.clone();
        let outcome = self.fill().await;
        let oldest = self.chain.with_fee_trend(|trend| trend.oldest_hour());
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
        let mut latest = self.chain.subscribe();
        // The sender lives as long as the chain.
        let _ = latest.wait_for(|state| state.snapshot.is_some()).await;
        drop(latest);
        let turns = Arc::clone(&self.turns);
        let _turn = turns.acquire().await;
        let head = self.head().await?;
        let block_time = self.chain.config().block_time;
        let days = u64::from(self.chain.config().history_days);
        let oldest_wanted = (head.time - head.time % HOUR + HOUR).saturating_sub(days * DAY);
        self.fill_gap(head, oldest_wanted).await?;
        // First block of the oldest hour, once it has been looked for.
        let mut oldest_block = None;
        loop {
            let oldest = self.chain.with_fee_trend(|trend| trend.oldest_hour());
            let Some(oldest) = oldest.map(u64::from).filter(|oldest| *oldest > oldest_wanted)
            else {
                return Ok(());
            };
            let from = oldest.saturating_sub(DAY).max(oldest_wanted);
            let end = match oldest_block {
                Some(block) => block,
                None => self.blocks.first_from(oldest, head, block_time).await?,
            };
            oldest_block = self.fill_older(from, end).await?;
            if oldest_block.is_none() {
                return Ok(());
            }
        }
    }

    /// Fills what is missing between the history file, or the day before, and the first poll.
    async fn fill_gap(&mut self, head: DatedBlock, oldest_wanted: u64) -> Result<(), RefillError> {
        let days = self.chain.config().history_days;
        let known = std::mem::replace(&mut self.known, FeeTrend::new(days));
        let window = self.chain.config().pricing.window_blocks.get();
        let day_ago = head.time.saturating_sub(DAY).max(oldest_wanted);
        let from = match known.newest() {
            // A file of a service that ran for less than a day.
            Some((_, time)) if !known.reaches_back_to(day_ago) => day_ago.min(time.into()),
            // The first poll had all blocks since.
            Some((number, _)) if number.abs_diff(head.number) < to_u64(window) => return Ok(()),
            Some((_, time)) => u64::from(time).max(oldest_wanted),
            None => day_ago,
        };
        let Some(first) = self.first_from(from - from % HOUR, head).await? else {
            return Ok(());
        };
        let mut refilled = Box::new(known);
        refilled.restart_at(first.time, first.number);
        let mut last = first;
        loop {
            let goal = self.chain.newest_block().unwrap_or(head.number);
            last = self.walk(&mut refilled, last, goal).await?;
            match self.chain.with_fee_trend(|trend| trend.replace_by(refilled)) {
                Ok(()) => return Ok(()),
                // An hour has ended since the walk.
                Err(returned) => refilled = returned,
            }
        }
    }

    /// Fills the hours from the second `from` to those of the block `end`. Returns their first block; `None`: there is
    /// nothing before them.
    async fn fill_older(
        &self,
        from: u64,
        end: DatedBlock,
    ) -> Result<Option<DatedBlock>, RefillError> {
        let Some(first) = self.first_from(from, end).await? else { return Ok(None) };
        if first.number >= end.number {
            return Ok(None);
        }
        let mut older = FeeTrend::new(self.chain.config().history_days);
        older.restart_at(first.time, first.number);
        self.walk(&mut older, first, end.number - 1).await?;
        let before = self.chain.with_fee_trend(|trend| {
            let before = trend.oldest_hour();
            trend.add_older(&older);
            before > trend.oldest_hour()
        });
        Ok(Some(first).filter(|first| before && first.time <= from.saturating_add(HOUR)))
    }

    /// Returns the first block from the second `time` on whose fee history can be read; `None`: there is none.
    async fn first_from(
        &self,
        time: u64,
        head: DatedBlock,
    ) -> Result<Option<DatedBlock>, RefillError> {
        let block_time = self.chain.config().block_time;
        let first = self.blocks.first_from(time, head, block_time).await?;
        let before = self.blocks_before();
        let number = self.blocks.first_with_history(first.number, head.number, before).await?;
        let number = number.ok_or(RefillError::NoHistory)?;
        if number == first.number {
            return Ok(Some(first));
        }
        Ok(self.blocks.time(number).await?.map(|time| DatedBlock { number, time }))
    }

    /// Adds the blocks from `first` to `goal`. Returns the last one.
    async fn walk(
        &self,
        trend: &mut FeeTrend,
        first: DatedBlock,
        goal: u64,
    ) -> Result<DatedBlock, RefillError> {
        let pricing = &self.chain.config().pricing;
        // Each call repeats the blocks that the first tip depends on.
        let overlap = self.blocks_before();
        let mut per_call = BLOCKS_PER_CALL.max(2 * overlap);
        let mut last = first;
        let mut next = first.number;
        while next <= goal {
            let end = next.saturating_add(to_u64(per_call.saturating_sub(overlap + 1))).min(goal);
            let count = usize::try_from(end - next).unwrap_or(usize::MAX).saturating_add(1);
            let history = self.blocks.history(end, count.saturating_add(overlap)).await?;
            let history = history.filter(|history| history.oldest_block() <= next);
            let (Some(history), Some(time)) = (history, self.blocks.time(end).await?) else {
                // The node may limit the number of blocks, or may be slow.
                per_call /= 2;
                if per_call <= overlap {
                    return Err(RefillError::NoHistory);
                }
                continue;
            };
            if time > seconds_since_1970().saturating_add(MAX_CLOCK_DIFFERENCE) {
                return Err(RefillError::Clock);
            }
            let distance = end.saturating_sub(last.number).max(1);
            let newest = end;
            trend.record(&Observation {
                history: &history,
                market: None,
                pricing,
                newest_time: time.saturating_mul(1000),
                block_time: time.saturating_sub(last.time).saturating_mul(1000) / distance,
                known_blocks: &|count| BlockWindow {
                    newest_block: newest,
                    blocks: history.newest(count).to_vec(),
                    next_base_fee: history.next_base_fee(),
                },
            });
            last = DatedBlock { number: end, time };
            next = end.saturating_add(1);
            tokio::time::sleep(self.pause).await;
        }
        Ok(last)
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

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
