//! The service while it is put together: what a feature beside the heart can add to it.
//!
//! A feature is an [`Extra`]. Its `join` is called once per start, before anything runs, in the order of
//! `extras::EXTRAS`. It reads its section of the configuration, observes what is published, adds routes and tasks, and
//! may hand in what other extras read. It neither connects nor reads files: that is for tasks, and for what runs before
//! the polls.

mod command;
mod network;
mod offers;
mod price_limit;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use axum::http::Extensions;
use tokio_util::sync::CancellationToken;

pub(crate) use command::{CommandContext, CommandError, ExtraCommand, ListenerArgs, UrlArgument};
pub use network::{ByteStream, Dial, Network};
pub(crate) use offers::NextBlockFees;
pub use offers::{SharedState, SharedStates};
pub(crate) use price_limit::{DayPrices, PriceLimit};

use crate::api::routes::Routes;
use crate::api::stream::SuggestionStreams;
use crate::config::{Config, SectionKind};
use crate::http::memory_limit::MemoryShares;
use crate::nodes::{ChainUpstreams, JsonRpcClient};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::poll::SharedPolls;
use crate::store::{ChainStore, PublishObserver, Publisher, StoredChain};

/// A task that runs beside the service. It never ends by itself, unless with an error.
pub type Task = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// A future that runs before the first poll. It returns tasks that run beside the service.
type Preparation = Pin<Box<dyn Future<Output = Vec<Task>> + Send>>;

/// A future that runs after the last request.
pub(crate) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A feature beside the heart.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Name of its folder.
    pub name: &'static str,
    /// Its sections of the configuration.
    pub(crate) sections: &'static [SectionKind],
    /// Its command, if it has one.
    pub(crate) command: Option<ExtraCommand>,
    /// Adds the feature to a service. Fails if the client of another service cannot be set up.
    pub(crate) join: fn(&mut Assembly) -> anyhow::Result<()>,
}

/// The service while it is put together.
pub(crate) struct Assembly {
    pub(crate) config: Config,
    pub(crate) store: ChainStore,
    /// Nodes of each chain, in the order of the chains.
    pub(crate) upstreams: Vec<Arc<ChainUpstreams>>,
    /// Memory that clients may hold.
    pub(crate) memory: MemoryBudget,
    pub(crate) metrics: Metrics,
    pub(crate) routes: Routes,
    /// Limits of event streams and of requests that wait.
    pub(crate) streams: SuggestionStreams,
    /// Prices of the last day, from the extra that knows them.
    pub(crate) day_prices: Option<Arc<dyn DayPrices>>,
    pub(crate) memory_shares: MemoryShares,
    pub(crate) publishers: Vec<Publisher>,
    /// Polls of all chains, in their order, if other processes share them.
    pub(crate) shared_polls: Option<Vec<Box<dyn SharedPolls>>>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) preparations: Vec<Preparation>,
    pub(crate) endings: Vec<Ending>,
    /// Values that extras hand to those after them, one of each type. A field that one extra alone reads would be unused
    /// without that extra.
    pub(crate) offers: Extensions,
}

impl Assembly {
    /// Puts the parts of the heart together, and lets the extras join. Streams end once `shutdown` is cancelled.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend or the client of another service cannot be set up.
    pub(crate) fn new(
        config: Config,
        extras: &[Extra],
        network: Network,
        shutdown: CancellationToken,
    ) -> anyhow::Result<Self> {
        let client = match &network.nodes {
            None => JsonRpcClient::new(&config).context("cannot set up the HTTP client")?,
            Some(transport) => JsonRpcClient::simulated(&config, transport),
        };
        let (store, publishers) = ChainStore::new(&config.chains);
        let metrics = Metrics::new();
        let history_blocks = config.chains.iter().map(|chain| chain.history_blocks.get());
        let block_bytes = history_blocks
            .fold(0, usize::saturating_add)
            .saturating_mul(crate::store::RecentBlocks::BYTES_PER_BLOCK);
        let kept_bytes = block_bytes.saturating_add(config.needs().bytes);
        let limit = config.limits.memory.bytes();
        let memory_shares = MemoryShares::new(limit, config.chains.len(), kept_bytes);
        let upstreams = ChainUpstreams::for_chains(&client, &config.chains);
        let memory = MemoryBudget::new(memory_shares.budget);
        let streams = SuggestionStreams::new(&config.limits, &memory, shutdown, &metrics);
        let mut assembly = Self {
            store,
            upstreams,
            memory,
            metrics,
            routes: Routes::default(),
            streams,
            day_prices: None,
            memory_shares,
            publishers,
            shared_polls: None,
            tasks: Vec::new(),
            preparations: Vec::new(),
            endings: Vec::new(),
            offers: Extensions::new(),
            config,
        };
        if let Some(services) = network.services {
            assembly.offers.insert(services);
        }
        for extra in extras {
            (extra.join)(&mut assembly)?;
        }
        Ok(assembly)
    }

    /// Adds an observer to each chain.
    pub(crate) fn observe<O: PublishObserver + 'static>(
        &mut self,
        observer: impl Fn(&StoredChain) -> O,
    ) {
        for publisher in &mut self.publishers {
            let chain_observer = observer(publisher.chain());
            publisher.observe(chain_observer);
        }
    }

    /// Adds a task that runs beside the service.
    pub(crate) fn add_task(
        &mut self,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.tasks.push(Box::pin(task));
    }
}
