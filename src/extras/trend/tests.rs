mod refill;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bucket::UNKNOWN_RATIO;
use super::level::{Level, PriceLevel};
use super::*;
use crate::fees::tests::market;
use crate::fees::{Block, FeeHistory, Pricing};

const GWEI: u64 = 1_000_000_000;
/// Start of an hour and of a day.
const START: u32 = 1_800_000_000 - 1_800_000_000 % 86_400;

fn sample(number: u64, time: u32, base_fee: u64) -> Sample {
    Sample { number, base_fee, tip: GWEI, gas_used_ratio: 0.5_f64.to_bits(), time }
}

fn trend(samples: impl IntoIterator<Item = Sample>) -> FeeTrend {
    let mut trend = FeeTrend::new(7);
    samples.into_iter().for_each(|sample| trend.add(sample));
    trend
}

/// Computes buckets from all blocks at once, in the most obvious way.
fn expected(blocks: &BTreeMap<u64, Sample>, period: Period, now: u32) -> Vec<Bucket> {
    fn range<T: Copy>(mut values: Vec<T>, compare: fn(&T, &T) -> std::cmp::Ordering) -> [T; 3] {
        values.sort_by(compare);
        let last = values.len() - 1;
        [values[0], values[last / 2], values[last]]
    }
    let (width, count) = match period {
        Period::Hour => (60, 60),
        Period::Day => (600, 144),
        Period::Week => (3600, 168),
    };
    let newest = now / width;
    let mut groups: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
    for block in blocks.values() {
        groups.entry(block.time / width).or_default().push(*block);
    }
    let shown = groups.into_iter().filter(|(index, _)| index + count > newest);
    let bucket = |(_, blocks): (u32, Vec<Sample>)| {
        let ratios = blocks.iter().map(|it| f64::from_bits(it.gas_used_ratio));
        let ratios: Vec<f64> = ratios.filter(|ratio| !ratio.is_nan()).collect();
        Bucket {
            first: blocks.iter().map(|block| block.time).min().unwrap(),
            blocks: blocks.len().try_into().unwrap(),
            base_fee: range(blocks.iter().map(|block| block.base_fee).collect(), u64::cmp),
            tip: range(blocks.iter().map(|block| block.tip).collect(), u64::cmp),
            gas_used_ratio: if ratios.is_empty() {
                [UNKNOWN_RATIO; 3]
            } else {
                range(ratios, f64::total_cmp).map(f64::to_bits)
            },
            price: range(blocks.iter().map(Sample::price).collect(), u64::cmp)[1],
        }
    };
    shown.map(bucket).collect()
}

/// Seconds to the next block, its amounts, and how many of the newest blocks a reorg replaces with it.
type Step = (u32, u64, u64, Option<f64>, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seconds = prop_oneof![
        20 => 0_u32..30,
        3 => 30_u32..900,
        1 => 900_u32..20_000,
        1 => 60_000_u32..800_000,
    ];
    let reorg = prop_oneof![8 => Just(0_u64), 1 => 1_u64..4];
    let ratio = proptest::option::weighted(0.9, 0.0..=1.0);
    proptest::collection::vec((seconds, any::<u64>(), 0..100_u64, ratio, reorg), 1..400)
}

proptest! {
    #[test]
    fn buckets_equal_those_computed_from_all_blocks(steps in steps(), later in 0_u32..4000) {
        let mut trend = FeeTrend::new(7);
        let mut blocks = BTreeMap::new();
        let (mut number, mut time) = (100, START + 1234);
        for (seconds, base_fee, tip, ratio, reorg) in steps {
            time += seconds;
            let gas_used_ratio = ratio.map_or(UNKNOWN_RATIO, f64::to_bits);
            number += 1;
            let new = Sample { number, base_fee, tip, gas_used_ratio, time };
            blocks.insert(number, new);
            trend.add(new);
            for replaced in number.saturating_sub(reorg)..number {
                let new = Sample { number: replaced, base_fee: base_fee / 2, tip, gas_used_ratio, time };
                trend.add(new);
                if let Some(known) = blocks.get_mut(&replaced)
                    && known.time / HOUR == time / HOUR
                {
                    *known = Sample { time: known.time, ..new };
                }
            }
        }
        let now = time + later;
        for period in Period::ALL {
            let known = trend.buckets(period, now.into());
            prop_assert_eq!(known, expected(&blocks, period, now), "{:?}", period);
        }
    }
}

#[test]
fn hourly_buckets_are_kept_for_the_configured_days() {
    for (days, count) in [(1, 24), (3, 72), (7, 168), (9, 168)] {
        let mut trend = FeeTrend::new(days);
        for hour in 0..400_u32 {
            trend.add(sample(hour.into(), START + hour * HOUR, 1));
        }
        let now = u64::from(START + 399 * HOUR);
        // The open hour comes on top until it ends.
        assert!((count..=count + 1).contains(&trend.buckets(Period::Week, now).len()), "{days}");
    }
}

#[test]
fn a_fast_chain_keeps_every_block_up_to_a_limit() {
    let trend = |blocks: u64, per_second: u64| {
        trend((0..blocks).map(|number| {
            let time = START + u32::try_from(number / per_second).unwrap();
            sample(number, time, 1000 + number % 65)
        }))
    };
    let ten_a_second = trend(36_000, 10);
    let [hour] = ten_a_second.buckets(Period::Week, START.into())[..] else { panic!("one bucket") };
    assert_eq!((hour.blocks, hour.base_fee[1]), (36_000, 1032));
    let minutes = ten_a_second.buckets(Period::Hour, START.into());
    assert!(minutes.len() == 60 && minutes.iter().all(|minute| minute.blocks == 600));
    let twenty_a_second = trend(72_000, 20);
    assert_eq!(twenty_a_second.buckets(Period::Week, START.into())[0].blocks, 40_000);
}

#[test]
fn memory_of_a_chain_is_bounded() {
    for (milliseconds, expected) in [(12_000, 61_094), (2000, 127_534), (500, 370_534)] {
        let mut trend = FeeTrend::new(7);
        let mut add = |first: u64, seconds: u32, milliseconds: u64| {
            for index in 0..u64::from(seconds) * 1000 / milliseconds {
                let time = START + u32::try_from(first + index * milliseconds / 1000).unwrap();
                trend.add(sample(first * 1000 + index, time, 1));
            }
        };
        // A week with a block an hour, and a day with all blocks.
        add(0, 8 * 86_400, 3_600_000);
        add(8 * 86_400, 86_400, milliseconds);
        let max_bytes = FeeTrend::max_bytes(Duration::from_millis(milliseconds));
        let samples = trend.open.samples.capacity() * size_of::<Sample>();
        // A map of sorted entries takes a twelfth more than they do.
        let buckets = trend.closed.len() * size_of::<((Period, u32), Bucket)>() * 13 / 12;
        let bytes = samples + buckets;
        assert_eq!(max_bytes, expected, "{milliseconds}");
        assert!((max_bytes * 4 / 5..=max_bytes).contains(&bytes), "{milliseconds}: {bytes}");
        assert!((340..=60 + 144 + 168).contains(&trend.closed.len()), "{milliseconds}");
    }
}

#[test]
fn a_clock_that_is_set_back_keeps_the_order() {
    let mut trend = trend([sample(1, START + 100, 1), sample(2, START + 200, 2)]);
    trend.add(sample(3, START + 150, 3));
    let minutes = trend.buckets(Period::Hour, START.into());
    assert_eq!(minutes.iter().map(|minute| minute.blocks).collect::<Vec<_>>(), [1, 2]);
    assert!(minutes.is_sorted_by_key(|minute| minute.first));

    let seen = |trend: &mut FeeTrend, number, time: u32| record(trend, number, &[1, 1], time);
    let mut trend = FeeTrend::new(7);
    seen(&mut trend, 10, START);
    // The clock is a year ahead for two blocks.
    seen(&mut trend, 11, START + 365 * 86_400);
    seen(&mut trend, 12, START + 365 * 86_400 + HOUR);
    seen(&mut trend, 13, START + HOUR + 60);
    seen(&mut trend, 14, START + HOUR + 120);
    let hours = trend.buckets(Period::Week, u64::from(START + HOUR));
    let shown: Vec<_> = hours.iter().map(|hour| (hour.start(HOUR), hour.blocks)).collect();
    assert_eq!(shown.last(), Some(&(START + HOUR, 2)));
    assert!(shown.iter().all(|(start, _)| *start <= START + HOUR), "{shown:?}");
    // A day later everything is as if nothing had happened.
    seen(&mut trend, 15, START + 86_400);
    assert_eq!(trend.newest_time, START + 86_400);
}

/// Records a reply whose last block is `newest`, seen at this second. Blocks are two seconds apart.
fn record(trend: &mut FeeTrend, newest: u64, base_fees: &[u64], time: u32) {
    let block = |base_fee: &u64| Block {
        base_fee: (*base_fee).into(),
        gas_used_ratio: Some(0.5),
        rewards: Some([u128::from(GWEI) + u128::from(*base_fee), 0]),
    };
    let blocks: Vec<_> = base_fees.iter().map(block).collect();
    let oldest = newest + 1 - u64::try_from(base_fees.len()).unwrap();
    let history = FeeHistory::new(oldest, blocks.clone(), Some(7)).unwrap();
    let pricing = Pricing {
        priority_fee_floor: 0,
        base_fee_floor: 0,
        max_base_fee: u128::MAX,
        max_priority_fee: u128::MAX,
        ..Pricing::default()
    };
    let market = market(&history, &pricing);
    let (time, block_time) = (u64::from(time) * 1000, Duration::from_secs(2));
    trend.record(&history, &market, &pricing, &blocks, time, block_time);
}

#[test]
fn every_block_of_a_reply_is_dated_and_priced() {
    let mut trend = FeeTrend::new(7);
    record(&mut trend, 102, &[10, 20, 40], START + 60);
    // Times are START + 56, 58 and 60; tips are the averages of the rewards up to each block.
    let minutes = trend.buckets(Period::Hour, START.into());
    assert_eq!(
        minutes.iter().map(|it| (it.first - START, it.blocks)).collect::<Vec<_>>(),
        [(56, 2), (60, 1)]
    );
    assert_eq!(minutes[0].tip, [GWEI + 10, GWEI + 10, GWEI + 15]);
    assert_eq!(minutes[1].tip, [GWEI + 23; 3]);
    // The same reply again changes nothing, nor does a later poll date a block anew.
    let before = trend.clone();
    record(&mut trend, 102, &[10, 20, 40], START + 90);
    assert_eq!(trend, before);
    record(&mut trend, 104, &[20, 40, 50, 60], START + 100);
    let samples: Vec<_> = (100..=104).map(|number| *trend.open.get(number).unwrap()).collect();
    assert_eq!(samples.iter().map(|it| it.time - START).collect::<Vec<_>>(), [56, 58, 60, 98, 100]);
    assert_eq!(samples[3].tip, GWEI + 110 / 3);
}

#[test]
fn a_reorg_replaces_samples_by_number() {
    let mut trend = FeeTrend::new(7);
    record(&mut trend, 102, &[10, 20, 40], START + 60);
    record(&mut trend, 102, &[10, 30, 50], START + 62);
    let fees = |trend: &FeeTrend| -> Vec<_> {
        (100..=104).filter_map(|number| trend.open.get(number)).map(|it| it.base_fee).collect()
    };
    assert_eq!(fees(&trend), [10, 30, 50]);
    assert_eq!(trend.open.get(101).unwrap().tip, GWEI + 20);
    // The head falls back, and the blocks above it are gone.
    record(&mut trend, 101, &[10, 31], START + 64);
    assert_eq!(fees(&trend), [10, 31]);
    record(&mut trend, 102, &[31, 51], START + 66);
    assert_eq!(fees(&trend), [10, 31, 51]);
    assert_eq!(trend.open.get(102).unwrap().time, START + 66);
    let blocks: u32 = trend.buckets(Period::Hour, START.into()).iter().map(|it| it.blocks).sum();
    assert_eq!(blocks, 3);
}

#[test]
fn a_head_that_was_far_ahead_hides_no_block() {
    let mut trend = FeeTrend::new(7);
    record(&mut trend, 102, &[10, 20, 40], START + 60);
    record(&mut trend, 1_000_102, &[1, 2, 3], START + 62);
    record(&mut trend, 105, &[20, 40, 50, 60, 70], START + 68);
    record(&mut trend, 106, &[60, 70, 80], START + 70);
    let fees = (100..=106).map(|number| trend.open.get(number).map(|it| it.base_fee));
    assert_eq!(fees.collect::<Vec<_>>(), [10, 20, 40, 50, 60, 70, 80].map(Some));
    assert_eq!(trend.open.samples.len(), 7);
}

/// Builds one block a minute with these base fees. The tip is 1 gwei.
fn minutes(base_fees: impl IntoIterator<Item = u64>) -> (FeeTrend, u64) {
    let samples = base_fees.into_iter().zip(0_u32..);
    let samples = samples.map(|(fee, index)| sample(index.into(), START + index * 60, fee));
    let trend = trend(samples);
    let now = trend.newest_time;
    (trend, now.into())
}

#[test]
fn the_prices_of_a_day_are_unknown_before_an_hour() {
    let (trend, now) = minutes([GWEI; 60]);
    assert_eq!([trend.day_prices(now), trend.day_prices(now + 59)], [None, None]);
    let is_known = |trend: &FeeTrend| trend.day_prices(trend.newest_time.into()).is_some();
    assert!(is_known(&minutes([GWEI; 61]).0));
    // A start in the middle of a bucket counts from there, and gaps do not count.
    let late = |count: u32, gap: u32| {
        let samples = (0..count).map(|index| {
            let gap = if index < 20 { 0 } else { gap };
            sample(index.into(), START + 305 + gap + index * 60, GWEI)
        });
        is_known(&super::tests::trend(samples))
    };
    assert_eq!([late(60, 0), late(61, 0)], [false, true]);
    assert_eq!([late(56, 7200), late(57, 7200)], [false, true]);
}

#[test]
fn each_ten_minutes_of_the_last_day_count_once() {
    // For three hours a block a minute at 1 gwei, then two hours with a block a second at 5 gwei.
    let slow = (0..180).map(|index| sample(index.into(), START + index * 60, GWEI));
    let fast =
        (0..7200).map(|index| sample(180 + u64::from(index), START + 10_800 + index, 5 * GWEI));
    let trend = trend(slow.chain(fast));
    let day = |hours: u32| trend.day_prices(u64::from(START + hours * HOUR - 1)).unwrap();
    let all = [[2 * GWEI; 18].as_slice(), &[6 * GWEI; 12]].concat();
    assert_eq!(day(5), all);
    // Blocks of more than a day ago do not count.
    assert_eq!(day(27), all[18..]);
}

#[test]
fn a_level_needs_five_percent_besides_a_percentile() {
    // The 20th percentile is 80, the median 100, and the 80th percentile 130.
    let wide = [70, 80, 90, 95, 100, 110, 120, 130, 140, 150];
    let flat = [100; 10];
    for (price, day, expected) in [
        (80, wide, (Level::Low, -0.2)),
        (81, wide, (Level::Normal, -0.19)),
        (100, wide, (Level::Normal, 0.0)),
        (129, wide, (Level::Normal, 0.29)),
        (130, wide, (Level::High, 0.3)),
        (12_500, wide, (Level::High, 124.0)),
        (95, flat, (Level::Low, -0.05)),
        (96, flat, (Level::Normal, -0.04)),
        (104, flat, (Level::Normal, 0.04)),
        (105, flat, (Level::High, 0.05)),
        (0, [0; 10], (Level::Normal, 0.0)),
    ] {
        let (level, deviation) = expected;
        let expected = PriceLevel { level: Some(level), level_deviation: Some(deviation) };
        assert_eq!(PriceLevel::new(price, &day), expected, "{price}");
    }
    let most = PriceLevel::new(u128::MAX, &[1]);
    assert_eq!((most.level, most.level_deviation), (Some(Level::High), Some(4_294.967_295)));
    let paid = PriceLevel { level: Some(Level::High), level_deviation: None };
    assert_eq!(PriceLevel::new(7, &[0; 10]), paid);
    assert_eq!(PriceLevel::new(7, &[]), PriceLevel::default());
}

#[test]
fn an_amount_beyond_64_bits_is_left_out() {
    let mut trend = FeeTrend::new(7);
    record(&mut trend, 101, &[10, u64::MAX], START);
    // The tip is the average of the rewards, and one reward is above 64 bits.
    assert_eq!(trend.open.get(101).map(|it| it.base_fee), Some(u64::MAX));
    record(&mut trend, 102, &[u64::MAX, u64::MAX], START + 2);
    assert_eq!(trend.open.get(102), None);
    assert_eq!(trend.newest_block, 101);
}
