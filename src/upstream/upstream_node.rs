//! One RPC node of one chain: what is known of it, and the calls that are made to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::circuit_breaker::CircuitBreaker;
use super::fee_history::{BlockCountEncoding, FeeHistoryRequest};
use super::node_health::{Availability, NodeHealth, Penalty};
use super::{
    Call, Error, JsonRpcClient, NodeEndpoint, NodeResponse, NodeStatus, ReadError, quantity,
};
use crate::fees::FeeHistory;
use crate::memory_budget::MemoryBudget;

/// A node behind one configured URL.
#[derive(Debug)]
pub struct UpstreamNode {
    client: JsonRpcClient,
    node: NodeEndpoint,
    state: Mutex<NodeState>,
    read_breaker: Mutex<CircuitBreaker>,
    /// Held by the one read that asks for the chain id while the others wait. No poll waits for it.
    read_check_lock: tokio::sync::Mutex<()>,
    /// Told when a node of the chain has asked to be left alone.
    rate_limit_notify: Arc<Notify>,
}

/// State learnt from polls.
#[derive(Debug, Clone, Copy)]
struct NodeState {
    /// When the node last proved to serve the configured chain; `None`: it has to, before it is
    /// believed.
    chain_verified_at: Option<Instant>,
    /// When that was last in doubt.
    chain_doubted_at: Option<Instant>,
    /// How the node wants the block count.
    block_count_encoding: BlockCountEncoding,
    health: NodeHealth,
}

impl UpstreamNode {
    /// A load balancer may put another node behind the URL at any time.
    const CHAIN_CHECK_INTERVAL: Duration = Duration::from_mins(10);

    /// This `node`, whose chain has a block every `block_time`. Nothing is asked yet.
    pub(super) fn new(
        client: JsonRpcClient,
        node: NodeEndpoint,
        block_time: Duration,
        rate_limit_notify: Arc<Notify>,
    ) -> Self {
        let (block_count_encoding, health) =
            (BlockCountEncoding::Quantity, NodeHealth::new(block_time));
        let state = NodeState {
            chain_verified_at: None,
            chain_doubted_at: None,
            block_count_encoding,
            health,
        };
        Self {
            client,
            node,
            state: Mutex::new(state),
            read_breaker: Mutex::new(CircuitBreaker::new(block_time)),
            read_check_lock: tokio::sync::Mutex::default(),
            rate_limit_notify,
        }
    }

    /// Remembers that an answer of this node was believed.
    pub fn record_success(&self) {
        self.update(|state| state.health.record_success());
    }

    /// Remembers that a call to this node failed, which says when it is asked next.
    pub fn record_failure(&self, error: &Error) {
        self.update(|state| state.health.record_failure(error.penalty(), Instant::now()));
        if matches!(error, Error::RateLimited(_)) {
            self.rate_limit_notify.notify_one();
        }
    }

    /// Fingerprint of the node, which does not reveal its URL.
    pub(crate) fn fingerprint(&self) -> String {
        self.node.url.fingerprint()
    }

    /// For how much longer it has asked polls to let it be; zero: it has not. What it asks of reads is between it
    /// and them: no client can make it that others are not polled.
    pub(crate) fn rate_limit_remaining(&self, now: Instant) -> Duration {
        self.state().health.rate_limit_remaining(now)
    }

    /// Takes note that it has asked another replica to be left alone for `wait`.
    pub(crate) fn record_rate_limit(&self, wait: Duration) {
        self.update(|state| state.health.set_cooldown(wait, Instant::now()));
    }

    /// For how much longer it need not prove which chain it serves; zero: it has to.
    pub(crate) fn chain_verified_remaining(&self) -> Duration {
        let verified_at = self.state().chain_verified_at;
        verified_at
            .map_or(Duration::ZERO, |at| Self::CHAIN_CHECK_INTERVAL.saturating_sub(at.elapsed()))
    }

    /// Returns true if it has failed, and has not proved since then which chain it serves.
    pub(crate) fn is_chain_in_doubt(&self) -> bool {
        let NodeState { chain_verified_at, chain_doubted_at, .. } = self.state();
        chain_verified_at.is_none() && chain_doubted_at.is_some()
    }

    /// Takes note that another replica has seen it prove its chain, which holds for `remaining`. What has gone
    /// wrong here since then counts for more.
    pub(crate) fn record_chain_verified(&self, remaining: Duration) {
        let since = Self::CHAIN_CHECK_INTERVAL.saturating_sub(remaining);
        let Some(verified_at) = Instant::now().checked_sub(since) else { return };
        self.update(|state| {
            if state.chain_doubted_at.is_none_or(|doubted| doubted < verified_at) {
                state.chain_verified_at = state.chain_verified_at.max(Some(verified_at));
            }
        });
    }

    /// Remembers that an answer of this node could not be believed for what it says.
    pub fn record_rejected_reply(&self) {
        self.update(|state| state.health.record_failure(Penalty::Backoff, Instant::now()));
    }

    pub(super) fn availability(&self, now: Instant) -> Availability {
        self.state().health.availability(now)
    }

    /// How this node stands among those that polls ask.
    pub(super) fn status(&self, now: Instant) -> NodeStatus {
        let health = self.state().health;
        NodeStatus {
            availability: health.availability(now),
            serves_another_chain: health.is_quarantined(now),
        }
    }

    /// Asks for a fee history, after the chain id where that is due: before the first use, after
    /// an error, and every ten minutes. Ends within `deadline`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being believed; the next call checks the chain again unless
    /// this one has.
    pub async fn fee_history(
        &self,
        request: &FeeHistoryRequest,
        deadline: Duration,
    ) -> Result<FeeHistory, Error> {
        let started = Instant::now();
        let NodeState { chain_verified_at, chain_doubted_at, .. } = self.state();
        let fetch = async {
            // At the start there is nothing to serve, so an unverified call in parallel is worth its cost.
            if chain_verified_at.is_none() && chain_doubted_at.is_none() {
                let (checked, history) =
                    tokio::join!(self.check_chain(), self.fetch_fee_history(request));
                return checked.and(history);
            }
            self.check_chain().await?;
            self.fetch_fee_history(request).await
        };
        let outcome = tokio::time::timeout(deadline, fetch).await.unwrap_or(Err(Error::Timeout));
        if outcome.is_err() {
            // A check that this very attempt has made still holds. Without it a node that answers
            // one call within the deadline, but not two, would never be believed.
            self.update(|state| {
                state.chain_verified_at = state.chain_verified_at.filter(|at| *at >= started);
                state.chain_doubted_at = Some(Instant::now());
            });
            self.read_breaker().invalidate_chain_check_before(started);
        }
        outcome
    }

    async fn fetch_fee_history(&self, request: &FeeHistoryRequest) -> Result<FeeHistory, Error> {
        let encoding = self.state().block_count_encoding;
        let outcome = self.request_fee_history(request, encoding).await;
        if !is_params_rejected(&outcome) {
            return outcome;
        }
        // Remembered before it has worked, so that a deadline in between does not lose it.
        self.update(|state| state.block_count_encoding = encoding.alternative());
        let answer = self.request_fee_history(request, encoding.alternative()).await;
        if is_params_rejected(&answer) {
            self.update(|state| state.block_count_encoding = encoding);
        }
        answer
    }

    async fn request_fee_history(
        &self,
        request: &FeeHistoryRequest,
        encoding: BlockCountEncoding,
    ) -> Result<FeeHistory, Error> {
        let params = request.params(encoding);
        let result = self.client.call_for_poll(&self.node, "eth_feeHistory", &params).await?;
        Ok(request.parse(&result)?)
    }

    async fn check_chain(&self) -> Result<(), Error> {
        let verified_at = self.state().chain_verified_at;
        if verified_at.is_some_and(|instant| instant.elapsed() < Self::CHAIN_CHECK_INTERVAL) {
            return Ok(());
        }
        let chain_id = self.client.call_for_poll(&self.node, "eth_chainId", &json!([])).await?;
        self.verify_chain_id(&chain_id)?;
        self.update(|state| state.chain_verified_at = Some(Instant::now()));
        Ok(())
    }

    fn verify_chain_id(&self, chain_id: &RawValue) -> Result<(), Error> {
        let found = quantity::parse(chain_id.get())
            .map_err(|_| Error::InvalidReply("the chain id is not a quantity"))?;
        if found == u128::from(self.node.chain_id) {
            Ok(())
        } else {
            Err(Error::WrongChain { expected: self.node.chain_id, found })
        }
    }

    /// Availability of the node for reads, from what polls and reads learnt. A return of `Healthy` may claim the probe of a
    /// node whose circuit was open.
    pub(super) fn try_admit_read(&self, now: Instant) -> Result<Availability, ReadError> {
        let polls = self.state().health;
        let mut reads = self.read_breaker();
        if polls.is_rate_limited(now) || reads.is_rate_limited(now) {
            return Err(ReadError::RateLimited);
        }
        match polls.availability_for_other_methods(now).max(reads.availability_and_probe(now)) {
            Availability::Excluded => Err(ReadError::Unavailable),
            availability => Ok(availability),
        }
    }

    /// Returns true if it said to a read lately that it does not have the method.
    pub(super) fn lacks_method(&self, method: &str, now: Instant) -> bool {
        self.read_breaker().lacks_method(method, now)
    }

    /// Passes `call` on, after the chain id is known where that is due, as with
    /// [`fee_history`](Self::fee_history). It has no deadline of its own; what the answer takes is held
    /// in `memory`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being believed; the node's own error about the call is an
    /// answer.
    pub(super) async fn read(
        &self,
        call: Call<'_>,
        memory: &MemoryBudget,
    ) -> Result<NodeResponse, Error> {
        self.check_chain_for_reads().await?;
        let outcome = self.client.forward_read(&self.node, call, memory).await;
        match &outcome {
            Ok(_) => self.read_breaker().record_success(call.method, Instant::now()),
            Err(error) => self.read_breaker().record_failure(error, call.method, Instant::now()),
        }
        outcome
    }

    /// Takes note that a read was given up that this node had been silent about since then.
    pub(super) fn record_read_timeout(&self, since: Instant) {
        self.read_breaker().record_timeout(since, Instant::now());
    }

    async fn check_chain_for_reads(&self) -> Result<(), Error> {
        let waiting_since = Instant::now();
        if self.is_chain_verified_for_reads(waiting_since) {
            return Ok(());
        }
        let _guard = self.read_check_lock.lock().await;
        if self.is_chain_verified_for_reads(Instant::now()) {
            return Ok(());
        }
        // Those who waited for a check that failed do not each make another.
        if self.read_breaker().has_failed_check_since(waiting_since) {
            return Err(Error::ChainUnverified);
        }
        let outcome = match self.client.fetch_chain_id(&self.node).await {
            Ok(chain_id) => self.verify_chain_id(&chain_id),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(()) => self.read_breaker().record_chain_verified(Instant::now()),
            // Before the next in turn looks.
            Err(error) => self.read_breaker().record_check_failure(error, Instant::now()),
        }
        outcome.map_err(|error| match error {
            Error::Unreachable(_) | Error::RateLimited(_) | Error::WrongChain { .. } => error,
            // Whatever it was, nothing was done with the call.
            _ => Error::ChainUnverified,
        })
    }

    /// Returns true if the node has proved to serve the chain, to a poll or a read, lately and since the last
    /// failure.
    fn is_chain_verified_for_reads(&self, now: Instant) -> bool {
        let verified_by_polls = self.state().chain_verified_at;
        self.read_breaker().is_chain_verified(verified_by_polls, now, Self::CHAIN_CHECK_INTERVAL)
    }

    fn read_breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.read_breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> NodeState {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, apply: impl FnOnce(&mut NodeState)) {
        apply(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns true if the node finds fault with the parameters.
fn is_params_rejected(outcome: &Result<FeeHistory, Error>) -> bool {
    outcome.as_ref().is_err_and(Error::is_invalid_params)
}
