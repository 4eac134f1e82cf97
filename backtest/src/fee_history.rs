//! Parser of a fee history as JSON, with any number of percentiles.
//!
//! A recording may have been edited, so this parser is strict where the service is lenient: it reports a wrong member
//! with its path and guesses nothing. A reward or a ratio may be missing.

use anyhow::{Context, bail, ensure};
use gas_suggestion::nodes::parse_quantity;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};
use serde_json::value::RawValue;

use crate::recording::{RecordedBlock, Recording};

#[derive(serde::Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", expecting = "the result object of eth_feeHistory")]
struct WireFeeHistory {
    oldest_block: Quantity,
    base_fee_per_gas: Option<Vec<Quantity>>,
    gas_used_ratio: Option<Vec<Option<f64>>>,
    reward: Option<Vec<Option<Vec<Quantity>>>>,
    reward_percentiles: Option<Vec<f64>>,
}

struct Quantity(u128);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let json: &RawValue = Deserialize::deserialize(input)?;
        parse_quantity(json.get()).map(Self).map_err(D::Error::custom)
    }
}

/// Parses a result, or a whole JSON-RPC reply, into a recording without a name. `percentiles` are those of the rewards, if
/// the file does not state them.
pub fn parse(json: &str, percentiles: Option<&[f64]>) -> anyhow::Result<Recording> {
    // A derived deserializer would also accept an array of the members in order.
    ensure!(json.trim_start().starts_with('{'), "expected the result object of eth_feeHistory");
    let reply: Reply<'_> = serde_json::from_str(json).context("not a fee history")?;
    if reply.error.is_some() {
        bail!("error: found a node's error instead of a fee history");
    }
    let result = reply.result.map_or(json, RawValue::get);
    let mut input = serde_json::Deserializer::from_str(result);
    let wire: WireFeeHistory =
        serde_path_to_error::deserialize(&mut input).context("not a fee history")?;

    let oldest_block = u64::try_from(wire.oldest_block.0).ok();
    let base_fees = wire.base_fee_per_gas.unwrap_or_default();
    let ratios = wire.gas_used_ratio.unwrap_or_default();
    let rows = wire.reward.unwrap_or_default();
    let count = [ratios.len(), rows.len(), base_fees.len().saturating_sub(1)];
    let count = count.into_iter().find(|count| *count > 0).unwrap_or_default();
    ensure!(count > 0, "baseFeePerGas: has no mined block");
    let fees = base_fees.len();
    // They may include that of the next block.
    ensure!(
        fees == count || fees == count + 1,
        "baseFeePerGas: has {fees} amounts, but there are {count} blocks"
    );
    let is_complete = rows.is_empty() || rows.len() == count;
    ensure!(is_complete, "reward: has {} rows for {count} blocks", rows.len());
    let oldest_block = oldest_block.filter(|block| block.checked_add(count as u64).is_some());
    let oldest_block = oldest_block.context("oldestBlock: no block has that number")?;
    let has_rewards = rows.iter().flatten().any(|row| !row.is_empty());
    let percentiles = if has_rewards {
        let percentiles = wire.reward_percentiles.or(percentiles.map(<[f64]>::to_vec)).context(
            "rewardPercentiles: the percentiles of the rewards are unknown; set --percentiles",
        )?;
        let are_valid = percentiles.iter().all(|percentile| (0.0..=100.0).contains(percentile))
            && percentiles.is_sorted_by(|one, next| one < next);
        ensure!(are_valid, "rewardPercentiles: must be from 0 to 100 in ascending order");
        percentiles
    } else {
        Vec::new()
    };

    let mut rows = rows.into_iter();
    let mut blocks = Vec::with_capacity(count);
    for (index, base_fee) in base_fees.into_iter().take(count).enumerate() {
        let row = rows.next().flatten().filter(|row| !row.is_empty());
        let (found, expected) =
            (row.as_ref().map_or(percentiles.len(), Vec::len), percentiles.len());
        ensure!(
            found == expected,
            "reward[{index}]: has {found} amounts for {expected} percentiles"
        );
        let ratio = ratios.get(index).copied().flatten();
        blocks.push(RecordedBlock {
            base_fee: base_fee.0,
            gas_used_ratio: ratio.filter(|ratio| (0.0..=1.0).contains(ratio)),
            rewards: row.map(|row| row.into_iter().map(|reward| reward.0).collect()),
        });
    }
    Ok(Recording { name: String::new(), oldest_block, percentiles, blocks })
}
