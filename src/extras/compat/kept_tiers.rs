//! How many blocks the tiers that were served took to be kept.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::extras::quotes::{KeptCount, Question, QuoteRecord};
use crate::fees::Tiers;
use crate::observe::clock;
use crate::store::{Publication, PublishObserver, RecentBlocks, StoredChain};

/// Share of the last hour's quotes that has to be kept.
const SHARE: f64 = 0.9;

/// Number of judged quotes from which their share says something.
const MIN_JUDGED: u32 = 20;

const TIERS: usize = 3;

/// Numbers of blocks within which quotes are kept or not, ascending.
const WITHIN: [usize; 6] = [1, 2, 3, 5, 10, 25];

/// Record of the tiers of one chain.
#[derive(Debug)]
pub(super) struct KeptTiers(Mutex<QuoteRecord>);

impl KeptTiers {
    pub(super) fn new(chain: &StoredChain) -> Arc<Self> {
        let questions = (0..TIERS).flat_map(|pair| WITHIN.map(|within| Question { pair, within }));
        let record = QuoteRecord::new(chain, questions.collect(), clock::now());
        Arc::new(Self(Mutex::new(record)))
    }

    /// Returns for each tier the fewest blocks within which the last hour's quotes were nearly always kept, at most 25. `None`: too few quotes were judged.
    pub(super) fn kept_within(&self, blocks: &RecentBlocks) -> Option<Tiers<u32>> {
        let counts = self.0.lock().counts(blocks, clock::now());
        let of_tier = |counts: &[KeptCount]| {
            counts.last()?.share(MIN_JUDGED)?;
            let is_enough = |count: &KeptCount| count.share(1).is_some_and(|share| share >= SHARE);
            let kept = counts.iter().zip(WITHIN).find(|(count, _)| is_enough(count));
            let [.., longest] = WITHIN;
            u32::try_from(kept.map_or(longest, |(_, within)| within)).ok()
        };
        let mut tiers = counts.chunks(WITHIN.len()).map(of_tier);
        Some(Tiers { low: tiers.next()??, medium: tiers.next()??, high: tiers.next()?? })
    }
}

/// Records the tiers of each head.
impl PublishObserver for Arc<KeptTiers> {
    fn published(&mut self, publication: &Publication<'_>) {
        let Publication { snapshot, blocks, .. } = publication;
        let pairs = snapshot.market.suggestion.tiers.into_array().into_iter();
        let percentile = blocks.newest_entries(0).percentile;
        self.0.lock().record(snapshot.newest_block, pairs, percentile, blocks, clock::now());
    }
}
