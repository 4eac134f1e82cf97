//! Consecutive real blocks of one chain, as one `eth_feeHistory` result recorded with many
//! percentiles.

use std::io::Read;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Replies of a chain's node about its blocks, unchanged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DemoRecording {
    /// The chain that was recorded.
    pub chain_id: u64,
    /// The percentiles that [`reward`](Self::reward) has, ascending.
    pub reward_percentiles: Vec<f64>,
    /// The number of the first block.
    #[serde(deserialize_with = "quantity")]
    pub oldest_block: u64,
    /// In wei; one more than there are blocks.
    #[serde(deserialize_with = "quantities")]
    pub base_fee_per_gas: Vec<u64>,
    /// One a block.
    pub gas_used_ratio: Vec<f64>,
    /// In wei; one row a block, one column a percentile.
    #[serde(deserialize_with = "rows_of_quantities")]
    pub reward: Vec<Vec<u64>>,
}

/// Why bytes are no recording.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRecording {
    /// Not gzip.
    #[error("not a gzip file")]
    Gzip(#[from] std::io::Error),
    /// Not the JSON object of a recording.
    #[error("not a recording")]
    Json(#[from] serde_json::Error),
    /// The lists do not fit together.
    #[error("the lists of the recording differ in length")]
    LengthMismatch,
}

impl DemoRecording {
    /// Reads the gzipped JSON form.
    ///
    /// # Errors
    ///
    /// [`InvalidRecording`] if the bytes are anything else.
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

    /// How many blocks there are; at least one.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.gas_used_ratio.len()
    }

    /// The column of `percentile` in [`reward`](Self::reward), when it was recorded.
    #[must_use]
    pub fn column(&self, percentile: f64) -> Option<usize> {
        // The recorded percentiles are whole numbers, which compare exactly.
        #[expect(clippy::float_cmp, reason = "an unrecorded percentile has no column")]
        self.reward_percentiles.iter().position(|recorded| *recorded == percentile)
    }
}

struct Quantity(u64);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let digits = text.strip_prefix("0x").ok_or_else(|| D::Error::custom("no 0x"))?;
        u64::from_str_radix(digits, 16).map(Self).map_err(D::Error::custom)
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
