//! Compares the pricing of every 20-block window of the recordings with an independent implementation.

use std::io::Read;

use flate2::read::GzDecoder;
use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::fees::{self, Pricing, PricingError, Suggestion};
use gas_suggestion::nodes::FeeHistoryRequest;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::fixtures;

/// Recordings, and the names of the files of their expected prices.
const RECORDINGS: [(&str, &str); 3] = [
    ("src/extras/demo/recordings/ethereum.json.gz", "ethereum"),
    ("src/extras/demo/recordings/base.json.gz", "base"),
    ("tests/fixtures/recordings/polygon.json.gz", "polygon"),
];

/// Rows per chain: 1,005 windows in four configurations.
const ROWS: usize = 4020;

#[test]
fn every_window_has_the_expected_prices() {
    let header = "newest_block,percentiles,base_fee_floor_wei,priority_fee_floor_wei,base_fee_per_gas,\
         medium_max_priority_fee_per_gas,medium_max_fee_per_gas,high_max_priority_fee_per_gas,\
         high_max_fee_per_gas";
    for (recording, chain) in RECORDINGS {
        let recording = fixtures::recording(recording);
        let lines = lines(chain, header);
        assert_eq!(lines.len(), ROWS, "{chain}");
        for line in lines {
            let columns: Vec<_> = line.split(',').collect();
            let [newest, percentiles, base_floor, tip_floor, ..] = columns[..] else {
                panic!("{line}")
            };
            let pricing = format!(
                "reward_percentiles = [{}]\nbase_fee_floor = \"{base_floor} wei\"\n\
                 priority_fee_floor = \"{tip_floor} wei\"",
                percentiles.replace('|', ",")
            );
            let pricing = fixtures::priced(&pricing).pricing;
            let newest = newest.parse().unwrap();
            let Suggestion { base_fee_per_gas, medium, high, .. } =
                price_at(&recording, newest, &pricing).unwrap();
            let tiers = [medium, high]
                .map(|tier| format!("{},{}", tier.max_priority_fee_per_gas, tier.max_fee_per_gas));
            let actual = format!("{base_fee_per_gas},{}", tiers.join(","));
            assert_eq!(actual, columns[4..].join(","), "{chain}: {line}");
        }
    }
}

#[test]
fn calibrated_strategy_has_the_expected_tips() {
    let pricing = fixtures::priced("strategy = \"calibrated\"").pricing;
    for (recording, chain) in RECORDINGS {
        let recording = fixtures::recording(recording);
        let header = "newest_block,tip_target_95,tip_target_99";
        let lines = lines(&format!("calibrated-{chain}"), header);
        assert_eq!(lines.len(), recording.reward.len(), "{chain}");
        for line in lines {
            let newest = line.split(',').next().unwrap().parse().unwrap();
            let actual = match price_at(&recording, newest, &pricing) {
                Ok(suggestion) => {
                    let tips = [suggestion.medium, suggestion.high];
                    let [medium, high] = tips.map(|tier| tier.max_priority_fee_per_gas);
                    format!("{newest},{medium},{high}")
                }
                Err(_) => format!("{newest},,"),
            };
            assert_eq!(actual, line, "{chain}");
        }
    }
}

/// Reads the lines of a file of expected prices, which has to begin with `header`.
fn lines(name: &str, header: &str) -> Vec<String> {
    let mut expected = String::new();
    let file = fixtures::read(&format!("tests/fixtures/expected/{name}.csv.gz"));
    GzDecoder::new(file.as_slice()).read_to_string(&mut expected).unwrap();
    let mut lines = expected.lines().map(str::to_owned);
    assert_eq!(lines.next().unwrap(), header, "{name}");
    lines.collect()
}

/// Prices all blocks that a suggestion after `newest` depends on, parsed from a node's result.
fn price_at(
    recording: &DemoRecording,
    newest: u64,
    pricing: &Pricing,
) -> Result<Suggestion, PricingError> {
    let end = usize::try_from(newest - recording.oldest_block).unwrap() + 1;
    let start = end.saturating_sub(pricing.history_blocks());
    let hex = |number: &u64| format!("{number:#x}");
    let column = |percentile| recording.column(percentile).unwrap();
    let columns: Vec<_> = pricing.percentiles().iter().map(column).collect();
    let row =
        |row: &Vec<u64>| -> Vec<_> { columns.iter().map(|column| hex(&row[*column])).collect() };
    let result = json!({
        "oldestBlock": hex(&(recording.oldest_block + u64::try_from(start).unwrap())),
        "baseFeePerGas": recording.base_fee_per_gas[start..=end].iter().map(hex).collect::<Vec<_>>(),
        "gasUsedRatio": recording.gas_used_ratio[start..end],
        "reward": recording.reward[start..end].iter().map(row).collect::<Vec<_>>(),
    });
    let request = FeeHistoryRequest::for_all_blocks(pricing);
    let history = request.parse(&to_raw_value(&result).unwrap()).unwrap();
    assert_eq!(history.newest_block(), newest);
    let parameters = fees::ChainParameters::without_header(pricing);
    fees::price(&history, pricing, &parameters).map(|market| market.suggestion)
}
