//! Polls that replicas share through Redis.
//!
//! Without `redis.url` nothing is shared. A replica that loses Redis polls standalone. No client request waits for
//! Redis.
//!
//! # Slots
//!
//! Redis' clock divides a chain's time into slots of one block time. A replica claims a slot before it polls, and
//! publishes the result. A claim holds for one slot, so there is no leader, and a replica that dies costs one slot. In
//! slots of more than 10 s a claim ends after 10 s, so that another replica can repeat a lost poll.
//!
//! The replica that polled last claims the next slot 2 ms after it begins. The others wait for an eighth to a quarter
//! of a block time (at most 250 to 500 ms), and those whose last poll failed for an eighth longer. By then they usually
//! have the result and do not claim. So a slot costs one claim and one publication, however many replicas there are.
//!
//! - A replica whose head needs confirmation stays first, because one replica must see the head in three polls.
//! - After three slots in a row, and at least 1.5 s, in which others claimed but published nothing usable, a replica
//!   polls standalone.
//!
//! # Order
//!
//! A result replaces only results of earlier slots, in Redis and in each replica. So a message that arrives late or
//! twice changes nothing.
//!
//! # Trust
//!
//! A result is checked like the reply of a node that is less preferred than every upstream. An implausible one is not
//! adopted. The replica polls its own upstreams instead, which may confirm it. Every 32nd adopted result is checked
//! against the own upstreams too. While they contradict the others, the replica polls each slot for itself.
//!
//! # Ages
//!
//! A result has the time of its observation by Redis' clock. Each reply of a script ties that clock to the local
//! monotonic clock. The error is at most a round trip. The publisher takes the earliest possible time of observation,
//! and the receiver the latest possible present. So a result may seem older than it is, but never younger. This also
//! holds for a message that arrives late and for a result that Redis stores late.
//!
//! If Redis' clock is set forward, stored results seem too old. If it is set back, they come from the future and are
//! rejected. A replica that has read the new clock uses new results again. Only a replica that starts after the clock
//! was set back, by less than the age of the stored result, takes that result for younger than it is.

mod chain_state;
mod connection;
mod poll_coordinator;
mod redis_clock;
pub(crate) mod section;
mod shared_budget;
mod shared_fee_history;

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

pub use poll_coordinator::{Action, PollCoordinator, PollGrant, PollOutcome};
pub use shared_budget::SharedBudget;
pub use shared_fee_history::{AdoptOutcome, SharedFeeHistory};

use crate::config::{self, UpstreamUrl};
use crate::nodes::ChainUpstreams;
use crate::observe::metrics::Metrics;
use chain_state::SharedChainState;
use connection::{Connector, RedisHandle};

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
        let (mut connector, redis) = Connector::new(url, metrics)?;
        let replica_id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let coordinators = chains.iter().zip(upstreams).map(|(chain, upstreams)| {
            let (redis, replica_id) = (redis.clone(), replica_id.clone());
            let chain_state = SharedChainState::new(chain, redis, url.database(), replica_id);
            let inbox = connector.open_inbox(chain_state.channel.clone());
            PollCoordinator::new(chain, chain_state, Arc::clone(upstreams), inbox, metrics)
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
