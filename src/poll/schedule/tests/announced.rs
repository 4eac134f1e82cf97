use super::*;

/// Simulates a chain with a block every 2 s that is announced `ahead` of the node. If not `is_true`, announcements
/// come at other times.
fn simulate_announced(ahead: Duration, is_true: bool) -> PollStats {
    let (mut schedule, start) = new_schedule();
    let (mut now, mut known, mut sent, mut lags) = (start, 0, Vec::new(), Vec::new());
    for block in 1..300_u32 {
        let came = start + BLOCK * block + BLOCK / 3;
        let before = if is_true { ahead } else { BLOCK / 10 * (block % 7) };
        let said = came.checked_sub(before).unwrap();
        let mut is_said = false;
        loop {
            let next = schedule.next().max(now);
            if !is_said && said <= next {
                is_said = true;
                now = now.max(said);
                schedule.record_announcement(said);
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
            schedule.record_poll(next, 1000 + u64::from(head));
        }
    }
    let mut lags = lags.split_off(40);
    lags.sort_unstable();
    let calls = f64::from(u32::try_from(sent.len()).unwrap()) / f64::from(known);
    PollStats { polls_per_block: calls, delays: lags, sent }
}

#[test]
fn the_announcement_lead_is_learned() {
    simulate_announced(Duration::ZERO, true).assert_within(105, 5, 10);
    for ahead in [10, 20, 50, 150, 300, 600] {
        simulate_announced(millis(ahead), true).assert_within(130, 80, 160);
    }
}

#[test]
fn random_announcements_still_beat_a_fixed_interval() {
    simulate_announced(Duration::ZERO, false).assert_within(300, 100, 1000);
}

#[test]
fn announced_blocks_are_polled_once_and_polling_goes_on_without_them() {
    let (mut schedule, start) = new_schedule();
    let (mut number, mut now) = (1000, start);
    schedule.record_poll(now, number);
    for block in 1..100_u32 {
        let came = start + BLOCK * block;
        while schedule.next() < came {
            // Only until the schedule has learnt that blocks are announced.
            assert!(block < 8, "{block}");
            now = schedule.next();
            schedule.record_poll(now, number);
        }
        number += 1;
        schedule.record_announcement(came);
        assert_eq!(schedule.next(), came, "{block}");
        now = came;
        schedule.record_poll(now, number);
    }
    // Announcements stop. The next block is found half a block time late, later ones on time.
    let head =
        |at: Instant| 1000 + u64::try_from((at - start).as_nanos() / BLOCK.as_nanos()).unwrap();
    let mut found = Vec::new();
    while found.len() < 40 {
        now = schedule.next();
        let there = head(now);
        if there > number {
            found.push(now - (start + BLOCK * u32::try_from(there - 1000).unwrap()));
            number = there;
        }
        schedule.record_poll(now, number);
    }
    assert!(found[0] <= BLOCK / 2 + millis(10), "{found:?}");
    found.sort_unstable();
    assert!(found[35] < millis(30), "{found:?}");
}

#[test]
fn an_early_announcement_is_retried_and_a_false_one_is_cheap() {
    let (mut schedule, start) = new_schedule();
    schedule.record_poll(start, 1000);
    let announced = start + BLOCK / 4;
    schedule.record_announcement(announced);
    assert_eq!(schedule.next(), announced);
    schedule.record_poll(announced, 1000);
    let second = schedule.next();
    assert!(second > announced && second < announced + BLOCK / 2, "{:?}", second - announced);
    // Endless announcements cause no more polls than the limit.
    let mut sent = vec![start, announced];
    while sent.last().is_none_or(|last| *last < start + 50 * BLOCK) {
        let now = schedule.next();
        schedule.record_poll(now, 1000);
        schedule.record_announcement(now);
        sent.push(now);
    }
    assert!(sent.windows(4).all(|four| four[3] - four[0] >= BLOCK));
}

#[test]
fn irregular_announced_blocks_cost_one_poll_each() {
    let (mut schedule, start) = new_schedule();
    let mut rng = SeededRng(9);
    let (mut known, mut polls) = (1000, 0);
    schedule.record_poll(start, known);
    for block in 1..500_u32 {
        let came = start + BLOCK * block + BLOCK * (rng.next_thousandth() * 2 / 5) / 1000;
        while schedule.next() < came {
            polls += 1;
            schedule.record_poll(schedule.next(), known);
        }
        known += 1;
        schedule.record_announcement(came);
        polls += 1;
        schedule.record_poll(schedule.next().max(came), known);
    }
    assert!(polls < 520, "{polls}");
}
