use super::*;
use crate::backtest::estimators;
use crate::config::Pricing;

fn block(base_fee: u128, rewards: Option<[u128; 2]>) -> Block {
    Block { base_fee, gas_used_ratio: Some(0.5), rewards: rewards.map(|rewards| rewards.to_vec()) }
}

/// A recording with one head at its beginning, and these blocks after it; the rest of them are like the last.
fn after_head(blocks: &[Block]) -> Recording {
    let last = blocks.last().unwrap().clone();
    let blocks = std::iter::once(block(1, None)).chain(blocks.iter().cloned());
    let blocks = blocks.chain(std::iter::repeat(last)).take(1 + HORIZON).collect();
    Recording { name: "r".into(), oldest_block: 1, percentiles: vec![0.0, 50.0], blocks }
}

fn judged(recording: &Recording, tip: Option<u128>, base_fee: Option<u128>) -> Score {
    let judge = Judge {
        recording,
        landing: recording.column(LANDING_PERCENTILE),
        realised: recording.column(REALISED_PERCENTILE),
        heads: 0..=0,
    };
    let mut tally = Tally::default();
    judge.judge(Quote { tip, base_fee }, 0, &mut tally);
    tally.score("q".into())
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
fn share(hits: u32, of: u32) -> Option<Share> {
    Some(Share { hits, of })
}

#[test]
fn a_quote_is_included_when_it_pays_the_base_fee_and_what_landed() {
    let recording = after_head(&[block(100, Some([5, 9]))]);
    let of = |tip, base_fee| {
        let score = judged(&recording, Some(tip), Some(base_fee));
        (score.included_next.unwrap().hits, score.overpaid_p50)
    };
    assert_eq!(of(5, 100), (1, Some(0)));
    assert_eq!(of(4, 200), (0, None));
    // What is left of the max fee is less than the tip: 110 − 100.
    assert_eq!(of(10, 99), (1, Some(4)));
    assert_eq!(of(10, 95), (1, Some(0)));
    assert_eq!(of(10, 94), (0, None));
    assert_eq!(of(10, 89), (0, None));
    assert_eq!(of(12, 500), (1, Some(7)));
}

#[test]
fn in_a_block_without_transactions_any_tip_lands_and_none_is_realised() {
    let mut empty = block(100, Some([0, 0]));
    empty.gas_used_ratio = Some(0.0);
    let recording = after_head(&[empty.clone()]);
    let score = judged(&recording, Some(0), Some(100));
    assert_eq!((score.included_next, score.overpaid_p50), (share(1, 1), Some(0)));
    assert_eq!((score.tip_gap_p50, score.tip_covered), (None, None));
    // Even where the node gave no rewards for it.
    empty.rewards = None;
    let score = judged(&after_head(&[empty]), Some(3), Some(100));
    assert_eq!((score.included_next, score.overpaid_p50), (share(1, 1), Some(3)));
}

#[test]
fn one_of_five_blocks_is_soon_and_the_sixth_is_not() {
    let high = block(100, Some([5, 5]));
    let low = block(10, Some([5, 5]));
    let soon = |blocks: &[Block]| judged(&after_head(blocks), Some(5), Some(20)).included_soon;
    let run = |count, then: &Block| [vec![high.clone(); count], vec![then.clone()]].concat();
    assert_eq!(soon(&run(4, &low)), share(1, 1));
    assert_eq!(soon(&run(5, &low)), share(0, 1));
    // Not to know of one is not to know, unless another settles it.
    let unknown = block(10, None);
    assert_eq!(soon(&[high.clone(), unknown.clone(), high.clone()]), None);
    assert_eq!(soon(&[high.clone(), unknown, low]), share(1, 1));
}

#[test]
fn what_is_not_recorded_is_left_out_and_never_taken_for_nothing() {
    let score = judged(&after_head(&[block(100, None)]), Some(5), Some(200));
    assert_eq!((score.included_next, score.included_soon), (None, None));
    assert_eq!((score.tip_gap_p50, score.tip_covered, score.overpaid_p50), (None, None, None));
    assert_eq!((score.covers_soon, score.max_fee_permille), (share(1, 1), Some(2050)));
    // A max fee below the base fee is out whatever landed.
    let low = judged(&after_head(&[block(100, None)]), Some(5), Some(20));
    assert_eq!(low.included_next, None);
}

#[test]
fn a_max_fee_covers_a_base_fee_that_it_equals_after_five_and_twenty_five_blocks() {
    let mut recording = after_head(&[block(50, Some([1, 1]))]);
    recording.blocks[5].base_fee = 110;
    recording.blocks[25].base_fee = 120;
    let covers = |max_fee: u128| {
        let score = judged(&recording, Some(10), Some(max_fee - 10));
        [score.covers_soon, score.covers_horizon].map(|share| share.unwrap().hits)
    };
    assert_eq!(covers(109), [0, 0]);
    assert_eq!(covers(110), [1, 0]);
    assert_eq!(covers(119), [1, 0]);
    assert_eq!(covers(120), [1, 1]);
    // The blocks between do not matter.
    recording.blocks[24].base_fee = 500;
    let score = judged(&recording, Some(10), Some(110));
    assert_eq!(score.covers_horizon, share(1, 1));
}

#[test]
fn the_tip_is_held_against_the_realised_median() {
    let recording = after_head(&[block(100, Some([5, 9]))]);
    let of = |tip| {
        let score = judged(&recording, Some(tip), Some(500));
        (score.tip_gap_p50, score.tip_gap_p99, score.tip_covered.unwrap().hits)
    };
    assert_eq!(of(9), (Some(0), Some(0), 1));
    assert_eq!(of(8), (Some(1), Some(1), 0));
    assert_eq!(of(20), (Some(11), Some(11), 1));
}

#[test]
fn a_quote_without_a_max_fee_is_judged_by_its_tip_alone() {
    let score = judged(&after_head(&[block(100, Some([5, 9]))]), Some(9), None);
    assert_eq!((score.tip_gap_p50, score.tip_covered), (Some(0), share(1, 1)));
    assert_eq!(
        (score.included_next, score.covers_soon, score.max_fee_permille),
        (None, None, None)
    );
}

#[test]
fn without_tips_the_max_fee_is_judged_without_one() {
    let bare = Recording { percentiles: Vec::new(), ..after_head(&[block(100, None)]) };
    let score = judged(&bare, None, Some(250));
    assert_eq!((score.covers_soon, score.max_fee_permille), (share(1, 1), Some(2500)));
    assert_eq!((score.included_next, score.tip_covered), (None, None));
}

#[test]
fn a_rank_is_the_smallest_amount_that_so_many_percent_are_not_above() {
    let hundred: Vec<u128> = (1..=100).collect();
    assert_eq!([50, 95, 99].map(|percent| ranked(&hundred, percent).unwrap()), [50, 95, 99]);
    assert_eq!([50, 95, 99].map(|percent| ranked(&[1, 2, 3], percent).unwrap()), [2, 3, 3]);
    assert_eq!(ranked(&[7], 1), Some(7));
    assert_eq!(ranked(&[], 50), None);
}

#[test]
fn every_estimator_is_judged_at_the_same_heads() {
    let all = estimators::all(&Pricing::default());
    let of = |count| {
        let blocks = vec![block(100, Some([1, 2])); count];
        let percentiles = vec![0.0, 50.0];
        let recording = Recording { name: "r".into(), oldest_block: 1, percentiles, blocks };
        Judge::new(&recording, &all, 0.0).map(|judge| judge.heads)
    };
    assert_eq!(of(74).unwrap_err(), TooShort { found: 74, needed: 75 });
    assert_eq!(of(75).unwrap(), 49..=49);
    assert_eq!(of(100).unwrap(), 49..=74);
    assert_eq!(of(0).unwrap_err(), TooShort { found: 0, needed: 75 });
}
