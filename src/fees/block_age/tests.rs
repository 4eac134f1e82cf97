use super::*;

#[test]
fn a_block_is_old_beyond_the_limit_or_while_its_node_syncs() {
    let (read_at, now) = (Instant::now(), Duration::from_secs(1000));
    let minute = Some(Duration::from_mins(1));
    let seconds_old =
        |seconds: u64| HeadReading::Header(HeaderTime::new(7, 1000 - seconds, read_at, now));
    assert_eq!(seconds_old(60).block_age(minute), BlockAge::Young);
    assert_eq!(seconds_old(61).block_age(minute), BlockAge::Old);
    assert_eq!(seconds_old(61).block_age(None), BlockAge::Young);
    assert_eq!(HeadReading::Syncing.block_age(minute), BlockAge::Old);
    assert_eq!(HeadReading::Syncing.block_age(None), BlockAge::Young);
    assert_eq!(HeadReading::Unknown.block_age(minute), BlockAge::Unknown);
}

#[test]
fn a_block_ages_by_both_clocks_and_never_grows_younger() {
    let (read_at, seconds) = (Instant::now(), Duration::from_secs);
    for (time, read, passed, wall, age) in [
        (990, 1000, 2, 1002, 12),
        (1009, 1000, 2, 1002, 2),
        // The machine was paused.
        (990, 1000, 2, 4602, 3612),
        // The wall clock is set back, or had been behind.
        (990, 1000, 2, 500, 12),
        (990, 500, 2, 1002, 12),
    ] {
        let header = HeaderTime::new(7, time, read_at, seconds(read));
        assert_eq!(header.age_at(read_at + seconds(passed), seconds(wall)), seconds(age));
    }
}

#[test]
fn a_reply_is_older_than_the_header_of_a_later_block() {
    let (read_at, now) = (Instant::now(), Duration::from_secs(1000));
    let header = HeaderTime::new(100, 990, read_at, now);
    let age_of = |newest| {
        let reading = HeadReading::Header(header).for_reply(newest, Duration::from_secs(2));
        reading.header().unwrap().age.as_secs()
    };
    for (newest, age) in [(101, 10), (100, 10), (99, 12), (70, 70), (0, 210)] {
        assert_eq!(age_of(newest), age, "a reply with the block {newest}");
    }
    for reading in [HeadReading::Syncing, HeadReading::Unread, HeadReading::Unknown] {
        assert_eq!(reading.for_reply(0, Duration::from_secs(2)), reading);
    }
    let highest = HeaderTime { number: u64::MAX, ..header };
    let longest = HeadReading::Header(highest).for_reply(0, Duration::MAX);
    assert_eq!(longest.header().unwrap().age, Duration::MAX);
}
