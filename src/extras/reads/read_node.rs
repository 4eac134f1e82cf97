//! One node as reads see it: its health and its budget. The calls go over the connections of reads.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::attempt_error::AttemptError;
use super::node_budget::{CallOrigin, ReadBudget};
use super::node_health::ReadHealth;
use super::params::empty_params;
use super::read_nodes::Call;
use super::reply::{self, NodeResponse};
use crate::nodes::circuit_breaker::{Availability, Exclusion};
use crate::nodes::{
    BodyLimit, Error, HttpStatus, JsonRpcClient, NodeState, ReadError, Repeat, UpstreamNode,
    parse_reply,
};
use crate::observe::clock;
use crate::observe::memory_budget::MemoryBudget;

/// About the size of 10,000 logs, the usual limit of providers.
const MAX_BYTES: usize = 10 * 1024 * 1024;

/// State of one node for reads.
#[derive(Debug)]
pub(super) struct ReadNode {
    health: Mutex<ReadHealth>,
    /// Held by the read that verifies the chain id; other reads wait for it.
    check_lock: tokio::sync::Mutex<()>,
}

impl ReadNode {
    /// Creates the state of a node on a chain with this block time. Reads take their calls from `budget`.
    pub(super) fn new(block_time: Duration, budget: ReadBudget) -> Self {
        let health = Mutex::new(ReadHealth::new(block_time, budget));
        Self { health, check_lock: tokio::sync::Mutex::default() }
    }

    /// Returns the availability of the node for a read of this `origin`, from what polls and reads learnt. A return of
    /// `Healthy` may claim the probe of a node whose circuit was open.
    pub(super) fn try_admit(
        &self,
        upstream: &UpstreamNode,
        origin: CallOrigin,
        now: Instant,
    ) -> Result<Availability, ReadError> {
        let NodeState { breaker: polls, plan_pause, .. } = upstream.state();
        let mut reads = self.health.lock();
        let of_polls = match polls.exclusion(now) {
            Some(Exclusion::RateLimited) => {
                return Err(ReadError::RateLimited(polls.excluded_for(now)));
            }
            Some(Exclusion::WrongChain) => Availability::Excluded,
            // Only the polled method is missing.
            Some(Exclusion::Unsupported) => Availability::Healthy,
            None => polls.availability(now),
        };
        if let Some(wait) = reads.rate_limited_for(now) {
            return Err(ReadError::RateLimited(wait));
        }
        reads
            .budget
            .check(origin, plan_pause.left(now), now)
            .map_err(ReadError::BudgetExhausted)?;
        match of_polls.max(reads.try_admit(now)) {
            Availability::Excluded => Err(ReadError::Unavailable),
            availability => Ok(availability),
        }
    }

    /// Returns true if the node lately reported to a read that it lacks the method.
    pub(super) fn lacks_method(&self, method: &str, now: Instant) -> bool {
        self.health.lock().lacks_method(method, now)
    }

    /// Forwards `call` to `upstream`. Verifies the chain id first when due, as polls do. It has no deadline of its own. A
    /// retryable call is sent once more if a kept connection is silent for the `patience`. The bytes of a client's response
    /// are charged to `memory`.
    ///
    /// # Errors
    ///
    /// Returns why there is no valid reply. The node's own error about the call is a response.
    pub(super) async fn read(
        &self,
        upstream: &UpstreamNode,
        call: Call<'_>,
        patience: Duration,
        memory: &MemoryBudget,
    ) -> Result<NodeResponse, AttemptError> {
        let try_take = || self.take_from_budget(upstream, call.origin).is_ok();
        // Nothing of a slow node is remembered, because calls differ: the budget bounds how many are sent twice.
        let is_slow = AtomicBool::default();
        let repeat = Repeat { after: patience, try_take: &try_take, is_slow: &is_slow };
        self.check_chain(upstream, repeat).await?;
        self.take_from_budget(upstream, call.origin)?;
        let limit = match call.origin {
            CallOrigin::Client(_) => BodyLimit { max_bytes: MAX_BYTES, memory: Some(memory) },
            CallOrigin::Service { .. } => JsonRpcClient::HEADER_BODY_LIMIT,
        };
        let Call { method, params, is_retryable, .. } = call;
        let repeat = is_retryable.then_some(repeat);
        let outcome =
            upstream.call_for_read(method, params, repeat, limit, reply::parse_reply).await;
        let mut reads = self.health.lock();
        match outcome {
            Ok(response) => {
                reads.record_success(method, clock::now());
                Ok(response)
            }
            Err(error) => {
                reads.record_failure(&error, method, clock::now());
                Err(error.into())
            }
        }
    }

    /// Records an abandoned read that the node had not answered since `since`.
    pub(super) fn record_timeout(&self, since: Instant) {
        self.health.lock().record_timeout(since, clock::now());
    }

    async fn check_chain(
        &self,
        upstream: &UpstreamNode,
        repeat: Repeat<'_>,
    ) -> Result<(), AttemptError> {
        let waiting_since = clock::now();
        if self.is_chain_verified(upstream, waiting_since) {
            return Ok(());
        }
        let _guard = self.check_lock.lock().await;
        if self.is_chain_verified(upstream, clock::now()) {
            return Ok(());
        }
        // Reads that waited for a failed check do not repeat it.
        if self.health.lock().has_failed_check_since(waiting_since) {
            return Err(AttemptError::ChainUnverified);
        }
        self.take_from_budget(upstream, CallOrigin::Service { can_wait: false })?;
        let parse = |body: &Bytes, status: HttpStatus, id| parse_reply(body, status, id);
        let (params, limit) = (empty_params(), JsonRpcClient::POLL_BODY_LIMIT);
        let chain_id =
            upstream.call_for_read("eth_chainId", params, Some(repeat), limit, parse).await;
        let outcome = chain_id.and_then(|chain_id| upstream.verify_chain_id(&chain_id));
        match &outcome {
            Ok(()) => self.health.lock().record_chain_verified(clock::now()),
            // Recorded before the next waiting read looks.
            Err(error) => self.health.lock().record_check_failure(error, clock::now()),
        }
        outcome.map_err(|error| match error {
            Error::Unreachable(_) | Error::RateLimited(_) | Error::WrongChain { .. } => {
                error.into()
            }
            // Whatever the failure was, the call itself was not sent.
            _ => AttemptError::ChainUnverified,
        })
    }

    fn take_from_budget(
        &self,
        upstream: &UpstreamNode,
        origin: CallOrigin,
    ) -> Result<(), AttemptError> {
        let now = clock::now();
        let paused_for = upstream.state().plan_pause.left(now);
        let mut reads = self.health.lock();
        reads.budget.try_take(origin, paused_for, now).map_err(AttemptError::BudgetExhausted)
    }

    /// Returns true if a poll or a read verified the node's chain lately and since the last failure.
    fn is_chain_verified(&self, upstream: &UpstreamNode, now: Instant) -> bool {
        let polls = upstream.state();
        self.health.lock().is_chain_verified(&polls, now, UpstreamNode::CHAIN_CHECK_INTERVAL)
    }
}
