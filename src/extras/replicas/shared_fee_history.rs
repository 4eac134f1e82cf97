//! A fee history that one replica publishes for the others.
//!
//! Replicas share the node's reply, and each prices it by its own configuration. On the wire a record is a JSON object.
//! Its times are readings of Redis' clock. Anything else is invalid.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::redis_clock::{RedisClock, whole_micros};
use crate::fees::plausibility::Doubt;
use crate::fees::{
    BaseFeeRule, BlobBaseFees, Block, FeeHistory, HeadReading, HeaderTime, MAX_PERCENTILES, Wei,
};
use crate::observe::clock;
use crate::poll::SharedFeeHistory;
use crate::store::Timestamps;

/// Upper bound of a record: 1,024 blocks with amounts of 128 bits.
pub(crate) const MAX_BYTES: usize = 256 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// First, because the publish script reads it there.
    slot: u64,
    observed_us: u64,
    /// Age of the head at the time of observation.
    head_age_us: u64,
    oldest_block: u64,
    next_base_fee: Option<Wei>,
    /// Base fees per blob gas of the newest block and of the next one.
    blob_base_fees: Option<(Wei, Wei)>,
    /// Absent: the node does not tell.
    head: Option<RecordHead>,
    doubts: Vec<Doubt>,
    blocks: Vec<RecordBlock>,
    /// Absent: there is nothing new.
    reading: Option<RecordReading>,
}

/// Rewards at the graded percentiles.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordReading {
    oldest_block: u64,
    blocks: Vec<RecordBlock>,
}

/// The newest block of a node, as it tells.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum RecordHead {
    Syncing,
    Header {
        number: u64,
        unix_seconds: u64,
        /// How long before the observation it was read.
        read_before_us: u64,
        /// Absent: the header does not say how the base fee moves.
        rule: Option<BaseFeeRule>,
    },
}

impl RecordHead {
    fn new(head: HeadReading, observed_at: Instant) -> Option<Self> {
        match head {
            HeadReading::Unread | HeadReading::Unknown => None,
            HeadReading::Syncing => Some(Self::Syncing),
            HeadReading::Header(HeaderTime { number, unix_seconds, read_at, rule, .. }) => {
                let read_before = observed_at.saturating_duration_since(read_at);
                Some(Self::Header {
                    number,
                    unix_seconds,
                    read_before_us: whole_micros(read_before),
                    rule,
                })
            }
        }
    }

    /// Returns the reading. The age of the block when it was read counts by the clock of this machine; `None`: that clock
    /// did not run yet.
    fn reading(self, observed_at: Instant) -> Option<HeadReading> {
        let Self::Header { number, unix_seconds, read_before_us, rule } = self else {
            return Some(HeadReading::Syncing);
        };
        let read_at = observed_at.checked_sub(Duration::from_micros(read_before_us))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let then = now.saturating_sub(clock::elapsed(read_at));
        let header = HeaderTime::new(number, unix_seconds, read_at, then);
        Some(HeadReading::Header(HeaderTime { rule, ..header }))
    }
}

/// Base fee, gas ratio, and the columns of the rewards.
#[derive(Serialize, Deserialize)]
struct RecordBlock(Wei, Option<f64>, Option<[Wei; MAX_PERCENTILES]>);

/// Serialises the record. Its data seems older by up to a round trip, never younger.
pub(crate) fn to_json(published: &SharedFeeHistory, clock: &RedisClock) -> String {
    let Timestamps { observed_at, head_changed_at } = published.timestamps;
    let record = Record {
        slot: published.slot,
        observed_us: clock.earliest_micros_at(observed_at),
        head_age_us: whole_micros(observed_at.saturating_duration_since(head_changed_at)),
        oldest_block: published.history.oldest_block(),
        next_base_fee: published.history.next_base_fee.map(Wei),
        blob_base_fees: published
            .history
            .blob_base_fees
            .map(|fees| (Wei(fees.latest), Wei(fees.next))),
        head: RecordHead::new(published.head, observed_at),
        doubts: published.doubts.clone(),
        blocks: published.history.blocks().iter().map(RecordBlock::new).collect(),
        reading: published.reading.as_ref().map(|reading| RecordReading {
            oldest_block: reading.oldest_block(),
            blocks: reading.blocks().iter().map(RecordBlock::new).collect(),
        }),
    };
    serde_json::to_string(&record).expect("a struct of numbers and strings serialises")
}

/// Parses a record that was received at `received_at`; `None` if it is invalid. One from the future is, because its
/// age is unknown: Redis' clock was changed.
pub(crate) fn parse(
    record: &[u8],
    received_at: Instant,
    clock: &RedisClock,
) -> Option<SharedFeeHistory> {
    if record.len() > MAX_BYTES {
        return None;
    }
    let record: Record = serde_json::from_slice(record).ok()?;
    let Record { slot, observed_us, .. } = record;
    if observed_us > clock.micros_at(received_at) {
        return None;
    }
    let observed_at = clock.instant_at(observed_us)?;
    let head_changed_at = observed_at.checked_sub(Duration::from_micros(record.head_age_us))?;
    let head = match record.head {
        Some(head) => head.reading(observed_at)?,
        None => HeadReading::Unread,
    };
    Some(SharedFeeHistory {
        slot,
        history: record.history()?,
        timestamps: Timestamps { observed_at, head_changed_at },
        head,
        doubts: record.doubts,
        reading: match &record.reading {
            Some(reading) => Some(history(reading.oldest_block, &reading.blocks, None)?),
            None => None,
        },
    })
}

impl Record {
    fn history(&self) -> Option<FeeHistory> {
        let mut found =
            history(self.oldest_block, &self.blocks, self.next_base_fee.map(|fee| fee.0))?;
        found.blob_base_fees = self
            .blob_base_fees
            .map(|(latest, next)| BlobBaseFees { latest: latest.0, next: next.0 });
        Some(found)
    }
}

impl RecordBlock {
    fn new(block: &Block) -> Self {
        let rewards = block.rewards.map(|rewards| rewards.map(Wei));
        Self(Wei(block.base_fee), block.gas_used_ratio, rewards)
    }

    fn block(&self) -> Option<Block> {
        let Self(base_fee, gas_used_ratio, rewards) = *self;
        let rewards = rewards.map(|columns| columns.map(|Wei(wei)| wei));
        let is_ratio = gas_used_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
        is_ratio.then_some(Block { base_fee: base_fee.0, gas_used_ratio, rewards })
    }
}

fn history(
    oldest_block: u64,
    blocks: &[RecordBlock],
    next_base_fee: Option<u128>,
) -> Option<FeeHistory> {
    let blocks = blocks.iter().map(RecordBlock::block).collect::<Option<_>>()?;
    FeeHistory::new(oldest_block, blocks, next_base_fee)
}

#[cfg(test)]
mod tests;
