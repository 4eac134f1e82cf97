use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fees::{self, Block, FeeHistory, Pricing, Rewards};
use crate::store::BlockWindow;

const GWEI: u64 = 1_000_000_000;
/// Start of an hour and of a day.
const START: u32 = 1_800_000_000 - 1_800_000_000 % 86_400;

fn sample(number: u64, time: u32, base_fee: u64) -> Sample {
    Sample { number, base_fee, tip: GWEI, gas_used_ratio: 0.5, time }
}

fn trend(samples: impl IntoIterator<Item = Sample>) -> FeeTrend {
    let mut trend = FeeTrend::new(7);
    samples.into_iter().for_each(|sample| trend.add(sample));
    trend
}

/// Computes buckets from all blocks at once, in the most obvious way.
fn expected(blocks: &BTreeMap<u64, Sample>, period: Period, now: u32) -> Vec<Bucket> {
    fn range<T: Copy>(mut values: Vec<T>, compare: fn(&T, &T) -> std::cmp::Ordering) -> Range<T> {
        values.sort_by(compare);
        let last = values.len() - 1;
        Range { min: values[0], median: values[last / 2], max: values[last] }
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
        let ratios: Vec<f64> =
            blocks.iter().map(|it| it.gas_used_ratio).filter(|ratio| !ratio.is_nan()).collect();
        Bucket {
            first: blocks.iter().map(|block| block.time).min().unwrap(),
            blocks: blocks.len().try_into().unwrap(),
            base_fee: range(blocks.iter().map(|block| block.base_fee).collect(), u64::cmp),
            tip: range(blocks.iter().map(|block| block.tip).collect(), u64::cmp),
            gas_used_ratio: if ratios.is_empty() {
                Range { min: f64::NAN, median: f64::NAN, max: f64::NAN }
            } else {
                range(ratios, f64::total_cmp)
            },
        }
    };
    shown.map(bucket).collect()
}

/// Seconds to the next block, its amounts, and how many of the newest blocks a reorg replaces with it.
fn steps() -> impl Strategy<Value = Vec<(u32, u64, u64, Option<f64>, u64)>> {
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
            let gas_used_ratio = ratio.unwrap_or(f64::NAN);
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
fn buckets_start_at_multiples_and_end_with_the_current_one() {
    let trend = trend((0..120).map(|index| sample(index.into(), START + index * 60, index.into())));
    let now = u64::from(START) + 119 * 60 + 59;
    let minutes = trend.buckets(Period::Hour, now);
    assert_eq!(minutes.len(), 60);
    assert_eq!(minutes[0].start(60), START + 3600);
    assert_eq!(trend.buckets(Period::Hour, now + 1).len(), 59);
    let tens = trend.buckets(Period::Day, now);
    assert_eq!((tens.len(), tens[0].start(600)), (12, START));
    assert_eq!(tens[0].base_fee, Range { min: 0, median: 4, max: 9 });
    let hours = trend.buckets(Period::Week, now);
    assert_eq!(hours.iter().map(|hour| hour.blocks).collect::<Vec<_>>(), [60, 60]);
    assert_eq!(trend.buckets(Period::Hour, now + 7200), []);
    assert_eq!(FeeTrend::new(7).buckets(Period::Day, now), []);
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
fn a_fast_chain_keeps_exact_counts_and_extremes() {
    let blocks = 3600 * 10;
    let trend = trend((0..blocks).map(|number| {
        // Only blocks that are not kept have the extremes.
        let base_fee = match number {
            17 => 1,
            30_001 => 1_000_000,
            number => 1000 + number % 64,
        };
        sample(number, START + u32::try_from(number / 10).unwrap(), base_fee)
    }));
    let [hour] = trend.buckets(Period::Week, START.into())[..] else { panic!("one bucket") };
    assert_eq!(u64::from(hour.blocks), blocks);
    assert_eq!((hour.base_fee.min, hour.base_fee.max), (1, 1_000_000));
    // Of every sixteenth block.
    assert_eq!(hour.base_fee.median, 1016);
    let minutes = trend.buckets(Period::Hour, START.into());
    assert!(minutes.len() == 60 && minutes.iter().all(|minute| minute.blocks == 600));
    // A block that was not kept is neither counted twice nor replaced.
    let mut replaced = trend.clone();
    replaced.add(sample(blocks - 1, START + 3599, 5));
    assert_eq!(replaced, trend);
}

#[test]
fn memory_of_a_chain_is_bounded() {
    for (milliseconds, expected) in [(12_000, 54_480), (2000, 120_920), (500, 203_760)] {
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
        let rings = trend.closed.iter().map(|ring| ring.capacity() * size_of::<Bucket>());
        let bytes = rings.sum::<usize>() + trend.open.allocated_bytes();
        assert_eq!(max_bytes, expected, "{milliseconds}");
        assert!((max_bytes * 4 / 5..=max_bytes).contains(&bytes), "{milliseconds}: {bytes}");
        let buckets = trend.closed.iter().map(VecDeque::len).sum::<usize>();
        assert!((340..=60 + 144 + 168).contains(&buckets), "{milliseconds}: {buckets}");
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
    let rewards = Some(Rewards { medium: u128::from(GWEI), high: None, graded: [0; 2] });
    let block = |base_fee: &u64| Block {
        base_fee: (*base_fee).into(),
        gas_used_ratio: Some(0.5),
        rewards: rewards.map(|it| Rewards { medium: it.medium + u128::from(*base_fee), ..it }),
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
    let window = |count: usize| BlockWindow {
        newest_block: newest,
        blocks: blocks[blocks.len().saturating_sub(count)..].to_vec(),
        next_base_fee: Some(7),
    };
    trend.record(&Observation {
        history: &history,
        market: Some(&fees::price(&history, &pricing).unwrap()),
        pricing: &pricing,
        newest_time: u64::from(time) * 1000,
        block_time: 2000,
        known_blocks: &window,
    });
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
    assert_eq!(minutes[0].tip.values(), [GWEI + 10, GWEI + 10, GWEI + 15]);
    assert_eq!(minutes[1].tip.values(), [GWEI + 23; 3]);
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

/// Builds one block a minute with these base fees. The tip is 1 gwei.
fn minutes(base_fees: impl IntoIterator<Item = u64>) -> (FeeTrend, u64) {
    let samples = base_fees.into_iter().zip(0_u32..);
    let samples = samples.map(|(fee, index)| sample(index.into(), START + index * 60, fee));
    let trend = trend(samples);
    let now = trend.newest_time;
    (trend, now.into())
}

#[test]
fn the_level_is_unknown_before_an_hour() {
    let (trend, now) = minutes([GWEI; 60]);
    assert_eq!(trend.level(2 * u128::from(GWEI), now), None);
    assert_eq!(trend.level(2 * u128::from(GWEI), now + 59), None);
    let (trend, now) = minutes([GWEI; 61]);
    assert_eq!(trend.level(2 * u128::from(GWEI), now), Some(Level::Normal));
    // A start in the middle of a bucket counts from there, and gaps do not count.
    let late = |count: u32, gap: u32| {
        let samples = (0..count).map(|index| {
            let gap = if index < 20 { 0 } else { gap };
            sample(index.into(), START + 305 + gap + index * 60, GWEI)
        });
        let trend = super::tests::trend(samples);
        trend.level(2 * u128::from(GWEI), trend.newest_time.into())
    };
    assert_eq!([late(60, 0), late(61, 0)], [None, Some(Level::Normal)]);
    assert_eq!([late(56, 7200), late(57, 7200)], [None, Some(Level::Normal)]);
}

#[test]
fn the_level_compares_with_both_quartiles_of_the_day() {
    // Ten minutes each at 1 to 12 gwei: the quartiles are 3 and 9 gwei, plus the tip.
    let (trend, now) = minutes((0..120).map(|index| (index / 10 + 1) * GWEI));
    let level = |gwei_tenths: u64| trend.level(u128::from(gwei_tenths * GWEI / 10), now).unwrap();
    assert_eq!([0, 39].map(level), [Level::Low; 2]);
    assert_eq!([40, 70, 100].map(level), [Level::Normal; 3]);
    assert_eq!([101, 1000].map(level), [Level::High; 2]);
    // Blocks of more than a day ago do not count.
    let (trend, now) = minutes((0..3000).map(|index| if index < 1500 { GWEI } else { 5 * GWEI }));
    assert_eq!(trend.level(u128::from(6 * GWEI), now), Some(Level::Normal));
    assert_eq!(trend.level(u128::from(5 * GWEI), now), Some(Level::Low));
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

/// Returns the trend after it was stored as JSON and restored.
fn restored(trend: &FeeTrend) -> FeeTrend {
    let json = serde_json::to_string(&trend.save()).unwrap();
    FeeTrend::restore(&serde_json::from_str(&json).unwrap(), trend.days).unwrap()
}

proptest! {
    #[test]
    fn a_restored_trend_goes_on_as_if_it_had_not_stopped(steps in steps(), stop in 0_usize..400) {
        let mut trend = FeeTrend::new(7);
        let mut other = FeeTrend::new(7);
        let (mut number, mut time) = (100, START + 1234);
        for (index, (seconds, base_fee, tip, ratio, _)) in steps.into_iter().enumerate() {
            time += seconds;
            number += 1;
            let gas_used_ratio = ratio.unwrap_or(f64::NAN);
            let new = Sample { number, base_fee, tip, gas_used_ratio, time };
            trend.add(new);
            other.add(new);
            if index == stop {
                other = restored(&other);
            }
        }
        other.changes = trend.changes;
        prop_assert_eq!(trend, other);
    }
}

#[test]
fn a_fast_chain_is_restored_with_the_blocks_that_are_not_kept() {
    let samples = (0..30_000).map(|number: u32| sample(number.into(), START + number / 10, 1));
    let trend = trend(samples);
    let restored = restored(&trend);
    assert_eq!(restored.save(), trend.save());
    assert_eq!(restored.buckets(Period::Week, START.into())[0].blocks, 30_000);
}

#[test]
fn a_trend_that_cannot_be_is_not_restored() {
    let (trend, _) = minutes((0..200).map(|minute| minute * GWEI));
    let saved = serde_json::to_value(trend.save()).unwrap();
    let restore = |saved: &serde_json::Value| {
        let saved = serde_json::from_value::<SavedTrend>(saved.clone()).ok()?;
        FeeTrend::restore(&saved, 7)
    };
    assert!(restore(&saved).is_some());
    let bucket = serde_json::json!([START, 0, [1, 1, 1], [1, 1, 1], null]);
    for (pointer, value) in [
        ("/newest_block", 5.into()),
        ("/newest_time", START.into()),
        ("/open/start", (START + 7200 + 60).into()),
        ("/open/start", (START + 3600).into()),
        ("/open/stride", 3.into()),
        ("/open/stride", 0.into()),
        ("/open/samples/3/0", 0.into()),
        ("/open/samples/3/1", START.into()),
        ("/open/samples/3/2", (-1).into()),
        ("/open/samples/3/2", 1.5.into()),
        ("/open/samples/3", serde_json::json!([1, 2, 3])),
        ("/minutes/0/2/0", u64::MAX.into()),
        ("/minutes/0/4/1", 7.into()),
        ("/ten_minutes/1", bucket.clone()),
        ("/hours/0", bucket),
        ("/hours/1/0", START.into()),
        ("/hours/1/0", (START + 9 * 3600).into()),
        ("/hours", serde_json::Value::Null),
    ] {
        let mut changed = saved.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert_eq!(restore(&changed), None, "{pointer}: {}", changed.pointer(pointer).unwrap());
    }
    let mut long = saved.clone();
    long["open"]["samples"] = vec![saved["open"]["samples"][0].clone(); 5000].into();
    assert_eq!(restore(&long), None);
}
