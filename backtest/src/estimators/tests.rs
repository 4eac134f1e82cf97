use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use gas_suggestion::fees::{Multiplier, RewardPercentiles};

use super::*;
use crate::recording::{RecordedBlock, Recording};

const GWEI: u128 = 1_000_000_000;

/// A base fee, a fullness, and a tip at all percentiles.
type TestBlock = (u128, f64, u128);

/// A block without tips, and one that they do not depend on.
const ZEROS: TestBlock = (1, 0.5, 0);

fn block(base_fee: u128, ratio: f64, rewards: &[u128]) -> RecordedBlock {
    RecordedBlock { base_fee, gas_used_ratio: Some(ratio), rewards: Some(rewards.to_vec()) }
}

fn recording(percentiles: &[f64], blocks: Vec<RecordedBlock>) -> Recording {
    Recording { name: "r".into(), oldest_block: 7, percentiles: percentiles.to_vec(), blocks }
}

/// Returns the tip and the base fee that the estimator `name` quotes at the last block but one.
fn quote_by_name(name: &str, recording: &Recording) -> Option<(Option<u128>, Option<u128>)> {
    let estimators = all_estimators(&Pricing::default());
    let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
    let quote = estimator.quote(recording.history_at(recording.blocks.len() - 2));
    quote.map(|quote| (quote.tip, quote.base_fee))
}

/// Returns what the system `name` quotes after the `newest` blocks, with `filler` before them in its window. The next base
/// fee is 1000.
fn quote(name: &str, filler: TestBlock, newest: &[TestBlock]) -> Option<(u128, u128)> {
    let rule = EXTERNAL_RULES.iter().find(|rule| rule.name == name).unwrap();
    let fillers = vec![filler; rule.window.saturating_sub(newest.len())];
    let blocks = [fillers.as_slice(), newest, &[(1000, 0.5, 0)]].concat();
    let columns = rule.percentiles.len();
    let blocks = blocks.into_iter().map(|(fee, ratio, tip)| block(fee, ratio, &vec![tip; columns]));
    let (tip, base_fee) = quote_by_name(name, &recording(rule.percentiles, blocks.collect()))?;
    tip.zip(base_fee)
}

#[test]
fn estimator_names_are_unique() {
    let all = all_estimators(&Pricing::default());
    let names: BTreeSet<_> = all.iter().map(|estimator| &estimator.name).collect();
    assert_eq!(names.len(), all.len());
    let longest = |size: fn(&Estimator) -> usize| all.iter().map(size).max();
    assert_eq!(longest(|estimator| estimator.window), Some(400));
    assert_eq!(longest(|estimator| estimator.min_window), Some(50));
}

#[test]
fn configured_pricing_is_quoted_by_the_production_code() {
    let blocks = (1..=21).map(|n| block(n * 10, 0.5, &[n, n * 5])).collect();
    let recording = recording(&[60.0, 90.0], blocks);
    // Averages of the first 20 blocks: base fee 105, which is doubled, and tip 10.
    for (name, tip, base_fee) in [
        ("network rule without floors, medium", 10, 210),
        ("network rule without floors, high", 12, 210),
        ("configured, medium", 20 * GWEI, 2 * GWEI),
        ("configured, high", 24 * GWEI, 2 * GWEI),
    ] {
        assert_eq!(quote_by_name(name, &recording), Some((Some(tip), Some(base_fee))), "{name}");
    }
}

#[test]
fn calibrated_rows_have_the_targets_of_their_tiers() {
    let pricing = Pricing { strategy: Strategy::Calibrated, ..Pricing::default() };
    let all = all_estimators(&pricing);
    let targets = all.iter().map(|estimator| estimator.target.map(Target::millionths));
    let calibrated = [Some(950_000), Some(990_000)];
    let expected = [calibrated, [None; 2], calibrated].concat();
    assert_eq!(targets.clone().take(6).collect::<Vec<_>>(), expected);
    assert!(targets.skip(6).all(|target| target.is_none()));
}

#[test]
fn calibrated_strategy_quotes_from_the_blocks_that_there_are() {
    // The last block is not known yet.
    for (count, expected) in
        [(20, None), (21, Some((Some(5), Some(20)))), (300, Some((Some(5), Some(20))))]
    {
        let recording = recording(&[10.0, 60.0], vec![block(10, 0.5, &[5, 9]); count]);
        assert_eq!(quote_by_name("calibrated without floors, medium", &recording), expected);
    }
}

#[test]
fn hidden_next_base_fee_is_replaced_by_the_newest() {
    let mut blocks = vec![block(100, 0.5, &[7, 7]); 60];
    blocks[59].base_fee = 1000;
    let recording = recording(&[10.0, 60.0], blocks);
    let estimators = all_estimators(&Pricing::default());
    let mut history = recording.history_at(58);
    for (name, seen, hidden) in
        [("calibrated without floors, medium", 2000, 200), ("Chainlink FeeHistory p60", 1400, 140)]
    {
        let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
        for (is_known, expected) in [(true, seen), (false, hidden)] {
            history.is_next_base_fee_known = is_known;
            assert_eq!(estimator.quote(history).unwrap().base_fee, Some(expected), "{name}");
        }
    }
}

#[test]
fn without_one_of_its_percentiles_nothing_is_quoted() {
    let all = all_estimators(&Pricing::default());
    let quoted = |percentiles: &[f64], ratio| -> Vec<&str> {
        let rewards: Vec<u128> = (1..).take(percentiles.len()).collect();
        let recording = recording(percentiles, vec![block(10, ratio, &rewards); 60]);
        let names = all.iter().map(|estimator| estimator.name.as_str());
        names.filter(|name| quote_by_name(name, &recording).is_some()).collect()
    };
    let network = [
        "configured, medium",
        "configured, high",
        "network rule without floors, medium",
        "network rule without floors, high",
        "Chainlink FeeHistory p60",
    ];
    // Neighbours do not count, and neither does a rule that would not look at its percentile in these blocks.
    for ratio in [0.0, 0.5, 1.0] {
        assert_eq!(quoted(&[60.0], ratio), network);
        assert_eq!(quoted(&[9.9, 60.0], ratio), network);
        assert!(quoted(&[0.0, 35.0, 50.5], ratio).is_empty());
        // In empty blocks the network's rule replaces the calibrated one.
        let with_10 = quoted(&[10.0, 60.0], ratio);
        assert!(with_10.contains(&"calibrated without floors, high"), "{with_10:?}");
        assert!(!with_10.contains(&"foundry, market"), "{with_10:?}");
    }
    // Without any tips, base fees are quoted.
    assert_eq!(quoted(&[], 0.5).len(), all.len());
}

#[test]
fn both_configured_percentiles_are_used() {
    let pricing = Pricing {
        reward_percentiles: Some(RewardPercentiles::new(60.0, Some(90.0)).unwrap()),
        base_fee_floor: 0,
        priority_fee_floor: 0,
        window_blocks: NonZeroUsize::new(2).unwrap(),
        base_fee_multiplier: serde_json::from_str::<Multiplier>("1.5").unwrap(),
        ..Pricing::default()
    };
    let blocks = [(9, [9, 9]), (10, [3, 7]), (20, [4, 9]), (1, [0, 0])];
    let blocks = blocks.map(|(fee, rewards)| block(fee, 0.5, &rewards)).to_vec();
    let recording = recording(&[60.0, 90.0], blocks);
    let all = all_estimators(&pricing);
    let tips = [0, 1].map(|tier: usize| all[tier].quote(recording.history_at(2)).unwrap());
    assert_eq!(tips, [3, 8].map(|tip| EstimatorQuote { tip: Some(tip), base_fee: Some(22) }));
}

#[test]
fn alloy_takes_the_median_of_nonzero_tips_or_one_wei() {
    // The median of 4 and 7, rounded down; twice the newest mined base fee.
    let newest = [(50, 0.0, 0), (60, 0.0, 7), (70, 0.0, 4)];
    assert_eq!(quote("alloy", ZEROS, &newest), Some((5, 140)));
    assert_eq!(quote("alloy", ZEROS, &[]), Some((1, 2)));
    // Only the newest ten blocks count.
    let blocks = [[(1, 0.5, 99)].as_slice(), &[ZEROS; 10]].concat();
    assert_eq!(quote("alloy", ZEROS, &blocks), Some((1, 2)));
}

#[test]
fn foundry_ignores_nearly_empty_blocks_unless_no_other_is_left() {
    let newest = [(60, 0.09, 100), (71, 0.1, 6)];
    assert_eq!(quote("foundry, low", ZEROS, &newest), Some((6, 106)));
    assert_eq!(quote("foundry, market", ZEROS, &newest), Some((6, 142)));
    assert_eq!(quote("foundry, aggressive", ZEROS, &newest), Some((6, 142)));
    // If all blocks are nearly empty, their tips count only if at least half of them have one.
    let nearly_empty = |count| quote("foundry, market", (1, 0.01, 0), &vec![(70, 0.01, 8); count]);
    assert_eq!([4, 5].map(nearly_empty), [Some((1, 140)), Some((8, 140))]);
}

#[test]
fn geth_takes_the_60th_percentile_of_the_lowest_tips() {
    let blocks = |lowest: fn(u128) -> u128| {
        let mined = (1..=20).map(|n| block(10 * n, 0.5, &[lowest(n), 900 * GWEI]));
        mined.chain([block(1000, 0.5, &[0, 0])]).collect()
    };
    let known = recording(&[0.0, 5.0], blocks(|n| n * GWEI));
    // Of 60 samples, three per block, the one with index 59 × 60 / 100 = 35 is that of the twelfth block.
    let tip = Some(12 * GWEI);
    assert_eq!(quote_by_name("geth tip oracle", &known), Some((tip, None)));
    assert_eq!(quote_by_name("viem on geth", &known), Some((tip, Some(240))));
    assert_eq!(quote_by_name("ethers on geth", &known), Some((tip, Some(400))));
    // Tips below 2 wei are skipped, and the result is at most 500 gwei.
    let dust = recording(&[0.0, 5.0], blocks(|_| 1));
    assert_eq!(quote_by_name("geth tip oracle", &dust), Some((Some(500 * GWEI), None)));
    // Without the lowest percentile there is no quote.
    let higher = Recording { percentiles: vec![5.0, 10.0], ..dust };
    assert_eq!(quote_by_name("geth tip oracle", &higher), None);
}

#[test]
fn web3_py_clamps_its_average_to_1_and_1_5_gwei_and_rounds_to_even() {
    let odd = GWEI + 7;
    for (tips, expected) in [
        (&[5, 7][..], GWEI),
        (&[9 * GWEI], GWEI * 3 / 2),
        (&[odd, odd + 1], odd + 1),
        (&[odd + 1, odd + 2], odd + 1),
        (&[odd, odd, odd + 2], odd + 1),
    ] {
        let newest: Vec<_> = tips.iter().map(|tip| (30, 0.5, *tip)).collect();
        assert_eq!(quote("web3.py fallback", ZEROS, &newest), Some((expected, 60)), "{tips:?}");
    }
    assert_eq!(quote("web3.py fallback", ZEROS, &[]), Some((GWEI, 2)));
}

#[test]
fn metamask_takes_the_lower_median_including_zeros_with_floors() {
    let newest = [0, 0, 6 * GWEI, 7 * GWEI, 8 * GWEI].map(|tip| (200, 0.5, tip));
    for (level, tip, floor, base_fee) in [
        ("low", 5_640_000_000, GWEI, 220),
        ("medium", 5_820_000_000, GWEI * 3 / 2, 240),
        ("high", 5_880_000_000, 2 * GWEI, 250),
    ] {
        let name = format!("MetaMask fallback, {level}");
        assert_eq!(quote(&name, ZEROS, &newest), Some((tip, base_fee)));
        assert_eq!(quote(&name, ZEROS, &newest[3..]), Some((floor, base_fee)));
    }
    // The lower median of four tips is the second.
    let mut four = newest.map(|(fee, ratio, tip)| block(fee, ratio, &[tip])).to_vec();
    four[0].rewards = None;
    let four = recording(&[10.0], [four, vec![block(1, 0.5, &[0])]].concat());
    let expected = Some((Some(5_640_000_000), Some(220)));
    assert_eq!(quote_by_name("MetaMask fallback, low", &four), expected);
}

#[test]
fn polygon_station_has_a_30_gwei_floor_and_follows_its_window_start() {
    let station = |tier: &str, [first, sixth, newest]: [u128; 3]| {
        let mut blocks = [ZEROS; 15];
        (blocks[0].0, blocks[5].0, blocks[14].0) = (first, sixth, newest);
        (blocks[0].2, blocks[1].2) = (31 * GWEI, 31 * GWEI + 1);
        quote(&format!("Polygon station, {tier}"), ZEROS, &blocks)
    };
    for (base_fees, expected) in [
        // 100 + (16 − 10) × 10 / 15, then 100 − 2/3 and 100 + 2/3, each rounded to the nearest.
        ([10, 16, 100], Some(104)),
        ([11, 10, 100], Some(99)),
        ([10, 11, 100], Some(101)),
        // A negative result is no quote.
        ([1000, 0, 5], None),
        ([19, 10, 5], None),
        ([18, 10, 5], Some(0)),
    ] {
        let expected = expected.map(|base_fee| (31 * GWEI, base_fee));
        assert_eq!(station("safeLow", base_fees), expected, "{base_fees:?}");
    }
    for tier in ["standard", "fast"] {
        assert_eq!(station(tier, [10, 16, 100]), Some((31 * GWEI, 104)));
    }
    assert_eq!(quote("Polygon station, safeLow", (9, 0.5, 0), &[]), Some((30 * GWEI, 9)));
}

#[test]
fn chainlink_keeps_its_last_quote_when_no_block_has_a_tip() {
    let name = "Chainlink FeeHistory p60";
    let newest = [(10, 0.5, 0), (20, 0.5, 5), (30, 0.5, 8)];
    assert_eq!(quote(name, ZEROS, &newest), Some((6, 1400)));
    // The window of eight blocks last contained the tip of block 0 at block 7, whose next base fee is 108.
    let blocks: Vec<_> = (0..10).map(|n| (100 + n, 0.5, if n == 0 { 7 } else { 0 })).collect();
    assert_eq!(quote(name, ZEROS, &blocks), Some((7, 108 * 14 / 10)));
    assert_eq!(quote(name, ZEROS, &[]), None);
}

#[test]
fn alto_takes_a_higher_percentile_for_fuller_blocks() {
    // The median of ten tips is the average of the middle two, rounded down.
    for (ratio, tip) in [(0.5, 2), (0.51, 4), (0.71, 5), (0.91, 7)] {
        let mut blocks = vec![block(10, ratio, &[1, 2, 3, 4]); 5];
        blocks.extend(vec![block(10, ratio, &[4, 6, 8, 10]); 5]);
        blocks.push(block(1000, 0.0, &[0; 4]));
        let recording = recording(&[40.0, 50.0, 60.0, 70.0], blocks);
        assert_eq!(quote_by_name("Alto", &recording), Some((Some(tip), Some(1200))), "{ratio}");
    }
}

#[test]
fn rundler_quotes_a_tip_only_after_five_blocks_at_75_percent() {
    let mut newest = [0, 4, 9, 2, 1].map(|tip| (9, 0.75, tip));
    assert_eq!(quote("Rundler", ZEROS, &newest), Some((4, 1270)));
    newest[2].1 = 0.74;
    assert_eq!(quote("Rundler", ZEROS, &newest), Some((0, 1270)));
}

#[test]
fn status_takes_the_upper_median_and_raises_its_cap_in_congestion() {
    let tips = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let few = [0, 0, 0, 0, 0, 0, 0, 0, 9, 4];
    for (name, ratio, tips, tip, base_fee) in [
        ("Status on L1, low", 1.0, tips, 6, 1025),
        ("Status on L1, medium", 0.5, tips, 6, 1025),
        // A ratio of 0.75 is halfway from 0.5 to 1, so the congestion is 0.5: 1.025 × (1 + 10 × 0.5).
        ("Status on L1, medium", 0.75, tips, 6, 6150),
        ("Status on L1, high", 1.0, tips, 6, 11_275),
        ("Status on L1, low", 0.5, few, 4, 1025),
        ("Status on L1, low", 0.5, [0; 10], 0, 1025),
        // The window of 50 blocks has forty tips of 3 and these ten.
        ("Status on L2, low", 0.5, tips, 3, 1025),
        ("Status on L2, medium", 0.5, tips, 3, 4100),
        ("Status on L2, high", 0.5, tips, 3, 10_250),
    ] {
        let newest = tips.map(|tip| (9, ratio, tip));
        assert_eq!(quote(name, (9, 0.5, 3), &newest), Some((tip, base_fee)), "{name}");
    }
}

#[test]
fn recording_without_tips_gives_the_base_fee_allowance() {
    let mut blocks = vec![block(2 * GWEI, 0.5, &[]); 51];
    blocks[50].base_fee = 3 * GWEI;
    let recording = recording(&[], blocks);
    for (name, base_fee) in [
        ("configured, medium", Some(4 * GWEI)),
        ("network rule without floors, high", Some(4 * GWEI)),
        ("alloy", Some(4 * GWEI)),
        ("Chainlink FeeHistory p60", Some(GWEI / 10 * 42)),
        ("Status on L2, high", Some(GWEI / 100 * 3075)),
        ("geth tip oracle", None),
    ] {
        assert_eq!(quote_by_name(name, &recording), Some((None, base_fee)), "{name}");
    }
}

#[test]
fn overflowing_amounts_give_no_quote() {
    for estimator in all_estimators(&Pricing::default()) {
        let rewards = vec![u128::MAX; estimator.percentiles.len()];
        let blocks = vec![block(u128::MAX, 1.0, &rewards); 51];
        let recording = recording(&estimator.percentiles, blocks);
        let quote = estimator.quote(recording.history_at(49));
        let max_fee = quote.and_then(|quote| quote.max_fee());
        assert_eq!(max_fee, None, "{}: {quote:?}", estimator.name);
    }
}
