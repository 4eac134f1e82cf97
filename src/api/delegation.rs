//! `/registry/v2/…`: who may act for whom, and transactions that change it.
//!
//! Every parameter is checked before anybody is asked. The shapes are those of the REST API of
//! delegate.xyz, whoever answers.

mod parameters;
pub(super) mod transaction;
pub(super) mod unsigned;

use std::time::Instant;

use alloy_primitives::{Address, B256, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};

use super::described::{
    Amount, ApiKey, Check as Checked, DelegationAddress, DelegationDirection,
    Delegations as Listed, LookUp, OfCheck, OfContract, OfEveryRoute, OfLookUps, OfToken, tag,
};
use super::problem::{Code, NotOurs, Problem, whole_seconds};
use crate::clients::Purse;
use crate::delegation::{
    Answer, Block, Caller, Delegations, Failure, Lookup, Question, Statement, X_API_KEY,
};
use crate::reads::{Reads, Refusal, Unanswered};
use crate::registry::{Check, Direction, Scope};
use parameters::{Parameters, wrong};

/// Who answered.
pub(super) const X_DELEGATION_SOURCE: HeaderName = HeaderName::from_static("x-delegation-source");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The delegations to and from an address
#[utoipa::path(
    get,
    path = "/registry/v2/{address}",
    operation_id = "getDelegations",
    tag = tag::DELEGATION,
    params(DelegationAddress, DelegationDirection, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Listed)
)]
pub(super) async fn list(
    State(delegations): State<Delegations>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let address = path.map_or_else(|_| String::new(), |Path(address)| address);
    let address = parameters::address("address", &address)?;
    let parameters = Parameters::of(request.uri().query())?;
    let direction = match parameters.optional("direction")?.as_deref() {
        None => None,
        Some("incoming") => Some(Direction::Incoming),
        Some("outgoing") => Some(Direction::Outgoing),
        Some(_) => return Err(wrong("direction", "must be incoming or outgoing")),
    };
    let question = Question::List { address, direction };
    let (lookup, caller) = asked(question, &parameters, &request, delegations.reads())?;
    Ok(delegations.look_up(&lookup, &caller).await?.into_response())
}

/// Whether one address may act for another in everything
#[utoipa::path(
    get,
    path = "/registry/v2/check/all",
    operation_id = "checkAll",
    tag = tag::DELEGATION,
    params(OfCheck, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Checked)
)]
pub(super) async fn check_all(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check(delegations, request, |_| Ok(Scope::All)).await
}

/// Whether one address may act for another at a contract
#[utoipa::path(
    get,
    path = "/registry/v2/check/contract",
    operation_id = "checkContract",
    tag = tag::DELEGATION,
    params(OfCheck, OfContract, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Checked)
)]
pub(super) async fn check_contract(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check(delegations, request, |parameters| {
        Ok(Scope::Contract { contract: contract(parameters)? })
    })
    .await
}

/// Whether one address may act for another with a token of a contract
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc721",
    operation_id = "checkErc721",
    tag = tag::DELEGATION,
    params(OfCheck, OfContract, OfToken, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Checked)
)]
pub(super) async fn check_erc721(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check(delegations, request, |parameters| {
        Ok(Scope::Erc721 { contract: contract(parameters)?, token_id: token_id(parameters)? })
    })
    .await
}

/// Up to which amount one address may act for another with a token
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc20",
    operation_id = "checkErc20",
    tag = tag::DELEGATION,
    params(OfCheck, OfContract, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Amount)
)]
pub(super) async fn check_erc20(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check(delegations, request, |parameters| Ok(Scope::Erc20 { contract: contract(parameters)? }))
        .await
}

/// Up to which amount one address may act for another with a token of a contract
#[utoipa::path(
    get,
    path = "/registry/v2/check/erc1155",
    operation_id = "checkErc1155",
    tag = tag::DELEGATION,
    params(OfCheck, OfContract, OfToken, LookUp, ApiKey),
    responses(OfEveryRoute, OfLookUps, Amount)
)]
pub(super) async fn check_erc1155(
    State(delegations): State<Delegations>,
    request: Request,
) -> Result<Response, Problem> {
    check(delegations, request, |parameters| {
        Ok(Scope::Erc1155 { contract: contract(parameters)?, token_id: token_id(parameters)? })
    })
    .await
}

/// Whether one address may act for another, within the scope that is in the parameters.
async fn check(
    delegations: Delegations,
    request: Request,
    scope: impl Fn(&Parameters<'_>) -> Result<Scope, Problem>,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(request.uri().query())?;
    let scope = scope(&parameters)?;
    let from = parameters.required("from", parameters::address)?;
    let to = parameters.required("to", parameters::address)?;
    let rights = match parameters.optional("rights")? {
        Some(rights) => parameters::rights("rights", &rights)?,
        None => B256::ZERO,
    };
    let question = Question::Check(Check { to, from, rights, scope });
    let (lookup, caller) = asked(question, &parameters, &request, delegations.reads())?;
    Ok(delegations.look_up(&lookup, &caller).await?.into_response())
}

fn contract(parameters: &Parameters<'_>) -> Result<Address, Problem> {
    parameters.required("contract", parameters::address)
}

fn token_id(parameters: &Parameters<'_>) -> Result<U256, Problem> {
    parameters.required("tokenId", parameters::number)
}

/// What there is to say where delegations are not looked up.
pub(super) async fn switched_off() -> Problem {
    Problem::new(Code::NotFound, "delegation look-ups are switched off here")
}

/// What every look-up has beside its question.
fn asked(
    question: Question,
    parameters: &Parameters<'_>,
    request: &Request,
    reads: &Reads,
) -> Result<(Lookup, Caller), Problem> {
    let chain_id = chain_id(parameters, reads)?;
    let block = match parameters.optional("block")?.as_deref() {
        None | Some("latest") => Block::Latest,
        Some("pending") => Block::Pending,
        Some(_) => return Err(wrong("block", "must be latest or pending")),
    };
    let caller = Caller { key: key(request.headers())?, purse: Purse::of(request) };
    Ok((Lookup { chain_id, question, block }, caller))
}

/// The chain that is asked about, the one with the lowest id where none is named.
fn chain_id(parameters: &Parameters<'_>, reads: &Reads) -> Result<u64, Problem> {
    let mut known = reads.chains().iter().map(|chain| chain.chain().config().chain_id);
    let found = match parameters.optional("chainId")? {
        None => known.next(),
        Some(text) => {
            let id = parameters::number("chainId", &text)?;
            known.find(|known| id == U256::from(*known))
        }
    };
    found.ok_or_else(|| {
        wrong("chainId", "must be the id of a chain here; GET /v1/chains lists those there are")
    })
}

/// The client's own key for the API.
fn key(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let mut keys = headers.get_all(X_API_KEY).iter().filter(|key| !key.is_empty());
    let key = keys.next().cloned().map(|mut key| {
        key.set_sensitive(true);
        key
    });
    if keys.next().is_some() {
        return Err(wrong("X-API-KEY", "must be given once"));
    }
    Ok(key)
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Spent(wait) => Self::budget_spent(wait),
            Failure::Api(failure) => Self::of_upstream(failure, "delegation API"),
            Failure::Chain(refusal) => of_chain(&refusal),
            Failure::RegistryAbsent => Self::new(
                Code::RegistryAbsent,
                "the chain has no contract at the registry's address",
            ),
            Failure::RegistryInvalid => Self::new(
                Code::UpstreamInvalid,
                "what is at the registry's address does not answer like the registry",
            ),
            Failure::NodeInvalid => Self::new(
                Code::UpstreamInvalid,
                "what the chain's node answered is no answer to this",
            ),
            Failure::Refused => Self::new(
                Code::UpstreamInvalid,
                "the chain's node finds that this transaction would fail",
            ),
            Failure::NoMemory => Self::overloaded(),
        }
    }
}

/// Why the chain did not answer.
fn of_chain(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Overloaded | Refusal::Unanswered(Unanswered::NoMemory) => Problem::overloaded(),
        Refusal::Unanswered(Unanswered::TimedOut) => Problem::new(
            Code::UpstreamTimeout,
            "the chain's nodes gave no answer within the time they have",
        ),
        Refusal::Unanswered(Unanswered::TooLarge) => {
            Problem::new(Code::UpstreamInvalid, "the chain's answer is too large")
        }
        // What the service asks for itself is neither forbidden nor wrong.
        Refusal::NotAllowed
        | Refusal::InvalidParams(_)
        | Refusal::Unanswered(
            Unanswered::RateLimited | Unanswered::Unsupported | Unanswered::Unavailable,
        ) => Problem::new(Code::UpstreamUnreachable, "none of the chain's nodes gave an answer"),
    }
}

impl IntoResponse for Answer {
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

impl IntoResponse for Statement {
    fn into_response(self) -> Response {
        const API: HeaderValue = HeaderValue::from_static("api");
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(X_DELEGATION_SOURCE, API);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // With a key of its own a client may be told something else.
        headers.append(VARY, HeaderValue::from_name(X_API_KEY));
        let retry_after = self.retry_after.map(|wait| whole_seconds(wait).into());
        headers.extend(retry_after.map(|seconds| (RETRY_AFTER, seconds)));
        let good_for = self.good_for.as_secs();
        if self.status.is_success() && good_for > 0 {
            let cache_control = HeaderValue::try_from(format!("public, max-age={good_for}"));
            headers.insert(CACHE_CONTROL, cache_control.expect("letters and digits"));
            let age = Instant::now().saturating_duration_since(self.received);
            headers.insert(AGE, age.as_secs().into());
        } else {
            headers.insert(CACHE_CONTROL, NO_STORE);
        }
        response.extensions_mut().insert(NotOurs);
        response
    }
}
