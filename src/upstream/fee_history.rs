//! `eth_feeHistory`: what is asked, and the way from what nodes really send to a [`FeeHistory`].
//!
//! The wire type takes almost anything; turning it into the domain type decides each oddity.
//! Entries of all four arrays count from `oldestBlock`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::quantity::{self, QuantityError};
use crate::config::Pricing;
use crate::fees::{Block, FeeHistory, Rewards};

/// Request for `window_blocks` blocks up to `latest` with the configured percentiles.
#[derive(Debug, Clone)]
pub struct FeeHistoryRequest {
    block_count: usize,
    percentiles: Vec<serde_json::Number>,
}

/// How the block count is written. The method's specification wants a quantity; a few nodes take
/// only a JSON integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockCountEncoding {
    Quantity,
    Integer,
}

impl BlockCountEncoding {
    /// Alternative form if the node rejects this one.
    pub(super) fn alternative(self) -> Self {
        match self {
            Self::Quantity => Self::Integer,
            Self::Integer => Self::Quantity,
        }
    }
}

impl FeeHistoryRequest {
    /// The request that `pricing` needs.
    #[must_use]
    pub fn new(pricing: &Pricing) -> Self {
        Self {
            block_count: pricing.window_blocks.get(),
            percentiles: pricing.percentiles().as_slice().to_vec(),
        }
    }

    pub(super) fn params(&self, encoding: BlockCountEncoding) -> serde_json::Value {
        let count = match encoding {
            BlockCountEncoding::Quantity => format!("{:#x}", self.block_count).into(),
            BlockCountEncoding::Integer => serde_json::Value::from(self.block_count),
        };
        serde_json::json!([count, "latest", self.percentiles])
    }

    /// Decides what the `result` of a reply says: its newest blocks, at most as many as were
    /// asked for, with the first reward columns.
    ///
    /// # Errors
    ///
    /// [`MalformedFeeHistory`] if base fees or block numbers cannot be believed. Rewards and gas ratios
    /// that cannot be read are left out instead.
    pub fn parse(&self, result: &RawValue) -> Result<FeeHistory, MalformedFeeHistory> {
        let raw = RawFeeHistory::parse(result.get()).ok_or(MalformedFeeHistory::NotAnObject)?;
        let oldest_block = raw.oldest_block()?;
        let base_fees = raw.base_fees()?;
        let (rewards, ratios) = (elements(raw.reward), elements(raw.gas_used_ratio));
        let mined = self.count_mined(base_fees.len(), ratios.len(), rewards.len())?;

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
            .ok_or(MalformedFeeHistory::InvalidOldestBlock)?;
        let next_base_fee = base_fees.get(mined).copied();
        FeeHistory::new(oldest_block, blocks, next_base_fee)
            .ok_or(MalformedFeeHistory::InvalidOldestBlock)
    }

    /// How many of the base fees are mined blocks'. Nodes send N+1 of them for N blocks, the last
    /// being the next block's, or N; the other arrays tell which. Where those disagree, the count
    /// that was asked for decides; without a word from them, or where that does not help, the
    /// specification's N+1 holds.
    fn count_mined(
        &self,
        base_fees: usize,
        ratios: usize,
        rewards: usize,
    ) -> Result<usize, MalformedFeeHistory> {
        let without_next = base_fees.checked_sub(1).ok_or(MalformedFeeHistory::NoMinedBaseFees)?;
        let fits = |count: &usize| *count > 0 && (*count == base_fees || *count == without_next);
        match ([ratios, rewards].map(|count| Some(count).filter(fits)), rewards) {
            ([Some(stated), Some(other)], _) if stated != other => {
                Ok(if self.block_count == base_fees { base_fees } else { without_next })
            }
            ([Some(stated), _] | [None, Some(stated)], _) => Ok(stated),
            // A wrong number of ratios never makes a reply unusable. A wrong number of rewards does, because
            // their blocks are unknown.
            ([None, None], 1..) => Err(MalformedFeeHistory::LengthMismatch),
            ([None, None], 0) if without_next == 0 => Err(MalformedFeeHistory::NoMinedBaseFees),
            ([None, None], 0) => Ok(without_next),
        }
    }

    /// One block's rewards. A row that is null, too short or holds something else than quantities
    /// counts as no row; an amount over 128 bits is a broken node's.
    fn parse_rewards(&self, row: &RawValue) -> Result<Option<Rewards>, MalformedFeeHistory> {
        let row = elements(Some(row));
        let Some(row) = row.get(..self.percentiles.len()) else {
            return Ok(None);
        };
        let mut amounts = [None; 2];
        for (amount, json) in amounts.iter_mut().zip(row) {
            *amount = match quantity::parse(json.get()) {
                Ok(reward) => Some(reward),
                Err(QuantityError::Malformed) => return Ok(None),
                Err(QuantityError::TooLarge) => return Err(MalformedFeeHistory::AmountTooLarge),
            };
        }
        let [medium, high] = amounts;
        Ok(medium.map(|medium| Rewards { medium, high }))
    }
}

/// Why a `result` is no fee history that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFeeHistory {
    /// Not a JSON object with the members of a fee history, each at most once.
    #[error("the result is not a fee history")]
    NotAnObject,
    /// `oldestBlock` is missing, misspelt, malformed, or no block number.
    #[error("`oldestBlock` is missing or not a block number")]
    InvalidOldestBlock,
    /// `baseFeePerGas` is missing, null or empty, or leaves no mined block.
    #[error("`baseFeePerGas` has no mined block")]
    NoMinedBaseFees,
    /// An element of `baseFeePerGas` is null or malformed.
    #[error("`baseFeePerGas` has an element that is not a quantity")]
    InvalidBaseFee,
    /// The arrays disagree about how many blocks there are.
    #[error("the arrays disagree about the number of blocks")]
    LengthMismatch,
    /// An amount is over 128 bits.
    #[error("an amount is over 128 bits")]
    AmountTooLarge,
}

impl MalformedFeeHistory {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NotAnObject => "not_a_fee_history",
            Self::InvalidOldestBlock => "bad_oldest_block",
            Self::NoMinedBaseFees => "no_base_fees",
            Self::InvalidBaseFee => "bad_base_fee",
            Self::LengthMismatch => "bad_lengths",
            Self::AmountTooLarge => "amount_too_large",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFeeHistory<'a> {
    #[serde(borrow)]
    oldest_block: Option<&'a RawValue>,
    base_fee_per_gas: Option<&'a RawValue>,
    gas_used_ratio: Option<&'a RawValue>,
    reward: Option<&'a RawValue>,
}

impl<'a> RawFeeHistory<'a> {
    fn parse(json: &'a str) -> Option<Self> {
        // A derived reader would also take an array of the members in order.
        json.starts_with('{').then(|| serde_json::from_str(json).ok())?
    }

    fn oldest_block(&self) -> Result<u64, MalformedFeeHistory> {
        self.oldest_block
            .and_then(|json| quantity::parse(json.get()).ok())
            .and_then(|number| u64::try_from(number).ok())
            .ok_or(MalformedFeeHistory::InvalidOldestBlock)
    }

    fn base_fees(&self) -> Result<Vec<u128>, MalformedFeeHistory> {
        let fee = |json: &&RawValue| {
            quantity::parse(json.get()).map_err(|error| match error {
                QuantityError::Malformed => MalformedFeeHistory::InvalidBaseFee,
                QuantityError::TooLarge => MalformedFeeHistory::AmountTooLarge,
            })
        };
        elements(self.base_fee_per_gas).iter().map(fee).collect()
    }
}

fn parse_ratio(json: &RawValue) -> Option<f64> {
    let ratio: f64 = json.get().parse().ok()?;
    // `abs` makes a negative zero plain.
    (0.0..=1.0).contains(&ratio).then(|| ratio.abs())
}

/// The elements of a JSON array; none when it is something else.
fn elements(json: Option<&RawValue>) -> Vec<&RawValue> {
    json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
