//! Redis in every way at fault, under three replicas that are read all the time: no read fails, the served
//! head goes on, and within five seconds of its return they share again.

use std::time::{Duration, Instant};

use super::redis::{Redis, Reply};
use super::watch::MOST;
use super::{Counts, Group};
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
    arguments: &'static [&'static str],
    /// What is done to it.
    begin: fn(&Redis),
    /// What is done again and again while the fault lasts.
    go_on: fn(&Redis),
    /// What ends it.
    end: fn(&Redis),
    /// Whether nothing can be shared meanwhile.
    is_alone: bool,
    /// How many calls to the node a block may cost meanwhile.
    most_calls: u64,
}

impl Case {
    /// Nothing can be shared while it lasts: each polls for itself.
    fn alone(name: &'static str, begin: fn(&Redis), end: fn(&Redis)) -> Self {
        let (go_on, most_calls): (fn(&Redis), _) = (|_| {}, REPLICAS as u64);
        Self { name, arguments: &[], begin, go_on, end, is_alone: true, most_calls }
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

/// Plays all at once: they mostly wait.
fn play(cases: Vec<Case>) {
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let cases: Vec<_> =
            cases.into_iter().map(|case| (case.name, scope.spawn(|| play_one(case)))).collect();
        // The panic's own text is told where it happens.
        failed.extend(cases.into_iter().filter_map(|(name, case)| case.join().err().map(|_| name)));
    });
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
        let redis = Redis::with(self.arguments);
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
        let most = (blocks + 2) * self.most_calls;
        assert!(calls <= most, "more than {most}: {told}");
        if self.is_alone {
            for (before, after) in counts_before.iter().zip(&counts_after) {
                let Counts { redis_up, alone, redis_failures, .. } = *after;
                assert_eq!(redis_up, 0, "{told}");
                assert!(alone >= before.alone + 2, "{told}");
                assert!(redis_failures > before.redis_failures, "{told}");
            }
        }
        for watch in &group.watches {
            watch.replica.tells_little_of_redis();
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

/// Puts something else under each of our keys, and tells everybody who listens.
fn replace(redis: &Redis, by: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for key in redis.keys(PREFIX) {
        // What is there may end at any moment, and may be of another type.
        let Ok(Reply::Bytes(value)) = redis.try_say(&[b"GET", key.as_slice()]) else { continue };
        let Some(junk) = by(&value) else { continue };
        let _ = redis.try_say(&[b"SET", key.as_slice(), &junk]);
        for channel in redis.channels(PREFIX) {
            let _ = redis.try_say(&[b"PUBLISH", channel.as_slice(), &junk]);
        }
    }
}

fn is_value(key: &[u8]) -> bool {
    key.ends_with(b":value")
}

#[test]
fn what_others_put_under_its_keys_is_never_served() {
    let text = |redis: &Redis| replace(redis, |_| Some(b"junk".to_vec()));
    let nothing = |redis: &Redis| replace(redis, |_| Some(Vec::new()));
    let huge = |redis: &Redis| replace(redis, |_| Some(vec![b'7'; 8 * 1024 * 1024]));
    let half = |redis: &Redis| replace(redis, |value| Some(value[..value.len() / 2].to_vec()));
    let a_list = |redis: &Redis| {
        for key in redis.keys(PREFIX) {
            redis.say(&[b"DEL", key.as_slice()]);
            redis.say(&[b"RPUSH", key.as_slice(), b"junk", b"junk"]);
        }
        assert!(redis.keys(PREFIX).iter().any(|key| is_value(key)));
    };
    let cases = vec![
        Case::once("text", text),
        Case::again("text again and again", text),
        Case::once("nothing", nothing),
        Case::once("a list", a_list),
        Case::again("a list again and again", a_list),
        Case::again("huge", huge),
        Case::again("half a value", half),
    ];
    play(cases);
}
