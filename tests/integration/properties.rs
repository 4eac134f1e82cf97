//! What holds for every reply that a node could send.

use gas_suggestion::config::Pricing;
use gas_suggestion::fees::{self, Block, FeeHistory, PricingType, Rejection, Rewards};
use gas_suggestion::rpc::FeeHistoryRequest;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::fixtures;

/// Amounts from real to absurd.
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
    let rewards = (amount(), proptest::option::of(amount()))
        .prop_map(|(medium, high)| Rewards { medium, high });
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
        fixtures::NO_FLOORS,
        "reward_percentiles = [60, 100]",
        "reward_percentiles = [60, 100]\nbase_fee_floor = \"0 wei\"\npriority_fee_floor = \"0 wei\"",
        "zero_base_fee = \"eip-1559\"\nhigh_multiplier = 1.000001\nbase_fee_multiplier = 1000",
        "priority_fee_floor = \"340282366920938463463374607431768211455 wei\"",
    ];
    proptest::sample::select(choices.map(|text| fixtures::priced(text).pricing).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_price_keeps_every_rule_or_is_refused(history in history(), pricing in pricing()) {
        match fees::price(&history, &pricing) {
            Ok(market) => {
                let suggestion = market.suggestion;
                for tier in [suggestion.medium, suggestion.high] {
                    let sum = suggestion.base_fee_per_gas.checked_add(tier.max_priority_fee_per_gas);
                    prop_assert_eq!(Some(tier.max_fee_per_gas), sum);
                    prop_assert!(tier.max_priority_fee_per_gas >= pricing.priority_fee_floor);
                }
                let (medium, high) = (suggestion.medium, suggestion.high);
                prop_assert!(high.max_priority_fee_per_gas >= medium.max_priority_fee_per_gas);
                match suggestion.pricing_type {
                    PricingType::Legacy => prop_assert_eq!(suggestion.base_fee_per_gas, 0),
                    PricingType::Eip1559 => {
                        prop_assert!(suggestion.base_fee_per_gas >= pricing.base_fee_floor);
                    }
                }
                if history.blocks().iter().all(|block| block.rewards.is_none()) {
                    prop_assert!(medium.max_priority_fee_per_gas > 0, "a tip of 0 from absence");
                }
                let covered = market.covers_full_blocks;
                prop_assert!(covered.medium <= covered.high && covered.high <= 100);
            }
            Err(Rejection::NoRewards) => {
                prop_assert!(history.blocks().iter().all(|block| block.rewards.is_none()));
                prop_assert_eq!(pricing.priority_fee_floor, 0);
            }
            Err(Rejection::Overflow) => {
                let most = history.blocks().iter().flat_map(|block| {
                    let rewards = block.rewards.into_iter();
                    rewards.flat_map(|rewards| [Some(rewards.medium), rewards.high]).flatten().chain([block.base_fee])
                });
                let most = most.chain(history.next_base_fee()).chain([pricing.priority_fee_floor]).max();
                // 40 blocks times a multiplier of 1000 have room below this.
                prop_assert!(most.unwrap() > u128::MAX / 2_u128.pow(40), "no amount is near the limit");
            }
        }
    }
}

/// A result of the right form with anything in its places.
fn odd_result() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        amount().prop_map(|amount| json!(format!("{amount:#x}"))),
        any::<u64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        "[-0x9a-f\"]{0,40}".prop_map(Value::from),
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
    ];
    let list = proptest::collection::vec(leaf.clone(), 0..24);
    let lists = proptest::collection::vec(list.clone().prop_map(Value::from), 0..24);
    let member = prop_oneof![leaf, list.prop_map(Value::from), lists.prop_map(Value::from)];
    let names = ["oldestBlock", "baseFeePerGas", "gasUsedRatio", "reward", "surprise"];
    proptest::collection::hash_map(proptest::sample::select(names.to_vec()), member, 0..5)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_result_is_read_within_the_window_or_refused(result in odd_result(), pricing in pricing()) {
        let raw = serde_json::value::to_raw_value(&result).unwrap();
        if let Ok(history) = FeeHistoryRequest::new(&pricing).read(&raw) {
            let blocks = history.blocks().len();
            prop_assert!((1..=pricing.window_blocks.get()).contains(&blocks));
            prop_assert_eq!(history.newest_block() - history.oldest_block() + 1, blocks as u64);
            let _ = fees::price(&history, &pricing);
        }
    }

    #[test]
    fn any_json_text_is_no_reason_to_panic(text in any::<String>(), pricing in pricing()) {
        if let Ok(raw) = RawValue::from_string(text) {
            let _ = FeeHistoryRequest::new(&pricing).read(&raw);
        }
    }
}
