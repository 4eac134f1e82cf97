//! Validation of the parameters of known methods.
//!
//! The grammar is that of the Ethereum JSON-RPC specification, where common nodes agree with it. Parameters that only
//! some nodes reject are left to the node, as is every member without a rule here. Valid parameters are forwarded byte
//! for byte.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{nesting_depth, parse_string};
use super::state_scope::StateScope;
use crate::nodes::parse_hex;

/// Parameter error. Its text does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidParams(String);

/// Parameters of a call without any.
pub(crate) fn empty_params<'a>() -> &'a RawValue {
    serde_json::from_str("[]").expect("an empty array is JSON")
}

/// Returns true if a call has no parameters.
pub(crate) fn are_empty(params: &RawValue) -> bool {
    list(params).is_some_and(|values| values.is_empty())
}

/// Rejects nesting that some nodes' parsers do not support.
pub(crate) fn check_depth(json: &RawValue) -> Result<(), InvalidParams> {
    /// Far more levels than any client needs.
    const MAX_DEPTH: usize = 64;
    if nesting_depth(json) > MAX_DEPTH {
        return Err(InvalidParams("params are nested too deeply".into()));
    }
    Ok(())
}

/// Parameter of a known method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Param {
    Address,
    Hash,
    StorageSlot,
    StorageSlots,
    Flag,
    Object,
    Transaction,
    LogFilter,
    BlockCount,
    TransactionIndex,
    /// Block by tag or number.
    Block,
    /// Block whose state is read: also by hash, and as an object of EIP-1898.
    State,
    OptionalAddress,
    OptionalObject,
    OptionalArray,
    /// An absent one counts as pending: nodes choose different defaults, and one with flashblocks may choose the
    /// pending block.
    OptionalState,
}

/// Checks that `json` is an array of these parameters. Returns the state that they select, combined with `scope`.
///
/// # Errors
///
/// Returns which parameter is invalid, and what it must be.
pub(crate) fn parse(
    json: &RawValue,
    params: &[Param],
    scope: StateScope,
) -> Result<StateScope, InvalidParams> {
    check_depth(json)?;
    let values = list(json).ok_or_else(|| InvalidParams("params must be an array".into()))?;
    check_count(values.len(), params)?;
    let mut combined = scope;
    for (index, param) in params.iter().enumerate() {
        let value = values.get(index).copied();
        let value = value.filter(|value| !(param.is_optional() && is_null(value)));
        combined = combined.combine(match value {
            None if *param == Param::OptionalState => StateScope::Pending,
            None => StateScope::Fixed,
            Some(value) => param.parse(value, index)?,
        });
    }
    Ok(combined)
}

fn check_count(count: usize, params: &[Param]) -> Result<(), InvalidParams> {
    let max = params.len();
    let min = params.iter().filter(|param| !param.is_optional()).count();
    if (min..=max).contains(&count) {
        return Ok(());
    }
    let allowed = match (min, max) {
        (1, 1) => "1 member".to_owned(),
        _ if min == max => format!("{min} members"),
        _ => format!("{min} to {max} members"),
    };
    Err(InvalidParams(format!("params must have {allowed}, not {count}")))
}

impl Param {
    /// Returns true for parameters that may be absent, or null before a later one. They come last.
    fn is_optional(self) -> bool {
        matches!(
            self,
            Self::OptionalAddress
                | Self::OptionalObject
                | Self::OptionalArray
                | Self::OptionalState
        )
    }

    /// Checks the parameter with this index. Returns the state that it selects.
    fn parse(self, json: &RawValue, index: usize) -> Result<StateScope, InvalidParams> {
        let invalid = |expected| InvalidParams(format!("params[{index}] must be {expected}"));
        let check = |is_valid: bool, expected: &'static str| {
            if is_valid { Ok(StateScope::Fixed) } else { Err(invalid(expected)) }
        };
        match self {
            Self::Address | Self::OptionalAddress => check(is_data(json, 20), ADDRESS),
            Self::Hash => check(is_data(json, 32), HASH),
            Self::StorageSlot => {
                check(is_storage_slot(json), "a storage slot: 0x and up to 64 hex digits")
            }
            Self::StorageSlots => check(
                list(json).is_some_and(|slots| slots.iter().all(|slot| is_storage_slot(slot))),
                "an array of storage slots: 0x and up to 64 hex digits each",
            ),
            Self::Flag => check(matches!(json.get(), "true" | "false"), "true or false"),
            Self::Object | Self::OptionalObject => check(is_object(json), "an object"),
            Self::OptionalArray => check(json.get().starts_with('['), "an array"),
            Self::BlockCount => check(is_number(json), "a number of blocks"),
            Self::TransactionIndex => check(is_number(json), "a transaction index"),
            Self::Block => parse_block(json).ok_or_else(|| invalid(BLOCK_TAG)),
            Self::State | Self::OptionalState => {
                parse_state(json).ok_or_else(|| invalid(BLOCK_TAG))
            }
            Self::Transaction => check_transaction(json, index),
            Self::LogFilter => parse_log_filter(json, index),
        }
    }
}

/// Checks the addresses of a transaction object.
fn check_transaction(json: &RawValue, index: usize) -> Result<StateScope, InvalidParams> {
    #[derive(Deserialize)]
    struct Transaction<'a> {
        #[serde(borrow)]
        from: Option<&'a RawValue>,
        to: Option<&'a RawValue>,
    }
    let Some(transaction) = parse_object::<Transaction>(json) else {
        return Err(InvalidParams(format!("params[{index}] must be a transaction object")));
    };
    for (name, address) in [("from", transaction.from), ("to", transaction.to)] {
        if address.is_some_and(|address| !is_data(address, 20)) {
            return Err(InvalidParams(format!("params[{index}].{name} must be {ADDRESS}")));
        }
    }
    Ok(StateScope::Fixed)
}

/// Parses a log filter into the scope of its blocks.
fn parse_log_filter(json: &RawValue, index: usize) -> Result<StateScope, InvalidParams> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter<'a> {
        #[serde(borrow)]
        from_block: Option<&'a RawValue>,
        to_block: Option<&'a RawValue>,
        block_hash: Option<&'a RawValue>,
        address: Option<&'a RawValue>,
        topics: Option<&'a RawValue>,
    }
    let invalid = |name: &str, what: &str| {
        Err(InvalidParams(format!("params[{index}].{name} must be {what}")))
    };
    let Some(filter) = parse_object::<Filter>(json) else {
        return Err(InvalidParams(format!("params[{index}] must be a filter object")));
    };
    if filter.address.is_some_and(|json| !is_one_or_many(json, |json| is_data(json, 20))) {
        return invalid("address", "an address, 0x and 40 hex digits, or an array of them");
    }
    if filter.topics.is_some_and(|json| !are_topics(json)) {
        return invalid("topics", "up to 4 of null, a hash and an array of hashes");
    }
    if let Some(hash) = filter.block_hash {
        if filter.from_block.is_some() || filter.to_block.is_some() {
            return invalid("blockHash", "without fromBlock and toBlock");
        }
        if !is_data(hash, 32) {
            return invalid("blockHash", HASH);
        }
        return Ok(StateScope::Fixed);
    }
    let mut combined = StateScope::Fixed;
    for (name, tag) in [("fromBlock", filter.from_block), ("toBlock", filter.to_block)] {
        let scope = match tag.map(parse_block) {
            // Like an absent state tag.
            None => StateScope::Pending,
            Some(Some(scope)) => scope,
            Some(None) => return invalid(name, BLOCK_TAG),
        };
        combined = combined.combine(scope);
    }
    Ok(combined)
}

const ADDRESS: &str = "an address: 0x and 40 hex digits";
const HASH: &str = "a hash: 0x and 64 hex digits";
const BLOCK_TAG: &str =
    "a block: latest, pending, safe, finalized, earliest, a hex number, or a hash where supported";

/// Parses a block tag or number into the scope of its state.
fn parse_block(json: &RawValue) -> Option<StateScope> {
    Some(match parse_string(json)?.as_ref() {
        "pending" => StateScope::Pending,
        "latest" | "safe" | "finalized" => StateScope::Head,
        "earliest" => StateScope::Fixed,
        text => StateScope::Block(parse_hex(text)?),
    })
}

/// Parses a tag, a number, a hash, or an object of EIP-1898.
fn parse_state(json: &RawValue) -> Option<StateScope> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Eip1898Block<'a> {
        #[serde(borrow)]
        block_number: Option<&'a RawValue>,
        block_hash: Option<&'a RawValue>,
        require_canonical: Option<bool>,
    }
    if is_data(json, 32) {
        return Some(StateScope::Fixed);
    }
    if !is_object(json) {
        return parse_block(json);
    }
    let object: Eip1898Block = parse_object(json)?;
    match (object.block_number, object.block_hash) {
        (Some(number), None) => parse_block(number),
        (None, Some(hash)) if is_data(hash, 32) => {
            // A block can become non-canonical. Its state stays the same, but `requireCanonical` asks for an error.
            let is_canonical = object.require_canonical.unwrap_or(false);
            Some(if is_canonical { StateScope::Head } else { StateScope::Fixed })
        }
        _ => None,
    }
}

fn parse_object<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    is_object(json).then(|| serde_json::from_str(json.get()).ok())?
}

/// Returns true for a count or an index: hex or decimal, a string or a number.
fn is_number(json: &RawValue) -> bool {
    let text = parse_string(json).unwrap_or(Cow::Borrowed(json.get()));
    parse_hex(&text).is_some() || text.parse::<u64>().is_ok()
}

fn is_null(json: &RawValue) -> bool {
    json.get() == "null"
}

fn is_object(json: &RawValue) -> bool {
    json.get().starts_with('{')
}

fn is_hex(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true if the value is a string of `0x` and this many bytes in hex.
fn is_data(json: &RawValue, bytes: usize) -> bool {
    parse_string(json).is_some_and(|text| {
        text.strip_prefix("0x")
            .is_some_and(|hex| hex.len() == bytes.saturating_mul(2) && is_hex(hex))
    })
}

/// Returns true for `0x` and up to 32 bytes in hex, also of odd length. Some clients omit `0x`. Then nodes differ in
/// whether digits are hex or decimal, so it is only allowed where both
/// are the same slot, or where a letter makes decimal impossible.
fn is_storage_slot(json: &RawValue) -> bool {
    const MAX_DIGITS: usize = 64;
    parse_string(json).is_some_and(|slot| {
        let (digits, has_prefix) = match slot.strip_prefix("0x") {
            Some(digits) => (digits, true),
            None => (slot.as_ref(), false),
        };
        let is_unambiguous = has_prefix
            || digits.trim_start_matches('0').len() <= 1
            || digits.bytes().any(|digit| digit.is_ascii_alphabetic());
        digits.len() <= MAX_DIGITS && is_hex(digits) && is_unambiguous
    })
}

fn is_one_or_many(json: &RawValue, is_one: impl Fn(&RawValue) -> bool) -> bool {
    if json.get().starts_with('[') {
        list(json).is_some_and(|many| many.iter().all(|one| is_one(one)))
    } else {
        is_one(json)
    }
}

fn are_topics(json: &RawValue) -> bool {
    /// A log has at most four topics (the EVM's LOG4).
    const MAX_TOPICS: usize = 4;
    let is_hash = |json: &RawValue| is_null(json) || is_data(json, 32);
    list(json).is_some_and(|topics| {
        topics.len() <= MAX_TOPICS && topics.iter().all(|topic| is_one_or_many(topic, is_hash))
    })
}

fn list(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok()
}
