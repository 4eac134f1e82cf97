//! `/registry/v2/…`: delegation look-ups.
//!
//! Parameters are validated before any upstream call. Responses have the shapes of delegate.xyz's REST API, whatever
//! their source.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, VARY,
};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;

use super::address::AddressText;
use super::openapi::{
    AmountResponse, ApiKeyHeader, CheckResponse, ListedDelegation, Schemas, UpstreamErrors,
};
use super::parameters::{
    ChainId, CheckQuery, ContractQuery, ListQuery, LookupQuery, RenamedCheckQuery, TokenQuery,
};
use super::registry::{Check, CheckScope, RegistryError};
use super::strict_query::StrictQuery;
use super::{
    ApiResponse, Caller, DelegationLookup, Delegations, LookupBlock, LookupError, LookupKind,
    X_API_KEY,
};
use crate::api::routes::Routes;
use crate::api::routes::{routes, with_schemas};
use crate::config::address;
use crate::extras::proxy;
use crate::extras::reads::{ReadError, ReadRejection};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{PassThroughError, Problem, ProblemCode, whole_seconds};
use crate::http::query::invalid_parameter;
use crate::nodes::Exhausted;
use crate::observe::clock;

/// Response header: the source of the response, `api` or `chain`.
pub(crate) const X_DELEGATION_SOURCE: HeaderName = HeaderName::from_static("x-delegation-source");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Tag of the routes in the OpenAPI document.
const TAG: &str = "Delegation";

const LIST_PATH: &str = "/registry/v2/{address}";

/// Answers requests with what switches the look-ups on.
pub(super) fn switch_off(routes: &mut Routes, is_recorded: bool) {
    let switch = "set delegation.source to \"api\", \"chain\" or \"api-then-chain\"";
    let problem = proxy::switched_off("the delegation registry", switch, is_recorded);
    routes.switch_off([LIST_PATH, "/registry/v2/check/{scope}"], &problem);
}

/// Returns the routes. A look-up may query two sources in turn, so they need a deadline of their own.
pub(super) fn routes(delegations: Delegations) -> OpenApiRouter {
    with_schemas::<Schemas, _>()
        .routes(routes!(list_delegations))
        .routes(routes!(check_all))
        .routes(routes!(check_contract))
        .routes(routes!(check_erc721))
        .routes(routes!(check_erc20))
        .routes(routes!(check_erc1155))
        .with_state(Arc::new(delegations))
}

/// Delegations to and from an address
#[utoipa::path(
    get,
    path = LIST_PATH,
    operation_id = "getDelegations",
    tag = TAG,
    params(
        ("address" = AddressText, Path, description = "The address to look up."),
        ListQuery, LookupQuery, ApiKeyHeader
    ),
    responses(
        UpstreamErrors,
        (status = 200, description = "The delegations.", body = inline(Vec<ListedDelegation>),
            headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary"))),
    )
)]
pub(crate) async fn list_delegations(
    State(delegations): State<Arc<Delegations>>,
    path: Result<Path<String>, PathRejection>,
    StrictQuery((query, lookup)): StrictQuery<(ListQuery, LookupQuery)>,
    request: Request,
) -> Result<Response, Problem> {
    let address = path.map_or_else(|_| String::new(), |Path(address)| address);
    let address =
        address::parse(&address).map_err(|reason| invalid_parameter("address", reason))?;
    let kind = LookupKind::List { address, direction: query.direction };
    look_up(delegations, kind, lookup, request).await
}

/// Defines the handlers of the checks, with their documentation.
macro_rules! check_routes {
    ($($(#[$doc:meta])* $name:ident, $path:literal, $id:literal, $check:ident, [$($query:ident $value:ident),*] $scope:expr => $result:ident;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(
            get,
            path = $path,
            operation_id = $id,
            tag = TAG,
            params(CheckQuery, $($query,)* LookupQuery, ApiKeyHeader),
            responses(UpstreamErrors, $result)
        )]
        pub(crate) async fn $name(
            State(delegations): State<Arc<Delegations>>,
            StrictQuery((check, $($value,)* lookup)): StrictQuery<($check, $($query,)* LookupQuery)>,
            request: Request,
        ) -> Result<Response, Problem> {
            let rights = check.rights.unwrap_or_default().0;
            let check = Check { to: check.to.into(), from: check.from.into(), rights, scope: $scope };
            look_up(delegations, LookupKind::Check(check), lookup, request).await
        }
    )*};
}

check_routes! {
    /// Check whether an address may act for another in everything
    check_all, "/registry/v2/check/all", "checkAll", CheckQuery,
    [] CheckScope::All => CheckResponse;
    /// Check whether an address may act for another at a contract
    check_contract, "/registry/v2/check/contract", "checkContract", CheckQuery,
    [ContractQuery at] CheckScope::Contract { contract: at.contract.into() } => CheckResponse;
    /// Check whether an address may act for another with a token of a contract
    check_erc721, "/registry/v2/check/erc721", "checkErc721", RenamedCheckQuery,
    [ContractQuery at, TokenQuery token]
    CheckScope::Erc721 { contract: at.contract.into(), token_id: token.token_id.0 } => CheckResponse;
    /// The amount of a token up to which an address may act for another
    check_erc20, "/registry/v2/check/erc20", "checkErc20", CheckQuery,
    [ContractQuery at] CheckScope::Erc20 { contract: at.contract.into() } => AmountResponse;
    /// The amount of an ERC-1155 token up to which an address may act for another
    check_erc1155, "/registry/v2/check/erc1155", "checkErc1155", CheckQuery,
    [ContractQuery at, TokenQuery token]
    CheckScope::Erc1155 { contract: at.contract.into(), token_id: token.token_id.0 } => AmountResponse;
}

/// Answers a look-up of this kind, with the parameters that every look-up has.
async fn look_up(
    delegations: Arc<Delegations>,
    kind: LookupKind,
    lookup: LookupQuery,
    request: Request,
) -> Result<Response, Problem> {
    let requested_id = lookup.chain_id.map(|ChainId(id)| id);
    let mut chain_ids =
        delegations.reads.chains().iter().map(|chain| chain.chain().config().chain_id);
    let chain_id = chain_ids.find(|id| requested_id.is_none_or(|requested| requested == *id));
    let chain_id = chain_id.ok_or_else(|| {
        let requirement = "must be the id of a configured chain; GET /v1/chains lists them";
        invalid_parameter("chainId", requirement)
    })?;
    let block = lookup.block.unwrap_or(LookupBlock::Latest);
    let caller = Caller {
        key: client_api_key(request.headers())?,
        client: ClientHandle::from_request(&request),
    };
    let lookup = DelegationLookup { chain_id, kind, block };
    Ok(delegations.look_up(&lookup, &caller).await.into_response())
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

impl IntoResponse for LookupError {
    fn into_response(self) -> Response {
        let rate_limited = |detail: &'static str, wait| {
            Problem::new(ProblemCode::RateLimited, detail).with_retry_after(wait)
        };
        let problem = match self {
            Self::ErrorResponse(response) => return response.into_response(),
            Self::BudgetExhausted(Exhausted { wait, is_share: false }) => {
                rate_limited("delegation API rate limit reached; retry later", wait)
            }
            Self::BudgetExhausted(Exhausted { wait, is_share: true }) => rate_limited(
                "this client's share of the delegation API's rate limit is reached; retry later",
                wait,
            ),
            Self::KeyRefused(wait) => {
                rate_limited("the delegation API has refused this X-API-KEY; retry later", wait)
            }
            Self::Api(error) => error.problem("delegation API"),
            Self::Chain(rejection) => chain_problem(&rejection),
            Self::Registry(error) => Problem::new(error.code(), error.to_string()),
        };
        problem.into_response()
    }
}

/// Returns the problem of a chain that was not read, or did not respond.
fn chain_problem(rejection: &ReadRejection) -> Problem {
    let (code, detail) = match rejection {
        ReadRejection::Overloaded | ReadRejection::Failed(ReadError::NoMemory) => {
            return Problem::overloaded();
        }
        ReadRejection::TooManyPerClient => return Problem::too_many_concurrent(),
        ReadRejection::Failed(ReadError::BudgetExhausted(exhausted)) => {
            let problem = if exhausted.is_share {
                Problem::new(ProblemCode::RateLimited, exhausted.to_string())
            } else {
                let detail = "the chain's nodes are rate limiting; retry later";
                Problem::new(ProblemCode::Overloaded, detail)
            };
            return problem.with_retry_after(exhausted.wait);
        }
        ReadRejection::Failed(ReadError::TimedOut) => {
            (ProblemCode::UpstreamTimeout, "the chain's nodes did not respond in time")
        }
        _ => {
            let detail = "no node of the chain returned a usable response";
            (ProblemCode::UpstreamUnreachable, detail)
        }
    };
    Problem::new(code, detail)
}

impl RegistryError {
    fn code(self) -> ProblemCode {
        match self {
            Self::NoContract => ProblemCode::RegistryAbsent,
            Self::TooManyDelegations => ProblemCode::TooManyDelegations,
            Self::Invalid | Self::InvalidResponse | Self::OutOfGas | Self::TooLarge => {
                ProblemCode::UpstreamInvalid
            }
        }
    }
}

/// Returns the response with JSON from the registry contract.
pub(super) fn chain_response(json: Bytes) -> Response {
    const CHAIN: HeaderValue = HeaderValue::from_static("chain");
    let headers = [(CONTENT_TYPE, JSON), (X_DELEGATION_SOURCE, CHAIN), (CACHE_CONTROL, NO_STORE)];
    (headers, json).into_response()
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        const API: HeaderValue = HeaderValue::from_static("api");
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(X_DELEGATION_SOURCE, API);
        // A client with its own API key may get another result.
        headers.append(VARY, HeaderValue::from_name(X_API_KEY));
        let retry_after = self.retry_after.map(|wait| whole_seconds(wait).into());
        headers.extend(retry_after.map(|seconds| (RETRY_AFTER, seconds)));
        let max_age = self.fresh_for.as_secs();
        if self.status.is_success() && max_age > 0 {
            let cache_control = HeaderValue::try_from(format!("public, max-age={max_age}"));
            headers.insert(CACHE_CONTROL, cache_control.expect("letters and digits"));
            let age = clock::now().saturating_duration_since(self.received_at);
            headers.insert(AGE, age.as_secs().into());
        } else {
            headers.insert(CACHE_CONTROL, NO_STORE);
        }
        response.extensions_mut().insert(PassThroughError);
        response
    }
}
