use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Finishes a request that had a permit.
fn finish(
    window: &mut PermitPool,
    (index, send_at): (usize, Instant),
    outcome: RequestOutcome,
    now: Instant,
) {
    window.release(index, send_at, outcome, Quota::FULL, now);
}

fn acquire(window: &mut PermitPool, now: Instant) -> Result<(usize, Instant), BudgetExhausted> {
    window.acquire(Quota::FULL, MAX_WAIT, now)
}

fn exhaust(count: usize, window: &mut PermitPool, now: Instant) {
    let requests: Vec<_> = (0..count).map(|_| acquire(window, now).unwrap()).collect();
    assert!(requests.iter().all(|(_, from)| *from == now));
    for request in requests {
        finish(window, request, RequestOutcome::Answered, now);
    }
}

fn wait_when_exhausted(window: &mut PermitPool, now: Instant) -> Duration {
    acquire(window, now).unwrap_err().0
}

#[test]
fn request_limit_holds_until_one_window_after_completion() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    exhaust(25, &mut window, now);
    assert_eq!(wait_when_exhausted(&mut window, now), WINDOW);
    let just_before = now + WINDOW.saturating_sub(MAX_WAIT + Duration::from_nanos(1));
    assert!(acquire(&mut window, just_before).is_err());
    assert!(acquire(&mut window, now + WINDOW).is_ok());
}

#[test]
fn in_flight_request_keeps_its_permit() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    let mut in_flight: Vec<_> = (0..25).map(|_| acquire(&mut window, now).unwrap()).collect();
    // A request is expected to end after 1 s, the lowest typical latency; after that, at its timeout.
    assert_eq!(wait_when_exhausted(&mut window, now), WINDOW);
    let later = now + Duration::from_secs(3);
    assert_eq!(wait_when_exhausted(&mut window, later) + MAX_WAIT, WINDOW + Duration::from_secs(2));
    let much_later = now + WINDOW * 10;
    assert_eq!(wait_when_exhausted(&mut window, much_later) + MAX_WAIT, WINDOW);
    finish(&mut window, in_flight.pop().unwrap(), RequestOutcome::Answered, now);
    assert!(acquire(&mut window, much_later).is_ok());
}

#[test]
fn expected_latency_follows_previous_responses() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    let before = now.checked_sub(Duration::from_mins(1)).unwrap();
    let request = acquire(&mut window, before).unwrap();
    finish(&mut window, request, RequestOutcome::Answered, before + Duration::from_secs(3));
    for _ in 0..25 {
        acquire(&mut window, now).unwrap();
    }
    let wait = wait_when_exhausted(&mut window, now + Duration::from_secs(1));
    assert_eq!(wait + MAX_WAIT, WINDOW + Duration::from_secs(2));
}

#[test]
fn unanswered_request_holds_its_permit_for_another_window() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    let requests: Vec<_> = (0..25).map(|_| acquire(&mut window, now).unwrap()).collect();
    for request in requests {
        finish(&mut window, request, RequestOutcome::Unanswered, now);
    }
    assert!(acquire(&mut window, now + WINDOW + WINDOW / 2).is_err());
    assert!(acquire(&mut window, now + 2 * WINDOW).is_ok());
}

#[test]
fn permit_about_to_be_free_is_promised_to_one_request() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    exhaust(1, &mut window, now);
    for _ in 0..24 {
        acquire(&mut window, now).unwrap();
    }
    let a_moment_before = now + WINDOW.saturating_sub(Duration::from_millis(200));
    assert_eq!(acquire(&mut window, a_moment_before).unwrap().1, now + WINDOW);
    assert!(acquire(&mut window, a_moment_before).is_err());
}

#[test]
fn zero_max_wait_never_waits_for_a_permit() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    exhaust(25, &mut window, now);
    let a_moment_before = now + WINDOW.saturating_sub(Duration::from_millis(1));
    assert!(window.acquire(Quota::FULL, Duration::ZERO, a_moment_before).is_err());
    assert!(window.acquire(Quota::FULL, Duration::ZERO, now + WINDOW).is_ok());
}

#[test]
fn unsent_request_releases_its_permit() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    for _ in 0..100 {
        let request = acquire(&mut window, now).unwrap();
        finish(&mut window, request, RequestOutcome::Unsent, now);
    }
    exhaust(25, &mut window, now);
    assert!(acquire(&mut window, now).is_err());
}

#[test]
fn cool_down_blocks_all_requests_and_never_shortens() {
    let (mut window, now) = (PermitPool::new(TIMEOUT), Instant::now());
    window.start_cool_down(Duration::from_secs(7), now);
    assert_eq!(wait_when_exhausted(&mut window, now), Duration::from_secs(7));
    window.start_cool_down(Duration::from_secs(3), now);
    assert_eq!(wait_when_exhausted(&mut window, now), Duration::from_secs(7));
    assert!(acquire(&mut window, now + Duration::from_secs(7)).is_ok());
}

fn wait_for_quota(window: &mut PermitPool, quota: Quota, now: Instant) -> Option<Duration> {
    window.acquire(quota, Duration::ZERO, now).err().map(|BudgetExhausted(wait)| wait)
}

#[test]
fn quota_is_an_equal_part_of_the_budget_and_never_zero() {
    let quota_for = |replicas| {
        let Quota { permits, windows } = Quota::for_replicas(replicas);
        (permits, windows)
    };
    let quotas = [0, 1, 2, 4, 12, 13, 25, 26, 50, 51].map(quota_for);
    assert_eq!(
        quotas,
        [(25, 1), (25, 1), (12, 1), (6, 1), (2, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 3)]
    );
}

#[test]
fn process_stays_within_its_quota() {
    let mut window = PermitPool::new(Duration::from_secs(5));
    let now = Instant::now();
    for index in 0..6 {
        let (permit, send_at) =
            window.acquire(Quota::for_replicas(4), Duration::ZERO, now).unwrap();
        window.release(permit, send_at, RequestOutcome::Answered, Quota::for_replicas(4), now);
        assert_eq!(permit, index);
    }
    assert_eq!(wait_for_quota(&mut window, Quota::for_replicas(4), now), Some(WINDOW));
    // A replica that is alone may take all 25.
    assert_eq!(wait_for_quota(&mut window, Quota::FULL, now), None);
    assert_eq!(wait_for_quota(&mut window, Quota::for_replicas(4), now + WINDOW), None);
}

#[test]
fn earlier_requests_count_against_a_reduced_quota() {
    let mut window = PermitPool::new(Duration::from_secs(5));
    let start = Instant::now();
    let second = Duration::from_secs(1);
    for age in 0..20 {
        let at = start + second / 10 * age;
        let (permit, send_at) = window.acquire(Quota::FULL, Duration::ZERO, at).unwrap();
        window.release(permit, send_at, RequestOutcome::Answered, Quota::FULL, at);
    }
    // The quota is six permits, so 15 of the 20 must be free first.
    let now = start + 2 * second;
    let expected = (start + WINDOW + second / 10 * 14) - now;
    assert_eq!(wait_for_quota(&mut window, Quota::for_replicas(4), now), Some(expected));
}

#[test]
fn more_replicas_than_permits_take_one_in_several_windows() {
    let mut window = PermitPool::new(Duration::from_secs(5));
    let (now, quota) = (Instant::now(), Quota::for_replicas(60));
    let (permit, send_at) = window.acquire(quota, Duration::ZERO, now).unwrap();
    window.release(permit, send_at, RequestOutcome::Answered, quota, now);
    assert_eq!(wait_for_quota(&mut window, quota, now), Some(3 * WINDOW));
}

#[test]
fn reservations_report_hold_time_and_in_flight() {
    let mut window = PermitPool::new(Duration::from_secs(5));
    let now = Instant::now();
    let (first, send_at) = window.acquire(Quota::FULL, Duration::ZERO, now).unwrap();
    window.release(first, send_at, RequestOutcome::Answered, Quota::FULL, now);
    window.acquire(Quota::FULL, Duration::ZERO, now).unwrap();
    let reservations: Vec<_> = window.reservations(now).collect();
    let worst = Duration::from_secs(5) + 2 * WINDOW;
    assert_eq!(reservations[..3], [(WINDOW, false), (worst, true), (Duration::ZERO, false)]);
}
