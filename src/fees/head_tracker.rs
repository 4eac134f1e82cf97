//! Decides which newest block may be published. Guards against nodes that lag, jump or stall.
//!
//! Pure: block numbers and instants in, decisions out, so that `benches/replies.rs` can check millions of polls. A poll
//! opens a [`PollRound`], checks each head that an upstream reports, and finishes it.
//!
//! The first head is published unchecked. Later a head is plausible from the published one up to twice the blocks
//! expected since then, plus 5. The expected number comes from the configured block time, or from the observed one if
//! that is shorter, at most by a factor of 100.
//!
//! Any other head is published only once it is confirmed: by a second upstream within 5 blocks of it in the same round,
//! or by three consecutive rounds whose heads continue each other. In a round with a plausible head a lower one is
//! ignored, because its node lags. A higher one can still be confirmed, because the plausible node may be the one that
//! lags.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// History of one chain's heads.
#[derive(Debug)]
pub struct HeadTracker {
    block_time: Duration,
    published: Option<ObservedHead>,
    /// Changes of the published head, oldest first, from which the block time is observed.
    head_changes: VecDeque<ObservedHead>,
    regression: Option<PendingConfirmation>,
    jump: Option<PendingConfirmation>,
    /// Head from which one block per block time is expected.
    schedule_baseline: Option<ObservedHead>,
}

#[derive(Debug, Clone, Copy)]
struct ObservedHead {
    head: u64,
    at: Instant,
}

/// A reported head that is not confirmed yet.
#[derive(Debug, Clone, Copy)]
struct PendingConfirmation {
    observed: ObservedHead,
    rounds: u32,
}

/// Decision on a plausible head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PublishDecision {
    /// Publish it. It counts as published from now on.
    Publish,
    /// Another upstream's reply with this head was published in this round.
    AlreadyPublished,
}

/// Reason why a head is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuspiciousHead {
    /// Lower than the published head: a node that lags, or a chain that was reset.
    #[error("the newest block is lower than the known one")]
    Regression,
    /// Higher than the chain can be by now, unless the published head is wrong or lags.
    #[error("the newest block is further ahead than the chain can be")]
    Jump,
}

impl SuspiciousHead {
    /// Label of the reason, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Regression => "head_behind",
            Self::Jump => "head_ahead",
        }
    }
}

impl HeadTracker {
    /// Number of rounds that confirm a head.
    const CONFIRMING_ROUNDS: u32 = 3;
    /// Blocks that a head may exceed twice the expected number by, and by which two agreeing upstreams may differ.
    const TOLERANCE_BLOCKS: u64 = 5;
    /// Blocks that the head falls behind before other upstreams are queried.
    const LATE_BLOCKS: u32 = 3;
    const MIN_LATENESS: Duration = Duration::from_secs(1);
    /// Number of head changes from which the block time is observed.
    const MAX_HEAD_CHANGES: usize = 16;
    /// A chain is assumed to be at most this many times faster than configured.
    const MAX_SPEED_UP: u32 = 100;

    /// Tracker without a published head, of a chain with this block time.
    #[must_use]
    pub fn new(block_time: Duration) -> Self {
        let head_changes = VecDeque::with_capacity(Self::MAX_HEAD_CHANGES);
        Self {
            block_time,
            published: None,
            head_changes,
            regression: None,
            jump: None,
            schedule_baseline: None,
        }
    }

    /// Starts the round of a poll at `now`.
    pub fn start_round(&mut self, now: Instant) -> PollRound<'_> {
        let block_time = self.observed_block_time();
        let highest =
            self.published.map(|published| max_plausible_head(published, now, block_time));
        PollRound {
            tracker: self,
            now,
            max_plausible_head: highest,
            rejected: Vec::new(),
            has_published: false,
        }
    }

    /// Records a head that another replica checked and published. `is_confirmed`: the other replica confirmed a
    /// regression or a jump.
    ///
    /// # Errors
    ///
    /// Returns why the head is implausible.
    pub fn accept_remote(
        &mut self,
        head: u64,
        now: Instant,
        is_confirmed: bool,
    ) -> Result<(), SuspiciousHead> {
        if !is_confirmed && let Some(published) = self.published {
            if head < published.head {
                return Err(SuspiciousHead::Regression);
            }
            if head > max_plausible_head(published, now, self.observed_block_time()) {
                return Err(SuspiciousHead::Jump);
            }
        }
        self.publish(head, now);
        Ok(())
    }

    /// The configured block time, or the observed one if that is shorter: a chain that became faster must not look
    /// implausible.
    fn observed_block_time(&self) -> Duration {
        let (Some(first), Some(last)) = (self.head_changes.front(), self.head_changes.back())
        else {
            return self.block_time;
        };
        let blocks = u32::try_from(last.head.saturating_sub(first.head)).unwrap_or(u32::MAX);
        let elapsed = last.at.saturating_duration_since(first.at);
        match elapsed.checked_div(blocks) {
            Some(observed) => observed.clamp(self.min_block_time(), self.block_time),
            None => self.block_time,
        }
    }

    fn min_block_time(&self) -> Duration {
        self.block_time / Self::MAX_SPEED_UP
    }

    fn publish(&mut self, head: u64, now: Instant) {
        self.regression = None;
        self.jump = self.jump.filter(|ahead| ahead.observed.head > head);
        let last = self.published.map(|published| published.head);
        if last == Some(head) {
            return;
        }
        let observed = ObservedHead { head, at: now };
        if last.is_some_and(|last| head < last) {
            self.head_changes.clear();
            self.schedule_baseline = None;
        }
        if self.head_changes.len() == Self::MAX_HEAD_CHANGES {
            self.head_changes.pop_front();
        }
        self.head_changes.push_back(observed);
        self.published = Some(observed);
        // A head ahead of its schedule gets no credit for later.
        if self.lateness(now).is_none_or(|late| late.is_zero()) {
            self.schedule_baseline = Some(observed);
        }
    }

    /// Delay of the published head against one block per block time since the baseline; `None`: no baseline.
    fn lateness(&self, now: Instant) -> Option<Duration> {
        let (baseline, published) = (self.schedule_baseline?, self.published?);
        let blocks =
            u32::try_from(published.head.saturating_sub(baseline.head)).unwrap_or(u32::MAX);
        let expected = self.block_time.saturating_mul(blocks);
        Some(now.saturating_duration_since(baseline.at).saturating_sub(expected))
    }

    /// Records one more round with a suspicious head of this kind. Returns the head if it is confirmed by now. Erratic
    /// heads confirm nothing.
    fn record_suspicious(
        &mut self,
        kind: SuspiciousHead,
        rejected: &[RejectedHead],
        now: Instant,
    ) -> Option<(usize, u64)> {
        let least_block_time = self.min_block_time();
        let pending = match kind {
            SuspiciousHead::Regression => &mut self.regression,
            SuspiciousHead::Jump => &mut self.jump,
        };
        let continues = |claim: &RejectedHead| {
            pending.is_some_and(|last| {
                let lowest = last.observed.head.saturating_sub(Self::TOLERANCE_BLOCKS);
                (lowest..=max_plausible_head(last.observed, now, least_block_time))
                    .contains(&claim.head)
            })
        };
        let mut claims = rejected.iter().filter(|claim| claim.kind == kind);
        let first = claims.clone().next()?;
        let claim = claims.find(|claim| continues(claim)).unwrap_or(first);
        let before = if continues(claim) { pending.map_or(0, |last| last.rounds) } else { 0 };
        let rounds = before.saturating_add(1);
        *pending = Some(PendingConfirmation {
            observed: ObservedHead { head: claim.head, at: now },
            rounds,
        });
        (rounds >= Self::CONFIRMING_ROUNDS).then_some((claim.upstream, claim.head))
    }
}

/// Returns the highest plausible head after the observed one: twice the expected number of blocks, plus the tolerance.
fn max_plausible_head(observed: ObservedHead, now: Instant, block_time: Duration) -> u64 {
    let elapsed = now.saturating_duration_since(observed.at).as_nanos();
    let expected = elapsed.div_ceil(block_time.as_nanos().max(1));
    let expected = u64::try_from(expected).unwrap_or(u64::MAX);
    observed
        .head
        .saturating_add(expected.saturating_mul(2))
        .saturating_add(HeadTracker::TOLERANCE_BLOCKS)
}

/// One poll: the heads that upstreams report, and the decisions.
#[derive(Debug)]
pub struct PollRound<'a> {
    tracker: &'a mut HeadTracker,
    now: Instant,
    /// Highest plausible head, computed before the round.
    max_plausible_head: Option<u64>,
    rejected: Vec<RejectedHead>,
    has_published: bool,
}

/// A rejected head.
#[derive(Debug, Clone, Copy)]
struct RejectedHead {
    upstream: usize,
    head: u64,
    kind: SuspiciousHead,
}

impl PollRound<'_> {
    /// Checks `head`, which `upstream` reports. A rejected head may still be confirmed by [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// Returns why the head is suspicious.
    pub fn check(&mut self, upstream: usize, head: u64) -> Result<PublishDecision, SuspiciousHead> {
        let published = self.tracker.published.map(|published| published.head);
        let kind = if published.is_some_and(|published| head < published) {
            Some(SuspiciousHead::Regression)
        } else if self.max_plausible_head.is_some_and(|highest| head > highest) {
            Some(SuspiciousHead::Jump)
        } else {
            None
        };
        if let Some(kind) = kind {
            self.rejected.push(RejectedHead { upstream, head, kind });
            return Err(kind);
        }
        if self.has_published && published == Some(head) {
            return Ok(PublishDecision::AlreadyPublished);
        }
        self.tracker.publish(head, self.now);
        self.has_published = true;
        Ok(PublishDecision::Publish)
    }

    /// Returns true if other upstreams should be queried although this one succeeded: the head is three blocks late,
    /// but at least 1 s, or a jump waits for confirmation. Lateness counts anew from then on.
    pub fn should_query_others(&mut self) -> bool {
        let max_lateness = self
            .tracker
            .block_time
            .saturating_mul(HeadTracker::LATE_BLOCKS)
            .max(HeadTracker::MIN_LATENESS);
        let is_late = self.tracker.lateness(self.now).is_some_and(|late| late >= max_lateness);
        if is_late {
            self.tracker.schedule_baseline =
                self.tracker.published.map(|published| ObservedHead { at: self.now, ..published });
        }
        is_late || self.tracker.jump.is_some()
    }

    /// Ends the round. If a rejected head is confirmed by now, returns its upstream; the head then counts as published.
    /// After a publication only a higher head can be confirmed.
    #[must_use]
    pub fn finish(self) -> Option<usize> {
        let Self { tracker, now, rejected, has_published, .. } = self;
        let is_relevant =
            |claim: &RejectedHead| !has_published || claim.kind == SuspiciousHead::Jump;
        let claims: Vec<_> = rejected.into_iter().filter(is_relevant).collect();
        if !claims.iter().any(|claim| claim.kind == SuspiciousHead::Jump) {
            // No upstream reported a jump in this round, so the pending one is dropped.
            tracker.jump = None;
        }
        let jump = tracker.record_suspicious(SuspiciousHead::Jump, &claims, now);
        let regression = tracker.record_suspicious(SuspiciousHead::Regression, &claims, now);
        let (upstream, head) = find_agreement(&claims).or(jump).or(regression)?;
        tracker.publish(head, now);
        Some(upstream)
    }
}

/// Returns the higher head of two upstreams that nearly agree.
fn find_agreement(rejected: &[RejectedHead]) -> Option<(usize, u64)> {
    let agrees = |claim: &&RejectedHead| {
        let near = |other: &RejectedHead| {
            other.upstream != claim.upstream
                && other.head.abs_diff(claim.head) <= HeadTracker::TOLERANCE_BLOCKS
        };
        rejected.iter().any(near)
    };
    rejected
        .iter()
        .filter(agrees)
        .map(|claim| (claim.upstream, claim.head))
        .max_by_key(|claim| claim.1)
}

#[cfg(test)]
mod tests;
