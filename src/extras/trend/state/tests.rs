use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::fees::tests::{GWEI, market};
use crate::fees::{HeadReading, HeaderTime};
use crate::store::tests::{publish, reply, store_with_chain};
use crate::store::{Accepted, Publisher};

/// Creates trends of one chain, which observe its publisher.
fn trends_with_chain(more: &str) -> (Trends, StoredChain, Publisher) {
    let (store, chain, mut publisher) = store_with_chain(more);
    let trends = Trends::new(&store, 7);
    publisher.observe(Arc::clone(trends.chains.get(&chain)));
    (trends, chain, publisher)
}

fn level_of(trends: &Trends, chain: &StoredChain) -> PriceLevel {
    trends.level(chain, &chain.servable_snapshot().unwrap())
}

fn read(trends: &Trends, chain: &StoredChain, period: Period) -> (ServedTrend, Value) {
    let served = trends.read(chain, period).unwrap();
    let body = serde_json::from_slice(&served.body).unwrap();
    (served, body)
}

/// Gives the chain two hours of blocks at 20 gwei up to eleven minutes ago. The newest is number 989.
fn restore_two_hours(trends: &Trends, chain: &StoredChain) {
    restore_two_hours_up_to(trends, chain, since_1970(SystemTime::now()));
}

fn restore_two_hours_up_to(trends: &Trends, chain: &StoredChain, now: u64) {
    let mut known = FeeTrend::new(1);
    for minutes_ago in (11..=131).rev() {
        let pricing = &chain.config().pricing;
        let (history, market) = reply(pricing, 1000 - minutes_ago, 20 * GWEI);
        let (time, block_time) = (now - minutes_ago * 60_000, Duration::from_mins(1));
        known.record(&history, &market, pricing, history.blocks(), time, block_time);
    }
    *trends.trend(chain) = known;
}

#[test]
fn the_level_follows_the_price_and_the_trend() {
    let (trends, chain, mut publisher) = trends_with_chain("");
    let level = || level_of(&trends, &chain).level;
    publish(&mut publisher, 1000, 10 * GWEI);
    assert_eq!(level(), None);
    restore_two_hours(&trends, &chain);
    publish(&mut publisher, 1001, 10 * GWEI);
    assert_eq!(level(), Some(Level::Low));
    assert_eq!(level_of(&trends, &chain).level_deviation, Some(-0.5));
    // The newest price counts at once, even if the trend has the block already.
    publish(&mut publisher, 1002, 30 * GWEI);
    assert_eq!([level(), level()], [Some(Level::High); 2]);
    let changes = trends.trend(&chain).changes;
    for (next_base_fee, expected) in [(5 * GWEI, Level::Low), (20 * GWEI, Level::Normal)] {
        let pricing = &chain.config().pricing;
        let (mut history, _) = reply(pricing, 1002, 30 * GWEI);
        history.next_base_fee = Some(next_base_fee);
        publisher.publish(Accepted::now(&history, market(&history, pricing)));
        assert_eq!(level(), Some(expected));
        let (_, trend) = read(&trends, &chain, Period::Day);
        assert_eq!(trend["level"], json!(expected));
        assert_eq!(trends.trend(&chain).changes, changes);
    }
}

#[test]
fn a_stale_chain_has_no_level() {
    let (trends, chain, mut publisher) = trends_with_chain("");
    restore_two_hours(&trends, &chain);
    for (seconds_ago, expected) in [(0, json!("low")), (20, Value::Null)] {
        let (history, market) = reply(&chain.config().pricing, 1001 + seconds_ago, 10 * GWEI);
        let observed_at = clock::now().checked_sub(Duration::from_secs(seconds_ago)).unwrap();
        publisher.publish(Accepted::at(observed_at, &history, market));
        let (_, trend) = read(&trends, &chain, Period::Day);
        let levels = [json!(level_of(&trends, &chain).level), trend["level"].clone()];
        assert_eq!(levels, [expected.clone(), expected]);
    }
}

#[test]
fn blocks_that_contradict_the_clock_add_and_remove_nothing() {
    const DAY: u64 = 86_400;
    let now = seconds_since_1970();
    let publish = |publisher: &mut Publisher, number, header: Option<(u64, u64)>| {
        let (history, market) = reply(&publisher.chain().config().pricing, number, GWEI);
        let read = |(number, time)| {
            let since_1970 = Duration::from_secs(now);
            HeadReading::Header(HeaderTime::new(number, time, Instant::now(), since_1970))
        };
        let head = header.map_or(HeadReading::Unread, read);
        publisher.publish(Accepted { head, ..Accepted::now(&history, market) });
    };
    // The clock is a day late, and a day ahead.
    for time_of_blocks in [now + DAY, now - DAY] {
        let (trends, chain, mut publisher) = trends_with_chain("");
        restore_two_hours_up_to(&trends, &chain, time_of_blocks * 1000);
        let trend = || trends.trend(&chain).clone();
        let kept = trend();
        publish(&mut publisher, 1000, Some((1000, time_of_blocks)));
        publish(&mut publisher, 1002, Some((1001, time_of_blocks)));
        assert_eq!(trend(), kept);
        publish(&mut publisher, 1003, Some((1004, now - 500)));
        assert_eq!(trend().newest_block, 1003);
    }
    // A node without headers, a chain whose blocks have no age, and one with a block an hour.
    for (more, header) in [
        ("", None),
        ("max_block_age = \"0s\"", Some((1000, now - DAY))),
        ("block_time = \"1h\"", Some((1000, now - 7000))),
    ] {
        let (trends, chain, mut publisher) = trends_with_chain(more);
        publish(&mut publisher, 1000, header);
        assert_eq!(trends.trend(&chain).newest_block, 1000, "{more}");
    }
}
