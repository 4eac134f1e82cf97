//! The `[rpc]` section and the names of JSON-RPC methods.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::config::mistakes::SectionMistakes;
use crate::config::units;

/// Limits of requests to `/rpc/{chain}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rpc {
    /// Largest request body in bytes.
    #[serde(with = "units::size")]
    pub max_body: usize,
    /// Maximum number of calls in a batch.
    pub max_batch: NonZeroUsize,
    /// Time from a call's arrival to its response, over all nodes tried.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// Concurrent calls to a chain's nodes. Further ones are refused at once. See also
    /// [`max_in_flight_per_client`](Self::max_in_flight_per_client).
    pub max_in_flight: NonZeroUsize,
}

impl Default for Rpc {
    fn default() -> Self {
        let count = |count| NonZeroUsize::new(count).expect("not 0");
        Self {
            max_body: 256 * 1024,
            max_batch: count(100),
            timeout: Duration::from_secs(10),
            max_in_flight: count(256),
        }
    }
}

impl Rpc {
    const MAX_BODY: usize = 32 * 1024 * 1024;
    const MAX_COUNT: usize = 65_536;
    const MAX_TIMEOUT: Duration = Duration::from_hours(1);

    /// Concurrent calls of one client to the nodes of all chains: a quarter of the calls to one chain's nodes.
    #[must_use]
    pub fn max_in_flight_per_client(&self) -> usize {
        (self.max_in_flight.get() / 4).max(1)
    }

    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        if !(1..=Self::MAX_BODY).contains(&self.max_body) {
            mistakes.reject("max_body", "must be from 1 B to 32 MiB");
        }
        for (key, count) in [("max_batch", self.max_batch), ("max_in_flight", self.max_in_flight)] {
            if count.get() > Self::MAX_COUNT {
                mistakes.reject(key, "must be from 1 to 65536");
            }
        }
        if self.timeout.is_zero() || self.timeout > Self::MAX_TIMEOUT {
            mistakes.reject("timeout", "must be above 0s and at most 1h");
        }
    }
}

/// Exact name of a JSON-RPC method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcMethod(String);

impl RpcMethod {
    const MAX_BYTES: usize = 64;

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RpcMethod {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(is_name_byte);
        is_name
            .then(|| Self(text.to_owned()))
            .ok_or("expected the name of a method, such as \"eth_call\"")
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
