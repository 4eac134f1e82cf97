use super::*;

const NOW: u64 = 1_700_000_000_000_000;

fn history() -> FeeHistory {
    let block = |base_fee, gas_used_ratio, rewards| Block { base_fee, gas_used_ratio, rewards };
    let blocks = vec![
        block(0, None, None),
        block(u128::MAX, Some(0.1 + 0.2), Some([1, 0])),
        block(7, Some(1.0), Some([0, u128::MAX])),
    ];
    let mut history = FeeHistory::new(98, blocks, Some(12)).unwrap();
    history.blob_base_fees = Some(BlobBaseFees { latest: 4, next: 5 });
    history
}

fn seconds_before(now: Instant, seconds: u64) -> Instant {
    now.checked_sub(Duration::from_secs(seconds)).unwrap()
}

/// Result that was observed at `observed_at`, on a head that was 3 s old.
fn result(observed_at: Instant) -> SharedFeeHistory {
    let timestamps = Timestamps { observed_at, head_changed_at: seconds_before(observed_at, 3) };
    SharedFeeHistory {
        slot: 5,
        history: history(),
        timestamps,
        head: HeadReading::Syncing,
        doubts: vec![Doubt::BaseFeeLeap, Doubt::HeadLeap],
        reading: FeeHistory::new(97, history().blocks().to_vec(), None),
    }
}

fn parse(record: &str, received_at: Instant, clock: &RedisClock) -> Option<SharedFeeHistory> {
    super::parse(record.as_bytes(), received_at, clock)
}

#[test]
fn record_round_trips_history_and_times() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW, now, Duration::ZERO);
    let result = result(now);
    assert_eq!(parse(&to_json(&result, &clock), now, &clock), Some(result));
}

#[test]
fn header_keeps_its_number_and_time() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW, now, Duration::ZERO);
    let sent = HeaderTime::new(100, 1_700_000_000, now, Duration::from_secs(1_700_000_000));
    let shared = SharedFeeHistory { head: HeadReading::Header(sent), ..result(now) };
    let received = parse(&to_json(&shared, &clock), now, &clock).unwrap().head.header().unwrap();
    assert_eq!((received.number, received.unix_seconds), (100, 1_700_000_000));
    // The age counts by the clock of the replica that receives it.
    assert!(received.age > Duration::from_hours(24 * 365));
    // What was read long ago is not older by that.
    let read_at = seconds_before(now, 600);
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let sent = HeaderTime::new(
        90,
        wall.as_secs() - 603,
        read_at,
        wall.checked_sub(Duration::from_mins(10)).unwrap(),
    );
    let shared = SharedFeeHistory { head: HeadReading::Header(sent), ..result(now) };
    let received = parse(&to_json(&shared, &clock), now, &clock).unwrap().head.header().unwrap();
    assert!((2..=5).contains(&received.age.as_secs()), "{:?}", received.age);
    assert_eq!(received.read_at, read_at);
    let unknown = SharedFeeHistory { head: HeadReading::Unread, ..result(now) };
    assert_eq!(parse(&to_json(&unknown, &clock), now, &clock), Some(unknown));
}

#[test]
fn round_trips_and_delays_never_reduce_the_age() {
    let now = Instant::now();
    let round_trip = Duration::from_millis(80);
    // Redis read its clock at the end of the round trip of one replica, and at the beginning of that of the other.
    let sender_clock = RedisClock::new(NOW + 80_000, now, round_trip);
    let own_clock = RedisClock::new(NOW, now, round_trip);
    let record = to_json(&result(now), &sender_clock);
    for delay in [0, 1, 25] {
        let received_at = now + Duration::from_secs(delay);
        let received = parse(&record, received_at, &own_clock).unwrap();
        assert_eq!(received.timestamps.observed_at, now, "{delay}");
    }
    let record = to_json(&result(now), &own_clock);
    let received = parse(&record, now, &sender_clock).unwrap();
    assert_eq!(now - received.timestamps.observed_at, 2 * round_trip);
}

#[test]
fn record_from_the_future_is_invalid_until_the_new_clock_is_read() {
    let now = Instant::now();
    let [old, new] =
        [NOW, NOW + 3_600_000_000].map(|micros| RedisClock::new(micros, now, Duration::ZERO));
    let record = to_json(&result(now), &new);
    assert_eq!(parse(&record, now, &old), None);
    assert!(parse(&record, now, &new).is_some());
    // A record from before the clock was set forward seems too old, if the local clock can tell its time.
    let before = parse(&to_json(&result(now), &old), now, &new);
    assert!(before.is_none_or(|before| before.timestamps.observed_at < seconds_before(now, 60)));
}

#[test]
fn malformed_record_is_invalid() {
    let now = Instant::now();
    let clock = RedisClock::new(NOW, now, Duration::ZERO);
    let good = to_json(&result(now), &clock);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        good.replacen(from, to, 1)
    };
    assert!(parse(&good, now, &clock).is_some());
    for wrong in [
        String::new(),
        "!".into(),
        "junk ".repeat(10),
        with("{\"slot\":5", "{\"slot\":-5"),
        with("{\"slot\":5", "{\"slot\":5.5"),
        with("{\"slot\":5", "{\"slot\":\"5\""),
        with("{\"slot\":5,", "{"),
        with("\"observed_us\":1700000000000000", "\"observed_us\":1700000000000001"),
        with("\"oldest_block\":98", "\"oldest_block\":\"98\""),
        with("\"oldest_block\":98", "\"oldest_block\":18446744073709551615"),
        with("\"oldest_block\"", "\"surprise\":1,\"oldest_block\""),
        with("0.30000000000000004", "1.5"),
        with("\"syncing\"", "\"asleep\""),
        with("\"syncing\"", "{\"header\":{\"number\":1,\"unix_seconds\":-1,\"read_before_us\":0}}"),
        with("\"syncing\"", "{\"header\":{\"number\":1,\"unix_seconds\":1}}"),
        with("\"head_leap\"", "\"hearsay\""),
        with("\"12\"", "\"0xc\""),
        with("\"12\"", "12"),
        with("\"7\"", "\"+7\""),
        with("\"7\"", "\"\""),
        with("\"7\"", "\"340282366920938463463374607431768211456\""),
        with("\"head_age_us\":3000000", "\"head_age_us\":-1"),
        with("[\"7\",1.0,[\"0\",", "[\"7\",1.0,[null,"),
        with("[\"7\",1.0,[\"0\",", "[\"7\",1.0,["),
        with("[\"7\",1.0,[\"0\",", "[\"7\",1.0,[\"0\",\"0\","),
        // A block of the record's earlier form.
        with("[\"0\",null,null]", "[\"0\",null,\"1\",null,[\"0\",\"0\"]]"),
        with("}", ""),
        format!("{good}{}", " ".repeat(MAX_BYTES)),
    ] {
        assert_eq!(parse(&wrong, now, &clock), None, "{wrong:.200}");
    }
}
