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
use crate::nodes::{NewHeadsSubscription, ServiceReads};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::poll::{AskReadings, PollTiming, Poller, facts, freshness_log, gauges, leaps};

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
type Tasks = JoinSet<anyhow::Result<()>>;

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
        let health = ReadinessState::new(assembly.store.clone(), draining);
        gauges::register(&assembly.store, &assembly.upstreams, &assembly.metrics);
        let tasks = start_tasks(&mut assembly).await?;
        let Assembly {
            config,
            store,
            memory,
            memory_shares,
            metrics,
            routes,
            streams,
            endings,
            ..
        } = assembly;
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
        match self.tasks.join_next().await {
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

/// Starts to poll all chains, after what the features do before the first poll.
async fn start_tasks(assembly: &mut Assembly) -> anyhow::Result<Tasks> {
    let mut tasks = Tasks::new();
    for preparation in std::mem::take(&mut assembly.preparations) {
        for task in preparation.await {
            tasks.spawn(task);
        }
    }
    for task in std::mem::take(&mut assembly.tasks) {
        tasks.spawn(task);
    }
    let mut shared_polls = assembly.shared_polls.take().into_iter().flatten();
    let reads = ReadNodes::shared(assembly);
    let publishers = std::mem::take(&mut assembly.publishers);
    let Assembly { config, store, upstreams, metrics, .. } = assembly;
    let nodes = upstreams.iter().zip(reads);
    for (publisher, (upstreams, reads)) in publishers.into_iter().zip(nodes) {
        let timing = if let Some(polls) = shared_polls.next() {
            PollTiming::Shared(polls)
        } else {
            let chain = publisher.chain().config();
            let listener = NewHeadsSubscription::new(chain, &config.upstream, metrics);
            let listener = listener.context("cannot set up the HTTP client")?;
            PollTiming::Schedule(listener.map(|(listener, announced)| {
                spawn_endless(&mut tasks, listener.run());
                announced
            }))
        };
        let reads: Arc<dyn ServiceReads> = reads;
        let (asks, ask_reader) =
            AskReadings::new(&publisher, upstreams, Arc::clone(&reads), metrics);
        spawn_endless(&mut tasks, ask_reader.run());
        spawn_endless(&mut tasks, facts::read(publisher.clone(), reads));
        let poller = Poller::new(Arc::clone(upstreams), publisher, asks, metrics.clone());
        spawn_endless(&mut tasks, poller.run(timing));
    }
    spawn_endless(&mut tasks, leaps::watch(store.clone(), upstreams.clone()));
    for chain in store.chains() {
        spawn_endless(&mut tasks, freshness_log::watch(chain.clone()));
    }
    Ok(tasks)
}

fn spawn_endless(tasks: &mut Tasks, task: impl Future<Output = Infallible> + Send + 'static) {
    tasks.spawn(task.map(|never| match never {}));
}

/// Returns the error of a task that ended although it should run for ever.
pub(super) fn task_error(ended: Result<anyhow::Result<()>, JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a task ended unexpectedly"),
        Ok(Err(error)) => error.context("a task failed"),
        Err(error) => anyhow::Error::new(error).context("a task panicked"),
    }
}
