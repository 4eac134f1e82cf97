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
mod metrics;
mod poll_coordinator;
mod redis_clock;
mod section;
mod shared_fee_history;
mod shared_states;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use anyhow::Context;

use crate::assembly::{Assembly, Extra, SharedStates};
use crate::poll::SharedPolls;
use chain_state::SharedChainState;
use connection::Connector;
use metrics::ReplicaMetrics;
use poll_coordinator::PollCoordinator;
use section::Redis;
use shared_states::States;

pub(crate) const EXTRA: Extra =
    Extra { name: "replicas", sections: &[Redis::SECTION], command: None, join };

/// Shares the polls of all chains, and offers states that replicas share, if `redis.url` is set.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    assembly.metrics.set::<ReplicaMetrics>();
    let Redis { url: Some(url) } = assembly.config.section() else { return Ok(()) };
    if assembly.config.has_recorded_chains {
        // Other replicas would take recorded data for live data.
        return Ok(());
    }
    let (mut connector, redis) =
        Connector::new(&url, assembly.offers.get().cloned(), &assembly.metrics)
            .context("cannot set up the Redis client")?;
    let replica_id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let chains = assembly.store.chains().iter().zip(&assembly.upstreams);
    let coordinators = chains.map(|(stored, upstreams)| {
        let chain = stored.config();
        let (redis, replica_id) = (redis.clone(), replica_id.clone());
        let chain_state = SharedChainState::new(chain, redis, url.database(), replica_id);
        let inbox = connector.open_inbox(chain_state.channel.clone());
        let upstreams = Arc::clone(upstreams);
        let coordinator =
            PollCoordinator::new(stored, chain_state, upstreams, inbox, &assembly.metrics);
        let coordinator: Box<dyn SharedPolls> = Box::new(coordinator);
        coordinator
    });
    let coordinators = coordinators.collect();
    assembly.shared_polls = Some(coordinators);
    assembly.offers.insert::<Arc<dyn SharedStates>>(Arc::new(States::new(redis)));
    assembly.add_task(async { match connector.run().await {} });
    Ok(())
}
