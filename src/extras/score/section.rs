//! The `[score]` section.

use serde::{Deserialize, Serialize};

use crate::config::Chain;
use crate::config::mistakes::SectionMistakes;
use crate::config::section::Section;
use crate::fees::FurtherPercentiles;

/// Grading of the quotes that were served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ScoreSection {
    /// Number of blocks after which the rewards at the graded percentiles are read, where polls do not request them; 0:
    /// never.
    pub(crate) every: u64,
    /// Reward percentiles that quotes are compared with, besides those of a chain's pricing. Polls request them too.
    #[serde(with = "percentiles")]
    pub(crate) percentiles: FurtherPercentiles,
}

impl Default for ScoreSection {
    fn default() -> Self {
        Self { every: 10, percentiles: FurtherPercentiles::default() }
    }
}

impl Section for ScoreSection {
    const NAME: &'static str = "score";
    const LISTS: &'static [&'static str] = &["percentiles"];

    fn check(&self, mistakes: &mut SectionMistakes) {
        const MOST: u64 = 1000;
        if self.every > MOST {
            mistakes.reject("every", format!("must be from 0 to {MOST}"));
        }
    }

    fn apply(&self, chain: &mut Chain) {
        chain.pricing.further_percentiles = self.percentiles;
        chain.blocks_between_readings = self.every;
    }
}

/// An array of at most two percentiles.
mod percentiles {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use crate::config::percentile_numbers;
    use crate::fees::FurtherPercentiles;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<FurtherPercentiles, D::Error> {
        let numbers = Vec::<serde_json::Number>::deserialize(input)?;
        let values: Vec<f64> = numbers.iter().filter_map(serde_json::Number::as_f64).collect();
        FurtherPercentiles::new(&values).map_err(D::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer>(
        percentiles: &FurtherPercentiles,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        percentile_numbers(percentiles.iter()).serialize(out)
    }
}
