use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::*;
use crate::extras::backtest::recording::Recording;
use crate::fees::{Multiplier, RewardPercentiles};

const GWEI: u128 = 1_000_000_000;

/// Recording of `blocks`, whose rewards are at these percentiles.
fn recording(percentiles: &[f64], blocks: Vec<RecordedBlock>) -> Recording {
    Recording { name: "r".into(), oldest_block: 7, percentiles: percentiles.to_vec(), blocks }
}

fn block(base_fee: u128, ratio: f64, rewards: &[u128]) -> RecordedBlock {
    RecordedBlock { base_fee, gas_used_ratio: Some(ratio), rewards: Some(rewards.to_vec()) }
}

/// Returns the tip and the base fee that the estimator `name` quotes at the last block but one.
fn quote_by_name(name: &str, recording: &Recording) -> Option<(Option<u128>, Option<u128>)> {
    let estimators = all_estimators(&Pricing::default());
    let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
    let head = recording.blocks.len() - 2;
    estimator.quote(recording.history_at(head).unwrap()).map(|quote| (quote.tip, quote.base_fee))
}

/// Recording of `count` fillers, the `newest` blocks, and one more block with a base fee of 1000.
fn padded_recording(
    count: usize,
    filler: &RecordedBlock,
    newest: &[RecordedBlock],
    percentile: f64,
) -> Recording {
    let after = block(1000, 0.5, &[0]);
    let blocks = vec![filler.clone(); count].into_iter().chain(newest.iter().cloned());
    recording(&[percentile], blocks.chain([after]).collect())
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
fn some_quote(tip: u128, base_fee: u128) -> Option<(Option<u128>, Option<u128>)> {
    Some((Some(tip), Some(base_fee)))
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
    let blocks: Vec<_> = (1..=21).map(|n| block(n * 10, 0.5, &[n, n * 5])).collect();
    let recording = recording(&[60.0, 90.0], blocks);
    // Averages of the first 20 blocks: base fee 105, which is doubled, and tip 10.
    assert_eq!(
        quote_by_name("network rule without floors, medium", &recording),
        some_quote(10, 210)
    );
    assert_eq!(quote_by_name("network rule without floors, high", &recording), some_quote(12, 210));
    assert_eq!(quote_by_name("configured, medium", &recording), some_quote(20 * GWEI, 2 * GWEI));
    assert_eq!(quote_by_name("configured, high", &recording), some_quote(24 * GWEI, 2 * GWEI));
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
    let quote = |count: usize| {
        let blocks = (1..=count).map(|_| block(10, 0.5, &[5, 9])).collect();
        quote_by_name("calibrated without floors, medium", &recording(&[10.0, 60.0], blocks))
    };
    // The last block is not known yet.
    assert_eq!(quote(20), None);
    assert_eq!(quote(21), some_quote(5, 20));
    assert_eq!(quote(300), some_quote(5, 20));
}

#[test]
fn hidden_next_base_fee_is_replaced_by_the_newest() {
    let blocks = (0..60).map(|n| block(if n < 59 { 100 } else { 1000 }, 0.5, &[7, 7]));
    let recording = recording(&[10.0, 60.0], blocks.collect());
    let estimators = all_estimators(&Pricing::default());
    let estimator = |name: &str| estimators.iter().find(|one| one.name == name).unwrap();
    let history = recording.history_at(58).unwrap();
    for (name, seen, hidden) in
        [("calibrated without floors, medium", 2000, 200), ("Chainlink FeeHistory p60", 1400, 140)]
    {
        let base_fee = |history| estimator(name).quote(history).and_then(|quote| quote.base_fee);
        assert_eq!(base_fee(history), Some(seen), "{name}");
        assert_eq!(base_fee(history.without_next_base_fee()), Some(hidden), "{name}");
    }
}

#[test]
fn without_one_of_its_percentiles_nothing_is_quoted() {
    let quoted = |percentiles: &[f64], ratio| -> Vec<String> {
        let rewards: Vec<u128> = (1..).take(percentiles.len()).collect();
        let recording = recording(percentiles, vec![block(10, ratio, &rewards); 60]);
        let all = all_estimators(&Pricing::default()).into_iter().map(|estimator| estimator.name);
        all.filter(|name| quote_by_name(name, &recording).is_some()).collect()
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
        let with_10 = quoted(&[10.0, 60.0], ratio);
        // In empty blocks the network's rule replaces it.
        assert!(with_10.contains(&"calibrated without floors, high".into()), "{with_10:?}");
        assert!(!with_10.contains(&"foundry, market".into()), "{with_10:?}");
    }
    // Without any tips, base fees are quoted.
    assert_eq!(quoted(&[], 0.5).len(), all_estimators(&Pricing::default()).len());
}

#[test]
fn both_configured_percentiles_are_used() {
    let pricing = Pricing {
        reward_percentiles: Some(RewardPercentiles::new(60.0, Some(90.0)).unwrap()),
        base_fee_floor: 0,
        priority_fee_floor: 0,
        window_blocks: NonZeroUsize::new(2).unwrap(),
        base_fee_multiplier: Multiplier::new(3, 2).unwrap(),
        ..Pricing::default()
    };
    let blocks = vec![block(9, 0.5, &[9, 9]), block(10, 0.5, &[3, 7]), block(20, 0.5, &[4, 9])];
    let recording = recording(&[60.0, 90.0], [blocks, vec![block(1, 0.5, &[0, 0])]].concat());
    let all = all_estimators(&pricing);
    let [medium, high, ..] = all.as_slice() else { panic!("two tiers") };
    let at = |estimator: &Estimator| estimator.quote(recording.history_at(2).unwrap()).unwrap();
    assert_eq!(at(medium), EstimatorQuote { tip: Some(3), base_fee: Some(22) });
    assert_eq!(at(high), EstimatorQuote { tip: Some(8), base_fee: Some(22) });
}

#[test]
fn alloy_takes_the_median_of_nonzero_tips_or_one_wei() {
    let newest = [block(50, 0.0, &[0]), block(60, 0.0, &[7]), block(70, 0.0, &[4])];
    let zeros = block(1, 0.5, &[0]);
    // The median of 4 and 7, rounded down; twice the newest mined base fee.
    assert_eq!(
        quote_by_name("alloy", &padded_recording(7, &zeros, &newest, 20.0)),
        some_quote(5, 140)
    );
    assert_eq!(quote_by_name("alloy", &padded_recording(10, &zeros, &[], 20.0)), some_quote(1, 2));
    // Only the newest ten blocks count.
    let outside = padded_recording(9, &zeros, &[], 20.0);
    let blocks = [vec![block(1, 0.5, &[99])], outside.blocks, vec![zeros]].concat();
    assert_eq!(quote_by_name("alloy", &recording(&[20.0], blocks)), some_quote(1, 2000));
}

#[test]
fn foundry_ignores_nearly_empty_blocks_unless_no_other_is_left() {
    let newest = [block(60, 0.09, &[100]), block(71, 0.1, &[6])];
    let zeros = block(1, 0.5, &[0]);
    let foundry = |name: &str, percentile| {
        quote_by_name(
            &format!("foundry, {name}"),
            &padded_recording(8, &zeros, &newest, percentile),
        )
    };
    assert_eq!(foundry("low", 10.0), some_quote(6, 106));
    assert_eq!(foundry("market", 20.0), some_quote(6, 142));
    assert_eq!(foundry("aggressive", 50.0), some_quote(6, 142));
    // If all blocks are nearly empty, their tips count only if at least half of them have one.
    let tips = |count: usize| {
        let newest = vec![block(70, 0.01, &[8]); count];
        padded_recording(10 - count, &block(1, 0.01, &[0]), &newest, 20.0)
    };
    assert_eq!(quote_by_name("foundry, market", &tips(5)), some_quote(8, 140));
    assert_eq!(quote_by_name("foundry, market", &tips(4)), some_quote(1, 140));
}

#[test]
fn geth_takes_the_60th_percentile_of_the_lowest_tips() {
    let blocks = (1..=20).map(|n| block(10 * n, 0.5, &[n * GWEI, 900 * GWEI]));
    let blocks: Vec<_> = blocks.chain([block(1000, 0.5, &[0, 0])]).collect();
    let known = recording(&[0.0, 5.0], blocks.clone());
    // Of 60 samples, three per block, the one with index 59 × 60 / 100 = 35 is that of the twelfth block.
    assert_eq!(quote_by_name("geth tip oracle", &known), Some((Some(12 * GWEI), None)));
    assert_eq!(quote_by_name("viem on geth", &known), some_quote(12 * GWEI, 240));
    assert_eq!(quote_by_name("ethers on geth", &known), some_quote(12 * GWEI, 400));
    // Tips below 2 wei are skipped, and the result is at most 500 gwei.
    let mut blocks = blocks;
    for block in &mut blocks[..20] {
        block.rewards = Some(vec![1, 900 * GWEI]);
    }
    let dust = recording(&[0.0, 5.0], blocks);
    assert_eq!(quote_by_name("geth tip oracle", &dust), Some((Some(500 * GWEI), None)));
    // Without the lowest percentile there is no quote.
    let higher = Recording { percentiles: vec![5.0, 10.0], ..dust };
    assert_eq!(quote_by_name("geth tip oracle", &higher), None);
}

#[test]
fn web3_py_clamps_its_average_to_1_and_1_5_gwei_and_rounds_to_even() {
    let zeros = block(1, 0.5, &[0]);
    let web3 = |tips: &[u128]| {
        let newest: Vec<_> = tips.iter().map(|tip| block(30, 0.5, &[*tip])).collect();
        quote_by_name("web3.py fallback", &padded_recording(10 - tips.len(), &zeros, &newest, 5.0))
    };
    assert_eq!(web3(&[5, 7]), some_quote(GWEI, 60));
    assert_eq!(web3(&[9 * GWEI]), some_quote(GWEI * 3 / 2, 60));
    let odd = GWEI + 7;
    assert_eq!(web3(&[odd, odd + 1]), some_quote(odd + 1, 60));
    assert_eq!(web3(&[odd + 1, odd + 2]), some_quote(odd + 1, 60));
    assert_eq!(web3(&[odd, odd, odd + 2]), some_quote(odd + 1, 60));
    assert_eq!(web3(&[]), some_quote(GWEI, 2));
}

#[test]
fn metamask_takes_the_lower_median_including_zeros_with_floors() {
    let tips = [0, 0, 6 * GWEI, 7 * GWEI, 8 * GWEI];
    let newest = tips.map(|tip| block(200, 0.5, &[tip]));
    let metamask = |level: &str, percentile, newest: &[RecordedBlock]| {
        let zeros = block(1, 0.5, &[0]);
        let recording = padded_recording(5 - newest.len(), &zeros, newest, percentile);
        quote_by_name(&format!("MetaMask fallback, {level}"), &recording)
    };
    assert_eq!(metamask("low", 10.0, &newest), some_quote(5_640_000_000, 220));
    assert_eq!(metamask("medium", 20.0, &newest), some_quote(5_820_000_000, 240));
    assert_eq!(metamask("high", 30.0, &newest), some_quote(5_880_000_000, 250));
    assert_eq!(metamask("low", 10.0, &newest[3..]), some_quote(GWEI, 220));
    assert_eq!(metamask("medium", 20.0, &newest[3..]), some_quote(GWEI * 3 / 2, 240));
    assert_eq!(metamask("high", 30.0, &newest[3..]), some_quote(2 * GWEI, 250));
    // The lower median of four tips is the second.
    let mut four = newest.to_vec();
    four[0].rewards = None;
    assert_eq!(metamask("low", 10.0, &four), some_quote(5_640_000_000, 220));
}

#[test]
fn polygon_station_has_a_30_gwei_floor_and_follows_its_window_start() {
    let base_fees = |at: [u128; 3]| {
        let [first, sixth, newest] = at;
        let fees = (0..15).map(move |index| match index {
            0 => first,
            5 => sixth,
            14 => newest,
            _ => 1,
        });
        let tips = (0..15).map(|index| if index < 2 { 31 * GWEI + index } else { 0 });
        let blocks = fees.zip(tips).map(|(fee, tip)| block(fee, 0.5, &[tip]));
        recording(&[5.0], blocks.chain([block(1, 0.5, &[0])]).collect())
    };
    let station = |at| quote_by_name("Polygon station, safeLow", &base_fees(at));
    // 100 + (16 − 10) × 10 / 15, then 100 − 2/3 and 100 + 2/3, each rounded to the nearest.
    assert_eq!(station([10, 16, 100]), some_quote(31 * GWEI, 104));
    assert_eq!(station([11, 10, 100]), some_quote(31 * GWEI, 99));
    assert_eq!(station([10, 11, 100]), some_quote(31 * GWEI, 101));
    // A negative result is no quote.
    assert_eq!(station([1000, 0, 5]), None);
    assert_eq!(station([19, 10, 5]), None);
    assert_eq!(station([18, 10, 5]), some_quote(31 * GWEI, 0));
    let zeros = padded_recording(15, &block(9, 0.5, &[0]), &[], 5.0);
    assert_eq!(quote_by_name("Polygon station, safeLow", &zeros), some_quote(30 * GWEI, 9));
    for (tier, percentile) in [("standard", 15.0), ("fast", 30.0)] {
        let recording = Recording { percentiles: vec![percentile], ..base_fees([10, 16, 100]) };
        assert_eq!(
            quote_by_name(&format!("Polygon station, {tier}"), &recording),
            some_quote(31 * GWEI, 104)
        );
    }
}

#[test]
fn chainlink_keeps_its_last_quote_when_no_block_has_a_tip() {
    let name = "Chainlink FeeHistory p60";
    let newest = [block(10, 0.5, &[0]), block(20, 0.5, &[5]), block(30, 0.5, &[8])];
    let zeros = block(1, 0.5, &[0]);
    assert_eq!(
        quote_by_name(name, &padded_recording(5, &zeros, &newest, 60.0)),
        some_quote(6, 1400)
    );
    // The window of eight blocks last contained the tip of block 0 at block 7, whose next base fee is 108.
    let blocks = (0..10).map(|n| block(100 + n, 0.5, &[if n == 0 { 7 } else { 0 }]));
    assert_eq!(
        quote_by_name(name, &recording(&[60.0], blocks.collect())),
        some_quote(7, 108 * 14 / 10)
    );
    assert_eq!(quote_by_name(name, &padded_recording(9, &zeros, &[], 60.0)), None);
}

#[test]
fn alto_takes_a_higher_percentile_for_fuller_blocks() {
    let percentiles = [40.0, 50.0, 60.0, 70.0];
    let alto = |ratio| {
        let mut blocks = vec![block(10, ratio, &[1, 2, 3, 4]); 5];
        blocks.extend(vec![block(10, ratio, &[4, 6, 8, 10]); 5]);
        quote_by_name(
            "Alto",
            &recording(&percentiles, [blocks, vec![block(1000, 0.0, &[0; 4])]].concat()),
        )
    };
    // The median of ten tips is the average of the middle two, rounded down.
    assert_eq!(alto(0.5), some_quote(2, 1200));
    assert_eq!(alto(0.51), some_quote(4, 1200));
    assert_eq!(alto(0.71), some_quote(5, 1200));
    assert_eq!(alto(0.91), some_quote(7, 1200));
}

#[test]
fn rundler_quotes_a_tip_only_after_five_blocks_at_75_percent() {
    let rundler = |ratios: [f64; 5]| {
        let tips = [0, 4, 9, 2, 1];
        let blocks: Vec<_> =
            ratios.iter().zip(tips).map(|(ratio, tip)| block(9, *ratio, &[tip])).collect();
        quote_by_name("Rundler", &padded_recording(0, &block(9, 0.5, &[0]), &blocks, 33.0))
    };
    assert_eq!(rundler([0.75; 5]), some_quote(4, 1270));
    assert_eq!(rundler([0.75, 0.75, 0.74, 1.0, 1.0]), some_quote(0, 1270));
}

#[test]
fn status_takes_the_upper_median_and_raises_its_cap_in_congestion() {
    let status = |name: &str, percentile, ratio, tips: [u128; 10]| {
        let blocks = tips.map(|tip| block(9, ratio, &[tip]));
        quote_by_name(name, &padded_recording(40, &block(9, 0.5, &[3]), &blocks, percentile))
    };
    let tips = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert_eq!(status("Status on L1, low", 10.0, 1.0, tips), some_quote(6, 1025));
    assert_eq!(status("Status on L1, medium", 45.0, 0.5, tips), some_quote(6, 1025));
    // A ratio of 0.75 is halfway from 0.5 to 1, so the congestion is 0.5: 1.025 × (1 + 10 × 0.5).
    assert_eq!(status("Status on L1, medium", 45.0, 0.75, tips), some_quote(6, 6150));
    assert_eq!(status("Status on L1, high", 90.0, 1.0, tips), some_quote(6, 11_275));
    let few = [0, 0, 0, 0, 0, 0, 0, 0, 9, 4];
    assert_eq!(status("Status on L1, low", 10.0, 0.5, few), some_quote(4, 1025));
    assert_eq!(status("Status on L1, low", 10.0, 0.5, [0; 10]), some_quote(0, 1025));
    // The window of 50 blocks has forty tips of 3 and these ten.
    assert_eq!(status("Status on L2, low", 10.0, 0.5, tips), some_quote(3, 1025));
    assert_eq!(status("Status on L2, medium", 45.0, 0.5, tips), some_quote(3, 4100));
    assert_eq!(status("Status on L2, high", 90.0, 0.5, tips), some_quote(3, 10_250));
}

#[test]
fn recording_without_tips_gives_the_base_fee_allowance() {
    let without_rewards =
        |base_fee| RecordedBlock { base_fee, gas_used_ratio: Some(0.5), rewards: None };
    let blocks =
        (0..50).map(|_| without_rewards(2 * GWEI)).chain([without_rewards(3 * GWEI)]).collect();
    let recording = recording(&[], blocks);
    for (name, base_fee) in [
        ("configured, medium", 4 * GWEI),
        ("network rule without floors, high", 4 * GWEI),
        ("alloy", 4 * GWEI),
        ("Chainlink FeeHistory p60", GWEI / 10 * 42),
        ("Status on L2, high", GWEI / 100 * 3075),
    ] {
        assert_eq!(quote_by_name(name, &recording), Some((None, Some(base_fee))), "{name}");
    }
    assert_eq!(quote_by_name("geth tip oracle", &recording), Some((None, None)));
}

#[test]
fn overflowing_amounts_give_no_quote() {
    let huge = block(u128::MAX, 1.0, &[u128::MAX]);
    for estimator in all_estimators(&Pricing::default()) {
        let percentile = estimator.percentiles.first().copied().unwrap_or_default();
        let recording = padded_recording(50, &huge, &[], percentile);
        let quote = estimator.quote(recording.history_at(49).unwrap());
        let is_quoted = quote.is_some_and(|quote| quote.max_fee().is_some());
        let next_is_enough = ["Alto", "Rundler", "Status", "Chainlink"];
        if !next_is_enough.iter().any(|name| estimator.name.starts_with(name)) {
            assert!(!is_quoted, "{}: {quote:?}", estimator.name);
        }
    }
}
