//! Which newest block may be published: the guard against nodes that lag, jump or stand still.
//!
//! Pure: block numbers and instants in, verdicts out. A poll opens a [`Round`], offers it each head
//! that an upstream claims, and closes it. A claim that is lower than what is published, or further
//! ahead than the chain can be, counts only once it is confirmed: by a second upstream in the same
//! round, or by three rounds whose claims go on from each other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What one chain's heads did so far.
#[derive(Debug)]
pub struct Heads {
    block_time: Duration,
    published: Option<Seen>,
    /// The moves of the published head, oldest first: the observed cadence.
    moves: VecDeque<Seen>,
    behind: Option<Suspect>,
    ahead: Option<Suspect>,
    /// From where on the head is expected to move by a block per block time.
    pace: Option<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    head: u64,
    at: Instant,
}

/// A claim that is not believed yet.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    seen: Seen,
    rounds: u32,
}

/// What is to be done with a head that can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It is to be published, and counts as published.
    Publish,
    /// Another upstream's answer at this head was published in this round.
    Known,
}

/// Why a head is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Implausible {
    /// Lower than the published one: a node that lags, or a chain that was reset.
    #[error("the newest block is behind the one that is known")]
    Behind,
    /// Higher than the chain can be by now, unless what is known is wrong or lags itself.
    #[error("the newest block is further ahead than the chain can be")]
    Ahead,
}

impl Implausible {
    /// The kind, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Behind => "head_behind",
            Self::Ahead => "head_ahead",
        }
    }
}

impl Heads {
    /// How many rounds confirm a claim.
    const CONFIRMING_ROUNDS: u32 = 3;
    /// By how many blocks a head may be ahead of twice what is expected, and by how many two
    /// upstreams that agree may differ.
    const SLACK_BLOCKS: u64 = 5;
    /// By how many blocks a head falls behind its pace before another upstream is asked.
    const LATE_BLOCKS: u32 = 3;
    const MIN_LATE: Duration = Duration::from_secs(1);
    /// How many moves tell the cadence.
    const MOVES: usize = 16;
    /// How much faster than configured a chain is believed to be.
    const MAX_SPEED_UP: u32 = 100;

    /// Nothing published yet, on a chain that should have a block every `block_time`.
    #[must_use]
    pub fn new(block_time: Duration) -> Self {
        let moves = VecDeque::with_capacity(Self::MOVES);
        Self { block_time, published: None, moves, behind: None, ahead: None, pace: None }
    }

    /// A poll's look at the upstreams, at `now`.
    pub fn round(&mut self, now: Instant) -> Round<'_> {
        let block_time = self.observed_block_time();
        let highest = self.published.map(|published| highest(published, now, block_time));
        Round { heads: self, now, highest, claims: Vec::new(), is_settled: false }
    }

    /// Takes note of a head that somebody else has looked at in this way and published; one that is lower than
    /// the published one, or a leap, is so because it was `confirmed`.
    ///
    /// # Errors
    ///
    /// Why it cannot be believed.
    pub fn adopt(&mut self, head: u64, now: Instant, confirmed: bool) -> Result<(), Implausible> {
        if !confirmed && let Some(published) = self.published {
            if head < published.head {
                return Err(Implausible::Behind);
            }
            if head > highest(published, now, self.observed_block_time()) {
                return Err(Implausible::Ahead);
            }
        }
        self.publish(head, now);
        Ok(())
    }

    /// The configured block time, or what the last moves of the head tell where that is less: a
    /// chain that became faster must not look as if it ran away.
    fn observed_block_time(&self) -> Duration {
        let (Some(first), Some(last)) = (self.moves.front(), self.moves.back()) else {
            return self.block_time;
        };
        let blocks = u32::try_from(last.head.saturating_sub(first.head)).unwrap_or(u32::MAX);
        let elapsed = last.at.saturating_duration_since(first.at);
        match elapsed.checked_div(blocks) {
            Some(observed) => observed.clamp(self.least_block_time(), self.block_time),
            None => self.block_time,
        }
    }

    fn least_block_time(&self) -> Duration {
        self.block_time / Self::MAX_SPEED_UP
    }

    fn publish(&mut self, head: u64, now: Instant) {
        self.behind = None;
        self.ahead = self.ahead.filter(|ahead| ahead.seen.head > head);
        let last = self.published.map(|published| published.head);
        if last == Some(head) {
            return;
        }
        let seen = Seen { head, at: now };
        if last.is_some_and(|last| head < last) {
            self.moves.clear();
            self.pace = None;
        }
        if self.moves.len() == Self::MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(seen);
        self.published = Some(seen);
        // A head that is further than its pace gets no credit for later.
        if self.lateness(now).is_none_or(|late| late.is_zero()) {
            self.pace = Some(seen);
        }
    }

    /// By how much the published head is behind one block per block time.
    fn lateness(&self, now: Instant) -> Option<Duration> {
        let (pace, published) = (self.pace?, self.published?);
        let blocks = u32::try_from(published.head.saturating_sub(pace.head)).unwrap_or(u32::MAX);
        let expected = self.block_time.saturating_mul(blocks);
        Some(now.saturating_duration_since(pace.at).saturating_sub(expected))
    }

    /// Takes note of one more round with a claim of this kind; the claim that is confirmed by now.
    /// Claims that leap about confirm nothing.
    fn suspect(
        &mut self,
        kind: Implausible,
        claims: &[Claim],
        now: Instant,
    ) -> Option<(usize, u64)> {
        let least_block_time = self.least_block_time();
        let suspect = match kind {
            Implausible::Behind => &mut self.behind,
            Implausible::Ahead => &mut self.ahead,
        };
        let goes_on = |claim: &Claim| {
            suspect.is_some_and(|last| {
                let lowest = last.seen.head.saturating_sub(Self::SLACK_BLOCKS);
                (lowest..=highest(last.seen, now, least_block_time)).contains(&claim.head)
            })
        };
        let mut claims = claims.iter().filter(|claim| claim.kind == kind);
        let first = claims.clone().next()?;
        let claim = claims.find(|claim| goes_on(claim)).unwrap_or(first);
        let before = if goes_on(claim) { suspect.map_or(0, |last| last.rounds) } else { 0 };
        let rounds = before.saturating_add(1);
        *suspect = Some(Suspect { seen: Seen { head: claim.head, at: now }, rounds });
        (rounds >= Self::CONFIRMING_ROUNDS).then_some((claim.upstream, claim.head))
    }
}

/// The highest head that can follow the one that was seen: twice what is expected and a few.
fn highest(seen: Seen, now: Instant, block_time: Duration) -> u64 {
    let elapsed = now.saturating_duration_since(seen.at).as_nanos();
    let expected = elapsed.div_ceil(block_time.as_nanos().max(1));
    let expected = u64::try_from(expected).unwrap_or(u64::MAX);
    seen.head.saturating_add(expected.saturating_mul(2)).saturating_add(Heads::SLACK_BLOCKS)
}

/// One poll: what the upstreams claim, and what is made of it.
#[derive(Debug)]
pub struct Round<'a> {
    heads: &'a mut Heads,
    now: Instant,
    /// What the head may be by now, from what was published before the round.
    highest: Option<u64>,
    claims: Vec<Claim>,
    is_settled: bool,
}

/// A head that was refused.
#[derive(Debug, Clone, Copy)]
struct Claim {
    upstream: usize,
    head: u64,
    kind: Implausible,
}

impl Round<'_> {
    /// What is to be done with `head`, which `upstream` claims. What is refused may still be
    /// confirmed by the round's [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// Why it cannot be believed.
    pub fn offer(&mut self, upstream: usize, head: u64) -> Result<Verdict, Implausible> {
        let published = self.heads.published.map(|published| published.head);
        let kind = if published.is_some_and(|published| head < published) {
            Some(Implausible::Behind)
        } else if self.highest.is_some_and(|highest| head > highest) {
            Some(Implausible::Ahead)
        } else {
            None
        };
        if let Some(kind) = kind {
            self.claims.push(Claim { upstream, head, kind });
            return Err(kind);
        }
        if self.is_settled && published == Some(head) {
            return Ok(Verdict::Known);
        }
        self.heads.publish(head, self.now);
        self.is_settled = true;
        Ok(Verdict::Publish)
    }

    /// Whether other upstreams should be asked although this one was good: when the head has fallen
    /// three blocks behind its pace since they were asked last, or when one of them claims to be
    /// far ahead.
    pub fn wants_second_opinion(&mut self) -> bool {
        let longest = self.heads.block_time.saturating_mul(Heads::LATE_BLOCKS).max(Heads::MIN_LATE);
        let is_late = self.heads.lateness(self.now).is_some_and(|late| late >= longest);
        if is_late {
            self.heads.pace =
                self.heads.published.map(|published| Seen { at: self.now, ..published });
        }
        is_late || self.heads.ahead.is_some()
    }

    /// Ends the round. A refused claim may be confirmed by now: its upstream is given, and its head
    /// counts as published. Where something was published, only a higher head can be.
    #[must_use]
    pub fn close(self) -> Option<usize> {
        let Self { heads, now, claims, is_settled, .. } = self;
        let counts = |claim: &Claim| !is_settled || claim.kind == Implausible::Ahead;
        let claims: Vec<_> = claims.into_iter().filter(counts).collect();
        if !claims.iter().any(|claim| claim.kind == Implausible::Ahead) {
            // All were asked while it stood, and nobody claims it any more.
            heads.ahead = None;
        }
        let ahead = heads.suspect(Implausible::Ahead, &claims, now);
        let behind = heads.suspect(Implausible::Behind, &claims, now);
        let (upstream, head) = agreed(&claims).or(ahead).or(behind)?;
        heads.publish(head, now);
        Some(upstream)
    }
}

/// The higher claim of two upstreams that say nearly the same.
fn agreed(claims: &[Claim]) -> Option<(usize, u64)> {
    let agrees = |claim: &&Claim| {
        let near = |other: &Claim| {
            other.upstream != claim.upstream
                && other.head.abs_diff(claim.head) <= Heads::SLACK_BLOCKS
        };
        claims.iter().any(near)
    };
    claims
        .iter()
        .filter(agrees)
        .map(|claim| (claim.upstream, claim.head))
        .max_by_key(|claim| claim.1)
}

#[cfg(test)]
mod tests;
