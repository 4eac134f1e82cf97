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

fn ago(now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).unwrap()
}

/// The line that a script makes of what was observed so many microseconds before it ran.
fn line(age: u64) -> String {
    let now = Instant::now();
    let seen = LastSeen { observed: now, head_moved: ago(now, Duration::from_secs(3)) };
    let json = Publication::json(&history(), seen);
    let (slot, head) = (Publication::padded(5), Publication::padded(100));
    format!("{slot} 2 {head} {} 0a {json}", NOW - age)
}

fn read(line: &str, way: Way, clock: &Clock) -> Result<Publication, Foreign> {
    Publication::read(line.as_bytes(), way, clock)
}

fn age_at(publication: &Publication, at: Instant) -> Duration {
    at.saturating_duration_since(publication.seen.observed)
}

#[test]
fn a_history_arrives_as_it_was_sent() {
    let now = Instant::now();
    let clock = Clock::new(NOW, now, Duration::ZERO);
    let line = line(1_500_000);
    let publication = read(&line, Way::Stored(now), &clock).unwrap();
    assert_eq!((publication.slot, publication.epoch), (5, 2));
    assert_eq!(publication.history, history());
    assert_eq!(age_at(&publication, now), Duration::from_millis(1500));
    let LastSeen { observed, head_moved } = publication.seen;
    assert_eq!(observed - head_moved, Duration::from_secs(3));
    assert_eq!(publication.replica, "0a");
}

#[test]
fn an_age_counts_on_by_the_clock_of_this_machine() {
    let asked = Instant::now();
    let later = asked + Duration::from_secs(4);
    let clock = Clock::new(NOW, asked, Duration::ZERO);
    let stored = read(&line(0), Way::Stored(later), &clock).unwrap();
    assert_eq!(age_at(&stored, later), Duration::from_secs(4));
    // What its way took counts, too.
    let sent = NOW + 3_900_000;
    let heard = read(&line(0), Way::Sent(sent, later), &clock).unwrap();
    assert_eq!(age_at(&heard, later), Duration::from_secs(4));
}

#[test]
fn what_came_late_is_as_old_as_that_and_nothing_gets_younger_by_the_clock() {
    let asked = Instant::now();
    let now = asked + Duration::from_secs(25);
    let clock = Clock::new(NOW, asked, Duration::ZERO);
    // This process was frozen meanwhile.
    let late = read(&line(0), Way::Sent(NOW + 1_000_000, now), &clock).unwrap();
    assert_eq!(age_at(&late, now), Duration::from_secs(25));
    assert!(clock.is_off(NOW + 1_000_000, now) && !clock.is_off(NOW + 24_500_000, now));
    // The clock was put forward.
    let hour = micros(Duration::from_hours(1));
    let ahead = read(&line(250_000), Way::Sent(NOW + hour, now), &clock).unwrap();
    assert_eq!(age_at(&ahead, now), Duration::from_hours(1) + Duration::from_millis(250));
}

#[test]
fn what_was_observed_later_than_now_has_no_age() {
    let now = Instant::now();
    let clock = Clock::new(NOW - 1, now, Duration::ZERO);
    assert_eq!(read(&line(0), Way::Stored(now), &clock), Err(Foreign));
}

#[test]
fn whatever_is_not_exactly_a_line_is_foreign() {
    let now = Instant::now();
    let clock = Clock::new(NOW, now, Duration::ZERO);
    let good = line(1);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    assert!(read(&good, Way::Stored(now), &clock).is_ok());
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
        format!("{good}{}", " ".repeat(Publication::MAX_BYTES)),
    ] {
        assert_eq!(read(&wrong, Way::Stored(now), &clock), Err(Foreign), "{wrong:.200}");
    }
}
