//! The methods that may be called, and what each says of its parameters.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::anchor::Anchor;
use super::params::{self, BlockTag, Invalid, Params};
use super::told::Block;
use crate::config::RpcMethod;
use crate::rpc::Answer;

/// A method whose parameters are understood. All of these only read, so an answer may be shared.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    /// Refuses what cannot be right and says what the answer depends on.
    read: fn(&Params<'_>) -> Result<Anchor, Invalid>,
    /// The block that a result tells of.
    block_told: fn(&[u8]) -> Option<Block>,
}

impl Known {
    /// What the answer to a call with these parameters depends on.
    ///
    /// # Errors
    ///
    /// When the parameters cannot be right.
    pub(super) fn anchor(&self, params: &RawValue) -> Result<Anchor, Invalid> {
        (self.read)(&Params::of(params)?)
    }

    /// Whether an answer may be used again at all. A wallet that sends twice within a flashblock asks
    /// for its nonce in between: the same one again would replace what was sent first.
    pub(super) fn is_kept(&self, anchor: Anchor) -> bool {
        !(self.name == "eth_getTransactionCount" && anchor == Anchor::Pending)
    }

    /// The block that this answer tells of.
    pub(super) fn block_told_by(&self, answer: &Answer) -> Option<Block> {
        match answer {
            Answer::Result(json) => (self.block_told)(json),
            Answer::Error(_) => None,
        }
    }
}

/// A method that a chain allows.
#[derive(Debug, Clone)]
pub(super) enum Method {
    Known(&'static Known),
    /// One that the operator allows and nothing is known of: each call is passed on by itself.
    Other(String),
}

/// The methods that a chain allows.
#[derive(Debug)]
pub(super) struct Methods(Vec<Method>);

impl Methods {
    /// The `configured` ones; `None`: all that are known.
    pub(super) fn of(configured: Option<&[RpcMethod]>) -> Self {
        let method = |name: &RpcMethod| match known(name.as_str()) {
            Some(known) => Method::Known(known),
            None => Method::Other(name.as_str().to_owned()),
        };
        match configured {
            Some(names) => Self(names.iter().map(method).collect()),
            None => Self(KNOWN.iter().map(Method::Known).collect()),
        }
    }

    /// The method with exactly this name.
    pub(super) fn get(&self, name: &str) -> Option<&Method> {
        self.0.iter().find(|method| method.name() == name)
    }
}

/// The known method with exactly this name.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|method| method.name == name)
}

impl Method {
    fn name(&self) -> &str {
        match self {
            Self::Known(known) => known.name,
            Self::Other(name) => name,
        }
    }
}

const fn plain(name: &'static str, read: fn(&Params<'_>) -> Result<Anchor, Invalid>) -> Known {
    Known { name, read, block_told: |_| None }
}

/// The nine of the network document's section 4.1, and what clients need beside them.
static KNOWN: [Known; 17] = [
    plain("eth_getBalance", of_account),
    plain("eth_getCode", of_account),
    plain("eth_getTransactionCount", of_account),
    plain("eth_getStorageAt", of_storage),
    Known { block_told: block_of, ..plain("eth_getTransactionReceipt", of_transaction) },
    plain("eth_getLogs", of_logs),
    plain("eth_call", of_call),
    plain("eth_estimateGas", of_estimate),
    plain("eth_simulateV1", of_simulation),
    plain("eth_feeHistory", of_fee_history),
    plain("eth_chainId", of_the_chain),
    plain("net_version", of_the_chain),
    Known { block_told: head_of, ..plain("eth_blockNumber", of_the_head) },
    plain("eth_gasPrice", of_the_head),
    plain("eth_maxPriorityFeePerGas", of_the_head),
    plain("eth_getBlockByNumber", of_block),
    Known { block_told: block_of, ..plain("eth_getTransactionByHash", of_transaction) },
];

/// `[address, tag]`
fn of_account(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(2..=2)?;
    params.address(0)?;
    params.state_tag(1)
}

/// `[address, slot, tag]`
fn of_storage(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(3..=3)?;
    params.address(0)?;
    params.slot(1)?;
    params.state_tag(2)
}

/// `[hash]`; nothing but the hash decides, so a pre-confirmed answer can still change or vanish.
fn of_transaction(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(1..=1)?;
    params.hash(0)?;
    Ok(Anchor::Pending)
}

/// `[filter]`
fn of_logs(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(1..=1)?;
    params.log_filter(0)
}

/// `[transaction, tag?, stateOverride?, blockOverride?]`
fn of_call(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(1..=4)?;
    params.transaction(0)?;
    let anchor = params.optional_state_tag(1)?;
    params.optional_object(2)?;
    params.optional_object(3)?;
    Ok(anchor)
}

/// As [`of_call`]. The tag is often absent, and nodes differ in what they take for it.
fn of_estimate(params: &Params<'_>) -> Result<Anchor, Invalid> {
    of_call(params)
}

/// `[payload, tag?]`
fn of_simulation(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(1..=2)?;
    params.object(0)?;
    params.optional_state_tag(1)
}

/// `[count, tag, percentiles?]`
fn of_fee_history(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(2..=3)?;
    params.block_count(0)?;
    let anchor = params.block_tag(1, BlockTag::of_block)?;
    params.optional_array(2)?;
    Ok(anchor)
}

/// `[tag, full]`
fn of_block(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(2..=2)?;
    params.flag(1)?;
    params.block_tag(0, BlockTag::of_block)
}

/// `[]`
fn of_the_head(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(0..=0)?;
    Ok(Anchor::Head)
}

/// `[]`
fn of_the_chain(params: &Params<'_>) -> Result<Anchor, Invalid> {
    params.count(0..=0)?;
    Ok(Anchor::Fixed)
}

/// The block of a transaction or its receipt.
fn block_of(result: &[u8]) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mined<'a> {
        #[serde(borrow)]
        block_number: Option<Cow<'a, str>>,
        block_hash: Option<Cow<'a, str>>,
    }
    let mined: Mined = serde_json::from_slice(result).ok()?;
    let hash = mined.block_hash.unwrap_or_default().into_owned();
    Some(Block::OfTransaction(params::number(&mined.block_number?)?, hash))
}

fn head_of(result: &[u8]) -> Option<Block> {
    params::number(serde_json::from_slice(result).ok()?).map(Block::Head)
}
