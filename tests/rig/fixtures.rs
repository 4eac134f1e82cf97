//! Recorded data, and configurations for tests.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::SystemTime;

use alloy_primitives::hex;
use flate2::Compression;
use flate2::write::GzEncoder;
use gas_suggestion::config::{Chain, Config};
use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::extras::sections;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

pub(crate) fn read(relative: &str) -> Vec<u8> {
    let path = path(relative);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Builds the first transaction of a block of an OP Stack chain, with L1 attributes of this selector: scalars 5,227 and
/// 1,014,213, an L1 base fee of 1,055,991,687 wei, a blob base fee of 1 wei, and an operator fee of 7 and 8.
pub(crate) fn l1_attributes_deposit(selector: &str, length: usize) -> Value {
    let mut input = vec![0_u8; length];
    let mut put = |at: usize, bytes: &[u8]| input[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &hex::decode(selector).unwrap());
    put(4, &5227_u32.to_be_bytes());
    put(8, &1_014_213_u32.to_be_bytes());
    put(28, &23_597_000_u64.to_be_bytes());
    put(52, &1_055_991_687_u128.to_be_bytes());
    put(84, &1_u128.to_be_bytes());
    if length > 164 {
        put(164, &7_u32.to_be_bytes());
        put(168, &8_u64.to_be_bytes());
    }
    let to = "0x4200000000000000000000000000000000000015";
    json!({ "type": "0x7e", "to": to, "input": hex::encode_prefixed(&input) })
}

/// Reads a JSON file.
pub(crate) fn json<T: DeserializeOwned>(relative: &str) -> T {
    serde_json::from_slice(&read(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

/// Returns the lines of a text in pairs, of which the second begins with `=>`.
pub(crate) fn pairs(text: &str) -> Vec<(&str, &str)> {
    let lines: Vec<_> = text.lines().collect();
    lines
        .chunks(2)
        .map(|pair| (pair[0], pair[1].strip_prefix("=>").unwrap().trim_start()))
        .collect()
}

/// Bytes in a JSON file: a text whose characters are bytes, bytes and how often they are repeated, or several of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Repeated(Box<Bytes>, usize),
    Parts(Vec<Bytes>),
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Text(text) => {
                text.chars().map(|byte| u8::try_from(byte).expect("a byte")).collect()
            }
            Bytes::Repeated(bytes, count) => Self::from(*bytes).repeat(count),
            Bytes::Parts(parts) => parts.into_iter().flat_map(Self::from).collect(),
        }
    }
}

/// Compares `text` with the snapshot of this name. `INSTA_UPDATE=always` writes the snapshot instead.
pub(crate) fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(path("tests/fixtures/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Reads a quantity: `0x` and hex digits.
pub(crate) fn quantity(quantity: &Value) -> u128 {
    let digits = quantity.as_str().and_then(|text| text.strip_prefix("0x"));
    u128::from_str_radix(digits.unwrap_or_else(|| panic!("{quantity}")), 16).unwrap()
}

/// Reads a quantity of at most 64 bits.
pub(crate) fn small_quantity(value: &Value) -> u64 {
    quantity(value).try_into().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads a decimal string.
pub(crate) fn wei(amount: &Value) -> u128 {
    amount.as_str().unwrap().parse().unwrap()
}

/// Returns the seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
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

/// Reads a recording of the repository.
pub(crate) fn recording(path: &str) -> DemoRecording {
    DemoRecording::from_gzip(&read(path)).unwrap()
}

/// Builds the fee history of the first `count` recorded blocks with these percentiles.
pub(crate) fn recorded_history(
    recording: &DemoRecording,
    count: usize,
    percentiles: &[f64],
) -> Value {
    let column = |wanted: &f64| {
        let mut recorded = recording.reward_percentiles.iter();
        recorded.position(|percentile| percentile.total_cmp(wanted).is_eq()).unwrap()
    };
    let columns: Vec<_> = percentiles.iter().map(column).collect();
    let first = recording.oldest_block;
    let at = |number: u64| usize::try_from(number - first).unwrap();
    let rewards = |number| {
        let row = &recording.reward[at(number)];
        columns.iter().map(|column| row[*column].into()).collect()
    };
    let base_fee = |number| recording.base_fee_per_gas[at(number)].into();
    let mut history = computed_history(first..=first + count as u64 - 1, base_fee, rewards);
    history["gasUsedRatio"] = json!(recording.gas_used_ratio[..count]);
    history
}

/// Returns the newest `blocks` of the first `mined` blocks of a fee history.
pub(crate) fn window(history: &Value, mined: usize, blocks: usize) -> Value {
    let oldest = mined - blocks;
    let first = small_quantity(&history["oldestBlock"]);
    let part = |name: &str, end: usize| json!(history[name].as_array().unwrap()[oldest..end]);
    json!({
        "oldestBlock": format!("{:#x}", first + oldest as u64),
        "baseFeePerGas": part("baseFeePerGas", mined + 1),
        "gasUsedRatio": part("gasUsedRatio", mined),
        "reward": part("reward", mined),
    })
}

/// Builds the fee history of these blocks, half full, from the base fee and the rewards of each in wei.
pub(crate) fn computed_history(
    numbers: RangeInclusive<u64>,
    base_fee: impl Fn(u64) -> u128,
    rewards: impl Fn(u64) -> Vec<u128>,
) -> Value {
    let hex = |number: u128| format!("{number:#x}");
    let all = || numbers.clone();
    json!({
        "oldestBlock": hex((*numbers.start()).into()),
        "baseFeePerGas": all().chain([numbers.end() + 1]).map(|it| hex(base_fee(it))).collect::<Vec<_>>(),
        "gasUsedRatio": all().map(|_| 0.5).collect::<Vec<_>>(),
        "reward": all().map(|it| rewards(it).into_iter().map(hex).collect()).collect::<Vec<Vec<_>>>(),
    })
}

/// Builds the body of a suggestion from the amounts of its base fee and its tips in wei.
pub(crate) fn suggestion(name: &str, kind: &str, base: u128, [medium, high]: [u128; 2]) -> String {
    let tier = |tip: u128| {
        let max_fee = base + tip;
        format!("{{\"max_priority_fee_per_gas\":\"{tip}\",\"max_fee_per_gas\":\"{max_fee}\"}}")
    };
    format!(
        "{{\"chain_name\":\"{name}\",\"type\":\"{kind}\",\"base_fee_per_gas\":\"{base}\",\
         \"medium\":{},\"high\":{}}}",
        tier(medium),
        tier(high)
    )
}
