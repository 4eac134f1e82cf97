//! How a chain moves its base fee, from the first source that knows it.

use std::num::NonZeroU64;

use serde::Serialize;
use utoipa::ToSchema;

use super::{BaseFeeRule, Pricing};

/// Parameters of a chain's base fee that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainParameters {
    /// How full and empty blocks move the base fee; `None`: unknown.
    pub denominators: Option<Denominators>,
    /// Lowest base fee in wei: of the header, else the configured floor, else that of the blocks; `None`: none is known.
    pub minimum_base_fee: Option<u128>,
}

/// How full and empty blocks move a chain's base fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denominators {
    /// A full block raises the base fee by 1/denominator of it.
    pub full_block: NonZeroU64,
    /// An empty block lowers the base fee by 1/denominator of it.
    pub empty_block: NonZeroU64,
    /// Source of the denominators.
    pub source: DenominatorSource,
}

/// Source of the denominators. It says nothing about the minimum base fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DenominatorSource {
    /// The configuration or a preset.
    Configuration,
    /// The chain's headers.
    Header,
    /// The chain's blocks: one rule explains the last ones.
    Observed,
}

impl ChainParameters {
    /// Chooses the parameters from the configured ones, the rule `stated` by the newest header and the `observed` one: the
    /// first of these that is known. A header that contradicts the blocks is not believed:
    /// outside of the OP Stack, the producer of a block may write any bytes there.
    #[must_use]
    pub fn new(
        pricing: &Pricing,
        stated: Option<BaseFeeRule>,
        observed: Option<BaseFeeRule>,
    ) -> Self {
        let numbers = |rule: BaseFeeRule| (rule.full_block(), rule.empty_block());
        let stated = stated.filter(|it| observed.is_none_or(|seen| numbers(seen) == numbers(*it)));
        let known = |rule: BaseFeeRule, source| {
            let (full_block, empty_block) = numbers(rule);
            Denominators { full_block, empty_block, source }
        };
        let explicit = pricing.base_fee_change_denominator.map(|full_block| Denominators {
            full_block,
            empty_block: full_block,
            source: DenominatorSource::Configuration,
        });
        let denominators = explicit
            .or(stated.map(|rule| known(rule, DenominatorSource::Header)))
            .or(observed.map(|rule| known(rule, DenominatorSource::Observed)));
        let floor = Some(pricing.base_fee_floor).filter(|floor| *floor > 0);
        let minimum_of = |rule: Option<BaseFeeRule>| rule?.minimum_base_fee;
        Self {
            denominators: denominators.map(|known| Denominators {
                empty_block: pricing.empty_block_denominator.unwrap_or(known.empty_block),
                ..known
            }),
            minimum_base_fee: minimum_of(stated).or(floor).or_else(|| minimum_of(observed)),
        }
    }

    /// Returns the configured parameters.
    #[must_use]
    pub fn from_pricing(pricing: &Pricing) -> Self {
        Self::new(pricing, None, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    /// The rule of a header: denominator, elasticity, minimum base fee.
    fn rule(denominator: u32, elasticity: u32, minimum: u64) -> Option<BaseFeeRule> {
        let numbers = [denominator.to_be_bytes(), elasticity.to_be_bytes()].concat();
        BaseFeeRule::from_extra_data(&[&[1], &numbers[..], &minimum.to_be_bytes()].concat())
    }

    #[test]
    fn an_explicit_rule_wins_then_the_headers_then_that_of_the_blocks() {
        use DenominatorSource::{Configuration, Header, Observed};
        // Denominators of a full and of an empty block; 0 for none.
        let choose = |[full, empty]: [u64; 2], header, observed| {
            let pricing = Pricing {
                base_fee_change_denominator: NonZeroU64::new(full),
                empty_block_denominator: NonZeroU64::new(empty),
                ..Pricing::default()
            };
            let found = ChainParameters::new(&pricing, header, observed).denominators;
            found.map(|found| (found.full_block.get(), found.empty_block.get(), found.source))
        };
        let (header, observed) = (rule(250, 6, 7), rule(250, 6, 0));
        assert_eq!(choose([32, 0], header, observed), Some((32, 32, Configuration)));
        assert_eq!(choose([32, 40], header, observed), Some((32, 40, Configuration)));
        assert_eq!(choose([0, 0], header, observed), Some((50, 250, Header)));
        assert_eq!(choose([0, 40], header, observed), Some((50, 40, Header)));
        assert_eq!(choose([0, 0], None, observed), Some((50, 250, Observed)));
        assert_eq!(choose([0, 0], header, rule(8, 2, 0)), Some((8, 8, Observed)), "a liar's");
        assert_eq!(choose([0, 0], None, None), None);
        // An empty block alone is no rule.
        assert_eq!(choose([0, 40], None, None), None);
    }

    #[test]
    fn the_minimum_is_that_of_the_header_the_floor_or_the_blocks() {
        let minimum = |base_fee_floor, stated, observed| {
            let pricing = Pricing { base_fee_floor, ..Pricing::default() };
            let [stated, observed] = [stated, observed].map(|minimum| rule(250, 6, minimum));
            ChainParameters::new(&pricing, stated, observed).minimum_base_fee
        };
        assert_eq!(minimum(GWEI, 7, 9), Some(7));
        assert_eq!(minimum(GWEI, 0, 9), Some(GWEI), "a header's 0 is none");
        assert_eq!(minimum(0, 0, 9), Some(9));
        assert_eq!(minimum(0, 0, 0), None);
    }
}
