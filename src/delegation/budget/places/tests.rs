use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What became of a request that had a place.
fn end(places: &mut Places, (place, from): (usize, Instant), fate: Fate, now: Instant) {
    places.free(place, from, fate, Share::ALL, now);
}

fn take(places: &mut Places, now: Instant) -> Result<(usize, Instant), Spent> {
    places.take(Share::ALL, PATIENCE, now)
}

fn spend(count: usize, places: &mut Places, now: Instant) {
    let requests: Vec<_> = (0..count).map(|_| take(places, now).unwrap()).collect();
    assert!(requests.iter().all(|(_, from)| *from == now));
    for request in requests {
        end(places, request, Fate::Answered, now);
    }
}

fn wait_at(places: &mut Places, now: Instant) -> Duration {
    take(places, now).unwrap_err().0
}

#[test]
fn as_many_requests_as_the_api_allows_are_sent_and_no_more_until_a_window_after_their_end() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    spend(25, &mut places, now);
    assert_eq!(wait_at(&mut places, now), WINDOW);
    let just_before = now + WINDOW.saturating_sub(PATIENCE + Duration::from_nanos(1));
    assert!(take(&mut places, just_before).is_err());
    assert!(take(&mut places, now + WINDOW).is_ok());
}

#[test]
fn a_request_under_way_keeps_its_place_however_long_it_takes() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    let mut under_way: Vec<_> = (0..25).map(|_| take(&mut places, now).unwrap()).collect();
    // They may be answered at once, or as late as they may be.
    assert_eq!(wait_at(&mut places, now), WINDOW);
    let later = now + Duration::from_secs(3);
    assert_eq!(wait_at(&mut places, later) + PATIENCE, WINDOW + Duration::from_secs(2));
    let much_later = now + WINDOW * 10;
    assert_eq!(wait_at(&mut places, much_later) + PATIENCE, WINDOW);
    end(&mut places, under_way.pop().unwrap(), Fate::Answered, now);
    assert!(take(&mut places, much_later).is_ok());
}

#[test]
fn an_answer_is_expected_to_take_as_long_as_others_did() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    let before = now.checked_sub(Duration::from_mins(1)).unwrap();
    let request = take(&mut places, before).unwrap();
    end(&mut places, request, Fate::Answered, before + Duration::from_secs(3));
    for _ in 0..25 {
        take(&mut places, now).unwrap();
    }
    let wait = wait_at(&mut places, now + Duration::from_secs(1));
    assert_eq!(wait + PATIENCE, WINDOW + Duration::from_secs(2));
}

#[test]
fn a_request_that_is_not_answered_may_still_be_on_its_way() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    let requests: Vec<_> = (0..25).map(|_| take(&mut places, now).unwrap()).collect();
    for request in requests {
        end(&mut places, request, Fate::Unanswered, now);
    }
    assert!(take(&mut places, now + WINDOW + WINDOW / 2).is_err());
    assert!(take(&mut places, now + 2 * WINDOW).is_ok());
}

#[test]
fn a_place_that_gets_free_in_a_moment_is_waited_for_by_one_request_alone() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    spend(1, &mut places, now);
    for _ in 0..24 {
        take(&mut places, now).unwrap();
    }
    let a_moment_before = now + WINDOW.saturating_sub(Duration::from_millis(200));
    assert_eq!(take(&mut places, a_moment_before).unwrap().1, now + WINDOW);
    assert!(take(&mut places, a_moment_before).is_err());
}

#[test]
fn without_patience_no_place_is_waited_for() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    spend(25, &mut places, now);
    let a_moment_before = now + WINDOW.saturating_sub(Duration::from_millis(1));
    assert!(places.take(Share::ALL, Duration::ZERO, a_moment_before).is_err());
    assert!(places.take(Share::ALL, Duration::ZERO, now + WINDOW).is_ok());
}

#[test]
fn what_was_not_sent_costs_nothing() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    for _ in 0..100 {
        let request = take(&mut places, now).unwrap();
        end(&mut places, request, Fate::Unsent, now);
    }
    spend(25, &mut places, now);
    assert!(take(&mut places, now).is_err());
}

#[test]
fn an_api_that_is_asked_too_often_is_let_be() {
    let (mut places, now) = (Places::new(TIMEOUT), Instant::now());
    places.close(Duration::from_secs(7), now);
    assert_eq!(wait_at(&mut places, now), Duration::from_secs(7));
    places.close(Duration::from_secs(3), now);
    assert_eq!(wait_at(&mut places, now), Duration::from_secs(7));
    assert!(take(&mut places, now + Duration::from_secs(7)).is_ok());
}

fn wait(places: &mut Places, share: Share, now: Instant) -> Option<Duration> {
    places.take(share, Duration::ZERO, now).err().map(|Spent(wait)| wait)
}

#[test]
fn a_share_is_neither_nothing_nor_more_than_its_part() {
    let share = |replicas| {
        let Share { places, windows } = Share::of(replicas);
        (places, windows)
    };
    let shares = [0, 1, 2, 4, 12, 13, 25, 26, 50, 51].map(share);
    assert_eq!(
        shares,
        [(25, 1), (25, 1), (12, 1), (6, 1), (2, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 3)]
    );
}

#[test]
fn a_process_takes_no_more_than_its_share() {
    let mut places = Places::new(Duration::from_secs(5));
    let now = Instant::now();
    for index in 0..6 {
        let (place, from) = places.take(Share::of(4), Duration::ZERO, now).unwrap();
        places.free(place, from, Fate::Answered, Share::of(4), now);
        assert_eq!(place, index);
    }
    assert_eq!(wait(&mut places, Share::of(4), now), Some(WINDOW));
    // Now that there is nobody else it may take all.
    assert_eq!(wait(&mut places, Share::ALL, now), None);
    assert_eq!(wait(&mut places, Share::of(4), now + WINDOW), None);
}

#[test]
fn what_was_taken_before_there_was_a_share_counts_against_it() {
    let mut places = Places::new(Duration::from_secs(5));
    let start = Instant::now();
    let second = Duration::from_secs(1);
    for age in 0..20 {
        let at = start + second / 10 * age;
        let (place, from) = places.take(Share::ALL, Duration::ZERO, at).unwrap();
        places.free(place, from, Fate::Answered, Share::ALL, at);
    }
    // The last six but one have to be gone first.
    let now = start + 2 * second;
    let expected = (start + WINDOW + second / 10 * 14) - now;
    assert_eq!(wait(&mut places, Share::of(4), now), Some(expected));
}

#[test]
fn with_more_replicas_than_places_each_has_one_in_several_windows() {
    let mut places = Places::new(Duration::from_secs(5));
    let (now, share) = (Instant::now(), Share::of(60));
    let (place, from) = places.take(share, Duration::ZERO, now).unwrap();
    places.free(place, from, Fate::Answered, share, now);
    assert_eq!(wait(&mut places, share, now), Some(3 * WINDOW));
}

#[test]
fn what_is_held_is_told_with_what_is_under_way() {
    let mut places = Places::new(Duration::from_secs(5));
    let now = Instant::now();
    let (first, from) = places.take(Share::ALL, Duration::ZERO, now).unwrap();
    places.free(first, from, Fate::Answered, Share::ALL, now);
    places.take(Share::ALL, Duration::ZERO, now).unwrap();
    let holds: Vec<_> = places.holds(now).collect();
    let worst = Duration::from_secs(5) + 2 * WINDOW;
    assert_eq!(holds[..3], [(WINDOW, false), (worst, true), (Duration::ZERO, false)]);
}
