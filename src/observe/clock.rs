//! The clock of ages, which counts the time that the machine sleeps.
//!
//! Linux stops the clock of `Instant::now` while the machine sleeps, and an hour-old price would seem new. Every age, and
//! every moment that outlives one call, comes from [`now`].
//!
//! Deadlines and timers of one call keep `Instant::now`, as Tokio's timers do. After a sleep a moment of [`now`] is in
//! their future, so never pass one to `sleep_until` or `timeout_at`: sleep for the time that is left.
//!
//! A virtual machine that was paused has no clock that counts the pause, and other systems than Linux have none that
//! counts sleep. There the wall clock leaps when it is set, which [`Clocks`] show.

use std::time::{Duration, Instant, SystemTime};

/// Returns the current moment. On Linux it counts sleep.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Instant {
    use std::sync::LazyLock;

    use rustix::time::{ClockId, clock_gettime};

    fn since_boot() -> Duration {
        clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
    }
    static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), since_boot()));
    let (started_at, booted_before) = *START;
    started_at + since_boot().saturating_sub(booted_before)
}

/// Returns the current moment.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time since a moment of [`now`]; 0 for one in the future.
pub(crate) fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// The clocks of the machine at one moment. Two of them show that the machine has slept, or that its wall clock was set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// Does not count sleep on Linux.
    timers: Instant,
    pub(crate) ages: Instant,
    wall: SystemTime,
}

impl Clocks {
    /// Shorter leaps change no label: data is never stale before 2 s.
    const LEAST_LEAP: Duration = Duration::from_secs(2);

    pub(crate) fn now() -> Self {
        Self { timers: Instant::now(), ages: now(), wall: SystemTime::now() }
    }

    /// Returns by how much more than the timers a clock has advanced since `last`, if that is a leap.
    pub(crate) fn leap_since(self, last: Self) -> Option<Duration> {
        let timers = self.timers.saturating_duration_since(last.timers);
        let ages = self.ages.saturating_duration_since(last.ages);
        let wall = self.wall.duration_since(last.wall);
        // A clock that was set back hides how long the machine stood still before.
        let wall = wall.unwrap_or_else(|back| timers.saturating_add(back.duration()));
        let leap = ages.max(wall).saturating_sub(timers);
        (leap > Self::LEAST_LEAP).then_some(leap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_and_a_clock_that_is_set_forward_are_leaps() {
        let second = Duration::from_secs(1);
        let start = Clocks::now();
        let later = |timers: u32, ages: u32, wall: i32| {
            let wall_by = second * wall.unsigned_abs();
            let wall = if wall < 0 { start.wall - wall_by } else { start.wall + wall_by };
            Clocks {
                timers: start.timers + second * timers,
                ages: start.ages + second * ages,
                wall,
            }
        };
        for (reading, leap) in [
            (later(1, 1, 1), None),
            // The process stood still.
            (later(90, 90, 90), None),
            (later(0, 3600, 3600), Some(3600)),
            (later(0, 3, 0), Some(3)),
            (later(0, 2, 2), None),
            // The wall clock is set, while the machine sleeps and while it does not.
            (later(1, 1, 3601), Some(3600)),
            (later(0, 3600, 7200), Some(7200)),
            (later(1, 1, -7200), Some(7200)),
            (later(1, 3600, -7200), Some(7200)),
        ] {
            let found = reading.leap_since(start);
            assert_eq!(found, leap.map(Duration::from_secs), "{reading:?}");
        }
    }

    #[test]
    fn ages_advance_with_the_clock_of_timers_while_the_machine_is_awake() {
        let (timers, ages) = (Instant::now(), now());
        std::hint::black_box((0..1_000_000).sum::<u64>());
        let passed = elapsed(ages);
        assert!(passed > Duration::ZERO && passed < timers.elapsed() + Duration::from_millis(1));
    }
}
