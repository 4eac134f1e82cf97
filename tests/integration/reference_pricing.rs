//! Compares the pricing of every 20-block window of the recordings with an independent implementation.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;
use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::fees::{
    self, FeeHistory, Pricing, PricingError, RewardPercentiles, Strategy, Suggestion, Tiers,
};
use gas_suggestion::nodes::FeeHistoryRequest;
use gas_suggestion::store::{Accepted, ChainStore};
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
        let mut configured = HashMap::new();
        // Every fifth row, so that the configurations take turns.
        for line in lines.into_iter().step_by(5) {
            let columns: Vec<_> = line.split(',').collect();
            let [newest, percentiles, base_floor, tip_floor, ..] = columns[..] else {
                panic!("{line}")
            };
            let text = format!(
                "strategy = \"network\"\nreward_percentiles = [{}]\nbase_fee_floor = \"{base_floor} wei\"\n\
                 priority_fee_floor = \"{tip_floor} wei\"",
                percentiles.replace('|', ",")
            );
            let configure = |text: &String| fixtures::priced(text).pricing;
            let pricing = configured.entry(text).or_insert_with_key(configure);
            let newest = newest.parse().unwrap();
            let Suggestion { base_fee_per_gas, tiers: Tiers { medium, high, .. }, .. } =
                price_at(&recording, newest, pricing).unwrap();
            let tiers = [medium, high]
                .map(|tier| format!("{},{}", tier.max_priority_fee_per_gas, tier.max_fee_per_gas));
            let actual = format!("{base_fee_per_gas},{}", tiers.join(","));
            assert_eq!(actual, columns[4..].join(","), "{chain}: {line}");
        }
    }
}

/// Publishes every head of a recording, and returns the tips of low, medium and high at each one from 20 asks on, as the
/// lines have them. With `read_every`, polls have percentile 60 and readings bring the asks after so many blocks.
fn published_tips(recording: &DemoRecording, read_every: Option<usize>) -> Vec<(u64, String)> {
    let percentiles = if read_every.is_some() { "[60]" } else { "[10, 60]" };
    let pricing = format!("reward_percentiles = {percentiles}\nmax_priority_fee = \"1 ether\"");
    let chain = fixtures::priced(&pricing);
    let (store, mut publishers) = ChainStore::new(std::slice::from_ref(&chain));
    let polled: Vec<f64> = chain.pricing.percentiles().iter().collect();
    let parameters = fees::ChainParameters::from_pricing(&chain.pricing);
    let mut tips = Vec::new();
    for head in 19..recording.reward.len() {
        let history = history_up_to(recording, head, 20, &polled);
        let market = fees::price(&history, &[], &chain.pricing, &parameters).unwrap();
        publishers[0].publish(Accepted::now(&history, market));
        let snapshot = store.chains()[0].newest_snapshot().unwrap();
        if snapshot.market.strategy == Strategy::Calibrated {
            let market = &snapshot.market;
            let tiers = market.suggestion.tiers.into_array();
            let [low, medium, high] = tiers.map(|tier| tier.max_priority_fee_per_gas);
            let known =
                store.chains()[0].read_together(|blocks| blocks.newest_entries(1).newest_block);
            tips.push((known, format!("{low},{medium},{high}")));
        }
        if read_every.is_some_and(|every| head % every == 0) {
            publishers[0].add_reading(&history_up_to(recording, head, 400, &[10.0, 60.0]));
        }
    }
    tips
}

#[test]
fn calibrated_strategy_has_the_expected_tips_at_every_head() {
    for (recording, chain) in RECORDINGS {
        let recording = fixtures::recording(recording);
        let header = "newest_block,tip_low,tip_medium,tip_high,known_asks";
        let lines = lines(&format!("calibrated-{chain}"), header);
        assert_eq!(lines.len(), recording.reward.len(), "{chain}");
        let expected: BTreeMap<u64, String> = lines
            .iter()
            .filter_map(|line| {
                let (number, rest) = line.split_once(',').unwrap();
                let (tips, known) = rest.rsplit_once(',').unwrap();
                let is_known = known.parse::<u32>().unwrap() >= 20;
                is_known.then(|| (number.parse().unwrap(), tips.to_owned()))
            })
            .collect();
        let by_polls = published_tips(&recording, None);
        assert!(by_polls.len() > 990, "{chain}: {}", by_polls.len());
        assert!(by_polls.iter().map(|(number, _)| number).is_sorted_by(|one, next| one < next));
        let mut all = by_polls;
        if chain == "ethereum" {
            let by_readings = published_tips(&recording, Some(10));
            assert!(by_readings.len() > 970, "{}", by_readings.len());
            all.extend(by_readings);
        }
        for (number, tips) in all {
            assert_eq!(expected.get(&number), Some(&tips), "{chain} at {number}");
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

/// Returns the fee history of the `count` blocks up to the one with this index, or of fewer, parsed from a node's result.
fn history_up_to(
    recording: &DemoRecording,
    head: usize,
    count: usize,
    percentiles: &[f64],
) -> FeeHistory {
    let (start, end) = ((head + 1).saturating_sub(count), head + 1);
    let hex = |number: &u64| format!("{number:#x}");
    let columns = percentiles.iter().map(|percentile| recording.column(*percentile).unwrap());
    let columns: Vec<usize> = columns.collect();
    let row =
        |row: &Vec<u64>| -> Vec<_> { columns.iter().map(|column| hex(&row[*column])).collect() };
    let result = json!({
        "oldestBlock": hex(&(recording.oldest_block + u64::try_from(start).unwrap())),
        "baseFeePerGas": recording.base_fee_per_gas[start..=end].iter().map(hex).collect::<Vec<_>>(),
        "gasUsedRatio": recording.gas_used_ratio[start..end],
        "reward": recording.reward[start..end].iter().map(row).collect::<Vec<_>>(),
    });
    let pricing = Pricing {
        window_blocks: count.try_into().unwrap(),
        reward_percentiles: RewardPercentiles::new(percentiles[0], percentiles.get(1).copied())
            .ok(),
        ..Pricing::default()
    };
    FeeHistoryRequest::new(&pricing).parse(&to_raw_value(&result).unwrap()).unwrap()
}

/// Prices the window up to the block `newest` by the network's rule.
fn price_at(
    recording: &DemoRecording,
    newest: u64,
    pricing: &Pricing,
) -> Result<Suggestion, PricingError> {
    let head = usize::try_from(newest - recording.oldest_block).unwrap();
    let percentiles: Vec<f64> = pricing.percentiles().iter().collect();
    let history = history_up_to(recording, head, pricing.window_blocks.get(), &percentiles);
    assert_eq!(history.newest_block(), newest);
    let parameters = fees::ChainParameters::from_pricing(pricing);
    fees::price(&history, &[], pricing, &parameters).map(|market| market.suggestion)
}
