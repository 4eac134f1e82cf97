//! `POST /v1/{chain}/delegations/transactions`: an unsigned transaction that delegates rights or revokes them. Nothing
//! is signed or sent.

use std::borrow::Cow;
use std::fmt::{Display, Formatter};

use alloy_primitives::{Address, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::unsigned_transaction::UnsignedTransaction;
use super::{JSON, TAG, TRANSACTIONS_PATH};
use crate::api::extractors::ChainParam;
use crate::api::freshness::write_uncached_snapshot_headers;
use crate::api::openapi::components::{
    CommonErrors, FeesUnavailable, PayloadTooLarge, UnknownChain, UnsupportedMediaType,
    UpstreamErrors,
};
use crate::api::problems;
use crate::extras::delegation::Delegations;
use crate::extras::delegation::openapi::TransactionRequest;
use crate::extras::delegation::registry::{DelegationChange, DelegationScope};
use crate::http::client_limits::ClientHandle;
use crate::http::parameters::{
    Parameters, invalid_parameter, parse_address, parse_number, parse_rights,
};
use crate::http::problem::{Problem, ProblemCode};
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
        CommonErrors, PayloadTooLarge, UnsupportedMediaType, UnknownChain, FeesUnavailable, UpstreamErrors,
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

/// Parses the body into the vault and the change. A member that does not apply to the action is rejected: a client that
/// names a token means to delegate no more than that.
pub(crate) fn parse_request(body: &[u8]) -> Result<(Address, DelegationChange), Problem> {
    let members = parse_members(body)?;
    let from = members.required("from", parse_address)?;
    let to = members.required("to", parse_address)?;
    let rights = members.optional("rights", parse_rights)?.unwrap_or_default();
    let is_enabled = members.optional("enable", |_, text| Ok(text == "true"))?;
    let enable = is_enabled.unwrap_or(true);
    let contract = || members.required("contract", parse_address);
    let token_id = || members.required("token_id", parse_number);
    let amount = || parse_amount(&members, is_enabled);
    let scope = members.required("action", |name, action| match action {
        "delegate_all" => Ok(DelegationScope::All { enable }),
        "delegate_contract" => Ok(DelegationScope::Contract { contract: contract()?, enable }),
        "delegate_erc721" => {
            Ok(DelegationScope::Erc721 { contract: contract()?, token_id: token_id()?, enable })
        }
        "delegate_erc20" => {
            Ok(DelegationScope::Erc20 { contract: contract()?, amount: amount()? })
        }
        "delegate_erc1155" => {
            let (contract, token_id) = (contract()?, token_id()?);
            Ok(DelegationScope::Erc1155 { contract, token_id, amount: amount()? })
        }
        _ => Err(invalid_parameter(
            name,
            "must be delegate_all, delegate_contract, delegate_erc721, delegate_erc20 or delegate_erc1155",
        )),
    })?;
    let used: &[&str] = match scope {
        DelegationScope::All { .. } => &[],
        DelegationScope::Contract { .. } => &["contract"],
        DelegationScope::Erc721 { .. } => &["contract", "token_id"],
        DelegationScope::Erc20 { .. } => &["contract", "amount"],
        DelegationScope::Erc1155 { .. } => &["contract", "token_id", "amount"],
    };
    let mut unused = ["contract", "token_id", "amount"].into_iter();
    match unused.find(|name| members.has(name) && !used.contains(name)) {
        Some(name) => Err(invalid_parameter(name, "does not apply to this action; remove it")),
        None => Ok((from, DelegationChange { to, rights, scope })),
    }
}

/// Returns the amount, or 0 to revoke: with `enable` false or an `amount` of 0.
fn parse_amount(members: &Parameters, is_enabled: Option<bool>) -> Result<U256, Problem> {
    let amount = members.optional("amount", parse_number)?;
    match (is_enabled, amount) {
        (Some(false), _) => Ok(U256::ZERO),
        (_, None) => Err(invalid_parameter("amount", "is required")),
        (Some(true), Some(U256::ZERO)) => {
            Err(invalid_parameter("amount", "must be above 0 if `enable` is true; 0 revokes"))
        }
        (_, Some(amount)) => Ok(amount),
    }
}

/// Parses the JSON object into the texts of its members.
fn parse_members(body: &[u8]) -> Result<Parameters, Problem> {
    const NAMES: [&str; 8] =
        ["from", "to", "action", "contract", "token_id", "amount", "rights", "enable"];
    let invalid = |reason: &dyn Display| {
        // The reason may quote a name of any length.
        let reason: String = reason.to_string().chars().take(160).collect();
        let detail = format!("the body must be a JSON object with known members only: {reason}");
        Problem::new(ProblemCode::InvalidParameter, detail)
    };
    let body = serde_json::from_slice(body);
    let BodyMembers(members) = body.map_err(|error| invalid(&error))?;
    let parse = |(name, json): (String, &RawValue)| {
        if NAMES.contains(&&*name) {
            member_text(&name, json).map(|text| (name, text))
        } else {
            Err(invalid(&format_args!("unknown field `{name}`")))
        }
    };
    members.into_iter().map(parse).collect::<Result<_, _>>().map(Parameters)
}

/// Members of a JSON object in their order, duplicates included.
struct BodyMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for BodyMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                std::iter::from_fn(|| map.next_entry().transpose()).collect()
            }
        }
        input.deserialize_map(MembersVisitor).map(Self)
    }
}

/// Returns the text of a string, a flag, or an integer that no JSON implementation rounds. A null is rejected: the
/// client has probably forgotten a value.
fn member_text(name: &str, json: &RawValue) -> Result<String, Problem> {
    const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
    let text = json::parse_string(json).map(Cow::into_owned);
    let (text, requirement) = match name {
        "enable" => {
            let flag = serde_json::from_str(json.get()).ok();
            (flag.map(|flag: bool| flag.to_string()), "must be true or false")
        }
        "token_id" | "amount" => {
            // 1.0 is an integer to JSON Schema and to clients that write all numbers as floats.
            let (digits, fraction) = json.get().split_once('.').unwrap_or((json.get(), ""));
            let is_whole = fraction.bytes().all(|digit| digit == b'0');
            let number: Option<u64> =
                digits.parse().ok().filter(|number| is_whole && *number <= MAX_SAFE_INTEGER);
            let requirement = "must be a string of decimal digits, or an integer up to 2^53 - 1";
            (text.or(number.map(|number| number.to_string())), requirement)
        }
        _ => (text, "must be a string"),
    };
    text.ok_or_else(|| invalid_parameter(name, requirement))
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
            (parse_scope("\"rights\":\"\""), "`action` is required"),
            (parse_scope("\"action\":\"approve\""), "`action` must be delegate_all,"),
            (parse_scope("\"action\":7"), "`action` must be a string"),
            (parse_scope("\"action\":\"delegate_contract\""), "`contract` is required"),
            (parse_contract_scope("delegate_erc721", ""), "`token_id` is required"),
            (parse_contract_scope("delegate_erc20", ""), "`amount` is required"),
            (
                parse_contract_scope("delegate_erc1155", ",\"token_id\":\"1\""),
                "`amount` is required",
            ),
            (parse_all_scope("\"contract\":\"x\""), "`contract` does not apply to this action"),
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
            (parse_contract_scope("delegate_erc20", ",\"amount\":-1"), "`amount` must be a string"),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":1.5"),
                "`amount` must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":1e3"),
                "`amount` must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":9007199254740992"),
                "`amount` must be a string",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"amount\":\"0x1\""),
                "`amount` must be a decimal",
            ),
            (parse_all_scope("\"enable\":\"true\""), "`enable` must be true or false"),
            (parse_all_scope("\"enable\":null"), "`enable` must be true or false"),
            (parse_all_scope("\"rights\":null"), "`rights` must be a string"),
            (parse_all_scope("\"contract\":null"), "`contract` must be a string"),
            (parse_all_scope("\"rights\":\"0x12\""), "`rights` must have 64 hex digits after 0x"),
            (parse_all_scope("\"from\":\"x\""), "`from` must be given once"),
            (
                parse_all_scope("\"tokenId\":\"1\""),
                "the body must be a JSON object with known members only: unknown field `tokenId`",
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
