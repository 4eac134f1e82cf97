use super::*;

const BLOCK: Duration = Duration::from_secs(2);

/// Runs rounds one block time apart, in which these upstreams report these heads. Returns the head that each round
/// publishes.
fn run_rounds(rounds: &[&[(usize, u64)]]) -> Vec<Option<u64>> {
    let mut tracker = HeadTracker::new(BLOCK);
    let start = Instant::now();
    let mut published = Vec::new();
    for (count, claims) in (0_u32..).zip(rounds) {
        let mut round = tracker.start_round(start + BLOCK * count);
        let accepted = claims.iter().find(|(upstream, head)| round.check(*upstream, *head).is_ok());
        let confirmed = round.finish();
        let confirmed = confirmed.and_then(|by| claims.iter().find(|claim| claim.0 == by));
        published.push(accepted.or(confirmed).map(|claim| claim.1));
    }
    published
}

#[test]
fn a_higher_or_equal_head_is_published() {
    let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, 101)], &[(0, 101)], &[(1, 104)]];
    assert_eq!(run_rounds(&rounds), [Some(100), Some(101), Some(101), Some(104)]);
}

#[test]
fn a_regression_is_accepted_after_three_consecutive_rounds() {
    let rounds: [&[_]; 5] = [&[(0, 9000)], &[(0, 10)], &[(0, 11)], &[(0, 12)], &[(0, 13)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), None, None, Some(12), Some(13)]);
}

#[test]
fn a_regular_head_restarts_the_confirmation_count() {
    let rounds: [&[_]; 6] =
        [&[(0, 100)], &[(0, 98)], &[(0, 99)], &[(0, 101)], &[(0, 99)], &[(0, 99)]];
    assert_eq!(run_rounds(&rounds), [Some(100), None, None, Some(101), None, None]);
}

#[test]
fn inconsistent_lower_heads_are_never_confirmed() {
    let rounds: [&[_]; 6] =
        [&[(0, 9000)], &[(0, 800)], &[(0, 10)], &[(0, 500)], &[(0, 4)], &[(0, 8000)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), None, None, None, None, None]);
}

#[test]
fn two_agreeing_upstreams_confirm_a_head_at_once() {
    let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 12)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), Some(12)]);
    // Two laggards at different heads do not agree.
    let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 800)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), None]);
    // One upstream cannot confirm itself.
    let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (0, 10)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), None]);
}

#[test]
fn an_upstream_at_the_head_wins_over_two_agreeing_laggards() {
    let rounds: [&[_]; 2] = [&[(0, 9000)], &[(0, 10), (1, 10), (2, 9001)]];
    assert_eq!(run_rounds(&rounds), [Some(9000), Some(9001)]);
}

#[test]
fn a_head_may_advance_twice_the_expected_blocks_plus_five() {
    let rounds: [&[_]; 2] = [&[(0, 100)], &[(0, 107)]];
    assert_eq!(run_rounds(&rounds), [Some(100), Some(107)]);
    let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, 108)], &[(0, 112)], &[(0, 116)]];
    assert_eq!(run_rounds(&rounds), [Some(100), None, None, Some(116)]);
    let rounds: [&[_]; 4] = [&[(0, 100)], &[(0, u64::MAX)], &[(0, 1 << 60)], &[(0, 101)]];
    assert_eq!(run_rounds(&rounds), [Some(100), None, None, Some(101)]);
    // After ten block times without a reply, 25 more blocks are plausible, 26 are not.
    let mut rounds: Vec<&[_]> = vec![&[]; 11];
    rounds[0] = &[(0, 100)];
    rounds[10] = &[(0, 125)];
    assert_eq!(run_rounds(&rounds)[10], Some(125));
    rounds[10] = &[(0, 126)];
    assert_eq!(run_rounds(&rounds)[10], None);
}

#[test]
fn a_chain_faster_than_configured_is_followed() {
    // Ten blocks a round would be implausible at once, but not after speeding up step by step.
    let (mut head, mut rounds) = (0, Vec::new());
    for step in (1..=6).chain(std::iter::repeat_n(7, 20)).chain(std::iter::repeat_n(10, 50)) {
        head += step;
        rounds.push([(0, head)]);
    }
    let rounds: Vec<&[_]> = rounds.iter().map(<[_; 1]>::as_slice).collect();
    assert!(run_rounds(&rounds).iter().all(Option::is_some));
}

#[test]
fn a_much_faster_chain_is_caught_up_with() {
    let rounds: Vec<_> = (0..30).map(|count| [(0, 1000 + 40 * count)]).collect();
    let rounds: Vec<&[_]> = rounds.iter().map(<[_; 1]>::as_slice).collect();
    let published = run_rounds(&rounds);
    assert_eq!(published[..4], [Some(1000), None, None, Some(1120)]);
    assert!(published[8..].iter().all(Option::is_some), "{published:?}");
}

#[test]
fn a_current_upstream_replaces_a_published_laggard() {
    // The laggard's heads are plausible all the time.
    let rounds: Vec<_> = (0..6).map(|count| [(1, 120 + count), (0, 100 + count)]).collect();
    let mut all: Vec<&[_]> = vec![&[(0, 99)]];
    all.extend(rounds.iter().map(<[_; 2]>::as_slice));
    let expected = [99, 100, 101, 102, 123, 124, 125].map(Some);
    // In the third round both the laggard's head and then the confirmed one are published.
    let mut tracker = HeadTracker::new(BLOCK);
    let start = Instant::now();
    let mut published = Vec::new();
    for (count, claims) in (0_u32..).zip(&all) {
        let mut round = tracker.start_round(start + BLOCK * count);
        for (upstream, head) in *claims {
            let _ = round.check(*upstream, *head);
        }
        let _ = round.finish();
        published.push(tracker.published.map(|seen| seen.head));
    }
    assert_eq!(published[..3], expected[..3]);
    assert_eq!(published[3], Some(122));
    assert_eq!(published[4..], expected[4..]);
}

#[test]
fn an_equal_head_is_published_once_per_round() {
    let mut tracker = HeadTracker::new(BLOCK);
    let mut round = tracker.start_round(Instant::now());
    assert_eq!(round.check(0, 100), Ok(PublishDecision::Publish));
    assert_eq!(round.check(1, 100), Ok(PublishDecision::AlreadyPublished));
    assert_eq!(round.check(2, 101), Ok(PublishDecision::Publish));
    assert_eq!(round.check(3, 100), Err(SuspiciousHead::Regression));
    assert_eq!(round.finish(), None);
}

#[test]
fn the_jump_limit_is_taken_from_before_the_round() {
    let mut tracker = HeadTracker::new(BLOCK);
    let start = Instant::now();
    assert_eq!(tracker.start_round(start).check(0, 100), Ok(PublishDecision::Publish));
    let mut round = tracker.start_round(start + BLOCK * 10);
    assert_eq!(round.check(0, 101), Ok(PublishDecision::Publish));
    assert_eq!(round.check(1, 110), Ok(PublishDecision::Publish));
    assert_eq!(round.check(2, 126), Err(SuspiciousHead::Jump));
}

#[test]
fn a_slow_head_makes_the_poll_query_other_upstreams() {
    let mut tracker = HeadTracker::new(BLOCK);
    let start = Instant::now();
    let mut wanted = Vec::new();
    for count in 0..20 {
        // Two blocks in five block times.
        let mut round = tracker.start_round(start + BLOCK * count);
        let _ = round.check(0, 100 + u64::from(count) * 2 / 5).unwrap();
        if round.should_query_others() {
            wanted.push(count);
        }
    }
    assert!((3..=4).contains(&wanted.len()), "{wanted:?}");
}

#[test]
fn a_stalled_head_queries_other_upstreams_periodically() {
    let mut tracker = HeadTracker::new(BLOCK);
    let start = Instant::now();
    let mut wanted = Vec::new();
    for count in 0..10 {
        let now = start + BLOCK * count;
        let mut round = tracker.start_round(now);
        let _ = round.check(0, 100).unwrap();
        if round.should_query_others() {
            wanted.push(count);
        }
        assert_eq!(round.finish(), None);
    }
    assert_eq!(wanted, [3, 6, 9]);
}

#[test]
fn a_remote_head_is_accepted_if_plausible_or_confirmed() {
    let start = Instant::now();
    let mut tracker = HeadTracker::new(BLOCK);
    assert_eq!(tracker.accept_remote(100, start, false), Ok(()));
    assert_eq!(tracker.accept_remote(100, start, false), Ok(()));
    assert_eq!(tracker.accept_remote(99, start + BLOCK, false), Err(SuspiciousHead::Regression));
    assert_eq!(tracker.accept_remote(1000, start + BLOCK, false), Err(SuspiciousHead::Jump));
    // After 900 block times the chain can be that far.
    assert_eq!(tracker.accept_remote(1000, start + BLOCK * 900, false), Ok(()));
    // Another replica confirmed these.
    assert_eq!(tracker.accept_remote(50_000, start + BLOCK * 901, true), Ok(()));
    assert_eq!(tracker.accept_remote(10, start + BLOCK * 902, true), Ok(()));
    // This replica's own polls continue from there.
    let mut round = tracker.start_round(start + BLOCK * 903);
    assert_eq!(round.check(0, 9), Err(SuspiciousHead::Regression));
    assert_eq!(round.check(0, 11), Ok(PublishDecision::Publish));
}
