//! Property tests over generated node responses and fee histories.

use std::time::Duration;

use gas_suggestion::fees::Pricing;
use gas_suggestion::fees::{
    self, BaseFeeStep, Block, ChainParameters, FeeHistory, PricingError, PricingType, Rewards,
    SinglePrices,
};
use gas_suggestion::nodes::FeeHistoryRequest;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::{fixtures, hostile_replies};

#[test]
fn no_generated_response_leads_to_a_wrong_suggestion() {
    let tally = hostile_replies::run(20_000, 1);
    // The sample is large enough to cover every outcome.
    let outcomes: Vec<_> = tally.keys().copied().collect();
    let expected = "above_maximum amount_too_large bad_base_fee bad_lengths bad_oldest_block base_fee_leap confirmed \
                    head_ahead head_behind history_rewritten invalid_reply known no_base_fees no_rewards node_error \
                    not_a_fee_history not_json overflow published rate_limited unsupported";
    assert_eq!(outcomes.join(" "), expected);
}

/// Generates amounts from realistic to absurd.
fn amount() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0),
        Just(1),
        0..1_000_000_000_000_u128,
        0..10_u128.pow(24),
        any::<u128>(),
        Just(u128::MAX),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    let rewards = [amount(), amount()].prop_map(|columns| Rewards::new(&columns));
    (amount(), proptest::option::of(0.0..=1.0), proptest::option::of(rewards))
        .prop_map(|(base_fee, gas_used_ratio, rewards)| Block { base_fee, gas_used_ratio, rewards })
}

fn history() -> impl Strategy<Value = FeeHistory> {
    let blocks = proptest::collection::vec(block(), 1..40);
    (any::<u32>(), blocks, proptest::option::of(amount()))
        .prop_map(|(oldest, blocks, next)| FeeHistory::new(oldest.into(), blocks, next).unwrap())
}

fn pricing() -> impl Strategy<Value = Pricing> {
    let choices = [
        "",
        fixtures::NETWORK_FLOORS,
        "reward_percentiles = [60, 100]",
        "reward_percentiles = [60, 100]\nbase_fee_floor = \"1 gwei\"\npriority_fee_floor = \"20 gwei\"",
        "zero_base_fee = \"eip-1559\"\nhigh_multiplier = 1.000001\nbase_fee_multiplier = 1000",
        "priority_fee_floor = \"340282366920938463463374607431768211455 wei\"\n\
         max_priority_fee = \"340282366920938463463374607431768211455 wei\"",
    ];
    proptest::sample::select(choices.map(|text| fixtures::priced(text).pricing).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn price_satisfies_every_rule_or_is_rejected(history in history(), pricing in pricing()) {
        match fees::price(&history, &[], &pricing, &ChainParameters::without_header(&pricing)) {
            Ok(market) => {
                let suggestion = market.suggestion;
                for tier in suggestion.tiers.into_array() {
                    let sum = suggestion.base_fee_per_gas.checked_add(tier.max_priority_fee_per_gas);
                    prop_assert_eq!(Some(tier.max_fee_per_gas), sum);
                    prop_assert!(tier.max_priority_fee_per_gas >= pricing.priority_fee_floor.max(1));
                }
                let tips = suggestion.tiers.map(|tier| tier.max_priority_fee_per_gas);
                prop_assert!(tips.into_array().is_sorted());
                match suggestion.pricing_type {
                    PricingType::Legacy => prop_assert_eq!(suggestion.base_fee_per_gas, 0),
                    PricingType::Eip1559 => {
                        prop_assert!(suggestion.base_fee_per_gas >= pricing.base_fee_floor);
                    }
                }
                let covered = market.covers_full_blocks;
                prop_assert!(covered.medium <= covered.high);
                prop_assert!(covered.high.is_none_or(|blocks| blocks <= 100));
                let steps: Vec<_> = history.blocks().iter().map(|block| BaseFeeStep::from_base_fee(block.base_fee)).collect();
                let prices = SinglePrices::new(&market, &steps, Duration::from_secs(12));
                prop_assert!(prices.tiers.into_array().is_sorted());
                prop_assert!(prices.tiers.medium >= market.expected_price());
            }
            Err(PricingError::NoRewards) => {
                prop_assert!(history.blocks().iter().all(|block| block.rewards.is_none()));
                prop_assert_eq!(pricing.priority_fee_floor, 1);
            }
            Err(error) => {
                let max_amount = history.blocks().iter().flat_map(|block| {
                    let rewards = block.rewards.into_iter();
                    rewards.flat_map(|rewards| rewards.columns()).chain([block.base_fee])
                });
                let max_amount = max_amount.chain(history.next_base_fee()).chain([pricing.priority_fee_floor]).max();
                let max_amount = max_amount.unwrap();
                // Below these limits, a sum over 40 blocks times a multiplier of 1000 stays within them.
                let limit = match error {
                    PricingError::AboveMaximum => pricing.max_base_fee.min(pricing.max_priority_fee) / 1000,
                    _ => u128::MAX / 2_u128.pow(40),
                };
                prop_assert!(max_amount > limit, "no amount is near the limit");
            }
        }
    }
}

/// Generates mostly valid hex quantities, and sometimes other values.
fn quantity() -> impl Strategy<Value = Value> {
    prop_oneof![
        20 => amount().prop_map(|amount| json!(format!("{amount:#x}"))),
        2 => any::<u64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => "[-0x9a-f\"]{0,40}".prop_map(Value::from),
        1 => proptest::sample::select(vec![Value::Null, json!({}), json!([]), json!("0x")]),
    ]
}

/// Generates mostly lists of `blocks` elements, and sometimes other lengths or null.
fn list_around(
    blocks: usize,
    element: impl Strategy<Value = Value> + Clone,
) -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => proptest::collection::vec(element.clone(), blocks).prop_map(Value::from),
        1 => proptest::collection::vec(element, 0..24).prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

/// Generates fee history results with occasional flaws.
fn flawed_result() -> impl Strategy<Value = Value> {
    (1_usize..24).prop_flat_map(|blocks| {
        let base_fee = amount().prop_map(|amount| json!(format!("{amount:#x}"))).boxed();
        let base_fees = prop_oneof![
            8 => list_around(blocks + 1, base_fee),
            1 => list_around(blocks, quantity().boxed()),
        ];
        let ratio = prop_oneof![4 => (0.0..1.2).prop_map(Value::from), 1 => quantity()].boxed();
        let row = proptest::collection::vec(quantity(), 0..4).prop_map(Value::from);
        let row = prop_oneof![8 => row, 1 => quantity()].boxed();
        (quantity(), base_fees, list_around(blocks, ratio), list_around(blocks, row)).prop_map(
            |(oldest_block, base_fees, ratios, rewards)| {
                json!({
                    "oldestBlock": oldest_block, "baseFeePerGas": base_fees,
                    "gasUsedRatio": ratios, "reward": rewards,
                })
            },
        )
    })
}

/// Generates arbitrary JSON.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let names = ["oldestBlock", "baseFeePerGas", "gasUsedRatio", "reward", "surprise"];
    let name = proptest::sample::select(names.to_vec()).prop_map(String::from);
    quantity().prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Parses `result`; returns true if it is accepted. An accepted window must be consistent, and pricing it must
/// not panic.
fn check_result(result: &Value, pricing: &Pricing) -> Result<bool, TestCaseError> {
    let raw = serde_json::value::to_raw_value(result).unwrap();
    let Ok(history) = FeeHistoryRequest::new(pricing).parse(&raw) else { return Ok(false) };
    let blocks = history.blocks().len();
    prop_assert!((1..=pricing.window_blocks.get()).contains(&blocks));
    prop_assert_eq!(history.newest_block() - history.oldest_block() + 1, blocks as u64);
    for ratio in history.blocks().iter().filter_map(|block| block.gas_used_ratio) {
        prop_assert!((0.0..=1.0).contains(&ratio));
    }
    let _ = fees::price(&history, &[], pricing, &ChainParameters::without_header(pricing));
    Ok(true)
}

#[test]
fn flawed_result_is_parsed_within_the_window_or_rejected() {
    let (mut parsed, mut rejected) = (0, 0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(1024));
    let counts = std::cell::RefCell::new((&mut parsed, &mut rejected));
    runner
        .run(&(flawed_result(), pricing()), |(result, pricing)| {
            let mut counts = counts.borrow_mut();
            if check_result(&result, &pricing)? {
                *counts.0 += 1;
            } else {
                *counts.1 += 1;
            }
            Ok(())
        })
        .unwrap();
    // The sample covers both outcomes.
    assert!(parsed > 200 && rejected > 200, "{parsed} parsed, {rejected} rejected");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_json_never_panics(result in arbitrary_json(), pricing in pricing()) {
        check_result(&result, &pricing)?;
    }
}
