//! The service without listeners: its polls, its other tasks, and its routes.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use sync_wrapper::SyncWrapper;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::{self, App, ReadinessState};
use crate::assembly::{Assembly, Ending, Network};
use crate::config::Config;
use crate::extras::EXTRAS;
use crate::extras::reads::ReadNodes;
use crate::http::memory_limit::MemoryShares;
use crate::nodes::{ChainUpstreams, NewHeadsSubscription, ServiceReads};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::poll::{AskReadings, PollTiming, Poller, facts, freshness_log, gauges, leaps};
use crate::store::Publisher;

/// The service while it runs. Dropping it stops everything at once.
#[derive(Debug)]
pub struct Service {
    pub(super) app: App,
    pub(super) health: ReadinessState,
    pub(super) memory: MemoryBudget,
    pub(super) memory_shares: MemoryShares,
    pub(super) metrics: Metrics,
    tasks: Tasks,
    /// They run after the last request.
    endings: Vec<SyncWrapper<Ending>>,
}

/// The tasks beside the listeners.
#[derive(Debug, Default)]
struct Tasks(JoinSet<anyhow::Result<()>>);

impl Service {
    /// Starts to poll all chains on this network. `/readyz` returns 503 once `draining` is cancelled.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend or the client of another service cannot be set up.
    pub async fn start(
        config: Config,
        network: Network,
        draining: CancellationToken,
    ) -> anyhow::Result<Self> {
        let mut assembly = Assembly::new(config, EXTRAS, network, draining.clone())?;
        let config = assembly.config.clone();
        let health = ReadinessState::new(assembly.store.clone(), draining);
        gauges::register(&assembly.store, &assembly.upstreams, &assembly.metrics);
        let mut tasks = Tasks::default();
        tasks.start_polls(&config, &mut assembly).await?;
        let Assembly { store, memory, memory_shares, metrics, routes, streams, endings, .. } =
            assembly;
        let app = api::public(&config, &store, routes, health.clone(), streams, &memory, &metrics);
        let endings = endings.into_iter().map(SyncWrapper::new).collect();
        Ok(Self { app, health, memory, memory_shares, metrics, tasks, endings })
    }

    /// The routes of the public listener.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Waits until a task ends by itself, which is a crash, and returns why.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.tasks.0.join_next().await {
            Some(ended) => task_error(ended),
            None => anyhow!("there are no tasks"),
        }
    }

    /// Runs what has to run at the end, beside the polls: the history database is written. Then stops the polls.
    pub async fn stop(self) {
        for ending in self.endings {
            ending.into_inner().await;
        }
    }
}

impl Tasks {
    /// Starts to poll all chains, after what the features do before the first poll.
    async fn start_polls(
        &mut self,
        config: &Config,
        assembly: &mut Assembly,
    ) -> anyhow::Result<()> {
        for preparation in std::mem::take(&mut assembly.preparations) {
            for task in preparation.await {
                self.0.spawn(task);
            }
        }
        for task in std::mem::take(&mut assembly.tasks) {
            self.0.spawn(task);
        }
        let timings = match assembly.shared_polls.take() {
            Some(polls) => polls.into_iter().map(PollTiming::Shared).collect(),
            None => self
                .start_new_heads(config, &assembly.metrics)
                .context("cannot set up the HTTP client")?,
        };
        let publishers = std::mem::take(&mut assembly.publishers).into_iter();
        let reads = ReadNodes::shared(assembly);
        let nodes = assembly.upstreams.iter().map(Arc::clone).zip(reads);
        for ((publisher, (upstreams, reads)), timing) in publishers.zip(nodes).zip(timings) {
            self.start_chain(publisher, upstreams, reads, timing, &assembly.metrics);
        }
        self.spawn(leaps::watch(assembly.store.clone(), assembly.upstreams.clone()));
        for chain in assembly.store.chains() {
            self.spawn(freshness_log::watch(chain.clone()));
        }
        Ok(())
    }

    /// Spawns a task that never ends.
    fn spawn(&mut self, task: impl Future<Output = Infallible> + Send + 'static) {
        self.0.spawn(task.map(|never| match never {}));
    }

    /// Starts a subscription to block announcements for each chain with `ws_urls`. Returns the poll timing of every
    /// chain, in the order of the configuration.
    fn start_new_heads(
        &mut self,
        config: &Config,
        metrics: &Metrics,
    ) -> Result<Vec<PollTiming>, reqwest::Error> {
        let mut timings = Vec::new();
        for chain in &config.chains {
            let announced = NewHeadsSubscription::new(chain, &config.upstream, metrics)?.map(
                |(listener, announced)| {
                    self.spawn(listener.run());
                    announced
                },
            );
            timings.push(PollTiming::Schedule(announced));
        }
        Ok(timings)
    }

    /// Starts to poll a chain, and to read what else is needed of its blocks.
    fn start_chain(
        &mut self,
        publisher: Publisher,
        upstreams: Arc<ChainUpstreams>,
        reads: Arc<dyn ServiceReads>,
        timing: PollTiming,
        metrics: &Metrics,
    ) {
        let facts_reads = Arc::clone(&reads);
        let (asks, ask_reader) = AskReadings::new(&publisher, &upstreams, reads, metrics);
        self.spawn(ask_reader.run());
        self.spawn(facts::read(publisher.clone(), facts_reads));
        let poller = Poller::new(upstreams, publisher, asks, metrics.clone());
        self.spawn(poller.run(timing));
    }
}

/// Returns the error of a task that ended although it should run for ever.
pub(super) fn task_error(ended: Result<anyhow::Result<()>, JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a task ended unexpectedly"),
        Ok(Err(error)) => error.context("a task failed"),
        Err(error) => anyhow::Error::new(error).context("a task panicked"),
    }
}
