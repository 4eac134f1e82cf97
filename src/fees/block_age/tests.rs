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
    let future = HeaderTime::new(7, 1009, read_at, now);
    assert_eq!(future.age_at(read_at + Duration::from_secs(2)), Duration::from_secs(2));
}
