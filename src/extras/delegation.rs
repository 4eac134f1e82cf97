//! Look-ups of delegations (delegate.xyz): REST API, registry contract, or API with contract as fallback.
//!
//! A response names its source. An error is never reported as "no delegation".
//!
//! The contract is read through [`Reads`], with its coalescing and limits. The chain's allow-list does not apply, and
//! no cached result is used: a client that has a receipt may know a newer block than the polls.
//!
//! The API is called through a `Proxy`, but its responses are read whole. They must be JSON of the expected type; else
//! the contract is read, if it is the fallback. A request with a client's own key is neither cached nor coalesced: an
//! error about the key must not reach another client. The rate limit does not apply to it, but a key that the API refuses
//! is not sent again for a while.

mod api_client;
mod budget;
mod coalescing;
mod lookup;
mod openapi;
mod parameters;
mod refused_keys;
pub(crate) mod registry;
mod registry_reader;
mod routes;
mod section;
mod strict_query;

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::Context;
use bytes::Bytes;
use enum_map::{Enum, EnumMap};
use prometheus_client::metrics::family::Family;
use serde_json::value::{RawValue, to_raw_value};

pub(crate) use api_client::{ApiResponse, Caller, X_API_KEY};
pub(crate) use lookup::{DelegationLookup, LookupBlock, LookupKind};

use crate::assembly::{Assembly, Extra, Join};
use crate::config::{SectionKind, Upstream};
use crate::extras::proxy::ProxyError;
use crate::extras::reads;
use crate::extras::reads::{ChainReads, ReadError, ReadLimits, ReadRejection, Reads};
use crate::http::client_limits::ClientHandle;
use crate::nodes::Exhausted;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{Counter, Metrics, counters, labels, metric_set};
use api_client::ApiClient;
use coalescing::CoalescingClient;
use registry::{CheckResult, Direction, InvalidReturnData};
use registry_reader::RegistryReader;
use section::{DelegationSection, DelegationSource};

pub(crate) const EXTRA: Extra = Extra {
    sections: &[SectionKind::new::<DelegationSection>()],
    ..Extra::new("delegation", Join::Fallible(join))
};

metric_set! {
    /// Metrics of look-ups.
    DelegationMetrics {
        /// Delegation look-ups by the source of the response, or by the reason for the failure
        delegation_lookups_total: Family<OutcomeLabels, Counter>,
        /// Requests to the delegation API without a key: local (allowed), or exhausted (not sent)
        delegation_budget_total: Family<OutcomeLabels, Counter>,
    }
}

labels! {
    OutcomeLabels { outcome: &'static str }
}

/// Adds the look-ups, or says which key switches them on. Chains are read through the reads that all features share.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    assembly.metrics.set::<DelegationMetrics>();
    let mut config: DelegationSection = assembly.config.section();
    let is_recorded = assembly.config.has_recorded_chains;
    if is_recorded {
        config.source = DelegationSource::Off;
    }
    let reads = assembly.offered();
    let reads = reads.unwrap_or_else(|| Reads::offer(assembly, ReadLimits::default()));
    let upstream = &assembly.config.upstream;
    let delegations = Delegations::new(&config, upstream, &reads, &assembly.metrics);
    let delegations = delegations.context("cannot set up the HTTP client")?;
    routes::add(&mut assembly.routes, is_recorded, delegations);
    Ok(())
}

/// Delegation look-ups. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Delegations {
    sources: Arc<LookupSources>,
}

#[derive(Debug)]
struct LookupSources {
    /// `None`: look-ups read the contract only.
    api: Option<CoalescingClient>,
    /// True if the contract is read when the API does not respond.
    falls_back: bool,
    registry: Address,
    reads: Reads,
    counters: EnumMap<LookupOutcome, Counter>,
    gas_log: LogOnChange,
}

/// Outcome of a look-up: the source of the response, or the reason for the failure.
#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum LookupOutcome {
    Cached,
    Coalesced,
    Api,
    Chain,
    /// The API returned an error, or has lately refused the client's own key.
    Rejected,
    BudgetExhausted,
    Failed,
}

/// A response and its source.
#[derive(Debug)]
pub(crate) enum LookupResponse {
    /// Response of the API, which may be an error.
    Api(ApiResponse),
    /// JSON that the service wrote from the contract's return data.
    Chain(Bytes),
}

/// Reason why a look-up has no response.
#[derive(Debug, Clone)]
pub(crate) enum LookupError {
    /// The API's rate limit, or the client's share of it, is reached.
    BudgetExhausted(Exhausted),
    /// The API has refused the client's own key; retry after this time.
    KeyRefused(Duration),
    /// The API returned an error.
    ErrorResponse(ApiResponse),
    /// The API was not called, or returned no valid response.
    Api(ProxyError),
    /// The chain was not read, or did not respond.
    Chain(ReadRejection),
    /// No contract at the registry address.
    RegistryAbsent,
    /// The contract at the registry address is not a delegation registry: it reverted or returned malformed data.
    RegistryInvalid,
    /// A node returned an invalid result, or an error other than a revert.
    NodeInvalid,
    /// The call takes more gas than the node allows.
    OutOfGas,
    /// The list is longer than one call of a node returns.
    TooManyDelegations,
}

impl Delegations {
    /// Creates the look-ups of `config`; `None` if they are disabled. `reads` calls the chains.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub(crate) fn new(
        config: &DelegationSection,
        upstream: &Upstream,
        reads: &Reads,
        metrics: &Metrics,
    ) -> Result<Option<Self>, reqwest::Error> {
        let api = match config.source {
            DelegationSource::Off => return Ok(None),
            DelegationSource::Chain => None,
            DelegationSource::Api | DelegationSource::ApiThenChain => {
                let api = ApiClient::new(config, upstream, reads.memory(), metrics)?;
                Some(CoalescingClient::new(api, config.cache_ttl, metrics))
            }
        };
        let own = metrics.set::<DelegationMetrics>();
        let sources = LookupSources {
            api,
            falls_back: config.source == DelegationSource::ApiThenChain,
            registry: config.registry_address,
            reads: reads.clone(),
            gas_log: LogOnChange::default(),
            counters: counters(&own.delegation_lookups_total, |outcome| OutcomeLabels { outcome }),
        };
        Ok(Some(Self { sources: Arc::new(sources) }))
    }

    /// Returns the reads through which chains are called.
    pub(crate) fn reads(&self) -> &Reads {
        &self.sources.reads
    }

    /// Answers `lookup` about a configured chain. Pending state is always read from the chain. Takes at most the
    /// deadline of the API, plus that of a read if the chain is read.
    ///
    /// # Errors
    ///
    /// Returns the error of the last source.
    pub(crate) async fn look_up(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<LookupResponse, LookupError> {
        let result = self.resolve(lookup, caller).await;
        let (result, outcome) = match result {
            Ok((response, outcome)) => (Ok(response), outcome),
            Err(LookupError::ErrorResponse(response)) => {
                (Ok(LookupResponse::Api(response)), LookupOutcome::Rejected)
            }
            Err(error @ LookupError::BudgetExhausted(_)) => {
                (Err(error), LookupOutcome::BudgetExhausted)
            }
            Err(error @ LookupError::KeyRefused(_)) => (Err(error), LookupOutcome::Rejected),
            Err(error) => (Err(error), LookupOutcome::Failed),
        };
        self.sources.counters[outcome].increment();
        result
    }

    async fn resolve(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(LookupResponse, LookupOutcome), LookupError> {
        let LookupSources { api, falls_back, .. } = &*self.sources;
        let api = api.as_ref().filter(|_| lookup.block == LookupBlock::Latest);
        if let Some(api) = api {
            match self.query_api(api, lookup, caller).await {
                Ok((response, outcome)) => return Ok((LookupResponse::Api(response), outcome)),
                Err(error) => match error.failover_reason().filter(|_| *falls_back) {
                    Some(reason) => {
                        tracing::debug!(
                            reason,
                            "delegation API failed; falling back to the registry contract"
                        );
                    }
                    None => return Err(error),
                },
            }
        }
        let body = self.query_chain(lookup, &caller.client).await?;
        Ok((LookupResponse::Chain(body), LookupOutcome::Chain))
    }

    /// Returns the response of the API, filtered by the requested direction.
    async fn query_api(
        &self,
        client: &CoalescingClient,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(ApiResponse, LookupOutcome), LookupError> {
        let (response, outcome) = client.send(lookup, caller).await?;
        let response = match lookup.kind {
            LookupKind::List { address, direction: Some(direction) } => {
                response.filtered(direction, address, self.sources.reads.memory())?
            }
            LookupKind::List { direction: None, .. } | LookupKind::Check(_) => response,
        };
        Ok((response, outcome))
    }

    /// Builds the response from the registry contract.
    async fn query_chain(
        &self,
        lookup: &DelegationLookup,
        client: &ClientHandle,
    ) -> Result<Bytes, LookupError> {
        let reads = &self.sources.reads;
        let chain = reads.chain(&lookup.chain_id.to_string());
        let chain = chain.ok_or(LookupError::Chain(ReadError::Unavailable.into()))?;
        let registry = self.registry(chain, client);
        let list = |direction, address| registry.list(direction, address, lookup.block);
        let json = match &lookup.kind {
            LookupKind::Check(check) => match registry.check(check, lookup.block).await? {
                CheckResult::Allowed(is_allowed) => to_raw_value(&is_allowed),
                CheckResult::Amount(amount) => to_raw_value(&amount.to_string()),
            },
            LookupKind::List { address, direction: Some(direction) } => {
                to_raw_value(&list(*direction, *address).await?)
            }
            LookupKind::List { address, direction: None } => {
                let mut both = list(Direction::Incoming, *address).await?;
                let mut outgoing = list(Direction::Outgoing, *address).await?;
                // Self-delegations are in both lists.
                outgoing.retain(|delegation| !delegation.is_self_delegation());
                both.append(&mut outgoing);
                to_raw_value(&both)
            }
        };
        let json: Box<RawValue> = json.expect("strings and their lists serialise");
        let mut reservation = reads.memory().reservation();
        let no_memory = |_| LookupError::Chain(ReadError::NoMemory.into());
        reservation.try_grow(json.get().len()).map_err(no_memory)?;
        Ok(reservation.into_bytes(Box::<str>::from(json).into_string().into_bytes()))
    }

    fn registry<'a>(
        &'a self,
        chain: &'a ChainReads,
        client: &'a ClientHandle,
    ) -> RegistryReader<'a> {
        let LookupSources { registry: address, reads, gas_log, .. } = &*self.sources;
        RegistryReader {
            address: *address,
            chain,
            caller: reads::Caller { client, deadline: reads.deadline(), is_clients_call: false },
            gas_log,
        }
    }
}

impl From<ReadRejection> for LookupError {
    fn from(rejection: ReadRejection) -> Self {
        Self::Chain(rejection)
    }
}

impl From<InvalidReturnData> for LookupError {
    fn from(error: InvalidReturnData) -> Self {
        match error {
            InvalidReturnData::NoContract => Self::RegistryAbsent,
            InvalidReturnData::Malformed => Self::RegistryInvalid,
        }
    }
}
