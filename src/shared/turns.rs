//! Whose turn it is to poll a chain, and what the others have polled.
//!
//! Time is divided into slots of one block time by Redis' clock. Whoever claims a slot polls, publishes, and
//! goes first in the next one; the others wait a moment longer, by which time the value has reached them as a
//! rule. There is no leader that could be lost: a replica that dies with a slot of its own costs that slot.

mod turn;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use turn::Place;
pub use turn::{Outcome, Permit, Published, Turn};

use super::board::{Board, Edition};
use super::clock::Clock;
use super::counts::Counts;
use super::link::State;
use super::news::{Heard, Message};
use super::publication::{Adoption, Foreign, Publication, Way};
use crate::book::LastSeen;
use crate::config;
use crate::fees::FeeHistory;
use crate::jitter;
use crate::metrics::Metrics;
use crate::rpc::Upstreams;

/// One chain's turns, for one replica.
#[derive(Debug)]
pub struct Turns {
    board: Board,
    max_age: Duration,
    heard: watch::Receiver<Heard>,
    counts: Counts,
    clock: Option<Clock>,
    epoch: u64,
    /// When to look for a turn.
    due: Instant,
    /// The slot that the next turn is for, as far as it is known.
    next_slot: Option<u64>,
    /// When Redis is asked although everything comes by itself.
    look_at: Instant,
    place: Place,
    /// How many slots in a row were somebody else's, of whom nothing came.
    silent_slots: u32,
    /// What is to be told before anything else.
    waiting: Waiting,
    /// Not before then this polls without Redis: this slot's poll is done.
    alone_from: Instant,
    /// When the last poll began.
    polling_since: Instant,
    /// Whether anything is known of the chain.
    has_data: bool,
    /// How many polls in a row were in doubt.
    doubts: u32,
    /// When the last value that was looked into was received, and the last failure.
    listened: (Option<Instant>, Option<u64>),
}

#[derive(Debug, Default)]
struct Waiting {
    publication: Option<Publication>,
    permit: Option<Permit>,
    /// A slot for which this replica may poll again, and when.
    again: Option<(Instant, u64)>,
}

impl Turns {
    /// For how many slots of others of whom nothing useful comes a replica waits before it polls by itself.
    const PATIENCE: u32 = 3;
    /// How often Redis is asked at least.
    const LOOK_INTERVAL: Duration = Duration::from_secs(10);
    /// What is believed to be a slot's begin may be a little before it.
    const MARGIN: Duration = Duration::from_millis(2);
    /// The longest that those wait who did not have the last slot.
    const MAX_HANDICAP: Duration = Duration::from_millis(250);
    /// How many polls in a row a replica goes first although their heads were in doubt.
    const DOUBTS: u32 = 3;

    pub(super) fn new(
        chain: &config::Chain,
        board: Board,
        heard: watch::Receiver<Heard>,
        metrics: &Metrics,
    ) -> Self {
        let now = Instant::now();
        Self {
            board,
            max_age: chain.max_age,
            heard,
            counts: Counts::new(metrics, &chain.key),
            clock: None,
            epoch: 0,
            due: now,
            next_slot: None,
            look_at: now,
            place: Place::Among,
            silent_slots: 0,
            waiting: Waiting::default(),
            alone_from: now,
            polling_since: now,
            has_data: false,
            doubts: 0,
            listened: (None, None),
        }
    }

    /// How often the chain's head has made a move that had to be confirmed, as far as is known.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Waits for something to do. Dropping the future loses at most what others have published.
    pub async fn next(&mut self) -> Turn {
        loop {
            if let Some(publication) = self.waiting.publication.take() {
                return Turn::Adopt(publication);
            }
            if let Some(permit) = self.waiting.permit.take() {
                return Turn::Poll(permit);
            }
            if let Some((at, slot)) = self.waiting.again
                && at <= Instant::now()
            {
                self.waiting.again = None;
                return Turn::Poll(Permit::Slot(slot));
            }
            let upstreams = Arc::clone(&self.board.upstreams);
            // The first attempt to connect is soon over, and then it is known what to do.
            let is_connecting = matches!(*self.board.link.state(), State::Connecting);
            let again = self.waiting.again.map_or(self.due, |(at, _)| at);
            let due = self.due.min(self.look_at).min(again);
            // None of them first: whatever comes over a channel must not keep this from polling.
            tokio::select! {
                Ok(()) = self.heard.changed() => {
                    if let Some(turn) = self.listen() {
                        return turn;
                    }
                }
                () = self.board.link.changed() => self.connection_changed(),
                () = upstreams.have_limited() => self.board.tell_of_limits().await,
                () = tokio::time::sleep_until(due.into()), if !is_connecting => {
                    if let Some(turn) = self.look().await {
                        return turn;
                    }
                }
            }
        }
    }

    /// Takes note of what came of the `publication` that there was to take. A slot whose value is of no use is
    /// not over: where that goes on this replica polls by itself.
    pub fn took(&mut self, publication: &Publication, adoption: Adoption) {
        self.counts.of(adoption).increment(1);
        match adoption {
            Adoption::Adopted | Adoption::Known => {
                self.epoch = self.epoch.max(publication.epoch);
                self.has_data = true;
            }
            // To poll would give the same.
            Adoption::Rejected => {}
            Adoption::Older | Adoption::Implausible => return,
        }
        self.silent_slots = 0;
        if self.is_next(publication.slot) {
            self.leave(publication.slot);
        }
    }

    /// Tells the others what came of a poll, and what was published.
    pub async fn conclude(
        &mut self,
        permit: Permit,
        outcome: Outcome,
        published: Option<(Published, LastSeen)>,
    ) {
        if let Some((published, seen)) = published {
            self.has_data = true;
            if published.was_confirmed {
                self.epoch = self.epoch.saturating_add(1);
            }
            self.publish(permit, &published.history, seen).await;
        }
        self.doubts = if outcome == Outcome::InDoubt { self.doubts.saturating_add(1) } else { 0 };
        self.place = match outcome {
            Outcome::Good => Place::First,
            // It takes several polls of one replica to believe such a head.
            Outcome::InDoubt if self.doubts <= Self::DOUBTS => Place::First,
            Outcome::InDoubt | Outcome::Failed => Place::Last,
        };
        let again = Instant::now() + Upstreams::RETRY;
        match permit {
            Permit::Slot(slot) => {
                self.plan(slot.saturating_add(1));
                if outcome == Outcome::Good {
                    return;
                }
                if again < self.due {
                    self.waiting.again = Some((again, slot));
                }
                self.board.tell_of_failure(slot).await;
            }
            Permit::Alone if outcome != Outcome::Good => {
                self.alone_from = self.alone_from.min(again);
                self.due = self.due.min(again);
            }
            Permit::Alone => {}
        }
    }

    /// Looks into what was heard.
    fn listen(&mut self) -> Option<Turn> {
        let Heard { value, failed } = self.heard.borrow_and_update().clone();
        let received = value.as_ref().map(|message| message.received);
        let before = std::mem::replace(&mut self.listened, (received, failed));
        let value = value.filter(|_| received != before.0);
        let failed = failed.filter(|slot| before.1 != Some(*slot) && self.is_next(*slot));
        if let Some(slot) = failed {
            self.silent_slots = 0;
            self.leave(slot);
        }
        let clock = self.clock?;
        let publication = value.and_then(|Message { sent, received, line }| {
            if clock.is_off(sent, received) {
                // It has come late, or the clock was put forward or back.
                self.look_at = received;
            }
            self.read(&line, Way::Sent(sent, received), &clock).ok().flatten()
        });
        match publication {
            Some(publication) => Some(Turn::Adopt(publication)),
            None => failed.map(|_| Turn::Failed),
        }
    }

    /// What a line says; `None`: it is this replica's own.
    fn read(&self, line: &[u8], way: Way, clock: &Clock) -> Result<Option<Publication>, Foreign> {
        let publication = Publication::read(line, way, clock);
        if publication.is_err() {
            self.counts.foreign.increment(1);
        }
        Ok(Some(publication?).filter(|found| found.replica != self.board.replica))
    }

    /// Whether this slot has begun, and nothing was known of what came of it.
    fn is_next(&self, slot: u64) -> bool {
        let now = Instant::now();
        let has_begun = |clock: &Clock| slot <= self.board.slots.at(clock, now).saturating_add(1);
        self.clock.as_ref().is_some_and(has_begun) && self.next_slot.is_none_or(|next| slot >= next)
    }

    /// Leaves `slot` to another replica, of which something came.
    fn leave(&mut self, slot: u64) {
        self.counts.left.increment(1);
        self.gives_way();
        self.waiting.again = self.waiting.again.filter(|(_, own)| *own > slot);
        self.alone_from = self.alone_from.max(Instant::now() + self.board.slots.length);
        self.plan(slot.saturating_add(1));
    }

    /// Another replica has a slot.
    fn gives_way(&mut self) {
        if self.place == Place::First {
            self.place = Place::Among;
        }
    }

    /// Goes for `slot` next.
    fn plan(&mut self, slot: u64) {
        let Some(clock) = &self.clock else { return };
        let handicap = (self.board.slots.length / 8).min(Self::MAX_HANDICAP);
        let delay = match self.place {
            Place::First => Self::MARGIN,
            Place::Among => handicap + jitter::up_to(handicap),
            Place::Last => 2 * handicap + jitter::up_to(handicap),
        };
        self.next_slot = Some(slot);
        self.due = self.board.slots.start_of(clock, slot) + delay;
    }

    fn connection_changed(&mut self) {
        /// Replicas that come back together do not come at the same moment.
        const SPREAD: Duration = Duration::from_millis(500);
        if let State::Up(_) = *self.board.link.state() {
            let now = Instant::now();
            let is_first = self.clock.is_none() && self.due <= now;
            let spread = SPREAD.min(self.board.slots.length / 4);
            // What is due stays so: a connection that comes and goes is no reason to poll.
            self.look_at = if is_first { now } else { now + jitter::up_to(spread) };
            // It may be another server, with another clock.
            (self.clock, self.next_slot) = (None, None);
            self.silent_slots = 0;
        }
    }

    /// Asks Redis what is known, and for a turn where one is due.
    async fn look(&mut self) -> Option<Turn> {
        let now = Instant::now();
        let is_due = self.due <= now;
        self.look_at = now + Self::LOOK_INTERVAL + jitter::up_to(Self::LOOK_INTERVAL / 4);
        let Ok(found) = self.board.look(is_due).await else {
            if is_due {
                self.go_alone(now);
            }
            return None;
        };
        let clock = found.clock;
        self.clock = Some(clock);
        if found.is_claimed {
            self.counts.claimed.increment(1);
            self.permit(Permit::Slot(found.slot), now);
            self.plan(found.slot.saturating_add(1));
        } else {
            let following = found.slot.saturating_add(1);
            // One that is further ahead is by a clock that was put back.
            let next = self.next_slot.filter(|next| *next <= following);
            match next {
                Some(next) if !is_due || next == following => self.plan(next),
                None if !is_due => self.plan(following),
                _ => self.pass(found.slot, now),
            }
        }
        if found.value.is_empty() {
            return None;
        }
        let publication = self.read(&found.value, Way::Stored(Instant::now()), &clock);
        if publication.is_err() {
            self.board.discard(&found.value).await;
        }
        publication.ok().flatten().map(Turn::Adopt)
    }

    /// Lets another replica have the slot that it has claimed.
    fn pass(&mut self, slot: u64, now: Instant) {
        self.gives_way();
        self.plan(slot.saturating_add(1));
        // A poll takes up to two attempts, however short slots are, and is heard of after that.
        let longest = self.board.upstreams.attempt_deadline().saturating_mul(3);
        let slots = longest.as_nanos().div_ceil(self.board.slots.length.as_nanos().max(1));
        let patience = u32::try_from(slots).unwrap_or(u32::MAX).max(Self::PATIENCE);
        if self.silent_slots >= patience {
            self.counts.alone.increment(1);
            self.permit(Permit::Alone, now);
            return;
        }
        self.counts.left.increment(1);
        self.silent_slots = self.silent_slots.saturating_add(1);
        let soon = now + Upstreams::RETRY;
        if !self.has_data && soon < self.due {
            // With slots that long whoever has this one should have told by then.
            (self.silent_slots, self.due) = (patience, soon);
        }
    }

    fn go_alone(&mut self, now: Instant) {
        self.next_slot = None;
        if now >= self.alone_from {
            self.counts.alone.increment(1);
            self.permit(Permit::Alone, now);
        }
        self.due = self.alone_from;
    }

    /// Has a poll begin.
    fn permit(&mut self, permit: Permit, now: Instant) {
        self.waiting.permit = Some(permit);
        self.polling_since = now;
        self.alone_from = now + self.board.slots.length;
    }

    /// Publishes what a poll has given, for its slot.
    async fn publish(&mut self, permit: Permit, history: &FeeHistory, seen: LastSeen) {
        let Some(clock) = self.clock else { return };
        let slot = match permit {
            Permit::Slot(slot) => slot,
            // That in which it began, as with all others: later it would keep out what they have polled since.
            Permit::Alone => self.board.slots.at(&clock, self.polling_since),
        };
        let edition =
            Edition { slot, epoch: self.epoch, history, seen, max_age: self.max_age, clock };
        let Ok(Some(stands)) = self.board.publish(edition).await else { return };
        match self.read(&stands, Way::Stored(Instant::now()), &clock) {
            Ok(publication) => self.waiting.publication = publication,
            Err(Foreign) => self.board.discard(&stands).await,
        }
    }
}
