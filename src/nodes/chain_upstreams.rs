//! The nodes of one chain, and the order in which they are called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::circuit_breaker::Availability;
use super::fee_history::FeeHistoryRequest;
use super::poll_deadline::PollDeadline;
use super::{JsonRpcClient, NodeEndpoint, UpstreamNode};
use crate::config::{self, NodeUrl};
use crate::observe::redaction::Redactor;

/// All upstreams of one chain, in order of preference: those of `rpc_urls`, then those that are only in `read_urls`.
#[derive(Debug)]
pub struct ChainUpstreams {
    /// The chain's key.
    chain: String,
    polled: Vec<UpstreamNode>,
    /// Upstreams that are never polled.
    read_only: Vec<UpstreamNode>,
    poll_deadline: Mutex<PollDeadline>,
    redactor: Arc<Redactor>,
}

impl ChainUpstreams {
    /// Maximum time until the next poll after all upstreams failed, also on a chain with a longer block time.
    pub const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

    /// Creates the upstreams of each chain. No call is made yet.
    #[must_use]
    pub fn for_chains(client: &JsonRpcClient, chains: &[config::Chain]) -> Vec<Arc<Self>> {
        let new_upstreams = |chain| Arc::new(Self::new(client, chain));
        chains.iter().map(new_upstreams).collect()
    }

    fn new(client: &JsonRpcClient, chain: &config::Chain) -> Self {
        let poll_deadline = PollDeadline::new(chain.block_time, chain.poll_timeout());
        let upstream = |(index, url): (usize, &NodeUrl)| {
            let deadline = poll_deadline.current();
            let node = NodeEndpoint::new(url.clone(), chain.chain_id, index, deadline);
            UpstreamNode::new(client.clone(), node, chain)
        };
        let urls = chain.upstream_urls();
        let mut all: Vec<_> = urls.iter().copied().enumerate().map(upstream).collect();
        let read_only = all.split_off(chain.rpc_urls.len());
        Self {
            chain: chain.key.clone(),
            polled: all,
            read_only,
            poll_deadline: Mutex::new(poll_deadline),
            redactor: Arc::clone(&client.redactor),
        }
    }

    /// Upstreams of `rpc_urls`, in order of preference.
    pub(crate) fn polled(&self) -> &[UpstreamNode] {
        &self.polled
    }

    /// Returns the parameters of a read of a fee history as JSON, in the form that the first upstream accepts.
    pub(crate) fn fee_history_params(&self, request: &FeeHistoryRequest) -> String {
        let first = self.polled.first();
        request.params(first.is_some_and(|node| node.state().has_integer_count)).to_string()
    }

    /// Upstreams of `rpc_urls`, then those of `read_urls` alone.
    pub(crate) fn all(&self) -> impl Iterator<Item = &UpstreamNode> {
        self.polled.iter().chain(&self.read_only)
    }

    /// Returns the upstream with this index in `rpc_urls`, continued in `read_urls`.
    pub(crate) fn get(&self, index: usize) -> Option<&UpstreamNode> {
        self.all().nth(index)
    }

    /// Forgets why polls would leave out upstreams for now, unless they limit the rate.
    pub(crate) fn forget_failures(&self) {
        self.polled.iter().for_each(UpstreamNode::forget_failures);
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Deadline of one attempt at one upstream, at present.
    #[must_use]
    pub fn attempt_deadline(&self) -> Duration {
        self.poll_deadline.lock().current()
    }

    /// Records a poll without a good reply in which an upstream timed out. The next one waits longer.
    pub(crate) fn record_timeouts(&self) {
        let mut deadline = self.poll_deadline.lock();
        if deadline.record_timeouts() {
            let deadline = deadline.current();
            tracing::warn!(
                chain = self.chain,
                ?deadline,
                "no upstream responded in time; deadline extended"
            );
        }
    }

    /// Records the time that the first good reply of a poll took.
    pub(crate) fn record_reply_time(&self, took: Duration) {
        self.poll_deadline.lock().record_reply(took);
    }

    /// Returns true if the polled upstream with this index has an old head, and another one a newer block that is not
    /// old.
    pub(crate) fn is_behind(&self, index: usize) -> bool {
        let Some(upstream) = self.polled.get(index).filter(|upstream| upstream.has_old_head())
        else {
            return false;
        };
        self.has_newer_block(upstream.head().header().map(|header| header.number), index)
    }

    /// Returns true if a polled upstream besides the one with this index has a block that is not old, and newer than
    /// `number`; `None`: any block is newer.
    pub(crate) fn has_newer_block(&self, number: Option<u64>, except: usize) -> bool {
        self.polled.iter().enumerate().any(|(index, other)| {
            let header = other.head().header().filter(|_| index != except && !other.has_old_head());
            header.is_some_and(|header| number.is_none_or(|number| header.number > number))
        })
    }

    /// Asks for the newest headers that are due: of the upstream with the index `in_use`, and of those whose head is old. The
    /// others are read when they are polled.
    pub(crate) fn request_due_headers(&self, in_use: Option<usize>) {
        for (index, upstream) in self.polled.iter().enumerate() {
            if Some(index) == in_use || upstream.has_old_head() {
                upstream.request_due_header(self.attempt_deadline());
            }
        }
    }

    /// Upstreams to poll at `now`: healthy ones first, then degraded ones, each in order of preference. One that is
    /// behind comes last as long as another has a newer block.
    #[must_use]
    pub fn poll_candidates(&self, now: Instant) -> Vec<Candidate<'_>> {
        let upstreams = self.polled.iter().enumerate().map(|(index, upstream)| {
            (self.is_behind(index), upstream.availability(now), index, upstream)
        });
        let mut available: Vec<_> = upstreams
            .filter(|(_, availability, ..)| *availability != Availability::Excluded)
            .collect();
        available.sort_by_key(|(is_behind, availability, ..)| (*is_behind, *availability));
        let candidate = |(_, availability, index, upstream)| Candidate {
            index,
            upstream,
            is_healthy: availability == Availability::Healthy,
        };
        available.into_iter().map(candidate).collect()
    }
}

/// An upstream that may be polled.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Index in `rpc_urls`.
    pub index: usize,
    /// The upstream.
    pub upstream: &'a UpstreamNode,
    /// True if it has not failed lately.
    pub is_healthy: bool,
}
