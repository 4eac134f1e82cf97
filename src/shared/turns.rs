//! Whose turn it is to poll a chain, and what the others have polled.
//!
//! Time is divided into slots of one block time by Redis' clock. Whoever claims a slot polls, publishes, and
//! goes first in the next one; the others wait a moment longer, by which time the value has reached them as a
//! rule. There is no leader that could be lost: a replica that dies with a slot of its own costs that slot.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::Counter;
use redis::Script;
use tokio::sync::watch;

use super::clock::{Clock, Slots, micros};
use super::keys::Keys;
use super::link::{Failed, Line, Link, State};
use super::news::{self, Heard, Message};
use super::publication::{Foreign, Publication, Way};
use crate::book::LastSeen;
use crate::config;
use crate::fees::FeeHistory;
use crate::jitter;
use crate::metrics::Metrics;
use crate::rpc::Upstreams;

/// One chain's turns, for one replica.
#[derive(Debug)]
pub struct Turns {
    link: Link,
    keys: Keys,
    slots: Slots,
    max_age: Duration,
    upstreams: Arc<Upstreams>,
    heard: watch::Receiver<Heard>,
    scripts: Scripts,
    counts: Counts,
    /// Who claims.
    replica: String,
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
    /// The slot of this replica's own last value.
    own_slot: Option<u64>,
    /// When the last value that was looked into was received, and the last failure.
    listened: (Option<Instant>, Option<u64>),
}

/// When a replica goes for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// As soon as the slot begins: it had the last one.
    First,
    /// A moment later.
    Among,
    /// After those: its last poll has failed.
    Last,
}

#[derive(Debug, Default)]
struct Waiting {
    publication: Option<Publication>,
    permit: Option<Permit>,
    /// A slot for which this replica may poll again, and when.
    again: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Scripts {
    claim: Script,
    publish: Script,
    discard: Script,
}

#[derive(Debug)]
struct Counts {
    claimed: Counter,
    left: Counter,
    alone: Counter,
    adopted: Counter,
    known: Counter,
    older: Counter,
    foreign: Counter,
}

/// What there is to do.
#[derive(Debug)]
pub enum Turn {
    /// To poll, and to [`conclude`](Turns::conclude) that.
    Poll(Permit),
    /// To take what another replica has polled, and to say [what came of it](Turns::took).
    Adopt(Publication),
    /// Another replica has polled in vain: there is nothing to do.
    Failed,
}

/// What a poll is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// A claim.
    Slot(u64),
    /// Nobody else can be asked.
    Alone,
}

/// What a poll has published here.
#[derive(Debug)]
pub struct Published {
    /// What a node said.
    pub history: FeeHistory,
    /// Whether the head went back, or leapt, which was believed only when it was confirmed.
    pub was_confirmed: bool,
}

/// What came of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is what is known now.
    Adopted,
    /// It says no more than what is known.
    Known,
    /// It is older than what is known, or may not be served any more.
    Older,
    /// It cannot be believed.
    Foreign,
}

impl Turns {
    /// For how many slots of others of whom nothing comes a replica waits before it polls by itself.
    const PATIENCE: u32 = 3;
    /// How often Redis is asked at least.
    const LOOK_INTERVAL: Duration = Duration::from_secs(10);
    /// What is believed to be a slot's begin may be a little before it.
    const MARGIN: Duration = Duration::from_millis(2);
    /// The longest that those wait who did not have the last slot.
    const MAX_HANDICAP: Duration = Duration::from_millis(250);
    /// How long after a failed poll the one who has the slot polls again.
    const RETRY: Duration = Duration::from_secs(5);

    pub(super) fn new(
        link: Link,
        chain: &config::Chain,
        upstreams: Arc<Upstreams>,
        keys: Keys,
        heard: watch::Receiver<Heard>,
        metrics: &Metrics,
    ) -> Self {
        let now = Instant::now();
        Self {
            link,
            keys,
            slots: Slots::new(chain.chain_id, chain.block_time),
            max_age: chain.max_age,
            upstreams,
            heard,
            scripts: Scripts::new(),
            counts: Counts::new(metrics, &chain.key),
            replica: replica(),
            clock: None,
            epoch: 0,
            due: now,
            next_slot: None,
            look_at: now,
            place: Place::Among,
            silent_slots: 0,
            waiting: Waiting::default(),
            own_slot: None,
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
            let upstreams = Arc::clone(&self.upstreams);
            // The first attempt to connect is soon over, and then it is known what to do.
            let is_connecting = matches!(self.link.state(), State::Connecting);
            let again = self.waiting.again.map_or(self.due, |(at, _)| at);
            let due = self.due.min(self.look_at).min(again);
            tokio::select! {
                biased;
                Ok(()) = self.heard.changed() => {
                    if let Some(turn) = self.listen() {
                        return turn;
                    }
                }
                () = self.link.changed() => self.connection_changed(),
                () = upstreams.have_limited() => self.tell_of_limits().await,
                () = tokio::time::sleep_until(due.into()), if !is_connecting => {
                    if let Some(turn) = self.look().await {
                        return turn;
                    }
                }
            }
        }
    }

    /// Takes note of what came of the `publication` that there was to take.
    pub async fn took(&mut self, publication: &Publication, taken: Taken) {
        self.counts.of(taken).increment(1);
        match taken {
            Taken::Adopted | Taken::Known => {
                self.epoch = self.epoch.max(publication.epoch);
                self.silent_slots = 0;
            }
            Taken::Older => {}
            // What nobody believes must not keep others from publishing.
            Taken::Foreign => self.discard(&publication.mark()).await,
        }
    }

    /// Tells the others what came of a poll: whether it `was_good`, and what was published.
    pub async fn conclude(
        &mut self,
        permit: Permit,
        was_good: bool,
        published: Option<(Published, LastSeen)>,
    ) {
        let line = self.link.line();
        if let Some((published, seen)) = published {
            if published.was_confirmed {
                self.epoch = self.epoch.saturating_add(1);
            }
            if let (Some(line), Some(clock)) = (&line, self.clock) {
                let slot = match permit {
                    Permit::Slot(slot) => slot,
                    Permit::Alone => self.slots.at(&clock, Instant::now()),
                };
                self.publish(line, &clock, slot, &published.history, seen).await;
            }
        }
        if was_good {
            if let Permit::Slot(slot) = permit {
                self.place = Place::First;
                self.plan(slot.saturating_add(1));
            }
            return;
        }
        self.place = Place::Last;
        let again = Instant::now() + Self::RETRY;
        match permit {
            Permit::Slot(slot) => {
                self.plan(slot.saturating_add(1));
                if again < self.due {
                    self.waiting.again = Some((again, slot));
                }
                if let Some(line) = line {
                    self.tell_of_failure(&line, slot).await;
                }
            }
            Permit::Alone => self.due = self.due.min(again),
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
            self.read(&line, Way::Sent(sent, received), &clock).ok().flatten()
        });
        match publication {
            Some(publication) => {
                if self.is_next(publication.slot) {
                    self.leave(publication.slot);
                }
                Some(Turn::Adopt(publication))
            }
            None => failed.map(|_| Turn::Failed),
        }
    }

    /// What a line says; `None`: it is this replica's own.
    fn read(&self, line: &[u8], way: Way, clock: &Clock) -> Result<Option<Publication>, Foreign> {
        let publication = Publication::read(line, way, clock);
        if publication.is_err() {
            self.counts.foreign.increment(1);
        }
        Ok(Some(publication?).filter(|publication| self.own_slot != Some(publication.slot)))
    }

    /// Whether this slot has begun, and nothing was known of what came of it.
    fn is_next(&self, slot: u64) -> bool {
        let now = Instant::now();
        let has_begun = |clock: &Clock| slot <= self.slots.at(clock, now).saturating_add(1);
        self.own_slot != Some(slot)
            && self.clock.as_ref().is_some_and(has_begun)
            && self.next_slot.is_none_or(|next| slot >= next)
    }

    /// Leaves `slot` to another replica, of which something came.
    fn leave(&mut self, slot: u64) {
        self.counts.left.increment(1);
        if self.place == Place::First {
            self.place = Place::Among;
        }
        self.waiting.again = self.waiting.again.filter(|(_, own)| *own > slot);
        self.plan(slot.saturating_add(1));
    }

    /// Goes for `slot` next.
    fn plan(&mut self, slot: u64) {
        let Some(clock) = &self.clock else { return };
        let handicap = (self.slots.length / 8).min(Self::MAX_HANDICAP);
        let delay = match self.place {
            Place::First => Self::MARGIN,
            Place::Among => handicap + jitter::up_to(handicap),
            Place::Last => 2 * handicap + jitter::up_to(handicap),
        };
        self.next_slot = Some(slot);
        self.due = self.slots.start_of(clock, slot) + delay;
    }

    fn connection_changed(&mut self) {
        /// Replicas that come back together do not come at the same moment.
        const SPREAD: Duration = Duration::from_millis(500);
        if let State::Up(_) = self.link.state() {
            let now = Instant::now();
            let is_first = self.clock.is_none() && self.due <= now;
            let spread = SPREAD.min(self.slots.length / 4);
            self.due = if is_first { now } else { now + jitter::up_to(spread) };
            // It may be another server, with another clock.
            (self.clock, self.next_slot) = (None, None);
            (self.silent_slots, self.look_at) = (0, self.due);
        }
    }

    /// Asks Redis what is known, and for a turn where one is due.
    async fn look(&mut self) -> Option<Turn> {
        let now = Instant::now();
        let is_due = self.due <= now;
        self.look_at = now + Self::LOOK_INTERVAL + jitter::up_to(Self::LOOK_INTERVAL / 4);
        let Some(line) = self.link.line() else { return is_due.then(|| self.alone(now)) };
        let Ok(found) = self.claim(&line, is_due).await else {
            return is_due.then(|| self.alone(now));
        };
        let clock = Clock::new(found.micros, now, now.elapsed());
        self.clock = Some(clock);
        self.learn(&found);
        if found.is_claimed {
            self.counts.claimed.increment(1);
            self.waiting.permit = Some(Permit::Slot(found.slot));
            self.plan(found.slot.saturating_add(1));
        } else {
            let following = found.slot.saturating_add(1);
            // One that is further ahead is by a clock that was put back.
            let next = self.next_slot.filter(|next| *next <= following);
            match next {
                Some(next) if !is_due || next == following => self.plan(next),
                None if !is_due => self.plan(following),
                _ => self.pass(found.slot),
            }
        }
        if found.value.is_empty() {
            return None;
        }
        let publication = self.read(&found.value, Way::Stored(Instant::now()), &clock);
        if publication.is_err() {
            self.discard(&found.value).await;
        }
        publication.ok().flatten().map(Turn::Adopt)
    }

    /// Lets another replica have the slot that it has claimed.
    fn pass(&mut self, slot: u64) {
        self.silent_slots = self.silent_slots.saturating_add(1);
        if self.silent_slots > Self::PATIENCE {
            self.counts.alone.increment(1);
            self.waiting.permit = Some(Permit::Alone);
        } else {
            self.counts.left.increment(1);
        }
        if self.place == Place::First {
            self.place = Place::Among;
        }
        self.plan(slot.saturating_add(1));
    }

    fn alone(&mut self, now: Instant) -> Turn {
        self.counts.alone.increment(1);
        self.next_slot = None;
        self.due = now + self.slots.length;
        Turn::Poll(Permit::Alone)
    }

    /// Takes over what other replicas know of the upstreams.
    fn learn(&self, found: &Found) {
        let millis = |left: i64| u64::try_from(left).map(Duration::from_millis).unwrap_or_default();
        for (upstream, left) in self.upstreams.all().iter().zip(found.upstreams.chunks(2)) {
            if let [cool_down, proof] = left {
                if *cool_down > 0 {
                    upstream.is_rate_limiting(millis(*cool_down));
                }
                if *proof > 0 {
                    upstream.was_proved(millis(*proof));
                }
            }
        }
    }
}

/// What is in Redis.
struct Found {
    micros: u64,
    slot: u64,
    is_claimed: bool,
    value: Vec<u8>,
    /// Cool-down and proof of each upstream, in milliseconds; below 0: none.
    upstreams: Vec<i64>,
}

impl Turns {
    async fn claim(&self, line: &Line, is_due: bool) -> Result<Found, Failed> {
        // As long as it takes until nobody can go for the slot any more.
        let kept = micros(self.slots.length).saturating_mul(2).div_ceil(1000).max(1000);
        let mut script = self.scripts.claim.key(&self.keys.value);
        script.key(&self.keys.claim);
        for upstream in &self.keys.upstreams {
            script.key(&upstream.cool_down).key(&upstream.proof);
        }
        script.arg(&self.replica).arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        script.arg(kept).arg(u8::from(is_due)).arg(Publication::MAX_BYTES);
        let (micros, slot, claimed, value, upstreams) = line.run(&script).await?;
        let _: (u64, u64, u8) = (micros, slot, claimed);
        Ok(Found { micros, slot, is_claimed: claimed == 1, value, upstreams })
    }

    async fn publish(
        &mut self,
        line: &Line,
        clock: &Clock,
        slot: u64,
        history: &FeeHistory,
        seen: LastSeen,
    ) {
        let age = seen.observed.elapsed();
        let kept = micros(self.max_age.saturating_sub(age)) / 1000;
        if kept == 0 {
            return;
        }
        let mut script = self.scripts.publish.key(&self.keys.value);
        script.arg(Publication::padded(slot)).arg(self.epoch);
        script.arg(Publication::padded(history.newest_block()));
        // As if all that Redis takes to answer were on the way there: it is older rather than younger.
        script.arg(micros(age + clock.took)).arg(Publication::json(history, seen)).arg(kept);
        script.arg(&self.keys.channel);
        script.arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let proved = micros(upstream.is_proved_for()) / 1000;
            if proved > 0 {
                script.key(&keys.proof).arg(proved);
            }
        }
        // It comes back to this replica, too, and perhaps before the answer.
        let before = self.own_slot.replace(slot);
        let Ok(stands) = line.run::<Vec<u8>>(&script).await else { return };
        if stands.is_empty() {
            return;
        }
        self.own_slot = before;
        match self.read(&stands, Way::Stored(Instant::now()), clock) {
            Ok(publication) => self.waiting.publication = publication,
            Err(Foreign) => self.discard(&stands).await,
        }
    }

    /// Removes the value that begins like this.
    async fn discard(&self, beginning: &[u8]) {
        let Some(line) = self.link.line() else { return };
        let mut script = self.scripts.discard.key(&self.keys.value);
        // Whether there was one.
        let _: Result<u8, Failed> = line.run(script.arg(beginning)).await;
    }

    async fn tell_of_failure(&self, line: &Line, slot: u64) {
        let mut commands = redis::pipe();
        commands.publish(&self.keys.channel, news::of_failure(slot)).ignore();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            if upstream.is_in_doubt() {
                commands.del(&keys.proof).ignore();
            }
        }
        // The log and the metrics know.
        let _ = line.send(&commands).await;
    }

    async fn tell_of_limits(&self) {
        let Some(line) = self.link.line() else { return };
        let now = Instant::now();
        let mut commands = redis::pipe();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let millis = micros(upstream.rate_limited_for(now)).div_ceil(1000);
            if millis > 0 {
                commands.pset_ex(&keys.cool_down, 1, millis).ignore();
                let told = news::of_cool_down(&keys.identity, millis);
                commands.publish(&self.keys.channel, told).ignore();
            }
        }
        if !commands.is_empty() {
            let _ = line.send(&commands).await;
        }
    }
}

impl Scripts {
    fn new() -> Self {
        Self {
            claim: Script::new(include_str!("claim.lua")),
            publish: Script::new(include_str!("publish.lua")),
            discard: Script::new(include_str!("discard.lua")),
        }
    }
}

impl Counts {
    fn new(metrics: &Metrics, chain: &str) -> Self {
        let turns = |outcome| metrics.turns(chain, outcome);
        let values = |outcome| metrics.shared_values(chain, outcome);
        Self {
            claimed: turns("claimed"),
            left: turns("left"),
            alone: turns("alone"),
            adopted: values("adopted"),
            known: values("known"),
            older: values("older"),
            foreign: values("foreign"),
        }
    }

    fn of(&self, taken: Taken) -> &Counter {
        match taken {
            Taken::Adopted => &self.adopted,
            Taken::Known => &self.known,
            Taken::Older => &self.older,
            Taken::Foreign => &self.foreign,
        }
    }
}

/// A name that no other replica has.
fn replica() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
