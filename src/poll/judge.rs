//! Decides which node's reply may be published. Guards against nodes that lag, jump, stall or lie about their head.
//!
//! Pure: reports and instants in, decisions out. A poll opens a [`Round`], checks the [`Report`] of each upstream, and
//! finishes it. Upstreams are known by their index: a lower one is preferred. The record of another process is a report too,
//! of the least preferred upstream [`REMOTE`].
//!
//! # Plausible heads
//!
//! The first head is published unchecked. Later a head is plausible from the published one up to twice the blocks
//! expected since then, plus 5. The expected number comes from the configured block time, or from the observed one if
//! that is shorter, at most by a factor of 100. An upstream that is less preferred than the one published last may
//! exceed the expected blocks only by one, or by the blocks of one second.
//!
//! After the wall clock has leapt, the time since the published head may be unknown, as after a pause of a virtual
//! machine. Until another head is published, a higher one is also plausible if its own header is of now.
//!
//! # Confirmation
//!
//! Any other reply is suspicious: a head behind, a head ahead, or amounts that contradict the blocks before. It is
//! published only once it is confirmed:
//!
//! - At once by a majority of the upstreams that answer in the round, at least two, with nearly the same head and base
//!   fee. But a lower head needs three rounds in which it moves while another upstream continues the published one. An
//!   upstream with an old block is not counted while another one's block is young.
//! - By one upstream in three of its rounds that are not far apart, while no majority contradicts it:
//!   - If no upstream is plausible: an upstream as preferred as the published one. Any other one must wait until no
//!     upstream has been plausible for `patience`.
//!   - If another upstream is plausible: a higher head of a more preferred upstream, or of any if the published head
//!     has not changed for `patience`. Suspicious amounts are never confirmed then.
//!
//! # Old blocks
//!
//! The number of a head does not tell whether the chain is there. A node that syncs or lags has an old block, as its
//! header tells. A block that is not old replaces an old one at once, whatever their numbers. An old block behind one
//! that is not old replaces it only after `max_age`, when nothing else can be served.
//!
//! # Trails
//!
//! A less preferred upstream that takes over alone may lie. The judge remembers the head before that. A more preferred
//! upstream that continues it wins after three rounds in which its head keeps the pace of the chain.

mod round;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::fees::BlockAge;
use crate::fees::plausibility::SuspiciousReply;
pub use round::{Confirmation, Limits, Round, RoundOutcome};

/// Index of other processes in reports: they are less preferred than every upstream.
pub const REMOTE: usize = usize::MAX;

/// Memory of the heads of one chain.
#[derive(Debug)]
pub struct Judge {
    block_time: Duration,
    /// Time without a plausible reply, or without a new block, after which a less preferred upstream is believed.
    patience: Duration,
    max_age: Duration,
    published: Option<Published>,
    /// When a plausible head was last reported.
    last_plausible_at: Option<Instant>,
    /// Time per block, as the published heads show.
    pace: Duration,
    /// Suspicious replies that are not confirmed yet, by upstream.
    claims: BTreeMap<usize, Claim>,
    /// Set while the published head may be a lie of an upstream that took over.
    trail: Option<Trail>,
    /// When other upstreams were last queried because the published head is late or its block old.
    queried_others_at: Option<Instant>,
    /// When a clock of the machine last leapt.
    leapt_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct ObservedHead {
    head: u64,
    at: Instant,
}

/// The published head and the upstream that reported it.
#[derive(Debug, Clone, Copy)]
struct Published {
    observed: ObservedHead,
    source: usize,
    /// True if the block was old.
    is_old: bool,
}

/// The head before a less preferred upstream took over.
#[derive(Debug, Clone, Copy)]
struct Trail {
    /// 0: nothing was published before.
    head: u64,
    source: usize,
    /// Pace of the chain at that time.
    pace: Duration,
}

/// Consecutive suspicious replies of one upstream.
#[derive(Debug, Clone, Copy)]
struct Claim {
    reason: SuspiciousReply,
    first: ObservedHead,
    last: ObservedHead,
    rounds: u32,
    /// Rounds with this reason, also if the heads do not continue each other.
    attempts: u32,
}

/// Newest block that an upstream reports.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Index of the upstream, or [`REMOTE`].
    pub upstream: usize,
    /// Number of the newest block.
    pub head: u64,
    /// Newest known base fee in wei per gas.
    pub base_fee: u128,
    /// Age of the newest block, as far as the upstream tells.
    pub block_age: BlockAge,
    /// True if the upstream has just returned the header of this block or of a later one, and it is of now.
    pub is_of_now: bool,
    /// Reason why the amounts are suspicious, if they are.
    pub suspicious_amounts: Option<SuspiciousReply>,
}

impl Judge {
    /// Number of rounds that confirm a reply.
    const CONFIRMING_ROUNDS: u32 = 3;
    /// Blocks that a head may exceed twice the expected number by, and by which two agreeing upstreams may differ.
    pub const TOLERANCE_BLOCKS: u64 = 5;
    /// Base fees of agreeing upstreams differ by at most this factor: about five full blocks.
    const TOLERANCE_FACTOR: u128 = 2;
    /// Blocks that the head falls behind before other upstreams are queried.
    const LATE_BLOCKS: u32 = 3;
    const MIN_LATENESS: Duration = Duration::from_secs(1);
    const PATIENCE_BLOCKS: u32 = 10;
    const MIN_PATIENCE: Duration = Duration::from_secs(5);
    /// A chain whose headers say so becomes this many times faster from one block to the next: Base went from 2 s to 200 ms.
    const MAX_SUDDEN_SPEED_UP: u32 = 10;
    /// A chain is assumed to be at most this many times faster than configured.
    const MAX_SPEED_UP: u32 = 100;

    /// Judge without a published head, of a chain with this block time, whose data is served until `max_age`.
    #[must_use]
    pub fn new(block_time: Duration, max_age: Duration) -> Self {
        let patience = block_time.saturating_mul(Self::PATIENCE_BLOCKS).max(Self::MIN_PATIENCE);
        Self {
            block_time,
            patience: patience.min(max_age / 2),
            max_age,
            published: None,
            last_plausible_at: None,
            pace: block_time,
            claims: BTreeMap::new(),
            trail: None,
            queried_others_at: None,
            leapt_at: None,
        }
    }

    /// Sets when a clock of the machine last leapt.
    pub fn set_leap(&mut self, at: Option<Instant>) {
        self.leapt_at = at;
    }

    /// Returns the index of the upstream whose reply was published last; `None`: another process's was, or none.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.published.map(|published| published.source).filter(|source| *source != REMOTE)
    }

    /// Starts the round of a poll at `now`.
    pub fn start_round(&mut self, now: Instant) -> Round<'_> {
        Round::new(self, now)
    }

    /// Returns the time per block between two heads, at most the configured block time: a chain that became faster must not
    /// look implausible. `None`: the head is not higher.
    fn pace_between(&self, first: ObservedHead, last: ObservedHead) -> Option<Duration> {
        let blocks = u32::try_from(last.head.saturating_sub(first.head)).unwrap_or(u32::MAX);
        let pace = last.at.saturating_duration_since(first.at).checked_div(blocks)?;
        Some(pace.clamp(self.min_block_time(), self.block_time))
    }

    fn min_block_time(&self) -> Duration {
        self.block_time / Self::MAX_SPEED_UP
    }

    /// Forgets the heads of a node that was behind, before one that is not is published.
    fn restart(&mut self) {
        let Self { last_plausible_at, queried_others_at, leapt_at, .. } = *self;
        let new = Self::new(self.block_time, self.max_age);
        *self = Self { last_plausible_at, queried_others_at, leapt_at, ..new };
    }

    /// Returns true if the published block is old and that of `report` is not.
    fn is_overtaken_by(&self, report: Report) -> bool {
        report.block_age == BlockAge::Young && self.published.is_some_and(|last| last.is_old)
    }

    /// Returns true if a clock has leapt since the published head was first seen.
    fn has_leapt(&self) -> bool {
        self.leapt_at > self.published.map(|published| published.observed.at)
    }

    /// Returns true if the published block is not old, that of `report` is, and the published one may be served until the
    /// next poll.
    fn outlasts(&self, report: Report, now: Instant) -> bool {
        report.block_age == BlockAge::Old
            && self.published.is_some_and(|Published { observed, is_old, .. }| {
                let age = now.saturating_duration_since(observed.at);
                !is_old && age + self.block_time < self.max_age
            })
    }

    /// Publishes a report of this time.
    fn publish(&mut self, report: Report, at: Instant) {
        let Report { head, upstream: source, .. } = report;
        let mut observed = ObservedHead { head, at };
        if let Some(Published { observed: last, .. }) = self.published {
            // A record of another process may be from before an own reply. Heads change in the order of publications.
            observed.at = if head == last.head { last.at } else { at.max(last.at) };
            let pace = self.pace_between(last, observed).unwrap_or(self.pace);
            self.pace = (self.pace.saturating_mul(7).saturating_add(pace)) / 8;
        }
        let is_old = report.block_age == BlockAge::Old;
        self.published = Some(Published { observed, source, is_old });
    }

    /// Publishes a confirmed reply. Its earlier claims show the block time from now on.
    fn publish_confirmed(&mut self, report: Report, is_majority: bool, now: Instant) {
        if is_majority {
            self.trail = None;
        } else {
            self.update_trail(report.upstream, false);
        }
        let claim = self.claims.remove(&report.upstream);
        self.claims.clear();
        self.last_plausible_at = Some(now);
        self.publish(report, now);
        match claim {
            Some(claim) if claim.reason.concerns_head() => {
                self.pace = self.pace_between(claim.first, claim.last).unwrap_or(self.block_time);
            }
            // The amounts stay suspicious until the blocks leave the window, and were confirmed once.
            Some(claim) => _ = self.claims.insert(report.upstream, claim),
            None => {}
        }
    }

    /// Before a head of `upstream` is published: ends the doubt if it is preferred, and else remembers what is published
    /// unless it `is_trusted`.
    fn update_trail(&mut self, upstream: usize, is_trusted: bool) {
        self.trail = self.trail.filter(|trail| upstream > trail.source);
        if let (None, false, Some(preferred)) = (self.trail, is_trusted, upstream.checked_sub(1)) {
            let source = self.published.map_or(preferred, |last| last.source.min(preferred));
            let head = self.published.map_or(0, |last| last.observed.head);
            self.trail = Some(Trail { head, source, pace: self.pace });
        }
    }

    /// Records one more suspicious reply of an upstream. Erratic heads confirm nothing.
    fn record_claim(&mut self, report: Report, reason: SuspiciousReply, now: Instant) {
        let observed = ObservedHead { head: report.head, at: now };
        let continues = |claim: &Claim| {
            let lowest = claim.last.head.saturating_sub(Self::TOLERANCE_BLOCKS);
            // It may have become much faster.
            let highest = max_plausible_head(claim.last, now, self.min_block_time());
            (lowest..=highest).contains(&report.head)
        };
        // After this time a suspicious reply says nothing for the next one.
        let lifetime = self.max_age.max(self.block_time.saturating_mul(2 * Self::PATIENCE_BLOCKS));
        let known = self.claims.get(&report.upstream).filter(|claim| {
            claim.reason == reason && now.saturating_duration_since(claim.last.at) < lifetime
        });
        let attempts = known.map_or(0, |claim| claim.attempts).saturating_add(1);
        let claim = match known.filter(|claim| continues(claim)) {
            Some(claim) => {
                Claim { last: observed, rounds: claim.rounds.saturating_add(1), attempts, ..*claim }
            }
            None => Claim { reason, first: observed, last: observed, rounds: 1, attempts },
        };
        self.claims.insert(report.upstream, claim);
    }

    /// Returns true if a suspicious reply that was not confirmed counts against its upstream. It does not while only
    /// further replies can show whether it is right.
    fn is_refuted(&self, upstream: usize, reason: SuspiciousReply) -> bool {
        match reason {
            SuspiciousReply::Jump => self
                .claims
                .get(&upstream)
                .is_some_and(|claim| claim.attempts > Self::CONFIRMING_ROUNDS),
            SuspiciousReply::Regression => {
                self.trail.is_none() || self.published.is_none_or(|last| last.source <= upstream)
            }
            SuspiciousReply::BaseFeeLeap | SuspiciousReply::Rewritten => true,
        }
    }

    /// Returns true if one upstream has repeated its suspicious reply often enough, as the module describes.
    /// `plausible`: the most preferred upstream with a plausible reply.
    fn is_confirmed_alone(
        &self,
        upstream: usize,
        plausible: Option<usize>,
        limits: Option<Limits>,
        now: Instant,
    ) -> bool {
        let Some(claim) = self.repeated(upstream) else { return false };
        let is_over = |since: Instant| now.saturating_duration_since(since) >= self.patience;
        match (plausible, claim.reason) {
            (Some(other), SuspiciousReply::Jump) => {
                upstream < other || self.published.is_some_and(|last| is_over(last.observed.at))
            }
            (Some(other), SuspiciousReply::Regression) => {
                let continues =
                    |trail: Trail| claim.last.head >= trail.head && claim.has_pace(trail.pace);
                upstream < other && self.trail.is_some_and(continues)
            }
            (Some(_), SuspiciousReply::BaseFeeLeap | SuspiciousReply::Rewritten) => false,
            (None, _) => {
                let is_preferred = limits.is_none_or(|limits| limits.is_preferred(upstream));
                is_preferred || self.last_plausible_at.is_none_or(is_over)
            }
        }
    }

    /// Returns what an upstream has repeated often enough.
    fn repeated(&self, upstream: usize) -> Option<&Claim> {
        self.claims.get(&upstream).filter(|claim| claim.rounds >= Self::CONFIRMING_ROUNDS)
    }

    /// Returns true if an upstream contradicts the published head of a less preferred one.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        let contradicts = |trail: Trail| {
            self.claims.range(..=trail.source).any(|(_, claim)| claim.reason.concerns_head())
        };
        self.trail.is_some_and(contradicts)
    }
}

impl Claim {
    /// Returns true if the head has advanced at half the pace of the chain at least. That of a node that stands or crawls has
    /// not.
    fn is_moving(&self, pace: Duration) -> bool {
        let (blocks, expected) = self.progress(pace);
        blocks > 0 && blocks.saturating_mul(2) >= expected
    }

    /// Returns true if the head has advanced at the pace of the chain, roughly. A node that catches up is faster.
    fn has_pace(&self, pace: Duration) -> bool {
        let (blocks, expected) = self.progress(pace);
        let most = expected.saturating_mul(3).saturating_add(4);
        self.is_moving(pace) && blocks.saturating_mul(2) <= most
    }

    /// Returns the number of blocks since the first claim, and the expected one.
    fn progress(&self, pace: Duration) -> (u64, u64) {
        let blocks = self.last.head.saturating_sub(self.first.head);
        (blocks, expected_blocks(self.first.at, self.last.at, pace))
    }
}

/// Returns the number of blocks between two times, rounded up.
fn expected_blocks(since: Instant, now: Instant, block_time: Duration) -> u64 {
    let elapsed = now.saturating_duration_since(since).as_nanos();
    u64::try_from(elapsed.div_ceil(block_time.as_nanos().max(1))).unwrap_or(u64::MAX)
}

/// Returns the highest plausible head after the observed one: twice the expected number of blocks, plus the tolerance.
fn max_plausible_head(observed: ObservedHead, now: Instant, block_time: Duration) -> u64 {
    let expected = expected_blocks(observed.at, now, block_time);
    observed.head.saturating_add(expected.saturating_mul(2)).saturating_add(Judge::TOLERANCE_BLOCKS)
}

#[cfg(test)]
mod tests;
