//! The deviations that the documentation of the parent module lists, as far as a `result` shows them.

use std::num::NonZeroUsize;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;

fn request(window_blocks: usize) -> FeeHistoryRequest {
    let window_blocks = NonZeroUsize::new(window_blocks).unwrap();
    FeeHistoryRequest::new(&Pricing { window_blocks, ..Pricing::default() })
}

fn parse(result: &Value) -> Result<FeeHistory, MalformedFeeHistory> {
    request(20).parse(&to_raw_value(result).unwrap())
}

/// Reply with the blocks 10 and 11, and the base fee of the next block. `member` is replaced, or removed if there is no
/// `value`.
fn two_block_reply_with(member: &str, value: impl Into<Option<Value>>) -> Value {
    let mut result = json!({
        "oldestBlock": "0xa",
        "baseFeePerGas": ["0x1", "0x2", "0x3"],
        "gasUsedRatio": [0.25, 0.5],
        "reward": [["0x7"], ["0x8"]],
    });
    let members = result.as_object_mut().unwrap();
    match value.into() {
        Some(value) => members.insert(member.into(), value),
        None => members.remove(member),
    };
    result
}

#[test]
fn a_member_without_a_meaning_rejects_the_reply() {
    use MalformedFeeHistory::{AmountTooLarge, BadBaseFee, BadOldestBlock, NoBaseFees};
    let (hash, over) = (format!("0x{}", "ab".repeat(32)), format!("0x1{}", "0".repeat(32)));
    for (member, value, error) in [
        ("baseFeePerGas", None, NoBaseFees),
        ("baseFeePerGas", Some(Value::Null), NoBaseFees),
        ("baseFeePerGas", Some(json!([])), NoBaseFees),
        ("baseFeePerGas", Some(json!("0x1")), NoBaseFees),
        ("baseFeePerGas", Some(json!(["0x1", "2", "0x3"])), BadBaseFee),
        ("baseFeePerGas", Some(json!(["0x1", over, "0x3"])), AmountTooLarge),
        ("reward", Some(json!([[over], ["0x8"]])), AmountTooLarge),
        ("oldestBlock", None, BadOldestBlock),
        ("oldestBlock", Some(json!(hash)), BadOldestBlock),
        ("oldestBlock", Some(json!("10")), BadOldestBlock),
        ("oldestBlock", Some(json!("0xffffffffffffffff")), BadOldestBlock),
    ] {
        let result = two_block_reply_with(member, value);
        assert_eq!(parse(&result), Err(error), "{result}");
    }
}

#[test]
fn impossible_ratios_are_none_and_no_ratio_is_negative() {
    let history = parse(&two_block_reply_with("gasUsedRatio", json!([1.6, -0.0]))).unwrap();
    let ratios: Vec<_> = history.blocks().iter().map(|block| block.gas_used_ratio).collect();
    assert_eq!(ratios, [None, Some(0.0)]);
    assert!(ratios[1].unwrap().is_sign_positive());
}

#[test]
fn the_lengths_of_the_arrays_tell_the_mined_blocks() {
    for (window, base_fees, ratios, rewards, expected) in [
        (20, 3, 2, 2, Ok((2, Some(3)))),
        // Without the base fee of the next block. Without ratios, the number of rewards decides.
        (20, 2, 2, 2, Ok((2, None))),
        (20, 2, 0, 2, Ok((2, None))),
        // With base fees alone the last one is the next block's.
        (20, 2, 0, 0, Ok((1, Some(2)))),
        (20, 1, 0, 0, Err(MalformedFeeHistory::NoBaseFees)),
        // An impossible number of ratios does not reject the reply.
        (20, 3, 5, 2, Ok((2, Some(3)))),
        // One ratio too many: the next block is not taken for a mined one.
        (2, 3, 3, 2, Ok((2, Some(3)))),
        // One row too few: the last mined block is not taken for the next one.
        (3, 3, 3, 2, Ok((3, None))),
        // Neither count was requested, so the specification's N + 1 applies.
        (20, 3, 3, 2, Ok((2, Some(3)))),
        (20, 3, 1, 5, Err(MalformedFeeHistory::BadLengths)),
        // The ratios fit, but it is unknown which block the only row belongs to.
        (20, 4, 3, 1, Err(MalformedFeeHistory::BadLengths)),
    ] {
        let result = json!({
            "oldestBlock": "0xa", "baseFeePerGas": (1..=base_fees).collect::<Vec<_>>(),
            "gasUsedRatio": vec![0.1; ratios], "reward": vec![["0x7"]; rewards],
        });
        let parsed = request(window).parse(&to_raw_value(&result).unwrap());
        let found = parsed.map(|history| (history.blocks().len(), history.next_base_fee));
        assert_eq!(found, expected, "{window} {result}");
    }
}

#[test]
fn a_result_that_is_not_an_object_is_rejected() {
    for other in [json!([]), json!("0x1"), json!(1), json!(["0xa", ["0x1", "0x2"], null, null])] {
        assert_eq!(parse(&other), Err(MalformedFeeHistory::NotAFeeHistory), "{other}");
    }
    let twice = r#"{"oldestBlock":"0xa","oldestBlock":"0xb","baseFeePerGas":["0x1","0x2"]}"#;
    let twice = RawValue::from_string(twice.into()).unwrap();
    assert_eq!(request(20).parse(&twice), Err(MalformedFeeHistory::NotAFeeHistory));
}
