//! Restored trends and refills.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::extras::trend::fill::RefilledHours;

/// Returns a trend that is restored from what is written of this one.
fn restored(trend: &FeeTrend) -> FeeTrend {
    let mut restored = FeeTrend::new(trend.days);
    restored.merge(trend.all_buckets(&Period::ALL));
    restored
}

/// Everything that readers see at the second `now`.
fn shown(trend: &FeeTrend, now: u32) -> (Vec<Vec<Bucket>>, Option<Vec<u64>>) {
    let now = u64::from(now);
    let buckets = Period::ALL.map(|period| trend.buckets(period, now));
    (buckets.into(), trend.day_prices(now))
}

proptest! {
    #[test]
    fn a_restored_trend_shows_the_same_until_a_bucket_has_more_blocks(steps in steps()) {
        let blocks = blocks_of_steps(steps);
        let trend = trend(blocks.iter().copied());
        let (mut restored, now) = (restored(&trend), trend.newest_time);
        prop_assert_eq!(shown(&restored, now), shown(&trend, now));
        // The first poll after a restart repeats the newest blocks.
        blocks.iter().rev().take(20).rev().for_each(|block| restored.add(*block));
        prop_assert_eq!(shown(&restored, now), shown(&trend, now));
    }
}

#[test]
fn a_refill_that_fails_takes_no_minute_away() {
    let mut started =
        restored(&trend((0..5).map(|minute| sample(minute.into(), START + minute * 60, 7))));
    (0..9)
        .for_each(|second| started.add(sample(u64::from(second) + 100, START + 1200 + second, 7)));
    let now = started.newest_time.into();
    let before = started.buckets(Period::Hour, now);
    let mut hours = started.known_hours();
    started.start_refill(&mut hours, 100, 0);
    started.finish_refill(hours);
    assert_eq!(started.buckets(Period::Hour, now), before);
}

/// Refills with these blocks in chunks of seven, the newest first.
fn refill(trend: &mut FeeTrend, mut hours: RefilledHours, blocks: &[Sample]) {
    for chunk in blocks.rchunks(7) {
        let newest_first: Vec<Sample> = chunk.iter().rev().copied().collect();
        trend.refill(&mut hours, &newest_first);
    }
    trend.finish_refill(hours);
}

/// Returns consecutive blocks with the amounts of `steps`.
fn blocks_of_steps(steps: Vec<Step>) -> Vec<Sample> {
    let mut time = START + 1234;
    let block = |((seconds, base_fee, tip, ratio, _), number): (Step, u64)| {
        time += seconds;
        Sample {
            number,
            base_fee,
            tip,
            gas_used_ratio: ratio.map_or(UNKNOWN_RATIO, f64::to_bits),
            time,
        }
    };
    steps.into_iter().zip(100..).map(block).collect()
}

proptest! {
    #[test]
    fn a_refill_after_a_restart_is_as_if_nothing_had_been_missing(
        steps in steps(), stop in 0_usize..400, length in 1_usize..300,
    ) {
        let blocks = blocks_of_steps(steps);
        let stop = stop % blocks.len();
        let start = (stop + length).min(blocks.len() - 1);
        prop_assume!(stop < start);
        // The restart is in the last hour.
        let end = blocks.iter().position(|block| block.hour() > blocks[start].hour());
        let blocks = &blocks[..end.unwrap_or(blocks.len())];
        let mut filled = restored(&trend(blocks[..stop].iter().copied()));
        let mut hours = filled.known_hours();
        blocks[start..].iter().for_each(|block| filled.add(*block));
        filled.start_refill(&mut hours, blocks[start].number, 0);
        refill(&mut filled, hours, &blocks[..start]);
        let all: BTreeMap<u64, Sample> = blocks.iter().map(|block| (block.number, *block)).collect();
        let now = blocks.last().unwrap().time;
        for period in Period::ALL {
            let expected = expected(&all, period, now);
            prop_assert_eq!(&filled.buckets(period, now.into()), &expected, "{:?}", period);
            let written = restored(&filled).buckets(period, now.into());
            prop_assert_eq!(&written, &expected, "{:?}", period);
        }
    }

    /// Whatever a node returns as old blocks, and wherever its headers date them.
    #[test]
    fn a_refill_changes_no_complete_hour_and_no_sample(
        steps in steps(),
        others in proptest::collection::vec((0_u64..600, 0_u32..900_000, any::<u64>()), 0..200),
    ) {
        let known = blocks_of_steps(steps);
        let mut filled = restored(&trend(known.iter().copied()));
        let mut hours = filled.known_hours();
        let complete_until = hours.complete_until;
        let newest = known.last().unwrap();
        filled.add(Sample { number: newest.number + 300, ..*newest });
        let before = filled.clone();
        filled.start_refill(&mut hours, newest.number + 300, START.into());
        let mut others: Vec<Sample> = others
            .into_iter()
            .map(|(number, time, fee)| sample(number, START + time, fee))
            .collect();
        others.sort_by_key(|block| block.number);
        others.retain(|block| block.number < filled.newest_block);
        refill(&mut filled, hours, &others);
        let mut complete = before.closed.iter().filter(|(_, bucket)| bucket.first < complete_until);
        prop_assert!(complete.all(|(span, bucket)| filled.closed.get(span) == Some(bucket)));
        for known in &before.open.samples {
            prop_assert_eq!(filled.open.get(known.number), Some(known));
        }
        let now = filled.newest_time;
        prop_assert_eq!(shown(&restored(&filled), now), shown(&filled, now));
    }
}

#[test]
fn a_refilled_block_gets_a_time_between_those_of_its_neighbours() {
    let mut filled = trend([sample(10, START + 100, 1), sample(20, START + 200, 1)]);
    let mut hours = RefilledHours::default();
    filled.start_refill(&mut hours, 20, START.into());
    // The clock of the node is fast, and then slow.
    let blocks = [sample(11, START + 50, 1), sample(19, START + 5000, 1)];
    refill(&mut filled, hours, &blocks);
    let times = filled.open.samples.iter().map(|sample| (sample.number, sample.time - START));
    assert_eq!(times.collect::<Vec<_>>(), [(10, 100), (11, 100), (19, 200), (20, 200)]);
}

#[test]
fn a_refill_goes_back_to_the_first_hour_that_is_not_known() {
    let from = |hours: &[u32], complete_until: u32| {
        let samples = (0_u64..).zip(hours).map(|(n, it)| sample(n, START + it * HOUR + 60, 1));
        let complete_until = START + complete_until * HOUR;
        let mut hours = RefilledHours::default();
        hours.complete_until = complete_until;
        trend(samples).start_refill(&mut hours, 9, u64::from(START) + 7200);
        (hours.from - START) / HOUR
    };
    assert_eq!(from(&[], 0), 2);
    assert_eq!(from(&[1, 2, 3, 4, 5], 0), 2);
    assert_eq!(from(&[1, 2, 3, 4, 5], 3), 3);
    assert_eq!(from(&[1, 2, 3, 4, 5], 4), 4);
    assert_eq!(from(&[2, 3, 5, 6], 6), 4);
    assert_eq!(from(&[3, 4], 4), 2);
}
