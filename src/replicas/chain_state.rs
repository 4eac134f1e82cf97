//! Reads and writes the state of one chain in Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Script;

use super::connection::{
    ActiveConnection, CLAIM_SCRIPT, CommandFailed, DISCARD_SCRIPT, PUBLISH_SCRIPT, RedisHandle,
};
use super::messages;
use super::redis_clock::{PollSlots, RedisClock, whole_micros};
use super::redis_keys::RedisKeys;
use super::shared_fee_history::SharedFeeHistory;
use crate::fees::FeeHistory;
use crate::store::Timestamps;
use crate::upstream::ChainUpstreams;

/// State of one chain in Redis.
#[derive(Debug)]
pub(super) struct SharedChainState {
    pub(super) redis: RedisHandle,
    pub(super) keys: RedisKeys,
    pub(super) slots: PollSlots,
    pub(super) upstreams: Arc<ChainUpstreams>,
    /// Id of this replica.
    pub(super) replica_id: String,
    scripts: Scripts,
}

#[derive(Debug)]
struct Scripts {
    claim: Script,
    publish: Script,
    discard: Script,
}

/// Reply of the claim script.
pub(super) struct ClaimReply {
    /// Redis' clock.
    pub(super) clock: RedisClock,
    pub(super) slot: u64,
    pub(super) is_claimed: bool,
    /// Stored record; empty: none.
    pub(super) record: Vec<u8>,
}

/// Record to publish.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublishRequest<'a> {
    pub(super) slot: u64,
    pub(super) epoch: u64,
    pub(super) history: &'a FeeHistory,
    pub(super) timestamps: Timestamps,
    /// Lifetime from the time of observation.
    pub(super) max_age: Duration,
    /// Last known reading of Redis' clock.
    pub(super) clock: RedisClock,
}

impl SharedChainState {
    pub(super) fn new(
        redis: RedisHandle,
        keys: RedisKeys,
        slots: PollSlots,
        upstreams: Arc<ChainUpstreams>,
        replica_id: String,
    ) -> Self {
        let scripts = Scripts {
            claim: Script::new(CLAIM_SCRIPT),
            publish: Script::new(PUBLISH_SCRIPT),
            discard: Script::new(DISCARD_SCRIPT),
        };
        Self { redis, keys, slots, upstreams, replica_id, scripts }
    }

    /// Reads the stored record and, with `claim`, claims the current slot. Adopts what other replicas know about the
    /// upstreams.
    pub(super) async fn claim_and_read(&self, claim: bool) -> Result<ClaimReply, CommandFailed> {
        let connection = self.redis.active().ok_or(CommandFailed)?;
        // Long enough that no replica can claim the slot again.
        let ttl_ms = whole_millis(self.slots.length.saturating_mul(2).max(Duration::from_secs(1)));
        let mut script = self.scripts.claim.key(&self.keys.fee_history);
        script.key(&self.keys.claim_prefix);
        for upstream in &self.keys.upstreams {
            script.key(&upstream.cool_down).key(&upstream.chain_verified);
        }
        script.arg(&self.replica_id).arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        script.arg(ttl_ms).arg(u8::from(claim)).arg(SharedFeeHistory::MAX_BYTES);
        let requested_at = Instant::now();
        let (micros, slot, claimed, value, upstreams): (u64, u64, u8, Vec<u8>, Vec<i64>) =
            connection.run(&script).await?;
        self.update_upstreams(&upstreams);
        let clock = RedisClock::new(micros, requested_at, requested_at.elapsed());
        Ok(ClaimReply { clock, slot, is_claimed: claimed == 1, record: value })
    }

    /// Adopts two values per upstream, in milliseconds: the remaining cool-down, and the remaining validity of the
    /// chain verification. Negative: none.
    fn update_upstreams(&self, remaining_ms: &[i64]) {
        let duration = |millis: i64| u64::try_from(millis).map(Duration::from_millis);
        for (upstream, remaining) in self.upstreams.all().iter().zip(remaining_ms.chunks(2)) {
            let [cool_down, verified] = remaining else { continue };
            if let Ok(wait) = duration(*cool_down) {
                upstream.record_rate_limit(wait);
            }
            if let Ok(verified_for) = duration(*verified) {
                upstream.record_chain_verified(verified_for);
            }
        }
    }

    /// Publishes a record, unless it has expired. Returns the stored record instead, if that is newer.
    pub(super) async fn publish(
        &self,
        request: PublishRequest<'_>,
    ) -> Result<Option<Vec<u8>>, CommandFailed> {
        let PublishRequest { slot, epoch, history, timestamps, max_age, clock } = request;
        let connection = self.redis.active().ok_or(CommandFailed)?;
        let age = timestamps.observed_at.elapsed();
        let ttl_ms = whole_micros(max_age.saturating_sub(age)) / 1000;
        if ttl_ms == 0 {
            return Ok(None);
        }
        let mut script = self.scripts.publish.key(&self.keys.fee_history);
        script.arg(SharedFeeHistory::zero_padded(slot)).arg(epoch);
        script.arg(SharedFeeHistory::zero_padded(history.newest_block()));
        // Counts the whole round trip as transit time, so the value seems older rather than younger.
        script.arg(whole_micros(age + clock.round_trip)).arg(clock.micros_at(Instant::now()));
        script
            .arg(format!("{} {}", self.replica_id, SharedFeeHistory::to_json(history, timestamps)))
            .arg(ttl_ms);
        script.arg(&self.keys.channel);
        script.arg(self.slots.length_micros()).arg(self.slots.phase_micros());
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let proved = whole_micros(upstream.chain_verified_remaining()) / 1000;
            if proved > 0 {
                script.key(&keys.chain_verified).arg(proved);
            }
        }
        let stored: Vec<u8> = connection.run(&script).await?;
        Ok(Some(stored).filter(|line| !line.is_empty()))
    }

    /// Deletes the stored record if it begins with `prefix`.
    pub(super) async fn discard(&self, prefix: &[u8]) {
        let Some(line) = self.redis.active() else { return };
        let mut script = self.scripts.discard.key(&self.keys.fee_history);
        // The reply says whether there was one.
        let _: Result<u8, CommandFailed> = line.run(script.arg(prefix)).await;
    }

    /// Announces that the poll of `slot` failed. Deletes the stored verification of upstreams whose chain is in doubt.
    pub(super) async fn announce_failure(&self, slot: u64) {
        let mut commands = redis::pipe();
        commands.publish(&self.keys.channel, messages::failure_message(slot)).ignore();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            if upstream.is_chain_in_doubt() {
                commands.del(&keys.chain_verified).ignore();
            }
        }
        self.send(&commands).await;
    }

    /// Stores and announces the cool-downs of upstreams that are rate limiting.
    pub(super) async fn announce_cool_downs(&self) {
        let now = Instant::now();
        let mut commands = redis::pipe();
        for (upstream, keys) in self.upstreams.all().iter().zip(&self.keys.upstreams) {
            let millis = whole_millis(upstream.rate_limit_remaining(now));
            if millis > 0 {
                commands.pset_ex(&keys.cool_down, 1, millis).ignore();
                let message = messages::cool_down_message(&keys.fingerprint, millis);
                commands.publish(&self.keys.channel, message).ignore();
            }
        }
        self.send(&commands).await;
    }

    async fn send(&self, commands: &redis::Pipeline) {
        let connection: Option<ActiveConnection> =
            self.redis.active().filter(|_| !commands.is_empty());
        if let Some(line) = connection {
            // A failure is already logged and counted.
            let _ = line.send(commands).await;
        }
    }
}

/// Converts to whole milliseconds, rounded up.
fn whole_millis(duration: Duration) -> u64 {
    whole_micros(duration).div_ceil(1000)
}
