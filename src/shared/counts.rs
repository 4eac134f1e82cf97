//! What is counted of one chain's turns.

use metrics::Counter;

use super::publication::Adoption;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(super) struct Counts {
    pub(super) claimed: Counter,
    pub(super) left: Counter,
    pub(super) alone: Counter,
    adopted: Counter,
    known: Counter,
    older: Counter,
    rejected: Counter,
    implausible: Counter,
    pub(super) foreign: Counter,
}

impl Counts {
    pub(super) fn new(metrics: &Metrics, chain: &str) -> Self {
        let turns = |outcome| metrics.turns(chain, outcome);
        let values = |outcome| metrics.shared_values(chain, outcome);
        Self {
            claimed: turns("claimed"),
            left: turns("left"),
            alone: turns("alone"),
            adopted: values("adopted"),
            known: values("known"),
            older: values("older"),
            rejected: values("rejected"),
            implausible: values("implausible"),
            foreign: values("foreign"),
        }
    }

    /// That of publications of which this came.
    pub(super) fn of(&self, adoption: Adoption) -> &Counter {
        match adoption {
            Adoption::Adopted => &self.adopted,
            Adoption::Known => &self.known,
            Adoption::Older => &self.older,
            Adoption::Rejected => &self.rejected,
            Adoption::Implausible => &self.implausible,
        }
    }
}
