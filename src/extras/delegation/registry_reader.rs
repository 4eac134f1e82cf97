//! Look-ups in the registry contract of one chain.

use std::borrow::Cow;

use alloy_primitives::{Address, hex};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::LookupError;
use super::lookup::{LookupBlock, LookupKind};
use super::registry::{Delegation, Direction, RegistryError};
use crate::extras::reads;
use crate::extras::reads::json::parse_string;
use crate::extras::reads::{ChainReads, NodeResponse, ReadError, ReadRejection};
use crate::observe::log_on_change::LogOnChange;

/// The registry contract on one chain.
#[derive(Debug)]
pub(crate) struct RegistryReader<'a> {
    pub(crate) address: Address,
    pub(crate) chain: &'a ChainReads,
    pub(crate) block: LookupBlock,
    /// Client of all calls, with one deadline for them together.
    pub(crate) caller: reads::Caller<'a>,
    /// Logs the first call that ran out of gas.
    pub(crate) gas_log: &'a LogOnChange,
}

impl RegistryReader<'_> {
    /// Limit of a list, the same for all nodes.
    const MAX_DELEGATIONS: usize = 10_000;

    /// Answers a look-up in the JSON of the REST API.
    pub(crate) async fn look_up(&self, kind: &LookupKind) -> Result<Vec<u8>, LookupError> {
        let json = match kind {
            LookupKind::Check(check) => {
                let returned = self.call(check.calldata()).await?;
                serde_json::to_vec(&check.decode_result(&returned)?)
            }
            LookupKind::List { address, direction: Some(direction) } => {
                serde_json::to_vec(&self.list(*direction, *address).await?)
            }
            LookupKind::List { address, direction: None } => {
                let mut both = self.list(Direction::Incoming, *address).await?;
                let mut outgoing = self.list(Direction::Outgoing, *address).await?;
                // Self-delegations are in both lists.
                outgoing.retain(|delegation| !delegation.is_self_delegation());
                both.append(&mut outgoing);
                serde_json::to_vec(&both)
            }
        };
        Ok(json.expect("strings and their lists serialise"))
    }

    /// Returns the delegations to or from `address`.
    async fn list(
        &self,
        direction: Direction,
        address: Address,
    ) -> Result<Vec<Delegation>, LookupError> {
        let list = match self.call(direction.calldata(address)).await {
            Err(LookupError::Registry(RegistryError::OutOfGas | RegistryError::TooLarge)) => {
                return Err(RegistryError::TooManyDelegations.into());
            }
            returned => Delegation::decode_list(&returned?)?,
        };
        // A node that allows more gas returns longer lists.
        if list.len() > Self::MAX_DELEGATIONS {
            return Err(RegistryError::TooManyDelegations.into());
        }
        Ok(list)
    }

    /// Calls the registry and returns its return data.
    async fn call(&self, calldata: Vec<u8>) -> Result<Vec<u8>, LookupError> {
        let call =
            json!({ "to": self.address.to_string(), "data": hex::encode_prefixed(calldata) });
        let params = to_raw_value(&json!([call, self.block])).expect("a value serialises");
        let error = match self.chain.call("eth_call", Some(&params), self.caller).await {
            Ok(NodeResponse::Result(returned)) => {
                return Ok(decode_hex(&returned).ok_or(RegistryError::InvalidResponse)?);
            }
            Ok(NodeResponse::Error(error)) => parse_node_error(&error),
            Err(ReadRejection::Failed(ReadError::TooLarge)) => RegistryError::TooLarge,
            Err(rejection) => return Err(LookupError::Chain(rejection)),
        };
        if error == RegistryError::OutOfGas && self.gas_log.changed_to(Err("out_of_gas")) {
            let chain = &self.chain.chain().config().key;
            tracing::warn!(
                %chain,
                "node ran out of gas in a call of the delegation registry; logged once"
            );
        }
        Err(error.into())
    }
}

/// Decodes a JSON string of hex bytes.
fn decode_hex(json: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::from_slice::<Cow<str>>(json).ok()?;
    text.starts_with("0x").then(|| hex::decode(&*text).ok()).flatten()
}

/// Parses a node's error object by its code and texts, which differ between nodes ("out of gas", "`OutOfGas`",
/// "`MemoryOOG`").
fn parse_node_error(error: &[u8]) -> RegistryError {
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
    let Ok(error) = serde_json::from_slice::<NodeError>(error) else {
        return RegistryError::InvalidResponse;
    };
    let data = error.data.and_then(parse_string);
    let text = [error.message, data].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let has_run_out = text.contains("OOG");
    let text = text.to_ascii_lowercase();
    if has_run_out || text.replace([' ', '_'], "").contains("outofgas") {
        RegistryError::OutOfGas
    } else if text.contains("response") && TOO_LARGE.iter().any(|words| text.contains(words)) {
        RegistryError::TooLarge
    } else if error.code == Some(EXECUTION_REVERTED) || text.contains("revert") {
        // The registry never reverts a look-up, so another contract is at the address.
        RegistryError::Invalid
    } else {
        RegistryError::InvalidResponse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_errors_are_recognised_by_code_or_text() {
        let parse = |error: &str| parse_node_error(error.as_bytes());
        for error in [
            r#"{"code":3,"message":"no reason"}"#,
            r#"{"code":-32000,"message":"Execution Reverted"}"#,
            r#"{"code":-32015,"message":"VM error","data":"revert: denied"}"#,
        ] {
            assert_eq!(parse(error), RegistryError::Invalid, "{error}");
        }
        for error in [
            r#"{"code":-32000,"message":"out of gas"}"#,
            r#"{"code":-32003,"message":"Out of gas: gas exhausted: 50000000"}"#,
            r#"{"code":-32603,"message":"EVM error OutOfGas"}"#,
            r#"{"code":-32603,"message":"EVM error MemoryLimitOOG"}"#,
            r#"{"code":-32015,"message":"VM error","data":"OUT_OF_GAS"}"#,
            r#"{"code":3,"message":"execution reverted: out of gas"}"#,
        ] {
            assert_eq!(parse(error), RegistryError::OutOfGas, "{error}");
        }
        for error in [
            r#"{"code":-32003,"message":"response too large"}"#,
            r#"{"code":-32008,"message":"Response is too big","data":"Exceeded max limit of 1000"}"#,
            r#"{"code":-32602,"message":"Log response size exceeded"}"#,
            r#"{"code":-32000,"message":"query response size should not be greater than 1 bytes"}"#,
        ] {
            assert_eq!(parse(error), RegistryError::TooLarge, "{error}");
        }
        for error in [
            r#"{"code":-32000,"message":"header not found"}"#,
            r#"{"code":-32000,"message":"request too large"}"#,
            r#"{"code":-32000,"data":{"reason":"revert"}}"#,
            r#"{"message":7}"#,
            r#""revert""#,
        ] {
            assert_eq!(parse(error), RegistryError::InvalidResponse, "{error}");
        }
    }
}
