use super::*;

const BLOCK: Duration = Duration::from_secs(2);
const ROUND_TRIP: Duration = Duration::from_millis(2);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The same numbers each time, from 0 to 999.
struct Chance(u64);

impl Chance {
    fn thousandth(&mut self) -> u32 {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << shift } else { self.0 >> shift };
        }
        u32::try_from(self.0 % 1000).unwrap()
    }
}

/// What came of polling: how many polls per block, and how long after each block it was known.
struct Score {
    calls: f64,
    lags: Vec<Duration>,
    /// The most polls in any block time.
    most: usize,
}

impl Score {
    fn at(&self, thousandths: usize) -> Duration {
        self.lags[(self.lags.len() - 1) * thousandths / 1000]
    }

    /// Holds it against the most calls per block, in hundredths, the median and the 99th percentile, in ms.
    #[track_caller]
    fn is_within(&self, hundredths: u32, median: u64, p99: u64) {
        let told = format!("{:.2} {:?} {:?}", self.calls, self.at(500), self.at(990));
        println!("{told}");
        assert!(self.calls * 100.0 <= f64::from(hundredths), "{told}");
        assert!(self.at(500) <= millis(median) && self.at(990) <= millis(p99), "{told}");
    }
}

/// Polls a chain whose blocks come after these times, one after the other.
fn poll(block_time: Duration, most_polls: usize, blocks: &[Duration]) -> Score {
    let start = Instant::now();
    let mut at = start;
    let mut came = Vec::new();
    for between in blocks {
        at += *between;
        came.push(at);
    }
    let mut cadence = Cadence::new(block_time, most_polls, start + block_time * 2 / 5);
    let (mut now, mut known, mut sent, mut lags) = (start, 0, Vec::new(), Vec::new());
    loop {
        now = cadence.next().max(now);
        let there = came.partition_point(|came| *came <= now + ROUND_TRIP / 2);
        if there == came.len() {
            break;
        }
        sent.push(now);
        let request = now;
        now += ROUND_TRIP;
        lags.extend(came[known..there].iter().map(|came| now - *came));
        known = there;
        cadence.polled(request, 1000 + u64::try_from(there).unwrap());
    }
    let in_block_time = |first: &Instant| {
        sent.iter().filter(|sent| **sent >= *first && **sent < *first + block_time).count()
    };
    let most = sent.iter().map(in_block_time).max().unwrap();
    // Until it knows the chain it is learning.
    let mut lags = lags.split_off(40);
    lags.sort_unstable();
    let calls =
        f64::from(u32::try_from(sent.len()).unwrap()) / f64::from(u32::try_from(known).unwrap());
    Score { calls, lags, most }
}

fn steady(between: Duration) -> Vec<Duration> {
    vec![between; 1500]
}

#[test]
fn a_chain_with_regular_blocks_is_polled_right_after_each() {
    poll(BLOCK, 3, &steady(BLOCK)).is_within(150, 10, 60);
    poll(BLOCK, 2, &steady(BLOCK)).is_within(150, 10, 60);
    poll(millis(250), 3, &steady(millis(250))).is_within(150, 10, 20);
    poll(millis(12_000), 3, &steady(millis(12_000))).is_within(150, 30, 200);
    // A ticker would be a second late on average, and never learn.
    poll(BLOCK, 3, &steady(millis(2003))).is_within(150, 10, 60);
}

#[test]
fn blocks_that_come_when_they_like_are_found_sooner_than_by_a_ticker_and_cost_little_more() {
    for (block, scale) in [(BLOCK, 8), (millis(250), 1)] {
        let mut chance = Chance(7);
        let uneven: Vec<_> =
            (0..3000).map(|_| block * (800 + chance.thousandth() * 2 / 5) / 1000).collect();
        let score = poll(block, 3, &uneven);
        // A ticker: 1.00, 125 and 248 ms.
        score.is_within(160, 40 * scale, 200 * scale);
        assert!(score.at(900) < block / 2, "{:?}", score.at(900));
        // Timers that are late by up to 3 ms.
        let nearly: Vec<_> =
            (0..3000).map(|_| block + chance.thousandth() * millis(3) / 1000).collect();
        poll(block, 3, &nearly).is_within(160, 10, 60);
    }
}

#[test]
fn a_chain_that_changes_its_pace_is_followed() {
    for (first, then) in [(2000, 3000), (2000, 1400), (2000, 6000), (2000, 700)] {
        let blocks: Vec<_> =
            (0..1000).map(|block| millis(if block < 500 { first } else { then })).collect();
        let score = poll(BLOCK, 3, &blocks);
        let told = format!("{then}: {:.2} {:?} {:?}", score.calls, score.at(500), score.at(950));
        println!("{told}");
        if then == 700 {
            // A poll per configured block time or so, whatever there is between.
            assert!(score.calls < 1.0, "{told}");
        } else {
            assert!(score.at(500) < millis(20) && score.at(900) < millis(700), "{told}");
        }
    }
}

#[test]
fn a_block_that_does_not_come_at_all_changes_nothing_for_those_after_it() {
    let mut chance = Chance(11);
    let blocks: Vec<_> =
        (0..3000).map(|_| if chance.thousandth() < 20 { 2 * BLOCK } else { BLOCK }).collect();
    poll(BLOCK, 3, &blocks).is_within(160, 20, 800);
}

#[test]
fn a_block_that_was_late_once_is_not_taken_for_an_absent_one_for_long() {
    let blocks: Vec<_> =
        (0..400).map(|block| if block % 100 == 50 { millis(2400) } else { BLOCK }).collect();
    let score = poll(BLOCK, 3, &blocks);
    let late = score.lags.iter().filter(|lag| **lag > millis(250)).count();
    // The four of them, and the next ones until it is clear what has happened.
    assert!(late <= 16 && score.at(500) < millis(20), "{late} {:?}", score.at(500));
}

#[test]
fn there_are_never_more_polls_in_a_block_time_than_allowed() {
    let mut chance = Chance(3);
    let wild: Vec<_> = (0..2000).map(|_| BLOCK * chance.thousandth() / 400).collect();
    for most in 1..=4 {
        for blocks in [&wild, &steady(BLOCK), &steady(millis(90)), &steady(millis(9000))] {
            let score = poll(BLOCK, most, blocks);
            assert!(score.most <= most, "{} of {most}", score.most);
        }
    }
}

#[test]
fn a_chain_that_stands_still_is_polled_once_per_block_time_before_long() {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    let mut sent = Vec::new();
    while sent.last().is_none_or(|last| *last < start + 100 * BLOCK) {
        let now = cadence.next();
        cadence.polled(now, 1000);
        sent.push(now);
    }
    assert!((100..=115).contains(&sent.len()), "{}", sent.len());
    let pauses = sent.windows(2).map(|pair| pair[1] - pair[0]);
    // Never so seldom that what is known would look stale.
    assert!(pauses.max().unwrap() <= BLOCK * 3 / 2);
}

#[test]
fn after_a_failure_it_is_tried_again_after_a_block_time_or_sooner() {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    assert_eq!(cadence.next(), start);
    cadence.failed(start, millis(5000));
    assert_eq!(cadence.next(), start + BLOCK);
    // Nothing that is announced is a reason to ask sooner, and nothing else to wait for longer.
    cadence.announced(start + BLOCK / 2);
    assert_eq!(cadence.next(), start + BLOCK);
    cadence.failed(start + BLOCK, millis(500));
    assert_eq!(cadence.next(), start + BLOCK + millis(500));
    cadence.polled(start + BLOCK + millis(500), 7);
    assert!(cadence.next() > start + BLOCK + millis(1000));
}

#[test]
fn however_often_it_failed_it_is_tried_again_soon() {
    let (start, hour) = (Instant::now(), Duration::from_hours(1));
    for most in [1, 3] {
        let mut cadence = Cadence::new(hour, most, start);
        for attempt in 0..10 {
            assert_eq!(cadence.next(), start + millis(5000) * attempt);
            cadence.failed(cadence.next(), millis(5000));
        }
    }
}

#[test]
fn the_first_blocks_are_found_by_halves() {
    // Late by almost a whole block at first.
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    let head = |at: Instant| {
        let since = (at - start).as_nanos() + BLOCK.as_nanos() - millis(60).as_nanos();
        1000 + u64::try_from(since / BLOCK.as_nanos()).unwrap()
    };
    let mut late = Vec::new();
    let mut known = head(start);
    cadence.polled(start, known);
    while late.len() < 12 {
        let now = cadence.next();
        if head(now) > known {
            let since = (now - start).as_nanos() + BLOCK.as_nanos() - millis(60).as_nanos();
            late.push(u64::try_from(since % BLOCK.as_nanos()).unwrap() / 1_000_000);
        }
        known = head(now);
        cadence.polled(now, known);
    }
    assert!(late[3..].iter().all(|late| *late < 300), "{late:?}");
    assert!(late[6..].iter().all(|late| *late < 250), "{late:?}");
}

/// Polls a chain with a block every 2 s that is announced so long before the node has it.
fn poll_announced(ahead: Duration, is_true: bool) -> Score {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    let (mut now, mut known, mut sent, mut lags) = (start, 0, Vec::new(), Vec::new());
    for block in 1..300_u32 {
        let came = start + BLOCK * block + BLOCK / 3;
        let before = if is_true { ahead } else { BLOCK / 10 * (block % 7) };
        let said = came.checked_sub(before).unwrap();
        let mut is_said = false;
        loop {
            let next = cadence.next().max(now);
            if !is_said && said <= next {
                is_said = true;
                now = now.max(said);
                cadence.announced(said);
                continue;
            }
            let until = (came + BLOCK).checked_sub(ahead + millis(1)).unwrap();
            if next >= until.min(came + BLOCK * 2 / 3) && known >= block {
                break;
            }
            sent.push(next);
            let passed = (next + ROUND_TRIP / 2).saturating_duration_since(start + BLOCK / 3);
            let head = u32::try_from(passed.as_nanos() / BLOCK.as_nanos()).unwrap();
            now = next + ROUND_TRIP;
            if head > known {
                lags.push(now - (start + BLOCK * head + BLOCK / 3));
            }
            known = head;
            cadence.polled(next, 1000 + u64::from(head));
        }
    }
    let mut lags = lags.split_off(40);
    lags.sort_unstable();
    let calls = f64::from(u32::try_from(sent.len()).unwrap()) / f64::from(known);
    Score { calls, lags, most: 0 }
}

#[test]
fn what_is_announced_before_the_node_has_it_is_polled_for_when_it_has() {
    poll_announced(Duration::ZERO, true).is_within(105, 5, 10);
    for ahead in [10, 20, 50, 150, 300, 600] {
        println!("{ahead}");
        poll_announced(millis(ahead), true).is_within(200, 40, 150);
    }
}

#[test]
fn announcements_that_come_at_any_moment_are_still_better_than_a_ticker() {
    poll_announced(Duration::ZERO, false).is_within(300, 100, 1000);
}

#[test]
fn the_phase_outlives_failures_and_a_chain_that_starts_over() {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    // A block at each whole block time after the start.
    let head =
        |at: Instant| 1000 + u64::try_from((at - start).as_nanos() / BLOCK.as_nanos()).unwrap();
    let off = |at: Instant| (at - start).as_nanos() % BLOCK.as_nanos();
    for _ in 0..100 {
        let now = cadence.next();
        cadence.polled(now, head(now));
    }
    for _ in 0..5 {
        let now = cadence.next();
        cadence.failed(now, millis(1500));
    }
    let mut late = Vec::new();
    for _ in 0..12 {
        let now = cadence.next();
        cadence.polled(now, head(now));
        late.push(off(now).min(BLOCK.as_nanos() - off(now)));
    }
    late.sort_unstable();
    assert!(late[8] < 50_000_000, "{late:?}");
    let mut late = Vec::new();
    for _ in 0..60 {
        let now = cadence.next();
        cadence.polled(now, head(now) - 900);
        late.push(off(now).min(BLOCK.as_nanos() - off(now)));
    }
    assert!(late[40..].iter().filter(|late| **late < 50_000_000).count() >= 18, "{late:?}");
}

/// Polls at each announcement, which comes `delay` after its block, until there are none any more.
#[test]
fn announced_blocks_are_polled_for_once_and_at_once_and_without_announcements_all_goes_on() {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    let (mut number, mut now) = (1000, start);
    cadence.polled(now, number);
    for block in 1..100_u32 {
        let came = start + BLOCK * block;
        while cadence.next() < came {
            // Before it is known that blocks are announced.
            assert!(block < 8, "{block}");
            now = cadence.next();
            cadence.polled(now, number);
        }
        number += 1;
        cadence.announced(came);
        assert_eq!(cadence.next(), came, "{block}");
        now = came;
        cadence.polled(now, number);
    }
    // Silence. The next block is found half a block time late, the ones after it as ever.
    let head =
        |at: Instant| 1000 + u64::try_from((at - start).as_nanos() / BLOCK.as_nanos()).unwrap();
    let mut found = Vec::new();
    while found.len() < 40 {
        now = cadence.next();
        let there = head(now);
        if there > number {
            found.push(now - (start + BLOCK * u32::try_from(there - 1000).unwrap()));
            number = there;
        }
        cadence.polled(now, number);
    }
    assert!(found[0] <= BLOCK / 2 + millis(10), "{found:?}");
    found.sort_unstable();
    assert!(found[35] < millis(30), "{found:?}");
}

#[test]
fn an_announcement_of_what_the_node_does_not_have_yet_is_followed_up_and_one_of_nothing_costs_little()
 {
    let start = Instant::now();
    let mut cadence = Cadence::new(BLOCK, 3, start);
    cadence.polled(start, 1000);
    let announced = start + BLOCK / 2;
    cadence.announced(announced);
    assert_eq!(cadence.next(), announced);
    cadence.polled(announced, 1000);
    let second = cadence.next();
    assert!(second > announced && second < announced + BLOCK / 2, "{:?}", second - announced);
    // Whoever announces without end gets no more polls than there may be.
    let mut sent = vec![start, announced];
    while sent.last().is_none_or(|last| *last < start + 50 * BLOCK) {
        let now = cadence.next();
        cadence.polled(now, 1000);
        cadence.announced(now);
        sent.push(now);
    }
    assert!(sent.windows(4).all(|four| four[3] - four[0] >= BLOCK));
}
