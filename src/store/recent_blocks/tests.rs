use super::*;
use crate::fees::RewardPercentiles;
use crate::fees::tests::history_of;

fn history(oldest_block: u64, base_fees: &[u128]) -> FeeHistory {
    history_of(oldest_block, base_fees, None)
}

fn blocks_after(capacity: usize, histories: &[FeeHistory]) -> (u64, Vec<u128>) {
    let mut recent = RecentBlocks::new(capacity, &Pricing::default(), None);
    for history in histories {
        recent.extend(history);
    }
    let window = recent.newest(capacity);
    (window.newest_block, window.blocks.iter().map(|block| block.base_fee).collect())
}

#[test]
fn a_history_replaces_and_appends_and_drops_what_does_not_adjoin() {
    let known = history(10, &[1, 2, 3]);
    for (capacity, histories, expected) in [
        (8, vec![known.clone(), history(11, &[20, 30, 40])], (13, vec![1, 20, 30, 40])),
        (8, vec![history(10, &[1]), history(11, &[2])], (11, vec![1, 2])),
        // A gap.
        (8, vec![history(10, &[1]), history(12, &[3])], (12, vec![3])),
        // A head that falls back.
        (8, vec![known.clone(), history(9, &[0, 10])], (10, vec![0, 10])),
        (8, vec![known.clone(), history(10, &[5])], (10, vec![5])),
        (8, vec![known.clone(), history(0, &[7])], (0, vec![7])),
        // More than are kept.
        (2, vec![history(10, &[1, 2]), history(12, &[3])], (12, vec![2, 3])),
        (2, vec![known.clone()], (12, vec![2, 3])),
    ] {
        assert_eq!(blocks_after(capacity, &histories), expected, "{histories:?}");
    }
}

#[test]
fn blocks_come_back_as_they_were_with_all_rewards() {
    let block = |base_fee, gas_used_ratio, rewards: Option<[u128; 2]>| Block {
        base_fee,
        gas_used_ratio,
        rewards,
    };
    let mut blocks = vec![block(7, Some(0.25), Some([1, 9])); 30];
    blocks.extend([block(7, None, None), block(u128::MAX, Some(0.0), Some([u128::MAX; 2]))]);
    let percentiles = RewardPercentiles::new(40.0, Some(60.0)).ok();
    let pricing = Pricing { reward_percentiles: percentiles, ..Pricing::default() };
    let mut recent = RecentBlocks::new(31, &pricing, None);
    recent.extend(&FeeHistory::new(1, blocks[..25].to_vec(), None).unwrap());
    recent.extend(&FeeHistory::new(13, blocks[12..].to_vec(), None).unwrap());
    assert_eq!(recent.newest(20).blocks, blocks[12..]);
    let all = recent.newest(40).blocks;
    assert_eq!((all.len(), recent.blocks.capacity()), (31, 31));
    assert_eq!(all, blocks[1..]);
}

/// Blocks with these base fees and a reward of 60 at percentile 60.
fn polled(oldest_block: u64, base_fees: &[u128]) -> FeeHistory {
    with_rewards(oldest_block, base_fees, [60, 0])
}

fn with_rewards(oldest_block: u64, base_fees: &[u128], rewards: Rewards) -> FeeHistory {
    let rewards = Some(rewards);
    let block = |&base_fee| Block { base_fee, gas_used_ratio: Some(0.5), rewards };
    FeeHistory::new(oldest_block, base_fees.iter().map(block).collect(), Some(9)).unwrap()
}

fn reading(oldest_block: u64, base_fees: &[u128]) -> FeeHistory {
    with_rewards(oldest_block, base_fees, [10, 60])
}

/// Blocks of a chain whose polls request percentile 60.
fn with_readings(capacity: usize) -> RecentBlocks {
    RecentBlocks::new(capacity, &Pricing::default(), NonZeroU64::new(10))
}

/// Tips of the newest blocks that are known, after their percentile.
fn entries(recent: &RecentBlocks) -> (f64, Vec<Option<u128>>) {
    let EntryWindow { percentile, blocks, .. } = recent.newest_entries(4);
    (percentile, blocks.iter().map(|block| block.tip).collect())
}

#[test]
fn a_reading_tells_the_tips_of_known_blocks_and_of_older_ones() {
    let mut recent = with_readings(8);
    recent.extend(&polled(10, &[1, 2, 3]));
    assert_eq!(entries(&recent), (60.0, vec![Some(60); 3]));
    assert_eq!((recent.unread(11, 1024), recent.unread(9, 1024)), (Some(1024), None));
    assert_eq!(recent.add_reading(&reading(7, &[7, 8, 9, 1, 2])), 5);
    assert_eq!(entries(&recent), (10.0, vec![Some(10); 4]), "they end at block 11");
    assert_eq!((recent.unread(12, 1024), recent.unread(11, 1024)), (Some(1), Some(0)));
    let all = recent.history(12, 99, 10.0).unwrap();
    assert_eq!((all.oldest_block(), all.newest_block()), (7, 12));
    let rewards: Vec<_> = all.blocks().iter().map(|block| block.reward(0)).collect();
    assert_eq!(rewards, [Some(10), Some(10), Some(10), Some(10), Some(10), None]);
    // Percentile 60 is known from polls and readings alike.
    let of_polls = recent.history(11, 3, 60.0).unwrap();
    assert_eq!(of_polls, FeeHistory::new(9, recent.newest(4).blocks[..3].to_vec(), None).unwrap());
    assert_eq!(recent.history(13, 3, 60.0), None);
}

#[test]
fn what_a_poll_said_of_a_block_goes_before_what_a_reading_says() {
    let mut recent = with_readings(8);
    let Block { rewards, .. } = polled(10, &[1]).blocks()[0];
    let blocks =
        [rewards, None].map(|rewards| Block { base_fee: 1, gas_used_ratio: Some(0.5), rewards });
    recent.extend(&FeeHistory::new(10, blocks.to_vec(), None).unwrap());
    recent.add_reading(&with_rewards(10, &[1; 2], [10, 61]));
    let rewards_at = |percentile| {
        let history = recent.history(11, 2, percentile).unwrap();
        history.blocks().iter().map(|block| block.reward(0)).collect::<Vec<_>>()
    };
    assert_eq!(rewards_at(10.0), [Some(10); 2]);
    assert_eq!(rewards_at(60.0), [Some(60), Some(61)]);
    assert_eq!(rewards_at(50.0), [None; 2]);
    let of_polls: Vec<_> = recent.newest(2).blocks.iter().map(|block| block.rewards).collect();
    assert_eq!(of_polls, [rewards, None]);
    let highs = recent.newest_entries(2).blocks.iter().map(|block| block.high).collect::<Vec<_>>();
    assert_eq!(highs, [Some(60), Some(61)]);
}

#[test]
fn a_reading_stays_with_its_block_and_leaves_with_it() {
    let mut recent = with_readings(4);
    recent.extend(&polled(10, &[1, 2, 3]));
    recent.add_reading(&reading(10, &[1, 2, 3]));
    recent.extend(&polled(11, &[2, 3, 4]));
    assert_eq!(entries(&recent), (10.0, vec![Some(10); 3]));
    // A reorganisation replaces block 12, and a full ring forgets block 10.
    recent.extend(&polled(11, &[2, 30, 4, 5]));
    assert_eq!((entries(&recent), recent.unread(14, 99)), ((10.0, vec![Some(10)]), Some(3)));
    assert_eq!((recent.newest(9).blocks.len(), recent.blocks.capacity()), (4, 4));
    // A gap forgets all.
    recent.extend(&polled(20, &[1]));
    assert_eq!((entries(&recent), recent.unread(20, 99)), ((60.0, vec![Some(60)]), Some(99)));
}

#[test]
fn a_reading_of_another_branch_changes_nothing() {
    let mut recent = with_readings(8);
    recent.extend(&polled(10, &[1, 2, 3]));
    let revision = recent.revision;
    let other = with_rewards(7, &[7, 8, 9, 11, 12, 13], [10, 60]);
    assert_eq!(recent.add_reading(&other), 0);
    assert_eq!(recent.add_reading(&with_rewards(10, &[1, 2, 3], [0, 0])), 3, "rewards of 0");
    let fuller = Block { gas_used_ratio: Some(0.6), ..other.blocks()[0] };
    let fuller = FeeHistory::new(12, vec![Block { base_fee: 3, ..fuller }], None).unwrap();
    assert_eq!(recent.add_reading(&fuller), 0);
    let without = with_readings(8).add_reading(&other);
    assert_eq!((without, recent.newest(9).blocks.len()), (0, 3));
    assert_eq!(recent.revision, revision + 1);
    let mut off = RecentBlocks::new(8, &Pricing::default(), None);
    off.extend(&polled(10, &[1, 2, 3]));
    assert_eq!(off.add_reading(&reading(10, &[1, 2, 3])), 0);
    assert_eq!(entries(&off), (60.0, vec![Some(60); 3]));
}

#[test]
fn a_ring_shorter_than_the_window_keeps_its_readings() {
    let mut recent = with_readings(3);
    recent.extend(&polled(10, &[1, 2, 3, 4, 5]));
    recent.add_reading(&reading(12, &[3, 4, 5]));
    recent.extend(&polled(11, &[2, 3, 4, 5, 6]));
    assert_eq!((entries(&recent), recent.unread(15, 99)), ((10.0, vec![Some(10); 2]), Some(1)));
}

#[test]
fn polls_that_have_all_rewards_leave_only_older_blocks_to_be_read() {
    let reward_percentiles = RewardPercentiles::new(10.0, Some(60.0)).ok();
    let pricing = Pricing { reward_percentiles, ..Pricing::default() };
    let with_polls = || RecentBlocks::new(8, &pricing, NonZeroU64::new(10));
    let mut recent = with_polls();
    recent.extend(&reading(10, &[1, 2, 3]));
    assert_eq!((entries(&recent), recent.unread(12, 8)), ((10.0, vec![Some(10); 3]), Some(8)));
    recent.add_reading(&reading(7, &[7, 8, 9, 1, 2]));
    assert!(recent.base_fees().eq([7, 8, 9, 1, 2, 3]));
    assert_eq!((entries(&recent), recent.unread(12, 8)), ((10.0, vec![Some(10); 4]), Some(0)));
    recent.extend(&reading(11, &[2, 3, 4, 5]));
    assert_eq!(recent.unread(14, 8), Some(0));
    // A gap leaves blocks to be read. A young chain has no older ones.
    recent.extend(&reading(20, &[1]));
    assert_eq!(recent.unread(20, 8), Some(8));
    let mut young = with_polls();
    young.extend(&reading(0, &[1, 2]));
    assert_eq!(young.unread(1, 8), Some(0));
}

#[test]
fn blocks_without_an_ask_are_left_out_of_the_newest_asks() {
    let rows = [(0.5, 10), (0.0, 10), (0.5, 0), (0.5, 11)];
    let block = |(ratio, tip)| {
        let rewards = Some([tip, 60]);
        Block { base_fee: 1, gas_used_ratio: Some(ratio), rewards }
    };
    let blocks: Vec<Block> = rows.into_iter().map(block).collect();
    let polls = blocks.iter().map(|block| Block { rewards: None, ..*block }).collect();
    let mut recent = with_readings(8);
    recent.extend(&FeeHistory::new(10, polls, None).unwrap());
    recent.add_reading(&FeeHistory::new(10, blocks, None).unwrap());
    let asks = |count| -> Vec<_> {
        recent.newest_asks(count).blocks.iter().filter_map(EntryBlock::ask).collect()
    };
    assert_eq!([asks(1), asks(9)], [vec![11], vec![10, 11]]);
}

#[test]
fn tips_of_polls_replace_readings_that_have_failed_for_long() {
    let mut recent = with_readings(100);
    recent.extend(&polled(10, &[1; 3]));
    recent.add_reading(&reading(10, &[1; 3]));
    recent.extend(&polled(13, &[1; 49]));
    assert_eq!(entries(&recent), (10.0, vec![Some(10); 3]));
    recent.extend(&polled(62, &[1]));
    assert_eq!(entries(&recent), (60.0, vec![Some(60); 4]));
}
