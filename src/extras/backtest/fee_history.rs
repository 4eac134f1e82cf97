//! Parser of a fee history as JSON, with any number of percentiles.
//!
//! A recording may have been edited, so this parser is strict where the service is lenient: it reports a wrong member
//! with its path and guesses nothing. A reward or a ratio may be missing.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::recording::RecordedBlock;
use super::recording_error::RecordingError;
use crate::nodes::{QuantityError, parse_quantity};

/// One parsed fee history.
#[derive(Debug)]
pub(crate) struct FeeHistoryPart {
    pub(crate) oldest_block: u64,
    pub(crate) blocks: Vec<RecordedBlock>,
    /// Empty if there are no rewards.
    pub(crate) percentiles: Vec<f64>,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "the result object of eth_feeHistory")]
struct WireFeeHistory<'a> {
    #[serde(borrow)]
    oldest_block: Option<&'a RawValue>,
    base_fee_per_gas: Option<Vec<&'a RawValue>>,
    gas_used_ratio: Option<Vec<&'a RawValue>>,
    reward: Option<Vec<Option<Vec<&'a RawValue>>>>,
    reward_percentiles: Option<Vec<f64>>,
}

/// Parses a result, or a whole JSON-RPC reply. `percentiles` are those of the rewards, if the file does not state them.
pub(crate) fn parse(
    json: &str,
    percentiles: Option<&[f64]>,
) -> Result<FeeHistoryPart, RecordingError> {
    // A derived deserializer would also accept an array of the members in order.
    if !json.trim_start().starts_with('{') {
        return Err(RecordingError::invalid("", "expected the result object of eth_feeHistory"));
    }
    let reply: Reply<'_> = serde_json::from_str(json)?;
    match reply {
        Reply { error: Some(_), .. } => {
            Err(RecordingError::invalid("error", "found a node's error instead of a fee history"))
        }
        Reply { result: Some(result), .. } => parse_result(result.get(), percentiles),
        Reply { result: None, error: None } => parse_result(json, percentiles),
    }
}

fn parse_result(json: &str, percentiles: Option<&[f64]>) -> Result<FeeHistoryPart, RecordingError> {
    let wire: WireFeeHistory<'_> = serde_json::from_str(json)?;
    let oldest_block =
        wire.oldest_block.ok_or_else(|| RecordingError::invalid("oldestBlock", "missing"))?;
    let oldest_block = parse_amount(oldest_block, || "oldestBlock".into())?;
    let oldest_block = u64::try_from(oldest_block)
        .map_err(|_| RecordingError::invalid("oldestBlock", "no block has that number"))?;
    let base_fees = wire.base_fee_per_gas.unwrap_or_default();
    let ratios = wire.gas_used_ratio;
    let rows = wire.reward.unwrap_or_default();
    let count = count_blocks(base_fees.len(), ratios.as_ref().map(Vec::len), rows.len())?;
    let has_rewards = rows.iter().flatten().any(|row| !row.is_empty());
    let percentiles = if has_rewards {
        validated_percentiles(wire.reward_percentiles.as_deref().or(percentiles))?.to_vec()
    } else {
        Vec::new()
    };

    let mut blocks = Vec::with_capacity(count);
    let ratios = ratios.unwrap_or_default();
    for (index, base_fee) in base_fees.into_iter().take(count).enumerate() {
        let ratio = ratios.get(index).map(|json| parse_ratio(json, index)).transpose()?;
        let row = rows.get(index).and_then(Option::as_deref).unwrap_or_default();
        blocks.push(RecordedBlock {
            base_fee: parse_amount(base_fee, || format!("baseFeePerGas[{index}]"))?,
            gas_used_ratio: ratio.flatten(),
            rewards: parse_rewards(row, percentiles.len(), index)?,
        });
    }
    let last = u64::try_from(count).ok().and_then(|count| oldest_block.checked_add(count));
    last.ok_or_else(|| RecordingError::invalid("oldestBlock", "no block has that number"))?;
    Ok(FeeHistoryPart { oldest_block, blocks, percentiles })
}

/// Returns the number of mined blocks. The base fees may include that of the next block.
fn count_blocks(
    base_fees: usize,
    ratios: Option<usize>,
    rows: usize,
) -> Result<usize, RecordingError> {
    let count = ratios.filter(|count| *count > 0).or((rows > 0).then_some(rows));
    let count = count.unwrap_or(base_fees.saturating_sub(1));
    if count == 0 {
        return Err(RecordingError::invalid("baseFeePerGas", "has no mined block"));
    }
    if base_fees != count && base_fees != count.saturating_add(1) {
        let problem = format!("has {base_fees} amounts, but there are {count} blocks");
        return Err(RecordingError::invalid("baseFeePerGas", problem));
    }
    if rows != 0 && rows != count {
        return Err(RecordingError::invalid(
            "reward",
            format!("has {rows} rows for {count} blocks"),
        ));
    }
    Ok(count)
}

/// Returns percentiles from 0 to 100 in ascending order.
fn validated_percentiles(percentiles: Option<&[f64]>) -> Result<&[f64], RecordingError> {
    const LOCATION: &str = "rewardPercentiles";
    let percentiles = percentiles.ok_or_else(|| {
        RecordingError::invalid(
            LOCATION,
            "the percentiles of the rewards are unknown; set --percentiles",
        )
    })?;
    if !are_valid_percentiles(percentiles) {
        return Err(RecordingError::invalid(LOCATION, "must be from 0 to 100 in ascending order"));
    }
    Ok(percentiles)
}

/// Returns true if a node accepts these percentiles.
pub(crate) fn are_valid_percentiles(percentiles: &[f64]) -> bool {
    percentiles.iter().all(|percentile| (0.0..=100.0).contains(percentile))
        && percentiles.is_sorted_by(|one, next| one < next)
}

/// Parses a block's rewards. `None`: the row is missing or empty.
fn parse_rewards(
    row: &[&RawValue],
    columns: usize,
    index: usize,
) -> Result<Option<Vec<u128>>, RecordingError> {
    if row.is_empty() {
        return Ok(None);
    }
    if row.len() != columns {
        let problem = format!("has {} amounts for {columns} percentiles", row.len());
        return Err(RecordingError::invalid(format!("reward[{index}]"), problem));
    }
    let location = |column: usize| move || format!("reward[{index}][{column}]");
    let amounts = row.iter().enumerate().map(|(column, json)| parse_amount(json, location(column)));
    amounts.collect::<Result<_, _>>().map(Some)
}

fn parse_amount(
    json: &RawValue,
    location: impl FnOnce() -> String,
) -> Result<u128, RecordingError> {
    parse_quantity(json.get()).map_err(|problem| match problem {
        QuantityError::Malformed => {
            RecordingError::invalid(location(), "not a quantity such as \"0x3b9aca00\"")
        }
        QuantityError::TooLarge => RecordingError::invalid(location(), "over 128 bits"),
    })
}

/// Parses a ratio. `None`: unknown or impossible.
fn parse_ratio(json: &RawValue, index: usize) -> Result<Option<f64>, RecordingError> {
    let ratio: Option<f64> = serde_json::from_str(json.get())
        .map_err(|_| RecordingError::invalid(format!("gasUsedRatio[{index}]"), "not a number"))?;
    Ok(ratio.filter(|ratio| (0.0..=1.0).contains(ratio)))
}
