//! Calls of the registry contract on one chain.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, hex};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::lookup::LookupBlock;
use super::registry as delegation_registry;
use super::registry::{
    Check, CheckResult, Delegation, DelegationChange, DelegationType, Direction,
};
use super::{LookupError, PreparedTransaction};
use crate::extras::reads;
use crate::extras::reads::{ChainReads, NodeResponse, ReadError, ReadRejection, ReuseMode};
use crate::nodes::json;
use crate::nodes::parse_quantity;
use crate::observe::log_on_change::LogOnChange;

/// The registry contract on one chain.
#[derive(Debug)]
pub(crate) struct RegistryReader<'a> {
    pub(crate) address: Address,
    pub(crate) chain: &'a ChainReads,
    /// Client of all calls, with one deadline for them together.
    pub(crate) caller: reads::Caller<'a>,
    /// Concurrent calls that the client may make.
    pub(crate) max_in_flight: usize,
    /// Logs the first call that ran out of gas.
    pub(crate) gas_log: &'a LogOnChange,
}

const LATEST: &str = LookupBlock::Latest.as_str();

impl RegistryReader<'_> {
    /// Limit of a list, the same for all nodes. The hashes alone take about 4,500 gas each, of 50 million per call.
    const MAX_DELEGATIONS: usize = 10_000;
    /// About 7 million gas.
    const PAGE_SIZE: usize = 500;
    const CONCURRENT_PAGES: usize = 4;
    /// How many blocks before the newest one a list in pages may be read.
    const MAX_BLOCKS_BACK: u64 = 2;

    /// Returns the result of a check.
    pub(crate) async fn check(
        &self,
        check: &Check,
        block: LookupBlock,
    ) -> Result<CheckResult, LookupError> {
        Ok(check.decode_result(&self.call(check.calldata(), block.as_str()).await?)?)
    }

    /// Returns the delegations to or from `address`. Reads them in pages if they are too many for one call.
    pub(crate) async fn list(
        &self,
        direction: Direction,
        address: Address,
        block: LookupBlock,
    ) -> Result<Vec<Delegation>, LookupError> {
        match self.call(direction.calldata(address), block.as_str()).await {
            Err(error) if exceeds_one_call(&error) => {
                self.list_in_pages(direction, address, block).await
            }
            // A node that allows more gas returns longer lists in one call.
            returned => match Delegation::decode_list(&returned?)? {
                list if list.len() > Self::MAX_DELEGATIONS => Err(LookupError::TooManyDelegations),
                list => Ok(list),
            },
        }
    }

    async fn list_in_pages(
        &self,
        direction: Direction,
        address: Address,
        block: LookupBlock,
    ) -> Result<Vec<Delegation>, LookupError> {
        let LookupBlock::Latest = block else {
            return self.pages(direction, address, block.as_str()).await;
        };
        let mut number = self.newest_block().await?;
        let oldest = number.saturating_sub(Self::MAX_BLOCKS_BACK);
        loop {
            // All pages are read at one block, so that they fit together.
            match self.pages(direction, address, &format!("{number:#x}")).await {
                // Behind a load balancer, another node may not have the block yet.
                Err(LookupError::NodeInvalid) if number > oldest => number -= 1,
                result => return result,
            }
        }
    }

    /// Reads a list in pages, all at `block`.
    async fn pages(
        &self,
        direction: Direction,
        address: Address,
        block: &str,
    ) -> Result<Vec<Delegation>, LookupError> {
        let hashes = match self.call(direction.hashes_calldata(address), block).await {
            Err(error) if exceeds_one_call(&error) => return Err(LookupError::TooManyDelegations),
            returned => delegation_registry::decode_hashes(&returned?)?,
        };
        if hashes.len() > Self::MAX_DELEGATIONS {
            return Err(LookupError::TooManyDelegations);
        }
        let pages: Vec<_> =
            hashes.chunks(Self::PAGE_SIZE).map(|hashes| self.page(hashes, block)).collect();
        let pages = stream::iter(pages).buffered(Self::CONCURRENT_PAGES.min(self.max_in_flight));
        Ok(pages.try_collect::<Vec<_>>().await?.concat())
    }

    /// Returns the delegations with these hashes, without those that were revoked since the hashes were read.
    async fn page(&self, hashes: &[B256], block: &str) -> Result<Vec<Delegation>, LookupError> {
        let returned = self.call(Delegation::page_calldata(hashes), block).await?;
        let mut page = Delegation::decode_list(&returned)?;
        if page.len() != hashes.len() {
            return Err(LookupError::RegistryInvalid);
        }
        page.retain(|delegation| delegation.kind != DelegationType::None);
        Ok(page)
    }

    /// Returns the number of the newest block.
    async fn newest_block(&self) -> Result<u64, LookupError> {
        // The polls may not know the newest block that the client knows.
        match self.read("eth_blockNumber", &json!([]), ReuseMode::Never).await? {
            NodeResponse::Result(number) => parse_number(&number).ok_or(LookupError::NodeInvalid),
            NodeResponse::Error(error) => Err(self.node_error(&error, LookupError::NodeInvalid)),
        }
    }

    /// Calls the registry and returns its return data.
    async fn call(&self, calldata: Vec<u8>, block: &str) -> Result<Vec<u8>, LookupError> {
        let call =
            json!({ "to": self.address.to_string(), "data": hex::encode_prefixed(calldata) });
        match self.read("eth_call", &json!([call, block]), ReuseMode::Coalesced).await? {
            NodeResponse::Result(returned) => decode_hex(&returned).ok_or(LookupError::NodeInvalid),
            // The registry never reverts a look-up, so another contract is at the address.
            NodeResponse::Error(error) => {
                Err(self.node_error(&error, LookupError::RegistryInvalid))
            }
        }
    }

    /// Prepares the transaction that makes `change` for `from`, as of the newest block.
    ///
    /// # Errors
    ///
    /// Fails if the registry is absent, reverts, or cannot be read.
    pub(crate) async fn prepare(
        &self,
        from: Address,
        change: &DelegationChange,
    ) -> Result<PreparedTransaction, LookupError> {
        let registry = self.address;
        let calldata = change.calldata();
        let [from, to] = [from, registry].map(|address| address.to_string());
        let call = json!({ "from": from, "to": to, "data": hex::encode_prefixed(&calldata) });
        // Not coalesced: a call in flight may have begun before the last block.
        let code = self.read("eth_getCode", &json!([to, LATEST]), ReuseMode::Never).await?;
        let NodeResponse::Result(code) = code else { return Err(LookupError::NodeInvalid) };
        // A transaction to an address without code succeeds without any effect.
        if decode_hex(&code).ok_or(LookupError::NodeInvalid)?.is_empty() {
            return Err(LookupError::RegistryAbsent);
        }
        match self.read("eth_estimateGas", &json!([call, LATEST]), ReuseMode::Never).await? {
            NodeResponse::Result(gas) => {
                let gas = parse_gas(&gas).ok_or(LookupError::NodeInvalid)?;
                Ok(PreparedTransaction { registry, calldata, gas })
            }
            NodeResponse::Error(error) => Err(self.node_error(&error, LookupError::Reverted)),
        }
    }

    async fn read(
        &self,
        method: &str,
        params: &Value,
        reuse: ReuseMode,
    ) -> Result<NodeResponse, LookupError> {
        let params = to_raw_value(params).expect("a value serialises");
        let response = self.chain.call_for_service(method, &params, reuse, self.caller).await;
        response.map_err(LookupError::Chain)
    }

    /// Converts a node's error; a revert into `on_revert`.
    fn node_error(&self, error: &[u8], on_revert: LookupError) -> LookupError {
        match NodeErrorKind::parse(error) {
            NodeErrorKind::Revert => on_revert,
            NodeErrorKind::OutOfGas => {
                if self.gas_log.changed_to(Err("out_of_gas")) {
                    let chain = &self.chain.chain().config().key;
                    tracing::warn!(
                        %chain,
                        "node ran out of gas in a call of the delegation registry; logged once"
                    );
                }
                LookupError::OutOfGas
            }
            NodeErrorKind::TooLarge => ReadRejection::from(ReadError::TooLarge).into(),
            NodeErrorKind::Other => LookupError::NodeInvalid,
        }
    }
}

/// Returns true if the call may succeed in parts.
fn exceeds_one_call(error: &LookupError) -> bool {
    matches!(
        error,
        LookupError::OutOfGas | LookupError::Chain(ReadRejection::Failed(ReadError::TooLarge))
    )
}

/// Decodes a JSON string of hex bytes.
fn decode_hex(json: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::from_slice::<Cow<str>>(json).ok()?;
    text.starts_with("0x").then(|| hex::decode(&*text).ok()).flatten()
}

fn parse_number(json: &[u8]) -> Option<u64> {
    u64::try_from(parse_quantity(str::from_utf8(json).ok()?).ok()?).ok()
}

/// Parses a gas estimate; `None` if no transaction can use that much or that little.
fn parse_gas(json: &[u8]) -> Option<u64> {
    /// Gas of an empty transaction (yellow paper, appendix G).
    const MIN_GAS: u64 = 21_000;
    /// Plausibility limit, over a thousand times what a delegation uses.
    const MAX_GAS: u64 = 1_000_000_000;
    parse_number(json).filter(|gas| (MIN_GAS..=MAX_GAS).contains(gas))
}

/// Kind of a node's error.
#[derive(Debug, PartialEq, Eq)]
enum NodeErrorKind {
    /// The called contract reverted.
    Revert,
    /// The call uses more gas than the node allows.
    OutOfGas,
    /// The result is larger than the node allows.
    TooLarge,
    Other,
}

impl NodeErrorKind {
    /// Parses an error object by its code and texts, which differ between nodes ("out of gas", "`OutOfGas`").
    fn parse(error: &[u8]) -> Self {
        const EXECUTION_REVERTED: i64 = 3;
        /// As geth ("response too large"), reth ("Response is too big") and providers ("response size exceeded") say it.
        const TOO_LARGE: [&str; 4] = ["too large", "too big", "size exceed", "size should not"];
        #[derive(Deserialize)]
        struct NodeError<'a> {
            code: Option<i64>,
            #[serde(borrow)]
            message: Option<Cow<'a, str>>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        let Ok(error) = serde_json::from_slice::<NodeError>(error) else { return Self::Other };
        let data = error.data.and_then(json::parse_string);
        let text = [error.message, data].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let text = text.to_ascii_lowercase();
        if text.replace([' ', '_'], "").contains("outofgas") {
            Self::OutOfGas
        } else if text.contains("response") && TOO_LARGE.iter().any(|words| text.contains(words)) {
            Self::TooLarge
        } else if error.code == Some(EXECUTION_REVERTED) || text.contains("revert") {
            Self::Revert
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_errors_are_recognised_by_code_or_text() {
        let parse = |error: &str| NodeErrorKind::parse(error.as_bytes());
        for error in [
            r#"{"code":3,"message":"no reason"}"#,
            r#"{"code":-32000,"message":"Execution Reverted"}"#,
            r#"{"code":-32015,"message":"VM error","data":"revert: denied"}"#,
        ] {
            assert_eq!(parse(error), NodeErrorKind::Revert, "{error}");
        }
        for error in [
            r#"{"code":-32000,"message":"out of gas"}"#,
            r#"{"code":-32003,"message":"Out of gas: gas exhausted: 50000000"}"#,
            r#"{"code":-32603,"message":"EVM error OutOfGas"}"#,
            r#"{"code":-32015,"message":"VM error","data":"OUT_OF_GAS"}"#,
            r#"{"code":3,"message":"execution reverted: out of gas"}"#,
        ] {
            assert_eq!(parse(error), NodeErrorKind::OutOfGas, "{error}");
        }
        for error in [
            r#"{"code":-32003,"message":"response too large"}"#,
            r#"{"code":-32008,"message":"Response is too big","data":"Exceeded max limit of 1000"}"#,
            r#"{"code":-32602,"message":"Log response size exceeded"}"#,
            r#"{"code":-32000,"message":"query response size should not be greater than 1 bytes"}"#,
        ] {
            assert_eq!(parse(error), NodeErrorKind::TooLarge, "{error}");
        }
        for error in [
            r#"{"code":-32000,"message":"header not found"}"#,
            r#"{"code":-32000,"message":"request too large"}"#,
            r#"{"code":-32000,"data":{"reason":"revert"}}"#,
            r#"{"message":7}"#,
            r#""revert""#,
        ] {
            assert_eq!(parse(error), NodeErrorKind::Other, "{error}");
        }
    }

    #[test]
    fn a_gas_estimate_must_be_plausible() {
        for (json, expected) in [
            ("\"0x5208\"", Some(21_000)),
            ("\"0x3b9aca00\"", Some(1_000_000_000)),
            ("\"0x5207\"", None),
            ("\"0x3b9aca01\"", None),
            ("\"0x10000000000005208\"", None),
            ("21000", Some(21_000)),
            ("null", None),
        ] {
            assert_eq!(parse_gas(json.as_bytes()), expected, "{json}");
        }
    }
}
