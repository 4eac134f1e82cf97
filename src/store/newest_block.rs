//! Age of the newest block of a chain.

use std::time::{Duration, Instant, SystemTime};

use super::{Accepted, Snapshot};
use crate::fees::{BlockAge, HeadReading, HeaderTime};
use crate::observe::clock;

/// The newest block of a snapshot: when it was mined, as far as its node tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestBlock {
    /// The first reading of its own header.
    header: Option<HeaderTime>,
    /// The header that its node told last, which may be of another block.
    pub told_header: Option<HeaderTime>,
    /// True if the block was too old when this process first read it, or if it comes from a node that is behind.
    pub(super) was_old: bool,
    /// When a node last told that its newest block is old; `None`: a later reading ended this.
    told_old_at: Option<Instant>,
    /// True if another node has a newer block.
    pub(super) is_behind: bool,
    /// Time for `Last-Modified`: the block's own time, else the time of the reply that brought it first. It is not in the
    /// future.
    pub last_modified: SystemTime,
}

impl NewestBlock {
    /// Time for which the last verdict also holds for blocks without a reading: two readings of headers. The first header
    /// of a node may not come in time.
    const VERDICT_LIFETIME: Duration = Duration::from_mins(1);

    /// Combines what the node of a reply told with what the `last` snapshot knew. `first_seen` is the wall-clock time of the
    /// reply that brought the block first.
    pub(super) fn new(
        accepted: &Accepted<'_>,
        last: Option<&Snapshot>,
        first_seen: SystemTime,
        max_block_age: Option<Duration>,
    ) -> Self {
        let (number, reading) = (accepted.history.newest_block(), accepted.head);
        let told_old_at = match reading {
            HeadReading::Unread => last
                .and_then(|last| last.block.told_old_at)
                .filter(|at| clock::elapsed(*at) < Self::VERDICT_LIFETIME),
            _ => (reading.block_age(max_block_age) == BlockAge::Old).then(clock::now),
        };
        let told_header = reading.header();
        let own = told_header.filter(|header| header.number == number);
        let known = last.filter(|last| last.newest_block == number).map(|last| &last.block);
        let was_old = match known {
            // Only a header of the block itself can show that a verdict on it was wrong.
            Some(known) if known.header.is_some() || own.is_none() => known.was_old,
            _ => told_old_at.is_some(),
        };
        let header = known.and_then(|known| known.header).or(own);
        let own_time = header.map(|header| {
            let since_1970 = Duration::from_secs(header.unix_seconds);
            SystemTime::UNIX_EPOCH.checked_add(since_1970).unwrap_or(first_seen)
        });
        Self {
            header,
            told_header,
            was_old,
            told_old_at,
            is_behind: accepted.is_behind,
            last_modified: own_time.unwrap_or(first_seen).min(SystemTime::now()),
        }
    }

    /// Returns the age of the block at `now` by its own time; `None`: unknown.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        let wall_clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Some(self.header?.age_at(now, wall_clock.unwrap_or_default()))
    }
}
