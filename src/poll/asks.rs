//! The task that reads asks: the rewards that polls do not request. The calibrated tips are made of them, and quotes are
//! graded by them. No poll waits for it.
//!
//! A reading is due when a block whose number is a multiple of the interval was published and is not read yet: at the
//! start, after a gap and after a reorganisation too, which leave blocks unread. A failed one is tried again after the next
//! such block. Readings are reads of the service itself: they are counted in the nodes' read budgets.

use std::convert::Infallible;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};

use crate::fees::{FeeHistory, GRADED_PERCENTILES, plausibility};
use crate::nodes::{ChainUpstreams, FeeHistoryRequest, ReadError, ServiceReads};
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{ChainOutcomeLabels, Counter, Metrics};
use crate::store::Publisher;

/// Most blocks of a reading: geth returns no more in one call.
const MAX_BLOCKS: usize = 1024;

/// Deadline of a call, over all upstreams.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Most calls of one reading, however few blocks a node returns.
const MAX_CALLS: usize = 64;

/// A call for fewer blocks is not repeated with even fewer.
const MIN_CALL_BLOCKS: usize = 16;

/// A poller's end of the task that reads the asks of its chain.
#[derive(Debug)]
pub struct AskReadings {
    publications: watch::Sender<Published>,
    last: Arc<LastReading>,
    /// Number of newest blocks whose asks another process may not have yet.
    shared_blocks: usize,
}

/// The last publication.
#[derive(Debug, Clone, Default)]
struct Published {
    /// True if another process reads the newest blocks, so that only older ones are read.
    is_shared: bool,
    /// The last reading of that process.
    reading: Option<FeeHistory>,
}

/// The last reading that was of use.
#[derive(Debug, Default)]
struct LastReading {
    newest_blocks: Mutex<Option<FeeHistory>>,
    changed: Notify,
}

/// Reads the asks of one chain.
#[derive(Debug)]
pub struct AskReader {
    publisher: Publisher,
    publications: watch::Receiver<Published>,
    upstreams: Arc<ChainUpstreams>,
    reads: Arc<dyn ServiceReads>,
    last: Arc<LastReading>,
    /// Largest number of blocks of a reading.
    max_blocks: usize,
    /// Head at which the last reading began.
    began_at: Option<u64>,
    /// Newest block of the last reading, if it failed.
    failed_at: Option<u64>,
    /// True if the last reading was of no use for other reasons than an outage: then it is not repeated for all blocks.
    is_refused: bool,
    ok_counter: Counter,
    failed_counter: Counter,
    log: LogOnChange,
}

/// Reason why asks were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ReadFailure {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("the node refuses the call")]
    Refused,
    #[error("the reply is not a fee history of these blocks")]
    Unusable,
    #[error("the reply contradicts the known blocks")]
    Contradiction,
}

impl AskReadings {
    /// Creates the task for the chain of `publisher`, and the poller's end of it.
    #[must_use]
    pub fn new(
        publisher: &Publisher,
        upstreams: &Arc<ChainUpstreams>,
        reads: Arc<dyn ServiceReads>,
        metrics: &Metrics,
    ) -> (Self, AskReader) {
        let config = publisher.chain().config();
        // Counters begin at 0, so that an alert sees the first increment.
        let [ok_counter, failed_counter] = ["ok", "failed"].map(|outcome| {
            let labels = ChainOutcomeLabels { chain: config.key.clone(), outcome };
            metrics.reward_readings_total.get_or_create_owned(&labels)
        });
        let log = LogOnChange::default();
        log.changed_to(Ok(()));
        let (sender, publications) = watch::channel(Published::default());
        let reader = AskReader {
            publisher: publisher.clone(),
            publications,
            upstreams: Arc::clone(upstreams),
            reads,
            last: Arc::default(),
            max_blocks: config.history_blocks.get().min(MAX_BLOCKS),
            began_at: None,
            failed_at: None,
            is_refused: false,
            ok_counter,
            failed_counter,
            log,
        };
        let (last, shared_blocks) = (Arc::clone(&reader.last), reader.shared_blocks());
        (Self { publications: sender, last, shared_blocks }, reader)
    }

    /// Tells the task that a reply was published. With `is_shared` it came from another process, which reads the newest
    /// blocks and may have sent its last `reading`.
    pub(crate) fn record_published(&self, is_shared: bool, reading: Option<&FeeHistory>) {
        self.publications.send_replace(Published { is_shared, reading: reading.cloned() });
    }

    /// Waits until a reading was of use. Dropping the future changes nothing.
    pub(crate) async fn changed(&self) {
        self.last.changed.notified().await;
    }

    /// Returns the newest blocks of the last reading, if another process may not have them yet at this head.
    pub(crate) fn new_reading(&self, head: u64) -> Option<FeeHistory> {
        let reading = self.last.newest_blocks.lock().clone();
        reading.filter(|reading| {
            let age = usize::try_from(head.saturating_sub(reading.newest_block()));
            age.is_ok_and(|age| age < self.shared_blocks)
        })
    }
}

impl AskReader {
    /// Reads for ever what is due after each publication.
    pub async fn run(mut self) -> Infallible {
        while self.publications.changed().await.is_ok() {
            let Published { is_shared, reading } = self.publications.borrow_and_update().clone();
            if let Some(reading) = reading {
                // Readings of its own say more of what is wrong.
                let _ = self.add(&reading);
            }
            if let Some((newest, count)) = self.due(is_shared) {
                let outcome = match self.read(newest, count).await {
                    Ok(reading) => self.add(&reading),
                    Err(failure) => Err(failure),
                };
                self.record(newest, outcome);
            }
        }
        std::future::pending().await
    }

    /// Returns the newest block and the number of blocks of the reading that is due.
    fn due(&mut self, is_shared: bool) -> Option<(u64, usize)> {
        let interval = self.interval()?.get();
        let chain = self.publisher.chain();
        let head = chain.newest_block()?;
        // After a start the multiple may be below the first poll.
        let is_first = self.began_at.is_none_or(|began| head < began || head - began >= interval);
        let candidates = [Some(head - head % interval), is_first.then_some(head)];
        let (newest, unread) = chain.read_together(|recent| {
            let unread = |newest| Some((newest, recent.unread(newest, self.max_blocks)?));
            candidates.into_iter().flatten().find_map(unread)
        })?;
        // Where something was read, all after it is read, so that no hole remains.
        let is_too_much = self.is_refused && unread >= self.max_blocks;
        let most = if is_too_much { usize::try_from(interval).unwrap_or(unread) } else { unread };
        let count = unread.min(most);
        let left_to_others = if is_shared { self.shared_blocks() } else { 0 };
        if count <= left_to_others || self.failed_at == Some(newest) {
            return None;
        }
        self.began_at = Some(head);
        Some((newest, count))
    }

    /// Reads the `count` blocks up to `newest`, or fewer if the nodes do not return more.
    async fn read(&self, newest: u64, count: usize) -> Result<FeeHistory, ReadFailure> {
        let mut read: Option<FeeHistory> = None;
        let mut per_call = count;
        for _ in 0..MAX_CALLS {
            let known = read.as_ref().map_or(0, |read| read.blocks().len());
            // The oldest known block is repeated, so that the two can be compared.
            let repeated = usize::from(read.is_some());
            let from = read.as_ref().map_or(newest, FeeHistory::oldest_block);
            let wanted = count.saturating_sub(known).saturating_add(repeated).min(per_call);
            match self.call(from, wanted).await {
                Ok(older) => {
                    let joined = match read {
                        Some(newer) => newer.after(&older, count),
                        None => older,
                    };
                    let blocks = joined.blocks().len();
                    if blocks >= count || blocks <= known || joined.oldest_block() == 0 {
                        return Ok(joined);
                    }
                    read = Some(joined);
                }
                // A node may limit the number of blocks, or be slow.
                Err(failure) if failure.may_be_size() && per_call > MIN_CALL_BLOCKS => {
                    per_call = wanted.div_ceil(2).max(MIN_CALL_BLOCKS);
                }
                Err(failure) => return read.ok_or(failure),
            }
        }
        read.ok_or(ReadFailure::Unusable)
    }

    /// Reads the `count` blocks up to `newest` in one call. The node may return fewer.
    async fn call(&self, newest: u64, count: usize) -> Result<FeeHistory, ReadFailure> {
        let request = FeeHistoryRequest::for_asks(newest, count);
        let params = self.upstreams.fee_history_params(&request);
        let read = self.reads.read_for_service("eth_feeHistory", params, TIMEOUT).await?;
        let result = read.ok_or(ReadFailure::Refused)?;
        let json: &RawValue = serde_json::from_slice(&result).map_err(|_| ReadFailure::Unusable)?;
        let history = request.parse(json).map_err(|_| ReadFailure::Unusable)?;
        if history.newest_block() == newest { Ok(history) } else { Err(ReadFailure::Unusable) }
    }

    /// Adds a reading to the recent blocks, as far as it can be right.
    fn add(&mut self, reading: &FeeHistory) -> Result<(), ReadFailure> {
        let (newest, count) = (reading.newest_block(), reading.blocks().len());
        let [_, polled] = GRADED_PERCENTILES;
        let (known, is_read) = self.publisher.chain().read_together(|recent| {
            (recent.history(newest, count, polled), recent.unread(newest, 1) == Some(0))
        });
        // A block that is not known any more was replaced, and is read again.
        let Some(known) = known else { return Ok(()) };
        let pricing = &self.publisher.chain().config().pricing;
        let parameters = self.publisher.chain_parameters();
        let reading = plausibility::plausible_reading(reading, &known, pricing, &parameters)
            .ok_or(ReadFailure::Contradiction)?;
        if self.publisher.add_reading(&reading) == 0 {
            // Another process may have read the same meanwhile.
            return if is_read { Ok(()) } else { Err(ReadFailure::Contradiction) };
        }
        *self.last.newest_blocks.lock() = Some(reading.newest_blocks(self.shared_blocks()));
        self.last.changed.notify_one();
        Ok(())
    }

    /// Number of blocks between two readings; `None`: there are none.
    fn interval(&self) -> Option<NonZeroU64> {
        let chain = self.publisher.chain();
        chain.config().reading_interval(chain.block_time())
    }

    /// Number of blocks of two intervals, which the process that polled the newest one reads for the others.
    fn shared_blocks(&self) -> usize {
        let interval = self.interval().map_or(0, NonZeroU64::get);
        usize::try_from(interval.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    /// Records what became of the reading up to this block, and logs whether readings begin to fail or to succeed.
    fn record(&mut self, newest: u64, outcome: Result<(), ReadFailure>) {
        self.failed_at = outcome.is_err().then_some(newest);
        self.is_refused = outcome.is_err_and(|failure| !failure.is_outage());
        let is_change = self.log.changed_to(outcome.map_err(|_| "failed"));
        let chain = self.publisher.chain().config().key.as_str();
        match outcome {
            Ok(()) => {
                self.ok_counter.increment();
                if is_change {
                    tracing::info!(chain, "asks are read again");
                }
            }
            Err(failure) => {
                self.failed_counter.increment();
                if is_change {
                    let reason = failure.to_string();
                    tracing::warn!(chain, reason, "asks could not be read");
                }
            }
        }
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
