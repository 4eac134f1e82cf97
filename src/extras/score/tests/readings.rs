//! Grades whose tips come from further readings.

use super::*;

/// A chain whose polls request percentile 60, and whose readings say 10 at percentile 10.
fn with_readings() -> Chain {
    let pricing = Pricing { base_fee_floor: 0, priority_fee_floor: 1, ..Pricing::default() };
    let chain = Chain::with_pricing(pricing);
    let scorer = new_scorer(&pricing, NonZeroU64::new(10), Instant::now());
    let block = Block { rewards: Some([30, 0]), ..block(USUAL) };
    Chain { scorer, blocks: vec![block; 1000], ..chain }
}

fn reading(oldest: u64, count: usize, base_fee: u128) -> FeeHistory {
    let read = Block { base_fee, rewards: Some([10, 30]), ..block(USUAL) };
    FeeHistory::new(oldest, vec![read; count], None).unwrap()
}

#[test]
fn a_reading_completes_the_grades_of_polls() {
    let mut chain = with_readings();
    let mined = chain.blocks[0];
    chain.mine(vec![mined; 12]);
    // Block 1001 had the first quote, so the tips of blocks 1002 to 1012 are compared.
    let medium = chain.medium();
    assert_eq!(shares(&medium.outbid), [None, None, share(0, 11)]);
    assert_eq!(overpaid(&medium), [None; 2]);
    chain.scorer.add_reading(&reading(1001, 10, 100));
    let TierScores { medium, high } = chain.score().tiers;
    assert_eq!(shares(&medium.outbid), [share(9, 9), None, share(0, 11)]);
    assert_eq!(shares(&high.outbid)[0], share(9, 9));
    let mean = |tier: &TierScore| tier.overpaid_per_gas.mean.map(|Wei(amount)| amount);
    assert_eq!((mean(&medium), mean(&high)), (Some(5), Some(25)));
    // Another block of the same number was read.
    chain.scorer.add_reading(&reading(1011, 2, 101));
    assert_eq!(shares(&chain.medium().outbid)[0], share(9, 9));
    // A replaced block is graded anew.
    chain.blocks.pop();
    chain.blocks.pop();
    chain.scorer.add_reading(&reading(1011, 2, 100));
    assert_eq!(shares(&chain.medium().outbid)[0], share(11, 11));
    chain.mine([Block { base_fee: 99, ..mined }]);
    assert_eq!(shares(&chain.medium().outbid)[0], share(9, 9));
}

#[test]
fn grades_of_a_fast_chain_wait_for_their_reading() {
    let pricing = Pricing::default();
    for (interval, depth) in [(None, 25), (NonZeroU64::new(10), 25), (NonZeroU64::new(50), 105)] {
        assert_eq!(new_scorer(&pricing, interval, Instant::now()).final_depth, depth);
    }
}
