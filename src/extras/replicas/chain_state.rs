//! State of one chain in Redis: its keys and the scripts that read and write it.

use std::time::Duration;

use redis::Script;

use super::connection::{CommandFailed, RedisHandle};
use super::redis_clock::{PollSlots, RedisClock, whole_micros};
use super::shared_fee_history::{MAX_BYTES, to_json};
use crate::config;
use crate::observe::clock;
use crate::poll::SharedFeeHistory;

/// State of one chain in Redis.
#[derive(Debug)]
pub(crate) struct SharedChainState {
    pub(crate) redis: RedisHandle,
    pub(crate) slots: PollSlots,
    replica_id: String,
    /// Lifetime of a record from the time of observation.
    max_age: Duration,
    /// Key of the record.
    record: String,
    /// Prefix of the claims' keys; a colon and the slot follow.
    claim_prefix: String,
    /// Channel of the records.
    pub(crate) channel: String,
    claim_script: Script,
    publish_script: Script,
}

/// Reply of the claim script.
pub(crate) struct ClaimReply {
    /// Redis' clock.
    pub(crate) clock: RedisClock,
    /// Current slot.
    pub(crate) slot: u64,
    pub(crate) is_claimed: bool,
    /// Stored record; empty: none.
    pub(crate) record: Vec<u8>,
}

impl SharedChainState {
    /// State of `chain` in the database with this number.
    pub(crate) fn new(
        chain: &config::Chain,
        redis: RedisHandle,
        database: u32,
        replica_id: String,
    ) -> Self {
        let prefix = key_prefix(chain);
        Self {
            redis,
            slots: PollSlots::new(chain.chain_id, chain.block_time.max(chain.min_poll_interval)),
            replica_id,
            max_age: chain.max_age,
            record: format!("{prefix}:record"),
            claim_prefix: format!("{prefix}:claim"),
            // Channels are common to all databases of a server.
            channel: format!("{prefix}:records:{database}"),
            claim_script: Script::new(include_str!("claim.lua")),
            publish_script: Script::new(include_str!("publish.lua")),
        }
    }

    /// Reads the record. Claims the current slot for `claim_for` if it is at least `first_slot`; a replica may claim its
    /// own slot again.
    pub(crate) async fn claim_and_read(
        &self,
        first_slot: Option<u64>,
        claim_for: Duration,
    ) -> Result<ClaimReply, CommandFailed> {
        let connection = self.redis.active().ok_or(CommandFailed)?;
        let mut script = self.claim_script.key(&self.record);
        script.key(&self.claim_prefix).arg(&self.replica_id);
        script.arg(self.slots.length_us).arg(self.slots.phase_us);
        script.arg(first_slot.map(|slot| slot.to_string()).unwrap_or_default());
        script.arg(whole_micros(claim_for) / 1000).arg(MAX_BYTES);
        let requested_at = clock::now();
        let (micros, slot, claimed, record): (u64, u64, u8, Vec<u8>) =
            connection.run(&script).await?;
        let clock = RedisClock::new(micros, requested_at, clock::elapsed(requested_at));
        Ok(ClaimReply { clock, slot, is_claimed: claimed == 1, record })
    }

    /// Publishes a record, unless it has expired or the result of its slot or of a later one is stored.
    pub(crate) async fn publish(&self, published: &SharedFeeHistory, clock: &RedisClock) {
        let age = clock::elapsed(published.timestamps.observed_at);
        let ttl_ms = whole_micros(self.max_age.saturating_sub(age)) / 1000;
        let Some(connection) = self.redis.active().filter(|_| ttl_ms > 0) else { return };
        let mut script = self.publish_script.key(&self.record);
        script.arg(published.slot).arg(self.slots.slot_at(clock, clock::now()));
        script.arg(to_json(published, clock)).arg(ttl_ms).arg(&self.channel);
        // A failure is already logged and counted.
        let _: Result<(), CommandFailed> = connection.run(&script).await;
    }
}

/// Returns the prefix of a chain's keys.
///
/// The keys begin with a version, so that incompatible releases share nothing. They contain the settings on which a
/// poll depends, so replicas with other settings share nothing, and a configuration can be rolled out in steps. The
/// part in braces is a hash tag, which keeps them on one node of a cluster.
fn key_prefix(chain: &config::Chain) -> String {
    let pricing = &chain.pricing;
    let percentiles: Vec<_> =
        pricing.percentiles().iter().map(|percentile| percentile.to_string()).collect();
    format!(
        "gas:v8:{{{}:{}ms:{}:{}}}",
        chain.chain_id,
        chain.block_time.as_millis(),
        pricing.window_blocks,
        percentiles.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::chain_toml;

    #[test]
    fn replicas_share_if_they_ask_nodes_for_the_same_alone() {
        let prefix = |key: &str, more: &str| {
            let text = chain_toml(key, 7, more);
            key_prefix(&config::Config::from_toml(&text, &[]).unwrap().chains[0])
        };
        let shared = prefix("a", "block_time = \"1s\"");
        assert_eq!(shared, "gas:v8:{7:1000ms:20:60}");
        let other = "name = \"b\"\nblock_time = \"1s\"\nmax_age = \"40s\"\nhistory_blocks = 100\n";
        assert_eq!(prefix("b", &format!("{other}pricing.base_fee_multiplier = 3")), shared);
        for more in [
            "block_time = \"1500ms\"",
            "block_time = \"1s\"\npricing.window_blocks = 10",
            "block_time = \"1s\"\npricing.reward_percentiles = [50]",
            "block_time = \"1s\"\npricing.reward_percentiles = [60, 100]",
        ] {
            assert_ne!(prefix("a", more), shared, "{more}");
        }
    }
}
