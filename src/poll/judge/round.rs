//! One poll: the reports of upstreams, and which of them is published.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::fees::BlockAge;

use super::{
    Judge, ObservedHead, Published, REMOTE, Report, SuspiciousReply, Trail, expected_blocks,
    max_plausible_head,
};

/// Decision on a plausible reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PublishDecision {
    /// Publish it. It counts as published from now on.
    Publish,
    /// Another upstream's reply with this head was published in this round.
    AlreadyPublished,
}

/// Plausible heads of a round, computed before it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Upstream that reported the published head.
    source: usize,
    lowest: u64,
    highest: u64,
    /// Highest head of a chain that has just become faster.
    highest_of_faster: u64,
    /// Highest head of upstreams that are less preferred than the source.
    highest_of_others: u64,
}

impl Limits {
    fn new(judge: &Judge, now: Instant) -> Option<Self> {
        let Published { observed, source, .. } = judge.published?;
        let block_time = judge.observed_block_time();
        let expected = expected_blocks(observed.at, now, block_time);
        let second = expected_blocks(now, now + Duration::from_secs(1), block_time);
        Some(Self {
            source,
            lowest: observed.head,
            highest: max_plausible_head(observed, now, block_time),
            highest_of_faster: max_plausible_head(
                observed,
                now,
                block_time / Judge::MAX_SUDDEN_SPEED_UP,
            ),
            highest_of_others: observed.head.saturating_add(expected).saturating_add(second),
        })
    }

    /// Returns true for an upstream at least as preferred as the one that reported the published head. Of another
    /// replica's head the upstream is unknown, so then only the first one counts.
    pub(super) fn is_preferred(&self, upstream: usize) -> bool {
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
    /// False if one upstream alone has repeated the reply.
    pub is_majority: bool,
    /// False if the same suspicious amounts were confirmed before.
    pub is_new: bool,
}

/// One poll: the replies of upstreams, and the decisions.
#[derive(Debug)]
pub struct Round<'a> {
    judge: &'a mut Judge,
    now: Instant,
    /// When the reports were made.
    reported_at: Instant,
    /// `None`: no head is published.
    limits: Option<Limits>,
    /// All reports, with the reason if they are suspicious.
    reports: Vec<(Report, Option<SuspiciousReply>)>,
    /// Head published in this round.
    published: Option<u64>,
}

impl<'a> Round<'a> {
    pub(super) fn new(judge: &'a mut Judge, now: Instant) -> Self {
        let limits = Limits::new(judge, now);
        Self { judge, now, reported_at: now, limits, reports: Vec::new(), published: None }
    }

    /// Sets when the reports were made, if that was before the round. The head is compared with what the chain can have
    /// been then, and later heads are expected from then on.
    pub fn set_reported_at(&mut self, at: Instant) {
        self.reported_at = at.min(self.now);
        self.limits = Limits::new(self.judge, self.reported_at);
    }

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
        if self.judge.is_overtaken_by(report) {
            self.judge.restart();
            self.limits = None;
        } else if self.is_jump(report) {
            // The time that these blocks took is not known.
            self.judge.head_changes.clear();
        }
        self.update_trail(report);
        self.judge.publish(report, self.reported_at);
        self.published = Some(report.head);
        Ok(PublishDecision::Publish)
    }

    /// Returns the reason why a reply would be suspicious in this round, from its head and amounts.
    #[must_use]
    pub fn suspicion(&self, report: Report) -> Option<SuspiciousReply> {
        if self.judge.is_overtaken_by(report) {
            return report.suspicious_amounts;
        }
        let published = self.judge.published.map(|published| published.observed.head);
        if published.is_some_and(|published| report.head < published) {
            Some(SuspiciousReply::Regression)
        } else if self.is_jump(report) && !self.is_explained(report) {
            Some(SuspiciousReply::Jump)
        } else {
            report.suspicious_amounts
        }
    }

    /// Returns true if the head of `report` is higher than the time since the published one explains.
    fn is_jump(&self, report: Report) -> bool {
        self.limits.is_some_and(|limits| report.head > limits.highest_of(report.upstream))
    }

    /// Returns true if the block of a jump is of now, and a clock has leapt, or the chain may have become faster. An upstream that
    /// is less preferred cannot show the latter alone.
    fn is_explained(&self, report: Report) -> bool {
        let is_faster = self.limits.is_some_and(|limits| {
            limits.is_preferred(report.upstream) && report.head <= limits.highest_of_faster
        });
        report.is_of_now && (self.judge.has_leapt() || is_faster)
    }

    /// A preferred upstream with a plausible head ends the doubt. A less preferred one that takes over, or that is early,
    /// starts it.
    fn update_trail(&mut self, report: Report) {
        let judge = &mut *self.judge;
        let is_first = judge.published.is_none();
        match self.limits {
            None if is_first => {
                let block_time = judge.block_time;
                let trail = |source| Trail { observed: None, source, block_time };
                judge.trail = report.upstream.checked_sub(1).map(trail);
            }
            // Replicas with slightly different nodes adopt each other's records all the time.
            Some(limits)
                if report.head > limits.highest_of_others
                    || !(limits.is_preferred(report.upstream) || report.upstream == REMOTE) =>
            {
                judge.keep_trail(report.upstream);
            }
            _ => {
                let trail = &mut judge.trail;
                *trail = trail.filter(|trail| report.upstream > trail.source);
            }
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
    /// but at least 1 s. Lateness counts anew from then on.
    pub fn should_query_others(&mut self) -> bool {
        let judge = &mut *self.judge;
        let max_lateness =
            judge.block_time.saturating_mul(Judge::LATE_BLOCKS).max(Judge::MIN_LATENESS);
        let is_late = judge.lateness(self.now).is_some_and(|late| late >= max_lateness);
        if is_late {
            let baseline = |last: Published| ObservedHead { at: self.now, ..last.observed };
            judge.schedule_baseline = judge.published.map(baseline);
        }
        is_late || self.seeks_young_block()
    }

    /// Returns true if other upstreams may have a block that is not old. They are queried now and then while the
    /// published one is old, because a halted chain looks the same.
    fn seeks_young_block(&mut self) -> bool {
        let judge = &mut *self.judge;
        let interval = judge.block_time.max(Judge::MIN_PATIENCE);
        let is_due = judge
            .sought_young_at
            .is_none_or(|last| self.now.saturating_duration_since(last) >= interval);
        let seeks = is_due && judge.published.is_some_and(|last| last.is_old);
        if seeks {
            judge.sought_young_at = Some(self.now);
        }
        seeks
    }

    /// Ends the round. A suspicious reply that is confirmed by now counts as published.
    /// After a publication only a higher head or other amounts can be confirmed at once.
    #[must_use]
    pub fn finish(&mut self) -> RoundOutcome {
        let reports = std::mem::take(&mut self.reports);
        let Self { judge, now, limits, .. } = self;
        let (judge, now, limits) = (&mut **judge, *now, *limits);
        let plausible = || reports.iter().filter(|(_, suspicion)| suspicion.is_none());
        for (report, _) in plausible() {
            judge.claims.remove(&report.upstream);
            judge.last_plausible_at = Some(now);
        }
        let suspicious: Vec<_> =
            reports.iter().filter_map(|(report, reason)| Some((*report, (*reason)?))).collect();
        for (report, reason) in &suspicious {
            judge.record_claim(*report, *reason, now);
        }
        let votes = Votes::new(&reports);
        let is_outvoted = plausible().any(|(report, _)| votes.have_majority(report, None));
        let confirmed = judge.confirmed_by_majority(&suspicious, &votes, now).or_else(|| {
            let alone = || judge.confirmed_alone(&suspicious, &votes, limits, now);
            (!is_outvoted).then(alone).flatten()
        });
        let is_confirmed = |report: &Report| {
            confirmed.is_some_and(|(confirmed, _)| confirmed.upstream == report.upstream)
        };
        let refuted = suspicious.iter().filter(|(report, reason)| {
            !is_confirmed(report) && judge.is_refuted(report.upstream, *reason)
        });
        let refuted = refuted.map(|(report, _)| report.upstream).collect();
        let confirmed = confirmed.map(|(report, is_majority)| {
            let rounds = if is_majority { 1 } else { Judge::CONFIRMING_ROUNDS };
            let claim = judge.claims.get(&report.upstream);
            let is_new = claim.is_none_or(|claim| claim.rounds == rounds);
            judge.publish_confirmed(report, is_majority, now);
            judge.last_plausible_at = Some(now);
            Confirmation { upstream: report.upstream, is_majority, is_new }
        });
        RoundOutcome { confirmed, refuted }
    }
}

/// A suspicious report, and why.
type Suspicious = (Report, SuspiciousReply);

impl Judge {
    /// Returns what most upstreams say, with true. Of several heads the highest of an upstream. A lower head than a plausible
    /// one must have been repeated, and move.
    fn confirmed_by_majority(
        &self,
        suspicious: &[Suspicious],
        votes: &Votes<'_>,
        now: Instant,
    ) -> Option<(Report, bool)> {
        let believed = suspicious.iter().filter(|(report, reason)| {
            votes.have_majority(report, Some(*reason))
                && !self.outlasts(*report, now)
                && (votes.best_plausible.is_none()
                    || *reason != SuspiciousReply::Regression
                    || self.is_repeated_and_moving(report.upstream))
        });
        let newest = believed.max_by_key(|(report, _)| {
            (report.upstream != REMOTE, report.head, Reverse(report.upstream))
        });
        newest.map(|(report, _)| (*report, true))
    }

    /// Returns what the most preferred upstream has repeated often enough, with false.
    fn confirmed_alone(
        &self,
        suspicious: &[Suspicious],
        votes: &Votes<'_>,
        limits: Option<Limits>,
        now: Instant,
    ) -> Option<(Report, bool)> {
        let believed = suspicious.iter().filter(|(report, reason)| {
            !votes.have_majority(report, Some(*reason))
                && !self.outlasts(*report, now)
                && self.is_confirmed_alone(report.upstream, votes.best_plausible, limits, now)
        });
        let preferred = believed.min_by_key(|(report, _)| report.upstream);
        preferred.map(|(report, _)| (*report, false))
    }
}

/// Reports of a round, of which a majority may agree.
struct Votes<'a> {
    reports: &'a [(Report, Option<SuspiciousReply>)],
    has_young: bool,
    /// Number of upstreams with a vote.
    upstreams: usize,
    /// The most preferred upstream with a plausible reply.
    best_plausible: Option<usize>,
}

impl<'a> Votes<'a> {
    fn new(reports: &'a [(Report, Option<SuspiciousReply>)]) -> Self {
        let plausible = reports.iter().filter(|(_, suspicion)| suspicion.is_none());
        let has_young = reports.iter().any(|(report, _)| report.block_age == BlockAge::Young);
        let mut votes = Self {
            reports,
            has_young,
            upstreams: 0,
            best_plausible: plausible.map(|(report, _)| report.upstream).min(),
        };
        let counted = reports.iter().map(|(report, _)| report);
        votes.upstreams = count_upstreams(counted.filter(|report| votes.includes(report)));
        votes
    }

    /// Returns true if this report has a vote. A node that syncs or lags does not know the newest head, so it has none
    /// while another one's block is young.
    fn includes(&self, report: &Report) -> bool {
        !(self.has_young && report.block_age == BlockAge::Old)
    }

    /// Returns true if most upstreams agree with this report, at least two, and theirs are plausible or suspicious for
    /// a reason of the same kind. With a plausible report those agree too whose head is slightly lower than the published
    /// one, because another reply of this round may have raised that.
    fn have_majority(&self, report: &Report, reason: Option<SuspiciousReply>) -> bool {
        let kind = |of: Option<SuspiciousReply>| {
            of.filter(|of| reason.is_some() || *of != SuspiciousReply::Regression)
                .map(SuspiciousReply::concerns_head)
        };
        // The record of another replica must not outvote an own upstream.
        let counts = |upstream| self.best_plausible.is_none() || upstream != REMOTE;
        let supporters = self.reports.iter().filter(|(other, suspicion)| {
            kind(*suspicion) == kind(reason)
                && agree(report, other)
                && counts(other.upstream)
                && self.includes(other)
        });
        let supporters = count_upstreams(supporters.map(|(other, _)| other));
        supporters >= 2 && supporters.saturating_mul(2) > self.upstreams
    }
}

fn count_upstreams<'a>(reports: impl Iterator<Item = &'a Report>) -> usize {
    reports.map(|report| report.upstream).collect::<BTreeSet<_>>().len()
}

/// Returns true if both upstreams report nearly the same head and base fee.
fn agree(one: &Report, other: &Report) -> bool {
    let is_near = |low: u128, high: u128| high <= low.saturating_mul(Judge::TOLERANCE_FACTOR);
    one.head.abs_diff(other.head) <= Judge::TOLERANCE_BLOCKS
        && is_near(one.base_fee.min(other.base_fee), one.base_fee.max(other.base_fee))
}
