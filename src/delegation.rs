//! Look-ups of delegations (delegate.xyz): REST API, registry contract, or API with contract as fallback.
//!
//! A response names its source. An error is never reported as "no delegation".
//!
//! The contract is read through [`Reads`], with its coalescing and limits. The chain's allow-list does not apply, and
//! no cached result is used: a client that has a receipt may know a newer block than the polls.
//!
//! The API is called through a `Proxy`, but its responses are read whole. They must be JSON of the expected type; else
//! the contract is read, if it is the fallback. A request with a client's own key is neither cached nor coalesced: an
//! error about the key must not reach another client. It takes no permit of the rate limit either.

mod api_client;
mod budget;
mod circuit_breaker;
mod coalescing;
mod lookup;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, hex};
use bytes::Bytes;
use enum_map::{Enum, EnumMap};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

pub(crate) use api_client::{ApiResponse, Caller, X_API_KEY};
pub(crate) use lookup::{DelegationLookup, LookupBlock, LookupKind};

use crate::config::{self, DelegationSource};
use crate::delegation_registry::{
    CheckResult, Delegation, DelegationChange, Direction, InvalidReturnData,
};
use crate::json;
use crate::metrics::{Counter, Metrics, OutcomeLabels, counters};
use crate::proxy;
use crate::reads::{self, ChainReads, ReadError, ReadRejection, Reads, ReuseMode};
use crate::replicas::SharedBudget;
use crate::upstream::parse_quantity;
use crate::wire;
use api_client::{ApiClient, ApiError};
use coalescing::{CoalescingClient, ResponseSource, WaitPolicy};

/// Delegation look-ups. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Delegations {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None`: look-ups read the contract only.
    api: Option<CoalescingClient>,
    /// True if the contract is read when the API does not respond.
    falls_back: bool,
    registry: Address,
    reads: Reads,
    counters: EnumMap<LookupOutcome, Counter>,
}

/// Outcome of a look-up: the source of the response, or the reason for the failure.
#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum LookupOutcome {
    Cached,
    Coalesced,
    Api,
    Chain,
    /// The API returned an error.
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

/// Unsigned transaction: the call and its gas.
#[derive(Debug)]
pub(crate) struct PreparedTransaction {
    pub(crate) registry: Address,
    pub(crate) calldata: Vec<u8>,
    pub(crate) gas: u64,
}

/// Reason why a look-up has no response.
#[derive(Debug, Clone)]
pub(crate) enum LookupError {
    /// The API's rate limit is reached; retry after this time.
    BudgetExhausted(Duration),
    /// The API was not called, or did not respond.
    Api(proxy::ProxyError),
    /// The chain was not read, or did not respond.
    Chain(ReadRejection),
    /// No contract at the registry address.
    RegistryAbsent,
    /// The contract at the registry address is not a delegation registry: it reverted or returned malformed data.
    RegistryInvalid,
    /// A node returned an invalid result, or an error other than a revert.
    NodeInvalid,
    /// The registry reverts the transaction.
    Reverted,
    /// The memory budget is exhausted.
    NoMemory,
}

impl Delegations {
    /// Creates the look-ups of `config`; `None` if they are disabled. `reads` calls the chains. Replicas share the
    /// API's rate limit through `shared_budget`.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub fn new(
        config: &config::Delegation,
        reads: &Reads,
        shared_budget: Option<SharedBudget>,
        metrics: &Metrics,
    ) -> Result<Option<Self>, reqwest::Error> {
        let api = match config.source {
            DelegationSource::Off => return Ok(None),
            DelegationSource::Chain => None,
            DelegationSource::Api | DelegationSource::ApiThenChain => {
                let api = ApiClient::new(config, reads.memory(), shared_budget, metrics)?;
                Some(CoalescingClient::new(api, config.cache_ttl, metrics))
            }
        };
        let inner = Inner {
            api,
            falls_back: config.source == DelegationSource::ApiThenChain,
            registry: config.registry_address,
            reads: reads.clone(),
            counters: counters(&metrics.delegation_lookups_total, |outcome| OutcomeLabels {
                outcome,
            }),
        };
        Ok(Some(Self { inner: Arc::new(inner) }))
    }

    /// Returns the task that synchronises the rate limit with other replicas, if there are any. It never ends.
    #[must_use]
    pub fn sync_budget(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        self.inner.api.as_ref()?.sync_budget()
    }

    /// Returns the reads through which chains are called.
    pub(crate) fn reads(&self) -> &Reads {
        &self.inner.reads
    }

    /// Answers `lookup` about a configured chain. Pending state is always read from the chain. Takes at most the wait
    /// for a permit and the deadline of the API, plus that of a read if the chain is read.
    ///
    /// # Errors
    ///
    /// Returns the error of the last source.
    pub(crate) async fn look_up(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<LookupResponse, LookupError> {
        let (result, outcome) = match self.resolve(lookup, caller).await {
            Ok((response, outcome)) => (Ok(response), outcome),
            Err(error @ LookupError::BudgetExhausted(_)) => {
                (Err(error), LookupOutcome::BudgetExhausted)
            }
            Err(error) => (Err(error), LookupOutcome::Failed),
        };
        self.inner.counters[outcome].increment();
        result
    }

    /// Prepares the transaction that makes `change` for `from` on `chain`, as of its newest block.
    ///
    /// # Errors
    ///
    /// Fails if the registry is absent, reverts, or cannot be read.
    pub(crate) async fn prepare(
        &self,
        chain: &ChainReads,
        from: Address,
        change: &DelegationChange,
    ) -> Result<PreparedTransaction, LookupError> {
        let registry = self.inner.registry;
        let calldata = change.calldata();
        let deadline = self.inner.reads.deadline();
        let [from, to] = [from, registry].map(|address| address.to_string());
        let call = json!({ "from": from, "to": to, "data": hex::encode_prefixed(&calldata) });
        // Not coalesced: a call in flight may have begun before the last block.
        let code =
            read_chain(chain, "eth_getCode", &json!([to, LATEST]), ReuseMode::Never, deadline)
                .await?;
        let reads::NodeResponse::Result(code) = code else { return Err(LookupError::NodeInvalid) };
        // A transaction to an address without code succeeds without any effect.
        if decode_hex(&code).ok_or(LookupError::NodeInvalid)?.is_empty() {
            return Err(LookupError::RegistryAbsent);
        }
        let gas = read_chain(
            chain,
            "eth_estimateGas",
            &json!([call, LATEST]),
            ReuseMode::Never,
            deadline,
        )
        .await?;
        match gas {
            reads::NodeResponse::Result(gas) => {
                let gas = parse_gas(&gas).ok_or(LookupError::NodeInvalid)?;
                Ok(PreparedTransaction { registry, calldata, gas })
            }
            reads::NodeResponse::Error(error) if is_revert(&error) => Err(LookupError::Reverted),
            reads::NodeResponse::Error(_) => Err(LookupError::NodeInvalid),
        }
    }

    async fn resolve(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(LookupResponse, LookupOutcome), LookupError> {
        let Inner { api, falls_back, .. } = &*self.inner;
        let api = api.as_ref().filter(|_| lookup.block == LookupBlock::Latest);
        if let Some(api) = api {
            match self.query_api(api, lookup, caller).await {
                Ok((response, source)) => {
                    let outcome = match source {
                        ResponseSource::Cache => LookupOutcome::Cached,
                        ResponseSource::Coalesced => LookupOutcome::Coalesced,
                        ResponseSource::Api => LookupOutcome::Api,
                    };
                    return Ok((LookupResponse::Api(response), outcome));
                }
                Err(error) if *falls_back && error.allows_failover() => {
                    let reason = error.reason();
                    tracing::debug!(
                        reason,
                        "delegation API failed; falling back to the registry contract"
                    );
                }
                Err(ApiError::ErrorResponse(response)) => {
                    return Ok((LookupResponse::Api(response), LookupOutcome::Rejected));
                }
                Err(ApiError::BudgetExhausted(wait)) => {
                    return Err(LookupError::BudgetExhausted(wait));
                }
                Err(ApiError::Failed(failure)) => return Err(LookupError::Api(failure)),
                // Only returned when the chain is the fallback.
                Err(ApiError::CircuitOpen) => {
                    return Err(LookupError::Api(proxy::ProxyError::Timeout));
                }
                Err(ApiError::NoMemory) => return Err(LookupError::NoMemory),
            }
        }
        let body = self.query_chain(lookup).await?;
        Ok((LookupResponse::Chain(body), LookupOutcome::Chain))
    }

    /// Returns the response of the API, filtered by the requested direction.
    async fn query_api(
        &self,
        client: &CoalescingClient,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(ApiResponse, ResponseSource), ApiError> {
        let wait_policy =
            if self.inner.falls_back { WaitPolicy::UnlessCircuitOpen } else { WaitPolicy::Always };
        let (response, source) = client.send(lookup, caller, wait_policy).await?;
        let response = match lookup.kind {
            LookupKind::List { address, direction: Some(direction) } => {
                response.filtered(direction, address, self.inner.reads.memory())?
            }
            LookupKind::List { direction: None, .. } | LookupKind::Check(_) => response,
        };
        Ok((response, source))
    }

    /// Builds the response from the registry contract.
    async fn query_chain(&self, lookup: &DelegationLookup) -> Result<Bytes, LookupError> {
        let reads = &self.inner.reads;
        let chain = reads.chain(&lookup.chain_id.to_string());
        let chain = chain.ok_or(LookupError::Chain(ReadError::Unavailable.into()))?;
        let registry = RegistryReader {
            address: self.inner.registry,
            chain,
            tag: lookup.block.as_str(),
            deadline: reads.deadline(),
        };
        let json = match &lookup.kind {
            LookupKind::Check(check) => {
                match check.decode_result(&registry.call(check.calldata()).await?)? {
                    CheckResult::Allowed(is_allowed) => to_raw_value(&is_allowed),
                    CheckResult::Amount(amount) => to_raw_value(&amount.to_string()),
                }
            }
            LookupKind::List { address, direction: Some(direction) } => {
                delegations_json(&registry.list(*direction, *address).await?)
            }
            LookupKind::List { address, direction: None } => {
                let mut both = registry.list(Direction::Incoming, *address).await?;
                let mut outgoing = registry.list(Direction::Outgoing, *address).await?;
                // Self-delegations are in both lists.
                outgoing.retain(|delegation| !delegation.is_self_delegation());
                both.append(&mut outgoing);
                delegations_json(&both)
            }
        };
        let json: Box<RawValue> = json.expect("strings and their lists serialise");
        let mut reservation = reads.memory().reservation();
        reservation.try_grow(json.get().len()).map_err(|_| LookupError::NoMemory)?;
        Ok(reservation.into_bytes(Box::<str>::from(json).into_string().into_bytes()))
    }
}

fn delegations_json(delegations: &[Delegation]) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&delegations.iter().map(wire::Delegation::from).collect::<Vec<_>>())
}

const LATEST: &str = LookupBlock::Latest.as_str();

/// The registry contract on one chain, in one state.
struct RegistryReader<'a> {
    address: Address,
    chain: &'a ChainReads,
    tag: &'static str,
    deadline: Instant,
}

impl RegistryReader<'_> {
    async fn list(
        &self,
        direction: Direction,
        address: Address,
    ) -> Result<Vec<Delegation>, LookupError> {
        let returned = self.call(direction.calldata(address)).await?;
        Ok(Delegation::decode_list(&returned)?)
    }

    /// Calls the registry and returns its return data.
    async fn call(&self, calldata: Vec<u8>) -> Result<Vec<u8>, LookupError> {
        let call =
            json!({ "to": self.address.to_string(), "data": hex::encode_prefixed(calldata) });
        let params = json!([call, self.tag]);
        match read_chain(self.chain, "eth_call", &params, ReuseMode::Coalesced, self.deadline)
            .await?
        {
            reads::NodeResponse::Result(returned) => {
                decode_hex(&returned).ok_or(LookupError::NodeInvalid)
            }
            // The registry never reverts a look-up, so another contract is at the address.
            reads::NodeResponse::Error(error) if is_revert(&error) => {
                Err(LookupError::RegistryInvalid)
            }
            reads::NodeResponse::Error(_) => Err(LookupError::NodeInvalid),
        }
    }
}

/// Decodes a JSON string of hex bytes.
fn decode_hex(json: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::from_slice::<Cow<str>>(json).ok()?;
    text.starts_with("0x").then(|| hex::decode(&*text).ok()).flatten()
}

/// Parses a gas estimate; `None` if no transaction can use that much or that little.
fn parse_gas(json: &[u8]) -> Option<u64> {
    /// Gas of an empty transaction (yellow paper, appendix G).
    const MIN_GAS: u64 = 21_000;
    /// Plausibility limit, over a thousand times what a delegation uses.
    const MAX_GAS: u64 = 1_000_000_000;
    let gas = parse_quantity(str::from_utf8(json).ok()?).ok()?;
    u64::try_from(gas).ok().filter(|gas| (MIN_GAS..=MAX_GAS).contains(gas))
}

/// Returns true if a node's error is a revert of the called contract.
fn is_revert(error: &[u8]) -> bool {
    const EXECUTION_REVERTED: i64 = 3;
    #[derive(Deserialize)]
    struct NodeError<'a> {
        code: Option<i64>,
        #[serde(borrow)]
        message: Option<Cow<'a, str>>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    serde_json::from_slice::<NodeError>(error).is_ok_and(|error| {
        let data = error.data.and_then(json::parse_string);
        let mut texts = [error.message, data].into_iter().flatten();
        error.code == Some(EXECUTION_REVERTED)
            || texts.any(|text| text.to_ascii_lowercase().contains("revert"))
    })
}

async fn read_chain(
    chain: &ChainReads,
    method: &str,
    params: &Value,
    reuse: ReuseMode,
    deadline: Instant,
) -> Result<reads::NodeResponse, LookupError> {
    let params = to_raw_value(params).expect("a value serialises");
    chain.call_for_service(method, &params, reuse, deadline).await.map_err(LookupError::Chain)
}

impl From<InvalidReturnData> for LookupError {
    fn from(error: InvalidReturnData) -> Self {
        match error {
            InvalidReturnData::NoContract => Self::RegistryAbsent,
            InvalidReturnData::Malformed => Self::RegistryInvalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revert_is_recognised_by_code_or_text() {
        for error in [
            r#"{"code":3,"message":"no reason"}"#,
            r#"{"code":-32000,"message":"Execution Reverted"}"#,
            r#"{"code":-32015,"message":"VM error","data":"revert: denied"}"#,
        ] {
            assert!(is_revert(error.as_bytes()), "{error}");
        }
        for error in [
            r#"{"code":-32000,"message":"header not found"}"#,
            r#"{"code":-32000,"data":{"reason":"revert"}}"#,
            r#"{"message":7}"#,
            r#""revert""#,
        ] {
            assert!(!is_revert(error.as_bytes()), "{error}");
        }
    }

    #[test]
    fn a_gas_estimate_must_be_plausible() {
        for (json, expected) in [
            ("\"0x5208\"", Some(21_000)),
            ("\"0x3b9aca00\"", Some(1_000_000_000)),
            ("\"0x5207\"", None),
            ("\"0x3b9aca01\"", None),
            ("\"0x10000000000005208\"", None),
            ("21000", Some(21_000)),
            ("null", None),
        ] {
            assert_eq!(parse_gas(json.as_bytes()), expected, "{json}");
        }
    }
}
