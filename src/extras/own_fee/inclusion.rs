//! The number of newest blocks that would have included a fee. It is a count, not a forecast.

use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;

use crate::fees::{ChainParameters, Pricing, Tier, covered_blocks, percentile_numbers};
use crate::store::EntryWindow;

/// Empty blocks after which a fee that is still too low is said to wait for ever.
const MAX_EMPTY_BLOCKS: u32 = 10_000;

/// How a fee compares with the newest blocks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Inclusion {
    /// Percentile of each block's rewards that the tip is compared with: 10, or the one of the medium tip if the service
    /// does not know percentile 10.
    #[schema(value_type = f64)]
    percentile: Option<Number>,
    /// Blocks that would have included the fee: the max fee covers the block's base fee, and the rest of it, at most the
    /// tip, reaches the reward.
    enough_in: usize,
    /// Blocks that were compared: the newest ones with a reward above 0 at the percentile, at most 20.
    of: usize,
    /// True if the max fee is at least the base fee of the next block.
    covers_next_base_fee: bool,
    /// For how many of the coming blocks, all of them full, the max fee is enough; at most 100. `null`: how full blocks
    /// move the base fee is unknown.
    #[schema(required, maximum = 100)]
    covers_full_blocks: Option<u8>,
    /// How many empty blocks must come before the max fee covers the base fee; `null`: it cannot fall so far, or how empty
    /// blocks move it is unknown.
    #[schema(required)]
    not_before_blocks: Option<u32>,
}

/// Compares the fee `offered` with blocks, and with the base fee of the next block in wei. Full blocks are covered if the
/// fee also pays the priority fee floor of `pricing`.
pub(super) fn inclusion(
    entries: &EntryWindow,
    next_base_fee: u128,
    offered: Tier,
    pricing: &Pricing,
    parameters: &ChainParameters,
) -> Inclusion {
    let outcomes = entries.blocks.iter().filter_map(|block| block.accepts(offered));
    let outcomes: Vec<bool> = outcomes.collect();
    let minimum_tip = pricing.priority_fee_floor;
    Inclusion {
        percentile: percentile_numbers([entries.percentile]).into_iter().next(),
        enough_in: outcomes.iter().filter(|is_enough| **is_enough).count(),
        of: outcomes.len(),
        covers_next_base_fee: offered.max_fee_per_gas >= next_base_fee,
        covers_full_blocks: parameters
            .denominators
            .map(|denominators| covered_blocks(offered, next_base_fee, minimum_tip, denominators)),
        not_before_blocks: empty_blocks_until(next_base_fee, offered.max_fee_per_gas, parameters),
    }
}

/// Returns the number of empty blocks after which the base fee is at most `max_fee`. A fee that covers it already needs
/// no rule.
fn empty_blocks_until(
    mut base_fee: u128,
    max_fee: u128,
    parameters: &ChainParameters,
) -> Option<u32> {
    if base_fee <= max_fee {
        return Some(0);
    }
    let denominator = u128::from(parameters.denominators?.empty_block.get());
    // A configured floor above the base fee is not the chain's minimum.
    let minimum = parameters.minimum_base_fee.filter(|minimum| *minimum <= base_fee).unwrap_or(0);
    for blocks in 0..MAX_EMPTY_BLOCKS {
        if base_fee <= max_fee {
            return Some(blocks);
        }
        let lower = base_fee.saturating_sub(base_fee / denominator).max(minimum);
        if lower == base_fee {
            return None;
        }
        base_fee = lower;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;
    use crate::fees::{BaseFeeRule, Block, EntryBlock};

    const GWEI: u128 = 1_000_000_000;

    fn offer(max_priority_fee_per_gas: u128, max_fee_per_gas: u128) -> Tier {
        Tier { max_priority_fee_per_gas, max_fee_per_gas }
    }

    /// A chain whose full blocks raise the base fee by an eighth.
    fn with_eighths() -> Pricing {
        Pricing { base_fee_change_denominator: NonZeroU64::new(8), ..Pricing::default() }
    }

    fn parameters(pricing: &Pricing) -> ChainParameters {
        ChainParameters::from_pricing(pricing)
    }

    fn block(gas_used_ratio: Option<f64>, tip: Option<u128>) -> EntryBlock {
        let block = Block { base_fee: GWEI, gas_used_ratio, rewards: None };
        EntryBlock::new(&block, true, tip, None)
    }

    fn inclusion(
        blocks: &[EntryBlock],
        next_base_fee: u128,
        offered: Tier,
        pricing: &Pricing,
        parameters: &ChainParameters,
    ) -> Inclusion {
        let entries = EntryWindow { percentile: 10.0, newest_block: 1, blocks: blocks.to_vec() };
        super::inclusion(&entries, next_base_fee, offered, pricing, parameters)
    }

    #[test]
    fn blocks_with_an_ask_count_and_others_do_not() {
        let blocks = [
            block(Some(0.5), Some(2 * GWEI)),
            block(Some(0.5), Some(GWEI)),
            // A block without transactions has no ask, whatever its node returns.
            block(Some(0.0), Some(0)),
            block(Some(0.0), Some(GWEI)),
            block(Some(0.5), Some(0)),
            block(Some(0.5), None),
            block(None, Some(3 * GWEI)),
        ];
        let pricing = with_eighths();
        let parameters = parameters(&pricing);
        let compare =
            |tip, max_fee| inclusion(&blocks, GWEI, offer(tip, max_fee), &pricing, &parameters);
        let compared = compare(GWEI, 30 * GWEI);
        assert_eq!((compared.enough_in, compared.of), (1, 3));
        assert_eq!(compare(GWEI - 1, 30 * GWEI).enough_in, 0);
        assert_eq!(compare(3 * GWEI, 30 * GWEI).enough_in, 3);
        let none = inclusion(&[], GWEI, offer(1, GWEI), &pricing, &parameters);
        assert_eq!((none.enough_in, none.of), (0, 0));
    }

    #[test]
    fn without_a_rule_only_a_covered_base_fee_is_known() {
        let pricing = Pricing::default();
        let parameters = parameters(&pricing);
        let compare = |next, max_fee| {
            let found = inclusion(&[], next, offer(0, max_fee), &pricing, &parameters);
            (found.covers_next_base_fee, found.covers_full_blocks, found.not_before_blocks)
        };
        assert_eq!(compare(8 * GWEI, 8 * GWEI), (true, None, Some(0)));
        assert_eq!(compare(8 * GWEI, 8 * GWEI - 1), (false, None, None));
        assert_eq!(compare(0, u128::MAX), (true, None, Some(0)));
    }

    #[test]
    fn a_base_fee_above_the_max_fee_has_to_fall() {
        let pricing = Pricing { base_fee_floor: 0, ..with_eighths() };
        let parameters = parameters(&pricing);
        let compare = |next, max_fee| {
            let inclusion = inclusion(&[], next, offer(0, max_fee), &pricing, &parameters);
            (inclusion.covers_next_base_fee, inclusion.not_before_blocks)
        };
        assert_eq!(compare(8 * GWEI, 8 * GWEI), (true, Some(0)));
        // One empty block lowers 8 gwei to 7, the next one to 6.125.
        assert_eq!(compare(8 * GWEI, 8 * GWEI - 1), (false, Some(1)));
        assert_eq!(compare(8 * GWEI, 7 * GWEI), (false, Some(1)));
        assert_eq!(compare(8 * GWEI, 7 * GWEI - 1), (false, Some(2)));
        // An eighth of 7 wei is 0, so the base fee stays.
        assert_eq!(compare(7, 6), (false, None));
        assert_eq!(compare(9, 8), (false, Some(1)));
    }

    #[test]
    fn an_empty_block_lowers_the_base_fee_by_its_own_denominator() {
        // Base: denominator 50, elasticity 3. A full block raises by 1/25, an empty one lowers by 1/50.
        let header = BaseFeeRule::from_extra_data(&[0, 0, 0, 0, 50, 0, 0, 0, 3]);
        let pricing = Pricing { base_fee_floor: 0, ..Pricing::default() };
        let parameters = ChainParameters::new(&pricing, header, None);
        let fee = offer(0, 9 * GWEI);
        let blocks = inclusion(&[], 10 * GWEI, fee, &pricing, &parameters).not_before_blocks;
        assert_eq!(blocks, Some(6));
        let preset = Pricing {
            base_fee_floor: 0,
            base_fee_change_denominator: NonZeroU64::new(25),
            empty_block_denominator: NonZeroU64::new(50),
            ..Pricing::default()
        };
        let parameters = ChainParameters::from_pricing(&preset);
        let blocks = inclusion(&[], 10 * GWEI, fee, &preset, &parameters).not_before_blocks;
        assert_eq!(blocks, Some(6));
    }

    #[test]
    fn a_base_fee_does_not_fall_below_the_minimum() {
        let after = |base_fee_floor, minimum: Option<u64>, next, max_fee| {
            let header = minimum.and_then(|minimum: u64| {
                let rule = [1, 0, 0, 0, 8, 0, 0, 0, 2];
                let extra_data = [&rule[..], &minimum.to_be_bytes()].concat();
                BaseFeeRule::from_extra_data(&extra_data)
            });
            let pricing = Pricing { base_fee_floor, ..with_eighths() };
            let parameters = ChainParameters::new(&pricing, header, None);
            inclusion(&[], next, offer(0, max_fee), &pricing, &parameters).not_before_blocks
        };
        let seven = Some(7_000_000_000);
        assert_eq!(after(0, seven, 8 * GWEI, 7 * GWEI), Some(1));
        assert_eq!(after(0, seven, 8 * GWEI, 7 * GWEI - 1), None);
        assert_eq!(after(0, seven, 7 * GWEI, 7 * GWEI - 1), None);
        // The last step ends at the minimum.
        assert_eq!(after(0, seven, 7 * GWEI + 1, 7 * GWEI), Some(1));
        assert_eq!(after(7 * GWEI, None, 8 * GWEI, 7 * GWEI - 1), None);
        // A floor above the base fee is not the chain's.
        assert_eq!(after(9 * GWEI, None, 8 * GWEI, 7 * GWEI), Some(1));
    }

    proptest! {
        #[test]
        fn a_higher_fee_never_does_worse(
            rewards in proptest::collection::vec(proptest::option::of(any::<u128>()), 0..30),
            next in any::<u128>(),
            tip in any::<u128>(),
            max_fee in any::<u128>(),
            more in any::<u128>(),
        ) {
            let blocks: Vec<_> = rewards.iter().map(|reward| block(Some(0.5), *reward)).collect();
            let pricing = with_eighths();
            let parameters = parameters(&pricing);
            let lower = inclusion(&blocks, next, offer(tip, max_fee), &pricing, &parameters);
            let raised = offer(tip.saturating_add(more), max_fee.saturating_add(more));
            let higher = inclusion(&blocks, next, raised, &pricing, &parameters);
            prop_assert!(lower.enough_in <= higher.enough_in && higher.enough_in <= higher.of);
            prop_assert!(lower.covers_full_blocks <= higher.covers_full_blocks);
            prop_assert!(lower.covers_next_base_fee <= higher.covers_next_base_fee);
            prop_assert_eq!(lower.covers_next_base_fee, lower.not_before_blocks == Some(0));
            let never = u32::MAX;
            prop_assert!(
                lower.not_before_blocks.unwrap_or(never) >= higher.not_before_blocks.unwrap_or(never)
            );
        }
    }
}
