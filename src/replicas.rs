//! State that replicas share through Redis: poll slots, poll results, and pauses that nodes asked for.
//!
//! Without `redis.url` nothing is shared. A replica that loses Redis polls standalone. No client request waits for
//! Redis.
//!
//! # Slots
//!
//! Redis' clock divides a chain's time into slots of one block time. A replica claims a slot before it polls. A claim
//! holds for one slot, so there is no leader, and a replica that dies costs one slot.
//!
//! The replica that polled last claims the next slot 2 ms after it begins. The others wait for an eighth to a quarter
//! of a block time (at most 250 to 500 ms), and those whose last poll failed for an eighth longer. By then they usually
//! have the result and do not claim. So a slot costs one claim and one publication, however many replicas there are.
//!
//! - A failed poll is announced, and the others leave that slot.
//! - A replica whose head needs confirmation stays first for up to three polls, because one replica must see the head
//!   that often.
//! - After three slots in a row, and at least 1.5 s, in which others claimed but published nothing usable, a replica
//!   polls standalone.
//!
//! # Epochs
//!
//! A result replaces the stored one unless that is newer: of a later slot, of a higher epoch, or of the same epoch with
//! a higher head. The epoch counts the head regressions and jumps that had to be confirmed. A replica accepts any head
//! of a higher epoch, because the publisher confirmed it. Within its epoch it checks a head like that of a node.
//!
//! # Ages
//!
//! A result has the time of its observation by Redis' clock. Each reply of a script ties that clock to the local
//! monotonic clock, as of the time of the request. So a result may seem older by the round trip, but never younger.
//! This also holds for a message that arrives late and for a result that Redis stores late.
//!
//! If Redis' clock is set forward, results seem too old. If it is set back, they come from the future and are rejected.
//! A replica that has read the new clock uses new results again.

mod chain_state;
mod connection;
mod messages;
mod poll_coordinator;
mod redis_clock;
mod redis_keys;
mod shared_budget;
mod shared_fee_history;

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

pub use poll_coordinator::{Action, PollCoordinator, PollGrant, PollOutcome, PublishedPoll};
pub use shared_budget::SharedBudget;
pub use shared_fee_history::{AdoptOutcome, SharedFeeHistory};

use crate::config::{self, UpstreamUrl};
use crate::metrics::Metrics;
use crate::upstream::ChainUpstreams;
use chain_state::SharedChainState;
use connection::{Connector, RedisHandle};
use redis_clock::PollSlots;
use redis_keys::RedisKeys;

/// Coordination of all chains, not connected yet.
#[derive(Debug)]
pub struct ReplicaSync {
    connector: Connector,
    redis: RedisHandle,
    /// One coordinator per chain, in the order of the chains.
    coordinators: Vec<PollCoordinator>,
}

impl ReplicaSync {
    /// Creates the coordination of `chains` and their `upstreams`, which are in the same order; `None` without
    /// `redis.url`.
    ///
    /// # Errors
    ///
    /// Fails if the Redis client cannot be created.
    pub fn new(
        config: &config::Redis,
        chains: &[config::Chain],
        upstreams: &[Arc<ChainUpstreams>],
        metrics: &Metrics,
    ) -> anyhow::Result<Option<Self>> {
        let Some(url) = &config.url else { return Ok(None) };
        let mut handlers: HashMap<String, connection::MessageHandler> = HashMap::new();
        let mut parts = Vec::new();
        for (chain, upstreams) in chains.iter().zip(upstreams) {
            let keys = RedisKeys::new(chain, upstreams, url.database());
            let (handler, inbox) = messages::open_inbox(upstreams);
            handlers.insert(keys.channel.clone(), handler);
            parts.push((chain, upstreams, keys, inbox));
        }
        let (connector, redis) = Connector::new(url, handlers, metrics)?;
        let replica_id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let coordinators = parts.into_iter().map(|(chain, upstreams, keys, inbox)| {
            let slots = PollSlots::new(chain.chain_id, chain.block_time);
            let upstreams = Arc::clone(upstreams);
            let chain_state =
                SharedChainState::new(redis.clone(), keys, slots, upstreams, replica_id.clone());
            PollCoordinator::new(chain, chain_state, inbox, metrics)
        });
        let coordinators = coordinators.collect();
        Ok(Some(Self { connector, redis, coordinators }))
    }

    /// Returns the shared rate limit of the API at this URL. Redis gets only a fingerprint of the URL.
    #[must_use]
    pub fn shared_budget(&self, api: &UpstreamUrl) -> SharedBudget {
        SharedBudget::new(self.redis.clone(), api)
    }

    /// Returns the coordinator of each chain, and the task that maintains the connection. The task never ends by
    /// itself.
    pub fn into_parts(
        self,
    ) -> (Vec<PollCoordinator>, impl Future<Output = Infallible> + Send + 'static) {
        (self.coordinators, self.connector.run())
    }
}
