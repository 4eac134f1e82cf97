//! Rows 1 to 15 of the catalogue of what nodes really send, as far as they show in a result.

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::config::Config;

fn request(percentiles: &str, window_blocks: usize) -> FeeHistoryRequest {
    let text = format!(
        "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://localhost\"]\n[chains.a.pricing]\n\
         reward_percentiles = {percentiles}\nwindow_blocks = {window_blocks}"
    );
    FeeHistoryRequest::new(&Config::from_toml(&text).unwrap().chains[0].pricing)
}

fn read(result: &Value) -> Result<FeeHistory, Malformed> {
    request("[60]", 20).read(&to_raw_value(result).unwrap())
}

/// Two blocks, 10 and 11, and the base fee of the next.
fn plain() -> Value {
    json!({
        "oldestBlock": "0xa",
        "baseFeePerGas": ["0x1", "0x2", "0x3"],
        "gasUsedRatio": [0.25, 0.5],
        "reward": [["0x7"], ["0x8"]],
    })
}

/// [`plain`] with `member` replaced, or removed.
fn with(member: &str, value: impl Into<Option<Value>>) -> Value {
    let mut result = plain();
    let members = result.as_object_mut().unwrap();
    match value.into() {
        Some(value) => members.insert(member.into(), value),
        None => members.remove(member),
    };
    result
}

fn medium_rewards(history: &FeeHistory) -> Vec<Option<u128>> {
    history.blocks().iter().map(|block| block.rewards.map(|rewards| rewards.medium)).collect()
}

fn base_fees(history: &FeeHistory) -> Vec<u128> {
    history.blocks().iter().map(|block| block.base_fee).collect()
}

fn ratios(history: &FeeHistory) -> Vec<Option<f64>> {
    history.blocks().iter().map(|block| block.gas_used_ratio).collect()
}

#[test]
fn a_plain_reply_is_read_whole() {
    let history = read(&plain()).unwrap();
    assert_eq!((history.oldest_block(), history.newest_block()), (10, 11));
    assert_eq!(base_fees(&history), [1, 2]);
    assert_eq!(history.next_base_fee(), Some(3));
    assert_eq!(ratios(&history), [Some(0.25), Some(0.5)]);
    assert_eq!(medium_rewards(&history), [Some(7), Some(8)]);
}

#[test]
fn missing_rewards_leave_the_base_fees_usable() {
    for reward in [None, Some(Value::Null), Some(json!([])), Some(json!("none"))] {
        let history = read(&with("reward", reward)).unwrap();
        assert_eq!(base_fees(&history), [1, 2]);
        assert_eq!(medium_rewards(&history), [None, None]);
    }
}

#[test]
fn a_row_without_usable_rewards_leaves_its_block_out() {
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
        let history = read(&with("reward", json!([row, ["0x8"]]))).unwrap();
        assert_eq!(medium_rewards(&history), [None, Some(8)], "{row}");
    }
}

#[test]
fn a_row_with_one_of_two_percentiles_counts_as_none() {
    let two = request("[60, 100]", 20);
    for row in [json!(["0x7"]), json!(["0x7", null]), json!([null, "0x7"])] {
        let result = with("reward", json!([row, ["0x8", "0x9"]]));
        let history = two.read(&to_raw_value(&result).unwrap()).unwrap();
        let rewards: Vec<_> = history.blocks().iter().map(|block| block.rewards).collect();
        assert_eq!(rewards, [None, Some(Rewards { medium: 8, high: Some(9) })], "{row}");
    }
}

#[test]
fn fewer_rows_than_blocks_leave_the_newest_blocks_out() {
    let history = read(&with("reward", json!([["0x7"]]))).unwrap();
    assert_eq!(medium_rewards(&history), [Some(7), None]);
}

#[test]
fn zero_rewards_are_values() {
    let history = read(&with("reward", json!([["0x0"], ["0x0"]]))).unwrap();
    assert_eq!(medium_rewards(&history), [Some(0), Some(0)]);
}

#[test]
fn as_many_base_fees_as_blocks_leave_the_next_one_unknown() {
    let history = read(&with("baseFeePerGas", json!(["0x1", "0x2"]))).unwrap();
    assert_eq!(base_fees(&history), [1, 2]);
    assert_eq!(history.next_base_fee(), None);
    // The rewards tell as well when the ratios do not.
    let mut result = with("baseFeePerGas", json!(["0x1", "0x2"]));
    result["gasUsedRatio"] = Value::Null;
    assert_eq!(read(&result).unwrap().next_base_fee(), None);
}

#[test]
fn base_fees_alone_hold_the_next_one_as_specified() {
    let history = read(&json!({ "oldestBlock": "0xa", "baseFeePerGas": ["0x1", "0x2"] })).unwrap();
    assert_eq!(base_fees(&history), [1]);
    assert_eq!(history.next_base_fee(), Some(2));
}

#[test]
fn base_fees_that_are_missing_reject_the_reply() {
    for fees in [None, Some(Value::Null), Some(json!([])), Some(json!("0x1"))] {
        assert_eq!(read(&with("baseFeePerGas", fees)), Err(Malformed::NoBaseFees));
    }
    let only_next = json!({ "oldestBlock": "0xa", "baseFeePerGas": ["0x1"] });
    assert_eq!(read(&only_next), Err(Malformed::NoBaseFees));
}

#[test]
fn a_base_fee_that_is_no_quantity_rejects_the_reply() {
    for fee in [json!(null), json!("0x"), json!("2"), json!("-0x2"), json!(-2), json!(2.5)] {
        let fees = json!(["0x1", fee, "0x3"]);
        assert_eq!(read(&with("baseFeePerGas", fees)), Err(Malformed::BaseFee), "{fee}");
    }
}

#[test]
fn a_base_fee_of_zero_is_a_value() {
    let history = read(&with("baseFeePerGas", json!(["0x0", "0x0", "0x0"]))).unwrap();
    assert_eq!(base_fees(&history), [0, 0]);
    assert_eq!(history.next_base_fee(), Some(0));
}

#[test]
fn amounts_over_64_bits_are_read_and_over_128_bits_reject_the_reply() {
    let large = "0x3635c9adc5dea00000";
    let history = read(&with("reward", json!([[large], [large]]))).unwrap();
    assert_eq!(medium_rewards(&history), [Some(10_u128.pow(21)); 2]);

    let over = format!("0x1{}", "0".repeat(32));
    let base_fee = with("baseFeePerGas", json!([over, "0x2", "0x3"]));
    assert_eq!(read(&base_fee), Err(Malformed::AmountTooLarge));
    let reward = with("reward", json!([[over], ["0x8"]]));
    assert_eq!(read(&reward), Err(Malformed::AmountTooLarge));
}

#[test]
fn leading_zeros_and_json_integers_are_read() {
    let mut result = plain();
    result["oldestBlock"] = json!(10);
    result["baseFeePerGas"] = json!([1, "0x0002", 3]);
    result["reward"] = json!([[7], ["0x08"]]);
    assert_eq!(read(&result), read(&plain()));
}

#[test]
fn an_oldest_block_that_is_no_block_number_rejects_the_reply() {
    let hash = format!("0x{}", "ab".repeat(32));
    for block in [None, Some(Value::Null), Some(json!(hash)), Some(json!("0x")), Some(json!("10"))]
    {
        assert_eq!(read(&with("oldestBlock", block)), Err(Malformed::OldestBlock));
    }
    let mut misspelt = with("oldestBlock", None);
    misspelt["oldestblock"] = json!("0xa");
    assert_eq!(read(&misspelt), Err(Malformed::OldestBlock));
    let beyond = with("oldestBlock", json!("0xffffffffffffffff"));
    assert_eq!(read(&beyond), Err(Malformed::OldestBlock));
}

#[test]
fn gas_ratios_are_optional_one_by_one_and_as_a_whole() {
    for odd in [json!(null), json!("NaN"), json!(1.6), json!(-0.1), json!({})] {
        let history = read(&with("gasUsedRatio", json!([odd, 0.5]))).unwrap();
        assert_eq!(ratios(&history), [None, Some(0.5)], "{odd}");
    }
    for absent in [None, Some(Value::Null), Some(json!([])), Some(json!("0.5"))] {
        let history = read(&with("gasUsedRatio", absent)).unwrap();
        assert_eq!(ratios(&history), [None, None]);
        assert_eq!(medium_rewards(&history), [Some(7), Some(8)]);
    }
    // A count of ratios that cannot be is no reason to doubt the rest.
    let history = read(&with("gasUsedRatio", json!([0.1, 0.2, 0.3, 0.4, 0.5]))).unwrap();
    assert_eq!(base_fees(&history), [1, 2]);
    let zero = read(&with("gasUsedRatio", json!([-0.0, 0.5]))).unwrap();
    assert!(ratios(&zero)[0].unwrap().is_sign_positive());
    let exponent = read(&with("gasUsedRatio", json!([2.34445e-07, 1]))).unwrap();
    assert_eq!(ratios(&exponent), [Some(2.34445e-07), Some(1.0)]);
}

#[test]
fn fewer_blocks_than_asked_for_are_read() {
    let one = json!({
        "oldestBlock": "0xa", "baseFeePerGas": ["0x1", "0x2"],
        "gasUsedRatio": [0.5], "reward": [["0x7"]],
    });
    assert_eq!(read(&one).unwrap().blocks().len(), 1);
}

#[test]
fn a_longer_reply_counts_with_its_newest_blocks_and_first_columns() {
    let mut long = plain();
    long["reward"] = json!([["0x7", "0x17"], ["0x8", "0x18"]]);
    let history = request("[60]", 1).read(&to_raw_value(&long).unwrap()).unwrap();
    assert_eq!((history.oldest_block(), history.newest_block()), (11, 11));
    assert_eq!(base_fees(&history), [2]);
    assert_eq!(medium_rewards(&history), [Some(8)]);
    assert_eq!(history.next_base_fee(), Some(3));
}

#[test]
fn where_ratios_and_rewards_disagree_the_count_that_was_asked_for_decides() {
    let lengths = |window, base_fees: &[&str], ratios: &[f64], rewards: usize| {
        let result = json!({
            "oldestBlock": "0xa", "baseFeePerGas": base_fees, "gasUsedRatio": ratios,
            "reward": vec![["0x7"]; rewards],
        });
        let history = request("[60]", window).read(&to_raw_value(&result).unwrap()).unwrap();
        (history.blocks().len(), history.next_base_fee())
    };
    let fees = ["0x1", "0x2", "0x3"];
    // One ratio too many: the next block is not taken for a mined one.
    assert_eq!(lengths(2, &fees, &[0.1, 0.2, 0.3], 2), (2, Some(3)));
    // One row too few: the last mined block is not taken for the next one.
    assert_eq!(lengths(3, &fees, &[0.1, 0.2, 0.3], 2), (3, None));
    // Neither count was asked for: as specified.
    assert_eq!(lengths(20, &fees, &[0.1, 0.2, 0.3], 2), (2, Some(3)));
}

#[test]
fn arrays_that_nobody_can_align_reject_the_reply() {
    let mut result = plain();
    result["gasUsedRatio"] = json!([0.5]);
    result["reward"] = json!([["0x1"], ["0x2"], ["0x3"], ["0x4"], ["0x5"]]);
    assert_eq!(read(&result), Err(Malformed::Lengths));
}

#[test]
fn something_else_than_an_object_is_no_fee_history() {
    for other in [json!([]), json!("0x1"), json!(1), json!(["0xa", ["0x1", "0x2"], null, null])] {
        assert_eq!(read(&other), Err(Malformed::NotAFeeHistory), "{other}");
    }
    let twice = r#"{"oldestBlock":"0xa","oldestBlock":"0xb","baseFeePerGas":["0x1","0x2"]}"#;
    let twice = RawValue::from_string(twice.into()).unwrap();
    assert_eq!(request("[60]", 20).read(&twice), Err(Malformed::NotAFeeHistory));
}

#[test]
fn the_request_asks_by_quantity_and_by_integer_where_a_node_wants_that() {
    let one = request("[60]", 20);
    assert_eq!(one.params(BlockCount::Quantity), json!(["0x14", "latest", [60]]));
    assert_eq!(one.params(BlockCount::Integer), json!([20, "latest", [60]]));
    let two = request("[60, 99.5]", 1024);
    assert_eq!(two.params(BlockCount::Quantity), json!(["0x400", "latest", [60, 99.5]]));
}
