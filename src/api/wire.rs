//! JSON form of the domain's types. Amounts are wei as decimal strings, because most JSON parsers would round a number.

use serde::Serialize;
use utoipa::ToSchema;

use crate::fees;
pub(crate) use crate::store::wire::{PricingType, SuggestionBody, TierBody, Wei};

/// Rule that computes the suggestion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::Strategy", rename_all = "lowercase")]
pub(crate) enum Strategy {
    /// The network's own rule.
    Network,
    /// Tips that are enough for a chosen share of blocks. Until 20 asks are known, the network's rule replaces it.
    Calibrated,
}

/// Configured floors that raised the suggestion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::FloorsApplied")]
pub(crate) struct FloorsApplied {
    /// The base fee of the strategy was below its floor.
    base_fee: bool,
    /// The priority fee of recent blocks was below a floor above 1 wei, or unknown.
    priority_fee: bool,
}

/// Configured floors of more than ten times what the market pays.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::FloorsAboveMarket")]
pub(crate) struct FloorsAboveMarket {
    /// The average base fee is less than a tenth of its floor.
    base_fee: bool,
    /// The average reward is less than a tenth of the priority fee floor.
    priority_fee: bool,
}

/// Gas used divided by gas limit, from 0 to 1; `None` if the node returned no credible ratio.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::GasUsedRatios")]
#[schema(as = GasUsedRatio)]
pub(crate) struct GasUsedRatios {
    /// Ratio of the newest block.
    #[schema(required, minimum = 0, maximum = 1)]
    latest: Option<f64>,
    /// Average of the blocks that have a ratio.
    #[schema(required, minimum = 0, maximum = 1)]
    average: Option<f64>,
}

/// The next base fee compared with the window's average.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::Trend", rename_all = "lowercase")]
pub(crate) enum Trend {
    /// More than 5 % above it.
    Rising,
    /// Within 5 % of it.
    Stable,
    /// More than 5 % below it.
    Falling,
}

/// Number of coming blocks, all of them full, that a tier's max fee covers; `null` if the source of `chain_parameters` is
/// `unknown`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::FullBlocksCovered")]
#[schema(as = CoveredBlocks)]
pub(crate) struct FullBlocksCovered {
    /// With medium's max fee.
    #[schema(required, maximum = 100)]
    medium: Option<u8>,
    /// With high's max fee.
    #[schema(required, maximum = 100)]
    high: Option<u8>,
}

/// How the chain moves its base fee.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainParameters {
    /// A full block raises the base fee by 1/n of it; `null` if the source is `unknown`. An OP Stack chain's own n is its
    /// denominator divided by its elasticity less 1.
    #[schema(required, pattern = "^[1-9][0-9]*$")]
    base_fee_change_denominator: Option<String>,
    /// An empty block lowers the base fee by 1/n of it; `null` if the source is `unknown`.
    #[schema(required, pattern = "^[1-9][0-9]*$")]
    empty_block_denominator: Option<String>,
    /// Lowest base fee of the chain: that of its headers, else the configured floor; `null` if neither is known.
    #[schema(required)]
    minimum_base_fee: Option<Wei>,
    /// Source of `base_fee_change_denominator`.
    source: DenominatorSource,
}

/// Source of the denominators. It says nothing about the minimum base fee.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DenominatorSource {
    /// The configuration or a preset.
    Configuration,
    /// The chain's headers.
    Header,
    /// Neither: how the chain moves its base fee is not known.
    Unknown,
}

impl From<&fees::ChainParameters> for ChainParameters {
    fn from(parameters: &fees::ChainParameters) -> Self {
        let denominators = parameters.denominators;
        Self {
            base_fee_change_denominator: denominators.map(|both| both.full_block.to_string()),
            empty_block_denominator: denominators.map(|both| both.empty_block.to_string()),
            minimum_base_fee: parameters.minimum_base_fee.map(Wei),
            source: match denominators.map(|both| both.source) {
                Some(fees::DenominatorSource::Configuration) => DenominatorSource::Configuration,
                Some(fees::DenominatorSource::Header) => DenominatorSource::Header,
                None => DenominatorSource::Unknown,
            },
        }
    }
}
