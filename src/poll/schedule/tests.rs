use super::*;

mod announced;

const BLOCK: Duration = Duration::from_secs(2);
const ROUND_TRIP: Duration = Duration::from_millis(2);
/// Short enough that the schedule may ask again as soon as it wants.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

fn new_schedule() -> (PollSchedule, Instant) {
    let start = Instant::now();
    (PollSchedule::new(BLOCK, MIN_INTERVAL, 3, start), start)
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Deterministic pseudo-random numbers from 0 to 999.
struct SeededRng(u64);

impl SeededRng {
    fn next_thousandth(&mut self) -> u32 {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << shift } else { self.0 >> shift };
        }
        u32::try_from(self.0 % 1000).unwrap()
    }
}

/// Result of a simulation: polls per block, and delay until each block was known.
struct PollStats {
    polls_per_block: f64,
    delays: Vec<Duration>,
    /// Send times of the polls.
    sent: Vec<Instant>,
}

impl PollStats {
    fn delay_percentile(&self, thousandths: usize) -> Duration {
        self.delays[(self.delays.len() - 1) * thousandths / 1000]
    }

    /// Returns the most polls in any such time.
    fn max_polls_within(&self, time: Duration) -> usize {
        let are_close = |polls: &[Instant]| polls[polls.len() - 1] < polls[0] + time;
        (1..10).rfind(|count| self.sent.windows(*count).any(are_close)).unwrap()
    }

    /// Asserts upper limits: polls per block in hundredths, then median and 99th percentile of the delay in ms.
    #[track_caller]
    fn assert_within(&self, hundredths: u32, median: u64, p99: u64) {
        let summary = format!(
            "{:.2} {:?} {:?}",
            self.polls_per_block,
            self.delay_percentile(500),
            self.delay_percentile(990)
        );
        assert!(self.polls_per_block * 100.0 <= f64::from(hundredths), "{summary}");
        assert!(
            self.delay_percentile(500) <= millis(median)
                && self.delay_percentile(990) <= millis(p99),
            "{summary}"
        );
    }
}

/// Simulates the polls of a chain with these times between its blocks. Leaves out the delays of the first 40 blocks.
fn simulate(block_time: Duration, most_polls: usize, blocks: &[Duration]) -> PollStats {
    simulate_from(block_time * 2 / 5, 40, block_time, most_polls, blocks)
}

/// Like [`simulate`], with the first poll `phase` before the first block time ends. Leaves out the first `skipped`
/// delays.
fn simulate_from(
    phase: Duration,
    skipped: usize,
    block_time: Duration,
    most_polls: usize,
    blocks: &[Duration],
) -> PollStats {
    let start = Instant::now();
    let schedule = PollSchedule::new(block_time, MIN_INTERVAL, most_polls, start + phase);
    run(schedule, start, skipped, blocks)
}

fn run(
    mut schedule: PollSchedule,
    start: Instant,
    skipped: usize,
    blocks: &[Duration],
) -> PollStats {
    let mut at = start;
    let mut came = Vec::new();
    for between in blocks {
        at += *between;
        came.push(at);
    }
    let (mut now, mut known, mut sent, mut lags) = (start, 0, Vec::new(), Vec::new());
    loop {
        now = schedule.next().max(now);
        let there = came.partition_point(|came| *came <= now + ROUND_TRIP / 2);
        if there == came.len() {
            break;
        }
        sent.push(now);
        let request = now;
        now += ROUND_TRIP;
        lags.extend(came[known..there].iter().map(|came| now - *came));
        known = there;
        schedule.record_poll(request, 1000 + u64::try_from(there).unwrap());
    }
    let mut lags = lags.split_off(skipped);
    lags.sort_unstable();
    let calls =
        f64::from(u32::try_from(sent.len()).unwrap()) / f64::from(u32::try_from(known).unwrap());
    PollStats { polls_per_block: calls, delays: lags, sent }
}

fn regular_blocks(between: Duration) -> Vec<Duration> {
    vec![between; 1500]
}

#[test]
fn regular_blocks_are_polled_right_after_each() {
    simulate(BLOCK, 3, &regular_blocks(BLOCK)).assert_within(110, 20, 30);
    simulate(BLOCK, 2, &regular_blocks(BLOCK)).assert_within(110, 20, 30);
    simulate(millis(250), 3, &regular_blocks(millis(250))).assert_within(110, 5, 10);
    simulate(millis(12_000), 3, &regular_blocks(millis(12_000))).assert_within(110, 25, 50);
    // A fixed interval would be a second late on average.
    simulate(BLOCK, 3, &regular_blocks(millis(2003))).assert_within(110, 20, 30);
}

#[test]
fn irregular_blocks_are_found_sooner_than_by_a_fixed_interval() {
    for (block, scale) in [(BLOCK, 8), (millis(250), 1)] {
        // A fixed interval of 250 ms: 1.00 polls per block, 125 and 248 ms.
        let mut rng = SeededRng(7);
        let since_last: Vec<_> =
            (0..3000).map(|_| block * (800 + rng.next_thousandth() * 2 / 5) / 1000).collect();
        simulate(block, 3, &since_last).assert_within(160, 46 * scale, 180 * scale);
        // Up to a fifth of the block time before or after a regular time, each block by itself.
        let at: Vec<_> =
            (0..3000).map(|n| block * n + block * (rng.next_thousandth() * 2 / 5) / 1000).collect();
        let around_grid: Vec<_> =
            at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let stats = simulate(block, 3, &around_grid);
        stats.assert_within(145, 38 * scale, 116 * scale);
        assert!(stats.delay_percentile(900) < block / 3, "{:?}", stats.delay_percentile(900));
        // Blocks that are up to 3 ms late.
        let nearly: Vec<_> =
            (0..3000).map(|_| block + rng.next_thousandth() * millis(3) / 1000).collect();
        simulate(block, 3, &nearly).assert_within(130, 20, 30);
    }
}

#[test]
fn a_changed_block_time_is_followed() {
    for times in [[2000, 3000, 2000], [2000, 1400, 2000], [2000, 700, 2000], [2000, 200, 2000]] {
        let lasting = |time: u64| vec![millis(time); usize::try_from(600_000 / time).unwrap()];
        let stats = simulate(BLOCK, 3, &times.map(lasting).concat());
        let summary = (times, stats.polls_per_block, stats.delay_percentile(500));
        assert!(stats.polls_per_block < 1.45, "{summary:?}");
        assert!(stats.delay_percentile(500) < millis(20), "{summary:?}");
        assert!(stats.delay_percentile(800) < millis(150), "{:?}", stats.delay_percentile(800));
    }
}

#[test]
fn a_missed_block_does_not_delay_later_ones() {
    let mut rng = SeededRng(11);
    let blocks: Vec<_> =
        (0..3000).map(|_| if rng.next_thousandth() < 20 { 2 * BLOCK } else { BLOCK }).collect();
    simulate(BLOCK, 3, &blocks).assert_within(130, 25, 60);
}

#[test]
fn single_late_blocks_are_found_soon_and_do_not_delay_others() {
    let mut rng = SeededRng(5);
    let at: Vec<_> = (0..2000_u32)
        .map(|n| {
            let is_late = rng.next_thousandth() < 50;
            BLOCK * n + if is_late { BLOCK * rng.next_thousandth() / 10_000 } else { millis(0) }
        })
        .collect();
    let blocks: Vec<_> = at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    simulate(BLOCK, 3, &blocks).assert_within(155, 50, 300);
}

#[test]
fn blocks_after_a_stop_of_the_chain_are_found_at_once() {
    let blocks = [vec![BLOCK; 100], vec![Duration::from_mins(10)], vec![BLOCK; 60]].concat();
    let stats = simulate_from(BLOCK / 3, 106, BLOCK, 3, &blocks);
    assert!(stats.delay_percentile(1000) < millis(40), "{:?}", stats.delays);
}

#[test]
fn a_late_block_is_not_mistaken_for_a_missed_one_for_long() {
    let blocks: Vec<_> =
        (0..400).map(|block| if block % 100 == 50 { millis(2400) } else { BLOCK }).collect();
    let stats = simulate(BLOCK, 3, &blocks);
    let late = stats.delays.iter().filter(|lag| **lag > millis(250)).count();
    // The four late blocks, and those after each until it is clear that it was late.
    assert!(
        late <= 16 && stats.delay_percentile(500) < millis(30),
        "{late} {:?}",
        stats.delay_percentile(500)
    );
}

/// At the default of `min_poll_interval`, whatever the configured and the real block time are.
#[test]
fn no_two_polls_are_closer_than_the_shortest_interval() {
    let least = millis(200);
    for (block_ms, most_polls, p90, p99) in [
        (50, 0.26, 200, 200),
        (100, 0.51, 200, 200),
        (200, 1.1, 200, 250),
        (450, 1.4, 201, 300),
        (2000, 1.1, 35, 210),
        (12_000, 1.15, 60, 210),
    ] {
        for configured in [millis(block_ms), BLOCK] {
            let start = Instant::now();
            let mut schedule = PollSchedule::new(configured, least, 3, start);
            schedule.set_block_time(millis(block_ms));
            let stats = run(schedule, start, 200, &regular_blocks(millis(block_ms)));
            assert!(stats.sent.windows(2).all(|polls| polls[1] - polls[0] >= least));
            let late = |percent| stats.delays[stats.delays.len() * percent / 100];
            let figures = (configured, block_ms, stats.polls_per_block, late(90), late(99));
            assert!(stats.polls_per_block <= most_polls, "{figures:?}");
            assert!(late(90) <= millis(p90) && late(99) <= millis(p99), "{figures:?}");
        }
    }
}

#[test]
fn polls_per_block_time_never_exceed_the_maximum() {
    let mut rng = SeededRng(3);
    let wild: Vec<_> = (0..2000).map(|_| BLOCK * rng.next_thousandth() / 200).collect();
    for most in 1..=4 {
        for (blocks, time) in [
            (&wild, BLOCK),
            (&regular_blocks(BLOCK), BLOCK),
            (&regular_blocks(millis(9000)), BLOCK),
            // Of a faster chain about in its own block time.
            (&regular_blocks(millis(500)), millis(450)),
        ] {
            let polls = simulate(BLOCK, most, blocks).max_polls_within(time);
            assert!(polls <= most, "{polls} of {most}");
        }
    }
}

#[test]
fn a_stalled_chain_is_soon_polled_once_per_block_time() {
    let (mut schedule, start) = new_schedule();
    let mut sent = Vec::new();
    while sent.last().is_none_or(|last| *last < start + 100 * BLOCK) {
        let now = schedule.next();
        schedule.record_poll(now, 1000);
        sent.push(now);
    }
    assert!((100..=115).contains(&sent.len()), "{}", sent.len());
    let pauses = sent.windows(2).map(|pair| pair[1] - pair[0]);
    // Often enough that the data does not look stale.
    assert!(pauses.max().unwrap() <= BLOCK * 3 / 2);
}

#[test]
fn a_failed_poll_is_retried_within_a_block_time() {
    let (mut schedule, start) = new_schedule();
    assert_eq!(schedule.next(), start);
    schedule.record_failure(start, millis(5000));
    assert_eq!(schedule.next(), start + BLOCK);
    // An announcement does not change when the retry is due.
    schedule.record_announcement(start + BLOCK / 2);
    assert_eq!(schedule.next(), start + BLOCK);
    schedule.record_failure(start + BLOCK, millis(500));
    assert_eq!(schedule.next(), start + BLOCK + millis(500));
    schedule.record_poll(start + BLOCK + millis(500), 7);
    assert!(schedule.next() > start + BLOCK + millis(1000));
}

#[test]
fn repeated_failures_do_not_lengthen_the_retry_delay() {
    let (start, hour) = (Instant::now(), Duration::from_hours(1));
    for most in [1, 3] {
        let mut schedule = PollSchedule::new(hour, MIN_INTERVAL, most, start);
        for attempt in 0..10 {
            assert_eq!(schedule.next(), start + millis(5000) * attempt);
            schedule.record_failure(schedule.next(), millis(5000));
        }
    }
}

#[test]
fn blocks_are_found_at_once_from_the_sixth_on() {
    for (block, worst) in [(BLOCK, 60), (millis(250), 10), (millis(12_000), 200)] {
        for phase in 0..50 {
            let phase = block * phase / 50 + millis(1);
            let stats = simulate_from(phase, 5, block, 3, &[block; 60]);
            // The first blocks cost three polls each.
            stats.assert_within(155, worst / 2, worst);
        }
    }
}

#[test]
fn the_phase_survives_failures_and_a_chain_reset() {
    let (mut schedule, start) = new_schedule();
    // A block at each whole block time after the start.
    let head =
        |at: Instant| 1000 + u64::try_from((at - start).as_nanos() / BLOCK.as_nanos()).unwrap();
    let off = |at: Instant| (at - start).as_nanos() % BLOCK.as_nanos();
    for _ in 0..100 {
        let now = schedule.next();
        schedule.record_poll(now, head(now));
    }
    for _ in 0..5 {
        let now = schedule.next();
        schedule.record_failure(now, millis(1500));
    }
    let mut late = Vec::new();
    for _ in 0..12 {
        let now = schedule.next();
        schedule.record_poll(now, head(now));
        late.push(off(now).min(BLOCK.as_nanos() - off(now)));
    }
    late.sort_unstable();
    assert!(late[8] < 50_000_000, "{late:?}");
    let mut late = Vec::new();
    for _ in 0..60 {
        let now = schedule.next();
        schedule.record_poll(now, head(now) - 900);
        late.push(off(now).min(BLOCK.as_nanos() - off(now)));
    }
    assert!(late[40..].iter().filter(|late| **late < 50_000_000).count() >= 18, "{late:?}");
}

#[test]
fn the_jitter_is_learnt_within_a_few_blocks() {
    for phase in 0..20 {
        // Spread evenly over a fifth of the block time before and after a regular time, as by `demo --jitter 20`.
        let noise = |n: u64| u32::try_from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54).unwrap();
        let at: Vec<_> = (0..160).map(|n| BLOCK * n + BLOCK * noise(n.into()) / 2560).collect();
        let blocks: Vec<_> = at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let stats = simulate_from(BLOCK * phase / 20 + millis(1), 5, BLOCK, 3, &blocks);
        stats.assert_within(160, 400, 1600);
    }
}
