//! Property tests over generated node responses and fee histories.

use gas_suggestion::fees::Pricing;
use gas_suggestion::nodes::FeeHistoryRequest;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::targets;

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

/// Passes a reply with this result to the fuzz target, which checks what is parsed and its price. Returns true if it is
/// parsed.
fn check_result(result: &Value) -> bool {
    targets::reply(json!({ "id": 7, "result": result }).to_string().as_bytes());
    let raw = serde_json::value::to_raw_value(result).unwrap();
    FeeHistoryRequest::new(&Pricing::default()).parse(&raw).is_ok()
}

#[test]
fn a_flawed_result_is_read_and_priced_by_the_rules_or_rejected() {
    let mut parsed = 0;
    let (mut runner, results) = (TestRunner::new(ProptestConfig::default()), flawed_result());
    for _ in 0..256 {
        let result = results.new_tree(&mut runner).unwrap().current();
        parsed += usize::from(check_result(&result));
    }
    // The sample covers both outcomes.
    assert!((32..224).contains(&parsed), "{parsed} of 256 were parsed");
}
