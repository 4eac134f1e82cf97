//! Prices of one number over recorded blocks: how long they hold, compared with what would be paid in the next block.

use std::fmt::Write;

use gas_suggestion::fees::{
    self, Block, ChainParameters, FeeHistory, Pricing, Rewards, SinglePrices,
};

use crate::fixtures;

/// Blocks of the averaging window.
const WINDOW: usize = 20;

/// Blocks whose rises are known before the first price is judged.
const KNOWN_BLOCKS: usize = 200;

/// Blocks that a chain remembers by default.
const REMEMBERED_BLOCKS: usize = 1024;

/// Computes the bound of a base fee a second time, for amounts below 2^64.
pub(crate) fn expected_bound(base_fees: &[u64], next: u128, blocks: usize, n: u128) -> u128 {
    let mut rises: Vec<[u128; 2]> = Vec::new();
    for position in 0..base_fees.len().saturating_sub(blocks) {
        let following = &base_fees[position + 1..=position + blocks];
        if base_fees[position] != 0 {
            rises.push([*following.iter().max().unwrap(), base_fees[position]].map(u128::from));
        }
    }
    let [numerator, denominator] = if rises.len() < 100 {
        [n + 1, n].map(|factor| factor.pow(u32::try_from(blocks).unwrap()))
    } else {
        rises.sort_by(|one, other| (one[0] * other[1]).cmp(&(other[0] * one[1])));
        rises[(99 * rises.len()).div_ceil(100) - 1]
    };
    (next * numerator).div_ceil(denominator).max(next)
}

/// Consecutive blocks of one chain.
struct Series {
    name: &'static str,
    base_fees: Vec<u64>,
    /// One less than base fees.
    blocks: Vec<Block>,
    denominator: Option<u64>,
}

impl Series {
    /// Returns blocks with these base fees, ratios and rewards. The last base fee is that of the block after them.
    fn new(
        name: &'static str,
        base_fees: Vec<u64>,
        facts: impl Iterator<Item = (f64, u64)>,
        denominator: Option<u64>,
    ) -> Self {
        let block = |(base_fee, (ratio, reward)): (&u64, (f64, u64))| Block {
            base_fee: (*base_fee).into(),
            gas_used_ratio: Some(ratio),
            rewards: Some(Rewards::new(&[reward.into()])),
        };
        let blocks = base_fees[..base_fees.len() - 1].iter().zip(facts).map(block).collect();
        Self { name, base_fees, blocks, denominator }
    }
}

fn recorded(name: &'static str, path: &str, denominator: u64) -> Series {
    let recording = fixtures::recording(path);
    let is_60 = |percentile: &f64| percentile.total_cmp(&60.0).is_eq();
    let column = recording.reward_percentiles.iter().position(is_60).unwrap();
    let rewards = recording.reward.iter().map(|row| row[column]);
    let facts = recording.gas_used_ratio.iter().copied().zip(rewards);
    Series::new(name, recording.base_fee_per_gas.clone(), facts, Some(denominator))
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
    Series::new("no tips, ±1 %", base_fees.take(3001).collect(), facts, None)
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

/// Judges the prices at each head of the series: low and medium over two blocks after the next one, high over five.
fn judge(series: &Series) -> [Tally; 3] {
    let pricing = Pricing {
        base_fee_floor: 0,
        priority_fee_floor: 0,
        base_fee_change_denominator: series.denominator.and_then(std::num::NonZeroU64::new),
        ..Pricing::default()
    };
    let parameters = ChainParameters::without_header(&pricing);
    let mut tallies: [Tally; 3] = Default::default();
    for mined in KNOWN_BLOCKS..series.base_fees.len() - 5 {
        let window = series.blocks[mined - WINDOW..mined].to_vec();
        let next: u128 = series.base_fees[mined].into();
        let history = FeeHistory::new(7, window, Some(next)).unwrap();
        let market = fees::price(&history, &pricing, &parameters).unwrap();
        let known = &series.base_fees[mined.saturating_sub(REMEMBERED_BLOCKS)..mined];
        let base_fees: Vec<u128> = known.iter().copied().map(u128::from).collect();
        let SinglePrices { low, medium, high, .. } = SinglePrices::new(&market, &base_fees);
        let paid = [market.low, market.suggestion.medium, market.suggestion.high]
            .map(|tier| tier.price_at(next));
        let prices = paid.into_iter().zip([low, medium, high]);
        for ((tally, blocks), (paid, price)) in tallies.iter_mut().zip([2, 2, 5]).zip(prices) {
            let following = &series.base_fees[mined + 1..=mined + blocks];
            tally.0.push([paid, price, (*following.iter().max().unwrap()).into()]);
        }
    }
    tallies
}

/// The table of docs/drop-in.md: `cargo test --test integration prices_of_one_number_hold -- --nocapture`.
#[test]
fn prices_of_one_number_hold_for_the_blocks_that_they_promise() {
    let mut table =
        String::from("chain, price, blocks, holds % before, after, raised %, added ‰ (median)\n");
    for series in [
        recorded("Ethereum", "src/extras/demo/recordings/ethereum.json.gz", 8),
        recorded("Base", "src/extras/demo/recordings/base.json.gz", 25),
        recorded("Polygon", "tests/fixtures/recordings/polygon.json.gz", 20),
        without_tips(),
    ] {
        let tiers = [("low", 2), ("medium", 2), ("high", 5)];
        for (tally, (name, blocks)) in judge(&series).into_iter().zip(tiers) {
            let after = tally.share(|[_, price, highest]| price >= highest);
            let before = tally.share(|[paid, _, highest]| paid >= highest);
            let raised = tally.share(|[paid, price, _]| price > paid);
            let [before, kept, raised] =
                [before, after, raised].map(|share| format!("{}.{:02}", share / 100, share % 100));
            let (series, added) = (series.name, tally.added());
            let row = format!("{series}, {name}, {blocks}, {before}, {kept}, {raised}, {added}");
            let _ = writeln!(table, "{row}");
            assert!(after >= 9750, "{table}");
        }
    }
    println!("{table}");
}
