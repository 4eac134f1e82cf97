//! Methods that may be called, and the state that a call depends on according to its parameters.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::head_hints::BlockHint;
use super::params::{self, BlockParam, InvalidParams, Params};
use super::state_scope::StateScope;
use crate::config::RpcMethod;
use crate::upstream::NodeResponse;

/// A method with known parameters. All known methods only read, so their responses may be shared.
#[derive(Debug)]
pub(super) struct KnownMethod {
    pub(super) name: &'static str,
    /// Validates the parameters and returns the state that the result depends on.
    parse_scope: fn(&Params<'_>) -> Result<StateScope, InvalidParams>,
    /// Block that a result mentions.
    parse_hint: fn(&[u8]) -> Option<BlockHint>,
}

impl KnownMethod {
    /// Returns the state that a result with these parameters depends on.
    ///
    /// # Errors
    ///
    /// Fails if the parameters are invalid.
    pub(super) fn state_scope(&self, params: &RawValue) -> Result<StateScope, InvalidParams> {
        (self.parse_scope)(&Params::parse(params)?)
    }

    /// Returns true if a response may be cached. A pending nonce may not: a wallet that sends two transactions within a
    /// flashblock would use it for both, and the second would replace the first.
    pub(super) fn is_cacheable(&self, scope: StateScope) -> bool {
        !(self.name == "eth_getTransactionCount" && scope == StateScope::Pending)
    }

    /// Returns the block that this result mentions.
    pub(super) fn block_hint(&self, response: &NodeResponse) -> Option<BlockHint> {
        match response {
            NodeResponse::Result(json) => (self.parse_hint)(json),
            NodeResponse::Error(_) => None,
        }
    }
}

/// A method that a chain allows.
#[derive(Debug, Clone)]
pub(super) enum ReadMethod {
    Known(&'static KnownMethod),
    /// An unknown method that the operator allows. Each call is forwarded separately.
    PassThrough(String),
}

/// Methods that a chain allows.
#[derive(Debug)]
pub(super) struct Methods(Vec<ReadMethod>);

impl Methods {
    /// Creates the allow-list of the configured methods; `None`: all known ones.
    pub(super) fn from_config(configured: Option<&[RpcMethod]>) -> Self {
        let method = |name: &RpcMethod| match find_known(name.as_str()) {
            Some(known) => ReadMethod::Known(known),
            None => ReadMethod::PassThrough(name.as_str().to_owned()),
        };
        match configured {
            Some(names) => Self(names.iter().map(method).collect()),
            None => Self(KNOWN_METHODS.iter().map(ReadMethod::Known).collect()),
        }
    }

    /// Returns the method with exactly this name.
    pub(super) fn get(&self, name: &str) -> Option<&ReadMethod> {
        self.0.iter().find(|method| method.name() == name)
    }
}

/// Returns the known method with exactly this name.
pub(super) fn find_known(name: &str) -> Option<&'static KnownMethod> {
    KNOWN_METHODS.iter().find(|method| method.name == name)
}

impl ReadMethod {
    fn name(&self) -> &str {
        match self {
            Self::Known(known) => known.name,
            Self::PassThrough(name) => name,
        }
    }
}

const fn without_hint(
    name: &'static str,
    parse_scope: fn(&Params<'_>) -> Result<StateScope, InvalidParams>,
) -> KnownMethod {
    KnownMethod { name, parse_scope, parse_hint: |_| None }
}

/// The nine methods of the network document's section 4.1, and others that clients need.
static KNOWN_METHODS: [KnownMethod; 17] = [
    without_hint("eth_getBalance", account_scope),
    without_hint("eth_getCode", account_scope),
    without_hint("eth_getTransactionCount", account_scope),
    without_hint("eth_getStorageAt", storage_scope),
    KnownMethod {
        parse_hint: parse_block_hint,
        ..without_hint("eth_getTransactionReceipt", transaction_scope)
    },
    without_hint("eth_getLogs", logs_scope),
    without_hint("eth_call", call_scope),
    without_hint("eth_estimateGas", estimate_scope),
    without_hint("eth_simulateV1", simulation_scope),
    without_hint("eth_feeHistory", fee_history_scope),
    without_hint("eth_chainId", chain_scope),
    without_hint("net_version", chain_scope),
    KnownMethod { parse_hint: parse_head_hint, ..without_hint("eth_blockNumber", head_scope) },
    without_hint("eth_gasPrice", head_scope),
    without_hint("eth_maxPriorityFeePerGas", head_scope),
    without_hint("eth_getBlockByNumber", block_scope),
    KnownMethod {
        parse_hint: parse_block_hint,
        ..without_hint("eth_getTransactionByHash", transaction_scope)
    },
];

/// `[address, tag]`
fn account_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=2)?;
    params.check_address(0)?;
    params.parse_state_tag(1)
}

/// `[address, slot, tag]`
fn storage_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(3..=3)?;
    params.check_address(0)?;
    params.check_storage_slot(1)?;
    params.parse_state_tag(2)
}

/// `[hash]`. The hash alone determines the result, but a pre-confirmed result can still change or vanish.
fn transaction_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=1)?;
    params.check_hash(0)?;
    Ok(StateScope::Pending)
}

/// `[filter]`
fn logs_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=1)?;
    params.parse_log_filter(0)
}

/// `[transaction, tag?, stateOverride?, blockOverride?]`
fn call_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=4)?;
    params.check_transaction(0)?;
    let scope = params.parse_optional_state_tag(1)?;
    params.check_optional_object(2)?;
    params.check_optional_object(3)?;
    Ok(scope)
}

/// Like [`call_scope`]. The tag is often absent, and nodes differ in their default.
fn estimate_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    call_scope(params)
}

/// `[payload, tag?]`
fn simulation_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=2)?;
    params.check_object(0)?;
    params.parse_optional_state_tag(1)
}

/// `[count, tag, percentiles?]`
fn fee_history_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=3)?;
    params.check_block_count(0)?;
    let scope = params.parse_block_tag(1, BlockParam::parse_block)?;
    params.check_optional_array(2)?;
    Ok(scope)
}

/// `[tag, full]`
fn block_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=2)?;
    params.check_flag(1)?;
    params.parse_block_tag(0, BlockParam::parse_block)
}

/// `[]`
fn head_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(0..=0)?;
    Ok(StateScope::Head)
}

/// `[]`
fn chain_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(0..=0)?;
    Ok(StateScope::Fixed)
}

/// Returns the block of a transaction or a receipt.
fn parse_block_hint(result: &[u8]) -> Option<BlockHint> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mined<'a> {
        #[serde(borrow)]
        block_number: Option<Cow<'a, str>>,
        block_hash: Option<Cow<'a, str>>,
    }
    let mined: Mined = serde_json::from_slice(result).ok()?;
    let hash = mined.block_hash.unwrap_or_default().into_owned();
    Some(BlockHint::Transaction(params::parse_number(&mined.block_number?)?, hash))
}

fn parse_head_hint(result: &[u8]) -> Option<BlockHint> {
    params::parse_number(serde_json::from_slice(result).ok()?).map(BlockHint::Head)
}
