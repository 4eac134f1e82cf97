use std::num::NonZeroU64;

use super::*;

pub(crate) const GWEI: u128 = 1_000_000_000;

/// Returns the market of a history, without asks and headers.
pub(crate) fn market(history: &FeeHistory, pricing: &Pricing) -> Market {
    super::price(history, &[], pricing, &ChainParameters::from_pricing(pricing)).unwrap()
}

/// Returns blocks from `oldest` on with these base fees, and all with the same rewards.
pub(crate) fn history_of(oldest: u64, base_fees: &[u128], rewards: Option<Rewards>) -> FeeHistory {
    let block = |base_fee: &u128| Block { base_fee: *base_fee, gas_used_ratio: None, rewards };
    FeeHistory::new(oldest, base_fees.iter().map(block).collect(), None).unwrap()
}

/// The network's pricing with other floors.
fn with_floors(base_fee_floor: u128, priority_fee_floor: u128) -> Pricing {
    Pricing { base_fee_floor, priority_fee_floor, ..Pricing::default() }
}

pub(crate) fn without_floors() -> Pricing {
    with_floors(0, 1)
}

/// Prices without a header, by asks in the same blocks.
fn price(history: &FeeHistory, pricing: &Pricing) -> Result<Market, PricingError> {
    let entries = pricing.entries(history.blocks());
    super::price(history, &entries, pricing, &ChainParameters::from_pricing(pricing))
}

fn block(base_fee: u128, medium: u128) -> Block {
    let rewards = Some([medium, 0]);
    Block { base_fee, gas_used_ratio: None, rewards }
}

fn history(blocks: Vec<Block>, next_base_fee: Option<u128>) -> FeeHistory {
    FeeHistory::new(100, blocks, next_base_fee).unwrap()
}

/// (base fee, medium tip, medium max fee, high tip, high max fee)
fn amounts(suggestion: &Suggestion) -> (u128, u128, u128, u128, u128) {
    let Suggestion { base_fee_per_gas, tiers: Tiers { medium, high, .. }, .. } = *suggestion;
    (
        base_fee_per_gas,
        medium.max_priority_fee_per_gas,
        medium.max_fee_per_gas,
        high.max_priority_fee_per_gas,
        high.max_fee_per_gas,
    )
}

/// Tips of low, medium and high.
fn tips(market: &Market) -> [u128; 3] {
    market.suggestion.tiers.into_array().map(|tier| tier.max_priority_fee_per_gas)
}

#[test]
fn the_network_document_example_is_reproduced() {
    let calm = history(vec![block(GWEI, 0); 20], Some(GWEI));
    let pricing = Pricing { base_fee_change_denominator: NonZeroU64::new(8), ..Pricing::default() };
    let market = price(&calm, &pricing).unwrap();
    assert_eq!(amounts(&market.suggestion), (2 * GWEI, 20 * GWEI, 22 * GWEI, 24 * GWEI, 26 * GWEI));
    assert_eq!(market.suggestion.pricing_type, PricingType::Eip1559);
    assert_eq!(market.covers_full_blocks, FullBlocksCovered { medium: Some(6), high: Some(16) });
    assert_eq!(market.floors_applied, FloorsApplied { base_fee: false, priority_fee: true });
    // Without a rule of the base fee the suggestion is the same, and the covered blocks are unknown.
    let unknown = price(&calm, &Pricing::default()).unwrap();
    assert_eq!(unknown.suggestion, market.suggestion);
    assert_eq!(unknown.covers_full_blocks, FullBlocksCovered { medium: None, high: None });
}

#[test]
fn with_two_percentiles_high_has_its_own_priority_fee() {
    let two = Pricing {
        reward_percentiles: Some(RewardPercentiles::new(60.0, Some(100.0)).unwrap()),
        priority_fee_floor: 5,
        ..Pricing::default()
    };
    let rewards = |medium, high| Block { rewards: Some([medium, high]), ..block(GWEI, 0) };
    let priced = |blocks| tips(&price(&history(blocks, None), &two).unwrap());
    assert_eq!(priced(vec![rewards(7, 90), rewards(8, 101)]), [7, 7, 95]);
    // Both fall to the floor, without the multiplier.
    assert_eq!(priced(vec![rewards(1, 2)]), [5, 5, 5]);
    // A malformed row never lets high undercut medium.
    assert_eq!(priced(vec![rewards(9, 6)]), [9, 9, 9]);
}

#[test]
fn blocks_without_rewards_only_affect_the_reward_average() {
    let silent = Block { rewards: None, ..block(30, 0) };
    let market = price(&history(vec![block(10, 8), silent], None), &without_floors()).unwrap();
    assert_eq!(market.average_base_fee, 20);
    assert_eq!(market.average_reward, Some(AverageReward { medium: 8, high: None }));
}

#[test]
fn without_rewards_the_floor_applies_or_pricing_fails() {
    let silent = history(vec![Block { rewards: None, ..block(GWEI, 0) }], None);
    let market = price(&silent, &Pricing::default()).unwrap();
    assert_eq!(tips(&market), [20 * GWEI, 20 * GWEI, 24 * GWEI]);
    assert_eq!(market.average_reward, None);
    assert!(market.floors_applied.priority_fee);
    assert_eq!(price(&silent, &without_floors()), Err(PricingError::NoRewards));
}

#[test]
fn no_tip_is_below_1_wei_and_that_is_no_floor() {
    let zeros = history(vec![block(7, 0); 3], None);
    let market = price(&zeros, &without_floors()).unwrap();
    assert_eq!(market.average_reward, Some(AverageReward { medium: 0, high: None }));
    assert_eq!(amounts(&market.suggestion), (14, 1, 15, 1, 15));
    assert_eq!(market.suggestion.tiers.low, market.suggestion.tiers.medium);
    assert!(!market.floors_applied.priority_fee && !market.floors_above_market.priority_fee);
    // A legacy gas price too.
    let legacy = price(&history(vec![block(0, 0); 3], None), &without_floors()).unwrap();
    assert_eq!(amounts(&legacy.suggestion), (0, 1, 1, 1, 1));
}

#[test]
fn a_zero_base_fee_means_legacy_pricing_by_default() {
    let network = Pricing::default();
    let price_of = |blocks, next| price(&history(blocks, next), &network).unwrap();
    let tip = 30 * GWEI;

    let before = price_of(vec![block(0, tip); 2], Some(0));
    assert_eq!(before.suggestion.pricing_type, PricingType::Legacy);
    assert_eq!(amounts(&before.suggestion), (0, tip, tip, 36 * GWEI, 36 * GWEI));
    assert_eq!(before.floors_applied, FloorsApplied { base_fee: false, priority_fee: false });

    // The next block decides where it is known, else the newest mined one.
    let activated = price_of(vec![block(0, tip); 2], Some(GWEI));
    assert_eq!(activated.suggestion.pricing_type, PricingType::Eip1559);
    assert_eq!(activated.suggestion.base_fee_per_gas, 2 * GWEI);
    let unknown_next = price_of(vec![block(GWEI, tip), block(0, tip)], None);
    assert_eq!(unknown_next.suggestion.pricing_type, PricingType::Legacy);

    let really_zero = Pricing { zero_base_fee: PricingType::Eip1559, base_fee_floor: 0, ..network };
    let market = price(&history(vec![block(0, tip)], Some(0)), &really_zero).unwrap();
    assert_eq!(market.suggestion.pricing_type, PricingType::Eip1559);
    assert_eq!(amounts(&market.suggestion), amounts(&before.suggestion));
}

#[test]
fn a_floor_is_reported_only_when_it_raised_the_fee() {
    let floors = |base_fee, tip| {
        price(&history(vec![block(base_fee, tip)], None), &Pricing::default())
            .unwrap()
            .floors_applied
    };
    let applied = |base_fee, priority_fee| FloorsApplied { base_fee, priority_fee };
    assert_eq!(floors(GWEI, 20 * GWEI), applied(false, false));
    assert_eq!(floors(GWEI - 1, 20 * GWEI), applied(true, false));
    assert_eq!(floors(GWEI, 20 * GWEI - 1), applied(false, true));
}

#[test]
fn the_trend_has_a_five_percent_dead_band() {
    let trend = |next| {
        let blocks = history(vec![block(1000, 1)], next);
        price(&blocks, &without_floors()).unwrap().base_fee_trend
    };
    assert_eq!(trend(Some(1050)), Trend::Stable);
    assert_eq!(trend(Some(1051)), Trend::Rising);
    assert_eq!(trend(Some(950)), Trend::Stable);
    assert_eq!(trend(Some(949)), Trend::Falling);
    assert_eq!(trend(None), Trend::Stable);
}

#[test]
fn covered_blocks_end_at_100_and_assume_a_rise_of_at_least_1_wei() {
    let covered = |max_fee_per_gas, base_fee| {
        let tier = Tier { max_priority_fee_per_gas: 0, max_fee_per_gas };
        let eighth = NonZeroU64::new(8).unwrap();
        let source = DenominatorSource::Configuration;
        let eighths = Denominators { full_block: eighth, empty_block: eighth, source };
        covered_blocks(tier, base_fee, 10, eighths)
    };
    assert_eq!(covered(16, 7), 0);
    assert_eq!(covered(17, 7), 1);
    // 7, 8, 9, 10: an eighth of 7 is 0, the rise is 1 wei.
    assert_eq!(covered(20, 7), 4);
    assert_eq!(covered(u128::MAX, 0), 100);
    assert_eq!(covered(u128::MAX, u128::MAX), 0);
}

#[test]
fn the_average_gas_used_ratio_ignores_missing_ones() {
    let ratio = |gas_used_ratio| Block { gas_used_ratio, ..block(1, 1) };
    let gas_ratios =
        |blocks| price(&history(blocks, None), &without_floors()).unwrap().gas_used_ratio;
    let some = gas_ratios(vec![ratio(Some(0.5)), ratio(None), ratio(Some(1.0))]);
    assert_eq!(some, GasUsedRatios { latest: Some(1.0), average: Some(0.75) });
    let newest_unknown = gas_ratios(vec![ratio(Some(0.5)), ratio(None)]);
    assert_eq!(newest_unknown, GasUsedRatios { latest: None, average: Some(0.5) });
    assert_eq!(gas_ratios(vec![ratio(None)]), GasUsedRatios { latest: None, average: None });
}

#[test]
fn amounts_above_their_maximum_are_a_pricing_error() {
    let pricing = Pricing { max_base_fee: 100, max_priority_fee: 12, ..without_floors() };
    for (blocks, next, expected) in [
        (vec![block(100, 10)], Some(100), Ok(())),
        (vec![block(101, 10)], None, Err(PricingError::AboveMaximum)),
        (vec![block(100, 10)], Some(101), Err(PricingError::AboveMaximum)),
        (vec![block(100, 11)], None, Err(PricingError::AboveMaximum)),
    ] {
        let outcome = price(&history(blocks.clone(), next), &pricing).map(|_| ());
        assert_eq!(outcome, expected, "{blocks:?}");
    }
}

#[test]
fn overflowing_amounts_are_a_pricing_error() {
    let pricing =
        Pricing { max_base_fee: u128::MAX, max_priority_fee: u128::MAX, ..without_floors() };
    let rejected = |blocks, next| price(&history(blocks, next), &pricing).unwrap_err();
    let huge = u128::MAX / 2 + 1;
    assert_eq!(rejected(vec![block(huge, 1); 2], None), PricingError::Overflow);
    assert_eq!(rejected(vec![block(1, huge); 2], None), PricingError::Overflow);
    assert_eq!(rejected(vec![block(huge, 1)], None), PricingError::Overflow);
    assert_eq!(rejected(vec![block(1, u128::MAX)], None), PricingError::Overflow);
    assert_eq!(rejected(vec![block(1, 1)], Some(u128::MAX)), PricingError::Overflow);
}

#[test]
fn a_history_needs_a_block_and_64_bit_numbers() {
    assert_eq!(FeeHistory::new(1, Vec::new(), Some(1)), None);
    assert_eq!(FeeHistory::new(u64::MAX, vec![block(1, 1); 2], None), None);
    let last = FeeHistory::new(u64::MAX, vec![block(1, 1)], None).unwrap();
    assert_eq!(last.newest_block(), u64::MAX);
}

#[test]
fn a_block_is_the_same_by_base_fee_and_ratio_but_not_by_rewards() {
    let one = block_with_ratio(Some(0.5), 1, 1);
    for (base_fee, ratio, reward, expected) in [
        (one.base_fee, Some(0.5), 2, true),
        (one.base_fee, Some(0.5 + 5e-10), 1, true),
        (one.base_fee, Some(0.5 + 2e-9), 1, false),
        (one.base_fee, None, 1, true),
        (one.base_fee + 1, Some(0.5), 1, false),
        (one.base_fee + 1, None, 1, false),
    ] {
        let other = Block { base_fee, ..block_with_ratio(ratio, reward, reward) };
        assert_eq!(one.is_same_as(&other), expected, "{other:?}");
        assert_eq!(other.is_same_as(&one), expected, "{other:?}");
    }
}

/// A block with this gas used ratio and these rewards.
fn block_with_ratio(gas_used_ratio: Option<f64>, medium: u128, high: u128) -> Block {
    let rewards = Some([medium, high]);
    Block { base_fee: 100, gas_used_ratio, rewards }
}

/// The calibrated strategy with these constants, on polls that have the asks.
fn calibrated(constants: Pricing) -> Pricing {
    Pricing { strategy: Strategy::Calibrated, ..constants }.for_whole_histories()
}

fn price_calibrated(blocks: Vec<Block>, next_base_fee: Option<u128>, constants: Pricing) -> Market {
    price(&history(blocks, next_base_fee), &calibrated(constants)).unwrap()
}

#[test]
fn calibrated_priority_fees_respect_the_floor() {
    let cheap = vec![block_with_ratio(Some(0.9), 3, 5); 20];
    let market = price_calibrated(cheap, Some(100), with_floors(0, 20));
    assert_eq!(amounts(&market.suggestion), (200, 20, 220, 20, 220));
    assert!(market.floors_applied.priority_fee);
    assert_eq!(market.strategy, Strategy::Calibrated);

    let silent = vec![Block { base_fee: 100, gas_used_ratio: Some(0.9), rewards: None }; 20];
    let market = price_calibrated(silent.clone(), Some(100), with_floors(0, 20));
    // The network's rule: high is medium times its factor.
    assert_eq!(amounts(&market.suggestion), (200, 20, 220, 24, 224));
    assert_eq!(market.strategy, Strategy::Network);
    let rejected = price(&history(silent, None), &calibrated(without_floors()));
    assert_eq!(rejected, Err(PricingError::NoRewards));
    // A row whose second percentile is below its first is malformed.
    let malformed = vec![block_with_ratio(Some(0.9), 5, 1); 20];
    let market = price_calibrated(malformed, Some(100), without_floors());
    assert_eq!(tips(&market), [5, 5, 5]);
}

#[test]
fn until_20_asks_are_known_the_networks_rule_replaces_the_calibrated_one() {
    // Neither blocks without transactions nor those whose transactions pay the producer directly have asks.
    let mut blocks = vec![block_with_ratio(Some(0.0), 3, 5); 20];
    blocks.extend(vec![block_with_ratio(Some(0.5), 0, 5); 20]);
    blocks.extend(vec![block_with_ratio(Some(0.5), 2, 5); 19]);
    let market = price_calibrated(blocks.clone(), Some(100), without_floors());
    assert_eq!(market.strategy, Strategy::Network);
    // With the last percentile of polls, and the high tier's factor.
    assert_eq!(amounts(&market.suggestion), (200, 5, 205, 6, 206));
    blocks.push(block_with_ratio(Some(0.5), 2, 4));
    let market = price_calibrated(blocks, Some(100), without_floors());
    assert_eq!(market.strategy, Strategy::Calibrated);
    assert_eq!(amounts(&market.suggestion), (200, 2, 202, 2, 202));
}

#[test]
fn blocks_without_an_ask_do_not_change_a_calibrated_tip() {
    let mut blocks: Vec<_> = (0..60).map(|n| block_with_ratio(Some(0.5), 1 + n % 7, 20)).collect();
    let priced = |blocks| tips(&price_calibrated(blocks, Some(100), without_floors()));
    let before = priced(blocks.clone());
    assert_eq!(before, [6, 7, 7]);
    blocks.extend(vec![block_with_ratio(Some(0.0), 90, 90); 50]);
    blocks.extend(vec![block_with_ratio(Some(0.5), 0, 90); 50]);
    assert_eq!(priced(blocks.clone()), before);
    // Where every ratio is 0 the ratios say nothing.
    for block in &mut blocks {
        block.gas_used_ratio = Some(0.0);
    }
    assert_eq!(priced(blocks)[1..], [90, 90]);
}

#[test]
fn each_miss_raises_a_calibrated_tip() {
    let mut blocks = vec![block_with_ratio(Some(0.5), 80, 1000); 250];
    let tip =
        |blocks: &[Block]| tips(&price_calibrated(blocks.to_vec(), Some(100), without_floors()))[2];
    // Equal asks have left the level at 1 %.
    assert_eq!(tip(&blocks), 80);
    // One miss lowers it to 0.01 %: an eighth is not added, and the highest ask is the new one.
    blocks.push(block_with_ratio(Some(0.5), 160, 1000));
    assert_eq!(tip(&blocks), 160);
    // The next one lowers it below 0: an eighth above the highest.
    blocks.push(block_with_ratio(Some(0.5), 320, 1000));
    assert_eq!(tip(&blocks), 360);
    // The highest high of the newest 20 blocks limits the tip.
    let low = block_with_ratio(Some(0.5), 330, 340);
    blocks.extend([low; 20]);
    assert_eq!(tip(&blocks), 340);
}

#[test]
fn the_low_tip_is_the_lowest_reward_between_the_floor_and_the_medium_tip() {
    let blocks = vec![block(100, 30), block(100, 9), block(100, 21)];
    let priced = |blocks: &[Block], pricing| {
        tips(&price(&history(blocks.to_vec(), Some(100)), &pricing).unwrap())
    };
    assert_eq!(priced(&blocks, without_floors()), [9, 20, 24]);
    // A block without transactions, or without tips, says nothing.
    let more = [block_with_ratio(Some(0.0), 3, 3), block_with_ratio(Some(0.5), 0, 0)];
    assert_eq!(priced(&[&blocks[..], &more].concat(), without_floors()), [9, 12, 14]);
    assert_eq!(priced(&blocks, with_floors(0, 15)), [15, 20, 24]);
    assert_eq!(priced(&blocks, with_floors(0, 50)), [50, 50, 60]);
    // Of the asks 1 to 100, 80 % are at most 80.
    let asks: Vec<_> = (1..=100).map(|ask| block_with_ratio(Some(0.5), ask, 1000)).collect();
    let market = price_calibrated(asks, Some(100), without_floors());
    assert_eq!(tips(&market), [81, 96, 100]);
}

#[test]
fn the_price_in_a_block_is_the_base_fee_and_what_is_left_for_the_tip() {
    let tier = Tier { max_priority_fee_per_gas: 20, max_fee_per_gas: 110 };
    for (base_fee, price, tip) in
        [(80, 100, Some(20)), (90, 110, Some(20)), (95, 110, Some(15)), (111, 110, None)]
    {
        assert_eq!((tier.price_at(base_fee), tier.tip_paid(base_fee)), (price, tip), "{base_fee}");
    }
    assert_eq!(tier.price_at(u128::MAX), 110);
}

#[test]
fn the_calibrated_base_fee_rises_at_once_and_falls_slowly() {
    let blocks = |base_fees: [u128; 4]| {
        let older = vec![block_with_ratio(Some(0.5), 1, 1); 16];
        let newest = base_fees.map(|base_fee| Block { base_fee, ..older[0] });
        [older, newest.to_vec()].concat()
    };
    let base_fee = |base_fees, next| {
        let window_blocks = 4.try_into().unwrap();
        let pricing = Pricing { window_blocks, ..without_floors() };
        let market = price_calibrated(blocks(base_fees), next, pricing);
        assert_eq!(market.strategy, Strategy::Calibrated);
        market.suggestion.base_fee_per_gas
    };
    assert_eq!(base_fee([100, 112, 126, 142], Some(160)), 320);
    assert_eq!(base_fee([160, 142, 126, 112], Some(100)), 270);
    // If the node does not return the next base fee.
    assert_eq!(base_fee([100, 112, 126, 142], None), 284);
    let market = price_calibrated(blocks([1; 4]), Some(2), with_floors(107, 1));
    assert_eq!(market.suggestion.base_fee_per_gas, 214);
    assert!(market.floors_applied.base_fee);
}

#[test]
fn a_floor_of_more_than_ten_times_the_market_is_marked() {
    let blocks = |tip| history(vec![block(GWEI, tip); 3], None);
    let marked = |base_fee_floor, priority_fee_floor, tip| {
        let pricing = with_floors(base_fee_floor, priority_fee_floor);
        let above = price(&blocks(tip), &pricing).unwrap().floors_above_market;
        (above.base_fee, above.priority_fee)
    };
    assert_eq!(marked(10 * GWEI, 100, 10), (false, false));
    assert_eq!(marked(10 * GWEI + 1, 101, 10), (true, true));
    assert_eq!(marked(0, 2, 0), (false, true));
    assert_eq!(marked(0, 1, 0), (false, false));
    // Without rewards the market is unknown, and under legacy pricing there is no base fee.
    let silent = Block { rewards: None, ..block(GWEI, 0) };
    let unknown = price(&history(vec![silent], None), &with_floors(0, GWEI)).unwrap();
    assert!(!unknown.floors_above_market.priority_fee);
    let legacy = price(&history(vec![block(0, 10)], None), &with_floors(GWEI, 0)).unwrap();
    assert!(!legacy.floors_above_market.base_fee);
}
