//! A fee history on its way from one replica to the others.
//!
//! Each replica prices it by its own configuration: what is shared is what a node said, not what was made of
//! it. On the wire it is a line, `slot epoch newest-block observed replica JSON`, which the scripts take apart up to
//! the JSON. Whatever is not exactly that is foreign.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::clock::{Clock, micros};
use crate::book::LastSeen;
use crate::fees::{Block, FeeHistory, Rewards};

/// A fee history that a replica has published.
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// The slot for which it was polled.
    pub(super) slot: u64,
    /// Who polled it.
    pub(super) replica: String,
    /// How often the chain's head has made a move that had to be confirmed. Of the same epoch, a lower head is
    /// an older one.
    pub epoch: u64,
    /// What a node said.
    pub history: FeeHistory,
    /// When it said so, by the monotonic clock here.
    pub seen: LastSeen,
}

/// What came of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// It is what is known now.
    Adopted,
    /// It says no more than what is known.
    Known,
    /// It is older than what is known, or may not be served any more.
    Older,
    /// This replica's pricing makes no suggestion of it.
    Rejected,
    /// Its newest block is further ahead than the chain can be.
    Implausible,
}

/// Where a line is from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// It was stored then.
    Stored(Instant),
    /// It was received then, and sent when Redis' clock said this many microseconds.
    Sent(u64, Instant),
}

/// What is no publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what is under a key of ours is not ours")]
pub(super) struct Foreign;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    oldest_block: String,
    next_base_fee: Option<String>,
    /// For how long the newest block was known when it was observed, in microseconds.
    head_age_us: u64,
    blocks: Vec<WireBlock>,
}

/// Base fee, gas ratio, medium's and high's reward.
#[derive(Serialize, Deserialize)]
struct WireBlock(String, Option<f64>, Option<String>, Option<String>);

impl Publication {
    /// No line is longer: 1,024 blocks with amounts of 128 bits.
    pub(super) const MAX_BYTES: usize = 256 * 1024;
    /// No chain has had so many: numbers up to here are exact in scripts.
    const MAX_EPOCH: u64 = 1 << 40;

    /// The JSON of a line about `history`, which was observed as `seen` tells.
    pub(super) fn json(history: &FeeHistory, seen: LastSeen) -> String {
        let amount = |amount: u128| amount.to_string();
        let block = |block: &Block| {
            let medium = block.rewards.map(|rewards| amount(rewards.medium));
            let high = block.rewards.and_then(|rewards| rewards.high).map(amount);
            WireBlock(amount(block.base_fee), block.gas_used_ratio, medium, high)
        };
        let head_age = seen.observed.saturating_duration_since(seen.head_moved);
        let wire = Wire {
            oldest_block: history.oldest_block().to_string(),
            next_base_fee: history.next_base_fee().map(amount),
            head_age_us: micros(head_age),
            blocks: history.blocks().iter().map(block).collect(),
        };
        serde_json::to_string(&wire).expect("a struct of strings serialises")
    }

    /// A number that the scripts compare as a text.
    pub(super) fn padded(number: u64) -> String {
        format!("{number:020}")
    }

    /// What `line` says, if it is one.
    pub(super) fn read(line: &[u8], way: Way, clock: &Clock) -> Result<Self, Foreign> {
        if line.len() > Self::MAX_BYTES {
            return Err(Foreign);
        }
        let line = str::from_utf8(line).map_err(|_| Foreign)?;
        let mut parts = line.splitn(6, ' ');
        let mut part = || parts.next().ok_or(Foreign);
        let (slot, epoch, head) =
            (padded_number(part()?)?, number(part()?)?, padded_number(part()?)?);
        let (observed, replica) = (number(part()?)?, part()?.to_owned());
        let wire: Wire = serde_json::from_str(part()?).map_err(|_| Foreign)?;
        let history = wire.history().ok_or(Foreign)?;
        if history.newest_block() != head || epoch > Self::MAX_EPOCH {
            return Err(Foreign);
        }
        let seen = seen(observed, wire.head_age_us, way, clock).ok_or(Foreign)?;
        Ok(Self { slot, replica, epoch, history, seen })
    }
}

/// When something was observed that was so at `observed` of Redis' clock.
fn seen(observed: u64, head_age_us: u64, way: Way, clock: &Clock) -> Option<LastSeen> {
    let (at, now) = match way {
        Way::Stored(at) => (at, clock.micros_at(at)),
        // Whatever it took on its way, and however long this process was frozen meanwhile.
        Way::Sent(sent, received) => (received, clock.micros_at(received).max(sent)),
    };
    // One of later is from before the clock was put back: nobody knows its age.
    let age = Duration::from_micros(now.checked_sub(observed)?);
    let observed = at.checked_sub(age)?;
    let head_moved = observed.checked_sub(Duration::from_micros(head_age_us))?;
    Some(LastSeen { observed, head_moved })
}

/// Decimal digits and nothing else.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, Foreign> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or(Foreign)
}

fn padded_number(text: &str) -> Result<u64, Foreign> {
    let found = number(text)?;
    (Publication::padded(found) == text).then_some(found).ok_or(Foreign)
}

impl Wire {
    fn history(&self) -> Option<FeeHistory> {
        let block = |WireBlock(base_fee, ratio, medium, high): &WireBlock| {
            let optional = |text: &Option<String>| match text {
                Some(text) => number(text).ok().map(Some),
                None => Some(None),
            };
            let rewards = match (optional(medium)?, optional(high)?) {
                (Some(medium), high) => Some(Rewards { medium, high }),
                (None, None) => None,
                (None, Some(_)) => return None,
            };
            let is_ratio = ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
            let base_fee = number(base_fee).ok()?;
            is_ratio.then_some(Block { base_fee, gas_used_ratio: *ratio, rewards })
        };
        let blocks = self.blocks.iter().map(block).collect::<Option<Vec<_>>>()?;
        let next_base_fee = match &self.next_base_fee {
            Some(text) => Some(number(text).ok()?),
            None => None,
        };
        FeeHistory::new(number(&self.oldest_block).ok()?, blocks, next_base_fee)
    }
}

#[cfg(test)]
mod tests;
