//! Prices of one number over recorded blocks: how long they hold, compared with what would be paid in the next block.

use std::fmt::Write;

use gas_suggestion::extras::demo::DemoRecording;
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

/// Every how many heads the prices are compared with those of [`expected_bound`].
const COMPARED_EVERY: usize = 10;

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

fn recorded(name: &'static str, path: &str, denominator: u64) -> Series {
    let recording = DemoRecording::from_gzip(&fixtures::read(path)).unwrap();
    let is_60 = |percentile: &f64| percentile.total_cmp(&60.0).is_eq();
    let column = recording.reward_percentiles.iter().position(is_60).unwrap();
    let block = |position: usize| Block {
        base_fee: recording.base_fee_per_gas[position].into(),
        gas_used_ratio: Some(recording.gas_used_ratio[position]),
        rewards: Some(rewards(recording.reward[position][column].into())),
    };
    let blocks = (0..recording.gas_used_ratio.len()).map(block).collect();
    Series { name, blocks, base_fees: recording.base_fee_per_gas, denominator: Some(denominator) }
}

fn rewards(medium: u128) -> Rewards {
    Rewards::new(&[medium])
}

/// A chain without tips whose base fee changes by up to 1 % from block to block, as on Arbitrum.
fn without_tips() -> Series {
    const BLOCKS: usize = 3000;
    let (mut state, mut base_fee) = (88_172_645_463_325_252_u64, 1_000_000_000_u64);
    let base_fees: Vec<u64> = std::iter::repeat_with(|| {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        base_fee = base_fee * (9_900_000 + state % 200_001) / 10_000_000;
        base_fee
    })
    .take(BLOCKS + 1)
    .collect();
    let block = |base_fee: &u64| Block {
        base_fee: (*base_fee).into(),
        gas_used_ratio: Some(0.5),
        rewards: Some(rewards(0)),
    };
    let blocks = base_fees.iter().take(BLOCKS).map(block).collect();
    Series { name: "no tips, ±1 %", base_fees, blocks, denominator: None }
}

/// Counts of the prices of one tier.
#[derive(Default)]
struct Tally {
    prices: usize,
    /// Prices that no base fee of the blocks after the next one exceeds, without the bound and with it.
    kept: [usize; 2],
    raised: usize,
    /// Surcharge of the bound, in thousandths of the price without it.
    added: Vec<u128>,
}

impl Tally {
    fn record(&mut self, paid: u128, price: u128, following: &[u64]) {
        let highest = u128::from(*following.iter().max().unwrap());
        self.prices += 1;
        self.kept[0] += usize::from(paid >= highest);
        self.kept[1] += usize::from(price >= highest);
        self.raised += usize::from(price > paid);
        self.added.push((price - paid) * 1000 / paid);
    }

    /// Returns a count in hundredths of a percent of the prices.
    fn share(&self, count: usize) -> usize {
        count * 10_000 / self.prices
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
        if mined.is_multiple_of(COMPARED_EVERY) {
            let n = series.denominator.unwrap_or(8).into();
            let soon = expected_bound(known, next, 2, n);
            let later = expected_bound(known, next, 5, n).max(soon);
            let expected = [paid[0].max(soon), paid[1].max(soon), paid[2].max(later)];
            assert_eq!([low, medium, high], expected, "{} at {mined}", series.name);
        }
        let following = |blocks| &series.base_fees[mined + 1..=mined + blocks];
        for ((tally, blocks), (paid, price)) in
            tallies.iter_mut().zip([2, 2, 5]).zip(paid.into_iter().zip([low, medium, high]))
        {
            tally.record(paid, price, following(blocks));
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
        let tallies = judge(&series);
        for (mut tally, (name, blocks)) in
            tallies.into_iter().zip([("low", 2), ("medium", 2), ("high", 5)])
        {
            tally.added.sort_unstable();
            let [before, after] = tally.kept.map(|kept| tally.share(kept));
            let raised = tally.share(tally.raised);
            let added = tally.added[tally.added.len() / 2];
            let percent = |share: usize| format!("{}.{:02}", share / 100, share % 100);
            let [before_text, after_text, raised_text] = [before, after, raised].map(percent);
            let _ = writeln!(
                table,
                "{}, {name}, {blocks}, {before_text}, {after_text}, {raised_text}, {added}",
                series.name
            );
            assert!(after >= 9750, "{table}");
        }
    }
    println!("{table}");
}
