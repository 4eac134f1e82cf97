use proptest::prelude::*;

use super::*;

const BLOCK: Duration = Duration::from_secs(2);

const MAX_AGE: Duration = Duration::from_secs(30);

/// Reply of an upstream with this head.
fn report((upstream, head): (usize, u64)) -> Report {
    Report {
        upstream,
        head,
        base_fee: 1,
        block_age: BlockAge::Unknown,
        is_of_now: false,
        suspicious_amounts: None,
    }
}

/// Report of a head whose block has this age.
fn aged(upstream: usize, head: u64, block_age: BlockAge) -> Report {
    Report { block_age, ..report((upstream, head)) }
}

fn new_judge() -> (Judge, Instant) {
    (Judge::new(BLOCK, MAX_AGE), Instant::now())
}

/// Runs a round of these reports. Returns the upstream that it confirms.
fn confirmed(
    judge: &mut Judge,
    now: Instant,
    reports: impl IntoIterator<Item = Report>,
) -> Option<usize> {
    let mut round = judge.start_round(now);
    reports.into_iter().for_each(|report| _ = round.check(report));
    round.finish(now).confirmed.map(|by| by.upstream)
}

/// Runs rounds one block time apart, in which these upstreams report these heads. Returns the head that each round
/// publishes.
fn run_rounds<T: AsRef<[(usize, u64)]>>(rounds: &[T]) -> Vec<Option<u64>> {
    let (mut judge, start) = new_judge();
    let run = |(count, claims): (u32, &T)| {
        let claims = claims.as_ref();
        let mut round = judge.start_round(start + BLOCK * count);
        let accepted = claims.iter().find(|claim| round.check(report(**claim)).is_ok());
        let confirmed = round.finish(start + BLOCK * count).confirmed;
        let confirmed = confirmed.and_then(|by| claims.iter().find(|claim| claim.0 == by.upstream));
        accepted.or(confirmed).map(|claim| claim.1)
    };
    (0..).zip(rounds).map(run).collect()
}

/// Name, heads that upstreams claim in each round, and the head that each round publishes; 0: none.
type Scene<'a> = (&'a str, &'a [&'a [(usize, u64)]], &'a [u64]);

#[test]
fn each_round_publishes_what_it_has_reason_to_believe() {
    let scenes: [Scene<'_>; 7] = [
        (
            "a higher or equal head",
            &[&[(0, 100)], &[(0, 101)], &[(0, 101)], &[(1, 104)]],
            &[100, 101, 101, 104],
        ),
        (
            "a lower head in three consecutive rounds",
            &[&[(0, 9000)], &[(0, 10)], &[(0, 11)], &[(0, 12)], &[(0, 13)]],
            &[9000, 0, 0, 12, 13],
        ),
        (
            "a regular head restarts the count",
            &[&[(0, 100)], &[(0, 98)], &[(0, 99)], &[(0, 101)], &[(0, 99)], &[(0, 99)]],
            &[100, 0, 0, 101, 0, 0],
        ),
        (
            "inconsistent lower heads",
            &[&[(0, 9000)], &[(0, 800)], &[(0, 10)], &[(0, 500)], &[(0, 4)], &[(0, 8000)]],
            &[9000, 0, 0, 0, 0, 0],
        ),
        ("two upstreams agree", &[&[(0, 9000)], &[(0, 10), (1, 12)]], &[9000, 12]),
        ("two laggards at different heads", &[&[(0, 9000)], &[(0, 10), (1, 800)]], &[9000, 0]),
        (
            "an upstream at the head and two agreeing laggards",
            &[&[(0, 9000)], &[(0, 10), (1, 10), (2, 9001)]],
            &[9000, 9001],
        ),
    ];
    for (name, rounds, expected) in scenes {
        let expected: Vec<_> =
            expected.iter().map(|head| Some(*head).filter(|it| *it > 0)).collect();
        assert_eq!(run_rounds(rounds), expected, "{name}");
    }
}

#[test]
fn claims_that_are_far_apart_do_not_count_together() {
    let mut rounds: Vec<&[(usize, u64)]> = vec![&[(0, 9000)], &[(0, 10)], &[(0, 10)]];
    rounds.resize(24, &[]);
    let continued: [&[_]; 3] = [&[(0, 20)], &[(0, 21)], &[(0, 22)]];
    rounds.extend(continued);
    let published = run_rounds(&rounds);
    assert_eq!(published[24..], [None, None, Some(22)]);
    // They do after a shorter silence.
    rounds.drain(3..6);
    assert_eq!(run_rounds(&rounds)[21], Some(20));
}

#[test]
fn heads_after_a_record_are_expected_from_its_time_on() {
    let (mut judge, start) = new_judge();
    let mut adopt = |at: u32, reported_at: u32, head| {
        let mut round = judge.start_round(start + BLOCK * at);
        round.set_reported_at(start + BLOCK * reported_at);
        let checked = round.check(report((REMOTE, head)));
        let _ = round.finish(start + BLOCK * at);
        checked
    };
    // A process that has just started adopts two records, of which the first is two blocks old.
    assert_eq!(adopt(2, 0, 100), Ok(true));
    assert_eq!(adopt(2, 2, 103), Ok(true));
    // The time until a record arrives gives no room to higher heads, nor does one from before the published one.
    assert_eq!(adopt(4, 2, 105), Err(SuspiciousReply::Jump));
    assert_eq!(adopt(4, 0, 104), Ok(true));
    assert_eq!(adopt(4, 2, 106), Err(SuspiciousReply::Jump));
}

#[test]
fn most_upstreams_outvote_a_preferred_one_with_unequal_heads() {
    let (mut judge, start) = new_judge();
    for count in 0..8_u32 {
        let head = 100 + u64::from(count);
        // The second one replies before the third one, which lags a block.
        let lie = if count == 0 { 100 } else { 1_000_000 + head };
        let reports = [(0, lie), (1, head), (2, head + 1), (3, head)].map(report);
        assert_eq!(confirmed(&mut judge, start + BLOCK * count, reports), None, "round {count}");
    }
}

#[test]
fn an_upstream_that_syncs_has_no_vote() {
    let (mut judge, start) = new_judge();
    let _ = judge.start_round(start).check(aged(0, 100, BlockAge::Young));
    for count in 1..8_u32 {
        let head = 100 + u64::from(count);
        let young = [(1, 1_000_000 + head), (2, head), (3, head)];
        let young = young.map(|(upstream, head)| aged(upstream, head, BlockAge::Young));
        let reports = [aged(0, 10, BlockAge::Old)].into_iter().chain(young);
        assert_eq!(confirmed(&mut judge, start + BLOCK * count, reports), None, "round {count}");
    }
}

#[test]
fn a_head_may_advance_twice_the_expected_blocks_plus_five() {
    assert_eq!(run_rounds(&[[(0, 100)], [(0, 107)]]), [Some(100), Some(107)]);
    let rounds = [[(0, 100)], [(0, 108)], [(0, 112)], [(0, 116)]];
    assert_eq!(run_rounds(&rounds), [Some(100), None, None, Some(116)]);
    let rounds = [[(0, 100)], [(0, u64::MAX)], [(0, 1 << 60)], [(0, 101)]];
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
    assert!(run_rounds(&rounds).iter().all(Option::is_some));
}

#[test]
fn a_much_faster_chain_is_caught_up_with() {
    let rounds: Vec<_> = (0..30).map(|count| [(0, 1000 + 40 * count)]).collect();
    let published = run_rounds(&rounds);
    assert_eq!(published[..4], [Some(1000), None, None, Some(1120)]);
    assert!(published[8..].iter().all(Option::is_some), "{published:?}");
}

#[test]
fn a_current_upstream_replaces_a_published_laggard() {
    // The laggard's heads are plausible all the time.
    let mut rounds = Rounds::new();
    let mut published = vec![rounds.run(&[(1, 99)])];
    published.extend((0..6).map(|count| rounds.run(&[(0, 120 + count), (1, 100 + count)])));
    assert_eq!(published, [99, 100, 101, 122, 123, 124, 125]);
}

#[test]
fn an_equal_head_is_published_once_per_round() {
    let (mut judge, now) = new_judge();
    let mut round = judge.start_round(now);
    assert_eq!(round.check(report((0, 100))), Ok(true));
    assert_eq!(round.check(report((1, 100))), Ok(false));
    assert_eq!(round.check(report((2, 101))), Ok(true));
    assert_eq!(round.check(report((3, 100))), Err(SuspiciousReply::Regression));
    assert_eq!(round.finish(Instant::now()).confirmed, None);
}

#[test]
fn the_jump_limit_is_taken_from_before_the_round() {
    let (mut judge, start) = new_judge();
    assert_eq!(judge.start_round(start).check(report((0, 100))), Ok(true));
    let mut round = judge.start_round(start + BLOCK * 10);
    assert_eq!(round.check(report((0, 101))), Ok(true));
    assert_eq!(round.check(report((1, 110))), Ok(true));
    assert_eq!(round.check(report((2, 126))), Err(SuspiciousReply::Jump));
}

#[test]
fn a_stalled_head_queries_other_upstreams_periodically() {
    let (mut judge, start) = new_judge();
    let wants_others = |count: &u32| {
        let now = start + BLOCK * *count;
        let mut round = judge.start_round(now);
        let _ = round.check(report((0, 100))).unwrap();
        let wants_others = round.should_query_others();
        assert_eq!(round.finish(now).confirmed, None);
        wants_others
    };
    assert_eq!((0..10).filter(wants_others).collect::<Vec<_>>(), [3, 6, 9]);
}

/// Rounds one block time apart.
struct Rounds {
    judge: Judge,
    start: Instant,
    now: u32,
}

impl Rounds {
    fn new() -> Self {
        let (judge, start) = new_judge();
        Self { judge, start, now: 0 }
    }

    /// Upstream 0 has published block 1000.
    fn from_block_1000() -> Self {
        let mut rounds = Self::new();
        assert_eq!(rounds.run(&[(0, 1000)]), 1000);
        rounds
    }

    /// Runs a round in which these upstreams report these heads. Returns the published head.
    fn run(&mut self, claims: &[(usize, u64)]) -> u64 {
        let now = self.start + BLOCK * self.now;
        confirmed(&mut self.judge, now, claims.iter().copied().map(report));
        self.now += 1;
        self.judge.published.unwrap().observed.head
    }

    /// True head of the next round.
    fn head(&self) -> u64 {
        1000 + u64::from(self.now)
    }

    /// Runs so many rounds in which these upstreams report the true head, and then `liar` one far ahead. Returns whether
    /// the lie is published after each.
    fn captured(&mut self, count: usize, honest: &[usize], liar: usize) -> Vec<bool> {
        let round = |_| {
            let head = self.head();
            let claims = honest.iter().map(|upstream| (*upstream, head));
            let claims: Vec<_> = claims.chain([(liar, head + 1_000_000)]).collect();
            self.run(&claims) != head
        };
        (0..count).map(round).collect()
    }
}

#[test]
fn one_lying_spare_never_wins_while_the_preferred_upstream_works() {
    for lead in [1_000_000, 8] {
        for silent_rounds in 1..=2 {
            let mut rounds = Rounds::from_block_1000();
            for _ in 0..silent_rounds {
                let head = rounds.head();
                assert_eq!(rounds.run(&[(1, head + lead)]), 1000, "{lead}");
            }
            for _ in 0..100 {
                let head = rounds.head();
                assert_eq!(rounds.run(&[(0, head), (1, head + lead)]), head, "{lead}");
            }
        }
    }
}

#[test]
fn spare_is_believed_after_the_patience_and_the_preferred_wins_again() {
    let mut rounds = Rounds::from_block_1000();
    // The patience is half of `max_age`.
    for _ in 0..7 {
        let head = rounds.head();
        assert_eq!(rounds.run(&[(1, head + 1_000_000)]), 1000);
    }
    assert_eq!(rounds.captured(1, &[], 1), [true]);
    // The preferred upstream is back, and wins with its third reply.
    assert_eq!(rounds.captured(3, &[0], 1), [true, true, false]);
    assert_eq!(rounds.captured(20, &[0], 1), [false; 20]);
}

#[test]
fn preferred_upstream_that_stands_still_does_not_win_back() {
    let mut rounds = Rounds::from_block_1000();
    for _ in 0..12 {
        let head = rounds.head();
        rounds.run(&[(0, 1000), (1, head + 1000)]);
    }
    for _ in 0..30 {
        let head = rounds.head() + 1000;
        assert_eq!(rounds.run(&[(0, 1000), (1, head)]), head);
    }
}

#[test]
fn preferred_upstream_that_crawls_or_catches_up_does_not_win_back() {
    let crawls: fn(u64) -> u64 = |round| 1000 + round / 5;
    let catches_up: fn(u64) -> u64 = |round| 900 + 20 * round;
    for (preferred, count) in [(crawls, 25), (catches_up, 7)] {
        let mut rounds = Rounds::from_block_1000();
        for _ in 0..30 {
            let head = rounds.head();
            rounds.run(&[(1, head)]);
        }
        for round in 0..count {
            let head = rounds.head();
            assert_eq!(rounds.run(&[(0, preferred(round)), (1, head)]), head, "{round}");
        }
    }
}

#[test]
fn two_honest_upstreams_win_again_at_once() {
    let mut rounds = Rounds::from_block_1000();
    assert_eq!(rounds.captured(10, &[], 2)[9..], [true]);
    assert_eq!(rounds.captured(4, &[0, 1], 2), [true, true, false, false]);
}

#[test]
fn suspicious_amounts_need_agreement_or_three_replies() {
    let reason = SuspiciousReply::BaseFeeLeap;
    let leap =
        |upstream, head| Report { suspicious_amounts: Some(reason), ..report((upstream, head)) };
    let run = |rounds: &[Vec<Report>]| -> Vec<Option<usize>> {
        let (mut judge, start) = new_judge();
        let rounds = (0..).zip(rounds);
        let confirmed = |(count, reports): (u32, &Vec<Report>)| {
            confirmed(&mut judge, start + BLOCK * count, reports.iter().copied())
        };
        rounds.map(confirmed).collect()
    };
    // Alone three replies confirm it, and then each.
    let alone: Vec<_> = (100..105).map(|head| vec![leap(0, head)]).collect();
    assert_eq!(run(&alone), [None, None, Some(0), Some(0), Some(0)]);
    // Two upstreams confirm it at once.
    assert_eq!(run(&[vec![leap(0, 100), leap(1, 101)]]), [Some(1)]);
    // Agreement needs the same base fee too.
    let other = Report { base_fee: 10, ..leap(1, 100) };
    assert_eq!(run(&[vec![leap(0, 100), other]]), [None]);
    // While another upstream is plausible it is never confirmed.
    let disputed: Vec<_> = (100..110).map(|head| vec![leap(0, head), report((1, head))]).collect();
    assert_eq!(run(&disputed), [None; 10]);
}

#[test]
fn block_that_is_not_old_replaces_an_old_one_whatever_its_number() {
    use BlockAge::{Old, Unknown, Young};
    for head in [10, 999, 1000, 8000] {
        let mut judge = Judge::new(Duration::from_secs(1), Duration::from_secs(30));
        let now = Instant::now();
        assert!(judge.start_round(now).check(aged(0, 1000, Old)).is_ok());
        let mut round = judge.start_round(now + Duration::from_secs(1));
        if head != 1000 {
            let suspicion = round.suspicion(aged(1, head, Unknown));
            assert_eq!(suspicion.is_some(), head != 1001, "{head}");
        }
        assert_eq!(round.check(aged(1, head, Young)), Ok(true), "{head}");
        // The next blocks continue it.
        let mut round = judge.start_round(now + Duration::from_secs(2));
        assert!(round.check(aged(1, head + 1, Young)).is_ok(), "{head}");
    }
}

#[test]
fn old_block_behind_a_young_one_waits_until_that_expires() {
    use BlockAge::{Old, Unknown, Young};
    let confirmed_after = |block_age, poll_seconds| {
        let mut judge = Judge::new(Duration::from_secs(1), Duration::from_secs(30));
        let now = Instant::now();
        assert!(judge.start_round(now).check(aged(1, 8000, Young)).is_ok());
        (1..100).find(|second| {
            let mut round = judge.start_round(now + Duration::from_secs(*second));
            assert!(round.check(aged(0, 800 + second, block_age)).is_err());
            round.finish(now + Duration::from_secs(second + poll_seconds)).confirmed.is_some()
        })
    };
    // At the last poll before that, so that there is always a price. A poll may wait for other upstreams.
    assert_eq!(confirmed_after(Old, 0), Some(29));
    assert_eq!(confirmed_after(Old, 10), Some(19));
    assert_eq!(confirmed_after(Unknown, 0), Some(3));
}

#[test]
fn other_upstreams_are_queried_now_and_then_while_the_block_is_old() {
    let mut judge = Judge::new(Duration::from_secs(1), Duration::from_secs(30));
    let now = Instant::now();
    let seeks: Vec<bool> = (0..12)
        .map(|second| {
            let mut round = judge.start_round(now + Duration::from_secs(second));
            assert!(round.check(aged(0, 1000 + second, BlockAge::Old)).is_ok());
            round.should_query_others()
        })
        .collect();
    let expected: Vec<bool> = (0..12).map(|second| second % 5 == 0).collect();
    assert_eq!(seeks, expected);
}

#[test]
fn a_chain_that_becomes_ten_times_faster_is_believed_by_its_headers() {
    let (mut judge, start) = new_judge();
    assert!(judge.start_round(start).check(report((0, 10))).is_ok());
    let round = judge.start_round(start + BLOCK);
    let faster = 10 + 2 * 10 + 5;
    for (upstream, head, is_of_now, expected) in [
        (0, faster, true, None),
        (0, faster, false, Some(SuspiciousReply::Jump)),
        (0, faster + 1, true, Some(SuspiciousReply::Jump)),
        // A spare may lie.
        (1, faster, true, Some(SuspiciousReply::Jump)),
    ] {
        let report = Report { is_of_now, ..report((upstream, head)) };
        assert_eq!(round.suspicion(report), expected, "{upstream} {head} {is_of_now}");
    }
}

#[test]
fn a_far_head_that_is_of_now_is_plausible_once_after_a_leap() {
    let of_now = |head| Report { is_of_now: true, ..report((0, head)) };
    let (mut judge, start) = new_judge();
    assert!(judge.start_round(start).check(report((0, 10))).is_ok());
    let later = start + BLOCK;
    // One that was before the head was first seen explains nothing.
    for leap in [None, Some(start)] {
        judge.set_leap(leap);
        assert_eq!(judge.start_round(later).suspicion(of_now(400)), Some(SuspiciousReply::Jump));
    }
    judge.set_leap(Some(later));
    let mut round = judge.start_round(later);
    assert_eq!(round.suspicion(report((0, 400))), Some(SuspiciousReply::Jump));
    assert!(round.check(of_now(400)).is_ok());
    let _ = round.finish(later);
    // The next heads count from there, at the pace of the chain.
    let round = judge.start_round(later + BLOCK);
    assert_eq!(round.suspicion(report((0, 410))), Some(SuspiciousReply::Jump));
    assert_eq!(round.suspicion(report((0, 401))), None);
}

proptest! {
    /// Whatever three upstreams claim: a second implementation of the rules, as simple as possible.
    #[test]
    fn no_claims_publish_a_head_against_the_rules(
        rounds in proptest::collection::vec(
            (1_u32..5, proptest::array::uniform3(proptest::option::of(0_u64..60))), 1..200,
        ),
    ) {
        let (mut judge, mut now) = (Judge::new(BLOCK, MAX_AGE), Instant::now());
        let (mut suspicious, mut last) = ([0; 3], None::<(u64, Instant)>);
        for (blocks, heads) in rounds {
            now += BLOCK * blocks;
            // A chain may be a hundred times faster than configured.
            let highest = last.map_or(u64::MAX, |(head, at)| {
                head + 5 + 2 * u64::try_from((now - at).as_millis().div_ceil(20)).unwrap()
            });
            let mut round = judge.start_round(now);
            let (mut changes, mut plausible) = (Vec::new(), Vec::new());
            for (upstream, head) in heads.into_iter().enumerate() {
                let Some(head) = head else { continue };
                let decision = round.check(report((upstream, head)));
                suspicious[upstream] = if decision.is_ok() { 0 } else { suspicious[upstream] + 1 };
                plausible.extend(decision.is_ok().then_some(upstream));
                if decision == Ok(true) {
                    let lowest = changes.last().copied().or(last.map(|(head, _)| head));
                    prop_assert!(lowest.is_none_or(|lowest| head >= lowest) && head <= highest);
                    changes.push(head);
                }
            }
            if let Some(confirmed) = round.finish(now).confirmed.map(|it| it.upstream) {
                let head = heads[confirmed].unwrap();
                let near = heads.iter().flatten().filter(|other| other.abs_diff(head) <= 5);
                let agree = near.count() >= 2;
                prop_assert!(agree || suspicious[confirmed] >= 3, "without confirmation");
                let is_preferred = plausible.first().is_none_or(|other| confirmed < *other);
                let stands_still = last.is_some_and(|(_, at)| now - at >= MAX_AGE / 2);
                prop_assert!(agree || is_preferred || stands_still, "another one is plausible");
                changes.push(head);
            }
            for head in changes {
                if last.is_none_or(|(known, _)| known != head) {
                    last = Some((head, now));
                }
            }
        }
    }
}
