//! Names of JSON-RPC methods.

use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Exact name of a JSON-RPC method; with a `+` before it, the method is added to the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcMethod(String);

impl RpcMethod {
    const MAX_BYTES: usize = 64;

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.strip_prefix('+').unwrap_or(&self.0)
    }

    /// Returns true if the method is added to the allowed ones instead of being one of those in their place.
    #[must_use]
    pub fn is_added(&self) -> bool {
        self.0.starts_with('+')
    }
}

impl FromStr for RpcMethod {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name = text.strip_prefix('+').unwrap_or(text);
        let is_name = (1..=Self::MAX_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte);
        is_name
            .then(|| Self(text.to_owned()))
            .ok_or("expected the name of a method, such as \"eth_call\" or \"+eth_call\"")
    }
}

impl Serialize for RpcMethod {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RpcMethod {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}
