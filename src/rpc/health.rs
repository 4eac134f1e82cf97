//! What is remembered of a node's recent answers, and when it is asked next.
//!
//! Pure: outcomes and instants in, a [`Standing`] out.

use std::time::{Duration, Instant};

use crate::jitter;

/// How a failure counts against the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Penalty {
    /// The node is well, it just has not seen the block yet.
    None,
    /// It comes after the others for a while, longer each time.
    Rest,
    /// It lets others wait, so it comes last for long.
    LongRest,
    /// It is not asked before this time has passed, where it said so.
    CoolDown(Option<Duration>),
    /// It serves another chain: not asked for a while, then checked again.
    Quarantine,
    /// It does not have the method that the record is of: probed again ever more rarely.
    Unsupported,
}

/// When a node is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// In its place in the order of preference.
    Well,
    /// After those that are well.
    Resting,
    /// Not now.
    Barred,
}

/// What is thought of a node at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// When it is to be asked.
    pub standing: Standing,
    /// Whether it is not asked because it served another chain.
    pub serves_another_chain: bool,
}

/// One node's record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    block_time: Duration,
    /// Failures in a row that call for a rest.
    failures: u32,
    /// Refusals for a rate limit or a missing method in a row.
    refusals: u32,
    resting_until: Option<Instant>,
    cooling_until: Option<Instant>,
    quarantined_until: Option<Instant>,
    /// Until when it is not asked for the method that it did not have.
    unsupported_until: Option<Instant>,
}

impl Health {
    const MAX_REST: Duration = Duration::from_secs(30);
    /// What a node may ask for with `Retry-After`.
    const MAX_COOL_DOWN: Duration = Duration::from_mins(1);
    /// Where a node says that it is over its limit but not for how long: most limits count
    /// seconds.
    const FIRST_COOL_DOWN: Duration = Duration::from_secs(1);
    const LAST_COOL_DOWN: Duration = Duration::from_secs(16);
    const QUARANTINE_BLOCKS: u32 = 10;
    /// At first: a node behind a load balancer may lack what the next one has.
    const UNSUPPORTED_BLOCKS: u32 = 4;
    const MAX_QUARANTINE: Duration = Duration::from_mins(1);
    const MAX_UNSUPPORTED: Duration = Duration::from_mins(10);

    /// A node of which nothing is known, of a chain with this block time.
    pub(super) fn new(block_time: Duration) -> Self {
        Self {
            block_time,
            failures: 0,
            refusals: 0,
            resting_until: None,
            cooling_until: None,
            quarantined_until: None,
            unsupported_until: None,
        }
    }

    /// For the method that the record is of.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        if is_ahead(self.unsupported_until, now) {
            Standing::Barred
        } else {
            self.standing_for_others(now)
        }
    }

    /// For any other method.
    pub(super) fn standing_for_others(&self, now: Instant) -> Standing {
        if self.is_rate_limited(now) || self.is_quarantined(now) {
            Standing::Barred
        } else if is_ahead(self.resting_until, now) {
            Standing::Resting
        } else {
            Standing::Well
        }
    }

    /// Whether it has asked to be left alone for a while.
    pub(super) fn is_rate_limited(&self, now: Instant) -> bool {
        is_ahead(self.cooling_until, now)
    }

    /// Whether it is not asked because it served another chain.
    pub(super) fn is_quarantined(&self, now: Instant) -> bool {
        is_ahead(self.quarantined_until, now)
    }

    /// For how much longer it has asked to be left alone.
    pub(super) fn rate_limited_for(&self, now: Instant) -> Duration {
        let until = self.cooling_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// It has asked somebody else to be left alone for `wait`.
    pub(super) fn is_cooling(&mut self, wait: Duration, now: Instant) {
        // What they make of it has its jitter already.
        let wait = wait.min(Self::MAX_COOL_DOWN + Self::MAX_COOL_DOWN / 10);
        self.cooling_until = self.cooling_until.max(Some(now + wait));
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::new(self.block_time);
    }

    pub(super) fn failed(&mut self, penalty: Penalty, now: Instant) {
        match penalty {
            Penalty::None => {}
            Penalty::Rest => {
                self.resting_until =
                    Some(now + doubled(self.block_time, self.failures, Self::MAX_REST));
                self.failures = self.failures.saturating_add(1);
            }
            Penalty::LongRest => self.resting_until = Some(now + Self::MAX_REST),
            Penalty::CoolDown(asked) => {
                let wait = asked.unwrap_or_else(|| {
                    doubled(Self::FIRST_COOL_DOWN, self.refusals, Self::LAST_COOL_DOWN)
                });
                self.refusals = self.refusals.saturating_add(1);
                self.cooling_until = Some(now + with_jitter(wait.min(Self::MAX_COOL_DOWN)));
            }
            Penalty::Quarantine => {
                let wait = self.block_time.saturating_mul(Self::QUARANTINE_BLOCKS);
                self.quarantined_until = Some(now + wait.min(Self::MAX_QUARANTINE));
            }
            Penalty::Unsupported => {
                let first = self.block_time.saturating_mul(Self::UNSUPPORTED_BLOCKS);
                let wait = doubled(first, self.refusals, Self::MAX_UNSUPPORTED);
                self.refusals = self.refusals.saturating_add(1);
                self.unsupported_until = Some(now + wait);
            }
        }
    }
}

fn is_ahead(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| now < until)
}

/// `first`, doubled `times` times, at most `most`.
fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(most)
}

/// Never less than `wait`, and up to a tenth more, so that those who were refused together do not
/// come back together.
fn with_jitter(wait: Duration) -> Duration {
    wait + jitter::up_to(wait / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_secs(2);

    /// How long a node is in no better standing than `standing` after these failures at one time.
    fn duration_of(standing: Standing, penalties: &[Penalty]) -> Duration {
        let (mut health, now) = (Health::new(BLOCK), Instant::now());
        for penalty in penalties {
            health.failed(*penalty, now);
        }
        let step = Duration::from_millis(100);
        let steps = (0..10_000).find(|steps| health.standing(now + step * *steps) < standing);
        step * steps.expect("it gets better")
    }

    #[test]
    fn failures_in_a_row_mean_longer_rests_up_to_half_a_minute() {
        let rests = [1, 2, 3, 4, 9]
            .map(|count| duration_of(Standing::Resting, &vec![Penalty::Rest; count]));
        assert_eq!(rests.map(|rest| rest.as_secs()), [2, 4, 8, 16, 30]);
        assert_eq!(duration_of(Standing::Resting, &[Penalty::LongRest]).as_secs(), 30);
    }

    #[test]
    fn a_success_clears_the_record() {
        let (mut health, now) = (Health::new(BLOCK), Instant::now());
        for penalty in [Penalty::Rest, Penalty::Rest, Penalty::Quarantine] {
            health.failed(penalty, now);
        }
        assert_eq!(health.standing(now), Standing::Barred);
        health.succeeded();
        assert_eq!(health.standing(now), Standing::Well);
        health.failed(Penalty::Rest, now);
        assert_eq!(health.standing(now + BLOCK), Standing::Well);
    }

    #[test]
    fn what_a_node_asks_for_is_kept_up_to_a_minute_and_never_cut_short() {
        let asked = |seconds| {
            duration_of(Standing::Barred, &[Penalty::CoolDown(Some(Duration::from_secs(seconds)))])
        };
        for (seconds, kept) in [(1, 1000..1200), (20, 20_000..22_100), (86_400, 60_000..66_100)] {
            let millis = asked(seconds).as_millis();
            assert!(kept.contains(&millis), "{seconds} s asked for, {millis} ms kept");
        }
        assert_eq!(asked(0), Duration::ZERO);
    }

    #[test]
    fn without_a_word_of_how_long_the_pauses_double() {
        let pauses = [1, 2, 5, 9]
            .map(|count| duration_of(Standing::Barred, &vec![Penalty::CoolDown(None); count]));
        for (pause, least) in pauses.iter().zip([1, 2, 16, 16]) {
            let least = Duration::from_secs(least);
            assert!((least..=least * 11 / 10 + BLOCK / 20).contains(pause), "{pauses:?}");
        }
    }

    #[test]
    fn another_chain_and_a_missing_method_are_looked_at_again() {
        let barred = |penalty| duration_of(Standing::Barred, &[penalty]).as_secs();
        assert_eq!(barred(Penalty::Quarantine), 20);
        assert_eq!(barred(Penalty::Unsupported), 8);
        let again = |count| duration_of(Standing::Barred, &vec![Penalty::Unsupported; count]);
        assert_eq!([2, 5, 12].map(|count| again(count).as_secs()), [16, 128, 600]);
    }

    #[test]
    fn a_missing_method_says_nothing_of_others() {
        let (mut health, now) = (Health::new(BLOCK), Instant::now());
        health.failed(Penalty::Unsupported, now);
        assert_eq!(health.standing(now), Standing::Barred);
        assert_eq!(health.standing_for_others(now), Standing::Well);
        health.failed(Penalty::CoolDown(None), now);
        assert_eq!(health.standing_for_others(now), Standing::Barred);
    }

    #[test]
    fn a_block_that_is_not_there_yet_is_no_fault() {
        let (mut health, now) = (Health::new(BLOCK), Instant::now());
        health.failed(Penalty::None, now);
        assert_eq!(health.standing(now), Standing::Well);
    }
}
