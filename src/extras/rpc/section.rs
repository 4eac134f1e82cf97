//! The `[rpc]` section.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::mistakes::SectionMistakes;
use crate::config::section::{Needs, Section};
use crate::config::{Chain, SectionKind, TableKeys, units};
use crate::extras::reads::{ReadKeys, ReadLimits};

/// Limits of requests to `/rpc/{chain}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rpc {
    /// Largest request body in bytes.
    #[serde(with = "units::size")]
    pub(crate) max_body: usize,
    /// Maximum number of calls in a batch.
    pub(crate) max_batch: NonZeroUsize,
    /// Time from a call's arrival to its response, over all nodes tried.
    #[serde(with = "humantime_serde")]
    pub(crate) timeout: Duration,
    /// Concurrent calls to a chain's nodes. Further ones are refused at once. A client may have a quarter of them.
    pub(crate) max_in_flight: NonZeroUsize,
}

impl Default for Rpc {
    fn default() -> Self {
        let ReadLimits { timeout, max_in_flight } = ReadLimits::default();
        let max_batch = NonZeroUsize::new(100).expect("100 is not 0");
        Self { max_body: 256 * 1024, max_batch, timeout, max_in_flight }
    }
}

/// Keys of each chain that say what clients may read.
pub(super) const READ_KEYS: SectionKind = SectionKind::new::<ReadKeys>(TableKeys {
    lists: &["rpc_methods"],
    ..TableKeys::in_chains(&["json_rpc", "answer_fee_methods", "rpc_methods"])
});

impl Rpc {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys::table("rpc"));
    const MAX_BODY: usize = 32 * 1024 * 1024;

    /// Returns the limits of the reads.
    pub(crate) fn limits(&self) -> ReadLimits {
        ReadLimits { timeout: self.timeout, max_in_flight: self.max_in_flight }
    }
}

impl Section for Rpc {
    fn check(&self, mistakes: &mut SectionMistakes) {
        if !(1..=Self::MAX_BODY).contains(&self.max_body) {
            mistakes.reject("max_body", "must be from 1 B to 32 MiB");
        }
        mistakes.check_count("max_batch", self.max_batch);
        mistakes.check_timeout("timeout", self.timeout);
        mistakes.check_count("max_in_flight", self.max_in_flight);
    }

    fn needs(&self, _: &[Chain]) -> Needs {
        Needs { node_connections: self.max_in_flight.get(), ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::section;

    #[test]
    fn the_built_in_values_are_the_defaults() {
        assert_eq!(section::built_in::<Rpc>(Rpc::SECTION), Rpc::default());
    }
}
