//! One poll: the reports of upstreams, and which of them is published.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use crate::fees::BlockAge;

use super::{
    Judge, Published, REMOTE, Report, SuspiciousReply, expected_blocks, max_plausible_head,
};

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
        let block_time = judge.pace;
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
    /// process's head the upstream is unknown, so then only the first one counts.
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

    /// Checks a reply. Returns true if it is to be published, which it is from now on; false if another one with this head
    /// was published in this round. A suspicious one may still be confirmed by [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// Returns why the reply is suspicious.
    pub fn check(&mut self, report: Report) -> Result<bool, SuspiciousReply> {
        let suspicion = self.suspicion(report);
        self.reports.push((report, suspicion));
        if let Some(reason) = suspicion {
            return Err(reason);
        }
        if self.published == Some(report.head) {
            return Ok(false);
        }
        if self.judge.is_overtaken_by(report) {
            self.judge.restart();
            self.limits = None;
        }
        // Processes with slightly different nodes adopt each other's records all the time.
        let is_trusted = match self.limits {
            None => self.judge.published.is_some(),
            Some(limits) => {
                report.head <= limits.highest_of_others
                    && (limits.is_preferred(report.upstream) || report.upstream == REMOTE)
            }
        };
        self.judge.update_trail(report.upstream, is_trusted);
        self.judge.publish(report, self.reported_at);
        self.published = Some(report.head);
        Ok(true)
    }

    /// Returns the reason why a reply would be suspicious in this round, from its head and amounts.
    pub(super) fn suspicion(&self, report: Report) -> Option<SuspiciousReply> {
        if self.judge.is_overtaken_by(report) {
            return report.suspicious_amounts;
        }
        if self.judge.published.is_some_and(|published| report.head < published.observed.head) {
            return Some(SuspiciousReply::Regression);
        }
        let is_jump = self.limits.is_some_and(|limits| {
            // An upstream that is less preferred cannot show alone that the chain has become faster.
            let is_faster =
                limits.is_preferred(report.upstream) && report.head <= limits.highest_of_faster;
            let is_explained = report.is_of_now && (self.judge.has_leapt() || is_faster);
            report.head > limits.highest_of(report.upstream) && !is_explained
        });
        if is_jump { Some(SuspiciousReply::Jump) } else { report.suspicious_amounts }
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

    /// Returns true if other upstreams should be queried although this one succeeded: no head has followed for three blocks,
    /// but at least 1 s, or its block is old. Then they are queried now and then, because a halted chain looks the same.
    pub fn should_query_others(&mut self) -> bool {
        let (now, judge) = (self.now, &mut *self.judge);
        let Some(last) = judge.published else { return false };
        let interval = if last.is_old {
            judge.block_time.max(Judge::MIN_PATIENCE)
        } else {
            judge.block_time.saturating_mul(Judge::LATE_BLOCKS).max(Judge::MIN_LATENESS)
        };
        let is_over = |since: Instant| now.saturating_duration_since(since) >= interval;
        let is_due = (last.is_old || is_over(last.observed.at))
            && judge.queried_others_at.is_none_or(is_over);
        if is_due {
            judge.queried_others_at = Some(now);
        }
        is_due
    }

    /// Ends the round, at `now`. A suspicious reply that is confirmed by now counts as published.
    /// After a publication only a higher head or other amounts can be confirmed at once.
    #[must_use]
    pub fn finish(&mut self, now: Instant) -> RoundOutcome {
        let reports = std::mem::take(&mut self.reports);
        for (report, suspicion) in &reports {
            if let Some(reason) = suspicion {
                self.judge.record_claim(*report, *reason, self.now);
            } else {
                self.judge.claims.remove(&report.upstream);
                self.judge.last_plausible_at = Some(self.now);
            }
        }
        let votes = Votes::new(&reports);
        let suspicious: Vec<_> =
            reports.iter().filter_map(|(report, reason)| Some((*report, (*reason)?))).collect();
        // Of what most say the newest head of an upstream; else what the most preferred one has repeated.
        let believed = suspicious.iter().filter_map(|(report, reason)| {
            let is_majority = self.confirmation(*report, *reason, &votes, now)?;
            let head = if is_majority { report.head } else { 0 };
            let rank = (is_majority, head, Reverse(report.upstream));
            Some((rank, *report))
        });
        let confirmed = believed.max_by_key(|(rank, _)| *rank);
        let upstream = confirmed.map(|(_, report)| report.upstream);
        let refuted = suspicious.iter().filter(|(report, reason)| {
            Some(report.upstream) != upstream && self.judge.is_refuted(report.upstream, *reason)
        });
        let refuted = refuted.map(|(report, _)| report.upstream).collect();
        let confirmed = confirmed.map(|((is_majority, ..), report)| {
            self.judge.publish_confirmed(report, is_majority, self.now);
            Confirmation { upstream: report.upstream, is_majority }
        });
        RoundOutcome { confirmed, refuted }
    }

    /// Returns true if most upstreams confirm a suspicious report, false if its upstream has repeated it often enough; `None`:
    /// it is not confirmed. A lower head than a plausible one must have been repeated, and move, in either case.
    fn confirmation(
        &self,
        report: Report,
        reason: SuspiciousReply,
        votes: &Votes<'_>,
        now: Instant,
    ) -> Option<bool> {
        let judge = &*self.judge;
        if judge.outlasts(report, now) {
            return None;
        }
        if votes.have_majority(&report, Some(reason)) {
            let is_lower = reason == SuspiciousReply::Regression && votes.best_plausible.is_some();
            let has_moved = judge
                .repeated(report.upstream)
                .is_some_and(|claim| claim.is_moving(judge.block_time));
            return (!is_lower || has_moved).then_some(true);
        }
        let is_confirmed =
            judge.is_confirmed_alone(report.upstream, votes.best_plausible, self.limits, self.now);
        (is_confirmed && !votes.confirm_plausible()).then_some(false)
    }
}

/// Reports of a round, of which a majority may agree.
struct Votes<'a> {
    /// Those that have a vote, one of each upstream.
    reports: Vec<&'a (Report, Option<SuspiciousReply>)>,
    /// The most preferred upstream with a plausible reply.
    best_plausible: Option<usize>,
}

impl<'a> Votes<'a> {
    /// Counts the reports. A node that syncs or lags does not know the newest head, so it has no vote while another one's
    /// block is young.
    fn new(reports: &'a [(Report, Option<SuspiciousReply>)]) -> Self {
        let plausible = reports.iter().filter(|(_, suspicion)| suspicion.is_none());
        let best_plausible = plausible.map(|(report, _)| report.upstream).min();
        let has_young = reports.iter().any(|(report, _)| report.block_age == BlockAge::Young);
        let voters = reports.iter().filter(|(it, _)| !has_young || it.block_age != BlockAge::Old);
        Self { reports: voters.collect(), best_plausible }
    }

    /// Returns true if most upstreams agree with a plausible report.
    fn confirm_plausible(&self) -> bool {
        let mut plausible = self.reports.iter().filter(|(_, suspicion)| suspicion.is_none());
        plausible.any(|(report, _)| self.have_majority(report, None))
    }

    /// Returns true if most upstreams agree with this report, at least two, and theirs are plausible or suspicious for
    /// a reason of the same kind. With a plausible report those agree too whose head is slightly lower than the published
    /// one, because another reply of this round may have raised that.
    fn have_majority(&self, report: &Report, reason: Option<SuspiciousReply>) -> bool {
        let kind = |of: Option<SuspiciousReply>| {
            of.filter(|of| reason.is_some() || *of != SuspiciousReply::Regression)
                .map(SuspiciousReply::concerns_head)
        };
        let supporters = self
            .reports
            .iter()
            .filter(|(other, suspicion)| kind(*suspicion) == kind(reason) && agree(report, other));
        let supporters = supporters.count();
        supporters >= 2 && supporters.saturating_mul(2) > self.reports.len()
    }
}

/// Returns true if both upstreams report nearly the same head and base fee.
fn agree(one: &Report, other: &Report) -> bool {
    let is_near = |low: u128, high: u128| high <= low.saturating_mul(Judge::TOLERANCE_FACTOR);
    one.head.abs_diff(other.head) <= Judge::TOLERANCE_BLOCKS
        && is_near(one.base_fee.min(other.base_fee), one.base_fee.max(other.base_fee))
}
