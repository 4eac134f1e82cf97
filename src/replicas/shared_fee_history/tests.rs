use super::*;

const NOW: u64 = 1_700_000_000_000_000;

fn history() -> FeeHistory {
    let block = |base_fee, gas_used_ratio, rewards| Block { base_fee, gas_used_ratio, rewards };
    let rewards = |medium, high| Some(Rewards { medium, high });
    let blocks = vec![
        block(0, None, None),
        block(u128::MAX, Some(0.1 + 0.2), rewards(1, None)),
        block(7, Some(1.0), rewards(0, Some(u128::MAX))),
    ];
    FeeHistory::new(98, blocks, Some(12)).unwrap()
}

fn instant_before(now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).unwrap()
}

/// Builds the record of a script that ran `age` microseconds after the observation.
fn record_aged(age: u64) -> String {
    let now = Instant::now();
    let timestamps = Timestamps {
        observed_at: now,
        head_changed_at: instant_before(now, Duration::from_secs(3)),
    };
    let json = SharedFeeHistory::to_json(&history(), timestamps);
    let (slot, head) = (SharedFeeHistory::zero_padded(5), SharedFeeHistory::zero_padded(100));
    format!("{slot} 2 {head} {} 0a {json}", NOW - age)
}

fn parse(
    record: &str,
    origin: RecordOrigin,
    clock: &RedisClock,
) -> Result<SharedFeeHistory, InvalidRecord> {
    SharedFeeHistory::parse(record.as_bytes(), origin, clock)
}

fn age_at(publication: &SharedFeeHistory, at: Instant) -> Duration {
    at.saturating_duration_since(publication.timestamps.observed_at)
}

#[test]
fn record_round_trips_history_and_timestamps() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW, now, Duration::ZERO);
    let line = record_aged(1_500_000);
    let publication = parse(&line, RecordOrigin::Stored(now), &clock).unwrap();
    assert_eq!((publication.slot, publication.epoch), (5, 2));
    assert_eq!(publication.history, history());
    assert_eq!(age_at(&publication, now), Duration::from_millis(1500));
    let Timestamps { observed_at: observed, head_changed_at: head_moved } = publication.timestamps;
    assert_eq!(observed - head_moved, Duration::from_secs(3));
    assert_eq!(publication.replica_id, "0a");
}

#[test]
fn age_grows_with_the_local_monotonic_clock() {
    let requested_at = Instant::now();
    let later = requested_at + Duration::from_secs(4);
    let clock = RedisClock::new(NOW, requested_at, Duration::ZERO);
    let stored = parse(&record_aged(0), RecordOrigin::Stored(later), &clock).unwrap();
    assert_eq!(age_at(&stored, later), Duration::from_secs(4));
    // The age includes the transit time.
    let sent = NOW + 3_900_000;
    let received = parse(&record_aged(0), RecordOrigin::Received(sent, later), &clock).unwrap();
    assert_eq!(age_at(&received, later), Duration::from_secs(4));
}

#[test]
fn transit_time_and_clock_jumps_never_reduce_the_age() {
    let requested_at = Instant::now();
    let now = requested_at + Duration::from_secs(25);
    let clock = RedisClock::new(NOW, requested_at, Duration::ZERO);
    // The message was sent after 1 s, but this process was frozen and received it after 25 s.
    let late =
        parse(&record_aged(0), RecordOrigin::Received(NOW + 1_000_000, now), &clock).unwrap();
    assert_eq!(age_at(&late, now), Duration::from_secs(25));
    assert!(clock.is_skewed(NOW + 1_000_000, now) && !clock.is_skewed(NOW + 24_500_000, now));
    // Redis' clock was set forward.
    let hour = whole_micros(Duration::from_hours(1));
    let ahead =
        parse(&record_aged(250_000), RecordOrigin::Received(NOW + hour, now), &clock).unwrap();
    assert_eq!(age_at(&ahead, now), Duration::from_hours(1) + Duration::from_millis(250));
}

#[test]
fn record_from_the_future_is_invalid() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW - 1, now, Duration::ZERO);
    assert_eq!(parse(&record_aged(0), RecordOrigin::Stored(now), &clock), Err(InvalidRecord));
}

#[test]
fn malformed_record_is_invalid() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW, now, Duration::ZERO);
    let good = record_aged(1);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    assert!(parse(&good, RecordOrigin::Stored(now), &clock).is_ok());
    for wrong in [
        String::new(),
        "!".into(),
        "junk ".repeat(10),
        with("00000000000000000005 ", "5 "),
        with("00000000000000000005 ", "+0000000000000000005 "),
        with(" 2 ", " -2 "),
        with(" 2 ", " 1099511627777 "),
        with(" 0a ", " "),
        with("00000000000000000100 ", "00000000000000000101 "),
        with("\"oldest_block\":\"98\"", "\"oldest_block\":98"),
        with("\"oldest_block\":\"98\"", "\"oldest_block\":\"18446744073709551615\""),
        with("\"oldest_block\"", "\"surprise\":1,\"oldest_block\""),
        with("0.30000000000000004", "1.5"),
        with("\"12\"", "\"0xc\""),
        with("\"7\"", "\"340282366920938463463374607431768211456\""),
        with("\"head_age_us\":3000000", "\"head_age_us\":-1"),
        with("[\"7\",1.0,\"0\",", "[\"7\",1.0,null,"),
        with("[\"0\",null,null,null],", ""),
        with("}", ""),
        format!("{good}{}", " ".repeat(SharedFeeHistory::MAX_BYTES)),
    ] {
        assert_eq!(
            parse(&wrong, RecordOrigin::Stored(now), &clock),
            Err(InvalidRecord),
            "{wrong:.200}"
        );
    }
}
