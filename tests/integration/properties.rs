//! Property tests over generated node responses and fee histories.

use std::cell::Cell;

use gas_suggestion::fees::Pricing;
use gas_suggestion::fees::{self, ChainParameters, FeeHistory, PricingError};
use gas_suggestion::nodes::FeeHistoryRequest;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::{fixtures, hostile_replies, targets};

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

/// Checks the price of a history, or the reason for its absence.
fn check_price(history: &FeeHistory, pricing: &Pricing) {
    let has_rewards = history.blocks().iter().any(|block| block.rewards.is_some());
    match fees::price(history, pricing, &ChainParameters::without_header(pricing)) {
        Ok(market) => {
            hostile_replies::check_suggestion(&market.suggestion, pricing, has_rewards).unwrap();
        }
        Err(PricingError::NoRewards) => assert!(!has_rewards && pricing.priority_fee_floor == 0),
        Err(error) => {
            let amounts = history.blocks().iter().flat_map(|block| {
                let rewards = block.rewards.into_iter();
                rewards.flat_map(|rewards| rewards.columns()).chain([block.base_fee])
            });
            let largest =
                amounts.chain(history.next_base_fee()).chain([pricing.priority_fee_floor]).max();
            // Below these limits, a sum over 20 blocks times a multiplier of 1000 stays within them.
            let limit = match error {
                PricingError::AboveMaximum => {
                    pricing.max_base_fee.min(pricing.max_priority_fee) / 1000
                }
                _ => u128::MAX / 2_u128.pow(40),
            };
            assert!(largest > Some(limit), "no amount is near the limit");
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

/// Returns true if a result is accepted. Its window is checked as in the fuzz target, and its price with these rules and
/// with those of the fuzz target.
fn is_accepted(result: &Value, pricing: &Pricing) -> bool {
    targets::reply(json!({ "id": 7, "result": result }).to_string().as_bytes());
    let raw = serde_json::value::to_raw_value(result).unwrap();
    let history = FeeHistoryRequest::new(pricing).parse(&raw).ok();
    history.inspect(|history| check_price(history, pricing)).is_some()
}

#[test]
fn flawed_result_has_a_right_price_or_is_rejected() {
    let (parsed, rejected) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(4096));
    let checked = runner.run(&(flawed_result(), pricing()), |(result, pricing)| {
        let count = if is_accepted(&result, &pricing) { &parsed } else { &rejected };
        count.set(count.get() + 1);
        Ok(())
    });
    checked.unwrap();
    // The sample covers both outcomes.
    let counts = [parsed.get(), rejected.get()];
    assert!(counts.iter().all(|count| *count > 800), "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_json_never_panics(result in arbitrary_json(), pricing in pricing()) {
        is_accepted(&result, &pricing);
    }
}
