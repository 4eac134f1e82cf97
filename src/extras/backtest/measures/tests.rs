use super::*;
use crate::extras::backtest::estimators;
use crate::fees::Pricing;

fn block(base_fee: u128, rewards: Option<[u128; 2]>) -> RecordedBlock {
    RecordedBlock {
        base_fee,
        gas_used_ratio: Some(0.5),
        rewards: rewards.map(|rewards| rewards.to_vec()),
    }
}

/// Recording of one head and the blocks after it. The last of `blocks` is repeated up to the horizon.
fn recording_after_head(blocks: &[RecordedBlock]) -> Recording {
    let last = blocks.last().unwrap().clone();
    let blocks = std::iter::once(block(1, None)).chain(blocks.iter().cloned());
    let blocks = blocks.chain(std::iter::repeat(last)).take(1 + HORIZON_BLOCKS).collect();
    Recording { name: "r".into(), oldest_block: 1, percentiles: vec![10.0, 50.0], blocks }
}

fn score_one(recording: &Recording, tip: Option<u128>, base_fee: Option<u128>) -> Score {
    let evaluator = Evaluator {
        recording,
        landing_column: recording.reward_column(LANDING_PERCENTILE),
        realised_column: recording.reward_column(REALISED_PERCENTILE),
        heads: 0..=0,
        is_short: false,
        shows_next_base_fee: true,
    };
    let mut tally = ScoreTally::default();
    evaluator.evaluate(EstimatorQuote { tip, base_fee }, 0, &mut tally);
    tally.score("q".into())
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
fn some_share(hits: u32, total: u32) -> Option<Share> {
    Some(Share { hits, total })
}

#[test]
fn quote_is_included_if_it_pays_the_base_fee_and_the_landing_tip() {
    let recording = recording_after_head(&[block(100, Some([5, 9]))]);
    let included_and_overpaid = |tip, base_fee| {
        let score = score_one(&recording, Some(tip), Some(base_fee));
        (score.included_next.unwrap().hits, score.overpaid_p50)
    };
    assert_eq!(included_and_overpaid(5, 100), (1, Some(0)));
    assert_eq!(included_and_overpaid(4, 200), (0, None));
    // The max fee of 109 leaves 9 for the tip, which is 4 above the landing tip.
    assert_eq!(included_and_overpaid(10, 99), (1, Some(4)));
    assert_eq!(included_and_overpaid(10, 95), (1, Some(0)));
    assert_eq!(included_and_overpaid(10, 94), (0, None));
    assert_eq!(included_and_overpaid(10, 89), (0, None));
    assert_eq!(included_and_overpaid(12, 500), (1, Some(7)));
}

#[test]
fn a_block_without_an_ask_says_nothing() {
    let mut empty = block(100, Some([0, 0]));
    empty.gas_used_ratio = Some(0.0);
    let recording = recording_after_head(&[empty.clone()]);
    let score = score_one(&recording, Some(0), Some(100));
    assert_eq!((score.included_next, score.included_soon, score.overpaid_p50), (None, None, None));
    assert_eq!((score.tip_gap_p50, score.tip_covered), (None, None));
    // Its transactions paid its producer directly.
    empty.gas_used_ratio = Some(0.5);
    let blocks = [empty, block(100, Some([5, 9]))];
    let score = score_one(&recording_after_head(&blocks), Some(3), Some(100));
    assert_eq!((score.included_next, score.included_soon), (None, some_share(0, 1)));
}

#[test]
fn included_soon_covers_exactly_five_blocks() {
    let high = block(100, Some([5, 5]));
    let low = block(10, Some([5, 5]));
    let included_soon = |blocks: &[RecordedBlock]| {
        score_one(&recording_after_head(blocks), Some(5), Some(20)).included_soon
    };
    let run =
        |count, then: &RecordedBlock| [vec![high.clone(); count], vec![then.clone()]].concat();
    assert_eq!(included_soon(&run(4, &low)), some_share(1, 1));
    assert_eq!(included_soon(&run(5, &low)), some_share(0, 1));
    // One unknown block makes the result unknown, unless another block includes the quote.
    let unknown = block(10, None);
    assert_eq!(included_soon(&[high.clone(), unknown.clone(), high.clone()]), None);
    assert_eq!(included_soon(&[high.clone(), unknown, low]), some_share(1, 1));
}

#[test]
fn unrecorded_rewards_are_excluded_rather_than_counted_as_zero() {
    let score = score_one(&recording_after_head(&[block(100, None)]), Some(5), Some(200));
    assert_eq!((score.included_next, score.included_soon), (None, None));
    assert_eq!((score.tip_gap_p50, score.tip_covered, score.overpaid_p50), (None, None, None));
    assert_eq!((score.covers_soon, score.max_fee_permille), (some_share(1, 1), Some(2050)));
    // Without rewards the inclusion is unknown, even if the max fee is below the base fee.
    let low = score_one(&recording_after_head(&[block(100, None)]), Some(5), Some(20));
    assert_eq!(low.included_next, None);
}

#[test]
fn max_fee_covers_an_equal_base_fee_after_5_and_25_blocks() {
    let mut recording = recording_after_head(&[block(50, Some([1, 1]))]);
    recording.blocks[5].base_fee = 110;
    recording.blocks[25].base_fee = 120;
    let covers = |max_fee: u128| {
        let score = score_one(&recording, Some(10), Some(max_fee - 10));
        [score.covers_soon, score.covers_horizon].map(|share| share.unwrap().hits)
    };
    assert_eq!(covers(109), [0, 0]);
    assert_eq!(covers(110), [1, 0]);
    assert_eq!(covers(119), [1, 0]);
    assert_eq!(covers(120), [1, 1]);
    // Only the 5th and the 25th block matter.
    recording.blocks[24].base_fee = 500;
    let score = score_one(&recording, Some(10), Some(110));
    assert_eq!(score.covers_horizon, some_share(1, 1));
}

#[test]
fn tip_is_compared_with_the_realised_median() {
    let recording = recording_after_head(&[block(100, Some([5, 9]))]);
    let gap_and_coverage = |tip| {
        let score = score_one(&recording, Some(tip), Some(500));
        (score.tip_gap_p50, score.tip_gap_p99, score.tip_covered.unwrap().hits)
    };
    assert_eq!(gap_and_coverage(9), (Some(0), Some(0), 1));
    assert_eq!(gap_and_coverage(8), (Some(1), Some(1), 0));
    assert_eq!(gap_and_coverage(20), (Some(11), Some(11), 1));
}

#[test]
fn quote_without_max_fee_is_scored_by_its_tip_alone() {
    let score = score_one(&recording_after_head(&[block(100, Some([5, 9]))]), Some(9), None);
    assert_eq!((score.tip_gap_p50, score.tip_covered), (Some(0), some_share(1, 1)));
    assert_eq!(
        (score.included_next, score.covers_soon, score.max_fee_permille),
        (None, None, None)
    );
}

#[test]
fn recording_without_tips_scores_the_max_fee_alone() {
    let without_tips =
        Recording { percentiles: Vec::new(), ..recording_after_head(&[block(100, None)]) };
    let score = score_one(&without_tips, None, Some(250));
    assert_eq!((score.covers_soon, score.max_fee_permille), (some_share(1, 1), Some(2500)));
    assert_eq!((score.included_next, score.tip_covered), (None, None));
}

#[test]
fn every_estimator_is_scored_at_the_same_heads() {
    let all = estimators::all_estimators(&Pricing::default());
    let heads_for = |count| {
        let blocks = vec![block(100, Some([1, 2])); count];
        let percentiles = vec![10.0, 50.0];
        let recording = Recording { name: "r".into(), oldest_block: 1, percentiles, blocks };
        Evaluator::new(&recording, &all, 10.0).map(|judge| (judge.heads, judge.is_short))
    };
    assert_eq!(heads_for(0).unwrap_err(), RecordingTooShort { found: 0, needed: 75 });
    assert_eq!(heads_for(74).unwrap_err(), RecordingTooShort { found: 74, needed: 75 });
    assert_eq!(heads_for(75).unwrap(), (49..=49, true));
    assert_eq!(heads_for(424).unwrap(), (49..=398, true));
    assert_eq!(heads_for(425).unwrap(), (399..=399, false));
    assert_eq!(heads_for(450).unwrap(), (399..=424, false));
}

#[test]
fn full_blocks_are_counted_from_a_gas_used_ratio_of_0_9() {
    let full_blocks_hit = |ratio, tip| {
        let mut next = block(100, Some([5, 9]));
        next.gas_used_ratio = ratio;
        score_one(&recording_after_head(&[next]), Some(tip), Some(200)).full_blocks_hit
    };
    assert_eq!(full_blocks_hit(Some(0.9), 5), some_share(1, 1));
    assert_eq!(full_blocks_hit(Some(1.0), 4), some_share(0, 1));
    assert_eq!(full_blocks_hit(Some(0.899), 5), None);
    assert_eq!(full_blocks_hit(None, 5), None);
}

#[test]
fn price_over_fair_includes_the_base_fee() {
    let recording = recording_after_head(&[block(100, Some([5, 9]))]);
    let ratio = |tip| score_one(&recording, Some(tip), Some(500)).price_over_fair_p50;
    assert_eq!(ratio(4), None);
    assert_eq!(ratio(5), Some(1000));
    // 106 / 105, rounded down.
    assert_eq!(ratio(6), Some(1009));
    assert_eq!(ratio(110), Some(2000));
}

#[test]
fn pinball_loss_weighs_missing_and_surplus_tips_by_the_target() {
    let recording = recording_after_head(&[block(100, Some([1000, 2000]))]);
    let loss = |tip| score_one(&recording, Some(tip), None).pinball_loss;
    assert_eq!([loss(0), loss(1000), loss(1100)], [Some(950), Some(0), Some(5)]);
    let average = |target, tips: &[u128]| {
        let mut tally = ScoreTally { target, ..ScoreTally::default() };
        for tip in tips {
            tally.record_pinball_loss(*tip, 1000);
        }
        tally.pinball_loss()
    };
    // (990 + 10 × 0.01) / 3, rounded down once.
    let target = Target::new(0.99).unwrap();
    assert_eq!(average(target, &[0, 1000, 1010]), Some(330));
    assert_eq!((average(target, &[]), average(target, &[0, u128::MAX])), (None, None));
}

#[test]
fn short_recordings_are_replayed_with_a_note() {
    let all = estimators::all_estimators(&Pricing::default());
    let notes_for = |count: usize| {
        let blocks = vec![block(100, Some([1, 2])); count];
        let percentiles = vec![10.0, 60.0];
        let recording = Recording { name: "r".into(), oldest_block: 1, percentiles, blocks };
        crate::extras::backtest::Report::new(&recording, &all, 10.0, None, || {}).unwrap().notes
    };
    let note = "calibrated without floors, high: quotes from fewer than 400 blocks at first, because the recording is short.";
    assert!(notes_for(424).iter().any(|found| found == note));
    assert!(!notes_for(425).iter().any(|found| found.contains("short")));
}

#[test]
fn next_base_fee_is_hidden_where_it_does_not_follow_from_the_head() {
    let all = estimators::all_estimators(&Pricing::default());
    let estimator = |name: &str| all.iter().find(|one| one.name == name).unwrap();
    // The base fee jumps to and fro, whatever the fullness of the blocks.
    let blocks = (0..500).map(|n| block(if n % 3 == 0 { 400 } else { 100 }, Some([1, 2])));
    let recording = Recording {
        name: "r".into(),
        oldest_block: 1,
        percentiles: vec![10.0, 60.0],
        blocks: blocks.collect(),
    };
    let evaluator = Evaluator::new(&recording, &all, 10.0).unwrap();
    assert!(!evaluator.shows_next_base_fee());
    // 1.4 times the newest base fee, of which a third are 400 before 100 and a third 100 before 400.
    let score = evaluator.score(estimator("Chainlink FeeHistory p60"));
    assert_eq!(score.max_fee_permille, Some(1420));
    assert_eq!(score.included_next.map(|share| (share.hits, share.total)), Some((51, 76)));
    let notes =
        crate::extras::backtest::Report::new(&recording, &all, 10.0, None, || {}).unwrap().notes;
    assert!(
        notes[0].starts_with("Base fees do not follow from the blocks before them"),
        "{notes:?}"
    );
}
