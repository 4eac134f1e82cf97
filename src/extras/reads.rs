//! Reads of chain state for clients: allow-list, cache, coalescing and limits.
//!
//! `extras::rpc` handles the JSON-RPC envelope: ids, batches and notifications. This module validates the parameters of
//! known methods. From them it derives the chain state that a result depends on, which decides how long it is cached.
//! A method that it does not know, but the operator allows, is forwarded each time.
//!
//! Identical reads at the same time share one upstream call: the first caller makes it, the others wait at the cache
//! entry. The cache key of a result that can change contains the newest known block. So a new block makes the older
//! result unreachable at once.
//!
//! Everything is bounded: concurrent calls per chain, bytes of requests and responses, bytes in the cache. Reads use
//! the nodes of the poller, but a failed read changes nothing for polls, because a client can make reads fail.

pub(crate) mod abi;
mod attempt_error;
mod cache;
mod chain_keys;
mod chain_reads;
pub(crate) mod json;
mod method;
mod node_budget;
mod node_health;
mod params;
mod read_node;
mod read_nodes;
mod reply;
mod state_scope;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::family::Family;

pub(crate) use crate::nodes::ReadError;
pub(crate) use chain_keys::ReadKeys;
pub(crate) use chain_reads::ChainReads;
pub(crate) use node_budget::CallOrigin;
pub(crate) use params::InvalidParams;
pub(crate) use read_nodes::{Call, ReadNodes};
pub(crate) use reply::NodeResponse;

use crate::assembly::Assembly;
use crate::http::client_limits::ClientHandle;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::{ChainOutcomeLabels, Counter, Metrics, metric_set};
use crate::store;

/// Reads of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reads {
    all: Arc<AllChains>,
}

#[derive(Debug)]
struct AllChains {
    limits: ReadLimits,
    memory: MemoryBudget,
    store: store::ChainStore,
    /// In the order of `store`.
    chains: Vec<ChainReads>,
}

metric_set! {
    /// Metrics of reads.
    pub(crate) ReadMetrics {
        /// Reads of chain state for clients by outcome
        reads_total: Family<ChainOutcomeLabels, Counter>,
    }
}

/// Limits of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadLimits {
    /// Time from a call's arrival to its response, over all nodes tried.
    pub timeout: Duration,
    /// Concurrent calls to a chain's nodes. Further ones are refused at once. See also
    /// [`max_in_flight_per_client`](Self::max_in_flight_per_client).
    pub max_in_flight: NonZeroUsize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        let max_in_flight = NonZeroUsize::new(256).expect("256 is not 0");
        Self { timeout: Duration::from_secs(10), max_in_flight }
    }
}

impl ReadLimits {
    /// Concurrent calls of one client to the nodes of all chains: a quarter of the calls to one chain's nodes.
    #[must_use]
    pub(crate) fn max_in_flight_per_client(self) -> usize {
        (self.max_in_flight.get() / 4).max(1)
    }
}

/// Client that a call is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    /// Its calls in flight are limited.
    pub(crate) client: &'a ClientHandle,
    /// When it needs the response.
    pub(crate) deadline: Instant,
    /// True if the client chose the call: the chain's `rpc_methods` must allow it, and a cached response will do. False if
    /// the service needs it to answer the client, which may know a newer block than the polls.
    pub(crate) is_clients_call: bool,
}

/// Reason why a call has no response of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadRejection {
    /// The method is not on the chain's allow-list.
    // One client library falls back only if the message contains the words "the method … does not exist".
    #[error("the method requested does not exist or is not allowed")]
    NotAllowed,
    /// The parameters are invalid.
    #[error(transparent)]
    InvalidParams(#[from] InvalidParams),
    /// The chain has the maximum number of concurrent calls.
    #[error("too many concurrent calls; retry later")]
    Overloaded,
    /// The client has the maximum number of concurrent calls.
    #[error("too many concurrent calls of this client; retry later")]
    TooManyPerClient,
    /// The service answers this method from the suggestion, there is no current one, and the nodes do not have the
    /// method.
    #[error("there is no current gas suggestion for this chain")]
    NoSuggestion,
    /// No node answered.
    #[error(transparent)]
    Failed(#[from] ReadError),
}

impl ReadRejection {
    /// Returns true if another client may make the same call.
    fn is_of_client(&self) -> bool {
        match self {
            Self::TooManyPerClient => true,
            Self::Failed(ReadError::BudgetExhausted(exhausted)) => exhausted.is_share,
            _ => false,
        }
    }
}

impl Reads {
    /// Creates the reads of a service, and offers them to the features that join later.
    pub(crate) fn offer(assembly: &mut Assembly, limits: ReadLimits) -> Self {
        let nodes = ReadNodes::shared(assembly);
        let Assembly { config, store, memory, metrics, .. } = &*assembly;
        let reads = Self::new(limits, &config.section(), store, &nodes, memory, metrics);
        assembly.offers.insert(reads.clone());
        reads
    }

    /// Creates the reads of the chains of `store` through their `nodes`, which are in the same order. Bodies and
    /// cached responses are charged to `memory`.
    #[must_use]
    pub(crate) fn new(
        limits: ReadLimits,
        keys: &ReadKeys,
        store: &store::ChainStore,
        nodes: &[Arc<ReadNodes>],
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) -> Self {
        let cache = cache::new_cache(memory);
        let cache_stats = cache.clone();
        metrics.register_cache("reads", move || {
            [cache_stats.entry_count(), cache_stats.weighted_size()]
        });
        let own = metrics.set::<ReadMetrics>();
        let chains = store.chains().iter().zip(nodes);
        let chains = chains.map(|(chain, nodes)| {
            ChainReads::new(chain, keys.chain(chain.config()), nodes, limits, &cache, &own)
        });
        let chains = chains.collect();
        let store = store.clone();
        Self { all: Arc::new(AllChains { limits, memory: memory.clone(), store, chains }) }
    }

    /// Returns the budget of the bytes that requests and responses hold.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        &self.all.memory
    }

    /// Returns the deadline of a call that arrives now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.all.limits.timeout
    }

    /// Returns all chains, in ascending order of chain id.
    pub(crate) fn chains(&self) -> &[ChainReads] {
        &self.all.chains
    }

    /// Returns the reads of the chain with this key or decimal chain id.
    pub(crate) fn chain(&self, key_or_id: &str) -> Option<&ChainReads> {
        self.all.chains.get(self.all.store.index_of(key_or_id)?)
    }
}

#[cfg(test)]
mod tests;
