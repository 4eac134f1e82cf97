//! Age of a node's newest block. Its fee history does not tell: a node that syncs or lags replies like any other.

use std::time::{Duration, Instant};

use alloy_primitives::Address;

use super::BaseFeeRule;

/// Age of its newest block, as a node tells it beside the fee history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadReading {
    /// Nothing yet: its header was not read, or did not come in time.
    #[default]
    Unread,
    /// It returns no header, and does not report that it is syncing.
    Unknown,
    /// It returns no header, and reports that it is syncing.
    Syncing,
    /// The header of its newest block.
    Header(HeaderTime),
}

/// Number and time of a block, from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderTime {
    /// Number of the block.
    pub number: u64,
    /// The block's own time in seconds since 1970.
    pub unix_seconds: u64,
    /// When the header was read.
    pub read_at: Instant,
    /// Age of the block when the header was read; 0 for a time in the future.
    pub age: Duration,
    /// How the chain moves its base fee, if its headers say that.
    pub rule: Option<BaseFeeRule>,
    /// Account that gets the fees of the block, if the header says that.
    pub fee_recipient: Option<Address>,
}

/// A node's newest block, compared with the age up to which it counts as the chain's newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockAge {
    /// Not older.
    Young,
    /// Older, or the node is syncing.
    Old,
    /// The node does not tell.
    Unknown,
}

impl HeaderTime {
    /// Creates the reading of a header without a rule or a recipient at `read_at`, which is `now` since 1970 by the wall clock.
    #[must_use]
    pub fn new(number: u64, unix_seconds: u64, read_at: Instant, now: Duration) -> Self {
        let age = now.saturating_sub(Duration::from_secs(unix_seconds));
        Self { number, unix_seconds, read_at, age, rule: None, fee_recipient: None }
    }

    /// Returns the age of the block at `now`, which is `wall_clock` since 1970. A wall clock that is set back makes no
    /// block younger.
    #[must_use]
    pub fn age_at(&self, now: Instant, wall_clock: Duration) -> Duration {
        let since_reading = now.saturating_duration_since(self.read_at);
        let told = wall_clock.saturating_sub(Duration::from_secs(self.unix_seconds));
        self.age.saturating_add(since_reading).max(told)
    }
}

impl HeadReading {
    /// Returns the header, if there is one.
    #[must_use]
    pub fn header(self) -> Option<HeaderTime> {
        match self {
            Self::Header(header) => Some(header),
            Self::Unread | Self::Unknown | Self::Syncing => None,
        }
    }

    /// Returns the reading for a reply whose newest block is `newest`. A node may get blocks between the reply and its
    /// header, many if it stops syncing then. Each makes the reply one `block_time` older than the header.
    #[must_use]
    pub fn for_reply(self, newest: u64, block_time: Duration) -> Self {
        let Self::Header(header) = self else { return self };
        let later = u32::try_from(header.number.saturating_sub(newest)).unwrap_or(u32::MAX);
        let age = header.age.saturating_add(block_time.saturating_mul(later));
        Self::Header(HeaderTime { age, ..header })
    }

    /// Compares the age of the block when it was read with `max_age`; `None`: every block is young enough.
    #[must_use]
    pub fn block_age(self, max_age: Option<Duration>) -> BlockAge {
        match (self, max_age) {
            (Self::Unread | Self::Unknown, _) => BlockAge::Unknown,
            (Self::Syncing, Some(_)) => BlockAge::Old,
            (Self::Header(header), Some(max_age)) if header.age > max_age => BlockAge::Old,
            (Self::Syncing | Self::Header(_), _) => BlockAge::Young,
        }
    }
}

#[cfg(test)]
mod tests;
