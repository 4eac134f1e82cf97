//! Base fees that hold for a time, and prices of one number, for transactions that name no separate tip.
//!
//! Such a price must still be valid when the transaction arrives, some time after its user has seen it. It is what would be
//! paid in the next block, or the base fee that the time after it will rarely exceed, if that is more. So a price with a tip
//! that leaves room for rises stays as it is, and a price without tips gets room.

use std::cmp::Ordering;
use std::num::NonZeroU64;
use std::time::Duration;

use alloy_primitives::{U256, U512};

use super::{ChainParameters, Market, Target, Tier, Tiers};

/// Share of the past rises, in percent, that stay within the bound of prices.
const KEPT_PERCENT: u8 = 99;

/// Number of rises from which a percentile of them says something.
pub(crate) const MIN_RISES: usize = 100;

/// Number of rises from which the highest one says something.
const FEW_RISES: usize = 20;

/// Denominator of EIP-1559 on Ethereum, for a chain of which nothing is known.
const ASSUMED_DENOMINATOR: NonZeroU64 = NonZeroU64::new(8).expect("8 is not 0");

/// Prices per gas in wei, and the base fees that they cover. Under legacy pricing they are the gas prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinglePrices {
    /// With the tip of each tier, in ascending order. That of the high one holds for longer.
    pub tiers: Tiers<u128>,
    /// Base fee that the next 15 s, or two blocks, rarely exceed.
    pub soon: u128,
    /// Base fee that the next 30 s, or five blocks, rarely exceed.
    pub later: u128,
}

/// Base fee that the time after the next block does not exceed in a share of cases, by the rises of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBaseFee {
    /// In wei, not below the next base fee.
    pub base_fee: u128,
    /// The time for which it holds.
    pub time: Duration,
    /// Number of past rises over that time.
    pub rises: usize,
}

/// Base fees of one block, or of the blocks of [`BaseFeeStep::TIME`], in wei.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseFeeStep {
    /// That of the last block.
    pub last: u128,
    /// The highest one.
    pub highest: u128,
}

impl BaseFeeStep {
    /// Creates the step of one block.
    #[must_use]
    pub fn from_base_fee(base_fee: u128) -> Self {
        Self { last: base_fee, highest: base_fee }
    }

    /// Time of a step on chains with shorter block times. On others a step is a block.
    pub const TIME: Duration = Duration::from_secs(5);

    /// Returns true if a step of a chain with this block time has the blocks of [`TIME`](Self::TIME).
    #[must_use]
    pub fn is_timed(block_time: Duration) -> bool {
        block_time < Self::TIME
    }
}

impl SinglePrices {
    /// Computes the prices of `market` from the newest steps, oldest first. The more there are, the better the rises are
    /// known.
    #[must_use]
    pub fn new(market: &Market, steps: &[BaseFeeStep], block_time: Duration) -> Self {
        let next = market.newest_known_base_fee;
        let share = Target::from_percent(KEPT_PERCENT);
        let bound = |time| HeldBaseFee::new(market, steps, block_time, time, share).base_fee;
        let [soon, later] = holds(block_time).map(bound);
        // The newest steps count for the shorter time alone, so its bound could be the higher one.
        let later = later.max(soon);
        let bounds = Tiers { low: soon, medium: soon, high: later };
        let tiers = market.suggestion.tiers.zip(bounds);
        Self { tiers: tiers.map(|(tier, bound)| tier.price_at(next).max(bound)), soon, later }
    }
}

impl HeldBaseFee {
    /// Estimates the base fee that holds for `time` in this share of cases, from the newest `steps`, oldest first. The time
    /// rounds up to steps. With few rises over it the highest one counts, with fewer full blocks do.
    #[must_use]
    pub fn new(
        market: &Market,
        steps: &[BaseFeeStep],
        block_time: Duration,
        time: Duration,
        share: Target,
    ) -> Self {
        let next = market.newest_known_base_fee;
        let step = if BaseFeeStep::is_timed(block_time) { BaseFeeStep::TIME } else { block_time };
        let mut rises = Rise::over(steps, count(time, step));
        let denominator = full_block_denominator(&market.chain_parameters);
        let base_fee = match rise_kept(&mut rises, share) {
            Some(rise) => rise.apply(next),
            None => after_full_blocks(next, count(time, block_time), denominator),
        };
        Self { base_fee, time, rises: rises.len() }
    }

    /// Returns the fees with this tip and a max fee that leaves room for it.
    #[must_use]
    pub fn with_tip(&self, tip: u128) -> Tier {
        let max_fee_per_gas = self.base_fee.saturating_add(tip);
        Tier { max_priority_fee_per_gas: tip, max_fee_per_gas }
    }
}

/// Returns for how long the low and the medium price hold, and the high one: for a time, and for some blocks after the next.
fn holds(block_time: Duration) -> [Duration; 2] {
    [(15, 2), (30, 5)].map(|(seconds, blocks)| {
        Duration::from_secs(seconds).max(block_time.saturating_mul(blocks))
    })
}

/// Returns how often `step` fits into `time`, rounded up.
fn count(time: Duration, step: Duration) -> usize {
    usize::try_from(time.as_nanos().div_ceil(step.as_nanos().max(1))).unwrap_or(usize::MAX)
}

/// Returns the rise that a share of `rises` does not exceed; of few of them the highest. `None`: there are fewer.
fn rise_kept(rises: &mut [Rise], share: Target) -> Option<Rise> {
    let millionths = usize::try_from(share.millionths()).ok()?;
    let rank = match rises.len() {
        ..FEW_RISES => return None,
        few @ ..MIN_RISES => few,
        many => many.saturating_mul(millionths).div_ceil(1_000_000),
    };
    Some(*rises.select_nth_unstable_by(rank.saturating_sub(1), Rise::cmp).1)
}

/// Returns the denominator by which a full block raises the base fee.
pub(crate) fn full_block_denominator(parameters: &ChainParameters) -> NonZeroU64 {
    parameters.denominators.map_or(ASSUMED_DENOMINATOR, |known| known.full_block)
}

/// Returns `base_fee` times (1 + 1/denominator) to the power of `blocks`, rounded up, at most twice the base fee.
pub(crate) fn after_full_blocks(base_fee: u128, blocks: usize, denominator: NonZeroU64) -> u128 {
    /// Bits of the fraction. Each block rounds down by less than its last one.
    const FRACTION: usize = 256;
    let limit: U512 = U512::from(base_fee) << (FRACTION + 1);
    let mut raised: U512 = limit >> 1;
    for _ in 0..blocks {
        raised += raised / U512::from(denominator.get());
        if raised >= limit {
            return base_fee.saturating_mul(2);
        }
    }
    raised.div_ceil(U512::ONE << FRACTION).saturating_to()
}

/// Highest base fee of some steps, and the last one before them.
#[derive(Debug, Clone, Copy)]
struct Rise {
    highest: u128,
    /// Above 0.
    before: u128,
}

impl Rise {
    /// Returns the rises from each step to the highest of the `count` after it. A base fee of 0 has none.
    fn over(steps: &[BaseFeeStep], count: usize) -> Vec<Self> {
        let mut highest: Vec<u128> = steps.iter().skip(1).map(|step| step.highest).collect();
        let mut width = 1;
        // Each pass doubles the number of steps that an amount is the highest of.
        while width < count && !highest.is_empty() {
            let further = width.min(count - width);
            let later = highest.iter().skip(further);
            highest = highest.iter().zip(later).map(|(one, other)| *one.max(other)).collect();
            width += further;
        }
        let rises = steps.iter().zip(highest).filter(|(step, _)| step.last > 0);
        rises.map(|(step, highest)| Self { highest, before: step.last }).collect()
    }

    /// Compares the ratios exactly.
    fn cmp(&self, other: &Self) -> Ordering {
        product(self.highest, other.before).cmp(&product(other.highest, self.before))
    }

    /// Returns `base_fee` after this rise, rounded up, and not below `base_fee`.
    fn apply(&self, base_fee: u128) -> u128 {
        let raised = product(base_fee, self.highest).div_ceil(U256::from(self.before));
        raised.saturating_to::<u128>().max(base_fee)
    }
}

/// Multiplies without an overflow.
fn product(one: u128, other: u128) -> U256 {
    U256::from(one) * U256::from(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fees::tests::history_of;
    use crate::fees::{Pricing, PricingType};

    const EIGHTH: NonZeroU64 = NonZeroU64::new(8).unwrap();
    const BLOCK_TIME: Duration = Duration::from_secs(12);

    /// Steps of a block each.
    fn steps(base_fees: &[u128]) -> Vec<BaseFeeStep> {
        base_fees.iter().copied().map(BaseFeeStep::from_base_fee).collect()
    }

    /// Returns the base fee of so many blocks of a chain with an eighth, in this share of cases.
    fn held(base_fees: &[u128], next: u128, blocks: u32, share: f64) -> HeldBaseFee {
        let market = market(1, 0, 1, &without_floors());
        let market = Market { newest_known_base_fee: next, ..market };
        let (steps, share) = (steps(base_fees), Target::new(share).unwrap());
        HeldBaseFee::new(&market, &steps, BLOCK_TIME, BLOCK_TIME * blocks, share)
    }

    fn bound(base_fees: &[u128], next: u128, blocks: u32) -> u128 {
        held(base_fees, next, blocks, 0.99).base_fee
    }

    /// Prices one block with this base fee and this reward, before a block with the base fee `next`.
    fn market(base_fee: u128, reward: u128, next: u128, pricing: &Pricing) -> Market {
        let mut history = history_of(7, &[base_fee], Some([reward, 0]));
        history.next_base_fee = Some(next);
        crate::fees::tests::market(&history, pricing)
    }

    fn without_floors() -> Pricing {
        Pricing { base_fee_floor: 0, priority_fee_floor: 0, ..Pricing::default() }
    }

    fn low_medium_high(market: &Market, base_fees: &[u128]) -> [u128; 3] {
        SinglePrices::new(market, &steps(base_fees), BLOCK_TIME).tiers.into_array()
    }

    #[test]
    fn with_few_steps_the_bound_is_that_of_full_blocks_or_of_the_highest_rise() {
        assert_eq!([2, 5].map(|blocks| bound(&[], 64, blocks)), [81, 116]);
        assert_eq!(bound(&[1000; 21], 32_768, 2), 41_472);
        assert_eq!(bound(&[1000; 22], 32_768, 2), 32_768);
        // Of up to 99 rises the highest counts.
        let base_fees = [vec![1000; 50], vec![2500], vec![1000; 51]].concat();
        assert_eq!(bound(&base_fees[..100], 10, 1), 25);
        assert_eq!(bound(&base_fees, 10, 1), 10);
        let fiftieth = NonZeroU64::new(50).unwrap();
        assert_eq!([2500, 2501].map(|fee| after_full_blocks(fee, 2, fiftieth)), [2601, 2603]);
        assert_eq!([0, u128::MAX].map(|fee| after_full_blocks(fee, 5, EIGHTH)), [0, u128::MAX]);
        let [least, most] = [NonZeroU64::MIN, NonZeroU64::MAX];
        assert_eq!([3, u128::MAX].map(|fee| after_full_blocks(fee, 5, most)), [4, u128::MAX]);
        // At most twice the base fee.
        assert_eq!([1, 5].map(|blocks| after_full_blocks(3, blocks, least)), [6, 6]);
        let eighths = [5, 6, 75].map(|blocks| after_full_blocks(1 << 18, blocks, EIGHTH));
        assert_eq!(eighths, [472_392, 1 << 19, 1 << 19]);
    }

    #[test]
    fn prices_hold_for_seconds() {
        let counts = |milliseconds| {
            let block_time = Duration::from_millis(milliseconds);
            let times = holds(block_time);
            (times.map(|time| time.as_secs()), times.map(|time| count(time, block_time)))
        };
        assert_eq!(counts(12_000), ([24, 60], [2, 5]));
        assert_eq!(counts(5000), ([15, 30], [3, 6]));
        assert_eq!(counts(2000), ([15, 30], [8, 15]));
        assert_eq!(counts(200), ([15, 30], [75, 150]));
        // The highest base fee of a step counts, and the last one of the step before.
        let mut steps = vec![BaseFeeStep { last: 1000, highest: 1000 }; 200];
        steps[100] = BaseFeeStep { last: 1000, highest: 1500 };
        steps[150] = BaseFeeStep { last: 500, highest: 1000 };
        let fees = market(1000, 0, 1000, &without_floors());
        let prices = SinglePrices::new(&fees, &steps, Duration::from_millis(200));
        // Of 197 rises three are to 1.5 times the base fee and one to twice, of 194 six and one.
        assert_eq!((prices.soon, prices.later), (1500, 1500));
    }

    #[test]
    fn the_base_fee_holds_for_the_time_in_the_share_of_cases() {
        // From 1,000 steadily up by 1 a block: over k blocks the rises are k/1,000 and less.
        let base_fees: Vec<u128> = (1000..2000).collect();
        let found = [1, 5, 50].map(|blocks| held(&base_fees, 1_000_000, blocks, 0.999));
        let found = found.map(|held| (held.base_fee, held.rises, held.time.as_secs()));
        // Of fewer than 1,000 rises the highest counts.
        assert_eq!(found, [(1_001_000, 999, 12), (1_005_000, 995, 60), (1_050_000, 950, 600)]);
        // The rises are 5/1,994, 5/1,993 and so on to 5/1,000.
        for (share, before) in [(0.5, 1497_u128), (0.8, 1199), (0.95, 1049), (0.99, 1009)] {
            let found = held(&base_fees, 1_000_000, 5, share).base_fee;
            assert_eq!(found, 1_000_000 + 5_000_000_u128.div_ceil(before), "{share}");
        }
        // Longer than what is known, and a part of a block.
        let few = held(&base_fees[..50], 64, 50, 0.5);
        assert_eq!((few.base_fee, few.rises), (128, 0));
        let (market, share) = (market(64, 0, 64, &without_floors()), Target::from_percent(50));
        let second = Duration::from_secs(1);
        assert_eq!(HeldBaseFee::new(&market, &[], BLOCK_TIME, second, share).base_fee, 72);
    }

    #[test]
    fn a_tip_that_leaves_room_adds_nothing() {
        let pricing = without_floors();
        let flat = vec![1000; 200];
        assert_eq!(low_medium_high(&market(1000, 0, 1000, &pricing), &flat), [1000; 3]);
        assert_eq!(low_medium_high(&market(1000, 50, 1000, &pricing), &flat), [1050, 1050, 1060]);
        let rising: Vec<u128> = (0..200).map(|block| 1_000_000 + block * 10_000).collect();
        let fees = market(1_000_000, 10_000, 1_000_000, &pricing);
        // The second steepest rises: from 1,010,000 to 1,030,000 and to 1,060,000.
        assert_eq!(low_medium_high(&fees, &rising), [1_019_802, 1_019_802, 1_049_505]);
        let fees = market(1_000_000, 300_000, 1_000_000, &pricing);
        assert_eq!(low_medium_high(&fees, &rising), [1_300_000, 1_300_000, 1_360_000]);
    }

    #[test]
    fn the_high_price_is_never_below_the_others() {
        // 102 rises over two blocks, of which the second highest counts, and 99 over five.
        let base_fees = [vec![1000; 102], vec![4000; 2]].concat();
        let fees = market(1000, 0, 1000, &without_floors());
        assert_eq!(bound(&base_fees, 1000, 5), 4000);
        assert_eq!(low_medium_high(&fees, &base_fees), [4000; 3]);
    }

    #[test]
    fn a_chain_without_base_fees_has_the_tiers_prices() {
        for zero_base_fee in [PricingType::Legacy, PricingType::Eip1559] {
            let pricing = Pricing { zero_base_fee, ..without_floors() };
            let fees = market(0, 50, 0, &pricing);
            assert_eq!(low_medium_high(&fees, &[0; 300]), [50, 50, 60], "{zero_base_fee:?}");
        }
    }

    /// Compares two fractions by their continued fractions. A denominator of 0 stands for infinity.
    fn compare((a, b): (u128, u128), (c, d): (u128, u128)) -> Ordering {
        match (b, d) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            _ => (a / b).cmp(&(c / d)).then_with(|| compare((d, c % d), (b, a % b))),
        }
    }

    fn amount() -> impl Strategy<Value = u128> {
        prop_oneof![0..4_u128, 900..1100_u128, 1_000_000_000..1_200_000_000_u128, any::<u128>()]
    }

    proptest! {
        #[test]
        fn the_bound_is_exact_for_any_amounts(
            base_fees in proptest::collection::vec(amount(), 0..320),
            next in amount(),
            blocks in prop_oneof![Just(2_usize), Just(5_usize), 1_usize..60],
        ) {
            let mut rises = Vec::new();
            for (index, before) in base_fees.iter().enumerate() {
                if let (1.., Some(following)) = (*before, base_fees.get(index + 1..=index + blocks)) {
                    rises.push((following.iter().copied().fold(0, u128::max), *before));
                }
            }
            rises.sort_by(|one, other| compare(*one, *other));
            let found = bound(&base_fees, next, u32::try_from(blocks).unwrap());
            prop_assert!(found >= next);
            if rises.len() >= 100 {
                let (highest, before) = rises[(99 * rises.len()).div_ceil(100) - 1];
                // It is the least amount that is not below `next` times the rise.
                let suffices = |amount| compare((amount, next), (highest, before)).is_ge();
                prop_assert!(next == 0 || found == u128::MAX || suffices(found));
                prop_assert!(found == next || !suffices(found - 1));
            }
        }
    }
}
