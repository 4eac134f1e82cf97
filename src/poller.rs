//! One chain: tick, fetch, price, publish.
//!
//! A poll that fails leaves the last good value where it is; its age tells. The loop never ends by
//! itself and knows nothing of shutdown: dropping its future is how it stops, at any point.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::book::Publisher;
use crate::config;
use crate::fees::{self, FeeHistory, Market, Rejection};
use crate::rpc::{self, Client, FeeHistoryRequest, Upstream};

/// Polls one chain.
#[derive(Debug)]
pub struct Poller {
    chain: config::Chain,
    request: FeeHistoryRequest,
    upstreams: Vec<Source>,
    publisher: Publisher,
}

/// An upstream, its place in the order, and what the log was last told of it.
///
/// The log hears of changes, not of every poll, and knows the upstream by its place in the
/// configuration: its URL may carry a key.
#[derive(Debug)]
struct Source {
    index: usize,
    upstream: Upstream,
    /// Until when the others come first.
    resting: Option<Instant>,
    /// `Ok`, or the reason of the failure; `None`: nothing yet.
    told: Option<Result<(), &'static str>>,
}

/// Why an upstream gave nothing to publish.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Rpc(#[from] rpc::Error),
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

impl Failure {
    fn reason(&self) -> &'static str {
        match self {
            Self::Rpc(error) => error.reason(),
            Self::Rejected(rejection) => rejection.reason(),
        }
    }
}

impl Poller {
    /// A poller of the chain that `publisher` writes.
    #[must_use]
    pub fn new(client: &Client, publisher: Publisher) -> Self {
        let chain = publisher.chain().config().clone();
        let source = |(index, url): (usize, &config::RpcUrl)| Source {
            index,
            upstream: Upstream::new(client.clone(), url.clone(), chain.chain_id),
            resting: None,
            told: None,
        };
        let upstreams = chain.rpc_urls.iter().enumerate().map(source).collect();
        let request = FeeHistoryRequest::new(&chain.pricing);
        Self { chain, request, upstreams, publisher }
    }

    /// Polls now and then once per block time, for ever.
    pub async fn run(mut self) -> Infallible {
        let mut ticker = tokio::time::interval(self.chain.block_time);
        // A poll that took longer than a block is followed by a pause, not by a burst.
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticker.tick().await;
            self.poll().await;
        }
    }

    /// Asks the upstreams one after the other until one gives something to publish: in their
    /// order, but those that let us wait lately come last, so that the next poll does not wait for
    /// them again.
    async fn poll(&mut self) {
        let deadline = attempt_deadline(self.chain.block_time);
        let mut order: Vec<_> = self.upstreams.iter_mut().collect();
        order.sort_by_key(|source| source.is_resting());
        for source in order {
            match ask(&source.upstream, &self.request, &self.chain, deadline).await {
                Ok((history, market)) => {
                    source.tell_success(&self.chain.key);
                    self.publisher.publish(&history, market);
                    break;
                }
                Err(failure) => source.tell_failure(&self.chain.key, failure),
            }
        }
    }
}

async fn ask(
    upstream: &Upstream,
    request: &FeeHistoryRequest,
    chain: &config::Chain,
    deadline: Duration,
) -> Result<(FeeHistory, Market), Failure> {
    let history = upstream.fee_history(request, deadline).await?;
    let market = fees::price(&history, &chain.pricing)?;
    Ok((history, market))
}

/// Half a block time leaves the rest of the tick to the next upstream; no node needs more than
/// 2 s, and none can be expected to answer in less than half a second across the world.
fn attempt_deadline(block_time: Duration) -> Duration {
    (block_time / 2).clamp(Duration::from_millis(500), Duration::from_secs(2))
}

impl Source {
    /// How long an upstream that did not answer in time comes last.
    const REST: Duration = Duration::from_secs(30);

    fn is_resting(&self) -> bool {
        self.resting.is_some_and(|until| Instant::now() < until)
    }

    fn tell_success(&mut self, chain: &str) {
        self.resting = None;
        if self.told.replace(Ok(())) != Some(Ok(())) {
            tracing::info!(chain, rpc_url = self.index, "upstream answers");
        }
    }

    fn tell_failure(&mut self, chain: &str, failure: Failure) {
        if matches!(failure, Failure::Rpc(rpc::Error::Timeout)) {
            self.resting = Some(Instant::now() + Self::REST);
        }
        let reason = failure.reason();
        if self.told.replace(Err(reason)) != Some(Err(reason)) {
            let error = format!("{:#}", anyhow::Error::new(failure));
            tracing::warn!(chain, rpc_url = self.index, reason, error, "upstream failed");
        }
    }
}
