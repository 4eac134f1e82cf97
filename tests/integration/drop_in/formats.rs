//! The formats of other gas services, each as strict as the strictest of its readers that cannot run here: Blockbook,
//! Status and Komodo (`MetaMask`'s and Blocknative's formats), rrelayer, Safe and foundry (Etherscan's format).

use std::fmt::Display;

use alloy_primitives::utils::parse_units;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads a document. Every member is required, and none may be `null` unless its type is optional.
pub(crate) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(text)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// An amount of gwei in a string, in wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct Text(pub(crate) u128);

/// An amount of gwei as a JSON number, in wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) u128);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wei(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        wei(json.get()).map(Self).map_err(D::Error::custom)
    }
}

/// Converts gwei to wei. Returns an error for another notation than digits with up to nine decimals, and for an amount
/// that its readers would change.
///
/// Blockbook, Status, Komodo and Safe read it as a double. Safe rounds to the wei. The others cut off what is below a
/// wei, so they may be one wei low.
pub(crate) fn wei(gwei: &str) -> Result<u128, String> {
    let decimals = gwei.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let is_plain = gwei.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if decimals > 9 || !is_plain || !gwei.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!("{gwei} is not a decimal with up to nine places"));
    }
    let exact: u128 = parse_units(gwei, "gwei").map_err(text)?.get_absolute().to();
    let double = gwei.parse::<f64>().map_err(text)? * 1e9;
    let read = |double: f64| format!("{double:.0}").parse::<u128>().map_err(text);
    let (rounded, cut) = (read(double.round())?, read(double.trunc())?);
    if rounded != exact || cut > exact || exact - cut > 1 {
        return Err(format!("{gwei} is read as {rounded} wei or {cut} wei"));
    }
    Ok(exact)
}

/// Tip and max fee of a level. Waits are whole numbers: of milliseconds in `MetaMask`'s format, which requires them, of
/// seconds in rrelayer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Level<Wait> {
    suggested_max_priority_fee_per_gas: Text,
    suggested_max_fee_per_gas: Text,
    pub(crate) min_wait_time_estimate: Wait,
    pub(crate) max_wait_time_estimate: Wait,
}

impl<Wait> Level<Wait> {
    /// Returns tip and max fee, in wei.
    pub(crate) fn fees(&self) -> [u128; 2] {
        [self.suggested_max_priority_fee_per_gas.0, self.suggested_max_fee_per_gas.0]
    }
}

/// `MetaMask`'s format: trezor/blockbook `infurafees.go` at a83486e3309a, status-im/go-wallet-sdk `infura/types.go` at
/// 3d354d34bced, and KomodoPlatform/komodo-defi-framework `eip1559/infura.rs` at a9fbf6096257.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "its readers require all members")]
pub(crate) struct MetaMask {
    pub(crate) low: Level<u32>,
    pub(crate) medium: Level<u32>,
    pub(crate) high: Level<u32>,
    pub(crate) estimated_base_fee: Text,
    pub(crate) network_congestion: f64,
    pub(crate) latest_priority_fee_range: Vec<Text>,
    pub(crate) historical_priority_fee_range: Vec<Text>,
    pub(crate) historical_base_fee_range: Vec<Text>,
    priority_fee_trend: String,
    base_fee_trend: String,
    /// Status takes it as a text.
    #[serde(default)]
    version: String,
}

/// Blocknative's format: KomodoPlatform/komodo-defi-framework `eip1559/block_native.rs` at a9fbf6096257.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "its readers require all members")]
pub(crate) struct Blocknative {
    system: String,
    network: String,
    unit: String,
    max_price: Number,
    current_block_number: u32,
    ms_since_last_block: u32,
    pub(crate) block_prices: [BlockPrices; 1],
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "its readers require all members")]
pub(crate) struct BlockPrices {
    pub(crate) block_number: u32,
    estimated_transaction_count: u32,
    pub(crate) base_fee_per_gas: Number,
    pub(crate) estimated_prices: Vec<EstimatedPrice>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EstimatedPrice {
    pub(crate) confidence: u32,
    pub(crate) price: Number,
    pub(crate) max_priority_fee_per_gas: Number,
    pub(crate) max_fee_per_gas: Number,
}

impl BlockPrices {
    /// Returns the levels that Komodo takes for high, medium and low: the first three, whatever their confidence. With
    /// fewer it uses zeros.
    pub(crate) fn levels(&self) -> Result<[&EstimatedPrice; 3], String> {
        let levels: Vec<_> = self.estimated_prices.iter().take(3).collect();
        levels.try_into().map_err(|levels| format!("too few levels: {levels:?}"))
    }
}

/// rrelayer's format: joshstevens19/rrelayer `fee_estimator/custom.rs` at dc8a4063ed7c.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rrelayer {
    pub(crate) slow: Level<Option<i64>>,
    pub(crate) medium: Level<Option<i64>>,
    pub(crate) fast: Level<Option<i64>>,
    pub(crate) super_fast: Level<Option<i64>>,
}

/// Etherscan's format: foundry-rs/block-explorers `gas.rs` at f41cbd48899a, and safe-global/safe-wallet-monorepo
/// `useDefaultGasPrice.ts` at 0aa27aff8473.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "its readers require all members")]
pub(crate) struct Etherscan {
    status: String,
    message: String,
    pub(crate) result: GasOracle,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct GasOracle {
    pub(crate) safe_gas_price: Text,
    pub(crate) propose_gas_price: Text,
    pub(crate) fast_gas_price: Text,
    #[serde(deserialize_with = "number_from_text")]
    pub(crate) last_block: u64,
    #[serde(rename = "suggestBaseFee")]
    pub(crate) suggest_base_fee: Text,
    #[serde(rename = "gasUsedRatio", deserialize_with = "numbers_from_text")]
    pub(crate) gas_used_ratio: Vec<f64>,
}

impl GasOracle {
    pub(crate) fn prices(&self) -> [u128; 3] {
        [self.safe_gas_price.0, self.propose_gas_price.0, self.fast_gas_price.0]
    }

    /// Returns the tip and the max fee that Safe takes.
    pub(crate) fn safe_fees(&self) -> Option<[u128; 2]> {
        let (max_fee, base_fee) = (self.fast_gas_price.0, self.suggest_base_fee.0);
        Some([max_fee.checked_sub(base_fee)?, max_fee])
    }
}

fn number_from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn numbers_from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = String::deserialize(deserializer)?;
    numbers.split(',').map(|number| number.parse().map_err(D::Error::custom)).collect()
}

mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::{Blocknative, Etherscan, MetaMask, Rrelayer, parse};
    use crate::fixtures;

    #[test]
    fn documented_samples_are_read_to_the_wei() {
        let samples: HashMap<String, Value> = fixtures::json("tests/fixtures/gas-services.json");
        let samples = samples.into_iter().map(|(name, sample)| (name, sample.to_string()));
        let samples: HashMap<_, _> = samples.collect();
        let metamask: MetaMask = parse(&samples["metamask"]).unwrap();
        assert_eq!(metamask.medium.fees(), [1_148_315_423, 15_317_625_653]);
        assert_eq!(metamask.estimated_base_fee.0, 9_908_608_552);
        let blocknative: Blocknative = parse(&samples["blocknative"]).unwrap();
        let [block] = &blocknative.block_prices;
        let fees = block.levels().unwrap().map(|level| level.max_fee_per_gas.0);
        assert_eq!(fees, [72_760_000_000, 72_670_000_000, 72_630_000_000]);
        let rrelayer: Rrelayer = parse(&samples["rrelayer"]).unwrap();
        assert_eq!(rrelayer.super_fast.fees(), [28_000_000_000, 68_000_000_000]);
        let oracle = parse::<Etherscan>(&samples["etherscan"]).unwrap().result;
        assert_eq!(oracle.safe_fees(), Some([24_000_000_000 - 19_230_609_716, 24_000_000_000]));
        assert_eq!((oracle.last_block, oracle.gas_used_ratio.len()), (13_053_741, 3));
    }
}
