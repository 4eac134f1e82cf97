//! JSON form of the domain's types. Amounts are wei as decimal strings, because most JSON parsers would round a number.

use alloy_primitives::U256;
use serde::Serialize;
use serde::ser::Serializer;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::extras::delegation::registry;
use crate::extras::trend as fee_trend;
use crate::fees::{self, Suggestion, Tier};

/// An amount in wei, serialised as a decimal string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wei(pub(crate) u128);

impl Serialize for Wei {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

impl PartialSchema for Wei {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$"));
        schema.description(Some("An amount in wei, as a decimal string.")).into()
    }
}

impl ToSchema for Wei {}

/// Suggested fees.
//
// The five members of the network document's section 2.2, in its order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GasSuggestion)]
pub(crate) struct SuggestionBody<'a> {
    chain_name: &'a str,
    r#type: PricingType,
    /// Base fee that both tiers cover: the average of the window or the floor, times the multiplier. It is 0 under legacy
    /// pricing. The base fees of single blocks are in the fee history.
    base_fee_per_gas: Wei,
    /// Should get into the next block or two.
    medium: TierBody,
    /// For users in a hurry.
    high: TierBody,
}

/// One tier. Under legacy pricing both members are the gas price to use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tier)]
pub(crate) struct TierBody {
    /// The tip.
    max_priority_fee_per_gas: Wei,
    /// Tip plus base fee.
    max_fee_per_gas: Wei,
}

impl<'a> SuggestionBody<'a> {
    pub(crate) fn new(chain_name: &'a str, suggestion: &Suggestion) -> Self {
        Self {
            chain_name,
            r#type: suggestion.pricing_type.into(),
            base_fee_per_gas: Wei(suggestion.base_fee_per_gas),
            medium: (&suggestion.medium).into(),
            high: (&suggestion.high).into(),
        }
    }
}

impl From<&Tier> for TierBody {
    fn from(tier: &Tier) -> Self {
        Self {
            max_priority_fee_per_gas: Wei(tier.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(tier.max_fee_per_gas),
        }
    }
}

/// Fee mechanism of the chain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) enum PricingType {
    /// A base fee and a tip.
    #[serde(rename = "eip-1559")]
    Eip1559,
    /// One gas price.
    #[serde(rename = "legacy")]
    Legacy,
}

impl From<fees::PricingType> for PricingType {
    fn from(pricing_type: fees::PricingType) -> Self {
        match pricing_type {
            fees::PricingType::Eip1559 => Self::Eip1559,
            fees::PricingType::Legacy => Self::Legacy,
        }
    }
}

/// Rule that computes the suggestion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Strategy {
    /// The network's own rule.
    Network,
    /// Tips that are enough for a chosen share of blocks.
    Calibrated,
}

impl From<fees::Strategy> for Strategy {
    fn from(strategy: fees::Strategy) -> Self {
        match strategy {
            fees::Strategy::Network => Self::Network,
            fees::Strategy::Calibrated => Self::Calibrated,
        }
    }
}

/// Configured floors that raised the suggestion.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FloorsApplied {
    /// The base fee of the strategy was below its floor.
    base_fee: bool,
    /// The priority fee of recent blocks was below the floor, or unknown.
    priority_fee: bool,
}

impl From<&fees::FloorsApplied> for FloorsApplied {
    fn from(floors: &fees::FloorsApplied) -> Self {
        Self { base_fee: floors.base_fee, priority_fee: floors.priority_fee }
    }
}

/// Configured floors of more than ten times what the market pays.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FloorsAboveMarket {
    /// The average base fee is less than a tenth of its floor.
    base_fee: bool,
    /// The average reward is less than a tenth of the priority fee floor.
    priority_fee: bool,
}

impl From<&fees::FloorsAboveMarket> for FloorsAboveMarket {
    fn from(floors: &fees::FloorsAboveMarket) -> Self {
        Self { base_fee: floors.base_fee, priority_fee: floors.priority_fee }
    }
}

/// Gas used divided by gas limit, from 0 to 1; `None` if the node returned no credible ratio.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GasUsedRatio)]
pub(crate) struct GasUsedRatios {
    /// Ratio of the newest block.
    #[schema(required, minimum = 0, maximum = 1)]
    latest: Option<f64>,
    /// Average of the blocks that have a ratio.
    #[schema(required, minimum = 0, maximum = 1)]
    average: Option<f64>,
}

impl From<&fees::GasUsedRatios> for GasUsedRatios {
    fn from(ratios: &fees::GasUsedRatios) -> Self {
        Self { latest: ratios.latest, average: ratios.average }
    }
}

/// The next base fee compared with the window's average.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Trend {
    /// More than 5 % above it.
    Rising,
    /// Within 5 % of it.
    Stable,
    /// More than 5 % below it.
    Falling,
}

impl From<fees::Trend> for Trend {
    fn from(trend: fees::Trend) -> Self {
        match trend {
            fees::Trend::Rising => Self::Rising,
            fees::Trend::Stable => Self::Stable,
            fees::Trend::Falling => Self::Falling,
        }
    }
}

/// Where a price stands among those of the last 24 hours.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Below the 25th percentile, and at least 5 % below the median.
    Low,
    /// Neither low nor high.
    Normal,
    /// Above the 75th percentile, and at least 5 % above the median.
    High,
}

impl From<fee_trend::Level> for Level {
    fn from(level: fee_trend::Level) -> Self {
        match level {
            fee_trend::Level::Low => Self::Low,
            fee_trend::Level::Normal => Self::Normal,
            fee_trend::Level::High => Self::High,
        }
    }
}

/// Number of coming blocks, all of them full, that a tier's max fee covers; `null` if the source of `chain_parameters` is
/// `unknown`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CoveredBlocks)]
pub(crate) struct FullBlocksCovered {
    /// With medium's max fee.
    #[schema(required, maximum = 100)]
    medium: Option<u8>,
    /// With high's max fee.
    #[schema(required, maximum = 100)]
    high: Option<u8>,
}

impl From<&fees::FullBlocksCovered> for FullBlocksCovered {
    fn from(covered: &fees::FullBlocksCovered) -> Self {
        Self { medium: covered.medium, high: covered.high }
    }
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

/// Returns percentiles as JSON numbers: whole ones without the decimal point, which some nodes reject.
pub(crate) fn percentile_numbers(
    percentiles: impl IntoIterator<Item = f64>,
) -> Vec<serde_json::Number> {
    percentiles.into_iter().filter_map(|percentile| percentile.to_string().parse().ok()).collect()
}

/// An existing delegation in the format of the REST API: addresses with checksum, rights as hex bytes, amounts and
/// token ids as decimal strings; `null` if the type has none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delegation {
    r#type: DelegationType,
    /// The vault.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    from: String,
    /// The hot wallet.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    to: String,
    #[schema(required, pattern = "^0x[0-9a-fA-F]{40}$")]
    contract: Option<String>,
    #[schema(required, pattern = "^[0-9]+$")]
    token_id: Option<String>,
    #[schema(pattern = "^0x[0-9a-fA-F]{64}$")]
    rights: String,
    #[schema(required, pattern = "^[0-9]+$")]
    amount: Option<String>,
}

/// Kind of delegation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
enum DelegationType {
    None,
    All,
    Contract,
    Erc721,
    Erc20,
    Erc1155,
}

impl From<&registry::Delegation> for Delegation {
    fn from(delegation: &registry::Delegation) -> Self {
        let decimal = |number: Option<U256>| number.map(|number| number.to_string());
        Self {
            r#type: match delegation.kind {
                registry::DelegationType::None => DelegationType::None,
                registry::DelegationType::All => DelegationType::All,
                registry::DelegationType::Contract => DelegationType::Contract,
                registry::DelegationType::Erc721 => DelegationType::Erc721,
                registry::DelegationType::Erc20 => DelegationType::Erc20,
                registry::DelegationType::Erc1155 => DelegationType::Erc1155,
            },
            from: delegation.from.to_string(),
            to: delegation.to.to_string(),
            contract: delegation.contract.map(|contract| contract.to_string()),
            token_id: decimal(delegation.token_id),
            rights: delegation.rights.to_string(),
            amount: decimal(delegation.amount),
        }
    }
}
