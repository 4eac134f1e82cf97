//! Upstream faults and the expected result of each.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fixtures;
use crate::mock_upstream::Step;
use Expected::{Broken, Passes, Unreachable};

/// Misbehaviour of an upstream.
#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) expected: Expected,
    pub(super) script: Vec<Step>,
}

/// Expected response to the client.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Expected {
    /// 502, long before the upstream timeout.
    Unreachable,
    /// 502, counted as an invalid response.
    Invalid,
    /// 504, at the upstream timeout.
    Late,
    /// A response that is cut off at once.
    Broken,
    /// A response that is cut off at the upstream timeout.
    Cut,
    /// The upstream's status and body.
    Passes(u16, String),
}

impl Expected {
    /// Returns the outcome in the request metric, and the number by which the count of truncated responses grows.
    pub(super) fn counted(&self) -> (&'static str, u64) {
        match self {
            Unreachable => ("connection_closed", 0),
            Self::Invalid => ("invalid", 0),
            Self::Late => ("timeout", 0),
            Broken | Self::Cut => ("ok", 1),
            Passes(..) => ("ok", 0),
        }
    }

    pub(super) fn is_at_deadline(&self) -> bool {
        matches!(self, Self::Late | Self::Cut)
    }
}

/// Returns all faults that apply to a GET request, by the name of their group.
pub(super) fn faults() -> BTreeMap<String, Vec<Fault>> {
    fixtures::json("tests/fixtures/upstream-faults/verification.json")
}
