//! A fee history on its way from one replica to the others.
//!
//! Each replica prices it by its own configuration: what is shared is what a node said, not what was made of
//! it. On the wire it is a line, `slot epoch newest-block observed replica JSON`, which the scripts take apart up to
//! the JSON. Whatever is not exactly that is foreign.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::redis_clock::{RedisClock, whole_micros};
use crate::fees::{Block, FeeHistory, Rewards};
use crate::store::Timestamps;

/// A fee history that a replica has published.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedFeeHistory {
    /// The slot for which it was polled.
    pub(super) slot: u64,
    /// Replica that polled.
    pub(super) replica_id: String,
    /// How often the chain's head has made a move that had to be confirmed. Of the same epoch, a lower head is
    /// an older one.
    pub epoch: u64,
    /// Reply of the node.
    pub history: FeeHistory,
    /// When it said so, by the monotonic clock here.
    pub timestamps: Timestamps,
}

/// Outcome of merging a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptOutcome {
    /// It is what is known now.
    Adopted,
    /// It says no more than what is known.
    Duplicate,
    /// It is older than what is known, or may not be served any more.
    Older,
    /// This replica's pricing makes no suggestion of it.
    Rejected,
    /// Its newest block is further ahead than the chain can be.
    Implausible,
}

/// Where a line is from.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordOrigin {
    /// It was stored then.
    Stored(Instant),
    /// It was received then, and sent when Redis' clock said this many microseconds.
    Received(u64, Instant),
}

/// The text is not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what is under a key of ours is not ours")]
pub(super) struct InvalidRecord;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHistory {
    oldest_block: String,
    next_base_fee: Option<String>,
    /// For how long the newest block was known when it was observed, in microseconds.
    head_age_us: u64,
    blocks: Vec<WireBlock>,
}

/// Base fee, gas ratio, medium's and high's reward.
#[derive(Serialize, Deserialize)]
struct WireBlock(String, Option<f64>, Option<String>, Option<String>);

impl SharedFeeHistory {
    /// No line is longer: 1,024 blocks with amounts of 128 bits.
    pub(super) const MAX_BYTES: usize = 256 * 1024;
    /// No chain has had so many: numbers up to here are exact in scripts.
    const MAX_EPOCH: u64 = 1 << 40;

    /// The JSON of a line about `history`, which was observed as `seen` tells.
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

    /// A number that the scripts compare as a text.
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

/// When something was observed that was so at `observed` of Redis' clock.
fn parse_timestamps(
    observed: u64,
    head_age_us: u64,
    origin: RecordOrigin,
    clock: &RedisClock,
) -> Option<Timestamps> {
    let (at, now) = match origin {
        RecordOrigin::Stored(at) => (at, clock.micros_at(at)),
        // Whatever it took on its way, and however long this process was frozen meanwhile.
        RecordOrigin::Received(sent, received) => (received, clock.micros_at(received).max(sent)),
    };
    // A later time is from before the clock was set back; its age is unknown.
    let age = Duration::from_micros(now.checked_sub(observed)?);
    let observed = at.checked_sub(age)?;
    let head_moved = observed.checked_sub(Duration::from_micros(head_age_us))?;
    Some(Timestamps { observed_at: observed, head_changed_at: head_moved })
}

/// Decimal digits and nothing else.
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
