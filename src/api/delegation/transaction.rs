//! `POST /v1/{chain}/delegations/transactions`: an unsigned transaction that delegates rights or revokes them. Nothing
//! is signed or sent.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::parameters::{self, invalid_parameter};
use super::unsigned_transaction::UnsignedTransaction;
use super::{JSON, NO_STORE};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{Freshness, X_NEWEST_BLOCK};
use crate::api::openapi::components::{
    CommonErrors, FeesUnavailable, InvalidParameter, PayloadTooLarge, UnknownChain,
    UnsupportedMediaType, UpstreamErrors,
};
use crate::api::openapi::schemas::TransactionRequest;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::request_body;
use crate::delegation::Delegations;
use crate::delegation_registry::{DelegationChange, DelegationScope};
use crate::json;

/// Largest request body in bytes, far above any valid one.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TransactionBody<'a> {
    #[serde(borrow)]
    from: RequestField<'a>,
    action: RequestField<'a>,
    to: RequestField<'a>,
    contract: RequestField<'a>,
    token_id: RequestField<'a>,
    amount: RequestField<'a>,
    rights: RequestField<'a>,
    enable: RequestField<'a>,
}

/// A field of the body. `None`: absent. A null is present and is rejected, because the client has probably forgotten a
/// value.
#[derive(Debug, Clone, Copy, Default)]
struct RequestField<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RequestField<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        json::present(input).map(Self)
    }
}

/// Prepare a transaction that delegates rights or revokes them
///
/// Nothing is signed or sent. The fees are those of the current medium tier.
#[utoipa::path(
    post,
    path = "/v1/{chain}/delegations/transactions",
    operation_id = "prepareDelegation",
    tag = "Delegation",
    params(ChainParam),
    request_body(content = TransactionRequest, content_type = "application/json"),
    responses(
        CommonErrors, PayloadTooLarge, UnsupportedMediaType, InvalidParameter, UnknownChain, FeesUnavailable, UpstreamErrors,
        (status = 200, description = "The transaction, in the format of `eth_sendTransaction`.",
            body = UnsignedTransaction,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(in crate::api) async fn prepare_transaction(
    State(delegations): State<Delegations>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let reads = delegations.reads();
    let chain = chain.ok().and_then(|Path(name)| reads.chain(&name));
    let chain = chain.ok_or_else(Problem::unknown_chain)?;
    let body = request_body::read_body(request, MAX_BODY_BYTES, reads.memory()).await?;
    let (from, change) = parse_request(&body)?;
    let unavailable = |reason| Problem::unavailable(chain.chain(), reason);
    // Without fees no call to the chain is needed.
    chain.chain().servable_snapshot().map_err(unavailable)?;
    let prepared = delegations.prepare(chain, from, &change).await?;
    let current = chain.chain().servable_snapshot().map_err(unavailable)?;
    let snapshot = &current.snapshot;
    let chain_id = chain.chain().config().chain_id;
    let transaction =
        UnsignedTransaction::new(chain_id, from, &prepared, &snapshot.market.suggestion);
    let mut headers = HeaderMap::new();
    Freshness::from_snapshot(chain.chain(), &current).write_headers(&mut headers);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(X_NEWEST_BLOCK, snapshot.newest_block.into());
    let body = serde_json::to_vec(&transaction).expect("a struct of strings serialises");
    Ok((headers, body).into_response())
}

/// Parses the body into the vault and the change.
pub(in crate::api) fn parse_request(body: &[u8]) -> Result<(Address, DelegationChange), Problem> {
    TransactionBody::parse(body)?.validate()
}

impl<'a> TransactionBody<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        const MAX_REASON_CHARS: usize = 160;
        // Serde would accept an array of the members in order.
        if body.trim_ascii_start().starts_with(b"[") {
            let detail = "the body must be a JSON object with known members only, not an array";
            return Err(Problem::new(ProblemCode::InvalidParameter, detail));
        }
        serde_json::from_slice(body).map_err(|error| {
            // The message may quote a member name of any length.
            let reason: String = error.to_string().chars().take(MAX_REASON_CHARS).collect();
            let detail =
                format!("the body must be a JSON object with known members only: {reason}");
            Problem::new(ProblemCode::InvalidParameter, detail)
        })
    }

    /// Validates the members into a change. A member that does not apply to the action is rejected: a client that names
    /// a token means to delegate no more than that.
    fn validate(&self) -> Result<(Address, DelegationChange), Problem> {
        let from = required("from", self.from, parse_address)?;
        let to = required("to", self.to, parse_address)?;
        let rights = |name: &str, json| parameters::parse_rights(name, &parse_string(name, json)?);
        let rights = optional("rights", self.rights, rights)?.unwrap_or(B256::ZERO);
        let contract = || required("contract", self.contract, parse_address);
        let token_id = || required("token_id", self.token_id, parse_number);
        let [no_contract, no_token_id, no_amount] =
            [("contract", self.contract), ("token_id", self.token_id), ("amount", self.amount)];
        let scope = match required("action", self.action, parse_string)?.as_ref() {
            "delegate_all" => {
                reject_members([no_contract, no_token_id, no_amount])?;
                DelegationScope::All { enable: self.parse_enable()? }
            }
            "delegate_contract" => {
                reject_members([no_token_id, no_amount])?;
                DelegationScope::Contract { contract: contract()?, enable: self.parse_enable()? }
            }
            "delegate_erc721" => {
                reject_members([no_amount])?;
                let (contract, token_id) = (contract()?, token_id()?);
                DelegationScope::Erc721 { contract, token_id, enable: self.parse_enable()? }
            }
            "delegate_erc20" => {
                reject_members([no_token_id])?;
                DelegationScope::Erc20 { contract: contract()?, amount: self.parse_amount()? }
            }
            "delegate_erc1155" => {
                let (contract, token_id) = (contract()?, token_id()?);
                DelegationScope::Erc1155 { contract, token_id, amount: self.parse_amount()? }
            }
            _ => {
                let allowed = "must be delegate_all, delegate_contract, delegate_erc721, \
                    delegate_erc20 or delegate_erc1155";
                return Err(invalid_parameter("action", allowed));
            }
        };
        Ok((from, DelegationChange { to, rights, scope }))
    }

    /// Returns true to delegate and false to revoke. Default: true.
    fn parse_enable(&self) -> Result<bool, Problem> {
        Ok(optional("enable", self.enable, parse_flag)?.unwrap_or(true))
    }

    /// Returns the amount, or 0 to revoke: with `enable` false or an `amount` of 0.
    fn parse_amount(&self) -> Result<U256, Problem> {
        let required_amount = || required("amount", self.amount, parse_number);
        match optional("enable", self.enable, parse_flag)? {
            None => required_amount(),
            Some(false) => {
                optional("amount", self.amount, parse_number)?;
                Ok(U256::ZERO)
            }
            Some(true) => match required_amount()? {
                U256::ZERO => Err(invalid_parameter(
                    "amount",
                    "must be above 0 if `enable` is true; 0 revokes",
                )),
                amount => Ok(amount),
            },
        }
    }
}

fn required<'a, T>(
    name: &str,
    member: RequestField<'a>,
    parse: impl Fn(&str, &'a RawValue) -> Result<T, Problem>,
) -> Result<T, Problem> {
    optional(name, member, parse)?.ok_or_else(|| invalid_parameter(name, "is required"))
}

fn optional<'a, T>(
    name: &str,
    RequestField(member): RequestField<'a>,
    parse: impl Fn(&str, &'a RawValue) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    member.map(|json| parse(name, json)).transpose()
}

fn reject_members<const N: usize>(members: [(&str, RequestField<'_>); N]) -> Result<(), Problem> {
    match members.into_iter().find(|(_, RequestField(member))| member.is_some()) {
        Some((name, _)) => Err(invalid_parameter(name, "does not apply to this action; remove it")),
        None => Ok(()),
    }
}

fn parse_string<'a>(name: &str, json: &'a RawValue) -> Result<Cow<'a, str>, Problem> {
    json::parse_string(json).ok_or_else(|| invalid_parameter(name, "must be a string"))
}

fn parse_address(name: &str, json: &RawValue) -> Result<Address, Problem> {
    parameters::parse_address(name, &parse_string(name, json)?)
}

fn parse_flag(name: &str, json: &RawValue) -> Result<bool, Problem> {
    serde_json::from_str(json.get()).map_err(|_| invalid_parameter(name, "must be true or false"))
}

/// Parses a number from a decimal string, or from an integer that no JSON implementation rounds.
fn parse_number(name: &str, json: &RawValue) -> Result<U256, Problem> {
    const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
    if let Some(text) = json::parse_string(json) {
        return parameters::parse_number(name, &text);
    }
    // 1.0 is an integer to JSON Schema and to clients that write all numbers as floats.
    let (digits, fraction) = json.get().split_once('.').unwrap_or((json.get(), ""));
    let is_whole = fraction.bytes().all(|digit| digit == b'0');
    let number =
        digits.parse::<u64>().ok().filter(|number| is_whole && *number <= MAX_SAFE_INTEGER);
    let requirement = "must be a string of decimal digits, or an integer up to 2^53 - 1";
    number.map(U256::from).ok_or_else(|| invalid_parameter(name, requirement))
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
        let parsed = TransactionBody::parse(body.as_bytes()).and_then(|body| body.validate());
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
                parse_contract_scope("delegate_erc721", ",\"amount\":1"),
                "`amount` does not apply to this action",
            ),
            (
                parse_contract_scope("delegate_erc20", ",\"token_id\":1"),
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
            (parse_all_scope("\"contract\":null"), "`contract` does not apply to this action"),
            (parse_all_scope("\"rights\":\"0x12\""), "`rights` must have 64 hex digits after 0x"),
            (parse_all_scope("\"from\":\"x\""), "the body must be a JSON object"),
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
            let parsed = TransactionBody::parse(body.as_bytes()).and_then(|body| body.validate());
            assert!(parsed.is_err(), "{body}");
        }
        let long = format!("{{\"{}\":1}}", "\u{e4}".repeat(5000));
        let problem = TransactionBody::parse(long.as_bytes()).unwrap_err();
        assert!(problem.detail().len() < 500, "{}", problem.detail());
    }
}
