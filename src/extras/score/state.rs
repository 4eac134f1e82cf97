//! The scorers of all chains.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRef;
use parking_lot::Mutex;

use super::alternative::Alternative;
use super::{Score, Scorer, Totals};
use crate::config;
use crate::fees::gwei::rounded_gwei;
use crate::fees::{FeeHistory, Strategy};
use crate::store::{ChainStore, PerChain, Publication, PublishObserver, RecentBlocks, StoredChain};

/// Scorers of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    store: ChainStore,
    chains: PerChain<Arc<ChainScorer>>,
}

/// Scorers of one chain.
#[derive(Debug)]
pub(crate) struct ChainScorer(Mutex<Scorers>);

#[derive(Debug)]
struct Scorers {
    scorer: Scorer,
    /// The strategy that is not served. `None`: the rewards that it depends on are not known.
    alternative: Option<Alternative>,
    advised_at: Instant,
}

/// Score of the strategy that is not served.
#[derive(Debug)]
pub(crate) struct AlternativeScore {
    pub(crate) strategy: Strategy,
    pub(crate) score: Score,
}

impl FromRef<Scores> for ChainStore {
    fn from_ref(scores: &Scores) -> Self {
        scores.store.clone()
    }
}

impl Scores {
    /// Creates scorers without quotes.
    pub(super) fn new(store: &ChainStore) -> Self {
        let scorers = |chain: &StoredChain| {
            let (config, now) = (chain.config(), Instant::now());
            let interval = config.reading_interval();
            let knows_all = interval.is_some() || config.pricing.polls_graded_percentiles();
            let alternative = knows_all.then(|| Alternative::new(&config.pricing));
            let scorer = Scorer::new(&config.pricing, interval, now);
            Arc::new(ChainScorer(Mutex::new(Scorers { scorer, alternative, advised_at: now })))
        };
        Self { store: store.clone(), chains: PerChain::new(store, scorers) }
    }

    pub(super) fn scorer(&self, chain: &StoredChain) -> &Arc<ChainScorer> {
        self.chains.get(chain)
    }

    /// Returns how the quotes of the last hour did.
    pub(super) fn score(&self, chain: &StoredChain) -> Score {
        self.scorer(chain).0.lock().scorer.score(Instant::now())
    }

    /// Returns how the quotes of the strategy that is not served did; `None` while there are none.
    pub(super) fn alternative(&self, chain: &StoredChain) -> Option<AlternativeScore> {
        let scorers = self.scorer(chain).0.lock();
        let alternative = scorers.alternative.as_ref()?;
        let score = alternative.score(&scorers.scorer, Instant::now())?;
        Some(AlternativeScore { strategy: alternative.strategy(), score })
    }

    /// Returns counts of all grades since the start, and their percentiles.
    pub(super) fn totals(&self, chain: &StoredChain) -> (Totals, Vec<f64>) {
        let scorers = self.scorer(chain).0.lock();
        (*scorers.scorer.totals(), scorers.scorer.percentiles().to_vec())
    }
}

impl Scorers {
    /// Time between two comparisons of the strategies for the operator.
    const ADVICE_INTERVAL: Duration = Duration::from_mins(1);

    /// Tells the operator if the other strategy has been better for an hour.
    fn advise(&mut self, chain: &config::Chain, now: Instant) {
        let Some(alternative) = &mut self.alternative else { return };
        if now.saturating_duration_since(self.advised_at) < Self::ADVICE_INTERVAL {
            return;
        }
        self.advised_at = now;
        let Some(comparison) = alternative.advice(&self.scorer, now) else { return };
        let [served_gwei, other_gwei] = comparison.overpaid_mean.map(rounded_gwei);
        let [served_reached, other_reached] = comparison.reached;
        let other = alternative.strategy().name();
        tracing::info!(
            chain = chain.key,
            strategy = chain.pricing.strategy.name(),
            alternative = other,
            overpaid_gwei = served_gwei,
            alternative_overpaid_gwei = other_gwei,
            reached = served_reached,
            alternative_reached = other_reached,
            key = format!("chains.{}.pricing.strategy", chain.key),
            "the other strategy would have overpaid less than half for an hour"
        );
    }
}

/// Grades what is published.
impl PublishObserver for Arc<ChainScorer> {
    fn published(&mut self, publication: &Publication<'_>) {
        let (market, now) = (&publication.snapshot.market, Instant::now());
        let mut scorers = self.0.lock();
        let Scorers { scorer, alternative, .. } = &mut *scorers;
        scorer.add_published(publication.history, market, now);
        if let Some(alternative) = alternative {
            alternative.published(publication, scorer);
        }
        scorer.close_deep(now);
        scorers.advise(publication.chain, now);
    }

    fn rewards_read(&mut self, reading: &FeeHistory, blocks: &RecentBlocks) {
        let mut scorers = self.0.lock();
        let Scorers { scorer, alternative, .. } = &mut *scorers;
        scorer.add_reading(reading);
        if let Some(alternative) = alternative {
            alternative.price_pending(blocks, scorer);
        }
    }
}
