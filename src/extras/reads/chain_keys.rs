//! The keys of a chain's table that say what clients may read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::method::find_known;
use crate::config::layers::Layers;
use crate::config::mistakes::SectionMistakes;
use crate::config::section::Section;
use crate::config::{CHAINS, Chain};

/// Keys of all chains by the key of the chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ReadKeys(BTreeMap<String, ChainKeys>);

/// Keys of one chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChainKeys {
    /// True if `/rpc/{chain}` exists.
    pub(crate) json_rpc: bool,
    /// True if `/rpc/{chain}` answers the methods that ask for fees from the suggestion, not from a node.
    pub(crate) answer_fee_methods: bool,
    /// Methods that `/rpc/{chain}` allows; `None`: the default list.
    pub(crate) rpc_methods: Option<Vec<RpcMethod>>,
}

/// Exact name of a JSON-RPC method; with a `+` before it, the method is added to the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct RpcMethod(String);

impl ReadKeys {
    /// Returns the keys of a chain.
    pub(super) fn chain(&self, chain: &Chain) -> ChainKeys {
        self.0.get(&chain.key).cloned().unwrap_or_default()
    }
}

impl ChainKeys {
    /// Returns a sentence if `answer_fee_methods` has no effect.
    fn note_on_fee_methods(&self, chain: &str) -> Option<String> {
        let is_answered = |method: &RpcMethod| {
            let known = find_known(method.as_str());
            method.is_added() || known.is_some_and(|known| known.suggested.is_some())
        };
        let reason = if !self.json_rpc {
            "json_rpc is false"
        } else if self.rpc_methods.as_ref().is_some_and(|list| !list.iter().any(is_answered)) {
            "rpc_methods has none of them"
        } else {
            return None;
        };
        let note = || {
            format!("{CHAINS}.{chain}.answer_fee_methods has no effect: {CHAINS}.{chain}.{reason}")
        };
        self.answer_fee_methods.then(note)
    }
}

impl Section for ReadKeys {
    fn check(&self, mistakes: &mut SectionMistakes) {
        for (chain, keys) in &self.0 {
            let methods = keys.rpc_methods.as_deref().unwrap_or_default();
            let mut added = methods.iter().map(RpcMethod::is_added);
            if added.clone().any(|is_added| is_added) && !added.all(|is_added| is_added) {
                let allowed = "must have a + before each method, which adds to the allowed ones, or before none";
                mistakes.table(chain).reject("rpc_methods", allowed);
            }
        }
    }

    fn notes(&self, _: &[Chain], _: &Layers) -> Vec<String> {
        self.0.iter().filter_map(|(chain, keys)| keys.note_on_fee_methods(chain)).collect()
    }
}

impl RpcMethod {
    const MAX_BYTES: usize = 64;

    /// Returns the name.
    pub(crate) fn as_str(&self) -> &str {
        self.0.strip_prefix('+').unwrap_or(&self.0)
    }

    /// Returns true if the method is added to the allowed ones instead of being one of those in their place.
    pub(crate) fn is_added(&self) -> bool {
        self.0.starts_with('+')
    }
}

impl TryFrom<String> for RpcMethod {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name = text.strip_prefix('+').unwrap_or(&text);
        let is_name = (1..=Self::MAX_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte);
        let expected = "expected the name of a method, such as \"eth_call\" or \"+eth_call\"";
        is_name.then_some(Self(text)).ok_or(expected)
    }
}
