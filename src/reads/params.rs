//! The parameters of known methods, looked at as far as they can be known to be wrong.
//!
//! The grammar is that of the Ethereum JSON-RPC specification, where it and common nodes agree. What
//! only some nodes refuse is left to the node, and so is every member that no rule here is about: the
//! bytes are passed on as they came.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::anchor::Anchor;
use crate::json::{depth, text};

/// What is wrong with parameters; it does not repeat them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// A method's parameters in their order.
#[derive(Debug)]
pub(super) struct Params<'a>(Vec<&'a RawValue>);

/// What a call without parameters has.
pub(super) fn none<'a>() -> &'a RawValue {
    serde_json::from_str("[]").expect("an empty array is JSON")
}

/// Refuses what some nodes' readers would not get through.
pub(super) fn check_depth(json: &RawValue) -> Result<(), Invalid> {
    /// No client needs as many levels.
    const MOST: usize = 64;
    if depth(json) > MOST {
        return Err(Invalid("params are nested too deeply".into()));
    }
    Ok(())
}

/// The number that a quantity such as `0x1b4` stands for; nodes write and read some with leading
/// zeros.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    is_hex(digits).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl<'a> Params<'a> {
    /// The members of the list `json`.
    pub(super) fn of(json: &'a RawValue) -> Result<Self, Invalid> {
        check_depth(json)?;
        let list = serde_json::from_str(json.get());
        list.map(Self).map_err(|_| Invalid("params must be an array".into()))
    }

    pub(super) fn count(&self, allowed: RangeInclusive<usize>) -> Result<(), Invalid> {
        let (count, least, most) = (self.0.len(), *allowed.start(), *allowed.end());
        if allowed.contains(&count) {
            return Ok(());
        }
        let allowed = match (least, most) {
            (1, 1) => "1 member".to_owned(),
            _ if least == most => format!("{least} members"),
            _ => format!("{least} to {most} members"),
        };
        Err(Invalid(format!("params must have {allowed}, not {count}")))
    }

    pub(super) fn address(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, ADDRESS, |json| is_data(json, 20))
    }

    pub(super) fn hash(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, HASH, |json| is_data(json, 32))
    }

    /// A place in a contract's storage, with or without its leading zeros.
    pub(super) fn slot(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, "a storage slot: 0x and up to 64 hex digits", |json| {
            text(json).is_some_and(|slot| {
                slot.strip_prefix("0x").is_some_and(|slot| slot.len() <= 64 && is_hex(slot))
            })
        })
    }

    pub(super) fn flag(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, "true or false", |json| matches!(json.get(), "true" | "false"))
    }

    pub(super) fn object(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, "an object", is_object)
    }

    pub(super) fn optional_object(&self, index: usize) -> Result<(), Invalid> {
        self.check_optional(index, "an object", is_object)
    }

    pub(super) fn optional_array(&self, index: usize) -> Result<(), Invalid> {
        self.check_optional(index, "an array", |json| json.get().starts_with('['))
    }

    /// A count of blocks, in hex or not, as a string or not.
    pub(super) fn block_count(&self, index: usize) -> Result<(), Invalid> {
        self.check(index, "a number of blocks", |json| {
            let text = text(json).unwrap_or(Cow::Borrowed(json.get()));
            number(&text).is_some() || text.parse::<u64>().is_ok()
        })
    }

    /// A block tag in the form that `read` takes.
    pub(super) fn block_tag(
        &self,
        index: usize,
        read: fn(&RawValue) -> Option<BlockTag>,
    ) -> Result<Anchor, Invalid> {
        let tag = self.0.get(index).and_then(|json| read(json));
        tag.map(|BlockTag(anchor)| anchor).ok_or_else(|| self.wrong(index, TAG))
    }

    /// The block whose state is meant.
    pub(super) fn state_tag(&self, index: usize) -> Result<Anchor, Invalid> {
        self.block_tag(index, BlockTag::of_state)
    }

    /// The same where nodes choose a block if none is named: no two of them need to choose alike, and
    /// one with flashblocks may choose the pending one.
    pub(super) fn optional_state_tag(&self, index: usize) -> Result<Anchor, Invalid> {
        match self.0.get(index) {
            None => Ok(Anchor::Pending),
            Some(json) if is_null(json) => Ok(Anchor::Pending),
            Some(_) => self.state_tag(index),
        }
    }

    /// A transaction to be tried, of which the addresses are looked at.
    pub(super) fn transaction(&self, index: usize) -> Result<(), Invalid> {
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
            return Err(self.wrong(index, "a transaction object"));
        };
        for (name, address) in [("from", transaction.from), ("to", transaction.to)] {
            if address.is_some_and(|address| !is_data(address, 20)) {
                return Err(Invalid(format!("params[{index}].{name} must be {ADDRESS}")));
            }
        }
        Ok(())
    }

    /// Which logs are asked for.
    pub(super) fn log_filter(&self, index: usize) -> Result<Anchor, Invalid> {
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
        let wrong =
            |name: &str, what: &str| Err(Invalid(format!("params[{index}].{name} must be {what}")));
        let json = self.0.get(index).filter(|json| is_object(json));
        let Some(filter) = json.and_then(|json| serde_json::from_str::<Filter>(json.get()).ok())
        else {
            return Err(self.wrong(index, "a filter object"));
        };
        if filter.address.is_some_and(|json| !is_one_or_many(json, |json| is_data(json, 20))) {
            return wrong("address", "an address, 0x and 40 hex digits, or an array of them");
        }
        if filter.topics.is_some_and(|json| !are_topics(json)) {
            return wrong("topics", "up to 4 of null, a hash and an array of hashes");
        }
        if let Some(hash) = filter.block_hash {
            if filter.from_block.is_some() || filter.to_block.is_some() {
                return wrong("blockHash", "without fromBlock and toBlock");
            }
            if !is_data(hash, 32) {
                return wrong("blockHash", HASH);
            }
            return Ok(Anchor::Fixed);
        }
        let mut anchor = Anchor::Fixed;
        for (name, tag) in [("fromBlock", filter.from_block), ("toBlock", filter.to_block)] {
            let tag = match tag.map(BlockTag::of_block) {
                // As with an absent state tag.
                None => Anchor::Pending,
                Some(Some(BlockTag(anchor))) => anchor,
                Some(None) => return wrong(name, TAG),
            };
            anchor = anchor.and(tag);
        }
        Ok(anchor)
    }

    fn check(
        &self,
        index: usize,
        what: &str,
        is_right: impl Fn(&RawValue) -> bool,
    ) -> Result<(), Invalid> {
        let is_right = self.0.get(index).is_some_and(|json| is_right(json));
        if is_right { Ok(()) } else { Err(self.wrong(index, what)) }
    }

    /// A null stands for what is left out before something else.
    fn check_optional(
        &self,
        index: usize,
        what: &str,
        is_right: impl Fn(&RawValue) -> bool,
    ) -> Result<(), Invalid> {
        match self.0.get(index) {
            None => Ok(()),
            Some(_) => self.check(index, what, |json| is_null(json) || is_right(json)),
        }
    }

    #[expect(clippy::unused_self, reason = "it reads as what is wrong with these parameters")]
    fn wrong(&self, index: usize, what: &str) -> Invalid {
        Invalid(format!("params[{index}] must be {what}"))
    }
}

const ADDRESS: &str = "an address: 0x and 40 hex digits";
const HASH: &str = "a hash: 0x and 64 hex digits";
const TAG: &str =
    "a block: latest, pending, safe, finalized, earliest, a hex number, or where it fits a hash";

/// A block tag by what an answer at it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockTag(Anchor);

impl BlockTag {
    /// A tag or a number.
    pub(super) fn of_block(json: &RawValue) -> Option<Self> {
        let anchor = match text(json)?.as_ref() {
            "pending" => Anchor::Pending,
            "latest" | "safe" | "finalized" => Anchor::Head,
            "earliest" => Anchor::Fixed,
            text => Anchor::Block(number(text)?),
        };
        Some(Self(anchor))
    }

    /// The same, a hash, or an object by EIP-1898.
    fn of_state(json: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object<'a> {
            #[serde(borrow)]
            block_number: Option<&'a RawValue>,
            block_hash: Option<&'a RawValue>,
            require_canonical: Option<bool>,
        }
        if is_data(json, 32) {
            return Some(Self(Anchor::Fixed));
        }
        if !is_object(json) {
            return Self::of_block(json);
        }
        let object: Object = serde_json::from_str(json.get()).ok()?;
        match (object.block_number, object.block_hash) {
            (Some(number), None) => Self::of_block(number),
            (None, Some(hash)) if is_data(hash, 32) => {
                // A block can cease to be canonical; its state stays what it is.
                let is_canonical = object.require_canonical.unwrap_or(false);
                Some(Self(if is_canonical { Anchor::Head } else { Anchor::Fixed }))
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

/// Whether it is a string of `0x` and this many bytes in hex.
fn is_data(json: &RawValue, bytes: usize) -> bool {
    text(json).is_some_and(|text| {
        text.strip_prefix("0x")
            .is_some_and(|hex| hex.len() == bytes.saturating_mul(2) && is_hex(hex))
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
    /// What a log can have (the EVM's LOG4).
    const MOST: usize = 4;
    let is_hash = |json: &RawValue| is_null(json) || is_data(json, 32);
    list(json).is_some_and(|topics| {
        topics.len() <= MOST && topics.iter().all(|topic| is_one_or_many(topic, is_hash))
    })
}

fn list(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok()
}
