//! Claims of upstreams that contradict the published head.

use std::time::Duration;

use super::{ObservedHead, expected_blocks};
use crate::fees::plausibility::SuspiciousReply;

/// Consecutive suspicious replies of one upstream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) reason: SuspiciousReply,
    pub(super) first: ObservedHead,
    pub(super) last: ObservedHead,
    pub(super) rounds: u32,
    /// Rounds with this reason, also if the heads do not continue each other.
    pub(super) attempts: u32,
}

impl Claim {
    /// Returns true if the head has advanced since the first claim.
    pub(super) fn is_moving(&self, block_time: Duration) -> bool {
        let (blocks, expected) = self.progress(block_time);
        blocks > 0 && blocks.saturating_mul(2) >= expected
    }

    /// Returns true if the head has advanced at the pace of the chain, roughly. A node that catches up is faster.
    pub(super) fn has_pace(&self, block_time: Duration) -> bool {
        let (blocks, expected) = self.progress(block_time);
        self.is_moving(block_time)
            && blocks.saturating_mul(2) <= expected.saturating_mul(3).saturating_add(4)
    }

    /// Returns the number of blocks since the first claim, and the expected one.
    fn progress(&self, block_time: Duration) -> (u64, u64) {
        let blocks = self.last.head.saturating_sub(self.first.head);
        (blocks, expected_blocks(self.first.at, self.last.at, block_time))
    }
}
