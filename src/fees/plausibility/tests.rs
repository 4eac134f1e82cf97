use std::num::NonZeroU64;

use super::*;
use crate::fees::BaseFeeRule;
use crate::fees::tests::{GWEI, history_of};

/// History from block `oldest` on with these base fees, the last of which is that of the next block.
fn history(oldest: u64, base_fees: &[u128]) -> FeeHistory {
    let (next, mined) = base_fees.split_last().unwrap();
    let mut history = history_of(oldest, mined, None);
    history.next_base_fee = Some(*next);
    history
}

/// History from block `oldest` on with these rewards.
fn with_rewards(oldest: u64, rewards: &[u128]) -> FeeHistory {
    let block = |reward: &u128| {
        let rewards = Some([*reward, 0]);
        Block { base_fee: 7, gas_used_ratio: None, rewards }
    };
    FeeHistory::new(oldest, rewards.iter().map(block).collect(), Some(7)).unwrap()
}

/// Suspicions on a chain whose rule is the configured one.
fn suspicious_after(
    history: &FeeHistory,
    earlier: Option<&FeeHistory>,
    pricing: &Pricing,
) -> Option<SuspiciousReply> {
    suspicious_amounts(history, earlier, pricing, &ChainParameters::from_pricing(pricing))
}

fn past_of_rule(history: &FeeHistory, known: (u64, u128), pricing: &Pricing) -> bool {
    is_plausible_past(history, known, pricing, &ChainParameters::from_pricing(pricing))
}

fn is_leap(base_fees: &[u128], denominator: Option<u64>) -> bool {
    let pricing = Pricing {
        base_fee_change_denominator: denominator.and_then(NonZeroU64::new),
        ..Pricing::default()
    };
    suspicious_after(&history(1, base_fees), None, &pricing) == Some(SuspiciousReply::BaseFeeLeap)
}

#[test]
fn base_fee_that_the_rule_cannot_reach_is_suspicious() {
    let gwei = |amounts: [u128; 4]| amounts.map(|amount| amount * GWEI);
    for denominator in [None, Some(8), Some(250)] {
        assert!(!is_leap(&gwei([100, 101, 102, 103]), denominator));
        for factor in [10, 1_000_000, 1 << 68] {
            let high = 100 * factor;
            assert!(is_leap(&gwei([100, high, 100, 100]), denominator), "one block {factor}");
            assert!(is_leap(&gwei([100, 100, 100, high]), denominator), "next {factor}");
        }
        assert!(is_leap(&gwei([100, 100, 100, 0]), denominator), "to zero");
        // The activation of EIP-1559.
        assert!(!is_leap(&gwei([0, 0, 100, 100]), denominator), "from zero");
        assert!(!is_leap(&gwei([0, 0, 0, 100]), denominator), "from zero to the next");
        assert!(!is_leap(&[7, 0, 100 * GWEI, 100 * GWEI], denominator), "from zero again");
        assert!(!is_leap(&[7, 0, 1000, 3], denominator), "rounding");
        assert!(!is_leap(&[u128::MAX; 4], denominator));
        // A full and an empty block on Ethereum; of an OP Stack chain with elasticity 6.
        assert_eq!(is_leap(&gwei([800, 900, 788, 700]), denominator), denominator == Some(250));
        assert!(!is_leap(&gwei([1000, 1020, 1040, 1060]), denominator));
    }
}

#[test]
fn check_can_be_switched_off() {
    let pricing = Pricing { check_base_fees: false, ..Pricing::default() };
    assert_eq!(suspicious_after(&history(1, &[1, u128::MAX, 0]), None, &pricing), None);
}

#[test]
fn known_blocks_with_other_base_fees_are_a_rewritten_history() {
    let known = history(100, &[10, 11, 12, 13, 14, 15]);
    for (later, expected) in [
        (history(101, &[11, 12, 13, 14, 15, 16]), Continuity::Same),
        // A reorg of the last block, and of most.
        (history(101, &[11, 12, 13, 99, 15, 16]), Continuity::Same),
        (history(101, &[11, 12, 97, 98, 99, 16]), Continuity::Changed),
        (history(101, &[110, 120, 130, 140, 150, 160]), Continuity::Rewritten),
        // Too few common blocks to tell.
        (history(103, &[130, 140, 150, 160]), Continuity::Changed),
        (history(1000, &[15, 16]), Continuity::Changed),
        (history(10, &[15, 16]), Continuity::Changed),
        (history(98, &[8, 9, 10, 11, 12, 13, 14, 15, 16]), Continuity::Same),
    ] {
        assert_eq!(compare(&later, &known), expected, "{later:?}");
    }
}

#[test]
fn a_newest_reward_far_from_the_known_ones_is_noticed() {
    let gwei = |amounts: [u128; 6]| amounts.map(|amount| amount * GWEI);
    let known = with_rewards(100, &gwei([20, 25, 30, 20, 25, 30]));
    for (newest, expected) in [
        (45, Continuity::Same),
        (46, Continuity::OtherRewards),
        (14, Continuity::Same),
        (13, Continuity::OtherRewards),
        (0, Continuity::OtherRewards),
    ] {
        let later = with_rewards(101, &gwei([25, 30, 20, 25, 30, newest]));
        assert_eq!(compare(&later, &known), expected, "{newest}");
    }
    let most_differ = with_rewards(101, &gwei([2, 3, 2, 2, 30, 30]));
    assert_eq!(compare(&most_differ, &known), Continuity::OtherRewards);
}

#[test]
fn known_blocks_with_impossible_base_fees_are_suspicious() {
    let pricing = Pricing::default();
    let gwei = |factor: u128| [10, 11, 12, 13, 14, 15].map(|amount| amount * factor * GWEI);
    let suspicious = |now: [u128; 6]| {
        suspicious_after(&history(100, &now), Some(&history(100, &gwei(1))), &pricing)
    };
    assert_eq!(suspicious(gwei(1)), None);
    // A reorg of all blocks.
    assert_eq!(suspicious(gwei(2)), None);
    assert_eq!(suspicious(gwei(10)), Some(SuspiciousReply::Rewritten));
    assert_eq!(suspicious(gwei(0)), Some(SuspiciousReply::Rewritten));
}

#[test]
fn old_blocks_that_cannot_precede_known_ones_are_implausible() {
    let pricing = Pricing { base_fee_change_denominator: NonZeroU64::new(8), ..Pricing::default() };
    let gwei = |amounts: &[u128]| -> Vec<u128> { amounts.iter().map(|it| it * GWEI).collect() };
    let known = |number: u64, base_fee: u128| (number, base_fee * GWEI);
    // More blocks than a window.
    let long = |old: u128| [vec![old; 30], vec![30; 30]].concat();
    for (base_fees, known, expected) in [
        (vec![30; 60], known(158, 30), true),
        (vec![30; 60], known(158, 32), true),
        // The blocks before the window of a poll count too.
        (long(30_000), known(158, 30), false),
        (long(0), known(158, 30), false),
        (long(80), known(158, 30), true),
        // All blocks are wrong alike.
        (vec![30_000; 60], known(158, 30), false),
        (vec![30; 60], known(103, 300), false),
        // Blocks that the history does not have.
        (vec![30; 60], known(99, 1), true),
        (vec![30; 60], known(u64::MAX, 1), true),
    ] {
        let past = history(100, &gwei(&base_fees));
        assert_eq!(past_of_rule(&past, known, &pricing), expected, "{base_fees:?} {known:?}");
        let unchecked = Pricing { check_base_fees: false, ..pricing };
        assert!(past_of_rule(&past, known, &unchecked));
    }
}

#[test]
fn old_blocks_above_the_highest_base_fee_are_implausible() {
    for check_base_fees in [true, false] {
        let pricing = Pricing { check_base_fees, max_base_fee: 20, ..Pricing::default() };
        let known = (40, 20);
        assert!(past_of_rule(&history(1, &[20; 40]), known, &pricing));
        assert!(!past_of_rule(&history(1, &[&[21][..], &[20; 40]].concat()), known, &pricing));
    }
}

#[test]
fn histories_agree_about_the_blocks_that_both_have() {
    let with_rewards =
        |oldest, base_fees: &[u128], reward| history_of(oldest, base_fees, Some([reward, 0]));
    let one = with_rewards(100, &[10, 12, 16], 20);
    for (other, expected) in [
        (with_rewards(100, &[10, 12, 16], 20), Some(true)),
        // A node that is behind, and one that has newer blocks.
        (with_rewards(98, &[7, 8, 10], 20), Some(true)),
        (with_rewards(102, &[16, 90], 20), Some(true)),
        (with_rewards(103, &[90], 20), None),
        (with_rewards(100, &[10, 12, 20], 20), Some(true)),
        (with_rewards(100, &[10, 12, 22], 20), Some(false)),
        (with_rewards(100, &[10, 12, 11], 20), Some(false)),
        (with_rewards(100, &[10, 12, 16], 40), Some(true)),
        (with_rewards(100, &[10, 12, 16], 41), Some(false)),
        (with_rewards(100, &[10, 12, 16], 0), Some(false)),
        // A node without rewards says nothing about them.
        (history(100, &[10, 12, 16]), Some(true)),
    ] {
        assert_eq!(agree(&one, &other, [0, 0]), expected, "{other:?}");
        assert_eq!(agree(&other, &one, [0, 0]), expected, "{other:?}");
    }
}

#[test]
fn a_reading_that_cannot_be_right_is_implausible() {
    let pricing = Pricing { max_base_fee: 1000, max_priority_fee: 100, ..Pricing::default() };
    let with_rewards = |base_fees: [u128; 3], rewards| history_of(100, &base_fees, Some(rewards));
    let plausible = |reading: &FeeHistory, polled: &FeeHistory, pricing: &Pricing| {
        plausible_reading(reading, polled, pricing, &ChainParameters::from_pricing(pricing))
    };
    let (polled, elsewhere) = (with_rewards([10, 12, 16], [20, 0]), history(500, &[10, 10]));
    for (known, base_fees, rewards, expected) in [
        (&polled, [10, 12, 16], [5, 20], true),
        (&polled, [10, 12, 20], [20, 20], true),
        (&polled, [10, 12, 22], [5, 20], false),
        (&polled, [10, 12, 16], [5, 40], true),
        (&polled, [10, 12, 16], [5, 41], false),
        // Blocks that polls do not have.
        (&elsewhere, [10, 12, 16], [5, 100], true),
        (&elsewhere, [10, 12, 1000], [5, 20], true),
        (&elsewhere, [10, 12, 1001], [5, 20], false),
    ] {
        let reading = with_rewards(base_fees, rewards);
        let found = plausible(&reading, known, &pricing);
        assert_eq!(found.is_some(), expected, "{reading:?}");
        assert!(found.is_none_or(|found| found == reading));
    }
    // The rows alone are left out: a higher reward at the lower percentile, and one above the maximum.
    for rewards in [[21, 20], [5, 101]] {
        let found = plausible(&with_rewards([10, 12, 16], rewards), &elsewhere, &pricing);
        assert!(found.unwrap().blocks().iter().all(|block| block.rewards.is_none()), "{rewards:?}");
    }
    let most = u128::MAX;
    let wide = Pricing { max_priority_fee: most, max_base_fee: most, ..pricing };
    let mut dear = with_rewards([10, 12, 16], [5, 20]).blocks().to_vec();
    dear.insert(0, Block { rewards: Some([5, 20_001]), ..dear[0] });
    let dear = FeeHistory::new(99, dear, None).unwrap();
    let found = plausible(&dear, &polled, &wide).unwrap();
    let has_rewards: Vec<_> = found.blocks().iter().map(|block| block.rewards.is_some()).collect();
    assert_eq!(has_rewards, [false, true, true, true]);
    // An activation is no leap, and neither is what polls have accepted.
    let with_fees = |base_fees: [u128; 3]| with_rewards(base_fees, [5, 20]);
    let accepts =
        |base_fees, known: &FeeHistory| plausible(&with_fees(base_fees), known, &wide).is_some();
    let wide_fees = [1_000_000, 90_000_000, 90_000_000];
    assert!(!accepts(wide_fees, &with_rewards([1_000_000, 1_000_000, 1_000_000], [20, 0])));
    assert!(accepts(wide_fees, &with_rewards(wide_fees, [20, 0])));
    let peak = [1_000_000, 90_000_000, 1_000_000];
    assert!(!accepts(peak, &with_rewards([1_000_000; 3], [20, 0])));
    assert!(accepts([0, 90_000_000, 90_000_000], &elsewhere));
    // A node without rewards says nothing about them.
    assert!(plausible(&history(100, &[10, 12, 16, 16]), &polled, &pricing).is_some());
}

#[test]
fn rewards_a_thousand_times_the_median_are_counted() {
    for (rewards, expected) in [
        (vec![GWEI, GWEI, 2 * GWEI, 1000 * GWEI], 0),
        (vec![GWEI, GWEI, GWEI, 1001 * GWEI], 1),
        (vec![u128::MAX, GWEI, GWEI, GWEI, u128::MAX], 2),
        // Any reward may follow a median of 0.
        (vec![0, 0, 0, 1001], 0),
        (vec![0, 0, 0, u128::MAX], 0),
        (vec![u128::MAX; 3], 0),
    ] {
        let history = with_rewards(1, &rewards);
        let found = count_outlying_rewards(history.blocks(), &Pricing::default());
        assert_eq!(found, expected, "{rewards:?}");
    }
}

#[test]
fn a_rule_that_the_chain_tells_bounds_the_base_fees_of_every_reply() {
    let rule = BaseFeeRule::from_extra_data(&[0, 0, 0, 0, 250, 0, 0, 0, 6]);
    let pricing = Pricing { reward_percentiles: None, ..Pricing::default() };
    let unknown = ChainParameters::from_pricing(&pricing);
    let known = [(rule, None), (None, rule)]
        .map(|(stated, observed)| ChainParameters::new(&pricing, stated, observed));
    let leap = history(1, &[GWEI, GWEI, 5 * GWEI]);
    let (polled, end) = (history(2, &[GWEI, GWEI]), (2, GWEI));
    for (parameters, is_believed) in [(unknown, true), (known[0], false), (known[1], false)] {
        let suspicion = suspicious_amounts(&leap, None, &pricing, &parameters);
        assert_eq!(suspicion.is_none(), is_believed);
        assert_eq!(is_plausible_past(&leap, end, &pricing, &parameters), is_believed);
        let reading = plausible_reading(&leap, &polled, &pricing, &parameters);
        assert_eq!(reading.is_some(), is_believed);
    }
}
