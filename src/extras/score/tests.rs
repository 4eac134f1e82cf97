mod readings;

use serde_json::json;

use super::summary::{Score, SharesByNumber, TierScore, TierScores};
use super::totals::Unjudged;
use super::*;
use crate::config;
use crate::fees::statistics::Share;
use crate::fees::tests::market;
use crate::fees::{
    self, Block, ChainParameters, PricingType, RewardPercentiles, Strategy, Tier, Tiers, Wei,
};
use crate::store::ChainStore;

/// Chain whose blocks have a base fee of 100 wei and tips of 10 (p10) and 20 (p50) wei.
struct Chain {
    pricing: Pricing,
    scorer: Scorer,
    now: Instant,
    oldest: u64,
    blocks: Vec<Block>,
}

fn block(rewards: Option<[u128; 2]>) -> Block {
    Block { base_fee: 100, gas_used_ratio: Some(0.5), rewards }
}

fn new_scorer(pricing: &Pricing, reading_interval: Option<NonZeroU64>, now: Instant) -> Scorer {
    let mut chain = config::tests::chain("");
    chain.pricing = *pricing;
    Scorer::new(&ChainStore::new(&[chain]).0.chains()[0], reading_interval, now)
}

const USUAL: Option<[u128; 2]> = Some([10, 20]);

impl Chain {
    fn new() -> Self {
        Self::with_pricing(Pricing {
            reward_percentiles: RewardPercentiles::new(10.0, Some(50.0)).ok(),
            base_fee_floor: 0,
            priority_fee_floor: 1,
            ..Pricing::default()
        })
    }

    /// A chain with its first quote.
    fn started() -> Self {
        let mut chain = Self::new();
        chain.publish(20);
        chain
    }

    /// A chain whose first 1,000 blocks were mined before the start.
    fn with_pricing(pricing: Pricing) -> Self {
        let now = Instant::now();
        let scorer = new_scorer(&pricing, None, now);
        Self { pricing, scorer, now, oldest: 1, blocks: vec![block(USUAL); 1000] }
    }

    fn history(&self, count: usize) -> FeeHistory {
        let skipped = self.blocks.len().saturating_sub(count);
        let oldest = self.oldest + u64::try_from(skipped).unwrap();
        FeeHistory::new(oldest, self.blocks[skipped..].to_vec(), Some(100)).unwrap()
    }

    /// Mines these blocks, 1 s apart, and publishes a quote of tip 15 and max fee 150 (medium), 35 and 170 (high) at each.
    fn mine(&mut self, blocks: impl IntoIterator<Item = Block>) {
        for block in blocks {
            self.blocks.push(block);
            self.publish(20);
        }
    }

    fn publish(&mut self, window: usize) {
        self.publish_quote(window, [(15, 150), (35, 170)]);
    }

    fn publish_quote(&mut self, window: usize, quote: [(u128, u128); 2]) {
        self.now += Duration::from_secs(1);
        let history = self.history(window);
        let mut market = market(&history, &self.pricing);
        let [medium, high] = quote
            .map(|(tip, max_fee)| Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee });
        (market.suggestion.tiers.medium, market.suggestion.tiers.high) = (medium, high);
        market.strategy = self.pricing.strategy;
        self.scorer.record(&history, &market, self.now);
    }

    fn score(&self) -> Score {
        self.scorer.score(self.now)
    }

    fn medium(&self) -> TierScore {
        self.score().tiers.medium
    }
}

/// Number of heads and, of the medium tier, counts of those that were and could not be judged.
fn counts(score: &Score) -> (usize, usize, Unjudged) {
    let medium = &score.tiers.medium;
    (score.window.heads, medium.judged, medium.unjudged)
}

/// Returns the shares in order.
fn shares(of: &SharesByNumber) -> Vec<Option<Share>> {
    of.0.iter().map(|(_, share)| *share).collect()
}

/// The shares of the next block that was covered, and of its lowest percentile that was outbid.
fn first_shares(tier: &TierScore) -> [Option<Share>; 2] {
    [shares(&tier.covered)[0], shares(&tier.outbid)[0]]
}

/// Median and 95th percentile of what was overpaid.
fn overpaid(tier: &TierScore) -> [Option<u128>; 2] {
    [tier.overpaid_per_gas.p50, tier.overpaid_per_gas.p95].map(|it| it.map(|Wei(amount)| amount))
}

/// Median and 95th percentile of the price over the fair one.
fn over_fair(tier: &TierScore) -> [Option<f64>; 2] {
    [tier.price_over_fair.p50, tier.price_over_fair.p95]
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with scores")]
fn share(hits: u32, total: u32) -> Option<Share> {
    Some(Share { hits, total })
}

/// The scores of this quote after one block.
fn graded(quote: [(u128, u128); 2], mined: Block) -> TierScores {
    let mut chain = Chain::new();
    chain.publish_quote(20, quote);
    chain.mine([mined]);
    chain.score().tiers
}

#[test]
fn a_quote_is_graded_as_soon_as_its_block_is_mined() {
    let mut chain = Chain::started();
    let score = chain.score();
    assert_eq!(counts(&score), (1, 0, Unjudged::default()));
    let medium = &score.tiers.medium;
    assert_eq!(shares(&medium.covered), [None; 3]);
    assert_eq!(medium.outbid.0, [("10".to_owned(), None), ("50".to_owned(), None)]);
    assert_eq!((score.tips_decide, overpaid(medium)), (None, [None; 2]));
    assert_eq!((medium.calibration_error, medium.calibration_interval), (None, None));

    chain.mine([block(USUAL)]);
    let score = chain.score();
    assert_eq!((counts(&score), score.tips_decide), ((2, 1, Unjudged::default()), Some(true)));
    let TierScores { medium, high } = &score.tiers;
    assert_eq!(shares(&medium.covered), [share(1, 1), None, None]);
    assert_eq!(shares(&medium.outbid), [share(1, 1), share(0, 1)]);
    assert_eq!(overpaid(medium), [Some(5); 2]);
    assert_eq!(over_fair(medium), [Some(115.0 / 110.0); 2]);
    assert_eq!(shares(&high.outbid)[1], share(1, 1));
    chain.mine(vec![block(USUAL); 24]);
    assert_eq!(shares(&chain.medium().covered), [share(25, 25), share(21, 21), share(1, 1)]);
}

#[test]
fn the_max_fee_limits_the_tip_that_is_paid_and_equal_amounts_are_enough() {
    let quote = [(15, 150), (35, 170)];
    // 150 less 141 leaves 9 for the tip, less than the 10th percentile; 170 less 141 leaves 29.
    let TierScores { medium, high } = graded(quote, Block { base_fee: 141, ..block(USUAL) });
    assert_eq!(first_shares(&medium), [share(1, 1), share(0, 1)]);
    assert_eq!((overpaid(&medium), over_fair(&medium)), ([None; 2], [None; 2]));
    assert_eq!(overpaid(&high), [Some(19); 2]);
    // Above the max fee nothing is covered, and no percentile is outbid, not even one of 1 wei.
    let dear = Block { base_fee: 151, ..block(Some([1, 1])) };
    assert_eq!(first_shares(&graded(quote, dear).medium), [share(0, 1); 2]);
    let TierScores { medium, high } = graded([(10, 110), (20, 100)], block(USUAL));
    assert_eq!(shares(&medium.outbid), [share(1, 1), share(0, 1)]);
    assert_eq!(overpaid(&medium), [Some(0); 2]);
    assert_eq!(first_shares(&high), [share(1, 1), share(0, 1)]);
}

#[test]
fn blocks_without_transactions_or_rewards_say_nothing_of_tips() {
    let mut chain = Chain::started();
    chain.mine([
        Block { gas_used_ratio: Some(0.0), ..block(Some([0, 0])) },
        block(None),
        Block { gas_used_ratio: None, ..block(USUAL) },
    ]);
    let unjudged = Unjudged { no_rewards: 1, ..Unjudged::default() };
    assert_eq!(counts(&chain.score()), (4, 1, unjudged));
    assert_eq!(first_shares(&chain.medium()), [share(3, 3), share(1, 1)]);
    // The transactions of one paid its producer directly.
    let mut chain = Chain::started();
    chain.mine([block(Some([0, 0]))]);
    let score = chain.score();
    assert_eq!((counts(&score), score.tips_decide), ((2, 0, Unjudged::default()), Some(false)));
    assert_eq!(first_shares(&score.tiers.medium), [share(1, 1), None]);
}

#[test]
fn a_reorg_replaces_blocks_by_number_until_they_are_25_deep() {
    let mut chain = Chain::started();
    chain.mine(vec![block(USUAL); 10]);
    assert_eq!(shares(&chain.medium().outbid)[0], share(10, 10));
    // Five blocks are replaced by dearer ones.
    let kept = chain.blocks.len() - 5;
    chain.blocks.truncate(kept);
    chain.publish(20);
    let score = chain.score();
    assert_eq!((score.window.heads, shares(&score.tiers.medium.outbid)[0]), (6, share(5, 5)));
    chain.mine(vec![block(Some([16, 20])); 5]);
    let score = chain.score();
    assert_eq!((score.window.heads, shares(&score.tiers.medium.outbid)[0]), (11, share(5, 10)));
    // The same as if the first five had never been there.
    let mut fresh = Chain::started();
    fresh.mine(vec![block(USUAL); 5]);
    fresh.mine(vec![block(Some([16, 20])); 5]);
    assert_eq!(json!(score.tiers), json!(fresh.score().tiers));
    // A grade that is final stays.
    chain.mine(vec![block(USUAL); 40]);
    assert_eq!(chain.scorer.totals.tiers[0].outbid[0], [5, 21]);
    chain.blocks.truncate(1000);
    chain.publish(20);
    assert_eq!(chain.scorer.totals.tiers[0].outbid[0], [5, 21]);
}

#[test]
fn the_quote_that_was_published_last_at_a_head_counts() {
    let mut chain = Chain::new();
    chain.publish_quote(20, [(1, 150), (35, 170)]);
    chain.publish_quote(20, [(12, 150), (35, 170)]);
    chain.mine([block(USUAL)]);
    assert_eq!(overpaid(&chain.medium()), [Some(2); 2]);
}

#[test]
fn heads_that_were_skipped_have_no_quote_and_unseen_blocks_are_gaps() {
    let mut chain = Chain::started();
    // Three blocks at once: the next block of the first quote is known, two numbers have no quote.
    chain.blocks.extend(vec![block(USUAL); 3]);
    chain.publish(20);
    let unjudged = |no_quote, gap| Unjudged { no_quote, gap, no_rewards: 0 };
    assert_eq!(counts(&chain.score()), (2, 1, unjudged(2, 0)));
    // Thirty at once, of which the reply has twenty.
    chain.blocks.extend(vec![block(USUAL); 30]);
    chain.publish(20);
    assert_eq!(counts(&chain.score()), (3, 1, unjudged(31, 1)));
    assert_eq!(shares(&chain.medium().covered), [share(1, 1), None, share(2, 2)]);
    assert_eq!(chain.scorer.totals.unjudged, unjudged(7, 1));
}

#[test]
fn a_very_large_jump_keeps_the_grades_and_counts_no_numbers() {
    let mut chain = Chain::started();
    chain.mine(vec![block(USUAL); 3]);
    chain.oldest += 1_000_000_000;
    chain.publish(20);
    assert_eq!(counts(&chain.score()), (5, 3, Unjudged { gap: 1, ..Unjudged::default() }));
    assert!(chain.scorer.open.capacity() < 1000);
    chain.oldest = u64::MAX - 1004;
    chain.publish(20);
    assert_eq!(chain.score().window.heads, 6);
}

#[test]
fn a_gas_price_is_compared_in_full() {
    let mut chain = Chain::new();
    chain.pricing.zero_base_fee = PricingType::Legacy;
    chain.publish_quote(20, [(15, 15), (35, 35)]);
    chain.mine([Block { base_fee: 0, ..block(USUAL) }]);
    let TierScores { medium, high } = chain.score().tiers;
    assert_eq!(first_shares(&medium), [share(1, 1); 2]);
    assert_eq!(over_fair(&medium), [Some(1.5); 2]);
    assert_eq!(overpaid(&high), [Some(25); 2]);
}

#[test]
fn a_score_has_the_last_hour_at_least_100_and_at_most_1000_quotes() {
    let mut chain = Chain::started();
    chain.mine(vec![block(USUAL); 1200]);
    assert_eq!(chain.score().window.heads, 1000);
    let graded = &chain.scorer.graded.0;
    assert_eq!((graded.len(), graded.capacity()), (1000, 1000));
    // What docs/benchmarks.md says of a score's memory.
    assert_eq!(size_of::<GradedHead>(), 80);
    assert_eq!(chain.scorer.score(chain.now + WINDOW).window.heads, 100);
    // The last 300 s of the hour before.
    let later = chain.now + Duration::from_secs(3301);
    let window = chain.scorer.score(later).window;
    assert_eq!((window.heads, window.spans_seconds), (300, 3600));
}

#[test]
fn a_floor_decides_the_high_tier_only_if_it_decides_its_tip() {
    let rewards = Some([10, 50]);
    let blocks = vec![Block { rewards, ..block(None) }; 20];
    let decided = |strategy, percentiles: Option<f64>, floor| {
        let own = percentiles.map(|high| RewardPercentiles::new(10.0, Some(high)).unwrap());
        let pricing = Pricing {
            strategy,
            reward_percentiles: own,
            base_fee_floor: 0,
            priority_fee_floor: floor,
            ..Pricing::default()
        };
        let history = FeeHistory::new(1, blocks.clone(), Some(100)).unwrap();
        let parameters = ChainParameters::from_pricing(&pricing);
        let entries = pricing.entries(history.blocks());
        let market = fees::price(&history, &entries, &pricing, &parameters).unwrap();
        let now = Instant::now();
        let mut scorer = new_scorer(&pricing, None, now);
        scorer.record(&history, &market, now);
        let TierScores { medium, high } = scorer.score(now).tiers;
        (medium.floor_decided == Some(1.0), high.floor_decided == Some(1.0))
    };
    assert_eq!(decided(Strategy::Network, None, 9), (false, false));
    assert_eq!(decided(Strategy::Network, None, 20), (true, true));
    assert_eq!(decided(Strategy::Network, Some(60.0), 20), (true, false));
    assert_eq!(decided(Strategy::Network, Some(60.0), 60), (true, true));
    assert_eq!(decided(Strategy::Calibrated, Some(60.0), 20), (true, true));
}

#[test]
fn calibration_has_wilsons_interval() {
    let pricing = Pricing {
        strategy: Strategy::Calibrated,
        reward_percentiles: RewardPercentiles::new(10.0, Some(60.0)).ok(),
        targets: Tiers::default(),
        base_fee_floor: 0,
        priority_fee_floor: 1,
        ..Pricing::default()
    };
    let block = |p10| Block { rewards: Some([p10, 30]), ..block(None) };
    let mut chain = Chain::with_pricing(pricing);
    chain.blocks = vec![block(10); 1000];
    chain.publish(200);
    chain.mine((0..100).map(|n| block(if n % 10 == 0 { 16 } else { 10 })));
    let TierScores { medium, high } = chain.score().tiers;
    assert_eq!((medium.target, high.target), (Some(0.95), Some(0.99)));
    assert_eq!(shares(&medium.outbid), [share(90, 100), None, share(0, 100)]);
    // Wilson's interval of 90 of 100 is from 0.8256 to 0.9448.
    let [low, high] = medium.calibration_interval.unwrap();
    let near = |one: f64, other: f64| (one - other).abs() < 0.000_05;
    assert!(near(medium.calibration_error.unwrap(), -0.05));
    assert!(near(low, 0.8256 - 0.95) && near(high, 0.9448 - 0.95));
}

#[test]
fn amounts_are_converted_to_the_nearest_number() {
    let exact = [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 53) + 1, (1 << 54) + 3, u64::MAX];
    for amount in exact.into_iter().chain((0..64).map(|shift| 0xDEAD_BEEF_CAFE_F00D >> shift)) {
        let parsed: f64 = amount.to_string().parse().unwrap();
        assert_eq!(grade::nearest_f64(amount).to_bits(), parsed.to_bits(), "{amount}");
    }
}
