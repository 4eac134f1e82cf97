//! The places for requests that this process has, and when each is free. Pure: instants in, instants out.

use std::time::{Duration, Instant};

/// In one window.
pub(super) const REQUESTS: usize = 25;
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// No more than a client can be told in seconds: so whoever comes back when it was told to does not come
/// a moment too early.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of the places. There are more than may be taken, as one that is waited for is not free yet.
#[derive(Debug)]
pub(super) struct Places {
    all: [Place; Self::COUNT],
    /// A request has ended by then.
    timeout: Duration,
    /// The API has said that it is asked too often: until then nothing is sent.
    closed_until: Option<Instant>,
    /// What the last answers took.
    took: [Duration; Self::COUNT],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// From then on; `None`: it was never taken.
    FreeFrom(Option<Instant>),
    /// Its request was sent then.
    Taken(Instant),
}

/// How many places may be taken in a window, by one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) places: usize,
    /// In so many windows.
    pub(super) windows: u32,
}

/// All places are taken: after this long one is free, as far as the requests under way are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Spent(pub(in super::super) Duration);

/// What is known of a request when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Unsent,
    Answered,
    Unanswered,
}

impl Share {
    /// There is nobody else.
    pub(super) const ALL: Self = Self { places: REQUESTS, windows: 1 };
    /// Nobody knows how many others there are.
    pub(super) const LEAST: Self = Self { places: 1, windows: 1 };

    /// Of one of so many.
    pub(super) fn of(replicas: usize) -> Self {
        let replicas = replicas.max(1);
        let windows = replicas.div_ceil(REQUESTS);
        Self {
            places: (REQUESTS / replicas).max(1),
            windows: u32::try_from(windows).unwrap_or(u32::MAX),
        }
    }
}

impl Places {
    pub(super) const COUNT: usize = 2 * REQUESTS;
    /// For no longer is the API believed to be asked too often.
    pub(super) const MAX_CLOSURE: Duration = Duration::from_mins(5);

    pub(super) fn new(timeout: Duration) -> Self {
        let all = [Place::FreeFrom(None); Self::COUNT];
        Self { all, timeout, closed_until: None, took: [Duration::ZERO; Self::COUNT] }
    }

    /// A place for one request among as many as are this process's `share`, and from when on; it may have to
    /// wait for as long as its `patience`.
    pub(super) fn take(
        &mut self,
        share: Share,
        patience: Duration,
        now: Instant,
    ) -> Result<(usize, Instant), Spent> {
        let mut waits: Vec<_> = self.all.iter().map(|place| self.wait_for(place, now)).collect();
        let free = waits.iter().position(Duration::is_zero);
        waits.retain(|wait| !wait.is_zero());
        waits.sort_unstable();
        // So many of them have to get free.
        let surplus = (waits.len() + 1).saturating_sub(share.places);
        let wait = surplus.checked_sub(1).and_then(|last| waits.get(last).copied());
        let wait = wait.unwrap_or_default().max(self.is_closed_for(now));
        match free {
            Some(index) if wait <= patience => {
                let from = now + wait;
                self.set(index, Place::Taken(from));
                Ok((index, from))
            }
            _ => Err(Spent(wait.max(Duration::from_millis(1)))),
        }
    }

    /// Somebody else knows that a place that was taken may be used from then on.
    pub(super) fn postpone(&mut self, index: usize, from: Instant) {
        self.set(index, Place::Taken(from));
    }

    /// A request that was to be sent at `from` has met its fate.
    pub(super) fn free(
        &mut self,
        index: usize,
        from: Instant,
        fate: Fate,
        share: Share,
        now: Instant,
    ) {
        let held = WINDOW.saturating_mul(share.windows);
        let free_from = match fate {
            Fate::Unsent => from,
            Fate::Answered => {
                if let Some(took) = self.took.get_mut(index) {
                    *took = now.saturating_duration_since(from);
                }
                now + held
            }
            Fate::Unanswered => now + WINDOW + held,
        };
        self.set(index, Place::FreeFrom(Some(free_from)));
    }

    /// Sends nothing for this long.
    pub(super) fn close(&mut self, pause: Duration, now: Instant) {
        self.closed_until = self.closed_until.max(Some(now + pause));
    }

    pub(super) fn is_closed_for(&self, now: Instant) -> Duration {
        let until = self.closed_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// For how long each place is held at most from now on, whatever becomes of its request; and whether that
    /// is under way.
    pub(super) fn holds(&self, now: Instant) -> impl Iterator<Item = (Duration, bool)> {
        self.all.iter().map(move |place| match place {
            Place::FreeFrom(None) => (Duration::ZERO, false),
            Place::FreeFrom(Some(from)) => (from.saturating_duration_since(now), false),
            Place::Taken(sent) => {
                let end = *sent + self.timeout + 2 * WINDOW;
                (end.saturating_duration_since(now), true)
            }
        })
    }

    /// What an answer takes at most.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What an answer takes, as far as is known.
    pub(super) fn usual(&self) -> Duration {
        // Whoever comes back will wait for a moment, which is the least that an answer takes.
        self.took.into_iter().max().unwrap_or_default().max(PATIENCE)
    }

    fn wait_for(&self, place: &Place, now: Instant) -> Duration {
        match place {
            Place::FreeFrom(None) => Duration::ZERO,
            Place::FreeFrom(Some(from)) => from.saturating_duration_since(now),
            Place::Taken(sent) => {
                let usual = *sent + self.usual();
                let end = if now <= usual { usual } else { *sent + self.timeout };
                (WINDOW + end.saturating_duration_since(now)).saturating_sub(PATIENCE)
            }
        }
    }

    fn set(&mut self, index: usize, place: Place) {
        if let Some(found) = self.all.get_mut(index) {
            *found = place;
        }
    }
}

#[cfg(test)]
mod tests;
