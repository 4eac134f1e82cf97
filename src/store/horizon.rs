//! The matrix of horizons and probabilities of the newest snapshot.

use std::sync::Arc;

use super::RecentBlocks;
use crate::fees::horizon::{BLOCKS, HorizonFees};
use crate::fees::{ChainParameters, Market, Pricing};

/// The matrix, and the blocks that it was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Horizon {
    /// The matrix.
    pub fees: HorizonFees,
    /// Percentile of the rewards that count as the tips that blocks require.
    pub percentile: f64,
    /// Number of the newest block whose rewards are known.
    pub rewards_to: u64,
}

/// Computes the matrix once for each change of what it depends on. Most polls change nothing.
#[derive(Debug, Default)]
pub(super) struct HorizonCache {
    made_of: Option<(u64, ChainParameters)>,
    matrix: Option<Arc<Horizon>>,
}

impl HorizonCache {
    /// Returns the matrix of the blocks; `None`: too few are known.
    pub(super) fn update(
        &mut self,
        blocks: &RecentBlocks,
        market: &Market,
        pricing: &Pricing,
    ) -> Option<Arc<Horizon>> {
        // A change of the next base fee, or of the rewards that are known, changes the revision.
        let made_of = Some((blocks.revision(), market.chain_parameters));
        if self.made_of != made_of {
            self.matrix = Horizon::new(blocks, market, pricing).map(Arc::new);
            self.made_of = made_of;
        }
        self.matrix.clone()
    }
}

impl Horizon {
    fn new(blocks: &RecentBlocks, market: &Market, pricing: &Pricing) -> Option<Self> {
        let window = blocks.newest_entries(BLOCKS);
        let (next_base_fee, parameters) = (market.newest_known_base_fee, &market.chain_parameters);
        let pricing_type = market.suggestion.pricing_type;
        let fees =
            HorizonFees::new(&window.blocks, next_base_fee, pricing_type, pricing, parameters)?;
        Some(Self { fees, percentile: window.percentile, rewards_to: window.newest_block })
    }
}
