//! Redis' clock as one replica knows it, and the slots that it divides time into.
//!
//! Pure. Wall clocks of machines are compared nowhere: a moment of Redis' clock is tied to one of the
//! monotonic clock here each time a script is answered.

use std::time::{Duration, Instant};

/// What Redis' clock said, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The moment before which it cannot have said so: that of asking. So nothing seems younger than it is.
    asked: Instant,
    micros: u64,
    /// What the answer took.
    pub(super) took: Duration,
}

/// How a chain's time is divided: slots of one block time, which begin at another moment for each chain, so
/// that not all are polled at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    pub(super) length: Duration,
    pub(super) phase: Duration,
}

impl Clock {
    pub(super) fn new(micros: u64, asked: Instant, took: Duration) -> Self {
        Self { asked, micros, took }
    }

    /// What it says at `moment`, or a little more.
    pub(super) fn micros_at(&self, moment: Instant) -> u64 {
        let since = micros(moment.saturating_duration_since(self.asked));
        let before = micros(self.asked.saturating_duration_since(moment));
        self.micros.saturating_add(since).saturating_sub(before)
    }

    /// Whether a message that was received then, and sent when it said `micros`, was on its way for long, or it
    /// was put forward or back.
    pub(super) fn is_off(&self, sent: u64, received: Instant) -> bool {
        const MOST: Duration = Duration::from_secs(1);
        self.micros_at(received).abs_diff(sent) > micros(MOST)
    }

    /// When it says `micros`, or a little before.
    fn moment_of(&self, micros: u64) -> Instant {
        let ahead = Duration::from_micros(micros.saturating_sub(self.micros));
        let behind = Duration::from_micros(self.micros.saturating_sub(micros));
        (self.asked + ahead).checked_sub(behind).unwrap_or(self.asked)
    }
}

impl Slots {
    /// Those of the chain with this id.
    pub(super) fn new(chain_id: u64, length: Duration) -> Self {
        // Neighbours among the ids are far from each other (the fraction of the golden ratio).
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let place = u128::from(chain_id.wrapping_mul(SPREAD));
        let phase = place.saturating_mul(u128::from(micros(length))) >> u64::BITS;
        Self { length, phase: Duration::from_micros(u64::try_from(phase).unwrap_or_default()) }
    }

    pub(super) fn length_micros(&self) -> u64 {
        micros(self.length).max(1)
    }

    pub(super) fn phase_micros(&self) -> u64 {
        micros(self.phase)
    }

    /// The slot that `moment` is in.
    pub(super) fn at(&self, clock: &Clock, moment: Instant) -> u64 {
        clock.micros_at(moment).saturating_add(self.phase_micros()) / self.length_micros()
    }

    /// When `slot` begins.
    pub(super) fn start_of(&self, clock: &Clock, slot: u64) -> Instant {
        let start = slot.saturating_mul(self.length_micros());
        clock.moment_of(start.saturating_sub(self.phase_micros()))
    }
}

/// In whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(moment: Instant, micros: u64) -> Instant {
        moment.checked_sub(Duration::from_micros(micros)).unwrap()
    }

    #[test]
    fn a_slot_begins_where_the_one_before_ends() {
        let now = Instant::now();
        let clock = Clock::new(1_700_000_000_000_000, now, Duration::ZERO);
        for chain_id in [1, 2, 2020, 202_601, u64::MAX] {
            let slots = Slots::new(chain_id, Duration::from_secs(2));
            assert!(slots.phase < slots.length);
            let slot = slots.at(&clock, now);
            let start = slots.start_of(&clock, slot);
            assert!(start <= now && now < slots.start_of(&clock, slot + 1));
            assert_eq!(slots.at(&clock, start), slot);
            assert_eq!(slots.at(&clock, back(start, 1)), slot - 1);
            assert_eq!(slots.start_of(&clock, slot + 1), start + slots.length);
        }
    }

    #[test]
    fn chains_are_polled_at_different_moments() {
        let phase = |id| Slots::new(id, Duration::from_secs(2)).phase;
        let mut phases: Vec<_> = (1..=16).map(phase).collect();
        phases.sort_unstable();
        let gaps = phases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(gaps.min().unwrap() > Duration::from_millis(20), "{phases:?}");
    }

    #[test]
    fn the_clock_goes_on_between_answers_and_back_before_them() {
        let now = Instant::now();
        let clock = Clock::new(1000, now, Duration::ZERO);
        let micro = Duration::from_micros(1);
        assert_eq!(clock.micros_at(now + 5 * micro), 1005);
        assert_eq!(clock.micros_at(back(now, 5)), 995);
        assert_eq!([clock.moment_of(1005), clock.moment_of(995)], [now + 5 * micro, back(now, 5)]);
        assert_eq!(clock.micros_at(back(now, 1_000_000)), 0);
    }
}
