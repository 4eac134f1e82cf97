//! `POST /v1/{chain}/delegations/transactions`: an unsigned transaction that delegates rights or revokes them. Nothing
//! is signed or sent.

use alloy_primitives::{Address, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::unsigned_transaction::UnsignedTransaction;
use super::{JSON, TAG, TRANSACTIONS_PATH};
use crate::api::extractors::ChainParam;
use crate::api::freshness::write_uncached_snapshot_headers;
use crate::api::problems;
use crate::extras::delegation::Delegations;
use crate::extras::delegation::openapi::TransactionRequest;
use crate::extras::delegation::parameters::{Rights, Uint256};
use crate::extras::delegation::registry::{DelegationChange, DelegationScope};
use crate::http::address::AddressText;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::invalid_parameter;
use crate::http::request_body;
use crate::nodes::json;

/// Largest request body in bytes, far above any valid one.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Prepare a transaction that delegates rights or revokes them
///
/// Nothing is signed or sent. The fees are those of the current medium tier.
#[utoipa::path(
    post,
    path = TRANSACTIONS_PATH,
    operation_id = "prepareDelegation",
    tag = TAG,
    params(ChainParam),
    request_body(content = TransactionRequest, content_type = "application/json"),
    responses(
        (status = 200, description = "The transaction, in the format of `eth_sendTransaction`.",
            body = UnsignedTransaction,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn prepare_transaction(
    State(delegations): State<Delegations>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let reads = delegations.reads();
    let name = chain.map_or_else(|_| String::new(), |Path(name)| name);
    let chain = reads.chain(&name).ok_or_else(|| Problem::unknown_chain(&name, reads.keys()))?;
    let client = ClientHandle::from_request(&request);
    let body = request_body::read_body(request, MAX_BODY_BYTES, reads.memory()).await?;
    let (from, change) = parse_request(&body)?;
    let unavailable = |reason| problems::unavailable(chain.chain(), reason);
    // Without fees no call to the chain is needed.
    chain.chain().servable_snapshot().map_err(unavailable)?;
    let prepared = delegations.prepare(chain, from, &change, &client).await?;
    let current = chain.chain().servable_snapshot().map_err(unavailable)?;
    let snapshot = &current.snapshot;
    let chain_id = chain.chain().config().chain_id;
    let transaction =
        UnsignedTransaction::new(chain_id, from, &prepared, &snapshot.market.suggestion);
    let mut headers = HeaderMap::new();
    write_uncached_snapshot_headers(&mut headers, chain.chain(), &current);
    headers.insert(CONTENT_TYPE, JSON);
    let body = serde_json::to_vec(&transaction).expect("a struct of strings serialises");
    Ok((headers, body).into_response())
}

/// A change of a delegation as clients send it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestBody {
    from: AddressText,
    to: AddressText,
    action: Action,
    #[serde(default, deserialize_with = "not_null")]
    contract: Option<AddressText>,
    #[serde(default, deserialize_with = "not_null")]
    token_id: Option<Number>,
    #[serde(default, deserialize_with = "not_null")]
    amount: Option<Number>,
    #[serde(default)]
    rights: Rights,
    #[serde(default, deserialize_with = "not_null")]
    enable: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    DelegateAll,
    DelegateContract,
    DelegateErc721,
    DelegateErc20,
    DelegateErc1155,
}

/// A string of decimal digits, or an integer that no JSON implementation rounds.
#[derive(Debug)]
struct Number(U256);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
        let json = <&RawValue>::deserialize(input)?;
        if let Some(text) = json::parse_string(json) {
            return Uint256::try_from(text)
                .map(|Uint256(number)| Self(number))
                .map_err(D::Error::custom);
        }
        // 1.0 is an integer to JSON Schema and to clients that write all numbers as floats.
        let (digits, fraction) = json.get().split_once('.').unwrap_or((json.get(), ""));
        let is_whole = fraction.bytes().all(|digit| digit == b'0');
        let number: Option<u64> =
            digits.parse().ok().filter(|number| is_whole && *number <= MAX_SAFE_INTEGER);
        number.map(|number| Self(U256::from(number))).ok_or_else(|| {
            D::Error::custom("must be a string of decimal digits, or an integer up to 2^53 - 1")
        })
    }
}

/// Rejects `null`: the client has probably forgotten a value.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

/// Parses the body into the vault and the change. A member that does not apply to the action is rejected: a client that
/// names a token means to delegate no more than that.
pub(crate) fn parse_request(body: &[u8]) -> Result<(Address, DelegationChange), Problem> {
    let body = parse_body(body)?;
    let enable = body.enable.unwrap_or(true);
    let used: &[&str] = match body.action {
        Action::DelegateAll => &[],
        Action::DelegateContract => &["contract"],
        Action::DelegateErc721 => &["contract", "token_id"],
        Action::DelegateErc20 => &["contract", "amount"],
        Action::DelegateErc1155 => &["contract", "token_id", "amount"],
    };
    let given = [
        ("contract", body.contract.is_some()),
        ("token_id", body.token_id.is_some()),
        ("amount", body.amount.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(name, is_given)| *is_given && !used.contains(name))
    {
        return Err(invalid_parameter(name, "does not apply to this action; remove it"));
    }
    let contract = || required("contract", body.contract.as_ref().map(|text| text.0));
    let token_id = || required("token_id", body.token_id.as_ref().map(|number| number.0));
    let amount = || granted_amount(&body);
    let scope = match body.action {
        Action::DelegateAll => DelegationScope::All { enable },
        Action::DelegateContract => DelegationScope::Contract { contract: contract()?, enable },
        Action::DelegateErc721 => {
            DelegationScope::Erc721 { contract: contract()?, token_id: token_id()?, enable }
        }
        Action::DelegateErc20 => {
            DelegationScope::Erc20 { contract: contract()?, amount: amount()? }
        }
        Action::DelegateErc1155 => {
            let (contract, token_id) = (contract()?, token_id()?);
            DelegationScope::Erc1155 { contract, token_id, amount: amount()? }
        }
    };
    Ok((body.from.0, DelegationChange { to: body.to.0, rights: body.rights.0, scope }))
}

fn required<T>(name: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| invalid_parameter(name, "is required"))
}

/// Returns the amount, or 0 to revoke: with `enable` false or an `amount` of 0.
fn granted_amount(body: &RequestBody) -> Result<U256, Problem> {
    match (body.enable, &body.amount) {
        (Some(false), _) => Ok(U256::ZERO),
        (_, None) => Err(invalid_parameter("amount", "is required")),
        (Some(true), Some(Number(U256::ZERO))) => {
            Err(invalid_parameter("amount", "must be above 0 if `enable` is true; 0 revokes"))
        }
        (_, Some(Number(amount))) => Ok(*amount),
    }
}

fn parse_body(body: &[u8]) -> Result<RequestBody, Problem> {
    const OBJECT: &str = "the body must be a JSON object with known members only";
    let invalid = |detail: &str| {
        // It may quote a name of any length.
        let detail: String = detail.chars().take(240).collect();
        Problem::new(ProblemCode::InvalidParameter, detail)
    };
    // An array would be read as the members in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(invalid(OBJECT));
    }
    let mut input = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut input).map_err(|error| {
        match (error.path().to_string(), error.inner()) {
            (path, reason) if path == "." => invalid(&format!("{OBJECT}: {reason}")),
            (path, reason) => invalid(&format!("`{path}`: {reason}")),
        }
    })?;
    input.end().map_err(|error| invalid(&format!("{OBJECT}: {error}")))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "0x00000000000000000000000000000000000000a1";
    const TO: &str = "0x00000000000000000000000000000000000000b2";
    const CONTRACT: &str = "0x00000000000000000000000000000000000000c3";

    /// Parses a body with these members beside the common ones, and returns its scope.
    fn parse_scope(members: &str) -> Result<DelegationScope, String> {
        let body = format!("{{\"from\":\"{FROM}\",\"to\":\"{TO}\",{members}}}");
        let parsed = parse_request(body.as_bytes());
        parsed.map(|(_, change)| change.scope).map_err(|problem| problem.detail().to_owned())
    }

    fn parse_contract_scope(action: &str, more: &str) -> Result<DelegationScope, String> {
        parse_scope(&format!("\"action\":\"{action}\",\"contract\":\"{CONTRACT}\"{more}"))
    }

    #[test]
    fn actions_map_to_scopes_and_enable_defaults_to_true() {
        let contract: Address = CONTRACT.parse().unwrap();
        let (token_id, enable) = (U256::from(7), true);
        assert_eq!(parse_scope("\"action\":\"delegate_all\""), Ok(DelegationScope::All { enable }));
        assert_eq!(
            parse_scope("\"action\":\"delegate_all\",\"enable\":false"),
            Ok(DelegationScope::All { enable: false })
        );
        let scope = DelegationScope::Contract { contract, enable };
        assert_eq!(parse_contract_scope("delegate_contract", ",\"enable\":true"), Ok(scope));
        let scope = DelegationScope::Erc721 { contract, token_id, enable };
        assert_eq!(parse_contract_scope("delegate_erc721", ",\"token_id\":\"7\""), Ok(scope));
        let parse_erc20 = |more: &str| parse_contract_scope("delegate_erc20", more);
        let amount = |amount| Ok(DelegationScope::Erc20 { contract, amount });
        assert_eq!(parse_erc20(&format!(",\"amount\":\"{}\"", U256::MAX)), amount(U256::MAX));
        assert_eq!(parse_erc20(",\"amount\":5,\"enable\":true"), amount(U256::from(5)));
        assert_eq!(parse_erc20(",\"amount\":5.0"), amount(U256::from(5)));
        for revocation in
            [",\"amount\":\"0\"", ",\"enable\":false", ",\"amount\":5,\"enable\":false"]
        {
            assert_eq!(parse_erc20(revocation), amount(U256::ZERO), "{revocation}");
        }
        let scope = DelegationScope::Erc1155 { contract, token_id, amount: U256::from(9) };
        let more = ",\"token_id\":7,\"amount\":9";
        assert_eq!(parse_contract_scope("delegate_erc1155", more), Ok(scope));
    }

    #[test]
    fn invalid_members_are_rejected_by_name() {
        let parse_all_scope =
            |more: &str| parse_scope(&format!("\"action\":\"delegate_all\",{more}"));
        for (result, expected) in [
            (
                parse_scope("\"rights\":\"\""),
                "the body must be a JSON object with known members only: missing field `action`",
            ),
            (
                parse_scope("\"action\":\"approve\""),
                "`action`: unknown variant `approve`, expected one of `delegate_all`,",
            ),
            (parse_scope("\"action\":7"), "`action`: "),
            (parse_scope("\"action\":\"delegate_contract\""), "`contract` is required"),
            (parse_contract_scope("delegate_erc721", ""), "`token_id` is required"),
            (parse_contract_scope("delegate_erc20", ""), "`amount` is required"),
            (
                parse_contract_scope("delegate_erc1155", ",\"token_id\":\"1\""),
                "`amount` is required",
            ),
            (parse_all_scope("\"contract\":\"x\""), "`contract`: must be an address"),
            (parse_contract_scope("delegate_all", ""), "`contract` does not apply to this action"),
            (parse_all_scope("\"token_id\":\"1\""), "`token_id` does not apply to this action"),
            (parse_all_scope("\"amount\":\"1\""), "`amount` does not apply to this action"),
            (
                parse_contract_scope("delegate_contract", ",\"token_id\":1"),
                "`token_id` does not apply to this action",
            ),
            (
                parse_contract_scope("delegate_contract", ",\"amount\":1"),
                "`amount` does not apply to this action",
            ),
            (
                parse_contract_scope("delegate_erc721", ",\"token_id\":1,\"amount\":1"),
                "`amount` does not apply to this action",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":1,\"token_id\":1"),
                "`token_id` does not apply to this action",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":0,\"enable\":true"),
                "`amount` must be above 0 if",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":-1"),
                "`amount`: must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":1.5"),
                "`amount`: must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":1e3"),
                "`amount`: must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":9007199254740992"),
                "`amount`: must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":\"0x1\""),
                "`amount`: must be a decimal",
            ),
            (
                parse_all_scope("\"enable\":\"true\""),
                "`enable`: invalid type: string \"true\", expected a boolean",
            ),
            (parse_all_scope("\"enable\":null"), "`enable`: invalid type: null"),
            (parse_all_scope("\"rights\":null"), "`rights`: invalid type: null"),
            (parse_all_scope("\"contract\":null"), "`contract`: invalid type: null"),
            (parse_all_scope("\"rights\":\"0x12\""), "`rights`: must have 64 hex digits after 0x"),
            (
                parse_all_scope("\"from\":\"x\""),
                "the body must be a JSON object with known members only: duplicate field `from`",
            ),
            (
                parse_all_scope("\"tokenId\":\"1\""),
                "`tokenId`: unknown field `tokenId`, expected one of",
            ),
        ] {
            let detail = result.expect_err(expected);
            assert!(detail.starts_with(expected), "{detail}");
        }
        let array = format!("[\"{FROM}\",\"delegate_all\",\"{TO}\"]");
        for body in [&array, "", "[]", "null", "{", "{\"from\":\"0x12\"}", "\u{feff}{}"] {
            let parsed = parse_request(body.as_bytes());
            assert!(parsed.is_err(), "{body}");
        }
        let long = format!("{{\"{}\":1}}", "\u{e4}".repeat(5000));
        let problem = parse_request(long.as_bytes()).unwrap_err();
        assert!(problem.detail().len() < 500, "{}", problem.detail());
    }
}
