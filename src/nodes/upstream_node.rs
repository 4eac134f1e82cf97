//! One RPC node of one chain: its state, and calls to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;

use super::circuit_breaker::{Availability, CircuitBreaker, Exclusion};
use super::fee_history::FeeHistoryRequest;
use super::header_watch::HeaderWatch;
use super::plan_pause::PlanPause;
use super::{
    BodyLimit, Error, HttpStatus, JsonRpcClient, NodeEndpoint, Repeat, node_breaker, quantity,
};
use crate::config;
use crate::fees::{FeeHistory, HeadReading};
use crate::observe::clock;

/// Polls of a node that limits the rate go on at least as often in `max_age`, so that its data does not expire meanwhile.
const POLLS_PER_MAX_AGE: u32 = 3;

/// A node behind one configured URL.
#[derive(Debug)]
pub struct UpstreamNode {
    client: JsonRpcClient,
    node: Arc<NodeEndpoint>,
    headers: HeaderWatch,
    state: Mutex<NodeState>,
    block_time: Duration,
    /// Longest pause of polls after a 429.
    max_pause: Duration,
}

/// State learnt from polls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeState {
    /// When a poll last verified the node's chain; `None`: must be verified before a reply is used.
    pub(crate) chain_verified_at: Option<Instant>,
    /// True if a reply since then may be another chain's.
    is_chain_doubted: bool,
    /// When a poll last failed.
    failed_at: Option<Instant>,
    /// True if the node accepts only an integer as the block count.
    pub(super) has_integer_count: bool,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) plan_pause: PlanPause,
    /// Time before which facts that reads learnt may be those of another chain.
    pub(crate) doubted_before: Option<Instant>,
}

impl NodeState {
    /// Creates the state of a node on a chain with this block time.
    pub(crate) fn new(block_time: Duration) -> Self {
        Self {
            chain_verified_at: None,
            is_chain_doubted: false,
            failed_at: None,
            has_integer_count: false,
            breaker: node_breaker::new(block_time, Duration::ZERO),
            plan_pause: PlanPause::default(),
            doubted_before: None,
        }
    }
}

impl UpstreamNode {
    /// A load balancer may put another node behind the URL at any time.
    pub(crate) const CHAIN_CHECK_INTERVAL: Duration = Duration::from_mins(10);

    /// The same after a reply with other rewards than before. Tips may have changed, or a load balancer may alternate between
    /// nodes that compute rewards in different ways, so there is no check for each such reply.
    pub(crate) const DOUBTED_CHECK_INTERVAL: Duration = Duration::from_mins(1);

    /// Creates the state of a node of `chain`. No call is made yet.
    pub(crate) fn new(client: JsonRpcClient, node: NodeEndpoint, chain: &config::Chain) -> Self {
        let block_time = chain.block_time;
        Self {
            client,
            node: Arc::new(node),
            headers: HeaderWatch::new(chain.max_block_age(chain.block_time)),
            state: Mutex::new(NodeState::new(block_time)),
            block_time,
            max_pause: chain.max_age / POLLS_PER_MAX_AGE,
        }
    }

    /// Records a reply that was accepted.
    pub fn record_success(&self) {
        self.update(|state| {
            state.breaker.record_success();
            state.plan_pause.record_poll();
        });
    }

    /// Forgets why polls would leave the node out for now, unless it limits the rate.
    pub(crate) fn forget_failures(&self) {
        let now = clock::now();
        self.update(|state| {
            if state.breaker.exclusion(now) != Some(Exclusion::RateLimited) {
                state.breaker.record_success();
            }
        });
    }

    /// Records a failed call, which decides when the node is polled next. After a 429 reads pause for longer than polls.
    pub fn record_failure(&self, error: &Error) {
        let now = clock::now();
        self.update(|state| {
            let pause = self.max_pause;
            node_breaker::record_error(&mut state.breaker, error, self.block_time, pause, now);
            if let Error::RateLimited(wait) = error {
                let wait = wait.unwrap_or_default().min(node_breaker::MAX_COOL_DOWN);
                let next_poll = state.breaker.excluded_until().unwrap_or(now);
                state.plan_pause.record_refused_poll(next_poll.max(now + wait));
            }
        });
    }

    /// Records a valid reply whose content was rejected.
    pub fn record_rejected_reply(&self) {
        self.update(|state| state.breaker.record_failure(clock::now()));
    }

    /// Availability of the node for polls.
    pub(crate) fn availability(&self, now: Instant) -> Availability {
        self.state().breaker.availability(now)
    }

    /// Returns true if the node is excluded from polls because it served another chain.
    pub(crate) fn serves_another_chain(&self, now: Instant) -> bool {
        self.state().breaker.exclusion(now) == Some(Exclusion::WrongChain)
    }

    /// Requests a fee history. Requests the chain id first when due: before the first use, after an error, every ten
    /// minutes, and a minute after the last time if it is doubted. Reads the newest header beside it before the first
    /// use, after an error, and while the head is old. Ends within `deadline`.
    ///
    /// # Errors
    ///
    /// Returns why there is no valid reply. The next call verifies the chain again unless this one has.
    pub async fn fee_history(
        &self,
        request: &FeeHistoryRequest,
        deadline: Duration,
    ) -> Result<FeeHistory, Error> {
        self.receive_fee_history(request, deadline).await.map(|(history, _)| history)
    }

    /// As [`fee_history`](Self::fee_history), with the time when the fee history arrived, which may be before that of the
    /// header.
    pub(crate) async fn receive_fee_history(
        &self,
        request: &FeeHistoryRequest,
        deadline: Duration,
    ) -> Result<(FeeHistory, Instant), Error> {
        let started = clock::now();
        let NodeState { chain_verified_at, failed_at, .. } = self.state();
        let header_since = self.headers.needed_since(started, failed_at);
        if let Some(since) = header_since {
            self.request_header(since, deadline);
        }
        let receive = async {
            let history = self.fetch_fee_history(request).await?;
            Ok((history, clock::now()))
        };
        let fetch = async {
            // At the start there is nothing to serve, so both calls are sent in parallel, although the second may be
            // wasted.
            if chain_verified_at.is_none() && failed_at.is_none() {
                let (checked, received) = tokio::join!(self.check_chain(), receive);
                return checked.and(received);
            }
            self.check_chain().await?;
            receive.await
        };
        let outcome = match tokio::time::timeout(deadline, fetch).await {
            // A process that stood still during the call finds a reply that may be as old as that.
            Ok(_) if clock::elapsed(started) > deadline => Err(Error::Timeout(deadline)),
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Timeout(deadline)),
        };
        if outcome.is_err() {
            // The verification of this very attempt stays valid. Otherwise a node that answers one call within the
            // deadline, but not two, would never be used.
            self.update(|state| {
                state.chain_verified_at = state.chain_verified_at.filter(|at| *at >= started);
                state.failed_at = Some(clock::now());
                state.doubted_before = state.doubted_before.max(Some(started));
            });
        } else if let Some(since) = header_since {
            // Without a recent header the age of the reply is not known. An old node is old until it says otherwise.
            let patience = if self.headers.is_old() { deadline / 2 } else { deadline };
            self.headers.wait(since, patience.saturating_sub(clock::elapsed(started))).await;
        }
        outcome
    }

    async fn fetch_fee_history(&self, request: &FeeHistoryRequest) -> Result<FeeHistory, Error> {
        let has_integer_count = self.state().has_integer_count;
        let outcome = self.request_fee_history(request, has_integer_count).await;
        if !is_params_rejected(&outcome) {
            return outcome;
        }
        // Stored before it has worked, so that a timeout in between does not lose it.
        self.update(|state| state.has_integer_count = !has_integer_count);
        let answer = self.request_fee_history(request, !has_integer_count).await;
        if !is_params_rejected(&answer) {
            return answer;
        }
        self.update(|state| state.has_integer_count = has_integer_count);
        self.fetch_short_fee_history(request, has_integer_count, outcome).await
    }

    /// Requests all blocks of a chain that is younger than the window. Some nodes reject a request for more blocks
    /// than there are. Returns the `rejection` if that is not the reason.
    async fn fetch_short_fee_history(
        &self,
        request: &FeeHistoryRequest,
        has_integer_count: bool,
        rejection: Result<FeeHistory, Error>,
    ) -> Result<FeeHistory, Error> {
        let newest = self.poll("eth_blockNumber", &json!([])).await?;
        let newest = quantity::parse(newest.get()).ok();
        let blocks = newest.and_then(|newest| usize::try_from(newest).ok()?.checked_add(1));
        let Some(block_count) = blocks.filter(|blocks| *blocks < request.block_count) else {
            return rejection;
        };
        let shorter = FeeHistoryRequest { block_count, ..request.clone() };
        self.request_fee_history(&shorter, has_integer_count).await
    }

    /// Calls `method` for a poll. It has no deadline of its own.
    async fn poll(&self, method: &str, params: &serde_json::Value) -> Result<Box<RawValue>, Error> {
        let limit = JsonRpcClient::POLL_BODY_LIMIT;
        self.client.call_for_poll(&self.node, method, params, limit).await
    }

    async fn request_fee_history(
        &self,
        request: &FeeHistoryRequest,
        has_integer_count: bool,
    ) -> Result<FeeHistory, Error> {
        let params = request.params(has_integer_count);
        let result = self.poll("eth_feeHistory", &params).await?;
        Ok(request.parse(&result)?)
    }

    /// Asks for the newest header that was read since `since`. The call may take twice the `deadline` of a poll, because a
    /// node without headers gets two.
    fn request_header(&self, since: Instant, deadline: Duration) {
        self.headers.request(&self.client, &self.node, since, 2 * deadline);
    }

    /// Asks for the newest header if the last one is due for a node in use, and does not wait for it.
    pub(crate) fn request_due_header(&self, deadline: Duration) {
        if let Some(since) = self.headers.due_since() {
            self.request_header(since, deadline);
        }
    }

    /// Reads the newest header again, unless it was read since `since`: a node that surprises may have lost the block of an
    /// earlier reading, or may not have been read for long. Ends within `deadline`.
    pub(crate) async fn read_head_again(&self, since: Instant, deadline: Duration) {
        if self.headers.due_since().is_some() {
            self.request_header(since, deadline);
            self.headers.wait(since, deadline).await;
        }
    }

    /// Returns what the node last said of its newest block.
    pub(crate) fn head(&self) -> HeadReading {
        self.headers.reading()
    }

    /// Returns true if the node's newest block was old when it was last read, or if the node was syncing.
    pub(crate) fn has_old_head(&self) -> bool {
        self.headers.is_old()
    }

    /// Remembers that the node may have become another chain's, until its chain id is requested again.
    pub(crate) fn doubt_chain(&self) {
        self.update(|state| state.is_chain_doubted = true);
    }

    async fn check_chain(&self) -> Result<(), Error> {
        let NodeState { chain_verified_at, is_chain_doubted, .. } = self.state();
        let interval = if is_chain_doubted {
            Self::DOUBTED_CHECK_INTERVAL
        } else {
            Self::CHAIN_CHECK_INTERVAL
        };
        if chain_verified_at.is_some_and(|instant| clock::elapsed(instant) < interval) {
            return Ok(());
        }
        let chain_id = self.poll("eth_chainId", &json!([])).await?;
        self.verify_chain_id(&chain_id)?;
        self.update(|state| {
            state.chain_verified_at = Some(clock::now());
            state.is_chain_doubted = false;
        });
        Ok(())
    }

    /// Requests the chain id again after a surprising reply, unless it was requested after `since`. A node that has
    /// become another chain's may otherwise be believed for minutes. Ends within `deadline`.
    ///
    /// # Errors
    ///
    /// Returns why the chain could not be verified. The next call then verifies it again.
    pub async fn verify_chain_again(
        &self,
        since: Instant,
        deadline: Duration,
    ) -> Result<(), Error> {
        if self.state().chain_verified_at.is_some_and(|at| at >= since) {
            return Ok(());
        }
        self.update(|state| {
            state.chain_verified_at = None;
            state.doubted_before = state.doubted_before.max(Some(since));
        });
        let check = tokio::time::timeout(deadline, self.check_chain());
        check.await.unwrap_or(Err(Error::Timeout(deadline)))
    }

    /// Compares the chain id that the node returned with the configured one.
    pub(crate) fn verify_chain_id(&self, chain_id: &RawValue) -> Result<(), Error> {
        let found = quantity::parse(chain_id.get())
            .map_err(|_| Error::InvalidReply("the chain id is not a quantity"))?;
        if found == u128::from(self.node.chain_id) {
            Ok(())
        } else {
            Err(Error::WrongChain { expected: self.node.chain_id, found })
        }
    }

    /// Calls `method` over the connections of reads, where it may be sent once more by `repeat`. `parse` gets the reply's
    /// body, its status and the call's id. It has no deadline of its own.
    pub(crate) async fn call_for_read<T>(
        &self,
        method: &str,
        params: &RawValue,
        repeat: Option<Repeat<'_>>,
        limit: BodyLimit<'_>,
        parse: impl Fn(&Bytes, HttpStatus, u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.client.for_reads().call(&self.node, method, params, repeat, limit, parse).await
    }

    /// Returns what polls have learnt.
    pub(crate) fn state(&self) -> NodeState {
        *self.state.lock()
    }

    fn update(&self, apply: impl FnOnce(&mut NodeState)) {
        apply(&mut self.state.lock());
    }
}

/// Returns true if the node rejects the parameters.
fn is_params_rejected(outcome: &Result<FeeHistory, Error>) -> bool {
    outcome.as_ref().is_err_and(Error::is_invalid_params)
}

#[cfg(test)]
mod tests;
