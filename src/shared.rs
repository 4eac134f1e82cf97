//! What replicas share through Redis: whose turn it is to poll, what was polled, and who has to be let be.
//!
//! Without a Redis in the configuration there is none of this, and whatever becomes of Redis, a replica that
//! cannot share goes on alone. No request of a client waits for it.

mod board;
mod clock;
mod counts;
mod keys;
mod link;
mod news;
mod pool;
mod publication;
mod turns;

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

pub use pool::{Holds, NotTaken, Pool, Taken};
pub use publication::{Adoption, Publication};
pub use turns::{Outcome, Permit, Published, Turn, Turns};

use crate::config::{self, UpstreamUrl};
use crate::metrics::Metrics;
use crate::rpc::Upstreams;
use board::Board;
use clock::Slots;
use keys::Keys;
use link::{Connector, Link};

/// All that is shared, not connected yet.
#[derive(Debug)]
pub struct Shared {
    connector: Connector,
    link: Link,
    /// A name that no other replica has.
    replica: String,
    /// Of each chain, in their order.
    turns: Vec<Turns>,
}

impl Shared {
    /// What `config` says about `chains` and their `upstreams`, both in the same order; `None`: nothing is
    /// shared.
    ///
    /// # Errors
    ///
    /// When the client cannot be set up.
    pub fn new(
        config: &config::Redis,
        chains: &[config::Chain],
        upstreams: &[Arc<Upstreams>],
        metrics: &Metrics,
    ) -> anyhow::Result<Option<Self>> {
        let Some(url) = &config.url else { return Ok(None) };
        let mut ears: HashMap<String, link::Ear> = HashMap::new();
        let mut parts = Vec::new();
        for (chain, upstreams) in chains.iter().zip(upstreams) {
            let keys = Keys::new(chain, upstreams, url.database());
            let (ear, heard) = news::of_chain(upstreams);
            ears.insert(keys.channel.clone(), ear);
            parts.push((chain, upstreams, keys, heard));
        }
        let (connector, link) = Connector::new(url, ears, metrics)?;
        let replica = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let turns = parts.into_iter().map(|(chain, upstreams, keys, heard)| {
            let slots = Slots::new(chain.chain_id, chain.block_time);
            let upstreams = Arc::clone(upstreams);
            let board = Board::new(link.clone(), keys, slots, upstreams, replica.clone());
            Turns::new(chain, board, heard, metrics)
        });
        let turns = turns.collect();
        Ok(Some(Self { connector, link, replica, turns }))
    }

    /// The places for requests to the API at this URL, which Redis does not learn.
    #[must_use]
    pub fn pool(&self, api: &UpstreamUrl) -> Pool {
        Pool::new(self.link.clone(), self.replica.clone(), api)
    }

    /// The turns of each chain, and what keeps the connection they take; that never ends by itself.
    pub fn open(self) -> (Vec<Turns>, impl Future<Output = Infallible> + Send + 'static) {
        (self.turns, self.connector.run())
    }
}
