//! A second, slow reading of the rewards that polls do not request: the asks of blocks. The calibrated tips are made of
//! them, and quotes are graded by them. No poll waits for it.
//!
//! A reading is due when a block whose number is a multiple of the interval was published and is not read yet: at the
//! start, after a gap and after a reorganisation too, which leave blocks unread. A failed one is tried again after the next
//! such block. Readings are reads of the service itself: they are counted in the nodes' read budgets.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::fees::FeeHistory;
use crate::nodes::{ChainUpstreams, FeeHistoryRequest, ReadError, ServiceReads};
use crate::store::StoredChain;

/// Readings of one chain.
#[derive(Debug)]
pub(crate) struct RewardReadings {
    /// Number of blocks between two readings.
    interval: NonZeroU64,
    /// Largest number of blocks that are read at a time.
    max_blocks: usize,
    reader: Reader,
    /// The reading in progress. It ends with the poller.
    running: JoinSet<(u64, Result<FeeHistory, ReadFailure>)>,
    /// Notified when a reading has ended well.
    ended: Arc<Notify>,
    /// Newest block of the last reading, if it failed.
    failed_at: Option<u64>,
    /// Head at which the last reading began.
    began_at: Option<u64>,
    /// True if the last reading was of no use for other reasons than an outage: then it is not repeated for all blocks.
    is_refused: bool,
}

/// Reader of rewards from the nodes of one chain.
#[derive(Debug, Clone)]
struct Reader {
    upstreams: Arc<ChainUpstreams>,
    reads: Arc<dyn ServiceReads>,
}

/// A reading that has ended.
#[derive(Debug)]
pub(crate) struct EndedReading {
    /// Newest block that was asked for.
    pub(crate) newest: u64,
    pub(crate) outcome: Result<FeeHistory, ReadFailure>,
}

/// Reason why rewards were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadFailure {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("the node refuses the call")]
    Refused,
    #[error("the reply is not a fee history of these blocks")]
    Unusable,
    #[error("the reply contradicts the known blocks")]
    Contradiction,
}

impl RewardReadings {
    /// Most blocks of a reading: geth returns no more in one call.
    const MAX_BLOCKS: usize = 1024;

    /// Creates the readings of a chain; `None`: there are none.
    pub(crate) fn new(
        chain: &StoredChain,
        upstreams: &Arc<ChainUpstreams>,
        reads: Arc<dyn ServiceReads>,
    ) -> Option<Self> {
        let config = chain.config();
        Some(Self {
            interval: config.reading_interval()?,
            max_blocks: config.history_blocks.get().min(Self::MAX_BLOCKS),
            reader: Reader { upstreams: Arc::clone(upstreams), reads },
            running: JoinSet::new(),
            ended: Arc::default(),
            failed_at: None,
            began_at: None,
            is_refused: false,
        })
    }

    /// Starts a reading if one is due and none is running. With `is_shared` another replica reads the newest blocks, so
    /// that only older ones are read.
    pub(crate) fn start_if_due(&mut self, chain: &StoredChain, is_shared: bool) {
        let Some(head) = chain.newest_block().filter(|_| self.running.is_empty()) else { return };
        let interval = usize::try_from(self.interval.get()).unwrap_or(usize::MAX);
        // After a start the multiple may be below the first poll.
        let is_long_ago = |began: u64| head < began || head - began >= self.interval.get();
        let or_head = self.began_at.is_none_or(is_long_ago).then_some(head);
        let unread = chain.read_together(|recent| {
            let unread = |newest| Some((newest, recent.unread(newest, self.max_blocks)?));
            [head - head % self.interval].into_iter().chain(or_head).find_map(unread)
        });
        let Some((newest, mut unread)) = unread else { return };
        // Where something was read, all after it is read, so that no hole remains.
        if self.is_refused && unread >= self.max_blocks {
            unread = interval.min(self.max_blocks);
        }
        let left_to_others = if is_shared { interval.saturating_mul(2) } else { 0 };
        if unread <= left_to_others || self.failed_at == Some(newest) {
            return;
        }
        self.began_at = Some(head);
        let (reader, ended) = (self.reader.clone(), Arc::clone(&self.ended));
        self.running.spawn(async move {
            let outcome = reader.read(newest, unread).await;
            if outcome.is_ok() {
                ended.notify_one();
            }
            (newest, outcome)
        });
    }

    /// Waits until a reading has ended well. Dropping the future changes nothing.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns the reading that has ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Option<EndedReading> {
        let (newest, outcome) = self.running.try_join_next()?.ok()?;
        Some(EndedReading { newest, outcome })
    }

    /// Records what became of the reading up to this block.
    pub(crate) fn record(&mut self, newest: u64, outcome: Result<(), ReadFailure>) {
        self.failed_at = outcome.is_err().then_some(newest);
        self.is_refused = outcome.is_err_and(|error| !error.is_outage());
    }

    /// Number of blocks between two readings.
    pub(crate) fn interval(&self) -> u64 {
        self.interval.get()
    }
}

impl Reader {
    /// Deadline of a call, over all upstreams.
    const TIMEOUT: Duration = Duration::from_secs(15);
    /// Most calls of one reading, however few blocks a node returns.
    const MAX_CALLS: usize = 64;
    /// A call for fewer blocks is not repeated with even fewer.
    const MIN_BLOCKS: usize = 16;

    /// Reads the `count` blocks up to `newest`, or fewer if the nodes do not return more.
    async fn read(&self, newest: u64, count: usize) -> Result<FeeHistory, ReadFailure> {
        let mut read: Option<FeeHistory> = None;
        let mut per_call = count;
        for _ in 0..Self::MAX_CALLS {
            let known = read.as_ref().map_or(0, |read| read.blocks().len());
            let from = read.as_ref().map_or(newest, FeeHistory::oldest_block);
            let left = count.saturating_sub(known);
            if left == 0 || (read.is_some() && from == 0) {
                break;
            }
            // The oldest known block is repeated, so that the two can be compared.
            let wanted = left.saturating_add(usize::from(read.is_some())).min(per_call);
            match (self.call(from, wanted).await, read.take()) {
                (Ok(older), None) => read = Some(older),
                (Ok(older), Some(newer)) => {
                    let joined = newer.after(&older, count);
                    let is_longer = joined.blocks().len() > known;
                    read = Some(joined);
                    if !is_longer {
                        break;
                    }
                }
                // A node may limit the number of blocks, or be slow.
                (Err(error), newer) => {
                    read = newer;
                    if !error.may_be_size() || per_call <= Self::MIN_BLOCKS {
                        return read.ok_or(error);
                    }
                    per_call = wanted.div_ceil(2).max(Self::MIN_BLOCKS);
                }
            }
        }
        read.ok_or(ReadFailure::Unusable)
    }

    /// Reads the `count` blocks up to `newest` in one call. The node may return fewer.
    async fn call(&self, newest: u64, count: usize) -> Result<FeeHistory, ReadFailure> {
        let request = FeeHistoryRequest::for_asks(newest, count);
        let (method, params) = ("eth_feeHistory", self.upstreams.fee_history_params(&request));
        let read = self.reads.read_for_service(method, params, Self::TIMEOUT).await?;
        let result = read.ok_or(ReadFailure::Refused)?;
        let json: &RawValue = serde_json::from_slice(&result).map_err(|_| ReadFailure::Unusable)?;
        let history = request.parse(json).map_err(|_| ReadFailure::Unusable)?;
        if history.newest_block() == newest { Ok(history) } else { Err(ReadFailure::Unusable) }
    }
}

impl ReadFailure {
    /// Returns true if the same reading may succeed later.
    fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Read(
                ReadError::RateLimited(_)
                    | ReadError::BudgetExhausted(_)
                    | ReadError::NoMemory
                    | ReadError::Unavailable
            )
        )
    }

    /// Returns true if a call for fewer blocks may succeed.
    fn may_be_size(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Unusable | Self::Read(ReadError::TooLarge | ReadError::TimedOut)
        )
    }
}
