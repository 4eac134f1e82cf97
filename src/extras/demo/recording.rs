//! Consecutive real blocks of one chain, recorded as one `eth_feeHistory` result with many percentiles.

use std::io::Read;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::nodes::parse_hex;

/// A node's recorded replies about the blocks of a chain.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DemoRecording {
    /// Chain id of the recorded chain.
    pub chain_id: u64,
    /// Percentiles of [`reward`](Self::reward), in ascending order.
    pub reward_percentiles: Vec<f64>,
    /// Number of the first block.
    #[serde(deserialize_with = "quantity")]
    pub oldest_block: u64,
    /// In wei; one more than there are blocks.
    #[serde(deserialize_with = "quantities")]
    pub base_fee_per_gas: Vec<u64>,
    /// One per block.
    pub gas_used_ratio: Vec<f64>,
    /// In wei; one row per block, one column per percentile.
    #[serde(deserialize_with = "rows_of_quantities")]
    pub reward: Vec<Vec<u64>>,
}

/// Reason why bytes are not a recording.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRecording {
    /// Not gzip.
    #[error("not a gzip file")]
    Gzip(#[from] std::io::Error),
    /// Not the JSON object of a recording.
    #[error("not a recording")]
    Json(#[from] serde_json::Error),
    /// The lengths of the lists do not match.
    #[error("the lists of the recording differ in length")]
    LengthMismatch,
}

impl DemoRecording {
    /// Parses gzipped JSON.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRecording`] if the bytes are not a recording.
    pub fn from_gzip(bytes: &[u8]) -> Result<Self, InvalidRecording> {
        let mut json = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut json)?;
        let recording: Self = serde_json::from_slice(&json)?;
        let (blocks, columns) =
            (recording.gas_used_ratio.len(), recording.reward_percentiles.len());
        let lengths_match = blocks > 0
            && recording.base_fee_per_gas.len() == blocks.saturating_add(1)
            && recording.reward.len() == blocks
            && recording.reward.iter().all(|row| row.len() == columns);
        if lengths_match { Ok(recording) } else { Err(InvalidRecording::LengthMismatch) }
    }

    /// Number of blocks; at least one.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.gas_used_ratio.len()
    }

    /// Returns the column of `percentile` in [`reward`](Self::reward), if it was recorded.
    #[must_use]
    pub fn column(&self, percentile: f64) -> Option<usize> {
        // Recorded percentiles are integers, which compare exactly.
        #[expect(clippy::float_cmp, reason = "an unrecorded percentile has no column")]
        self.reward_percentiles.iter().position(|recorded| *recorded == percentile)
    }
}

struct Quantity(u64);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        parse_hex(&text).map(Self).ok_or_else(|| D::Error::custom("not a quantity"))
    }
}

fn quantity<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    Ok(Quantity::deserialize(input)?.0)
}

fn quantities<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u64>, D::Error> {
    Ok(Vec::<Quantity>::deserialize(input)?.into_iter().map(|hex| hex.0).collect())
}

fn rows_of_quantities<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Vec<u64>>, D::Error> {
    let rows = Vec::<Vec<Quantity>>::deserialize(input)?;
    Ok(rows.into_iter().map(|row| row.into_iter().map(|hex| hex.0).collect()).collect())
}
