//! Methods that may be called, and the state that a call depends on according to its parameters.

use std::borrow::Cow;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::NodeResponse;
use super::chain_keys::RpcMethod;
use super::params::Param::{
    self, Address, Block, BlockCount, Flag, Hash, LogFilter, Object, OptionalAddress,
    OptionalArray, OptionalObject, OptionalState, State, StorageSlot, StorageSlots, Transaction,
    TransactionIndex,
};
use super::params::{self, InvalidParams};
use super::state_scope::StateScope::{self, Fixed, Head, Pending};
use crate::fees::Tier;
use crate::nodes::parse_hex;
use crate::store::Snapshot;

/// A method with known parameters. All known methods only read, so their responses may be shared.
#[derive(Debug)]
pub(crate) struct KnownMethod {
    pub(crate) name: &'static str,
    params: &'static [Param],
    /// State that the result depends on, beside that which the parameters select.
    scope: StateScope,
    /// Block that a result mentions.
    parse_hint: fn(&[u8]) -> Option<BlockHint>,
    /// Result that the service gives itself. `None`: the nodes are called.
    own_result: Option<&'static str>,
    /// Result as JSON that answers a call without parameters if the chain has `answer_fee_methods`; the function returns
    /// `None` if the snapshot does not have it.
    pub(crate) suggested: Option<fn(&Snapshot) -> Option<String>>,
    /// True if only bundlers have the method, so no node is asked for it by default.
    is_of_bundlers: bool,
}

/// Block that a result mentions, perhaps before the polls have seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHint {
    pub(crate) number: u64,
    /// Digest of the hash of a transaction's block, which changes while that block is pending and when it is mined.
    /// `None`: the block is the head.
    pub(crate) hash_digest: Option<u64>,
}

impl KnownMethod {
    /// Returns the state that a result with these parameters depends on.
    ///
    /// # Errors
    ///
    /// Fails if the parameters are invalid.
    pub(crate) fn state_scope(&self, params: &RawValue) -> Result<StateScope, InvalidParams> {
        params::parse(params, self.params, self.scope)
    }

    /// Returns true if a response may be cached. A pending nonce may not: a wallet that sends two transactions within a
    /// flashblock would use it for both, and the second would replace the first.
    pub(crate) fn is_cacheable(&self, scope: StateScope) -> bool {
        !(self.name == "eth_getTransactionCount" && scope == StateScope::Pending)
    }

    /// Returns the response that the service gives itself.
    pub(crate) fn own_response(&self) -> Option<NodeResponse> {
        let result = self.own_result?;
        Some(NodeResponse::Result(Bytes::from_static(result.as_bytes())))
    }

    /// Returns the block that this result mentions.
    pub(crate) fn block_hint(&self, response: &NodeResponse) -> Option<BlockHint> {
        match response {
            NodeResponse::Result(json) => (self.parse_hint)(json),
            NodeResponse::Error(_) => None,
        }
    }
}

/// A method that a chain allows.
#[derive(Debug, Clone)]
pub(crate) enum ReadMethod {
    Known(&'static KnownMethod),
    /// An unknown method that the operator allows. Each call is forwarded separately.
    PassThrough(String),
}

/// Methods that a chain allows.
#[derive(Debug)]
pub(crate) struct Methods(Vec<ReadMethod>);

impl Methods {
    /// Creates the allow-list of the configured methods; `None`, and if they are added: all known ones, those of bundlers
    /// only if the suggestion answers them.
    pub(crate) fn from_config(configured: Option<&[RpcMethod]>, answers_fees: bool) -> Self {
        let method = |name: &RpcMethod| match find_known(name.as_str()) {
            Some(known) => ReadMethod::Known(known),
            None => ReadMethod::PassThrough(name.as_str().to_owned()),
        };
        let is_default = |known: &&KnownMethod| answers_fees || !known.is_of_bundlers;
        let defaults = KNOWN_METHODS.iter().filter(is_default).map(ReadMethod::Known);
        match configured {
            None => Self(defaults.collect()),
            Some([first, more @ ..]) if first.is_added() => {
                Self(defaults.chain([first].into_iter().chain(more).map(method)).collect())
            }
            Some(methods) => Self(methods.iter().map(method).collect()),
        }
    }

    /// Returns the method with exactly this name.
    pub(crate) fn get(&self, name: &str) -> Option<&ReadMethod> {
        self.0.iter().find(|method| method.name() == name)
    }
}

/// Returns the known method with exactly this name.
pub(crate) fn find_known(name: &str) -> Option<&'static KnownMethod> {
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

/// A method whose result depends on nothing but the state that its parameters select.
const fn method(name: &'static str, params: &'static [Param]) -> KnownMethod {
    KnownMethod {
        name,
        params,
        scope: Fixed,
        parse_hint: |_| None,
        own_result: None,
        suggested: None,
        is_of_bundlers: false,
    }
}

/// A method without parameters, whose result changes with each block.
const fn head_method(name: &'static str) -> KnownMethod {
    KnownMethod { scope: Head, ..method(name, &[]) }
}

/// A fee method of nodes. On Celo its parameter is the token that the fees are in.
const fn fee_method(name: &'static str, suggested: fn(&Snapshot) -> Option<String>) -> KnownMethod {
    let params = &[OptionalAddress];
    KnownMethod { params, suggested: Some(suggested), ..head_method(name) }
}

/// A method of a transaction hash. The hash alone determines the result, but a pre-confirmed one can change or vanish.
const fn transaction_method(name: &'static str) -> KnownMethod {
    KnownMethod { scope: Pending, parse_hint: parse_transaction_hint, ..method(name, &[Hash]) }
}

/// A method of bundlers, which no node has.
const fn bundler_method(
    name: &'static str,
    suggested: fn(&Snapshot) -> Option<String>,
) -> KnownMethod {
    KnownMethod { suggested: Some(suggested), is_of_bundlers: true, ..head_method(name) }
}

/// Returns an amount as a hex quantity in JSON.
fn quantity(amount: u128) -> String {
    format!("\"{amount:#x}\"")
}

#[expect(clippy::unnecessary_wraps, reason = "the others may lack a result")]
fn medium_tip(snapshot: &Snapshot) -> Option<String> {
    Some(quantity(snapshot.market.suggestion.tiers.medium.max_priority_fee_per_gas))
}

/// Returns the fees of a user operation as bundlers do.
fn user_operation_fees(tier: Tier) -> Value {
    let [max_fee, tip] =
        [tier.max_fee_per_gas, tier.max_priority_fee_per_gas].map(|fee| format!("{fee:#x}"));
    json!({ "maxFeePerGas": max_fee, "maxPriorityFeePerGas": tip })
}

#[expect(clippy::unnecessary_wraps, reason = "the others may lack a result")]
fn three_user_operation_fees(snapshot: &Snapshot) -> Option<String> {
    let tiers = snapshot.market.suggestion.tiers.into_array();
    let [slow, standard, fast] = tiers.map(user_operation_fees);
    Some(json!({ "slow": slow, "standard": standard, "fast": fast }).to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "the others may lack a result")]
fn medium_user_operation_fees(snapshot: &Snapshot) -> Option<String> {
    Some(user_operation_fees(snapshot.market.suggestion.tiers.medium).to_string())
}

const CALL: [Param; 4] = [Transaction, OptionalState, OptionalObject, OptionalObject];

/// The nine methods of the network document's section 4.1, and others that clients need.
static KNOWN_METHODS: [KnownMethod; 41] = [
    method("eth_getBalance", &[Address, OptionalState]),
    method("eth_getCode", &[Address, OptionalState]),
    method("eth_getTransactionCount", &[Address, OptionalState]),
    method("eth_getStorageAt", &[Address, StorageSlot, OptionalState]),
    method("eth_getProof", &[Address, StorageSlots, OptionalState]),
    method("eth_getLogs", &[LogFilter]),
    method("eth_call", &CALL),
    method("eth_estimateGas", &CALL),
    method("eth_createAccessList", &CALL),
    method("eth_simulateV1", &[Object, OptionalState]),
    method("eth_feeHistory", &[BlockCount, Block, OptionalArray]),
    method("eth_getBlockByNumber", &[Block, Flag]),
    method("eth_getBlockByHash", &[Hash, Flag]),
    method("eth_getBlockReceipts", &[State]),
    method("eth_getBlockTransactionCountByNumber", &[Block]),
    method("eth_getBlockTransactionCountByHash", &[Hash]),
    method("eth_getTransactionByBlockNumberAndIndex", &[Block, TransactionIndex]),
    method("eth_getTransactionByBlockHashAndIndex", &[Hash, TransactionIndex]),
    transaction_method("eth_getTransactionByHash"),
    transaction_method("eth_getTransactionReceipt"),
    KnownMethod { parse_hint: parse_head_hint, ..head_method("eth_blockNumber") },
    fee_method("eth_gasPrice", |snapshot| Some(quantity(snapshot.prices.tiers.medium))),
    fee_method("eth_maxPriorityFeePerGas", medium_tip),
    KnownMethod {
        suggested: Some(|snapshot| Some(quantity(snapshot.market.newest_known_base_fee))),
        ..head_method("eth_baseFee")
    },
    KnownMethod {
        suggested: Some(|snapshot| Some(quantity(snapshot.market.blob_base_fees?.next))),
        ..head_method("eth_blobBaseFee")
    },
    head_method("eth_config"),
    head_method("eth_capabilities"),
    method("linea_estimateGas", &[Transaction, OptionalState]),
    KnownMethod { scope: Head, ..method("zks_estimateFee", &[Transaction]) },
    head_method("zks_gasPerPubdata"),
    bundler_method("pimlico_getUserOperationGasPrice", three_user_operation_fees),
    bundler_method("zd_getUserOperationGasPrice", three_user_operation_fees),
    bundler_method("biconomy_getGasFeeValues", three_user_operation_fees),
    bundler_method("skandha_getGasPrice", medium_user_operation_fees),
    bundler_method("rundler_maxPriorityFeePerGas", medium_tip),
    head_method("eth_syncing"),
    head_method("net_listening"),
    method("eth_chainId", &[]),
    method("net_version", &[]),
    KnownMethod {
        own_result: Some(concat!("\"gas-suggestion/", env!("CARGO_PKG_VERSION"), "\"")),
        ..method("web3_clientVersion", &[])
    },
    KnownMethod { own_result: Some("[]"), ..method("eth_accounts", &[]) },
];

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
    let number = parse_hex(&mined.block_number?)?;
    let hash_digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(mined.block_hash);
    Some(BlockHint { number, hash_digest: Some(hash_digest) })
}

fn parse_head_hint(result: &[u8]) -> Option<BlockHint> {
    let number = parse_hex(serde_json::from_slice(result).ok()?)?;
    Some(BlockHint { number, hash_digest: None })
}
