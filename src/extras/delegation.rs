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

mod address;
mod api_client;
mod api_response;
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

use std::time::Duration;

use alloy_primitives::Address;
use anyhow::Context;
use axum::response::{IntoResponse, Response};
use enum_map::{Enum, EnumMap};
use prometheus_client::metrics::family::Family;

pub(crate) use api_client::{Caller, X_API_KEY};
pub(crate) use api_response::ApiResponse;
pub(crate) use lookup::{DelegationLookup, LookupBlock, LookupKind};

use crate::assembly::{Assembly, Extra};
use crate::config::Config;
use crate::extras::proxy::ProxyError;
use crate::extras::reads;
use crate::extras::reads::{ReadError, ReadLimits, ReadRejection, Reads};
use crate::nodes::Exhausted;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{Counter, counters, labels, metric_set};
use api_client::ApiClient;
use coalescing::CoalescingClient;
use registry::RegistryError;
use registry_reader::RegistryReader;
use section::{DelegationSection, DelegationSource};

pub(crate) const EXTRA: Extra =
    Extra { name: "delegation", sections: &[DelegationSection::SECTION], command: None, join };

metric_set! {
    /// Metrics of look-ups.
    pub(crate) DelegationMetrics {
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
    let own = assembly.metrics.set::<DelegationMetrics>();
    assembly.routes.exposed_headers.push(routes::X_DELEGATION_SOURCE);
    let config: DelegationSection = assembly.config.section();
    let is_recorded = assembly.config.has_recorded_chains;
    let reads = assembly.offers.get().cloned();
    let reads = reads.unwrap_or_else(|| Reads::offer(assembly, ReadLimits::default()));
    if is_recorded || config.source == DelegationSource::Off {
        routes::switch_off(&mut assembly.routes, is_recorded);
        return Ok(());
    }
    let Assembly { metrics, config: Config { upstream, .. }, .. } = &*assembly;
    let has_api = config.source != DelegationSource::Chain;
    let api = has_api.then(|| ApiClient::new(&config, upstream, reads.memory(), metrics));
    let api = api.transpose().context("cannot set up the HTTP client")?;
    let api = api.map(|api| CoalescingClient::new(api, config.cache_ttl, metrics));
    let delegations = Delegations {
        api,
        falls_back: config.source == DelegationSource::ApiThenChain,
        registry: config.registry_address,
        reads,
        gas_log: LogOnChange::default(),
        counters: counters(&own.delegation_lookups_total, |outcome| OutcomeLabels { outcome }),
    };
    assembly.routes.untimed.push(routes::routes(delegations));
    Ok(())
}

/// Delegation look-ups.
#[derive(Debug)]
pub(crate) struct Delegations {
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
#[derive(Debug, Clone, Copy, Enum, strum::IntoStaticStr)]
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
    /// The contract was called, but there is no answer.
    Registry(RegistryError),
}

impl Delegations {
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
    ) -> Result<Response, LookupError> {
        let result = self.resolve(lookup, caller).await;
        let outcome = match &result {
            Ok((_, outcome)) => *outcome,
            Err(LookupError::ErrorResponse(_) | LookupError::KeyRefused(_)) => {
                LookupOutcome::Rejected
            }
            Err(LookupError::BudgetExhausted(_)) => LookupOutcome::BudgetExhausted,
            Err(_) => LookupOutcome::Failed,
        };
        self.counters[outcome].increment();
        result.map(|(response, _)| response)
    }

    async fn resolve(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(Response, LookupOutcome), LookupError> {
        let api = self.api.as_ref().filter(|_| lookup.block == LookupBlock::Latest);
        if let Some(api) = api {
            let result = api.send(lookup, caller).await.and_then(|(response, outcome)| {
                Ok((response.filtered(&lookup.kind, self.reads.memory())?, outcome))
            });
            let error = match result {
                Ok((response, outcome)) => return Ok((response.into_response(), outcome)),
                Err(error) => error,
            };
            let Some(reason) = error.failover_reason().filter(|_| self.falls_back) else {
                return Err(error);
            };
            tracing::debug!(reason, "delegation API failed; falling back to the registry contract");
        }
        let chain = self.reads.chain(&lookup.chain_id.to_string());
        let registry = RegistryReader {
            address: self.registry,
            chain: chain.ok_or(LookupError::Chain(ReadError::Unavailable.into()))?,
            block: lookup.block,
            caller: reads::Caller {
                client: &caller.client,
                deadline: self.reads.deadline(),
                is_clients_call: false,
            },
            gas_log: &self.gas_log,
        };
        let json = registry.look_up(&lookup.kind).await?;
        let json = self.reads.memory().try_hold(json);
        let json = json.map_err(|_| LookupError::Chain(ReadError::NoMemory.into()))?;
        Ok((routes::chain_response(json), LookupOutcome::Chain))
    }
}

impl From<RegistryError> for LookupError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}
