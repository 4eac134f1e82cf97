//! Recorded data, and configurations for tests.

use std::path::PathBuf;

use gas_suggestion::config::{Chain, Config};
use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::extras::sections;
use serde_json::{Value, json};

pub(crate) fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

pub(crate) fn read(relative: &str) -> Vec<u8> {
    let path = path(relative);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Builds a chain with this `[pricing]`, an unreachable RPC URL and no preset.
pub(crate) fn priced(pricing: &str) -> Chain {
    let text = format!(
        "[chains.test]\nchain_id = 4711\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.test.pricing]\n{pricing}"
    );
    Config::from_toml(&text, &sections()).unwrap().chains.remove(0)
}

/// Floors of the network document.
pub(crate) const NETWORK_FLOORS: &str =
    "base_fee_floor = \"1 gwei\"\npriority_fee_floor = \"20 gwei\"\n";

/// Builds the fee history of the first `count` recorded blocks with these percentiles.
pub(crate) fn recorded_history(
    recording: &DemoRecording,
    count: usize,
    percentiles: &[f64],
) -> Value {
    let hex = |number: u64| json!(format!("{number:#x}"));
    let column = |wanted: &f64| {
        let mut recorded = recording.reward_percentiles.iter();
        recorded.position(|percentile| percentile.total_cmp(wanted).is_eq()).unwrap()
    };
    let columns: Vec<_> = percentiles.iter().map(column).collect();
    let row = |row: &Vec<u64>| columns.iter().map(|column| hex(row[*column])).collect::<Vec<_>>();
    let base_fees = recording.base_fee_per_gas[..=count].iter().map(|fee| hex(*fee));
    json!({
        "oldestBlock": hex(recording.oldest_block),
        "baseFeePerGas": base_fees.collect::<Vec<_>>(),
        "gasUsedRatio": recording.gas_used_ratio[..count],
        "reward": recording.reward[..count].iter().map(row).collect::<Vec<_>>(),
    })
}
