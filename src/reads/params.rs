//! Validation of the parameters of known methods.
//!
//! The grammar is that of the Ethereum JSON-RPC specification, where common nodes agree with it. Parameters that only
//! some nodes reject are left to the node, as is every member without a rule here. Valid parameters are forwarded byte
//! for byte.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::state_scope::StateScope;
use crate::json::{nesting_depth, parse_string};

/// Parameter error. Its text does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidParams(String);

/// Parameters of a method, in order.
#[derive(Debug)]
pub(super) struct Params<'a>(Vec<&'a RawValue>);

/// Parameters of a call without any.
pub(super) fn empty_params<'a>() -> &'a RawValue {
    serde_json::from_str("[]").expect("an empty array is JSON")
}

/// Rejects nesting that some nodes' parsers do not support.
pub(super) fn check_depth(json: &RawValue) -> Result<(), InvalidParams> {
    /// Far more levels than any client needs.
    const MAX_DEPTH: usize = 64;
    if nesting_depth(json) > MAX_DEPTH {
        return Err(InvalidParams("params are nested too deeply".into()));
    }
    Ok(())
}

/// Parses a quantity such as `0x1b4`. Leading zeros are allowed, because nodes send and accept them.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    is_hex(digits).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl<'a> Params<'a> {
    /// Parses the JSON array `json`.
    pub(super) fn parse(json: &'a RawValue) -> Result<Self, InvalidParams> {
        check_depth(json)?;
        let list = serde_json::from_str(json.get());
        list.map(Self).map_err(|_| InvalidParams("params must be an array".into()))
    }

    pub(super) fn check_count(&self, allowed: RangeInclusive<usize>) -> Result<(), InvalidParams> {
        let (count, min, max) = (self.0.len(), *allowed.start(), *allowed.end());
        if allowed.contains(&count) {
            return Ok(());
        }
        let allowed = match (min, max) {
            (1, 1) => "1 member".to_owned(),
            _ if min == max => format!("{min} members"),
            _ => format!("{min} to {max} members"),
        };
        Err(InvalidParams(format!("params must have {allowed}, not {count}")))
    }

    pub(super) fn check_address(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_param(index, ADDRESS, |json| is_data(json, 20))
    }

    pub(super) fn check_hash(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_param(index, HASH, |json| is_data(json, 32))
    }

    pub(super) fn check_storage_slot(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_param(index, "a storage slot: 0x and up to 64 hex digits", is_storage_slot)
    }

    pub(super) fn check_storage_slots(&self, index: usize) -> Result<(), InvalidParams> {
        let expected = "an array of storage slots: 0x and up to 64 hex digits each";
        self.check_param(index, expected, |json| {
            list(json).is_some_and(|slots| slots.iter().all(|slot| is_storage_slot(slot)))
        })
    }

    pub(super) fn check_flag(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_param(index, "true or false", |json| matches!(json.get(), "true" | "false"))
    }

    pub(super) fn check_object(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_param(index, "an object", is_object)
    }

    pub(super) fn check_optional_object(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_optional_param(index, "an object", is_object)
    }

    pub(super) fn check_optional_array(&self, index: usize) -> Result<(), InvalidParams> {
        self.check_optional_param(index, "an array", |json| json.get().starts_with('['))
    }

    /// Checks a count or an index: hex or decimal, a string or a number.
    pub(super) fn check_number(&self, index: usize, expected: &str) -> Result<(), InvalidParams> {
        self.check_param(index, expected, |json| {
            let text = parse_string(json).unwrap_or(Cow::Borrowed(json.get()));
            parse_number(&text).is_some() || text.parse::<u64>().is_ok()
        })
    }

    /// Parses a block tag with `parse`.
    pub(super) fn parse_block_tag(
        &self,
        index: usize,
        parse: fn(&RawValue) -> Option<BlockParam>,
    ) -> Result<StateScope, InvalidParams> {
        let tag = self.0.get(index).and_then(|json| parse(json));
        tag.map(|BlockParam(scope)| scope).ok_or_else(|| self.invalid(index, BLOCK_TAG))
    }

    /// Parses the block whose state is read.
    pub(super) fn parse_state_tag(&self, index: usize) -> Result<StateScope, InvalidParams> {
        self.parse_block_tag(index, BlockParam::parse_state)
    }

    /// Parses an optional state tag. An absent one counts as pending: nodes choose different defaults, and one with
    /// flashblocks may choose the pending block.
    pub(super) fn parse_optional_state_tag(
        &self,
        index: usize,
    ) -> Result<StateScope, InvalidParams> {
        match self.0.get(index) {
            None => Ok(StateScope::Pending),
            Some(json) if is_null(json) => Ok(StateScope::Pending),
            Some(_) => self.parse_state_tag(index),
        }
    }

    /// Checks the addresses of a transaction object.
    pub(super) fn check_transaction(&self, index: usize) -> Result<(), InvalidParams> {
        #[derive(Deserialize)]
        struct Transaction<'a> {
            #[serde(borrow)]
            from: Option<&'a RawValue>,
            to: Option<&'a RawValue>,
        }
        let json = self.0.get(index).filter(|json| is_object(json));
        let transaction =
            json.and_then(|json| serde_json::from_str::<Transaction>(json.get()).ok());
        let Some(transaction) = transaction else {
            return Err(self.invalid(index, "a transaction object"));
        };
        for (name, address) in [("from", transaction.from), ("to", transaction.to)] {
            if address.is_some_and(|address| !is_data(address, 20)) {
                return Err(InvalidParams(format!("params[{index}].{name} must be {ADDRESS}")));
            }
        }
        Ok(())
    }

    /// Parses a log filter into the scope of its blocks.
    pub(super) fn parse_log_filter(&self, index: usize) -> Result<StateScope, InvalidParams> {
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
        let json = self.0.get(index).filter(|json| is_object(json));
        let Some(filter) = json.and_then(|json| serde_json::from_str::<Filter>(json.get()).ok())
        else {
            return Err(self.invalid(index, "a filter object"));
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
        let mut scope = StateScope::Fixed;
        for (name, tag) in [("fromBlock", filter.from_block), ("toBlock", filter.to_block)] {
            let tag = match tag.map(BlockParam::parse_block) {
                // Like an absent state tag.
                None => StateScope::Pending,
                Some(Some(BlockParam(scope))) => scope,
                Some(None) => return invalid(name, BLOCK_TAG),
            };
            scope = scope.combine(tag);
        }
        Ok(scope)
    }

    fn check_param(
        &self,
        index: usize,
        expected: &str,
        is_valid: impl Fn(&RawValue) -> bool,
    ) -> Result<(), InvalidParams> {
        let is_valid = self.0.get(index).is_some_and(|json| is_valid(json));
        if is_valid { Ok(()) } else { Err(self.invalid(index, expected)) }
    }

    /// Checks a parameter that may be absent, or null before a later one.
    fn check_optional_param(
        &self,
        index: usize,
        expected: &str,
        is_valid: impl Fn(&RawValue) -> bool,
    ) -> Result<(), InvalidParams> {
        match self.0.get(index) {
            None => Ok(()),
            Some(_) => self.check_param(index, expected, |json| is_null(json) || is_valid(json)),
        }
    }

    #[expect(clippy::unused_self, reason = "it reads as what is wrong with these parameters")]
    fn invalid(&self, index: usize, expected: &str) -> InvalidParams {
        InvalidParams(format!("params[{index}] must be {expected}"))
    }
}

const ADDRESS: &str = "an address: 0x and 40 hex digits";
const HASH: &str = "a hash: 0x and 64 hex digits";
const BLOCK_TAG: &str =
    "a block: latest, pending, safe, finalized, earliest, a hex number, or a hash where supported";

/// Scope of the state that a block parameter selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockParam(StateScope);

impl BlockParam {
    /// Parses a tag or a number.
    pub(super) fn parse_block(json: &RawValue) -> Option<Self> {
        let scope = match parse_string(json)?.as_ref() {
            "pending" => StateScope::Pending,
            "latest" | "safe" | "finalized" => StateScope::Head,
            "earliest" => StateScope::Fixed,
            text => StateScope::Block(parse_number(text)?),
        };
        Some(Self(scope))
    }

    /// Parses a tag, a number, a hash, or an object of EIP-1898.
    fn parse_state(json: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Eip1898Block<'a> {
            #[serde(borrow)]
            block_number: Option<&'a RawValue>,
            block_hash: Option<&'a RawValue>,
            require_canonical: Option<bool>,
        }
        if is_data(json, 32) {
            return Some(Self(StateScope::Fixed));
        }
        if !is_object(json) {
            return Self::parse_block(json);
        }
        let object: Eip1898Block = serde_json::from_str(json.get()).ok()?;
        match (object.block_number, object.block_hash) {
            (Some(number), None) => Self::parse_block(number),
            (None, Some(hash)) if is_data(hash, 32) => {
                // A block can become non-canonical. Its state stays the same, but `requireCanonical` asks for an error.
                let is_canonical = object.require_canonical.unwrap_or(false);
                Some(Self(if is_canonical { StateScope::Head } else { StateScope::Fixed }))
            }
            _ => None,
        }
    }
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
/// whether digits are hex or decimal, so it is only allowed where both are the same slot, or where a letter makes decimal impossible.
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
