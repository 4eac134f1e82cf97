//! `POST /v1/{chain}/delegations/transactions`: an unsigned transaction that gives or takes back a
//! delegation. Nothing is signed or sent.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::parameters::{self, wrong};
use super::unsigned::Transaction;
use super::{JSON, NO_STORE};
use crate::api::described::{
    BadGateway, GatewayTimeout, InvalidParameter, NoFees, OfEveryRoute, OfRequestBodies,
    Transaction as TransactionAnswer, TransactionRequest, UnknownChain, tag,
};
use crate::api::extract::OfChain;
use crate::api::freshness::{Freshness, X_NEWEST_BLOCK};
use crate::api::intake;
use crate::api::problem::{Code, Problem};
use crate::delegation::Delegations;
use crate::json;
use crate::registry::{Extent, Grant};

/// Of a request's body; none of use is near it.
const MAX_BODY: usize = 16 * 1024;

/// The body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked<'a> {
    #[serde(borrow)]
    from: Member<'a>,
    action: Member<'a>,
    to: Member<'a>,
    contract: Member<'a>,
    token_id: Member<'a>,
    amount: Member<'a>,
    rights: Member<'a>,
    enable: Member<'a>,
}

/// `None`: it is absent. A null, which is not that, is something that the client has forgotten to set.
#[derive(Debug, Clone, Copy, Default)]
struct Member<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Member<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        json::present(input).map(Self)
    }
}

/// Prepare a transaction that gives a delegation, or takes it back
///
/// Nothing is signed or sent. The fees are those of the medium tier at the moment.
#[utoipa::path(
    post,
    path = "/v1/{chain}/delegations/transactions",
    operation_id = "prepareDelegation",
    tag = tag::DELEGATION,
    params(OfChain),
    request_body(content = TransactionRequest, content_type = "application/json"),
    responses(
        OfEveryRoute, OfRequestBodies, TransactionAnswer, InvalidParameter, UnknownChain, NoFees, BadGateway,
        GatewayTimeout
    )
)]
pub(in crate::api) async fn prepare(
    State(delegations): State<Delegations>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let reads = delegations.reads();
    let chain = chain.ok().and_then(|Path(name)| reads.chain(&name));
    let chain = chain.ok_or_else(Problem::unknown_chain)?;
    let body = intake::read(request, MAX_BODY, reads.memory()).await?;
    let (from, grant) = read(&body)?;
    let unavailable = |why| Problem::unavailable(chain.chain(), why);
    // A chain without fees is not asked for anything else.
    chain.chain().read().map_err(unavailable)?;
    let prepared = delegations.prepare(chain, from, &grant).await?;
    let reading = chain.chain().read().map_err(unavailable)?;
    let quote = &reading.observation.quote;
    let chain_id = chain.chain().config().chain_id;
    let transaction = Transaction::of(chain_id, from, &prepared, quote.suggestion());
    let mut headers = HeaderMap::new();
    Freshness::of(chain.chain(), &reading).write_headers(&mut headers);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(X_NEWEST_BLOCK, quote.newest_block().into());
    let body = serde_json::to_vec(&transaction).expect("a struct of strings serialises");
    Ok((headers, body).into_response())
}

/// Who gives what, by the body of a request.
pub(in crate::api) fn read(body: &[u8]) -> Result<(Address, Grant), Problem> {
    Asked::of(body)?.read()
}

impl<'a> Asked<'a> {
    fn of(body: &'a [u8]) -> Result<Self, Problem> {
        const LONGEST_REASON: usize = 160;
        // It would be taken for the members in their order.
        if body.trim_ascii_start().starts_with(b"[") {
            let detail = "the body must be a JSON object of the known members, not an array";
            return Err(Problem::new(Code::InvalidParameter, detail));
        }
        serde_json::from_slice(body).map_err(|error| {
            // It may quote a member's name, of any length.
            let reason: String = error.to_string().chars().take(LONGEST_REASON).collect();
            let detail = format!("the body must be a JSON object of the known members: {reason}");
            Problem::new(Code::InvalidParameter, detail)
        })
    }

    /// Who gives what. A member that the action has no use for is refused: whoever names a token means to
    /// give no more than that.
    fn read(&self) -> Result<(Address, Grant), Problem> {
        let from = required("from", self.from, address)?;
        let to = required("to", self.to, address)?;
        let rights = |name: &str, json| parameters::rights(name, &text(name, json)?);
        let rights = optional("rights", self.rights, rights)?.unwrap_or(B256::ZERO);
        let contract = || required("contract", self.contract, address);
        let token_id = || required("token_id", self.token_id, number);
        let [no_contract, no_token_id, no_amount] =
            [("contract", self.contract), ("token_id", self.token_id), ("amount", self.amount)];
        let extent = match required("action", self.action, text)?.as_ref() {
            "delegate_all" => {
                refuse([no_contract, no_token_id, no_amount])?;
                Extent::All { enable: self.enable()? }
            }
            "delegate_contract" => {
                refuse([no_token_id, no_amount])?;
                Extent::Contract { contract: contract()?, enable: self.enable()? }
            }
            "delegate_erc721" => {
                refuse([no_amount])?;
                let (contract, token_id) = (contract()?, token_id()?);
                Extent::Erc721 { contract, token_id, enable: self.enable()? }
            }
            "delegate_erc20" => {
                refuse([no_token_id])?;
                Extent::Erc20 { contract: contract()?, amount: self.amount()? }
            }
            "delegate_erc1155" => {
                let (contract, token_id) = (contract()?, token_id()?);
                Extent::Erc1155 { contract, token_id, amount: self.amount()? }
            }
            _ => {
                let allowed = "must be delegate_all, delegate_contract, delegate_erc721, \
                    delegate_erc20 or delegate_erc1155";
                return Err(wrong("action", allowed));
            }
        };
        Ok((from, Grant { to, rights, extent }))
    }

    /// Whether it is given; it is unless the request says otherwise.
    fn enable(&self) -> Result<bool, Problem> {
        Ok(optional("enable", self.enable, flag)?.unwrap_or(true))
    }

    /// How much is given: 0 where it is taken back, which an amount of 0 says too.
    fn amount(&self) -> Result<U256, Problem> {
        let amount = || required("amount", self.amount, number);
        match optional("enable", self.enable, flag)? {
            None => amount(),
            Some(false) => {
                optional("amount", self.amount, number)?;
                Ok(U256::ZERO)
            }
            Some(true) => match amount()? {
                U256::ZERO => Err(wrong("amount", "must not be 0, which revokes, with `enable`")),
                amount => Ok(amount),
            },
        }
    }
}

fn required<'a, T>(
    name: &str,
    member: Member<'a>,
    read: impl Fn(&str, &'a RawValue) -> Result<T, Problem>,
) -> Result<T, Problem> {
    optional(name, member, read)?.ok_or_else(|| wrong(name, "is required"))
}

fn optional<'a, T>(
    name: &str,
    Member(member): Member<'a>,
    read: impl Fn(&str, &'a RawValue) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    member.map(|json| read(name, json)).transpose()
}

fn refuse<const N: usize>(members: [(&str, Member<'_>); N]) -> Result<(), Problem> {
    match members.into_iter().find(|(_, Member(member))| member.is_some()) {
        Some((name, _)) => Err(wrong(name, "is of no use to this action; leave it out")),
        None => Ok(()),
    }
}

fn text<'a>(name: &str, json: &'a RawValue) -> Result<Cow<'a, str>, Problem> {
    json::text(json).ok_or_else(|| wrong(name, "must be a string"))
}

fn address(name: &str, json: &RawValue) -> Result<Address, Problem> {
    parameters::address(name, &text(name, json)?)
}

fn flag(name: &str, json: &RawValue) -> Result<bool, Problem> {
    serde_json::from_str(json.get()).map_err(|_| wrong(name, "must be true or false"))
}

/// A number as a decimal string, or as an integer that no reader or writer of JSON rounds.
fn number(name: &str, json: &RawValue) -> Result<U256, Problem> {
    const MOST_OF_JSON: u64 = (1 << 53) - 1;
    if let Some(text) = json::text(json) {
        return parameters::number(name, &text);
    }
    // To JSON Schema, and to who writes all numbers as floats, 1.0 is an integer too.
    let (digits, fraction) = json.get().split_once('.').unwrap_or((json.get(), ""));
    let is_whole = fraction.bytes().all(|digit| digit == b'0');
    let number = digits.parse::<u64>().ok().filter(|number| is_whole && *number <= MOST_OF_JSON);
    let what = "must be a string of decimal digits, or an integer up to 2^53 - 1";
    number.map(U256::from).ok_or_else(|| wrong(name, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "0x00000000000000000000000000000000000000a1";
    const TO: &str = "0x00000000000000000000000000000000000000b2";
    const CONTRACT: &str = "0x00000000000000000000000000000000000000c3";

    /// What these members, beside those of every request, come to.
    fn read(members: &str) -> Result<Extent, String> {
        let body = format!("{{\"from\":\"{FROM}\",\"to\":\"{TO}\",{members}}}");
        let asked = Asked::of(body.as_bytes()).and_then(|asked| asked.read());
        asked.map(|(_, grant)| grant.extent).map_err(|problem| problem.detail().to_owned())
    }

    fn of_contract(action: &str, more: &str) -> Result<Extent, String> {
        read(&format!("\"action\":\"{action}\",\"contract\":\"{CONTRACT}\"{more}"))
    }

    #[test]
    fn what_is_given_is_given_unless_it_is_said_to_be_taken_back() {
        let contract: Address = CONTRACT.parse().unwrap();
        let (token_id, enable) = (U256::from(7), true);
        assert_eq!(read("\"action\":\"delegate_all\""), Ok(Extent::All { enable }));
        assert_eq!(
            read("\"action\":\"delegate_all\",\"enable\":false"),
            Ok(Extent::All { enable: false })
        );
        let extent = Extent::Contract { contract, enable };
        assert_eq!(of_contract("delegate_contract", ",\"enable\":true"), Ok(extent));
        let extent = Extent::Erc721 { contract, token_id, enable };
        assert_eq!(of_contract("delegate_erc721", ",\"token_id\":\"7\""), Ok(extent));
        let erc20 = |more: &str| of_contract("delegate_erc20", more);
        let amount = |amount| Ok(Extent::Erc20 { contract, amount });
        assert_eq!(erc20(&format!(",\"amount\":\"{}\"", U256::MAX)), amount(U256::MAX));
        assert_eq!(erc20(",\"amount\":5,\"enable\":true"), amount(U256::from(5)));
        assert_eq!(erc20(",\"amount\":5.0"), amount(U256::from(5)));
        for taken_back in
            [",\"amount\":\"0\"", ",\"enable\":false", ",\"amount\":5,\"enable\":false"]
        {
            assert_eq!(erc20(taken_back), amount(U256::ZERO), "{taken_back}");
        }
        let extent = Extent::Erc1155 { contract, token_id, amount: U256::from(9) };
        let more = ",\"token_id\":7,\"amount\":9";
        assert_eq!(of_contract("delegate_erc1155", more), Ok(extent));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_name() {
        let of_all = |more: &str| read(&format!("\"action\":\"delegate_all\",{more}"));
        for (outcome, name) in [
            (read("\"rights\":\"\""), "`action` is required"),
            (read("\"action\":\"approve\""), "`action` must be delegate_all,"),
            (read("\"action\":7"), "`action` must be a string"),
            (read("\"action\":\"delegate_contract\""), "`contract` is required"),
            (of_contract("delegate_erc721", ""), "`token_id` is required"),
            (of_contract("delegate_erc20", ""), "`amount` is required"),
            (of_contract("delegate_erc1155", ",\"token_id\":\"1\""), "`amount` is required"),
            (of_all("\"contract\":\"x\""), "`contract` is of no use"),
            (of_all("\"token_id\":\"1\""), "`token_id` is of no use"),
            (of_all("\"amount\":\"1\""), "`amount` is of no use"),
            (of_contract("delegate_contract", ",\"token_id\":1"), "`token_id` is of no use"),
            (of_contract("delegate_contract", ",\"amount\":1"), "`amount` is of no use"),
            (of_contract("delegate_erc721", ",\"amount\":1"), "`amount` is of no use"),
            (of_contract("delegate_erc20", ",\"token_id\":1"), "`token_id` is of no use"),
            (
                of_contract("delegate_erc20", ",\"amount\":0,\"enable\":true"),
                "`amount` must not be 0",
            ),
            (of_contract("delegate_erc20", ",\"amount\":-1"), "`amount` must be a string"),
            (of_contract("delegate_erc20", ",\"amount\":1.5"), "`amount` must be a string"),
            (of_contract("delegate_erc20", ",\"amount\":1e3"), "`amount` must be a string"),
            (
                of_contract("delegate_erc20", ",\"amount\":9007199254740992"),
                "`amount` must be a string",
            ),
            (of_contract("delegate_erc20", ",\"amount\":\"0x1\""), "`amount` must be a decimal"),
            (of_all("\"enable\":\"true\""), "`enable` must be true or false"),
            (of_all("\"enable\":null"), "`enable` must be true or false"),
            (of_all("\"rights\":null"), "`rights` must be a string"),
            (of_all("\"contract\":null"), "`contract` is of no use"),
            (of_all("\"rights\":\"0x12\""), "`rights` must be 0x and 64"),
            (of_all("\"from\":\"x\""), "the body must be a JSON object"),
            (
                of_all("\"tokenId\":\"1\""),
                "the body must be a JSON object of the known members: unknown field `tokenId`",
            ),
        ] {
            let detail = outcome.expect_err(name);
            assert!(detail.starts_with(name), "{detail}");
        }
        let array = format!("[\"{FROM}\",\"delegate_all\",\"{TO}\"]");
        for body in [&array, "", "[]", "null", "{", "{\"from\":\"0x12\"}", "\u{feff}{}"] {
            let asked = Asked::of(body.as_bytes()).and_then(|asked| asked.read());
            assert!(asked.is_err(), "{body}");
        }
        let long = format!("{{\"{}\":1}}", "\u{e4}".repeat(5000));
        let problem = Asked::of(long.as_bytes()).unwrap_err();
        assert!(problem.detail().len() < 500, "{}", problem.detail());
    }
}
