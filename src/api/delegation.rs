//! `/registry/v2/…`: delegation look-ups, and transactions that change delegations.
//!
//! Parameters are validated before any upstream call. Responses have the shapes of delegate.xyz's REST API, whatever
//! their source.

mod parameters;
pub(super) mod transaction;
pub(super) mod unsigned_transaction;

use std::time::Instant;

use alloy_primitives::{Address, B256, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};

use super::openapi::components::{
    AmountResponse, ApiKeyHeader, CheckQuery, CheckResponse, CommonErrors, ContractQuery,
    InvalidParameter, LookupQuery, TokenQuery, UpstreamErrors,
};
use super::openapi::schemas::{self, DirectionName};
use super::problem::{PassThroughError, Problem, ProblemCode, whole_seconds};
use crate::client_limits::ClientHandle;
use crate::delegation::{
    ApiResponse, Caller, DelegationLookup, Delegations, LookupBlock, LookupError, LookupKind,
    LookupResponse, X_API_KEY,
};
use crate::delegation_registry::{Check, CheckScope, Direction};
use crate::reads::{ReadError, ReadRejection, Reads};
use parameters::{QueryParameters, invalid_parameter};

/// Response header: the source of the response, `api` or `chain`.
pub(super) const X_DELEGATION_SOURCE: HeaderName = HeaderName::from_static("x-delegation-source");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Delegations to and from an address
#[utoipa::path(
    get,
    path = "/registry/v2/{address}",
    operation_id = "getDelegations",
    tag = "Delegation",
    params(
        ("address" = schemas::Address, Path, description = "The address to look up."),
        (
            "direction" = inline(Option<DirectionName>),
            Query,
            description = "Delegations to the address (`incoming`) or from it (`outgoing`). Default: both.",
        ),
        LookupQuery, ApiKeyHeader
    ),
    responses(
        CommonErrors, InvalidParameter, UpstreamErrors,
        (status = 200, description = "The delegations.", body = Vec<crate::wire::Delegation>,
            headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary"))),
    )
)]
pub(super) async fn list_delegations(
    State(delegations): State<Delegations>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let address = path.map_or_else(|_| String::new(), |Path(address)| address);
    let address = parameters::parse_address("address", &address)?;
    let parameters = QueryParameters::parse(request.uri().query())?;
    let direction = match parameters.optional("direction")?.as_deref() {
        None => None,
        Some("incoming") => Some(Direction::Incoming),
        Some("outgoing") => Some(Direction::Outgoing),
        Some(_) => return Err(invalid_parameter("direction", "must be incoming or outgoing")),
    };
    let query = LookupKind::List { address, direction };
    let (lookup, caller) = build_lookup(query, &parameters, &request, delegations.reads())?;
    Ok(delegations.look_up(&lookup, &caller).await?.into_response())
}

/// Check whether an address may act for another in everything
#[utoipa::path(
    get,
    path = "/registry/v2/check/all",
    operation_id = "checkAll",
    tag = "Delegation",
    params(CheckQuery, LookupQuery, ApiKeyHeader),
    responses(CommonErrors, InvalidParameter, UpstreamErrors, CheckResponse)
)]
pub(super) async fn check_all(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check_scope(delegations, request, |_| Ok(CheckScope::All)).await
}

/// Check whether an address may act for another at a contract
#[utoipa::path(
    get,
    path = "/registry/v2/check/contract",
    operation_id = "checkContract",
    tag = "Delegation",
    params(CheckQuery, ContractQuery, LookupQuery, ApiKeyHeader),
    responses(CommonErrors, InvalidParameter, UpstreamErrors, CheckResponse)
)]
pub(super) async fn check_contract(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check_scope(delegations, request, |parameters| {
        Ok(CheckScope::Contract { contract: parse_contract(parameters)? })
    })
    .await
}

/// Check whether an address may act for another with a token of a contract
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc721",
    operation_id = "checkErc721",
    tag = "Delegation",
    params(CheckQuery, ContractQuery, TokenQuery, LookupQuery, ApiKeyHeader),
    responses(CommonErrors, InvalidParameter, UpstreamErrors, CheckResponse)
)]
pub(super) async fn check_erc721(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check_scope(delegations, request, |parameters| {
        Ok(CheckScope::Erc721 {
            contract: parse_contract(parameters)?,
            token_id: parse_token_id(parameters)?,
        })
    })
    .await
}

/// The amount of a token up to which an address may act for another
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc20",
    operation_id = "checkErc20",
    tag = "Delegation",
    params(CheckQuery, ContractQuery, LookupQuery, ApiKeyHeader),
    responses(CommonErrors, InvalidParameter, UpstreamErrors, AmountResponse)
)]
pub(super) async fn check_erc20(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check_scope(delegations, request, |parameters| {
        Ok(CheckScope::Erc20 { contract: parse_contract(parameters)? })
    })
    .await
}

/// The amount of an ERC-1155 token up to which an address may act for another
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc1155",
    operation_id = "checkErc1155",
    tag = "Delegation",
    params(CheckQuery, ContractQuery, TokenQuery, LookupQuery, ApiKeyHeader),
    responses(CommonErrors, InvalidParameter, UpstreamErrors, AmountResponse)
)]
pub(super) async fn check_erc1155(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check_scope(delegations, request, |parameters| {
        Ok(CheckScope::Erc1155 {
            contract: parse_contract(parameters)?,
            token_id: parse_token_id(parameters)?,
        })
    })
    .await
}

/// Checks whether one address may act for another, within the scope in the parameters.
async fn check_scope(
    delegations: Delegations,
    request: Request,
    scope: impl Fn(&QueryParameters<'_>) -> Result<CheckScope, Problem>,
) -> Result<Response, Problem> {
    let parameters = QueryParameters::parse(request.uri().query())?;
    let scope = scope(&parameters)?;
    let from = parameters.required("from", parameters::parse_address)?;
    let to = parameters.required("to", parameters::parse_address)?;
    let rights = match parameters.optional("rights")? {
        Some(rights) => parameters::parse_rights("rights", &rights)?,
        None => B256::ZERO,
    };
    let query = LookupKind::Check(Check { to, from, rights, scope });
    let (lookup, caller) = build_lookup(query, &parameters, &request, delegations.reads())?;
    Ok(delegations.look_up(&lookup, &caller).await?.into_response())
}

fn parse_contract(parameters: &QueryParameters<'_>) -> Result<Address, Problem> {
    parameters.required("contract", parameters::parse_address)
}

fn parse_token_id(parameters: &QueryParameters<'_>) -> Result<U256, Problem> {
    parameters.required("tokenId", parameters::parse_number)
}

/// Rejects a request while delegation look-ups are disabled.
pub(super) async fn disabled() -> Problem {
    Problem::new(ProblemCode::NotFound, "delegation look-ups are disabled")
}

/// Builds a look-up from its kind and the parameters that every look-up has.
fn build_lookup(
    query: LookupKind,
    parameters: &QueryParameters<'_>,
    request: &Request,
    reads: &Reads,
) -> Result<(DelegationLookup, Caller), Problem> {
    let chain_id = parse_chain_id(parameters, reads)?;
    let block = match parameters.optional("block")?.as_deref() {
        None | Some("latest") => LookupBlock::Latest,
        Some("pending") => LookupBlock::Pending,
        Some(_) => return Err(invalid_parameter("block", "must be latest or pending")),
    };
    let caller = Caller {
        key: client_api_key(request.headers())?,
        client: ClientHandle::from_request(request),
    };
    Ok((DelegationLookup { chain_id, kind: query, block }, caller))
}

/// Returns the requested chain id. Default: the lowest configured one.
fn parse_chain_id(parameters: &QueryParameters<'_>, reads: &Reads) -> Result<u64, Problem> {
    let mut configured_ids = reads.chains().iter().map(|chain| chain.chain().config().chain_id);
    let found = match parameters.optional("chainId")? {
        None => configured_ids.next(),
        Some(text) => {
            let id = parameters::parse_number("chainId", &text)?;
            configured_ids.find(|known| id == U256::from(*known))
        }
    };
    found.ok_or_else(|| {
        invalid_parameter(
            "chainId",
            "must be the id of a configured chain; GET /v1/chains lists them",
        )
    })
}

/// Returns the client's own key for the API. `None`: it sent none, or only empty ones. Two are an error.
fn client_api_key(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let mut keys = headers.get_all(X_API_KEY).iter().filter(|key| !key.is_empty());
    let key = keys.next().cloned().map(|mut key| {
        key.set_sensitive(true);
        key
    });
    if keys.next().is_some() {
        return Err(invalid_parameter("X-API-KEY", "must be given once"));
    }
    Ok(key)
}

impl From<LookupError> for Problem {
    fn from(failure: LookupError) -> Self {
        match failure {
            LookupError::BudgetExhausted(wait) => Self::lookup_budget_exhausted(wait),
            LookupError::Api(failure) => Self::from_upstream(failure, "delegation API"),
            LookupError::Chain(rejection) => rejection_problem(&rejection),
            LookupError::RegistryAbsent => Self::new(
                ProblemCode::RegistryAbsent,
                "this chain has no contract at the registry address",
            ),
            LookupError::RegistryInvalid => Self::new(
                ProblemCode::UpstreamInvalid,
                "the contract at the registry address is not a delegation registry",
            ),
            LookupError::NodeInvalid => Self::new(
                ProblemCode::UpstreamInvalid,
                "the chain's node returned an invalid response",
            ),
            LookupError::Reverted => Self::new(
                ProblemCode::UpstreamInvalid,
                "the chain's node reports that the transaction would fail",
            ),
            LookupError::NoMemory => Self::overloaded(),
        }
    }
}

/// Converts a rejected read of the chain into a problem.
fn rejection_problem(rejection: &ReadRejection) -> Problem {
    match rejection {
        ReadRejection::Overloaded | ReadRejection::Failed(ReadError::NoMemory) => {
            Problem::overloaded()
        }
        ReadRejection::Failed(ReadError::TimedOut) => {
            Problem::new(ProblemCode::UpstreamTimeout, "the chain's nodes did not respond in time")
        }
        ReadRejection::Failed(ReadError::TooLarge) => {
            Problem::new(ProblemCode::UpstreamInvalid, "the chain's response is too large")
        }
        // The first two cannot happen: the service's own reads are allowed and valid.
        ReadRejection::NotAllowed
        | ReadRejection::InvalidParams(_)
        | ReadRejection::Failed(
            ReadError::RateLimited | ReadError::Unsupported | ReadError::Unavailable,
        ) => Problem::new(
            ProblemCode::UpstreamUnreachable,
            "no node of the chain returned a usable response",
        ),
    }
}

impl IntoResponse for LookupResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Api(statement) => statement.into_response(),
            Self::Chain(json) => {
                const CHAIN: HeaderValue = HeaderValue::from_static("chain");
                let headers =
                    [(CONTENT_TYPE, JSON), (X_DELEGATION_SOURCE, CHAIN), (CACHE_CONTROL, NO_STORE)];
                (headers, json).into_response()
            }
        }
    }
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        const API: HeaderValue = HeaderValue::from_static("api");
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(X_DELEGATION_SOURCE, API);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A client with its own API key may get another result.
        headers.append(VARY, HeaderValue::from_name(X_API_KEY));
        let retry_after = self.retry_after.map(|wait| whole_seconds(wait).into());
        headers.extend(retry_after.map(|seconds| (RETRY_AFTER, seconds)));
        let max_age = self.fresh_for.as_secs();
        if self.status.is_success() && max_age > 0 {
            let cache_control = HeaderValue::try_from(format!("public, max-age={max_age}"));
            headers.insert(CACHE_CONTROL, cache_control.expect("letters and digits"));
            let age = Instant::now().saturating_duration_since(self.received_at);
            headers.insert(AGE, age.as_secs().into());
        } else {
            headers.insert(CACHE_CONTROL, NO_STORE);
        }
        response.extensions_mut().insert(PassThroughError);
        response
    }
}
