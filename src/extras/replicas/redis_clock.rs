//! Redis' clock as one replica knows it, and the poll slots derived from it.
//!
//! Pure. Wall clocks of different machines are never compared: each reply of a script relates Redis' clock to the local
//! clock of ages.

use std::time::{Duration, Instant};

/// Reading of Redis' clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedisClock {
    /// Time of the request, before which Redis cannot have read its clock. So no value seems younger than it is.
    pub(crate) requested_at: Instant,
    micros: u64,
    round_trip: Duration,
}

/// Division of a chain's time into slots of one block time. Each chain has its own offset, so that not all are polled
/// at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollSlots {
    pub(crate) length: Duration,
    pub(crate) length_us: u64,
    pub(crate) phase_us: u64,
}

impl RedisClock {
    pub(crate) fn new(micros: u64, requested_at: Instant, round_trip: Duration) -> Self {
        Self { requested_at, micros, round_trip }
    }

    /// Reading of the clock in microseconds at `moment`, or up to a round trip more.
    pub(crate) fn micros_at(&self, moment: Instant) -> u64 {
        let after = whole_micros(moment.saturating_duration_since(self.requested_at));
        let before = whole_micros(self.requested_at.saturating_duration_since(moment));
        self.micros.saturating_add(after).saturating_sub(before)
    }

    /// Reading of the clock in microseconds at `moment`, or up to a round trip less.
    pub(crate) fn earliest_micros_at(&self, moment: Instant) -> u64 {
        self.micros_at(moment).saturating_sub(whole_micros(self.round_trip))
    }

    /// Returns when the clock reads `micros`, or up to a round trip before. `None`: too long ago for the local clock.
    pub(crate) fn instant_at(&self, micros: u64) -> Option<Instant> {
        let ahead = Duration::from_micros(micros.saturating_sub(self.micros));
        let behind = Duration::from_micros(self.micros.saturating_sub(micros));
        self.requested_at.checked_add(ahead)?.checked_sub(behind)
    }
}

impl PollSlots {
    /// Slots of the chain with this id.
    pub(crate) fn new(chain_id: u64, length: Duration) -> Self {
        // Spreads similar ids widely (fraction of the golden ratio).
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let fraction = u128::from(chain_id.wrapping_mul(GOLDEN_RATIO));
        let length_us = whole_micros(length).max(1);
        let phase = fraction.saturating_mul(u128::from(length_us)) >> u64::BITS;
        Self { length, length_us, phase_us: u64::try_from(phase).unwrap_or_default() }
    }

    /// Returns the slot that contains `moment`.
    pub(crate) fn slot_at(&self, clock: &RedisClock, moment: Instant) -> u64 {
        clock.micros_at(moment).saturating_add(self.phase_us) / self.length_us
    }

    /// Returns the start of `slot`, or a time in the past.
    pub(crate) fn slot_start(&self, clock: &RedisClock, slot: u64) -> Instant {
        let start = slot.saturating_mul(self.length_us).saturating_sub(self.phase_us);
        clock.instant_at(start).unwrap_or(clock.requested_at)
    }
}

/// Converts to whole microseconds.
pub(crate) fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros_before(moment: Instant, micros: u64) -> Instant {
        moment.checked_sub(Duration::from_micros(micros)).unwrap()
    }

    #[test]
    fn consecutive_slots_are_contiguous() {
        let now = Instant::now();
        let clock = RedisClock::new(1_700_000_000_000_000, now, Duration::ZERO);
        for chain_id in [1, 2, 2020, 202_601, u64::MAX] {
            let slots = PollSlots::new(chain_id, Duration::from_secs(2));
            assert!(slots.phase_us < slots.length_us);
            let slot = slots.slot_at(&clock, now);
            let start = slots.slot_start(&clock, slot);
            assert!(start <= now && now < slots.slot_start(&clock, slot + 1));
            assert_eq!(slots.slot_at(&clock, start), slot);
            assert_eq!(slots.slot_at(&clock, micros_before(start, 1)), slot - 1);
            assert_eq!(slots.slot_start(&clock, slot + 1), start + slots.length);
        }
    }

    #[test]
    fn chains_have_different_slot_phases() {
        let phase = |id| PollSlots::new(id, Duration::from_secs(2)).phase_us;
        let mut phases: Vec<_> = (1..=16).map(phase).collect();
        phases.sort_unstable();
        let gaps = phases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(gaps.min().unwrap() > 20_000, "{phases:?}");
    }

    #[test]
    fn clock_is_extrapolated_forwards_and_backwards_between_replies() {
        let now = Instant::now();
        let clock = RedisClock::new(1000, now, Duration::ZERO);
        let micro = Duration::from_micros(1);
        assert_eq!(clock.micros_at(now + 5 * micro), 1005);
        assert_eq!(clock.micros_at(micros_before(now, 5)), 995);
        assert_eq!(
            [clock.instant_at(1005), clock.instant_at(995)],
            [Some(now + 5 * micro), Some(micros_before(now, 5))]
        );
        assert_eq!(clock.micros_at(micros_before(now, 1_000_000)), 0);
        let slow = RedisClock::new(1000, now, 3 * micro);
        assert_eq!([slow.micros_at(now), slow.earliest_micros_at(now)], [1000, 997]);
    }
}
