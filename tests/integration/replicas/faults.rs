//! Redis in every way at fault, under three replicas that are read all the time: no read fails, the served
//! head goes on, and within five seconds of its return they share again.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::clock_node::ClockNode;
use super::redis::{Redis, Reply};
use super::replica::Replica;
use super::watch::MOST;
use super::{Counts, Group, ID, at, chain};
use crate::raw::free_port;

const REPLICAS: usize = 3;

/// How long a fault lasts.
const LASTING: Duration = Duration::from_secs(5);

/// What lasts is done anew so often, where it has to be.
const AGAIN: Duration = Duration::from_millis(50);

/// How many ticks it may take to notice that Redis is at fault, beyond the one that any lost winner costs.
const NOTICING: u64 = 1;

/// One way in which Redis can be at fault.
struct Case {
    name: &'static str,
    start: fn() -> Redis,
    /// What is done to it.
    begin: fn(&Redis),
    /// What is done again and again while the fault lasts.
    go_on: fn(&Redis),
    /// What ends it.
    end: fn(&Redis),
    /// Whether nothing can be shared meanwhile.
    is_alone: bool,
    /// Whether somebody has to refuse what is shared meanwhile.
    is_refused: bool,
}

impl Case {
    /// Nothing can be shared while it lasts: each polls for itself.
    fn alone(name: &'static str, begin: fn(&Redis), end: fn(&Redis)) -> Self {
        Self {
            name,
            start: Redis::start,
            begin,
            go_on: |_| {},
            end,
            is_alone: true,
            is_refused: false,
        }
    }

    /// It happens once, and nothing has to be ended.
    fn once(name: &'static str, begin: fn(&Redis)) -> Self {
        Self { is_alone: false, ..Self::alone(name, begin, |_| {}) }
    }

    /// It happens again and again.
    fn again(name: &'static str, happens: fn(&Redis)) -> Self {
        Self { go_on: happens, ..Self::once(name, happens) }
    }
}

/// How many cases are played at once: they mostly wait.
const PLAYERS: usize = 4;

/// Plays all.
fn play(cases: Vec<Case>) {
    let (cases, failed) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().next() else { return };
                    let name = case.name;
                    // The panic's own text is told where it happens.
                    if catch_unwind(AssertUnwindSafe(|| play_one(case))).is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "these fail: {failed:#?}");
}

fn play_one(case: Case) {
    // What is done to Redis blocks this thread, and no watch.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(case.play());
}

impl Case {
    async fn play(self) {
        let name = self.name.replace(' ', "-");
        let redis = (self.start)();
        let group = Group::start(&format!("faults-{name}"), REPLICAS, redis).await;
        let normal = group.take();
        let (before, counts_before) = (group.node.tally(), group.counts().await);

        (self.begin)(&group.redis);
        let begun = Instant::now();
        while begun.elapsed() < LASTING {
            (self.go_on)(&group.redis);
            tokio::time::sleep(AGAIN).await;
        }
        let (after, counts_after) = (group.node.tally(), group.counts().await);
        let fault = group.take();
        (self.end)(&group.redis);
        let rejoined = group.share_again(Instant::now()).await;
        let later = group.take();

        let (blocks, calls) = after.since(before);
        let told = format!(
            "{name}: {calls} calls in {blocks} blocks, {counts_before:#?}, then {counts_after:#?}"
        );
        println!(
            "{name}: {} reads, lag at most {} (before and after {} and {}), {calls} calls in \
             {blocks} blocks, shared again after {rejoined:?}",
            fault.reads,
            fault.max_lag(),
            normal.max_lag(),
            later.max_lag(),
        );
        for record in [normal, fault, later] {
            assert_eq!(record.failures, [""; 0], "{name}");
            assert!(record.reads > 0, "{name}");
            assert!(record.max_lag() <= MOST + NOTICING, "{name}: {record:#?}");
            assert!(record.max_jump() <= MOST + NOTICING, "{name}: {record:#?}");
        }
        // At its own tick, whose place among the blocks is another than that of the turns.
        let most = blocks + 1;
        assert!(calls <= most * REPLICAS as u64, "{told}");
        for (before, after) in counts_before.iter().zip(&counts_after) {
            assert!(after.alone - before.alone <= most, "{told}");
        }
        let refused = |counts: &[Counts]| counts.iter().map(|counts| counts.refused).sum::<u64>();
        assert!(!self.is_refused || refused(&counts_after) > refused(&counts_before), "{told}");
        if self.is_alone {
            for (before, after) in counts_before.iter().zip(&counts_after) {
                let Counts { redis_up, alone, redis_failures, .. } = *after;
                assert_eq!(redis_up, 0, "{told}");
                assert!(alone >= before.alone + 2, "{told}");
                assert!(redis_failures > before.redis_failures, "{told}");
            }
        }
        for watch in &group.watches {
            // That it shares, that it does not, perhaps for another reason, and that it does again; each time.
            watch.replica.tells_little_of_redis(if self.is_alone { 5 } else { 20 });
        }
    }
}

fn say(redis: &Redis, command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    redis.say(&words);
}

/// Breaks every connection but the test's.
fn hang_up(redis: &Redis) {
    for kind in ["normal", "pubsub"] {
        redis.say(&["CLIENT", "KILL", "TYPE", kind]);
    }
}

#[test]
fn without_redis_each_polls_for_itself_and_shares_again_once_it_is_back() {
    let cases = vec![
        Case::alone("killed", Redis::kill, Redis::start_again),
        Case::alone("frozen", Redis::freeze, Redis::thaw),
        Case::alone(
            "paused",
            |redis| say(redis, "CLIENT PAUSE 5500 ALL"),
            // Answered when the pause is over.
            |redis| say(redis, "PING"),
        ),
        Case::once("restarted empty", |redis| {
            redis.kill();
            redis.start_again();
        }),
        // Each takes half a second.
        Case::again("slow", |redis| say(redis, "DEBUG SLEEP 0.5")),
    ];
    play(cases);
}

#[test]
fn a_redis_that_refuses_is_as_good_as_none() {
    let cases = vec![
        Case::alone(
            "read only",
            |redis| say(redis, &format!("REPLICAOF 127.0.0.1 {}", free_port())),
            |redis| say(redis, "REPLICAOF NO ONE"),
        ),
        Case::alone(
            "full",
            |redis| say(redis, "CONFIG SET maxmemory 1 maxmemory-policy noeviction"),
            |redis| say(redis, "CONFIG SET maxmemory 0"),
        ),
        Case::alone(
            "another password",
            |redis| {
                say(redis, "CONFIG SET requirepass another");
                redis.use_password(Some("another"));
                hang_up(redis);
            },
            |redis| {
                redis.say(&["CONFIG", "SET", "requirepass", ""]);
                redis.use_password(None);
            },
        ),
        Case::alone(
            "no scripts",
            |redis| say(redis, "ACL SETUSER default -eval -evalsha"),
            |redis| say(redis, "ACL SETUSER default +@all"),
        ),
        Case::alone(
            "no place for clients",
            |redis| {
                say(redis, "CONFIG SET maxclients 1");
                hang_up(redis);
            },
            |redis| say(redis, "CONFIG SET maxclients 1000"),
        ),
        // Values are there for those who read them, but nobody is told of them.
        Case {
            is_alone: false,
            ..Case::alone(
                "no channels",
                |redis| say(redis, "ACL SETUSER default resetchannels"),
                |redis| say(redis, "ACL SETUSER default allchannels"),
            )
        },
    ];
    play(cases);
}

#[test]
fn what_redis_forgets_is_shared_anew() {
    let cases = vec![
        Case::once("flushed", |redis| say(redis, "FLUSHALL")),
        Case::again("flushed again and again", |redis| say(redis, "FLUSHALL")),
        Case::once("scripts flushed", |redis| say(redis, "SCRIPT FLUSH")),
        Case {
            end: |redis| {
                assert!(redis.info("evicted_keys") > 0, "there was room for all");
                say(redis, "CONFIG SET maxmemory 0");
                say(redis, "FLUSHALL");
            },
            ..Case::again("evicting", |redis| {
                let most = redis.info("used_memory_startup") + 4 * 1024 * 1024;
                say(redis, &format!("CONFIG SET maxmemory {most} maxmemory-policy allkeys-lru"));
                // More than there is room for, each time.
                for place in 0..64 {
                    redis
                        .try_say(&["SET", &format!("junk-{place}"), &"x".repeat(100_000)])
                        .unwrap();
                }
            })
        },
        Case::once("a connection broken", |redis| {
            let clients = String::from_utf8(redis.say(&["CLIENT", "LIST"]).into_bytes()).unwrap();
            let Reply::Integer(own) = redis.say(&["CLIENT", "ID"]) else { panic!("no number") };
            let mut ids = clients.lines().map(|line| {
                line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap().to_owned()
            });
            let other = ids.find(|id| *id != own.to_string()).expect("a replica's connection");
            redis.say(&["CLIENT", "KILL", "ID", &other]);
        }),
        Case::again("connections broken again and again", hang_up),
    ];
    play(cases);
}

/// Our keys and channels.
const PREFIX: &str = "gas:v1:";

/// Puts something else under each of our keys, and tells it to everybody who listens.
fn replace(redis: &Redis, by: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for key in redis.keys(PREFIX) {
        // What is there may end at any moment, and may be of another type.
        let Ok(Reply::Bytes(value)) = redis.try_say(&[b"GET", key.as_slice()]) else { continue };
        if let Some(junk) = by(&value) {
            redis.say(&[b"SET", key.as_slice(), &junk]);
        }
    }
    for (channel, message) in redis.overheard() {
        if let Some(junk) = by(&message) {
            redis.say(&[b"PUBLISH", channel.as_slice(), &junk]);
        }
    }
}

/// Puts lists where there should be none.
fn replace_by_lists(redis: &Redis) {
    const BY_A_LIST: &str =
        "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'junk', 'junk')";
    for key in redis.keys(PREFIX) {
        redis.say(&[b"EVAL", BY_A_LIST.as_bytes(), b"1", &key]);
    }
}

/// Waits until there is all that there can be: a value, messages, and the keys of an upstream.
fn listen(redis: &Redis) {
    redis.overhear(PREFIX);
    let since = Instant::now();
    let has_value = || redis.keys(PREFIX).iter().any(|key| key.ends_with(b":value"));
    while redis.overheard().is_empty() || !has_value() {
        assert!(since.elapsed() < crate::raw::PATIENCE, "nothing is published");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Case {
    /// Others write under its keys and to its channels.
    fn junk(name: &'static str, go_on: fn(&Redis)) -> Self {
        Self { begin: listen, is_refused: true, ..Self::again(name, go_on) }
    }
}

#[test]
fn what_others_put_under_its_keys_is_never_served() {
    play(vec![
        Case::junk("text", |redis| replace(redis, |_| Some(b"junk".to_vec()))),
        Case::junk("nothing", |redis| replace(redis, |_| Some(Vec::new()))),
        Case::junk("huge", |redis| replace(redis, |_| Some(vec![b'7'; 1024 * 1024]))),
        Case::junk("half", |redis| replace(redis, |value| Some(value[..value.len() / 2].to_vec()))),
        Case::junk("no text", |redis| {
            replace(redis, |value| Some(value.iter().map(|byte| byte | 0x80).collect()));
        }),
        Case::junk("lists", replace_by_lists),
        // They stay, as nothing of theirs ends by itself.
        Case {
            is_refused: true,
            ..Case::once("lists once", |redis| {
                listen(redis);
                replace_by_lists(redis);
            })
        },
    ]);
}

/// Each number in `text` that is in the range, moved, with as many digits as it had; `None`: there is none.
fn moved(text: &[u8], range: &std::ops::Range<u128>, by: i128) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?;
    let (mut out, mut is_found) = (String::new(), false);
    for run in text.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = run.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        match digits.parse::<u128>() {
            Ok(number) if range.contains(&number) => {
                let (number, width) = (number.checked_add_signed(by).unwrap(), digits.len());
                is_found = true;
                write!(out, "{number:0width$}{}", &run[width..]).unwrap();
            }
            _ => out += run,
        }
    }
    is_found.then(|| out.into_bytes())
}

#[test]
fn numbers_are_moved_where_they_are_meant_and_keep_their_width() {
    let moved = |by| moved(b"0017 3 [\"16\",5]", &(10..20), by).map(String::from_utf8);
    assert_eq!(moved(-10), Some(Ok("0007 3 [\"06\",5]".into())));
    assert_eq!(moved(1000), Some(Ok("1017 3 [\"1016\",5]".into())));
    assert_eq!(super::faults::moved(b"17", &(0..10), 1), None);
}

/// Moves these numbers in all values and messages. That there are any is seen where the fault begins.
fn move_numbers(redis: &Redis, range: &std::ops::Range<u128>, by: i128) {
    replace(redis, |text| moved(text, range, by));
}

/// The numbers of blocks.
fn heads() -> std::ops::Range<u128> {
    u128::from(ClockNode::FIRST_HEAD) - 100..u128::from(ClockNode::FIRST_HEAD) + 1000
}

/// Moments, in microseconds.
fn moments(redis: &Redis) -> std::ops::Range<u128> {
    let (now, minute) = (redis.micros(), 60_000_000);
    now - minute..now + minute
}

/// The numbers of slots of a second.
fn slots(redis: &Redis) -> std::ops::Range<u128> {
    let now = redis.micros() / 1_000_000;
    now - 60..now + 60
}

/// Asserts that values and messages have such numbers, so that moving them is a fault.
fn listen_for(redis: &Redis, range: &std::ops::Range<u128>) {
    listen(redis);
    let texts: Vec<_> = redis.overheard().into_values().collect();
    assert!(
        texts.iter().any(|text| moved(text, range, 0).is_some()),
        "{range:?} in none of {texts:?}"
    );
}

impl Case {
    /// Values are as ours, but for numbers, which makes others of them or nothing that can be true.
    fn moving(name: &'static str, begin: fn(&Redis), go_on: fn(&Redis)) -> Self {
        Self { begin, ..Self::junk(name, go_on) }
    }
}

const HOUR: i128 = 3_600_000_000;

#[test]
fn values_that_cannot_be_true_are_never_served() {
    let of_heads: fn(&Redis) = |redis| listen_for(redis, &heads());
    let of_moments: fn(&Redis) = |redis| listen_for(redis, &moments(redis));
    let of_slots: fn(&Redis) = |redis| listen_for(redis, &slots(redis));
    play(vec![
        Case::moving("absurd heads", of_heads, |redis| move_numbers(redis, &heads(), 1 << 63)),
        Case::moving("heads ahead", of_heads, |redis| move_numbers(redis, &heads(), 1_000_000)),
        Case::moving("heads behind", of_heads, |redis| move_numbers(redis, &heads(), -5_000_000)),
        Case::moving("from the future", of_moments, |redis| {
            move_numbers(redis, &moments(redis), HOUR);
        }),
        // Whoever put it there looks at nothing but whether it is its own.
        Case {
            is_refused: false,
            ..Case::moving("from the past", of_moments, |redis| {
                move_numbers(redis, &moments(redis), -HOUR);
            })
        },
        // The blocks are there, only not polled for that slot.
        Case {
            is_refused: false,
            ..Case::moving("slots to come", of_slots, |redis| {
                move_numbers(redis, &slots(redis), 100_000);
            })
        },
        Case {
            is_refused: false,
            ..Case::moving("slots of old", of_slots, |redis| {
                move_numbers(redis, &slots(redis), -100_000);
            })
        },
    ]);
}

#[test]
fn the_time_of_day_may_step_where_redis_is() {
    let case = |name, begin| Case { start: Redis::with_wall_clock, ..Case::once(name, begin) };
    play(vec![
        case("an hour back", |redis| redis.step("-1h")),
        case("an hour on", |redis| redis.step("+1h")),
        case("a moment back", |redis| redis.step("-2500ms")),
        case("a moment on", |redis| redis.step("+2500ms")),
    ]);
}

/// A Redis that takes connections and then fails, each time anew, is no reason to poll more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_alone_polls_at_its_own_tick_however_often_redis_comes_and_goes() {
    const WATCHING: Duration = Duration::from_secs(12);
    let block = Duration::from_secs(5);
    let node = ClockNode::start(ID, block).await;
    let chain = chain("a", ID, &node.url(), "").replace("\"1s\"", "\"5s\"");
    let nothing: fn(&Redis) = |_| {};
    let read_only: fn(&Redis) = |redis| say(redis, "REPLICAOF 127.0.0.1 1");
    let no_scripts: fn(&Redis) = |redis| say(redis, "ACL SETUSER default -eval -evalsha");
    let faults = [
        ("read-only", read_only, nothing),
        ("no-scripts", no_scripts, nothing),
        ("broken", nothing, hang_up),
    ];
    let mut servers = Vec::new();
    for (name, begin, go_on) in faults {
        let redis = Redis::start();
        let replica = Replica::start(&format!("own-tick-{name}"), &(at(&redis.url(0)) + &chain));
        replica.is_ready().await;
        begin(&redis);
        servers.push((redis, replica, go_on));
    }
    let (since, mut before) = (Instant::now(), Vec::new());
    for (_, replica, _) in &servers {
        before.push(replica.counts("a").await);
    }
    // What must not happen needs the time not to.
    while since.elapsed() < WATCHING {
        for (redis, _, go_on) in &servers {
            go_on(redis);
        }
        tokio::time::sleep(AGAIN).await;
    }
    let most = WATCHING.as_secs() / block.as_secs() + 1;
    let mut told = Vec::new();
    for ((_, replica, _), before) in servers.iter().zip(before) {
        let after = replica.counts("a").await;
        let polls = after.alone + after.claimed - before.alone - before.claimed;
        told.push((replica.name.clone(), polls));
    }
    println!("in {WATCHING:?} with a block each {block:?}: {told:?}");
    assert!(told.iter().all(|(_, polls)| (1..=most).contains(polls)), "more than {most}: {told:?}");
}
