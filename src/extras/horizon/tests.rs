use std::num::NonZeroU64;

use super::estimator::Cell;
use super::*;
use crate::config::Chain;
use crate::config::tests::chain;
use crate::fees::tests::{GWEI, market};
use crate::fees::{self, Block, FeeHistory, GRADED_PERCENTILES};
use crate::store::{Accepted, Publisher};

/// The block with this number on one of several branches.
fn block(number: u64, branch: u64) -> Block {
    let noise = (number * 7919 + branch * 104_729) % 997;
    let tip = u128::from(noise) * 1_000_000;
    let rewards = Some([tip, tip + GWEI]);
    Block {
        base_fee: GWEI + u128::from(number % 50) * 10_000_000,
        gas_used_ratio: Some(if noise.is_multiple_of(40) { 0.0 } else { 0.5 }),
        rewards: rewards.filter(|_| !noise.is_multiple_of(61)),
    }
}

/// A chain whose polls and readings a test publishes.
struct Model {
    records: Records,
    publisher: Publisher,
    /// From block 0 on.
    blocks: Vec<Block>,
}

impl Model {
    fn new(chain: Chain, blocks: u64) -> Self {
        let (store, mut publishers) = ChainStore::new(&[chain]);
        let records = Records::new(&store);
        let mut publisher = publishers.remove(0);
        publisher.observe(Arc::clone(records.chains.get(publisher.chain())));
        Self { records, publisher, blocks: (0..blocks).map(|number| block(number, 0)).collect() }
    }

    fn newest(&self) -> u64 {
        u64::try_from(self.blocks.len()).unwrap() - 1
    }

    /// The newest `count` blocks with these columns of their rewards.
    fn history(&self, count: usize, columns: &[usize]) -> FeeHistory {
        let blocks = self.blocks[self.blocks.len().saturating_sub(count)..].iter().map(|block| {
            let rewards = block.rewards.map(|all| match *columns {
                [one] => [all[one], 0],
                _ => all,
            });
            Block { rewards, ..*block }
        });
        let blocks: Vec<Block> = blocks.collect();
        let oldest = self.newest() + 1 - u64::try_from(blocks.len()).unwrap();
        let next = block(self.newest() + 1, 0).base_fee;
        FeeHistory::new(oldest, blocks, Some(next)).unwrap()
    }

    /// Publishes a poll of the newest `count` blocks, with the columns that the strategy has.
    fn publish(&mut self, count: usize) {
        let pricing = self.publisher.chain().config().pricing;
        let percentiles = pricing.percentiles().iter();
        let column = |percentile| fees::column_of(percentile, &GRADED_PERCENTILES).unwrap();
        let columns: Vec<usize> = percentiles.map(column).collect();
        let history = self.history(count, &columns);
        self.publisher.publish(Accepted::now(&history, market(&history, &pricing)));
    }

    /// Mines the next block of this branch, and publishes a poll of the newest 20.
    fn mine(&mut self, branch: u64) {
        self.blocks.push(block(self.newest() + 1, branch));
        self.publish(20);
    }

    fn read(&mut self, count: usize) {
        let reading = self.history(count, &[0, 1]);
        self.publisher.add_reading(&reading);
    }

    fn matrix(&self) -> Option<Arc<Matrix>> {
        let chain = self.publisher.chain();
        chain.read_together(|blocks| self.records.read(chain, blocks).0)
    }

    fn cells(&self) -> Option<Vec<Cell>> {
        Some(self.matrix()?.fees.cells().collect())
    }

    fn rewards_to(&self) -> u64 {
        self.matrix().unwrap().rewards_to
    }

    fn counts(&self) -> Vec<KeptCount> {
        let chain = self.publisher.chain();
        chain.read_together(|blocks| self.records.read(chain, blocks).1)
    }

    /// Grades the pairs that were served at heads by the blocks up to `rewards_to`.
    fn graded(&self, served: &[(u64, Vec<Cell>)], rewards_to: u64) -> Vec<KeptCount> {
        let mut counts = vec![KeptCount::default(); 24];
        for (head, cells) in served {
            for (count, cell) in counts.iter_mut().zip(cells) {
                let last = head + u64::try_from(cell.within).unwrap();
                if last > rewards_to {
                    continue;
                }
                let outcomes = (head + 1..=last).filter_map(|number| {
                    let block = self.blocks[usize::try_from(number).unwrap()];
                    let fees = cell.fees;
                    let room = fees.max_fee_per_gas.checked_sub(block.base_fee);
                    let ask = block.reward(0);
                    if block.gas_used_ratio == Some(0.0) || ask == Some(0) {
                        return None;
                    }
                    Some(ask.map(|ask| {
                        room.is_some_and(|room| room.min(fees.max_priority_fee_per_gas) >= ask)
                    }))
                });
                let outcomes: Vec<Option<bool>> = outcomes.collect();
                if outcomes.contains(&Some(true)) {
                    count.kept += 1;
                    count.judged += 1;
                } else if outcomes.is_empty() || outcomes.contains(&None) {
                    count.unjudged += 1;
                } else {
                    count.judged += 1;
                }
            }
        }
        counts
    }
}

const CALIBRATED: &str = "pricing.reward_percentiles = [10, 60]\n";

fn kept_and_judged(counts: &[KeptCount]) -> Vec<(u32, u32)> {
    counts.iter().map(|count| (count.kept, count.judged)).collect()
}

#[test]
fn kept_is_what_an_independent_grading_finds() {
    let mut model = Model::new(chain(CALIBRATED), 300);
    model.publish(300);
    let mut served = vec![(299, model.cells().unwrap())];
    let mut expected = Vec::new();
    // At most 1,000 pairs are judged.
    for (until, judged_from) in [(700, 0), (1400, 101)] {
        for number in model.newest() + 1..until {
            model.mine(0);
            if number % 10 == 0 {
                // A poll that brings nothing new.
                model.publish(20);
            }
            served.push((number, model.cells().unwrap()));
        }
        let graded = model.graded(&served[judged_from..], model.newest());
        assert_eq!(kept_and_judged(&model.counts()), kept_and_judged(&graded));
        expected.push((graded, model.counts()[3].unjudged));
    }
    let (expected, unjudged) = expected.swap_remove(0);
    let judged: Vec<u32> = expected.iter().map(|count| count.judged).collect();
    assert!(judged[0] < 400 && judged[0] > 380, "some blocks have no rewards: {judged:?}");
    assert!(expected[0].kept < expected[3].kept && expected[0].kept > 100, "{expected:?}");
    // Those whose blocks have no rewards are counted once they are deep.
    assert!(unjudged > 0 && unjudged <= expected[3].unjudged);
}

#[test]
fn a_reorganisation_replaces_the_blocks_and_the_pairs() {
    let mut model = Model::new(chain(CALIBRATED), 300);
    model.publish(300);
    let mut served = vec![(299, model.cells().unwrap())];
    for number in 300..320 {
        model.mine(0);
        served.push((number, model.cells().unwrap()));
    }
    // Five blocks are replaced, and the first poll of the other branch has three of them. The pairs that were served at
    // the first two stay.
    model.blocks.truncate(315);
    served.truncate(18);
    for number in 315..318 {
        model.blocks.push(block(number, 1));
    }
    for number in 318..380 {
        model.publish(20);
        served.push((number - 1, model.cells().unwrap()));
        model.blocks.push(block(number, 1));
    }
    model.publish(20);
    served.push((379, model.cells().unwrap()));
    let expected = model.graded(&served, model.newest());
    assert_eq!(kept_and_judged(&model.counts()), kept_and_judged(&expected));
}

#[test]
fn fees_are_those_of_a_service_that_starts_in_the_middle() {
    let mut old = Model::new(chain(CALIBRATED), 500);
    old.publish(500);
    (500..560).for_each(|_| old.mine(0));
    let start = |old: &Model| {
        let mut new = Model::new(chain(CALIBRATED), 0);
        new.blocks.clone_from(&old.blocks);
        new.publish(400);
        new
    };
    let mut new = start(&old);
    assert_eq!(new.cells(), old.cells());
    // A reorganisation of five blocks.
    for model in [&mut old, &mut new] {
        model.blocks.truncate(555);
        model.blocks.extend((555..561).map(|number| block(number, 1)));
        model.publish(20);
    }
    assert_eq!(new.cells(), old.cells());
    assert_eq!(new.cells(), start(&old).cells());
    // A gap leaves too few blocks, until a poll reads more.
    old.blocks.extend((561..700).map(|number| block(number, 1)));
    old.publish(20);
    assert_eq!(old.cells(), None);
    old.publish(400);
    assert_eq!(old.cells(), start(&old).cells());
    assert!(old.cells().is_some());
}

#[test]
fn further_readings_bring_the_tips_under_the_networks_rule() {
    let config = chain("block_time = \"1s\"\n");
    assert_eq!(config.reading_interval(config.block_time), NonZeroU64::new(10));
    let mut model = Model::new(config.clone(), 700);
    model.publish(20);
    assert_eq!(model.cells(), None);
    // The first reading needs no other poll.
    model.read(450);
    assert_eq!((model.rewards_to(), model.cells().is_some()), (699, true));
    let mut served = Vec::new();
    for number in 700..900 {
        model.mine(0);
        served.push((number, model.cells().unwrap()));
        if number % 10 == 9 {
            assert_eq!(model.rewards_to(), number - 10);
            model.read(10);
        }
    }
    let expected = model.graded(&served, 899);
    assert_eq!(kept_and_judged(&model.counts()), kept_and_judged(&expected));
    // A restart reads more at once, and then has the same.
    let mut new = Model::new(config, 0);
    new.blocks.clone_from(&model.blocks);
    new.publish(20);
    new.read(450);
    model.publish(20);
    assert_eq!((new.rewards_to(), new.cells()), (899, model.cells()));
}
