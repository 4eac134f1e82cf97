//! What is in Redis about one chain: read, and written to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Script;

use super::clock::{Clock, Slots, micros};
use super::keys::Keys;
use super::link::{CLAIM, DISCARD, Failed, Line, Link, PUBLISH};
use super::news;
use super::publication::Publication;
use crate::book::LastSeen;
use crate::fees::FeeHistory;
use crate::rpc::Upstreams;

/// One chain's place in Redis.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) link: Link,
    pub(super) keys: Keys,
    pub(super) slots: Slots,
    pub(super) upstreams: Arc<Upstreams>,
    /// Who claims.
    pub(super) replica: String,
    scripts: Scripts,
}

#[derive(Debug)]
struct Scripts {
    claim: Script,
    publish: Script,
    discard: Script,
}

/// What is there.
pub(super) struct Found {
    /// Redis' clock.
    pub(super) clock: Clock,
    pub(super) slot: u64,
    pub(super) is_claimed: bool,
    /// A line; empty: none.
    pub(super) value: Vec<u8>,
}

/// What is to be published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edition<'a> {
    pub(super) slot: u64,
    pub(super) epoch: u64,
    pub(super) history: &'a FeeHistory,
    pub(super) seen: LastSeen,
    /// For how long from when it was observed.
    pub(super) max_age: Duration,
    /// Redis' clock as it was known last.
    pub(super) clock: Clock,
}

impl Board {
    pub(super) fn new(
        link: Link,
        keys: Keys,
        slots: Slots,
        upstreams: Arc<Upstreams>,
        replica: String,
    ) -> Self {
        let scripts = Scripts {
            claim: Script::new(CLAIM),
            publish: Script::new(PUBLISH),
            discard: Script::new(DISCARD),
        };
        Self { link, keys, slots, upstreams, replica, scripts }
    }

    /// Looks what is there, and claims the slot that it is now where that is what this is for. What other
    /// replicas know of the upstreams is taken over.
    pub(super) async fn look(&self, claims: bool) -> Result<Found, Failed> {
        let line = self.link.line().ok_or(Failed)?;
        // As long as it takes until nobody can go for the slot any more.
        let kept = millis(self.slots.length.saturating_mul(2).max(Duration::from_secs(1)));
        let mut script = self.scripts.claim.key(&self.keys.value);
        script.key(&self.keys.claim);
        for upstream in &self.keys.upstreams {
            script.key(&upstream.cool_down).key(&upstream.proof);
        }
        script.arg(&self.replica).arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        script.arg(kept).arg(u8::from(claims)).arg(Publication::MAX_BYTES);
        let asked = Instant::now();
        let (micros, slot, claimed, value, upstreams): (u64, u64, u8, Vec<u8>, Vec<i64>) =
            line.run(&script).await?;
        self.learn(&upstreams);
        let clock = Clock::new(micros, asked, asked.elapsed());
        Ok(Found { clock, slot, is_claimed: claimed == 1, value })
    }

    /// Takes over for how many milliseconds each upstream is to be let be, and has proved its chain.
    fn learn(&self, known: &[i64]) {
        let duration = |millis: i64| u64::try_from(millis).map(Duration::from_millis);
        for (upstream, left) in self.upstreams.all().iter().zip(known.chunks(2)) {
            let [cool_down, proof] = left else { continue };
            if let Ok(wait) = duration(*cool_down) {
                upstream.is_rate_limiting(wait);
            }
            if let Ok(remaining) = duration(*proof) {
                upstream.was_proved(remaining);
            }
        }
    }

    /// Publishes; the line that stands instead, where that is newer.
    pub(super) async fn publish(&self, edition: Edition<'_>) -> Result<Option<Vec<u8>>, Failed> {
        let Edition { slot, epoch, history, seen, max_age, clock } = edition;
        let line = self.link.line().ok_or(Failed)?;
        let age = seen.observed.elapsed();
        let kept = micros(max_age.saturating_sub(age)) / 1000;
        if kept == 0 {
            return Ok(None);
        }
        let mut script = self.scripts.publish.key(&self.keys.value);
        script.arg(Publication::padded(slot)).arg(epoch);
        script.arg(Publication::padded(history.newest_block()));
        // As if all that Redis takes to answer were on the way there: it is older rather than younger.
        script.arg(micros(age + clock.took)).arg(clock.micros_at(Instant::now()));
        script.arg(format!("{} {}", self.replica, Publication::json(history, seen))).arg(kept);
        script.arg(&self.keys.channel);
        script.arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let proved = micros(upstream.is_proved_for()) / 1000;
            if proved > 0 {
                script.key(&keys.proof).arg(proved);
            }
        }
        let stands: Vec<u8> = line.run(&script).await?;
        Ok(Some(stands).filter(|line| !line.is_empty()))
    }

    /// Removes the value that begins like this.
    pub(super) async fn discard(&self, beginning: &[u8]) {
        let Some(line) = self.link.line() else { return };
        let mut script = self.scripts.discard.key(&self.keys.value);
        // Whether there was one.
        let _: Result<u8, Failed> = line.run(script.arg(beginning)).await;
    }

    /// Tells that the poll for `slot` gave nothing.
    pub(super) async fn tell_of_failure(&self, slot: u64) {
        let mut commands = redis::pipe();
        commands.publish(&self.keys.channel, news::of_failure(slot)).ignore();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            if upstream.is_in_doubt() {
                commands.del(&keys.proof).ignore();
            }
        }
        self.send(&commands).await;
    }

    /// Tells which upstreams have asked to be let be.
    pub(super) async fn tell_of_limits(&self) {
        let now = Instant::now();
        let mut commands = redis::pipe();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let millis = millis(upstream.rate_limited_for(now));
            if millis > 0 {
                commands.pset_ex(&keys.cool_down, 1, millis).ignore();
                let told = news::of_cool_down(&keys.alias, millis);
                commands.publish(&self.keys.channel, told).ignore();
            }
        }
        self.send(&commands).await;
    }

    async fn send(&self, commands: &redis::Pipeline) {
        let line: Option<Line> = self.link.line().filter(|_| !commands.is_empty());
        if let Some(line) = line {
            // The log and the metrics know when it fails.
            let _ = line.send(commands).await;
        }
    }
}

/// In whole milliseconds, rounded up.
fn millis(duration: Duration) -> u64 {
    micros(duration).div_ceil(1000)
}
