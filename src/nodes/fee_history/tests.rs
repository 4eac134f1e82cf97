//! The deviations that the documentation of the parent module lists, as far as a `result` shows them.

use std::num::NonZeroUsize;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::fees::RewardPercentiles;

/// Request for the percentile 60 and, if there is one, a higher one.
fn request(high: Option<f64>, window_blocks: usize) -> FeeHistoryRequest {
    FeeHistoryRequest::new(&Pricing {
        reward_percentiles: Some(RewardPercentiles::new(60.0, high).unwrap()),
        window_blocks: NonZeroUsize::new(window_blocks).unwrap(),
        ..Pricing::default()
    })
}

fn parse(result: &Value) -> Result<FeeHistory, MalformedFeeHistory> {
    request(None, 20).parse(&to_raw_value(result).unwrap())
}

/// Reply with the blocks 10 and 11, and the base fee of the next block.
fn two_block_reply() -> Value {
    json!({
        "oldestBlock": "0xa",
        "baseFeePerGas": ["0x1", "0x2", "0x3"],
        "gasUsedRatio": [0.25, 0.5],
        "reward": [["0x7"], ["0x8"]],
    })
}

/// [`two_block_reply`] with `member` replaced, or removed if there is no `value`.
fn two_block_reply_with(member: &str, value: impl Into<Option<Value>>) -> Value {
    let mut result = two_block_reply();
    let members = result.as_object_mut().unwrap();
    match value.into() {
        Some(value) => members.insert(member.into(), value),
        None => members.remove(member),
    };
    result
}

fn medium_rewards(history: &FeeHistory) -> Vec<Option<u128>> {
    history.blocks().iter().map(|block| block.reward(0)).collect()
}

fn base_fees(history: &FeeHistory) -> Vec<u128> {
    history.blocks().iter().map(|block| block.base_fee).collect()
}

fn ratios(history: &FeeHistory) -> Vec<Option<f64>> {
    history.blocks().iter().map(|block| block.gas_used_ratio).collect()
}

#[test]
fn every_member_of_a_regular_reply_is_parsed() {
    let history = parse(&two_block_reply()).unwrap();
    assert_eq!((history.oldest_block(), history.newest_block()), (10, 11));
    assert_eq!(base_fees(&history), [1, 2]);
    assert_eq!(history.next_base_fee, Some(3));
    assert_eq!(ratios(&history), [Some(0.25), Some(0.5)]);
    assert_eq!(medium_rewards(&history), [Some(7), Some(8)]);
}

#[test]
fn missing_rewards_leave_the_base_fees_usable() {
    for reward in [None, Some(Value::Null), Some(json!([])), Some(json!("none"))] {
        let history = parse(&two_block_reply_with("reward", reward)).unwrap();
        assert_eq!(base_fees(&history), [1, 2]);
        assert_eq!(medium_rewards(&history), [None, None]);
    }
}

#[test]
fn a_block_with_unusable_rewards_has_none() {
    for row in [
        json!(null),
        json!([]),
        json!([null]),
        json!(["0x"]),
        json!(["12"]),
        json!(["-0x5"]),
        json!([-5]),
        json!([1.5]),
        json!({}),
        json!("0x1"),
        json!([["0x1"]]),
    ] {
        let history = parse(&two_block_reply_with("reward", json!([row, ["0x8"]]))).unwrap();
        assert_eq!(medium_rewards(&history), [None, Some(8)], "{row}");
    }
}

#[test]
fn a_row_missing_one_of_two_percentiles_has_no_rewards() {
    let two = request(Some(100.0), 20);
    for row in [json!(["0x7"]), json!(["0x7", null]), json!([null, "0x7"])] {
        let result = two_block_reply_with("reward", json!([row, ["0x8", "0x9"]]));
        let history = two.parse(&to_raw_value(&result).unwrap()).unwrap();
        let rewards: Vec<_> = history.blocks().iter().map(|block| block.rewards).collect();
        assert_eq!(rewards, [None, Some([8, 9])], "{row}");
    }
}

#[test]
fn each_percentile_has_one_column_in_ascending_order() {
    for (own, params, row, [medium, high]) in [
        ((60.0, None), json!([60]), json!(["0x7"]), [Some(7), None]),
        ((60.0, Some(60.0)), json!([60, 60]), json!(["0x7", "0x8"]), [Some(7), Some(8)]),
        ((10.0, Some(60.0)), json!([10, 60]), json!([1, 2]), [Some(1), Some(2)]),
    ] {
        let pricing = Pricing {
            reward_percentiles: Some(RewardPercentiles::new(own.0, own.1).unwrap()),
            ..Pricing::default()
        };
        let request = FeeHistoryRequest::new(&pricing);
        assert_eq!(request.params(true)[2], params);
        let result = two_block_reply_with("reward", json!([row, row]));
        let history = request.parse(&to_raw_value(&result).unwrap()).unwrap();
        let rewards = history.blocks()[0].rewards.unwrap();
        assert_eq!([Some(rewards[0]), own.1.map(|_| rewards[1])], [medium, high]);
        assert_eq!(pricing.column(99.0), None);
    }
}

#[test]
fn without_an_extra_base_fee_the_next_one_is_unknown() {
    let history = parse(&two_block_reply_with("baseFeePerGas", json!(["0x1", "0x2"]))).unwrap();
    assert_eq!(base_fees(&history), [1, 2]);
    assert_eq!(history.next_base_fee, None);
    // Without ratios, the number of rewards decides.
    let mut result = two_block_reply_with("baseFeePerGas", json!(["0x1", "0x2"]));
    result["gasUsedRatio"] = Value::Null;
    assert_eq!(parse(&result).unwrap().next_base_fee, None);
}

#[test]
fn with_base_fees_alone_the_last_one_is_the_next_blocks() {
    let history = parse(&json!({ "oldestBlock": "0xa", "baseFeePerGas": ["0x1", "0x2"] })).unwrap();
    assert_eq!(base_fees(&history), [1]);
    assert_eq!(history.next_base_fee, Some(2));
}

#[test]
fn a_member_without_a_meaning_rejects_the_reply() {
    use MalformedFeeHistory::{AmountTooLarge, BadBaseFee, BadOldestBlock, NoBaseFees};
    let (hash, over) = (format!("0x{}", "ab".repeat(32)), format!("0x1{}", "0".repeat(32)));
    let with = |fee: Value| json!(["0x1", fee, "0x3"]);
    for (member, value, error) in [
        ("baseFeePerGas", None, NoBaseFees),
        ("baseFeePerGas", Some(Value::Null), NoBaseFees),
        ("baseFeePerGas", Some(json!([])), NoBaseFees),
        ("baseFeePerGas", Some(json!("0x1")), NoBaseFees),
        ("baseFeePerGas", Some(with(json!(null))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!("0x"))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!("2"))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!("-0x2"))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!(-2))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!(2.5))), BadBaseFee),
        ("baseFeePerGas", Some(with(json!(over))), AmountTooLarge),
        ("reward", Some(json!([[over], ["0x8"]])), AmountTooLarge),
        ("oldestBlock", None, BadOldestBlock),
        ("oldestBlock", Some(Value::Null), BadOldestBlock),
        ("oldestBlock", Some(json!(hash)), BadOldestBlock),
        ("oldestBlock", Some(json!("0x")), BadOldestBlock),
        ("oldestBlock", Some(json!("10")), BadOldestBlock),
        ("oldestBlock", Some(json!("0xffffffffffffffff")), BadOldestBlock),
    ] {
        let result = two_block_reply_with(member, value);
        assert_eq!(parse(&result), Err(error), "{result}");
    }
    let only_next = json!({ "oldestBlock": "0xa", "baseFeePerGas": ["0x1"] });
    assert_eq!(parse(&only_next), Err(NoBaseFees));
    let mut misspelt = two_block_reply_with("oldestBlock", None);
    misspelt["oldestblock"] = json!("0xa");
    assert_eq!(parse(&misspelt), Err(BadOldestBlock));
    let large = "0x3635c9adc5dea00000";
    let history = parse(&two_block_reply_with("reward", json!([[large], [large]]))).unwrap();
    assert_eq!(medium_rewards(&history), [Some(10_u128.pow(21)); 2]);
}

#[test]
fn leading_zeros_and_json_integers_are_parsed() {
    let mut result = two_block_reply();
    result["oldestBlock"] = json!(10);
    result["baseFeePerGas"] = json!([1, "0x0002", 3]);
    result["reward"] = json!([[7], ["0x08"]]);
    assert_eq!(parse(&result), parse(&two_block_reply()));
}

#[test]
fn invalid_or_missing_gas_used_ratios_are_none() {
    for odd in [json!(null), json!("NaN"), json!(1.6), json!(-0.1), json!({})] {
        let history = parse(&two_block_reply_with("gasUsedRatio", json!([odd, 0.5]))).unwrap();
        assert_eq!(ratios(&history), [None, Some(0.5)], "{odd}");
    }
    for absent in [None, Some(Value::Null), Some(json!([])), Some(json!("0.5"))] {
        let history = parse(&two_block_reply_with("gasUsedRatio", absent)).unwrap();
        assert_eq!(ratios(&history), [None, None]);
        assert_eq!(medium_rewards(&history), [Some(7), Some(8)]);
    }
    // An impossible number of ratios does not reject the reply.
    let history =
        parse(&two_block_reply_with("gasUsedRatio", json!([0.1, 0.2, 0.3, 0.4, 0.5]))).unwrap();
    assert_eq!(base_fees(&history), [1, 2]);
    let zero = parse(&two_block_reply_with("gasUsedRatio", json!([-0.0, 0.5]))).unwrap();
    assert!(ratios(&zero)[0].unwrap().is_sign_positive());
    let exponent = parse(&two_block_reply_with("gasUsedRatio", json!([2.34445e-07, 1]))).unwrap();
    assert_eq!(ratios(&exponent), [Some(2.34445e-07), Some(1.0)]);
}

#[test]
fn a_longer_reply_is_cut_to_newest_blocks_and_first_columns() {
    let mut long = two_block_reply();
    long["reward"] = json!([["0x7", "0x17"], ["0x8", "0x18"]]);
    let history = request(None, 1).parse(&to_raw_value(&long).unwrap()).unwrap();
    assert_eq!((history.oldest_block(), history.newest_block()), (11, 11));
    assert_eq!(base_fees(&history), [2]);
    assert_eq!(medium_rewards(&history), [Some(8)]);
    assert_eq!(history.next_base_fee, Some(3));
}

#[test]
fn on_length_mismatch_the_requested_block_count_decides() {
    let lengths = |window, base_fees: &[&str], ratios: &[f64], rewards: usize| {
        let result = json!({
            "oldestBlock": "0xa", "baseFeePerGas": base_fees, "gasUsedRatio": ratios,
            "reward": vec![["0x7"]; rewards],
        });
        let history = request(None, window).parse(&to_raw_value(&result).unwrap()).unwrap();
        (history.blocks().len(), history.next_base_fee)
    };
    let fees = ["0x1", "0x2", "0x3"];
    // One ratio too many: the next block is not taken for a mined one.
    assert_eq!(lengths(2, &fees, &[0.1, 0.2, 0.3], 2), (2, Some(3)));
    // One row too few: the last mined block is not taken for the next one.
    assert_eq!(lengths(3, &fees, &[0.1, 0.2, 0.3], 2), (3, None));
    // Neither count was requested, so the specification's N + 1 applies.
    assert_eq!(lengths(20, &fees, &[0.1, 0.2, 0.3], 2), (2, Some(3)));
}

#[test]
fn arrays_that_cannot_be_aligned_reject_the_reply() {
    let mut result = two_block_reply();
    result["gasUsedRatio"] = json!([0.5]);
    result["reward"] = json!([["0x1"], ["0x2"], ["0x3"], ["0x4"], ["0x5"]]);
    assert_eq!(parse(&result), Err(MalformedFeeHistory::BadLengths));
    // The ratios fit, but it is unknown which block the only row belongs to.
    let fees = ["0x1", "0x2", "0x3", "0x4"];
    let single = json!({
        "oldestBlock": "0xa", "baseFeePerGas": fees, "gasUsedRatio": [0.1, 0.2, 0.3],
        "reward": [["0x1"]],
    });
    assert_eq!(parse(&single), Err(MalformedFeeHistory::BadLengths));
}

#[test]
fn a_result_that_is_not_an_object_is_rejected() {
    for other in [json!([]), json!("0x1"), json!(1), json!(["0xa", ["0x1", "0x2"], null, null])] {
        assert_eq!(parse(&other), Err(MalformedFeeHistory::NotAFeeHistory), "{other}");
    }
    let twice = r#"{"oldestBlock":"0xa","oldestBlock":"0xb","baseFeePerGas":["0x1","0x2"]}"#;
    let twice = RawValue::from_string(twice.into()).unwrap();
    assert_eq!(request(None, 20).parse(&twice), Err(MalformedFeeHistory::NotAFeeHistory));
}

#[test]
fn the_block_count_is_encoded_as_quantity_or_integer() {
    let one = request(None, 20);
    assert_eq!(one.params(false), json!(["0x14", "latest", [60]]));
    assert_eq!(one.params(true), json!([20, "latest", [60]]));
    let two = request(Some(99.5), 1024);
    assert_eq!(two.params(false), json!(["0x400", "latest", [60, 99.5]]));
}
