//! Decides which node's reply may be published. Guards against nodes that lag, jump, stall or lie about their head.
//!
//! Pure: reports and instants in, decisions out, so that `benches/replies.rs` can check millions of polls. A poll opens
//! a [`PollRound`], checks the [`Report`] of each upstream, and finishes it. Upstreams are known by their index: a lower
//! one is preferred. The record of another replica is a report too, of the least preferred upstream [`REMOTE`].
//!
//! # Plausible heads
//!
//! The first head is published unchecked. Later a head is plausible from the published one up to twice the blocks
//! expected since then, plus 5. The expected number comes from the configured block time, or from the observed one if
//! that is shorter, at most by a factor of 100. An upstream that is less preferred than the one published last may
//! exceed the expected blocks only by one, or by the blocks of one second.
//!
//! # Confirmation
//!
//! Any other reply is suspicious: a head behind, a head ahead, or amounts that contradict the blocks before. It is
//! published only once it is confirmed:
//!
//! - At once by a majority of the upstreams that answer in the round, at least two, with nearly the same head and base
//!   fee. But a lower head needs three rounds in which it moves while another upstream continues the published one.
//! - By one upstream in three of its rounds, while no majority contradicts it:
//!   - If no upstream is plausible: an upstream as preferred as the published one. Any other one must wait until no
//!     upstream has been plausible for `patience`.
//!   - If another upstream is plausible: a higher head of a more preferred upstream, or of any if the published head
//!     has not changed for `patience`. Suspicious amounts are never confirmed then.
//!
//! A less preferred upstream that leaps alone may lie. The tracker remembers the head before the leap. A more preferred
//! upstream whose heads continue it at the pace of the chain wins after three rounds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Index of other replicas in reports: they are less preferred than every upstream.
pub const REMOTE: usize = usize::MAX;

/// History of one chain's heads.
#[derive(Debug)]
pub struct HeadTracker {
    block_time: Duration,
    /// Time without a plausible reply, or without a new block, after which a less preferred upstream is believed.
    patience: Duration,
    published: Option<Published>,
    /// When a plausible head was last reported.
    last_plausible_at: Option<Instant>,
    /// Changes of the published head, oldest first, from which the block time is observed.
    head_changes: VecDeque<ObservedHead>,
    /// Suspicious replies that are not confirmed yet, by upstream.
    claims: BTreeMap<usize, Claim>,
    before_leap: Option<Trail>,
    /// Head from which one block per block time is expected.
    schedule_baseline: Option<ObservedHead>,
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
}

/// Consecutive suspicious replies of one upstream.
#[derive(Debug, Clone, Copy)]
struct Claim {
    reason: SuspiciousReply,
    first: ObservedHead,
    last: ObservedHead,
    rounds: u32,
}

/// What was published before a less preferred upstream leapt ahead alone.
#[derive(Debug, Clone, Copy)]
struct Trail {
    observed: ObservedHead,
    source: usize,
    block_time: Duration,
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
    /// Reason why the amounts are suspicious, if they are.
    pub suspicious_amounts: Option<SuspiciousReply>,
}

/// Decision on a plausible reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PublishDecision {
    /// Publish it. It counts as published from now on.
    Publish,
    /// Another upstream's reply with this head was published in this round.
    AlreadyPublished,
}

/// Reason why a reply is not published unless it is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuspiciousReply {
    /// Lower than the published head: a node that lags, or a chain that was reset.
    #[error("the newest block is lower than the known one")]
    Regression,
    /// Higher than the chain can be by now, unless the published head is wrong or lags.
    #[error("the newest block is further ahead than the chain can be")]
    Jump,
    /// The base fee changes more from one block to the next than the chain allows.
    #[error("the base fee changes more between two blocks than the chain allows")]
    BaseFeeLeap,
    /// The blocks that were published before have base fees that the chain does not allow after those.
    #[error("all known blocks have implausibly different base fees than before")]
    Rewritten,
}

impl SuspiciousReply {
    /// Label of the reason, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Regression => "head_behind",
            Self::Jump => "head_ahead",
            Self::BaseFeeLeap => "base_fee_leap",
            Self::Rewritten => "history_rewritten",
        }
    }
}

impl HeadTracker {
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
    /// Number of head changes from which the block time is observed.
    const MAX_HEAD_CHANGES: usize = 16;
    /// A chain is assumed to be at most this many times faster than configured.
    const MAX_SPEED_UP: u32 = 100;

    /// Tracker without a published head, of a chain with this block time, whose data is served until `max_age`.
    #[must_use]
    pub fn new(block_time: Duration, max_age: Duration) -> Self {
        let patience = block_time.saturating_mul(Self::PATIENCE_BLOCKS).max(Self::MIN_PATIENCE);
        Self {
            block_time,
            patience: patience.min(max_age / 2),
            published: None,
            last_plausible_at: None,
            head_changes: VecDeque::with_capacity(Self::MAX_HEAD_CHANGES),
            claims: BTreeMap::new(),
            before_leap: None,
            schedule_baseline: None,
        }
    }

    /// Starts the round of a poll at `now`.
    pub fn start_round(&mut self, now: Instant) -> PollRound<'_> {
        PollRound {
            limits: self.limits(now),
            tracker: self,
            now,
            reports: Vec::new(),
            published: None,
        }
    }

    fn limits(&self, now: Instant) -> Option<Limits> {
        let Published { observed, source } = self.published?;
        let block_time = self.observed_block_time();
        let expected = expected_blocks(observed.at, now, block_time);
        let second = expected_blocks(now, now + Duration::from_secs(1), block_time);
        Some(Limits {
            source,
            lowest: observed.head,
            highest: max_plausible_head(observed, now, block_time),
            highest_of_others: observed.head.saturating_add(expected).saturating_add(second),
        })
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

    fn publish(&mut self, head: u64, now: Instant, source: usize) {
        let last = self.published.map(|published| published.observed);
        if let Some(observed) = last.filter(|last| last.head == head) {
            self.published = Some(Published { observed, source });
            return;
        }
        let observed = ObservedHead { head, at: now };
        if last.is_some_and(|last| head < last.head) {
            self.head_changes.clear();
            self.schedule_baseline = None;
        }
        if self.head_changes.len() == Self::MAX_HEAD_CHANGES {
            self.head_changes.pop_front();
        }
        self.head_changes.push_back(observed);
        self.published = Some(Published { observed, source });
        // A head ahead of its schedule gets no credit for later.
        if self.lateness(now).is_none_or(|late| late.is_zero()) {
            self.schedule_baseline = Some(observed);
        }
    }

    /// Publishes a confirmed reply. Its earlier claims show the block time from now on.
    fn publish_confirmed(&mut self, report: Report, is_majority: bool, now: Instant) {
        if is_majority {
            self.before_leap = None;
        } else {
            self.keep_trail(report.upstream);
        }
        let claim = self.claims.remove(&report.upstream);
        self.claims.clear();
        match claim {
            Some(claim) if claim.reason.is_about_head() => {
                self.head_changes.clear();
                self.head_changes.push_back(claim.first);
            }
            // The amounts stay suspicious until the blocks leave the window, and were confirmed once.
            Some(claim) => _ = self.claims.insert(report.upstream, claim),
            None => {}
        }
        self.publish(report.head, now, report.upstream);
    }

    /// Before a leap of `upstream` alone: remembers what is published, unless a preferred upstream leaps.
    fn keep_trail(&mut self, upstream: usize) {
        self.before_leap = self.before_leap.filter(|trail| upstream > trail.source);
        let block_time = self.observed_block_time();
        if let (None, Some(published), Some(preferred)) =
            (self.before_leap, self.published, upstream.checked_sub(1))
        {
            let Published { observed, source } = published;
            let source = source.min(preferred);
            self.before_leap = Some(Trail { observed, source, block_time });
        }
    }

    /// Delay of the published head against one block per block time since the baseline; `None`: no baseline.
    fn lateness(&self, now: Instant) -> Option<Duration> {
        let (baseline, published) = (self.schedule_baseline?, self.published?);
        let blocks = published.observed.head.saturating_sub(baseline.head);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let expected = self.block_time.saturating_mul(blocks);
        Some(now.saturating_duration_since(baseline.at).saturating_sub(expected))
    }

    /// Records one more suspicious reply of an upstream. Erratic heads confirm nothing.
    fn record_claim(&mut self, report: Report, reason: SuspiciousReply, now: Instant) {
        // On the trail only the pace of the chain counts. Otherwise it may have become much faster.
        let block_time = match self.before_leap {
            Some(trail) if reason == SuspiciousReply::Regression => trail.block_time,
            _ => self.min_block_time(),
        };
        let observed = ObservedHead { head: report.head, at: now };
        let continues = |claim: &Claim| {
            let lowest = claim.last.head.saturating_sub(Self::TOLERANCE_BLOCKS);
            claim.reason == reason
                && (lowest..=max_plausible_head(claim.last, now, block_time)).contains(&report.head)
        };
        let claim = match self.claims.get(&report.upstream).filter(|claim| continues(claim)) {
            Some(claim) => {
                Claim { last: observed, rounds: claim.rounds.saturating_add(1), ..*claim }
            }
            None => Claim { reason, first: observed, last: observed, rounds: 1 },
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
                .is_some_and(|claim| claim.rounds > Self::CONFIRMING_ROUNDS),
            SuspiciousReply::Regression => {
                self.before_leap.is_none()
                    || self.published.is_none_or(|published| published.source <= upstream)
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
        let repeated = |claim: &&Claim| claim.rounds >= Self::CONFIRMING_ROUNDS;
        let Some(claim) = self.claims.get(&upstream).filter(repeated) else { return false };
        let is_over = |since: Instant| now.saturating_duration_since(since) >= self.patience;
        match (plausible, claim.reason) {
            (Some(other), SuspiciousReply::Jump) => {
                upstream < other || self.published.is_some_and(|last| is_over(last.observed.at))
            }
            (Some(other), SuspiciousReply::Regression) => {
                upstream < other && self.continues_trail(claim, now)
            }
            (Some(_), SuspiciousReply::BaseFeeLeap | SuspiciousReply::Rewritten) => false,
            (None, _) => {
                let is_preferred = limits.is_none_or(|limits| limits.is_preferred(upstream));
                (is_preferred && upstream != REMOTE) || self.last_plausible_at.is_none_or(is_over)
            }
        }
    }

    /// Returns true if the heads of this claim continue what was published before a leap, at the pace of the chain.
    fn continues_trail(&self, claim: &Claim, now: Instant) -> bool {
        let Some(Trail { observed, block_time, .. }) = self.before_leap else { return false };
        let range = observed.head..=max_plausible_head(observed, now, block_time);
        range.contains(&claim.first.head)
            && range.contains(&claim.last.head)
            && claim.is_moving(block_time)
    }
}

impl SuspiciousReply {
    fn is_about_head(self) -> bool {
        matches!(self, Self::Regression | Self::Jump)
    }
}

impl Claim {
    /// Returns true if the head has advanced since the first claim, at half the pace of the chain at least.
    fn is_moving(&self, block_time: Duration) -> bool {
        let blocks = self.last.head.saturating_sub(self.first.head);
        let expected = expected_blocks(self.first.at, self.last.at, block_time);
        blocks > 0 && blocks.saturating_mul(2) >= expected
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
    observed
        .head
        .saturating_add(expected.saturating_mul(2))
        .saturating_add(HeadTracker::TOLERANCE_BLOCKS)
}

/// Plausible heads of a round, computed before it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Upstream that reported the published head.
    source: usize,
    lowest: u64,
    highest: u64,
    /// Highest head of upstreams that are less preferred than the source.
    highest_of_others: u64,
}

impl Limits {
    /// Returns true for an upstream at least as preferred as the one that reported the published head. Of another
    /// replica's head the upstream is unknown, so then only the first one counts.
    fn is_preferred(&self, upstream: usize) -> bool {
        upstream == 0 || (upstream <= self.source && self.source != REMOTE)
    }

    /// Returns the highest plausible head of an upstream.
    fn highest_of(&self, upstream: usize) -> u64 {
        if self.is_preferred(upstream) { self.highest } else { self.highest_of_others }
    }

    /// Returns true if this head of an upstream is plausible.
    #[must_use]
    pub fn contains(&self, upstream: usize, head: u64) -> bool {
        (self.lowest..=self.highest_of(upstream)).contains(&head)
    }
}

/// Outcome of a round for its suspicious replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundOutcome {
    /// Reply to publish.
    pub confirmed: Option<Confirmation>,
    /// Upstreams whose suspicious reply counts against them.
    pub refuted: Vec<usize>,
}

/// A suspicious reply that is to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation {
    /// Index of the upstream, or [`REMOTE`].
    pub upstream: usize,
    /// False if the same suspicious amounts were confirmed before.
    pub is_new: bool,
}

/// One poll: the replies of upstreams, and the decisions.
#[derive(Debug)]
pub struct PollRound<'a> {
    tracker: &'a mut HeadTracker,
    now: Instant,
    /// `None`: no head is published.
    limits: Option<Limits>,
    /// All reports, with the reason if they are suspicious.
    reports: Vec<(Report, Option<SuspiciousReply>)>,
    /// Head published in this round.
    published: Option<u64>,
}

impl PollRound<'_> {
    /// Checks a reply. A suspicious one may still be confirmed by [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// Returns why the reply is suspicious.
    pub fn check(&mut self, report: Report) -> Result<PublishDecision, SuspiciousReply> {
        let suspicion = self.suspicion(report);
        self.reports.push((report, suspicion));
        if let Some(reason) = suspicion {
            return Err(reason);
        }
        if self.published == Some(report.head) {
            return Ok(PublishDecision::AlreadyPublished);
        }
        self.note_leap(report);
        self.tracker.publish(report.head, self.now, report.upstream);
        self.published = Some(report.head);
        Ok(PublishDecision::Publish)
    }

    /// Returns the reason why a reply would be suspicious in this round, from its head and amounts.
    #[must_use]
    pub fn suspicion(&self, report: Report) -> Option<SuspiciousReply> {
        let published = self.tracker.published.map(|published| published.observed.head);
        let highest = self.limits.map(|limits| limits.highest_of(report.upstream));
        if published.is_some_and(|published| report.head < published) {
            Some(SuspiciousReply::Regression)
        } else if highest.is_some_and(|highest| report.head > highest) {
            Some(SuspiciousReply::Jump)
        } else {
            report.suspicious_amounts
        }
    }

    /// A preferred upstream with a plausible head ends the doubt after a leap. Another one that is early starts it.
    fn note_leap(&mut self, report: Report) {
        if self.limits.is_some_and(|limits| report.head > limits.highest_of_others) {
            self.tracker.keep_trail(report.upstream);
        } else {
            let trail = &mut self.tracker.before_leap;
            *trail = trail.filter(|trail| report.upstream > trail.source);
        }
    }

    /// Adds a suspicious report of another replica, which supports that of an upstream.
    pub fn add_suspicious(&mut self, report: Report, reason: SuspiciousReply) {
        self.reports.push((report, Some(reason)));
    }

    /// Returns the plausible heads; `None`: all.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        self.limits
    }

    /// Returns true if a reply of this round is suspicious.
    #[must_use]
    pub fn is_disputed(&self) -> bool {
        self.reports.iter().any(|(_, suspicion)| suspicion.is_some())
    }

    /// Returns true if other upstreams should be queried although this one succeeded: the head is three blocks late,
    /// but at least 1 s, or a jump waits for confirmation. Lateness counts anew from then on.
    pub fn should_query_others(&mut self) -> bool {
        let tracker = &mut *self.tracker;
        let max_lateness = tracker
            .block_time
            .saturating_mul(HeadTracker::LATE_BLOCKS)
            .max(HeadTracker::MIN_LATENESS);
        let is_late = tracker.lateness(self.now).is_some_and(|late| late >= max_lateness);
        if is_late {
            let baseline = |last: Published| ObservedHead { at: self.now, ..last.observed };
            tracker.schedule_baseline = tracker.published.map(baseline);
        }
        let is_pending = |claim: &Claim| {
            claim.reason == SuspiciousReply::Jump
                && claim.rounds < HeadTracker::CONFIRMING_ROUNDS
                && self.now.saturating_duration_since(claim.last.at) < tracker.patience
        };
        is_late || tracker.claims.values().any(is_pending)
    }

    /// Ends the round. A suspicious reply that is confirmed by now counts as published.
    /// After a publication only a higher head or other amounts can be confirmed at once.
    #[must_use]
    pub fn finish(self) -> RoundOutcome {
        let Self { tracker, now, limits, reports, .. } = self;
        let plausible = || reports.iter().filter(|(_, suspicion)| suspicion.is_none());
        for (report, _) in plausible() {
            tracker.claims.remove(&report.upstream);
            tracker.last_plausible_at = Some(now);
        }
        let suspicious: Vec<_> =
            reports.iter().filter_map(|(report, reason)| Some((*report, (*reason)?))).collect();
        for (report, reason) in &suspicious {
            tracker.record_claim(*report, *reason, now);
        }
        let best_plausible = plausible().map(|(report, _)| report.upstream).min();
        let answers = count_upstreams(reports.iter().map(|(report, _)| report));
        let is_majority = |report: &Report, reason: Option<SuspiciousReply>| {
            let is_same = |other: Option<SuspiciousReply>| {
                reason.map(SuspiciousReply::is_about_head)
                    == other.map(SuspiciousReply::is_about_head)
            };
            let supporters =
                reports.iter().filter(|(other, why)| is_same(*why) && agree(report, other));
            let supporters = count_upstreams(supporters.map(|(other, _)| other));
            supporters >= 2 && supporters.saturating_mul(2) > answers
        };
        let is_outvoted = plausible().any(|(report, _)| is_majority(report, None));
        let confirmed = suspicious.iter().filter_map(|(report, reason)| {
            let has_majority = is_majority(report, Some(*reason));
            let is_confirmed = if has_majority {
                best_plausible.is_none()
                    || *reason != SuspiciousReply::Regression
                    || tracker.claims.get(&report.upstream).is_some_and(|claim| {
                        claim.rounds >= HeadTracker::CONFIRMING_ROUNDS
                            && claim.is_moving(tracker.block_time)
                    })
            } else {
                !is_outvoted
                    && tracker.is_confirmed_alone(report.upstream, best_plausible, limits, now)
            };
            is_confirmed.then_some((has_majority, *report))
        });
        // Of a majority the newest head of an upstream; else the most preferred upstream.
        let confirmed = confirmed.max_by_key(|(has_majority, report)| {
            let head = if *has_majority { report.head } else { 0 };
            (*has_majority, report.upstream != REMOTE, head, Reverse(report.upstream))
        });
        let is_refuted = |(report, reason): &(Report, SuspiciousReply)| {
            let is_confirmed =
                confirmed.is_some_and(|(_, other)| other.upstream == report.upstream);
            (!is_confirmed && tracker.is_refuted(report.upstream, *reason))
                .then_some(report.upstream)
        };
        let refuted = suspicious.iter().filter_map(is_refuted).collect();
        let confirmed = confirmed.map(|(has_majority, report)| {
            let claim = tracker.claims.get(&report.upstream);
            let is_new = claim.is_none_or(|claim| {
                claim.rounds == if has_majority { 1 } else { HeadTracker::CONFIRMING_ROUNDS }
            });
            tracker.publish_confirmed(report, has_majority, now);
            tracker.last_plausible_at = Some(now);
            Confirmation { upstream: report.upstream, is_new }
        });
        RoundOutcome { confirmed, refuted }
    }
}

fn count_upstreams<'a>(reports: impl Iterator<Item = &'a Report>) -> usize {
    reports.map(|report| report.upstream).collect::<BTreeSet<_>>().len()
}

/// Returns true if both upstreams report nearly the same head and base fee.
fn agree(one: &Report, other: &Report) -> bool {
    let is_near = |low: u128, high: u128| high <= low.saturating_mul(HeadTracker::TOLERANCE_FACTOR);
    one.head.abs_diff(other.head) <= HeadTracker::TOLERANCE_BLOCKS
        && is_near(one.base_fee.min(other.base_fee), one.base_fee.max(other.base_fee))
}

#[cfg(test)]
mod tests;
