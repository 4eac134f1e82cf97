//! Reads for clients: one call, forwarded to the first node that can answer it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use prometheus_client::metrics::family::Family;
use serde_json::value::RawValue;

use super::attempt_error::AttemptError;
use super::node_budget::{CallOrigin, ReadBudget};
use super::node_health::ReadHealth;
use super::read_node::ReadNode;
use super::reply::NodeResponse;
use crate::assembly::Assembly;
use crate::config;
use crate::nodes::{ChainUpstreams, ReadError, Repeat, ServiceReads, UpstreamNode};
use crate::observe::clock;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::{AttemptLabels, Counter, Metrics};
use crate::observe::redaction::RedactError;

/// A call as the client sent it, without its id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The method's name.
    pub(crate) method: &'a str,
    /// A JSON array, or an object for methods that are not validated.
    pub(crate) params: &'a RawValue,
    /// True if the call may be repeated, at another node or over another connection, when its outcome is unknown.
    pub(crate) is_retryable: bool,
    pub(crate) origin: CallOrigin,
}

/// The nodes of one chain, for reads.
#[derive(Debug)]
pub(crate) struct ReadNodes {
    /// The chain's key.
    chain: String,
    pub(crate) upstreams: Arc<ChainUpstreams>,
    /// In the order of `upstreams`.
    nodes: Vec<ReadNode>,
    /// Indices of the nodes for reads, in order of preference.
    pub(crate) for_reads: Vec<usize>,
    /// Replies to reads of the service itself are charged to it.
    memory: MemoryBudget,
    counters: Family<AttemptLabels, Counter>,
}

impl ReadNodes {
    /// Returns the nodes of all chains, in their order. The first caller creates them.
    pub(crate) fn shared(assembly: &mut Assembly) -> Vec<Arc<Self>> {
        if let Some(nodes) = assembly.offers.get::<Vec<Arc<Self>>>() {
            return nodes.clone();
        }
        let Assembly { config, upstreams, memory, metrics, .. } = &*assembly;
        let chains = config.chains.iter().zip(upstreams);
        let nodes: Vec<_> = chains
            .map(|(chain, upstreams)| Arc::new(Self::new(chain, upstreams, memory, metrics)))
            .collect();
        assembly.offers.insert(nodes.clone());
        nodes
    }

    /// Creates the nodes of a chain. No call is made yet.
    pub(crate) fn new(
        chain: &config::Chain,
        upstreams: &Arc<ChainUpstreams>,
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) -> Self {
        let urls = chain.upstream_urls();
        let budget = |url: &config::NodeUrl| ReadBudget::new(chain.reads_per_minute_of(url.url()));
        let index_of = |url| urls.iter().position(|known| *known == url);
        Self {
            chain: chain.key.clone(),
            upstreams: Arc::clone(upstreams),
            nodes: urls.iter().map(|url| ReadNode::new(chain.block_time, budget(url))).collect(),
            for_reads: match chain.read_urls.as_slice() {
                [] => (0..urls.len()).collect(),
                read_urls => read_urls.iter().filter_map(index_of).collect(),
            },
            memory: memory.clone(),
            counters: metrics.upstream_reads_total.clone(),
        }
    }

    /// Nodes for reads with their indices, in order of preference.
    fn for_reads(&self) -> impl Iterator<Item = (usize, &UpstreamNode, &ReadNode)> {
        self.for_reads.iter().filter_map(|index| {
            Some((*index, self.upstreams.get(*index)?, self.nodes.get(*index)?))
        })
    }

    /// Counts a read at the node with this index: `ok`, or the reason of the failure.
    fn count_read(&self, upstream: usize, outcome: &'static str) {
        let labels = AttemptLabels { chain: self.chain.clone(), upstream, outcome };
        self.counters.get_or_create(&labels).increment();
    }

    /// Calls the upstreams in order until one responds. The next one is called when one fails, and also after a while
    /// without a response, while the slow call continues. The wait is `HEDGE_DELAY`, or an equal share of the time left
    /// if that is shorter. So the last node is called in time however many are silent, and a slow one can still answer.
    /// A call that is not retryable moves on only if the node did not process it.
    ///
    /// A node's own error about the call is a response. Its bytes are charged to the memory of clients. Dropping the future
    /// ends the call.
    ///
    /// # Errors
    ///
    /// Error of the last upstream that failed; a missing method only if all allowed upstreams lack it. It contains no
    /// text of a node.
    pub(crate) async fn read(
        &self,
        call: Call<'_>,
        deadline: Instant,
    ) -> Result<NodeResponse, ReadError> {
        Ok(self.read_except(&[], call, deadline).await?.1)
    }

    /// Like [`read`](Self::read), but never calls the upstreams with the `rejected` indices. Returns the index of the one
    /// that responded, and its response.
    pub(crate) async fn read_except(
        &self,
        rejected: &[usize],
        call: Call<'_>,
        deadline: Instant,
    ) -> Result<(usize, NodeResponse), ReadError> {
        let (candidates, mut last_error) = self.read_candidates(rejected, &call, clock::now());
        let mut candidates = candidates.into_iter();
        let time_share = deadline.saturating_duration_since(Instant::now())
            / u32::try_from(candidates.len()).unwrap_or(u32::MAX).max(1);
        let hedge_delay = time_share.min(ReadHealth::HEDGE_DELAY);
        let patience = Repeat::patience(deadline.saturating_duration_since(Instant::now()));
        let mut pending = InFlightAttempts { nodes: self, started: Vec::new() };
        let mut in_flight = FuturesUnordered::new();
        loop {
            if let Some((index, upstream, node)) = candidates.next() {
                pending.started.push((index, clock::now()));
                let call_future = node.read(upstream, call, patience, &self.memory);
                in_flight.push(async move { (index, call_future.await) });
            }
            let is_last = candidates.len() == 0 || !call.is_retryable;
            let wake_at =
                if is_last { deadline } else { deadline.min(Instant::now() + hedge_delay) };
            let (index, reply) =
                match tokio::time::timeout_at(wake_at.into(), in_flight.next()).await {
                    Ok(Some(answered)) => answered,
                    Ok(None) => return Err(last_error.unwrap_or(ReadError::Unavailable)),
                    Err(_) if Instant::now() >= deadline => {
                        pending.abandon_all("timeout");
                        return Err(ReadError::TimedOut);
                    }
                    Err(_) => continue,
                };
            pending.started.retain(|(pending_index, _)| *pending_index != index);
            let reason = reply.as_ref().map_or_else(AttemptError::reason, |_| "ok");
            self.count_read(index, reason);
            match reply {
                Ok(answer) => {
                    pending.abandon_all("superseded");
                    return Ok((index, self.redact_error(answer)?));
                }
                Err(error) => {
                    tracing::debug!(
                        chain = self.chain,
                        upstream = index,
                        reason,
                        %error,
                        "upstream read failed"
                    );
                    let failure = ReadError::from(&error);
                    if !error.allows_failover(call.is_retryable) {
                        return Err(failure);
                    }
                    // A missing method at this node says nothing about a node that failed otherwise.
                    let other = last_error.filter(|_| failure == ReadError::Unsupported);
                    last_error = other.or(Some(failure));
                }
            }
        }
    }

    fn redact_error(&self, response: NodeResponse) -> Result<NodeResponse, ReadError> {
        let NodeResponse::Error(error) = response else { return Ok(response) };
        let redacted = self.upstreams.redactor().redact_json(&error, &self.memory);
        redacted.map(NodeResponse::Error).map_err(|why| match why {
            RedactError::TooLarge => ReadError::TooLarge,
            RedactError::Unparsable => ReadError::Unavailable,
            RedactError::NoMemory(_) => ReadError::NoMemory,
        })
    }

    /// Nodes to try for `call`, best first: by availability, then by whether they lately lacked the method. Also
    /// returns why the others were skipped.
    fn read_candidates(
        &self,
        rejected: &[usize],
        call: &Call<'_>,
        now: Instant,
    ) -> (Vec<(usize, &UpstreamNode, &ReadNode)>, Option<ReadError>) {
        let mut skip_error = None;
        let mut order = Vec::new();
        for (index, upstream, node) in self.for_reads() {
            if rejected.contains(&index) {
                continue;
            }
            match node.try_admit(upstream, call.origin, now) {
                Ok(availability) => {
                    let lacks_method = node.lacks_method(call.method, now);
                    order.push((availability, lacks_method, (index, upstream, node)));
                }
                Err(why) => {
                    if matches!(why, ReadError::BudgetExhausted(_)) {
                        self.count_read(index, AttemptError::BUDGET_EXHAUSTED);
                    }
                    skip_error = Some(skip_error.map_or(why, |other| shorter(other, why)));
                }
            }
        }
        // A stable sort keeps the order of preference among equals.
        order.sort_by_key(|(availability, lacks, _)| (*availability, *lacks));
        (order.into_iter().map(|(_, _, upstream)| upstream).collect(), skip_error)
    }
}

/// Upstreams with a pending call, and when each was called.
struct InFlightAttempts<'a> {
    nodes: &'a ReadNodes,
    started: Vec<(usize, Instant)>,
}

impl InFlightAttempts<'_> {
    fn abandon_all(&mut self, reason: &'static str) {
        for (index, since) in self.started.drain(..) {
            self.nodes.count_read(index, reason);
            if let Some(node) = self.nodes.nodes.get(index) {
                node.record_timeout(since);
            }
        }
    }
}

impl Drop for InFlightAttempts<'_> {
    /// Records the pending calls as abandoned: the client may have disconnected because the node was silent.
    fn drop(&mut self) {
        self.abandon_all("cancelled");
    }
}

#[async_trait]
impl ServiceReads for ReadNodes {
    async fn read_for_service(
        &self,
        method: &str,
        params: String,
        timeout: Duration,
    ) -> Result<Option<Bytes>, ReadError> {
        let params = RawValue::from_string(params).map_err(|_| ReadError::Unavailable)?;
        let call = Call {
            method,
            params: &params,
            is_retryable: true,
            origin: CallOrigin::Service { can_wait: false },
        };
        match self.read(call, Instant::now() + timeout).await? {
            NodeResponse::Result(result) => Ok(Some(result)),
            NodeResponse::Error(_) => Ok(None),
        }
    }
}

/// Returns the reason for two skipped nodes: the shortest known wait, if any.
fn shorter(one: ReadError, other: ReadError) -> ReadError {
    match (one, other) {
        (ReadError::BudgetExhausted(first), ReadError::BudgetExhausted(second)) => {
            ReadError::BudgetExhausted(if second.wait < first.wait { second } else { first })
        }
        (ReadError::BudgetExhausted(_), _) => one,
        _ => other,
    }
}
