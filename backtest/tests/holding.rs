//! Prices of one number over recorded blocks: how long they hold, compared with what would be paid in the next block.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use gas_suggestion::config::Config;
use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::fees::{
    self, BaseFeeStep, Block, ChainParameters, FeeHistory, HeldBaseFee, Market, Pricing,
    SinglePrices, Target,
};

/// Blocks of the averaging window.
const WINDOW: usize = 20;

/// Blocks that are known before the first price is judged.
const KNOWN_BLOCKS: usize = 300;

/// Seconds whose base fees are known: a chain remembers 1,024 blocks, and the steps of an hour.
const REMEMBERED_SECONDS: usize = 3600;

/// Seconds for which prices hold: those of low and medium, and of high.
const SECONDS: [usize; 2] = [15, 30];

/// Seconds of a step on a chain with shorter block times.
const STEP: usize = 5;

/// Consecutive blocks of one chain.
struct Series {
    name: &'static str,
    /// In seconds.
    block_time: usize,
    base_fees: Vec<u64>,
    /// One less than base fees.
    blocks: Vec<Block>,
}

impl Series {
    /// Returns blocks with these base fees, ratios and rewards. The last base fee is that of the block after them.
    fn new(
        name: &'static str,
        block_time: usize,
        base_fees: Vec<u64>,
        facts: impl Iterator<Item = (f64, u64)>,
    ) -> Self {
        let block = |(base_fee, (ratio, reward)): (&u64, (f64, u64))| Block {
            base_fee: (*base_fee).into(),
            gas_used_ratio: Some(ratio),
            rewards: Some([reward.into(), 0]),
        };
        let blocks = base_fees[..base_fees.len() - 1].iter().zip(facts).map(block).collect();
        Self { name, block_time, base_fees, blocks }
    }

    /// Returns the steps of the blocks before the one with this index, the first of which was mined at second 0.
    fn steps(&self, mined: usize) -> Vec<BaseFeeStep> {
        let remembered = mined.saturating_sub(REMEMBERED_SECONDS / self.block_time);
        let blocks =
            (remembered..mined).map(|index| (index * self.block_time, &self.blocks[index]));
        if self.block_time >= STEP {
            return blocks.map(|(_, block)| BaseFeeStep::from_base_fee(block.base_fee)).collect();
        }
        let blocks: Vec<_> = blocks.collect();
        let in_step = |blocks: &[(usize, &Block)]| BaseFeeStep {
            last: blocks.last().unwrap().1.base_fee,
            highest: blocks.iter().map(|(_, block)| block.base_fee).max().unwrap(),
        };
        blocks.chunk_by(|(one, _), (other, _)| one / STEP == other / STEP).map(in_step).collect()
    }
}

fn recorded(name: &'static str, path: &str, block_time: usize) -> Series {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let recording = DemoRecording::from_gzip(&std::fs::read(path).unwrap()).unwrap();
    let is_60 = |percentile: &f64| percentile.total_cmp(&60.0).is_eq();
    let column = recording.reward_percentiles.iter().position(is_60).unwrap();
    let rewards = recording.reward.iter().map(|row| row[column]);
    let facts = recording.gas_used_ratio.iter().copied().zip(rewards);
    Series::new(name, block_time, recording.base_fee_per_gas.clone(), facts)
}

/// A chain without tips whose base fee changes by up to 1 % from block to block, as on Arbitrum.
fn without_tips() -> Series {
    let (mut state, mut base_fee) = (88_172_645_463_325_252_u64, 1_000_000_000_u64);
    let base_fees = std::iter::repeat_with(|| {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        base_fee = base_fee * (9_900_000 + state % 200_001) / 10_000_000;
        base_fee
    });
    let facts = std::iter::repeat((0.5, 0));
    Series::new("no tips, ±1 %", 1, base_fees.take(3001).collect(), facts)
}

/// Prices of one tier at each head: without the bound, with it, and the highest base fee of the blocks after the next one.
#[derive(Default)]
struct Tally(Vec<[u128; 3]>);

impl Tally {
    /// Returns the share of prices with this property, in hundredths of a percent.
    fn share(&self, is_so: impl Fn(&[u128; 3]) -> bool) -> usize {
        self.0.iter().filter(|prices| is_so(prices)).count() * 10_000 / self.0.len()
    }

    /// Returns the median surcharge of the bound, in thousandths of the price without it.
    fn added(&self) -> u128 {
        let mut added: Vec<_> =
            self.0.iter().map(|[paid, price, _]| (price - paid) * 1000 / paid).collect();
        added.sort_unstable();
        added[added.len() / 2]
    }
}

/// The series whose tables the documents have.
fn all_series() -> [Series; 4] {
    [
        recorded("Ethereum", "src/extras/demo/recordings/ethereum.json.gz", 12),
        recorded("Base", "src/extras/demo/recordings/base.json.gz", 2),
        recorded("Polygon", "tests/fixtures/recordings/polygon.json.gz", 2),
        without_tips(),
    ]
}

/// Returns the market of the block after those that are mined.
fn market(series: &Series, mined: usize, pricing: &Pricing) -> Market {
    let window = series.blocks[mined - WINDOW..mined].to_vec();
    let history = FeeHistory::new(7, window, Some(series.base_fees[mined].into())).unwrap();
    fees::price(&history, &[], pricing, &ChainParameters::from_pricing(pricing)).unwrap()
}

/// Returns the highest of the `count` base fees after the one with this index.
fn highest_after(series: &Series, index: usize, count: usize) -> u128 {
    (*series.base_fees[index + 1..=index + count].iter().max().unwrap()).into()
}

/// The network's rule, without floors.
fn network_pricing() -> Pricing {
    let text = "[chains.a]\nchain_id = 4711\nrpc_urls = [\"http://localhost\"]\npricing.strategy = \"network\"";
    Config::from_toml(text, &[]).unwrap().chains.remove(0).pricing
}

/// Judges the prices at each head of the series.
fn judge(series: &Series) -> [Tally; 3] {
    let pricing = network_pricing();
    let block_time = Duration::from_secs(series.block_time as u64);
    let blocks = [(SECONDS[0], 2), (SECONDS[0], 2), (SECONDS[1], 5)]
        .map(|(seconds, least)| seconds.div_ceil(series.block_time).max(least));
    let mut tallies: [Tally; 3] = Default::default();
    for mined in KNOWN_BLOCKS..series.base_fees.len() - blocks[2] {
        let market = market(series, mined, &pricing);
        let next = market.newest_known_base_fee;
        let steps = series.steps(mined);
        let prices = SinglePrices::new(&market, &steps, block_time);
        let paid = market.suggestion.tiers.into_array().map(|tier| tier.price_at(next));
        let prices = paid.into_iter().zip(prices.tiers.into_array());
        for ((tally, blocks), (paid, price)) in tallies.iter_mut().zip(blocks).zip(prices) {
            tally.0.push([paid, price, highest_after(series, mined, blocks)]);
        }
    }
    tallies
}

/// Prints a table: `cargo test --test holding prices_of_one_number_hold -- --nocapture`.
#[test]
fn prices_of_one_number_hold_for_the_seconds_that_they_promise() {
    let mut table =
        String::from("chain, price, seconds, holds % before, after, raised %, added ‰ (median)\n");
    for series in all_series() {
        let tiers = [("low", SECONDS[0]), ("medium", SECONDS[0]), ("high", SECONDS[1])];
        for (tally, (name, seconds)) in judge(&series).into_iter().zip(tiers) {
            let after = tally.share(|[_, price, highest]| price >= highest);
            let before = tally.share(|[paid, _, highest]| paid >= highest);
            let raised = tally.share(|[paid, price, _]| price > paid);
            let [before, kept, raised] =
                [before, after, raised].map(|share| format!("{}.{:02}", share / 100, share % 100));
            let (series, added) = (series.name, tally.added());
            let row = format!("{series}, {name}, {seconds}, {before}, {kept}, {raised}, {added}");
            let _ = writeln!(table, "{row}");
            assert!(after >= 9750, "{table}");
        }
    }
    println!("{table}");
}

/// The table of docs/pricing.md: `cargo test --test holding max_fees_hold -- --nocapture`.
#[test]
fn max_fees_hold_about_as_often_as_they_promise_for_a_minute() {
    let pricing = network_pricing();
    let mut table =
        String::from("chain, seconds, holds % at 95, added ‰ (median), at 99, added ‰\n");
    for series in all_series() {
        for seconds in [30_usize, 60, 600] {
            let blocks = seconds.div_ceil(series.block_time);
            let mut row = format!("{}, {seconds}", series.name);
            for percent in [95, 99] {
                let mut tally = Tally::default();
                for mined in KNOWN_BLOCKS..series.base_fees.len() - blocks {
                    let market = market(&series, mined, &pricing);
                    let steps = series.steps(mined);
                    let [block_time, time] =
                        [series.block_time, seconds].map(|it| Duration::from_secs(it as u64));
                    let share = Target::from_percent(percent);
                    let held = HeldBaseFee::new(&market, &steps, block_time, time, share);
                    let next = market.newest_known_base_fee;
                    tally.0.push([next, held.base_fee, highest_after(&series, mined, blocks)]);
                }
                let kept = tally.share(|[_, held, highest]| held >= highest);
                let _ = write!(row, ", {}.{:02}, {}", kept / 100, kept % 100, tally.added());
                // Blocks of half an hour say little about ten minutes.
                assert!(seconds > 60 || kept >= 8900, "{table}{row}");
            }
            let _ = writeln!(table, "{row}");
        }
    }
    println!("{table}");
}

/// The table of docs/cost.md: `cargo test --test holding everything -- --nocapture`.
#[test]
fn everything_that_is_sent_is_valid_when_it_arrives() {
    const SENDS: u64 = 1000;
    let pricing = network_pricing();
    let mut table =
        String::from("chain, valid %, left behind % of the fee, with twice the base fee\n");
    for series in all_series() {
        let block_time = Duration::from_secs(series.block_time as u64);
        let last = series.base_fees.len() - 30 / series.block_time - 2;
        let (mut valid, mut left) = (0, [0; 2]);
        for send in 0..SENDS {
            // It is signed at a head, and arrives 5 to 30 s later. Multiplication with these primes spreads both.
            let mined = KNOWN_BLOCKS + (send * 7919) as usize % (last - KNOWN_BLOCKS);
            let seconds = 5 + (send * 104_729) as usize % 26;
            let market = market(&series, mined, &pricing);
            let (steps, time) = (series.steps(mined), Duration::from_secs(30));
            let held =
                HeldBaseFee::new(&market, &steps, block_time, time, Target::new(0.999).unwrap());
            let base_fee: u128 = series.base_fees[mined + seconds / series.block_time].into();
            let tip = market.suggestion.tiers.medium.max_priority_fee_per_gas;
            valid += u32::from(base_fee + tip <= held.with_tip(tip).max_fee_per_gas);
            for (left, max) in
                left.iter_mut().zip([held.base_fee, 2 * market.newest_known_base_fee])
            {
                *left += max.saturating_sub(base_fee) * 1000 / (base_fee + tip);
            }
        }
        let left = left.map(|thousandths| f64::from(thousandths as u32) / 10.0 / SENDS as f64);
        let valid = f64::from(valid) / 10.0;
        let _ = writeln!(table, "{}, {valid}, {:.1}, {:.1}", series.name, left[0], left[1]);
        assert!(valid >= 95.0 && left[0] <= left[1] / 2.0, "{table}");
    }
    println!("{table}");
}
