//! Methods that may be called, and the state that a call depends on according to its parameters.

use std::borrow::Cow;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

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
    /// Result that the service gives itself. `None`: the nodes are called.
    own_result: Option<&'static str>,
}

/// Block that a result mentions, perhaps before the polls have seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHint {
    pub(super) number: u64,
    /// Digest of the hash of a transaction's block, which changes while that block is pending and when it is mined.
    /// `None`: the block is the head.
    pub(super) hash_digest: Option<u64>,
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

    /// Returns the response that the service gives itself.
    pub(super) fn own_response(&self) -> Option<NodeResponse> {
        let result = self.own_result?;
        Some(NodeResponse::Result(Bytes::from_static(result.as_bytes())))
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

const fn method(
    name: &'static str,
    parse_scope: fn(&Params<'_>) -> Result<StateScope, InvalidParams>,
) -> KnownMethod {
    KnownMethod { name, parse_scope, parse_hint: |_| None, own_result: None }
}

/// The nine methods of the network document's section 4.1, and others that clients need.
static KNOWN_METHODS: [KnownMethod; 30] = [
    method("eth_getBalance", account_scope),
    method("eth_getCode", account_scope),
    method("eth_getTransactionCount", account_scope),
    method("eth_getStorageAt", storage_scope),
    KnownMethod {
        parse_hint: parse_transaction_hint,
        ..method("eth_getTransactionReceipt", transaction_scope)
    },
    method("eth_getLogs", logs_scope),
    method("eth_call", call_scope),
    method("eth_estimateGas", call_scope),
    method("eth_simulateV1", simulation_scope),
    method("eth_feeHistory", fee_history_scope),
    method("eth_chainId", chain_scope),
    method("net_version", chain_scope),
    KnownMethod { parse_hint: parse_head_hint, ..method("eth_blockNumber", head_scope) },
    method("eth_gasPrice", head_scope),
    method("eth_maxPriorityFeePerGas", head_scope),
    method("eth_blobBaseFee", head_scope),
    method("eth_syncing", head_scope),
    method("net_listening", head_scope),
    method("eth_getBlockByNumber", block_scope),
    method("eth_getBlockByHash", block_by_hash_scope),
    method("eth_getBlockReceipts", block_receipts_scope),
    method("eth_getBlockTransactionCountByNumber", transaction_count_scope),
    method("eth_getBlockTransactionCountByHash", transaction_count_by_hash_scope),
    KnownMethod {
        parse_hint: parse_transaction_hint,
        ..method("eth_getTransactionByHash", transaction_scope)
    },
    method("eth_getTransactionByBlockNumberAndIndex", transaction_at_scope),
    method("eth_getTransactionByBlockHashAndIndex", transaction_at_hash_scope),
    method("eth_getProof", proof_scope),
    method("eth_createAccessList", call_scope),
    KnownMethod {
        own_result: Some(concat!("\"gas-suggestion/", env!("CARGO_PKG_VERSION"), "\"")),
        ..method("web3_clientVersion", chain_scope)
    },
    KnownMethod { own_result: Some("[]"), ..method("eth_accounts", chain_scope) },
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

/// `[transaction, tag?, stateOverride?, blockOverride?]`. The tag is often absent, and nodes differ in their default.
fn call_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=4)?;
    params.check_transaction(0)?;
    let scope = params.parse_optional_state_tag(1)?;
    params.check_optional_object(2)?;
    params.check_optional_object(3)?;
    Ok(scope)
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
    params.check_number(0, "a number of blocks")?;
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

/// `[hash, full]`
fn block_by_hash_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=2)?;
    params.check_flag(1)?;
    params.check_hash(0)?;
    Ok(StateScope::Fixed)
}

/// `[tag]`, also a hash.
fn block_receipts_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=1)?;
    params.parse_state_tag(0)
}

/// `[tag]`
fn transaction_count_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=1)?;
    params.parse_block_tag(0, BlockParam::parse_block)
}

/// `[hash]` of a block, whose content never changes.
fn transaction_count_by_hash_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(1..=1)?;
    params.check_hash(0)?;
    Ok(StateScope::Fixed)
}

/// `[tag, index]`
fn transaction_at_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=2)?;
    params.check_number(1, "a transaction index")?;
    params.parse_block_tag(0, BlockParam::parse_block)
}

/// `[hash, index]`
fn transaction_at_hash_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(2..=2)?;
    params.check_number(1, "a transaction index")?;
    params.check_hash(0)?;
    Ok(StateScope::Fixed)
}

/// `[address, slots, tag]`
fn proof_scope(params: &Params<'_>) -> Result<StateScope, InvalidParams> {
    params.check_count(3..=3)?;
    params.check_address(0)?;
    params.check_storage_slots(1)?;
    params.parse_state_tag(2)
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
fn parse_transaction_hint(result: &[u8]) -> Option<BlockHint> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mined<'a> {
        #[serde(borrow)]
        block_number: Option<Cow<'a, str>>,
        #[serde(borrow)]
        block_hash: Option<Cow<'a, str>>,
    }
    let mined: Mined = serde_json::from_slice(result).ok()?;
    let number = params::parse_number(&mined.block_number?)?;
    let hash_digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(mined.block_hash);
    Some(BlockHint { number, hash_digest: Some(hash_digest) })
}

fn parse_head_hint(result: &[u8]) -> Option<BlockHint> {
    let number = params::parse_number(serde_json::from_slice(result).ok()?)?;
    Some(BlockHint { number, hash_digest: None })
}
