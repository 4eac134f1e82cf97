//! Which newest block may be published: the guard against nodes that lag, jump or stand still.
//!
//! Pure: block numbers and instants in, verdicts out. A poll opens a [`Round`], offers it each head
//! that an upstream claims, and closes it. A claim that is lower than what is published, or further
//! ahead than the chain can be, counts only once it is confirmed: by a second upstream in the same
//! round, or by three rounds in a row.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What one chain's heads did so far.
#[derive(Debug)]
pub struct Heads {
    block_time: Duration,
    published: Option<Published>,
    /// The moves of the published head, oldest first: the observed cadence.
    moves: VecDeque<Published>,
    suspect: Option<Suspect>,
    /// When another upstream is asked whether the head really stands still.
    second_opinion_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Published {
    head: u64,
    /// When this head was first seen.
    at: Instant,
}

/// A claim that is not believed yet.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    head: u64,
    at: Instant,
    rounds: u32,
}

/// Why a head is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Implausible {
    /// Lower than the published one: a node that lags, or a chain that was reset.
    #[error("the newest block is behind the one that is known")]
    Behind,
    /// Higher than the chain can be by now, unless it was reset.
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
    /// How many rounds in a row confirm a claim.
    const CONFIRMING_ROUNDS: u32 = 3;
    /// By how many blocks a head may be ahead of twice what is expected, and by how many two
    /// upstreams that agree may differ.
    const SLACK_BLOCKS: u64 = 5;
    /// For how many block times a head stands still before another upstream is asked.
    const STANDING_BLOCKS: u32 = 3;
    const MIN_STANDING: Duration = Duration::from_secs(1);
    /// How many moves tell the cadence.
    const MOVES: usize = 16;
    /// How much faster than configured a chain is believed to be.
    const MAX_SPEED_UP: u32 = 8;

    /// Nothing published yet, on a chain that should have a block every `block_time`.
    #[must_use]
    pub fn new(block_time: Duration) -> Self {
        let moves = VecDeque::with_capacity(Self::MOVES);
        Self { block_time, published: None, moves, suspect: None, second_opinion_at: None }
    }

    /// A poll's look at the upstreams, at `now`.
    pub fn round(&mut self, now: Instant) -> Round<'_> {
        Round { heads: self, now, claims: Vec::new(), is_settled: false }
    }

    fn standing(&self) -> Duration {
        self.block_time.saturating_mul(Self::STANDING_BLOCKS).max(Self::MIN_STANDING)
    }

    fn judge(&self, head: u64, now: Instant) -> Result<(), Implausible> {
        let Some(published) = self.published else { return Ok(()) };
        if head < published.head {
            Err(Implausible::Behind)
        } else if head > self.highest(published.head, published.at, now) {
            Err(Implausible::Ahead)
        } else {
            Ok(())
        }
    }

    /// The highest head that can follow `head`, seen at `at`: twice what is expected and a few.
    fn highest(&self, head: u64, at: Instant, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(at).as_nanos();
        let expected = elapsed.div_ceil(self.observed_block_time().as_nanos().max(1));
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        head.saturating_add(expected.saturating_mul(2)).saturating_add(Self::SLACK_BLOCKS)
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
            Some(observed) => observed.clamp(self.block_time / Self::MAX_SPEED_UP, self.block_time),
            None => self.block_time,
        }
    }

    fn publish(&mut self, head: u64, now: Instant) {
        self.suspect = None;
        let last = self.published.map(|published| published.head);
        if last == Some(head) {
            return;
        }
        let published = Published { head, at: now };
        if last.is_some_and(|last| head < last) {
            self.moves.clear();
        }
        if self.moves.len() == Self::MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(published);
        self.published = Some(published);
        self.second_opinion_at = Some(now + self.standing());
    }
}

/// One poll: what the upstreams claim, and what is made of it.
#[derive(Debug)]
pub struct Round<'a> {
    heads: &'a mut Heads,
    now: Instant,
    claims: Vec<(usize, u64)>,
    is_settled: bool,
}

impl Round<'_> {
    /// Whether `head`, which `upstream` claims, is to be published now. When it is, it counts as
    /// published. What is refused may still be confirmed by the round's [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn offer(&mut self, upstream: usize, head: u64) -> Result<(), Implausible> {
        match self.heads.judge(head, self.now) {
            Ok(()) => {
                self.heads.publish(head, self.now);
                self.is_settled = true;
                Ok(())
            }
            Err(implausible) => {
                self.claims.push((upstream, head));
                Err(implausible)
            }
        }
    }

    /// Whether the published head has stood still for so long that another upstream should be
    /// asked too; true at most once per three block times.
    pub fn wants_second_opinion(&mut self) -> bool {
        let is_due = self.heads.second_opinion_at.is_some_and(|at| self.now >= at);
        if is_due {
            self.heads.second_opinion_at = Some(self.now + self.heads.standing());
        }
        is_due
    }

    /// Ends the round. Where nothing was published, a refused claim may be confirmed by now: its
    /// upstream is given, and its head counts as published.
    #[must_use]
    pub fn close(mut self) -> Option<usize> {
        if self.is_settled {
            return None;
        }
        let (upstream, head) = self.agreed().or_else(|| self.repeated())?;
        self.heads.publish(head, self.now);
        Some(upstream)
    }

    /// The higher claim of two upstreams that say nearly the same.
    fn agreed(&self) -> Option<(usize, u64)> {
        let agrees = |(upstream, head): &(usize, u64)| {
            let near = |other: &(usize, u64)| {
                other.0 != *upstream && other.1.abs_diff(*head) <= Heads::SLACK_BLOCKS
            };
            self.claims.iter().any(near)
        };
        self.claims.iter().copied().filter(agrees).max_by_key(|(_, head)| *head)
    }

    /// A claim that goes on where the last rounds' claims were, and has for long enough. Claims
    /// that leap about confirm nothing.
    fn repeated(&mut self) -> Option<(usize, u64)> {
        let suspect = self.heads.suspect;
        let goes_on = |(_, head): &(usize, u64)| {
            suspect.is_some_and(|last| {
                let lowest = last.head.saturating_sub(Heads::SLACK_BLOCKS);
                (lowest..=self.heads.highest(last.head, last.at, self.now)).contains(head)
            })
        };
        let claim = *self.claims.iter().find(|claim| goes_on(claim)).or(self.claims.first())?;
        let before = suspect.filter(|_| goes_on(&claim)).map_or(0, |suspect| suspect.rounds);
        let rounds = before.saturating_add(1);
        self.heads.suspect = Some(Suspect { head: claim.1, at: self.now, rounds });
        (rounds >= Heads::CONFIRMING_ROUNDS).then_some(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_secs(2);

    /// Rounds one block time apart, in which these upstreams claim these heads; what each
    /// publishes.
    fn play(rounds: &[&[(usize, u64)]]) -> Vec<Option<u64>> {
        let mut heads = Heads::new(BLOCK);
        let start = Instant::now();
        let mut published = Vec::new();
        for (count, claims) in (0_u32..).zip(rounds) {
            let mut round = heads.round(start + BLOCK * count);
            let accepted =
                claims.iter().find(|(upstream, head)| round.offer(*upstream, *head).is_ok());
            let confirmed = round.close();
            let confirmed = confirmed.and_then(|by| claims.iter().find(|claim| claim.0 == by));
            published.push(accepted.or(confirmed).map(|claim| claim.1));
        }
        published
    }

    #[test]
    fn a_head_that_moves_or_stays_is_published() {
        let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, 101)], &[(0, 101)], &[(1, 104)]];
        assert_eq!(play(&rounds), [Some(100), Some(101), Some(101), Some(104)]);
    }

    #[test]
    fn a_lower_head_counts_from_the_third_round_in_a_row() {
        let rounds: [&[_]; 5] = [&[(0, 9000)], &[(0, 10)], &[(0, 11)], &[(0, 12)], &[(0, 13)]];
        assert_eq!(play(&rounds), [Some(9000), None, None, Some(12), Some(13)]);
    }

    #[test]
    fn a_good_head_in_between_starts_the_count_again() {
        let rounds: [&[_]; 6] =
            [&[(0, 100)], &[(0, 98)], &[(0, 99)], &[(0, 101)], &[(0, 99)], &[(0, 99)]];
        assert_eq!(play(&rounds), [Some(100), None, None, Some(101), None, None]);
    }

    #[test]
    fn lower_heads_that_leap_about_confirm_nothing() {
        let rounds: [&[_]; 6] =
            [&[(0, 9000)], &[(0, 800)], &[(0, 10)], &[(0, 500)], &[(0, 4)], &[(0, 8000)]];
        assert_eq!(play(&rounds), [Some(9000), None, None, None, None, None]);
    }

    #[test]
    fn a_second_upstream_with_nearly_the_same_head_confirms_at_once() {
        let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 12)]];
        assert_eq!(play(&rounds), [Some(9000), Some(12)]);
        // Two that lag by different distances do not agree about anything.
        let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 800)]];
        assert_eq!(play(&rounds), [Some(9000), None]);
        // One upstream cannot be its own witness.
        let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (0, 10)]];
        assert_eq!(play(&rounds), [Some(9000), None]);
    }

    #[test]
    fn another_upstream_that_is_not_behind_wins_over_two_that_agree() {
        let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 10), (2, 9001)]];
        assert_eq!(play(&rounds), [Some(9000), Some(9001)]);
    }

    #[test]
    fn a_head_may_be_ahead_by_twice_the_expected_and_five() {
        let rounds: [&[_]; 2] = [&[(0, 100)], &[(0, 107)]];
        assert_eq!(play(&rounds), [Some(100), Some(107)]);
        let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, 108)], &[(0, 112)], &[(0, 116)]];
        assert_eq!(play(&rounds), [Some(100), None, None, Some(116)]);
        let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, u64::MAX)], &[(0, 1 << 60)], &[(0, 101)]];
        assert_eq!(play(&rounds), [Some(100), None, None, Some(101)]);
        // After ten blocks without an answer 25 more are plausible, 26 are not.
        let mut rounds: Vec<&[_]> = vec![&[]; 11];
        rounds[0] = &[(0, 100)];
        rounds[10] = &[(0, 125)];
        assert_eq!(play(&rounds)[10], Some(125));
        rounds[10] = &[(0, 126)];
        assert_eq!(play(&rounds)[10], None);
    }

    #[test]
    fn a_chain_that_became_faster_than_configured_is_followed() {
        // Ten blocks a round would be too far ahead; a chain that speeds up step by step is not.
        let (mut head, mut rounds) = (0, Vec::new());
        for step in (1..=6).chain(std::iter::repeat_n(7, 20)).chain(std::iter::repeat_n(10, 50)) {
            head += step;
            rounds.push([(0, head)]);
        }
        let rounds: Vec<&[_]> = rounds.iter().map(<[_; 1]>::as_slice).collect();
        assert!(play(&rounds).iter().all(Option::is_some));
    }

    #[test]
    fn a_head_that_stands_calls_for_a_second_opinion_now_and_then() {
        let mut heads = Heads::new(BLOCK);
        let start = Instant::now();
        let mut wanted = Vec::new();
        for count in 0..10 {
            let now = start + BLOCK * count;
            let mut round = heads.round(now);
            round.offer(0, 100).unwrap();
            if round.wants_second_opinion() {
                wanted.push(count);
            }
            assert_eq!(round.close(), None);
        }
        assert_eq!(wanted, [3, 6, 9]);
    }
}
