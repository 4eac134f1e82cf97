//! What replicas share through Redis: whose turn it is to poll, what was polled, and who has to be let be.
//!
//! Without a Redis in the configuration there is none of this, and whatever becomes of Redis, a replica that
//! cannot share goes on alone. No request of a client waits for it.

mod clock;
mod keys;
mod link;
mod news;
mod publication;
mod turns;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

pub use publication::Publication;
pub use turns::{Permit, Published, Taken, Turn, Turns};

use crate::config;
use crate::metrics::Metrics;
use crate::rpc::Upstreams;
use keys::Keys;
use link::Connector;

/// All that is shared, not connected yet.
#[derive(Debug)]
pub struct Shared {
    connector: Connector,
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
        let turns = parts.into_iter().map(|(chain, upstreams, keys, heard)| {
            Turns::new(link.clone(), chain, Arc::clone(upstreams), keys, heard, metrics)
        });
        let turns = turns.collect();
        Ok(Some(Self { connector, turns }))
    }

    /// The turns of each chain, and what keeps the connection they take; that never ends by itself.
    pub fn open(self) -> (Vec<Turns>, impl Future<Output = Infallible> + Send + 'static) {
        (self.turns, self.connector.run())
    }
}
