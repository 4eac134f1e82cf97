//! The rule that moves a chain's base fee: stated in the headers of OP Stack chains, and found from the blocks of others.
//!
//! EIP-1559: a block that uses more gas than limit/elasticity raises the base fee, one that uses less lowers it: by
//! 1/denominator of it for each target of gas too much or too little.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Block, have_ratios};

/// How a chain moves its base fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFeeRule {
    /// At least 2: a block is as full as it should be at 1/elasticity of its gas limit.
    elasticity: u32,
    denominator: NonZeroU32,
    /// Lowest base fee in wei; `None`: unknown, or the chain has none.
    pub minimum_base_fee: Option<u128>,
}

/// The rule of one chain as far as its blocks show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct FittedRule {
    /// `None`: no rule, or several, explain the blocks.
    pub rule: Option<BaseFeeRule>,
    /// First block that may show the present rule: the last one that the rule before did not explain.
    since: u64,
    /// Newest block of the last check.
    checked: u64,
}

/// A block, and the base fee of the one after it.
#[derive(Debug, Clone, Copy)]
struct Step {
    number: u64,
    base_fee: u128,
    /// Gas used in gas limits, times [`Step::ONE`].
    used: u128,
    next: u128,
}

impl BaseFeeRule {
    const ELASTICITIES: RangeInclusive<u32> = 2..=10;
    const DENOMINATORS: RangeInclusive<u32> = 2..=600;
    /// Lowest gas limit of a chain whose rule is found.
    const LEAST_LIMIT: u128 = 5_000_000;
    /// Steps from which a rule is found.
    const MIN_STEPS: usize = 20;
    /// Blocks at the lowest base fee, which should have lowered it, that show a minimum.
    const MIN_AT_MINIMUM: usize = 3;

    /// A full block raises the base fee by 1/denominator of it.
    #[must_use]
    pub fn full_block(&self) -> NonZeroU64 {
        let growth = self.elasticity.saturating_sub(1);
        let denominator = self.denominator.get().checked_div(growth).unwrap_or_default();
        NonZeroU64::new(denominator.into()).unwrap_or(NonZeroU64::MIN)
    }

    /// An empty block lowers the base fee by 1/denominator of it.
    #[must_use]
    pub fn empty_block(&self) -> NonZeroU64 {
        self.denominator.into()
    }

    /// Parses the `extraData` of an OP Stack header. Holocene: version 0, denominator and elasticity as 32-bit numbers.
    /// Jovian: version 1, the same, and the minimum base fee as a 64-bit number, of which 0 is none. Returns `None` for any
    /// other content, and for numbers that are no rule.
    #[must_use]
    pub fn from_extra_data(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (denominator, rest) = rest.split_first_chunk()?;
        let (elasticity, rest) = rest.split_first_chunk()?;
        let minimum = match version {
            0 if rest.is_empty() => 0,
            1 => u64::from_be_bytes(rest.try_into().ok()?),
            _ => return None,
        };
        Some(Self {
            // With an elasticity of 1 or 0 no block raises the base fee.
            elasticity: Some(u32::from_be_bytes(*elasticity)).filter(|it| *it >= 2)?,
            denominator: NonZeroU32::new(u32::from_be_bytes(*denominator))?,
            minimum_base_fee: Some(u128::from(minimum)).filter(|minimum| *minimum > 0),
        })
    }

    /// Finds the one rule that explains all these steps; `None`: none or several do, or they are too few or too equal.
    fn find(steps: &[Step]) -> Option<Self> {
        let lowest = steps.iter().map(|step| step.next).min();
        let stays = |step: &&Step| Some(step.base_fee) == lowest && step.next == step.base_fee;
        let minimum = lowest.filter(|_| steps.iter().filter(stays).count() >= Self::MIN_AT_MINIMUM);
        let free: Vec<_> = steps.iter().filter(|step| Some(step.next) != minimum).collect();
        let used = || free.iter().map(|step| step.used);
        let span = used().max()?.saturating_sub(used().min()?);
        if free.len() < Self::MIN_STEPS || span < Step::ONE / 20 {
            return None;
        }
        let rules = Self::ELASTICITIES.flat_map(|elasticity| {
            let denominators = Self::DENOMINATORS.filter_map(NonZeroU32::new);
            denominators.map(move |denominator| Self {
                elasticity,
                denominator,
                minimum_base_fee: None,
            })
        });
        let mut rules = rules.filter(|rule| free.iter().all(|step| rule.explains(step, None)));
        let rule = rules.next()?;
        let is_only_one = rules.next().is_none();
        is_only_one.then(|| Self { minimum_base_fee: rule.minimum_of(steps), ..rule })
    }

    /// Returns the lowest base fee of these steps if blocks that should have lowered it did not.
    fn minimum_of(&self, steps: &[Step]) -> Option<u128> {
        let lowest = steps.iter().map(|step| step.next).min()?;
        let is_held = |step: &&Step| {
            let falls = self
                .next(step.base_fee, step.used, Step::ONE)
                .is_some_and(|next| next.saturating_add(2) <= lowest);
            step.base_fee == lowest && step.next == lowest && falls
        };
        (steps.iter().filter(is_held).count() >= Self::MIN_AT_MINIMUM).then_some(lowest)
    }

    /// Returns true if the rule makes the next base fee of this step, within the rounding of the ratio. The `lowest` base fee
    /// may be a minimum.
    fn explains(&self, step: &Step, lowest: Option<u128>) -> bool {
        /// Below this the next base fee is exact, in wei.
        const EXACT: u128 = 10_000_000;
        const PARTS: u128 = 100_000_000;
        // Nodes round the target down to whole units of gas.
        let target = Step::ONE - Step::ONE / Self::LEAST_LIMIT * u128::from(self.elasticity);
        let least = self.next(step.base_fee, step.used.saturating_sub(Step::ROUNDING), Step::ONE);
        let most = self.next(step.base_fee, step.used.saturating_add(Step::ROUNDING), target);
        let Some((least, most)) = least.zip(most) else { return false };
        let margin = if step.base_fee < EXACT { 0 } else { step.base_fee.div_ceil(PARTS) };
        let range = least.saturating_sub(margin)..=most.saturating_add(margin);
        let is_at_minimum = [self.minimum_base_fee, lowest].contains(&Some(step.next));
        range.contains(&step.next) || is_at_minimum && least <= step.next
    }

    /// Returns the base fee after a block with this one that used so much gas, for this target times the elasticity; `None`: it
    /// is too high to tell.
    fn next(&self, base_fee: u128, used: u128, target: u128) -> Option<u128> {
        let denominator = u128::from(self.denominator.get());
        let targets = used.checked_mul(self.elasticity.into())?;
        let change = base_fee.checked_mul(targets.abs_diff(target))? / target / denominator;
        if targets > target {
            base_fee.checked_add(change.max(1))
        } else {
            base_fee.checked_sub(change)
        }
    }
}

impl FittedRule {
    /// Blocks that a rule is found from.
    pub const BLOCKS: usize = 101;
    /// Blocks between two checks.
    const INTERVAL: u64 = 25;

    /// Returns true if the rule is to be checked with the blocks up to `newest`.
    #[must_use]
    pub fn is_due(&self, newest: u64) -> bool {
        newest.abs_diff(self.checked) >= Self::INTERVAL
    }

    /// Checks the rule with these blocks, the last of which is `newest`, and the base fee of the `next` one. A block that it
    /// does not explain ends it. The next rule is found from the blocks from there on.
    pub fn update(&mut self, newest: u64, blocks: &[Block], next: Option<u128>) {
        if newest < self.checked {
            *self = Self::default();
        }
        self.checked = newest;
        let mut steps = Step::all(newest, blocks, next);
        steps.retain(|step| step.number >= self.since);
        if let Some(rule) = &mut self.rule {
            // The first blocks at a minimum do not show it yet.
            let lowest = steps.iter().map(|step| step.next).min();
            let misfit = steps.iter().rev().find(|step| !rule.explains(step, lowest));
            let Some(misfit) = misfit else {
                let known = rule.minimum_base_fee.filter(|it| lowest.is_none_or(|low| low >= *it));
                rule.minimum_base_fee = rule.minimum_of(&steps).or(known);
                return;
            };
            self.since = misfit.number;
            steps.retain(|step| step.number >= self.since);
        }
        self.rule = BaseFeeRule::find(&steps);
    }
}

impl Step {
    /// One gas limit.
    const ONE: u128 = 1 << 53;
    const ONE_FLOAT: f64 = 9_007_199_254_740_992.0;
    /// Nodes divide two integers, whose quotient is rounded.
    const ROUNDING: u128 = 2;

    /// Returns the steps between these blocks, the last of which is `newest`, and to the base fee of the `next` one, if that is
    /// known: none where nodes do not tell how full blocks are.
    fn all(newest: u64, blocks: &[Block], next: Option<u128>) -> Vec<Self> {
        if !have_ratios(blocks.iter()) {
            return Vec::new();
        }
        let count = u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        let numbers = newest.saturating_sub(count.saturating_sub(1))..;
        let following = blocks.iter().skip(1).map(|block| block.base_fee).chain(next);
        let steps =
            numbers.zip(blocks.iter().zip(following)).filter_map(|(number, (block, next))| {
                // There is no conversion trait from floating point numbers to integers.
                let used = format!("{:.0}", (block.gas_used_ratio? * Self::ONE_FLOAT).floor());
                let used = used.parse().ok()?;
                Some(Self { number, base_fee: block.base_fee, used, next })
            });
        steps.filter(|step| step.base_fee > 0 && step.next > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A chain that moves its base fee by a rule, with blocks of any fullness.
    struct Chain {
        rule: BaseFeeRule,
        base_fee: u128,
        newest: u64,
        blocks: Vec<Block>,
        random: u64,
    }

    impl Chain {
        fn new(denominator: u32, elasticity: u32, minimum: Option<u128>, base_fee: u128) -> Self {
            let rule = BaseFeeRule { minimum_base_fee: minimum, ..rule(denominator, elasticity) };
            Self { rule, base_fee, newest: 1000, blocks: Vec::new(), random: 7 }
        }

        /// Mines blocks of which none is fuller than `fullest` in thousandths.
        fn mine(&mut self, count: usize, fullest: u64) {
            for _ in 0..count {
                self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // As geth: of 30 million gas.
                let used = u128::from((self.random >> 40) % fullest.max(1)) * 29_987;
                let limit = 30_000_001;
                let target = limit / u128::from(self.rule.elasticity);
                let denominator = u128::from(self.rule.denominator.get());
                let change = self.base_fee * used.abs_diff(target) / target / denominator;
                let ratio = f64::from(u32::try_from(used).unwrap()) / 30_000_001.0;
                let base_fee = self.base_fee;
                self.blocks.push(Block { base_fee, gas_used_ratio: Some(ratio), rewards: None });
                self.newest += 1;
                let next = if used > target { base_fee + change.max(1) } else { base_fee - change };
                self.base_fee = next.max(self.rule.minimum_base_fee.unwrap_or_default());
            }
        }

        fn update(&self, fitted: &mut FittedRule) -> Option<BaseFeeRule> {
            let known = self.blocks.len().saturating_sub(FittedRule::BLOCKS);
            fitted.update(self.newest, &self.blocks[known..], Some(self.base_fee));
            fitted.rule
        }
    }

    fn rule(denominator: u32, elasticity: u32) -> BaseFeeRule {
        let denominator = NonZeroU32::new(denominator).unwrap();
        BaseFeeRule { elasticity, denominator, minimum_base_fee: None }
    }

    #[test]
    fn a_rule_is_found_from_twenty_blocks() {
        for (denominator, elasticity) in [(8, 2), (250, 6), (50, 3), (125, 4), (600, 10), (16, 2)] {
            for base_fee in [400, 9_999_999, 30_000_000_000, 1 << 70] {
                let mut chain = Chain::new(denominator, elasticity, None, base_fee);
                chain.mine(19, 1000);
                assert_eq!(chain.update(&mut FittedRule::default()), None, "too few");
                chain.mine(82, 1000);
                let found = chain.update(&mut FittedRule::default());
                let expected = Some(rule(denominator, elasticity));
                // Small amounts are rounded so much that several rules explain them.
                assert!(found == expected || (base_fee == 400 && found.is_none()), "{found:?}");
            }
        }
    }

    #[test]
    fn a_new_rule_replaces_one_that_does_not_explain_a_block() {
        let (mut chain, mut fitted) =
            (Chain::new(50, 6, None, 5_000_000_000), FittedRule::default());
        chain.mine(101, 1000);
        assert_eq!(chain.update(&mut fitted), Some(rule(50, 6)));
        chain.rule = rule(125, 6);
        for _ in 0..3 {
            chain.mine(25, 1000);
            let found = chain.update(&mut fitted);
            assert!(found.is_none_or(|it| it == rule(125, 6)), "{found:?}");
        }
        assert_eq!(fitted.rule, Some(rule(125, 6)));
        // The base fee of the next chain follows nothing.
        for _ in 0..8 {
            chain.mine(25, 1000);
            let last = chain.blocks.len() - 1;
            chain.blocks[last].base_fee += 1_000_000;
            chain.update(&mut fitted);
        }
        assert_eq!(fitted.rule, None);
        // The chain was reset.
        chain.newest = 500;
        assert!(fitted.is_due(500));
    }

    #[test]
    fn blocks_that_should_have_lowered_the_base_fee_show_a_minimum() {
        let (mut chain, mut fitted) =
            (Chain::new(8, 2, Some(5_000_000), 7_000_000), FittedRule::default());
        chain.mine(101, 900);
        let found = chain.update(&mut fitted).unwrap();
        assert_eq!(found, BaseFeeRule { minimum_base_fee: Some(5_000_000), ..rule(8, 2) });
        // It was lowered.
        chain.rule.minimum_base_fee = None;
        chain.mine(50, 700);
        assert_eq!(chain.update(&mut fitted).and_then(|it| it.minimum_base_fee), None);
    }

    #[test]
    fn the_first_blocks_at_a_minimum_end_no_rule() {
        let mut chain = Chain::new(8, 2, Some(5_000_000), 9_000_000_000);
        let mut fitted = FittedRule::default();
        chain.mine(101, 1000);
        assert_eq!(chain.update(&mut fitted), Some(rule(8, 2)));
        for _ in 0..12 {
            chain.mine(25, 100);
            let numbers = chain.update(&mut fitted).map(|it| (it.elasticity, it.denominator.get()));
            assert_eq!(numbers, Some((2, 8)));
        }
        assert_eq!(fitted.rule.and_then(|it| it.minimum_base_fee), Some(5_000_000));
    }

    #[test]
    fn equal_blocks_and_blocks_without_ratios_show_nothing() {
        let mut chain = Chain::new(8, 2, None, 1_000_000_000);
        chain.mine(101, 1);
        assert_eq!(chain.update(&mut FittedRule::default()), None);
        chain.mine(101, 1000);
        for block in &mut chain.blocks {
            block.gas_used_ratio = None;
        }
        assert_eq!(chain.update(&mut FittedRule::default()), None);
    }

    proptest! {
        #[test]
        fn any_blocks_show_a_rule_or_none(
            blocks in proptest::collection::vec((any::<u128>(), 0.0..=1.0), 0..60),
            next in any::<Option<u128>>(),
        ) {
            let block = |(base_fee, ratio): &(u128, f64)| Block {
                base_fee: *base_fee,
                gas_used_ratio: Some(*ratio),
                rewards: None,
            };
            let blocks: Vec<_> = blocks.iter().map(block).collect();
            let mut fitted = FittedRule::default();
            fitted.update(100, &blocks, next);
            prop_assert_eq!(fitted.rule, None);
        }
    }

    #[test]
    fn holocene_and_jovian_headers_have_a_rule() {
        let parsed = |bytes: &[u8]| {
            let rule = BaseFeeRule::from_extra_data(bytes)?;
            Some((rule.full_block().get(), rule.empty_block().get(), rule.minimum_base_fee))
        };
        // OP Mainnet and Base before Jovian, byte by byte.
        assert_eq!(parsed(&[0, 0, 0, 0, 250, 0, 0, 0, 2]), Some((250, 250, None)));
        assert_eq!(parsed(&[0, 0, 0, 0, 50, 0, 0, 0, 3]), Some((25, 50, None)));
        let minimum = [1, 0, 0, 0, 250, 0, 0, 0, 6, 0, 0, 0, 4, 168, 23, 200, 0];
        assert_eq!(parsed(&minimum), Some((50, 250, Some(20_000_000_000))));
        // Rounded down, and at least 1.
        assert_eq!(parsed(&[0, 0, 0, 0, 50, 0, 0, 0, 4]), Some((16, 50, None)));
        assert_eq!(parsed(&[0, 0, 0, 0, 1, 255, 255, 255, 255]), Some((1, 1, None)));
        // Other content, another version, a denominator of 0, and an elasticity of 1.
        let other: [&[u8]; 6] = [
            &[],
            &[0, 0, 0, 0, 250, 0, 0, 0],
            &[1, 0, 0, 0, 250, 0, 0, 0, 2],
            &[2, 0, 0, 0, 250, 0, 0, 0, 2],
            &[0, 0, 0, 0, 0, 0, 0, 0, 2],
            &[0, 0, 0, 0, 250, 0, 0, 0, 1],
        ];
        assert_eq!(other.map(parsed), [None; 6]);
    }
}
