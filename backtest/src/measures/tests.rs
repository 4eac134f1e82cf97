use gas_suggestion::fees::Pricing;

use super::*;
use crate::estimators::all_estimators;
use crate::report::Report;

fn block(base_fee: u128, rewards: Option<[u128; 2]>) -> RecordedBlock {
    let rewards = rewards.map(|rewards| rewards.to_vec());
    RecordedBlock { base_fee, gas_used_ratio: Some(0.5), rewards }
}

fn recording(percentiles: [f64; 2], blocks: Vec<RecordedBlock>) -> Recording {
    Recording { name: "r".into(), oldest_block: 1, percentiles: percentiles.to_vec(), blocks }
}

/// Recording of one head and the blocks after it. The last of `blocks` is repeated up to the horizon.
fn recording_after_head(blocks: &[RecordedBlock]) -> Recording {
    let last = blocks.last().unwrap().clone();
    let blocks = std::iter::once(block(1, None)).chain(blocks.iter().cloned());
    let blocks = blocks.chain(std::iter::repeat(last)).take(1 + HORIZON_BLOCKS);
    recording([10.0, 50.0], blocks.collect())
}

fn score_in(recording: &Recording, tip: Option<u128>, base_fee: Option<u128>) -> Score {
    let evaluator = Evaluator {
        recording,
        entries: entries(recording, LANDING_PERCENTILE),
        heads: 0..=0,
        is_short: false,
        shows_next_base_fee: true,
    };
    let mut tally = Tally::default();
    evaluator.evaluate(EstimatorQuote { tip, base_fee }, 0, &mut tally);
    tally.score("q".into())
}

fn score(blocks: &[RecordedBlock], tip: u128, base_fee: u128) -> Score {
    score_in(&recording_after_head(blocks), Some(tip), Some(base_fee))
}

const NO: Option<f64> = Some(0.0);
const YES: Option<f64> = Some(1.0);

#[test]
fn quote_is_included_if_it_pays_the_base_fee_and_the_landing_tip() {
    for (tip, base_fee, expected) in [
        (5, 100, Some(0)),
        (4, 200, None),
        // The max fee of 109 leaves 9 for the tip, which is 4 above the landing tip.
        (10, 99, Some(4)),
        (10, 95, Some(0)),
        (10, 94, None),
        (10, 89, None),
        (12, 500, Some(7)),
    ] {
        let score = score(&[block(100, Some([5, 9]))], tip, base_fee);
        assert_eq!(score.overpaid_p50, expected.map(Wei), "{tip} {base_fee}");
        assert_eq!(score.included_next, if expected.is_some() { YES } else { NO });
    }
}

#[test]
fn a_block_without_an_ask_says_nothing() {
    let mut empty = block(100, Some([0, 0]));
    empty.gas_used_ratio = Some(0.0);
    let found = score(&[empty.clone()], 0, 100);
    assert_eq!(
        (found.included_next, found.included_within_5, found.overpaid_p50),
        (None, None, None)
    );
    assert_eq!((found.tip_gap_p50, found.tip_covered), (None, None));
    // Its transactions paid its producer directly.
    empty.gas_used_ratio = Some(0.5);
    let found = score(&[empty, block(100, Some([5, 9]))], 3, 100);
    assert_eq!((found.included_next, found.included_within_5), (None, NO));
}

#[test]
fn included_soon_covers_exactly_five_blocks() {
    let (high, low) = (block(100, Some([5, 5])), block(10, Some([5, 5])));
    // One unknown block makes the result unknown, unless another block includes the quote.
    let unknown = block(10, None);
    for (blocks, expected) in [
        ([vec![high.clone(); 4], vec![low.clone()]].concat(), YES),
        ([vec![high.clone(); 5], vec![low.clone()]].concat(), NO),
        (vec![high.clone(), unknown.clone(), high.clone()], None),
        (vec![high, unknown, low], YES),
    ] {
        assert_eq!(score(&blocks, 5, 20).included_within_5, expected, "{blocks:?}");
    }
}

#[test]
fn unrecorded_rewards_are_excluded_rather_than_counted_as_zero() {
    let found = score(&[block(100, None)], 5, 200);
    assert_eq!((found.included_next, found.included_within_5), (None, None));
    assert_eq!((found.tip_gap_p50, found.tip_covered, found.overpaid_p50), (None, None, None));
    assert_eq!((found.covers_after_5, found.max_fee_over_base_fee_p50), (YES, Some(2.05)));
    // Without rewards the inclusion is unknown, even if the max fee is below the base fee.
    assert_eq!(score(&[block(100, None)], 5, 20).included_next, None);
}

#[test]
fn max_fee_covers_an_equal_base_fee_after_5_and_25_blocks() {
    let mut blocks = vec![block(50, Some([1, 1])); 25];
    (blocks[4].base_fee, blocks[24].base_fee) = (110, 120);
    // Only the 5th and the 25th block matter.
    blocks[23].base_fee = 500;
    for (max_fee, expected) in
        [(109, [NO, NO]), (110, [YES, NO]), (119, [YES, NO]), (120, [YES, YES])]
    {
        let score = score(&blocks, 10, max_fee - 10);
        assert_eq!([score.covers_after_5, score.covers_after_25], expected, "{max_fee}");
    }
}

#[test]
fn tip_is_compared_with_the_realised_median() {
    for (tip, gap, covered) in [(9, 0, YES), (8, 1, NO), (20, 11, YES)] {
        let score = score(&[block(100, Some([5, 9]))], tip, 500);
        let gaps = [score.tip_gap_p50, score.tip_gap_p99];
        assert_eq!((gaps, score.tip_covered), ([Some(Wei(gap)); 2], covered), "{tip}");
    }
}

#[test]
fn a_tip_alone_and_a_max_fee_alone_are_scored() {
    let recording = recording_after_head(&[block(100, Some([5, 9]))]);
    let tip = score_in(&recording, Some(9), None);
    assert_eq!((tip.tip_gap_p50, tip.tip_covered), (Some(Wei(0)), YES));
    assert_eq!((tip.included_next, tip.covers_after_5), (None, None));
    assert_eq!(tip.max_fee_over_base_fee_p50, None);
    let without_tips = Recording { percentiles: Vec::new(), ..recording };
    let max_fee = score_in(&without_tips, None, Some(250));
    assert_eq!((max_fee.covers_after_5, max_fee.max_fee_over_base_fee_p50), (YES, Some(2.5)));
    assert_eq!((max_fee.included_next, max_fee.tip_covered), (None, None));
}

#[test]
fn every_estimator_is_scored_at_the_same_heads() {
    let all = all_estimators(&Pricing::default());
    for (count, expected) in [
        (0, Err("has 0 consecutive blocks, but at least 75 are required".into())),
        (74, Err("has 74 consecutive blocks, but at least 75 are required".into())),
        (75, Ok((49..=49, true))),
        (424, Ok((49..=398, true))),
        (425, Ok((399..=399, false))),
        (450, Ok((399..=424, false))),
    ] {
        let recording = recording([10.0, 50.0], vec![block(100, Some([1, 2])); count]);
        let found = Evaluator::new(&recording, &all, 10.0);
        let found = found.map(|found| (found.heads, found.is_short));
        assert_eq!(found.map_err(|error| error.to_string()), expected);
    }
}

#[test]
fn full_blocks_are_counted_from_a_gas_used_ratio_of_0_9() {
    for (gas_used_ratio, tip, expected) in
        [(Some(0.9), 5, YES), (Some(1.0), 4, NO), (Some(0.899), 5, None), (None, 5, None)]
    {
        let next = RecordedBlock { gas_used_ratio, ..block(100, Some([5, 9])) };
        assert_eq!(score(&[next], tip, 200).full_blocks_hit, expected, "{gas_used_ratio:?}");
    }
}

#[test]
fn price_over_fair_includes_the_base_fee() {
    // 106 / 105 is rounded down.
    for (tip, expected) in [(4, None), (5, Some(1.0)), (6, Some(1.009)), (110, Some(2.0))] {
        let score = score(&[block(100, Some([5, 9]))], tip, 500);
        assert_eq!(score.price_over_fair_p50, expected, "{tip}");
    }
}

#[test]
fn pinball_loss_weighs_missing_and_surplus_tips_by_the_target() {
    let loss = |tip| score(&[block(100, Some([1000, 2000]))], tip, 0).pinball_loss.unwrap().0;
    assert_eq!([0, 1000, 1100].map(loss), [950, 0, 5]);
    let target = Target::new(0.99).unwrap();
    let average = |tips: &[u128]| {
        let pinball_losses = tips.iter().map(|tip| pinball_loss(target, *tip, 1000)).collect();
        Tally { pinball_losses, ..Tally::default() }.score("q".into()).pinball_loss
    };
    // (990 + 10 × 0.01) / 3, rounded down once.
    assert_eq!(average(&[0, 1000, 1010]), Some(Wei(330)));
    assert_eq!([average(&[]), average(&[0, u128::MAX])], [None, None]);
}

#[test]
fn short_recordings_are_replayed_with_a_note() {
    let all = all_estimators(&Pricing::default());
    let note = "calibrated without floors, high: quotes from fewer than 400 blocks at first, because the recording is short.";
    for (count, is_short) in [(424, true), (425, false)] {
        let recording = recording([10.0, 60.0], vec![block(100, Some([1, 2])); count]);
        let report = Report::new(&recording, &all, 10.0, None, false, || {}).unwrap();
        assert_eq!(report.notes.iter().any(|found| found == note), is_short);
        assert_eq!(report.notes.iter().any(|found| found.contains("short")), is_short);
    }
}

#[test]
fn next_base_fee_is_hidden_where_it_does_not_follow_from_the_head() {
    let all = all_estimators(&Pricing::default());
    // The base fee jumps to and fro, whatever the fullness of the blocks.
    let blocks = (0..500).map(|n| block(if n % 3 == 0 { 400 } else { 100 }, Some([1, 2])));
    let recording = recording([10.0, 60.0], blocks.collect());
    let report = Report::new(&recording, &all, 10.0, None, false, || {}).unwrap();
    // 1.4 times the newest base fee, of which a third are 400 before 100 and a third 100 before 400.
    let name = "Chainlink FeeHistory p60";
    let score = report.estimators.iter().find(|score| score.name == name).unwrap();
    assert_eq!(score.max_fee_over_base_fee_p50, Some(1.42));
    assert_eq!((score.quotes, score.included_next), (76, Some(51.0 / 76.0)));
    let note = "Base fees do not follow from the blocks before them";
    assert!(report.notes[0].starts_with(note), "{:?}", report.notes);
}
