//! `eth_feeHistory`: the request, and strict parsing of lenient replies into a [`FeeHistory`].
//!
//! The wire type accepts nearly anything. Its conversion into the domain type decides each deviation from the
//! specification. The first element of each array belongs to `oldestBlock`.
//!
//! | In the reply | Result |
//! |---|---|
//! | `reward` is missing, null, empty or not an array | accepted; without a priority fee floor `price` rejects it |
//! | a row of rewards is null, too short, or has an element that is not a quantity | the block has no rewards |
//! | a reward or a base fee is 0 | a value; `zero_base_fee` in the configuration says what such a base fee means |
//! | fewer blocks than requested | accepted as they are |
//! | more blocks or reward columns than requested | the newest blocks and the first columns are kept |
//! | as many base fees as blocks | the next base fee is unknown |
//! | `baseFeePerBlobGas` is missing, malformed or of another length | the blob base fee is unknown |
//! | `baseFeePerGas` is missing or empty, or has an element that is not a quantity | rejected |
//! | a quantity has leading zeros or is a JSON integer | accepted |
//! | an amount exceeds 128 bits | rejected; [`price`](crate::fees::price) also rejects sums that do |
//! | `oldestBlock` is missing, misspelt, or not a block number (e.g. a hash) | rejected |
//! | a gas ratio is not a number from 0 to 1, e.g. null or `NaN` | unknown for that block |
//! | the lengths of the arrays disagree | the length that fits the base fees counts; `count_mined` has the details |
//!
//! If a node rejects the parameters (−32602), `UpstreamNode` sends the block count in its other form. It keeps the form
//! that works until the node rejects that one. If the node rejects both, and its chain is younger than the window,
//! `UpstreamNode` requests fewer blocks. After a rejected reply the poller tries the next node; if all replies
//! are rejected, the last accepted value stays, with its age.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::quantity::{self, QuantityError};
use crate::fees::{
    BlobBaseFees, Block, FeeHistory, GRADED_PERCENTILES, MAX_PERCENTILES, Pricing, Rewards,
    percentile_numbers,
};

/// Request for blocks up to `latest`, or up to a block number, with the configured percentiles.
#[derive(Debug, Clone)]
pub struct FeeHistoryRequest {
    pub(crate) block_count: usize,
    /// `None`: the latest one.
    pub(crate) newest_block: Option<u64>,
    /// In the order of the columns of [`Rewards`].
    pub(crate) percentiles: Vec<serde_json::Number>,
}

impl FeeHistoryRequest {
    /// Creates the request for this `pricing`.
    #[must_use]
    pub fn new(pricing: &Pricing) -> Self {
        Self {
            block_count: pricing.window_blocks.get(),
            newest_block: None,
            percentiles: percentile_numbers(pricing.percentiles().iter()),
        }
    }

    /// Creates the request for `block_count` blocks up to this one, with the rewards that asks are made of.
    pub(crate) fn for_asks(newest_block: u64, block_count: usize) -> Self {
        let percentiles = percentile_numbers(GRADED_PERCENTILES);
        Self { block_count, newest_block: Some(newest_block), percentiles }
    }

    /// Returns the parameters of the call. The specification requires a hex quantity as the block count; a few nodes accept
    /// only an integer.
    pub(crate) fn params(&self, has_integer_count: bool) -> serde_json::Value {
        let count = if has_integer_count {
            serde_json::Value::from(self.block_count)
        } else {
            format!("{:#x}", self.block_count).into()
        };
        let newest = self.newest_block.map_or("latest".into(), |number| format!("{number:#x}"));
        serde_json::json!([count, newest, self.percentiles])
    }

    /// Parses the `result` of a reply: its newest blocks, at most as many as requested, with the first reward columns.
    ///
    /// # Errors
    ///
    /// Returns [`MalformedFeeHistory`] if base fees or `oldestBlock` are invalid, if an amount exceeds 128 bits, or if
    /// it is unknown which blocks the rewards belong to. Other invalid rewards and gas ratios are dropped instead.
    pub fn parse(&self, result: &RawValue) -> Result<FeeHistory, MalformedFeeHistory> {
        let raw = RawFeeHistory::parse(result.get()).ok_or(MalformedFeeHistory::NotAFeeHistory)?;
        let oldest_block = raw.oldest_block()?;
        let base_fees = raw.base_fees()?;
        let (rewards, ratios) = (elements(raw.reward), elements(raw.gas_used_ratio));
        let mined = self.count_mined(base_fees.len(), ratios.len(), rewards.len())?;
        // With one row more or less, the rows are those of the blocks from the oldest one on.
        if !rewards.is_empty() && rewards.len().abs_diff(mined) > 1 {
            return Err(MalformedFeeHistory::BadLengths);
        }

        let surplus = mined.saturating_sub(self.block_count);
        let mut blocks = Vec::with_capacity(mined.saturating_sub(surplus));
        for (index, &base_fee) in base_fees.iter().enumerate().take(mined).skip(surplus) {
            blocks.push(Block {
                base_fee,
                gas_used_ratio: ratios.get(index).and_then(|json| parse_ratio(json)),
                rewards: match rewards.get(index) {
                    Some(row) => self.parse_rewards(row)?,
                    None => None,
                },
            });
        }
        let oldest_block = u64::try_from(surplus)
            .ok()
            .and_then(|surplus| oldest_block.checked_add(surplus))
            .ok_or(MalformedFeeHistory::BadOldestBlock)?;
        let next_base_fee = base_fees.get(mined).copied();
        // It has as many elements as there are base fees. On a chain without blobs they are absent or 0.
        let blob_fees = elements(raw.base_fee_per_blob_gas);
        let is_complete = next_base_fee.is_some() && blob_fees.len() == base_fees.len();
        let blob_base_fees = match blob_fees.as_slice() {
            [.., latest, next] if is_complete => {
                let [latest, next] = [latest, next].map(|json| quantity::parse(json.get()).ok());
                let fees = latest.zip(next).filter(|(_, next)| *next > 0);
                fees.map(|(latest, next)| BlobBaseFees { latest, next })
            }
            _ => None,
        };
        let mut history = FeeHistory::new(oldest_block, blocks, next_base_fee)
            .ok_or(MalformedFeeHistory::BadOldestBlock)?;
        history.blob_base_fees = blob_base_fees;
        Ok(history)
    }

    /// Returns how many of the base fees belong to mined blocks. For N blocks nodes send N + 1 base fees, with that of
    /// the next block as the last, or N. The lengths of the other arrays decide between the two. If both fit but
    /// disagree, the requested count decides; if that matches neither, or no array has a fitting length, the
    /// specification's N + 1 applies.
    fn count_mined(
        &self,
        base_fees: usize,
        ratios: usize,
        rewards: usize,
    ) -> Result<usize, MalformedFeeHistory> {
        let without_next = base_fees.checked_sub(1).ok_or(MalformedFeeHistory::NoBaseFees)?;
        let fits = |count: &usize| *count > 0 && (*count == base_fees || *count == without_next);
        match ([ratios, rewards].map(|count| Some(count).filter(fits)), rewards) {
            ([Some(stated), Some(other)], _) if stated != other => {
                Ok(if self.block_count == base_fees { base_fees } else { without_next })
            }
            ([Some(stated), _] | [None, Some(stated)], _) => Ok(stated),
            // A wrong number of ratios never invalidates a reply. A wrong number of rewards does, because it is unknown
            // which blocks they belong to.
            ([None, None], 1..) => Err(MalformedFeeHistory::BadLengths),
            ([None, None], 0) if without_next == 0 => Err(MalformedFeeHistory::NoBaseFees),
            ([None, None], 0) => Ok(without_next),
        }
    }

    /// Parses the rewards of one block. A row that is null, too short or malformed counts as missing. An amount above
    /// 128 bits is an error of the node.
    fn parse_rewards(&self, row: &RawValue) -> Result<Option<Rewards>, MalformedFeeHistory> {
        let row = elements(Some(row));
        let Some(row) = row.get(..self.percentiles.len()) else {
            return Ok(None);
        };
        let mut amounts = [0; MAX_PERCENTILES];
        for (amount, json) in amounts.iter_mut().zip(row) {
            *amount = match quantity::parse(json.get()) {
                Ok(reward) => reward,
                Err(QuantityError::Malformed) => return Ok(None),
                Err(QuantityError::TooLarge) => return Err(MalformedFeeHistory::AmountTooLarge),
            };
        }
        Ok(Some(amounts))
    }
}

/// Reason why a `result` is not a usable fee history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MalformedFeeHistory {
    /// Not a JSON object with the members of a fee history, each at most once.
    #[error("the result is not a fee history")]
    NotAFeeHistory,
    /// `oldestBlock` is missing, misspelt or not a block number.
    #[error("`oldestBlock` is missing or not a block number")]
    BadOldestBlock,
    /// `baseFeePerGas` is missing, null or empty, or contains no mined block.
    #[error("`baseFeePerGas` has no mined block")]
    NoBaseFees,
    /// An element of `baseFeePerGas` is null or malformed.
    #[error("`baseFeePerGas` has an element that is not a quantity")]
    BadBaseFee,
    /// The lengths of the arrays contradict each other.
    #[error("the arrays disagree about the number of blocks")]
    BadLengths,
    /// An amount exceeds 128 bits.
    #[error("an amount is over 128 bits")]
    AmountTooLarge,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFeeHistory<'a> {
    #[serde(borrow)]
    oldest_block: Option<&'a RawValue>,
    base_fee_per_gas: Option<&'a RawValue>,
    base_fee_per_blob_gas: Option<&'a RawValue>,
    gas_used_ratio: Option<&'a RawValue>,
    reward: Option<&'a RawValue>,
}

impl<'a> RawFeeHistory<'a> {
    fn parse(json: &'a str) -> Option<Self> {
        // A derived deserializer would also accept an array of the members in order.
        json.starts_with('{').then(|| serde_json::from_str(json).ok())?
    }

    fn oldest_block(&self) -> Result<u64, MalformedFeeHistory> {
        self.oldest_block
            .and_then(|json| quantity::parse(json.get()).ok())
            .and_then(|number| u64::try_from(number).ok())
            .ok_or(MalformedFeeHistory::BadOldestBlock)
    }

    fn base_fees(&self) -> Result<Vec<u128>, MalformedFeeHistory> {
        let fee = |json: &&RawValue| {
            quantity::parse(json.get()).map_err(|error| match error {
                QuantityError::Malformed => MalformedFeeHistory::BadBaseFee,
                QuantityError::TooLarge => MalformedFeeHistory::AmountTooLarge,
            })
        };
        elements(self.base_fee_per_gas).iter().map(fee).collect()
    }
}

fn parse_ratio(json: &RawValue) -> Option<f64> {
    let ratio: f64 = json.get().parse().ok()?;
    // `abs` turns a negative zero into zero.
    (0.0..=1.0).contains(&ratio).then(|| ratio.abs())
}

/// Returns the elements of a JSON array; none if the value is not an array.
fn elements(json: Option<&RawValue>) -> Vec<&RawValue> {
    json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
