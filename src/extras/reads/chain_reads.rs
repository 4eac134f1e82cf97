//! Reads of one chain: cache, coalescing, hints and limits.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::cache::{CacheKey, CacheLifetime, CachedResponse, HeadVersion, ResponseCache};
use super::chain_keys::ChainKeys;
use super::method::{BlockHint, KnownMethod, Methods, ReadMethod};
use super::state_scope::StateScope;
use super::{
    Call, CallOrigin, Caller, NodeResponse, ReadError, ReadLimits, ReadMetrics, ReadNodes,
    ReadRejection, method, params,
};
use crate::http::client_limits::SlotKind;
use crate::observe::metrics::{ChainOutcomeLabels, Counter, counters};
use crate::store::{self, ServableSnapshot, StaleReason, etag};

/// Reads of one chain.
#[derive(Debug)]
pub(crate) struct ChainReads {
    chain: store::StoredChain,
    pub(crate) keys: ChainKeys,
    nodes: Arc<ReadNodes>,
    methods: Methods,
    in_flight: Semaphore,
    max_in_flight_per_client: usize,
    cache: ResponseCache,
    hints: Mutex<Hints>,
    timeout: Duration,
    counters: EnumMap<ReadOutcome, Counter>,
}

/// Blocks that results mentioned before the polls have seen them.
#[derive(Debug, Default)]
struct Hints {
    /// Highest head.
    head: u64,
    /// Highest block of a transaction, and the digest of its last known hash.
    transaction_block: (u64, u64),
    /// Number of hints that were news.
    generation: u64,
}

/// Counts a call when it ends; as cancelled if its client disconnected before.
struct CountOnDrop<'a> {
    counter: &'a Counter,
}

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.counter.increment();
    }
}

#[derive(Debug, Clone, Copy, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum ReadOutcome {
    /// A node responded.
    Ok,
    /// The response was cached, or is the service's own.
    Cached,
    /// The response is that of an identical call that was in flight.
    Coalesced,
    Rejected,
    Overloaded,
    BudgetExhausted,
    Failed,
    Cancelled,
}

impl ChainReads {
    /// Creates the reads of a chain through its `nodes`.
    pub(super) fn new(
        chain: &store::StoredChain,
        keys: ChainKeys,
        nodes: &Arc<ReadNodes>,
        limits: ReadLimits,
        cache: &ResponseCache,
        metrics: &ReadMetrics,
    ) -> Self {
        let config = chain.config();
        Self {
            chain: chain.clone(),
            nodes: Arc::clone(nodes),
            methods: Methods::from_config(keys.rpc_methods.as_deref(), keys.answer_fee_methods),
            keys,
            in_flight: Semaphore::new(limits.max_in_flight.get()),
            max_in_flight_per_client: limits.max_in_flight_per_client(),
            cache: cache.clone(),
            hints: Mutex::default(),
            timeout: limits.timeout,
            counters: counters(&metrics.reads_total, |outcome| ChainOutcomeLabels {
                chain: config.key.clone(),
                outcome,
            }),
        }
    }

    /// Returns the stored state of the chain.
    pub(crate) fn chain(&self) -> &store::StoredChain {
        &self.chain
    }

    /// Calls `method` with `params`. `None`: no parameters. Returns a cached response, joins an identical call in
    /// flight, or calls the nodes. Ends by the deadline of `caller`. Dropping the future does not cancel a shared call.
    ///
    /// # Errors
    ///
    /// [`ReadRejection::NotAllowed`] and [`ReadRejection::InvalidParams`] without an upstream call;
    /// [`ReadRejection::Overloaded`] and [`ReadRejection::TooManyPerClient`] at once.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        caller: Caller<'_>,
    ) -> Result<NodeResponse, ReadRejection> {
        let known = method::find_known(method).map(ReadMethod::Known);
        let method = if caller.is_clients_call { self.methods.get(method) } else { known.as_ref() };
        let mut count = CountOnDrop { counter: &self.counters[ReadOutcome::Cancelled] };
        let outcome = self.find_response(method, params, caller).await;
        count.counter = &self.counters[match &outcome {
            Ok((_, source)) => *source,
            Err(ReadRejection::NotAllowed | ReadRejection::InvalidParams(_)) => {
                ReadOutcome::Rejected
            }
            Err(ReadRejection::Overloaded | ReadRejection::TooManyPerClient) => {
                ReadOutcome::Overloaded
            }
            Err(ReadRejection::Failed(ReadError::BudgetExhausted(_))) => {
                ReadOutcome::BudgetExhausted
            }
            Err(ReadRejection::NoSuggestion | ReadRejection::Failed(_)) => ReadOutcome::Failed,
        }];
        outcome.map(|(response, _)| response)
    }

    async fn find_response(
        &self,
        method: Option<&ReadMethod>,
        params: Option<&RawValue>,
        caller: Caller<'_>,
    ) -> Result<(NodeResponse, ReadOutcome), ReadRejection> {
        let method = method.ok_or(ReadRejection::NotAllowed)?;
        let params = params.unwrap_or(params::empty_params());
        // A client without an address is none the less not the service.
        let client = caller.client.key().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let origin = CallOrigin::Client(client);
        let known = match method {
            ReadMethod::Known(known) => known,
            ReadMethod::PassThrough(method) => {
                params::check_depth(params)?;
                let call = Call { method, params, is_retryable: false, origin };
                let response = self.call_nodes(call, caller).await?;
                return Ok((response, ReadOutcome::Ok));
            }
        };
        let scope = known.state_scope(params)?;
        if let Some(response) = known.own_response() {
            return Ok((response, ReadOutcome::Cached));
        }
        if let Some(result) = self.suggested_result(known, params) {
            let response = NodeResponse::Result(result.into());
            return Ok((response, ReadOutcome::Cached));
        }
        let call = Call { method: known.name, params, is_retryable: true, origin };
        let is_cacheable = caller.is_clients_call && known.is_cacheable(scope);
        let policy = if is_cacheable { self.cache_policy(scope) } else { CacheLifetime::Never };
        let key = CacheKey {
            chain_id: self.chain.config().chain_id,
            head_version: (policy != CacheLifetime::Immutable).then(|| self.head_version()),
            method: known.name,
            is_clients_call: caller.is_clients_call,
            params_digest: etag::sha256(params.get().as_bytes()),
        };
        if let Some(cached) = self.cache.get(&key).await {
            return Ok((cached.response, ReadOutcome::Cached));
        }
        loop {
            let outcome = self.call_or_join(key.clone(), known, call, policy, caller).await;
            let left = caller.deadline.saturating_duration_since(Instant::now());
            match outcome {
                // Another client, which is at its limit, made the call. Try again as this client.
                (Err(rejection), ReadOutcome::Coalesced)
                    if rejection.is_of_client() && !left.is_zero() => {}
                // The call had the deadline of its first caller. This caller has time left for another one.
                (Err(ReadRejection::Failed(ReadError::TimedOut)), ReadOutcome::Coalesced)
                    if left >= self.timeout / 2 => {}
                (Err(ReadRejection::Failed(ReadError::Unsupported)), _)
                    if self.answers(known, params) && self.current_snapshot().is_none() =>
                {
                    return Err(ReadRejection::NoSuggestion);
                }
                (response, source) => return response.map(|response| (response, source)),
            }
        }
    }

    /// Returns true if the suggestion answers this call while there is a current one.
    fn answers(&self, method: &KnownMethod, params: &RawValue) -> bool {
        self.keys.answer_fee_methods && method.suggested.is_some() && params::are_empty(params)
    }

    /// Returns the result that the suggestion gives, as JSON. `None`: the nodes are called, also because the data is old,
    /// so that no client is worse off than at the node.
    fn suggested_result(&self, method: &KnownMethod, params: &RawValue) -> Option<String> {
        let suggested = method.suggested.filter(|_| self.answers(method, params))?;
        suggested(&self.current_snapshot()?.snapshot)
    }

    /// Returns the snapshot whose fees are current. `None`: there is none, or it is old.
    fn current_snapshot(&self) -> Option<ServableSnapshot> {
        let current = self.chain.servable_snapshot().ok()?;
        let is_old =
            matches!(current.stale_reason, Some(StaleReason::OldData | StaleReason::OldBlock));
        // A halted chain's price is right.
        (!is_old).then_some(current)
    }

    /// Makes the call, or waits for an identical one in flight.
    async fn call_or_join(
        &self,
        key: CacheKey,
        known: &KnownMethod,
        call: Call<'_>,
        policy: CacheLifetime,
        caller: Caller<'_>,
    ) -> (Result<NodeResponse, ReadRejection>, ReadOutcome) {
        let is_caller = AtomicBool::new(false);
        let call_node = async {
            is_caller.store(true, Ordering::Relaxed);
            let requested_at = Instant::now();
            let response = self.call_nodes(call, caller).await?;
            if let Some(hint) = known.block_hint(&response) {
                self.record_hint(hint);
            }
            Ok(CachedResponse::new(response, requested_at, policy, self.chain.config()))
        };
        let cached = self.cache.try_get_with(key, call_node).await;
        let source = if is_caller.load(Ordering::Relaxed) {
            ReadOutcome::Ok
        } else {
            ReadOutcome::Coalesced
        };
        let response = cached.map(|cached| cached.response);
        (response.map_err(|rejection| ReadRejection::clone(&rejection)), source)
    }

    /// Calls the nodes, unless the client or the chain has the maximum number of calls in flight.
    async fn call_nodes(
        &self,
        call: Call<'_>,
        caller: Caller<'_>,
    ) -> Result<NodeResponse, ReadRejection> {
        let _permit = self.in_flight.try_acquire().map_err(|_| ReadRejection::Overloaded)?;
        let _client_permit = caller
            .client
            .acquire(SlotKind::Read, self.max_in_flight_per_client)
            .map_err(|_| ReadRejection::TooManyPerClient)?;
        let response = self.nodes.read(call, caller.deadline).await;
        Ok(response?)
    }

    fn head_version(&self) -> HeadVersion {
        (self.chain.newest_block(), self.hints.lock().generation, self.chain.last_leap())
    }

    /// Makes cached results of the head unreachable if a client knows a block that the polls have not seen.
    fn record_hint(&self, BlockHint { number, hash_digest }: BlockHint) {
        /// Blocks further ahead of the polls are ignored: a false one would hide all later hints.
        const MAX_BLOCKS_AHEAD: u64 = 1024;
        let is_plausible = self.chain.newest_block().is_none_or(|newest| {
            number > newest && number <= newest.saturating_add(MAX_BLOCKS_AHEAD)
        });
        if !is_plausible {
            return;
        }
        let mut hints = self.hints.lock();
        let (highest, last_digest) = hints.transaction_block;
        let is_news = match hash_digest {
            Some(digest) => number > highest || (number == highest && digest != last_digest),
            None => number > hints.head,
        };
        if is_news {
            match hash_digest {
                Some(digest) => hints.transaction_block = (number, digest),
                None => hints.head = number,
            }
            hints.generation = hints.generation.saturating_add(1);
        }
    }

    /// Returns how long a response that depends on `scope` can be cached.
    fn cache_policy(&self, scope: StateScope) -> CacheLifetime {
        match scope {
            StateScope::Fixed => CacheLifetime::Immutable,
            StateScope::Head => CacheLifetime::UntilNextBlock,
            StateScope::Block(number) if self.chain.newest_block() >= Some(number) => {
                CacheLifetime::UntilNextBlock
            }
            // A block above the head may be the pending one.
            StateScope::Block(_) | StateScope::Pending => CacheLifetime::Flashblock,
        }
    }
}
