//! A fee history that one replica publishes for the others.
//!
//! Replicas share the node's reply, and each prices it by its own configuration. On the wire a record is a line, `slot
//! epoch newest-block observed replica JSON`, which the Lua scripts split up to the JSON. Anything else is invalid.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::redis_clock::{RedisClock, whole_micros};
use crate::fees::{Block, FeeHistory, Rewards};
use crate::store::Timestamps;

/// A fee history published by a replica.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedFeeHistory {
    /// Slot that it was polled for.
    pub(super) slot: u64,
    /// Replica that polled.
    pub(super) replica_id: String,
    /// Number of confirmed head regressions or jumps. Within one epoch a lower head is older.
    pub epoch: u64,
    /// Reply of the node.
    pub history: FeeHistory,
    /// Times of the reply by the local monotonic clock.
    pub timestamps: Timestamps,
}

/// Outcome of merging a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, enum_map::Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AdoptOutcome {
    /// It is now the published data.
    Adopted,
    /// It is not newer than the published data.
    Duplicate,
    /// It has expired, or its newest block is lower than the published one within the same epoch.
    Older,
    /// This replica's pricing cannot compute a suggestion from it.
    Rejected,
    /// Its newest block is implausibly far ahead.
    Implausible,
}

/// Origin of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordOrigin {
    /// Read from Redis at this time.
    Stored(Instant),
    /// Received at this time, and sent when Redis' clock had this value in microseconds.
    Received(u64, Instant),
}

/// The text is not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid record")]
pub(super) struct InvalidRecord;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHistory {
    oldest_block: String,
    next_base_fee: Option<String>,
    /// Age of the head at the time of observation, in microseconds.
    head_age_us: u64,
    blocks: Vec<WireBlock>,
}

/// Base fee, gas ratio, medium and high reward.
#[derive(Serialize, Deserialize)]
struct WireBlock(String, Option<f64>, Option<String>, Option<String>);

impl SharedFeeHistory {
    /// Upper bound: 1,024 blocks with amounts of 128 bits.
    pub(super) const MAX_BYTES: usize = 256 * 1024;
    /// Far more than any chain has. Lua represents integers up to here exactly.
    const MAX_EPOCH: u64 = 1 << 40;

    /// Record of another replica, for tests of what is published from it.
    #[cfg(test)]
    pub(crate) fn for_test(epoch: u64, history: FeeHistory, timestamps: Timestamps) -> Self {
        Self { slot: 0, replica_id: "other".to_owned(), epoch, history, timestamps }
    }

    /// Serialises `history` with its `timestamps` as the JSON of a record.
    pub(super) fn to_json(history: &FeeHistory, timestamps: Timestamps) -> String {
        let amount = |amount: u128| amount.to_string();
        let block = |block: &Block| {
            let medium = block.rewards.map(|rewards| amount(rewards.medium));
            let high = block.rewards.and_then(|rewards| rewards.high).map(amount);
            WireBlock(amount(block.base_fee), block.gas_used_ratio, medium, high)
        };
        let head_age = timestamps.observed_at.saturating_duration_since(timestamps.head_changed_at);
        let wire = WireHistory {
            oldest_block: history.oldest_block().to_string(),
            next_base_fee: history.next_base_fee().map(amount),
            head_age_us: whole_micros(head_age),
            blocks: history.blocks().iter().map(block).collect(),
        };
        serde_json::to_string(&wire).expect("a struct of strings serialises")
    }

    /// Formats a number so that the scripts can compare it as a string.
    pub(super) fn zero_padded(number: u64) -> String {
        format!("{number:020}")
    }

    /// Parses a record.
    pub(super) fn parse(
        record: &[u8],
        origin: RecordOrigin,
        clock: &RedisClock,
    ) -> Result<Self, InvalidRecord> {
        if record.len() > Self::MAX_BYTES {
            return Err(InvalidRecord);
        }
        let line = str::from_utf8(record).map_err(|_| InvalidRecord)?;
        let mut parts = line.splitn(6, ' ');
        let mut next_part = || parts.next().ok_or(InvalidRecord);
        let (slot, epoch, head) = (
            parse_zero_padded(next_part()?)?,
            parse_decimal(next_part()?)?,
            parse_zero_padded(next_part()?)?,
        );
        let (observed, replica_id) = (parse_decimal(next_part()?)?, next_part()?.to_owned());
        let wire: WireHistory = serde_json::from_str(next_part()?).map_err(|_| InvalidRecord)?;
        let history = wire.to_fee_history().ok_or(InvalidRecord)?;
        if history.newest_block() != head || epoch > Self::MAX_EPOCH {
            return Err(InvalidRecord);
        }
        let timestamps =
            parse_timestamps(observed, wire.head_age_us, origin, clock).ok_or(InvalidRecord)?;
        Ok(Self { slot, replica_id, epoch, history, timestamps })
    }
}

/// Computes when something was observed, given Redis' clock at that time.
fn parse_timestamps(
    observed: u64,
    head_age_us: u64,
    origin: RecordOrigin,
    clock: &RedisClock,
) -> Option<Timestamps> {
    let (at, now) = match origin {
        RecordOrigin::Stored(at) => (at, clock.micros_at(at)),
        // Includes the transit time, and the time for which this process was frozen.
        RecordOrigin::Received(sent, received) => (received, clock.micros_at(received).max(sent)),
    };
    // A time in the future is from before the clock was set back; its age is unknown.
    let age = Duration::from_micros(now.checked_sub(observed)?);
    let observed = at.checked_sub(age)?;
    let head_moved = observed.checked_sub(Duration::from_micros(head_age_us))?;
    Some(Timestamps { observed_at: observed, head_changed_at: head_moved })
}

/// Parses decimal digits only.
fn parse_decimal<T: std::str::FromStr>(text: &str) -> Result<T, InvalidRecord> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits).ok_or(InvalidRecord)
}

fn parse_zero_padded(text: &str) -> Result<u64, InvalidRecord> {
    let number = parse_decimal(text)?;
    (SharedFeeHistory::zero_padded(number) == text).then_some(number).ok_or(InvalidRecord)
}

impl WireHistory {
    fn to_fee_history(&self) -> Option<FeeHistory> {
        let block = |WireBlock(base_fee, ratio, medium, high): &WireBlock| {
            let optional = |text: &Option<String>| match text {
                Some(text) => parse_decimal(text).ok().map(Some),
                None => Some(None),
            };
            let rewards = match (optional(medium)?, optional(high)?) {
                (Some(medium), high) => Some(Rewards { medium, high }),
                (None, None) => None,
                (None, Some(_)) => return None,
            };
            let is_ratio = ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
            let base_fee = parse_decimal(base_fee).ok()?;
            is_ratio.then_some(Block { base_fee, gas_used_ratio: *ratio, rewards })
        };
        let blocks = self.blocks.iter().map(block).collect::<Option<Vec<_>>>()?;
        let next_base_fee = match &self.next_base_fee {
            Some(text) => Some(parse_decimal(text).ok()?),
            None => None,
        };
        FeeHistory::new(parse_decimal(&self.oldest_block).ok()?, blocks, next_base_fee)
    }
}

#[cfg(test)]
mod tests;
