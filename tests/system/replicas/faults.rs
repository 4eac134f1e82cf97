//! Tests of Redis faults, with three replicas that are read continuously. No read fails, the served head advances, and
//! the replicas share polls again within five seconds after the fault.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::Value;

use super::mock_clock_node::MockClockNode;
use super::monitor::MAX_GAP;
use super::redis::Redis;
use super::replica::Replica;
use super::{CHAIN_ID, Counts, Harness, chain_section, redis_section};
use crate::chain_model::ChainModel;
use crate::raw_client::free_port;

const REPLICAS: usize = 3;

/// Duration of a fault.
const FAULT_DURATION: Duration = Duration::from_secs(5);

/// Interval at which a repeated fault is injected.
const REPEAT_INTERVAL: Duration = Duration::from_millis(50);

/// Blocks of additional lag until a replica detects the fault.
const DETECTION_LAG: u64 = 1;

/// One fault of Redis.
struct Scenario {
    name: &'static str,
    start: fn() -> Redis,
    /// Injects the fault.
    inject: fn(&Redis),
    /// Called every [`REPEAT_INTERVAL`] while the fault lasts.
    repeat: fn(&Redis),
    /// Ends the fault.
    end: fn(&Redis),
    /// True if replicas cannot share polls during the fault.
    is_standalone: bool,
    /// True if at least one replica must reject a shared value during the fault.
    expects_rejection: bool,
}

impl Scenario {
    /// Creates a fault during which each replica polls by itself.
    fn standalone(name: &'static str, inject: fn(&Redis), end: fn(&Redis)) -> Self {
        Self {
            name,
            start: Redis::start,
            inject,
            repeat: |_| {},
            end,
            is_standalone: true,
            expects_rejection: false,
        }
    }

    /// Creates a fault that happens once.
    fn once(name: &'static str, inject: fn(&Redis)) -> Self {
        Self { is_standalone: false, ..Self::standalone(name, inject, |_| {}) }
    }

    /// Creates a fault that is repeated every [`REPEAT_INTERVAL`].
    fn repeated(name: &'static str, inject: fn(&Redis)) -> Self {
        Self { repeat: inject, ..Self::once(name, inject) }
    }
}

/// Number of scenarios that run concurrently. They mostly wait.
const WORKERS: usize = 4;

/// Runs all scenarios and reports those that fail.
fn run_scenarios(scenarios: Vec<Scenario>) {
    let (scenarios, failed) = (Mutex::new(scenarios.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(scenario) = scenarios.lock().unwrap().next() else { return };
                    let name = scenario.name;
                    // The panic handler prints the message.
                    if catch_unwind(AssertUnwindSafe(|| run_scenario(scenario))).is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed scenarios: {failed:#?}");
}

fn run_scenario(scenario: Scenario) {
    // Commands to Redis block this thread; the monitors run on the worker thread.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(scenario.run());
}

impl Scenario {
    async fn run(self) {
        let name = self.name.replace(' ', "-");
        let redis = (self.start)();
        let harness = Harness::start(&format!("faults-{name}"), REPLICAS, redis).await;
        let normal = harness.take_stats();
        let (before, counts_before) = (harness.node.progress(), harness.counts().await);

        (self.inject)(&harness.redis);
        let injected_at = Instant::now();
        while injected_at.elapsed() < FAULT_DURATION {
            (self.repeat)(&harness.redis);
            tokio::time::sleep(REPEAT_INTERVAL).await;
        }
        let (after, counts_after) = (harness.node.progress(), harness.counts().await);
        let fault = harness.take_stats();
        (self.end)(&harness.redis);
        let rejoined = harness.share_again(Instant::now()).await;
        let later = harness.take_stats();

        let (blocks, calls) = after.since(before);
        let details = format!(
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
        for stats in [normal, fault, later] {
            assert_eq!(stats.failures, [""; 0], "{name}");
            assert!(stats.reads > 0, "{name}");
            assert!(stats.max_lag() <= MAX_GAP + DETECTION_LAG, "{name}: {stats:#?}");
            assert!(stats.max_jump() <= MAX_GAP + DETECTION_LAG, "{name}: {stats:#?}");
        }
        // Standalone poll times and slots differ, so one more poll may fall into the period.
        let max_polls = blocks + 1;
        assert!(calls <= max_polls * REPLICAS as u64, "{details}");
        for (before, after) in counts_before.iter().zip(&counts_after) {
            assert!(after.standalone - before.standalone <= max_polls, "{details}");
        }
        let rejected = |counts: &[Counts]| counts.iter().map(|counts| counts.rejected).sum::<u64>();
        assert!(
            !self.expects_rejection || rejected(&counts_after) > rejected(&counts_before),
            "{details}"
        );
        if self.is_standalone {
            for (before, after) in counts_before.iter().zip(&counts_after) {
                let Counts { redis_up, standalone, redis_failures, .. } = *after;
                assert_eq!(redis_up, 0, "{details}");
                assert!(standalone >= before.standalone + 2, "{details}");
                assert!(redis_failures > before.redis_failures, "{details}");
            }
        }
        for monitor in &harness.monitors {
            // A replica logs each change between shared and standalone polls, and each change of the reason.
            monitor.replica.check_redis_log_volume(if self.is_standalone { 5 } else { 20 });
        }
    }
}

fn command(redis: &Redis, text: &str) {
    let words: Vec<_> = text.split(' ').collect();
    redis.command(&words);
}

/// Closes all connections except the test's own.
fn close_connections(redis: &Redis) {
    for kind in ["normal", "pubsub"] {
        redis.command(&["CLIENT", "KILL", "TYPE", kind]);
    }
}

#[test]
fn replicas_poll_standalone_without_redis_and_share_again_later() {
    let scenarios = vec![
        Scenario::standalone("killed", Redis::kill, Redis::start_again),
        Scenario::standalone("frozen", Redis::freeze, Redis::thaw),
        Scenario::standalone(
            "paused",
            |redis| command(redis, "CLIENT PAUSE 5500 ALL"),
            // Redis responds to PING when the pause is over.
            |redis| command(redis, "PING"),
        ),
        Scenario::once("restarted empty", |redis| {
            redis.kill();
            redis.start_again();
        }),
        // Redis executes no other command during the sleep of half a second.
        Scenario::repeated("slow", |redis| command(redis, "DEBUG SLEEP 0.5")),
    ];
    run_scenarios(scenarios);
}

#[test]
fn replicas_poll_standalone_while_redis_rejects_commands() {
    let scenarios = vec![
        Scenario::standalone(
            "read only",
            |redis| command(redis, &format!("REPLICAOF 127.0.0.1 {}", free_port())),
            |redis| command(redis, "REPLICAOF NO ONE"),
        ),
        Scenario::standalone(
            "full",
            |redis| command(redis, "CONFIG SET maxmemory 1 maxmemory-policy noeviction"),
            |redis| command(redis, "CONFIG SET maxmemory 0"),
        ),
        Scenario::standalone(
            "another password",
            |redis| {
                command(redis, "CONFIG SET requirepass another");
                redis.use_password(Some("another"));
                close_connections(redis);
            },
            |redis| {
                redis.command(&["CONFIG", "SET", "requirepass", ""]);
                redis.use_password(None);
            },
        ),
        Scenario::standalone(
            "no scripts",
            |redis| command(redis, "ACL SETUSER default -eval -evalsha"),
            |redis| command(redis, "ACL SETUSER default +@all"),
        ),
        Scenario::standalone(
            "no client connections",
            |redis| {
                command(redis, "CONFIG SET maxclients 1");
                close_connections(redis);
            },
            |redis| command(redis, "CONFIG SET maxclients 1000"),
        ),
        // Replicas can read values, but receive no messages.
        Scenario {
            is_standalone: false,
            ..Scenario::standalone(
                "no channels",
                |redis| command(redis, "ACL SETUSER default resetchannels"),
                |redis| command(redis, "ACL SETUSER default allchannels"),
            )
        },
    ];
    run_scenarios(scenarios);
}

#[test]
fn data_lost_by_redis_is_shared_again() {
    let scenarios = vec![
        Scenario::once("flushed", |redis| command(redis, "FLUSHALL")),
        Scenario::repeated("flushed again and again", |redis| command(redis, "FLUSHALL")),
        Scenario::once("scripts flushed", |redis| command(redis, "SCRIPT FLUSH")),
        Scenario {
            end: |redis| {
                assert!(redis.info("evicted_keys") > 0, "no key was evicted");
                command(redis, "CONFIG SET maxmemory 0");
                command(redis, "FLUSHALL");
            },
            ..Scenario::repeated("evicting", |redis| {
                let max_memory = redis.info("used_memory_startup") + 4 * 1024 * 1024;
                command(
                    redis,
                    &format!("CONFIG SET maxmemory {max_memory} maxmemory-policy allkeys-lru"),
                );
                // Each repetition writes 6.4 MB, more than the 4 MiB left by `maxmemory`.
                for index in 0..64 {
                    redis.command(&["SET", &format!("junk-{index}"), &"x".repeat(100_000)]);
                }
            })
        },
        Scenario::once("a connection broken", |redis| {
            let clients: String = redis.read(&["CLIENT", "LIST"]);
            let own_id: u64 = redis.read(&["CLIENT", "ID"]);
            let mut ids = clients.lines().map(|line| {
                line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap().to_owned()
            });
            let other = ids.find(|id| *id != own_id.to_string()).expect("a replica's connection");
            redis.command(&["CLIENT", "KILL", "ID", &other]);
        }),
        Scenario::repeated("connections broken again and again", close_connections),
    ];
    run_scenarios(scenarios);
}

/// Prefix of the service's keys and channels.
const PREFIX: &str = "gas:";

/// Replaces the value of each key of the service, and publishes each of its last messages with another content.
/// Values and messages for which `replacement` returns `None` are left out.
fn replace_all(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    replace_values(redis, &replacement);
    publish_changed(redis, replacement);
}

/// Publishes the last message of each channel with another content.
fn publish_changed(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for (channel, message) in redis.messages() {
        if let Some(invalid) = replacement(&message) {
            redis.command(&[b"PUBLISH", channel.as_slice(), &invalid]);
        }
    }
}

/// Replaces the value of each key of the service.
fn replace_values(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for key in redis.keys(PREFIX) {
        // The key may expire at any moment, and may have another type.
        let Ok(Value::BulkString(value)) = redis.try_command(&[b"GET", key.as_slice()]) else {
            continue;
        };
        if let Some(invalid) = replacement(&value) {
            redis.command(&[b"SET", key.as_slice(), &invalid]);
        }
    }
}

/// Replaces the value of each key of the service by a list.
fn replace_by_lists(redis: &Redis) {
    const BY_A_LIST: &str =
        "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'junk', 'junk')";
    for key in redis.keys(PREFIX) {
        redis.command(&[b"EVAL", BY_A_LIST.as_bytes(), b"1", &key]);
    }
}

/// Subscribes to the service's channels and waits until it has stored a value and published messages.
fn wait_for_messages(redis: &Redis) {
    redis.subscribe(PREFIX);
    let since = Instant::now();
    let has_value = || redis.keys(PREFIX).iter().any(|key| key.ends_with(b":record"));
    while redis.messages().is_empty() || !has_value() {
        assert!(since.elapsed() < crate::raw_client::TIMEOUT, "nothing is published");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Scenario {
    /// Creates a fault in which `repeat` writes invalid data to the service's keys and channels.
    fn invalid_data(name: &'static str, repeat: fn(&Redis)) -> Self {
        Self { inject: wait_for_messages, expects_rejection: true, ..Self::repeated(name, repeat) }
    }
}

#[test]
fn foreign_data_in_redis_is_never_served() {
    run_scenarios(vec![
        Scenario::invalid_data("text", |redis| replace_all(redis, |_| Some(b"junk".to_vec()))),
        Scenario::invalid_data("nothing", |redis| replace_all(redis, |_| Some(Vec::new()))),
        Scenario::invalid_data("huge", |redis| {
            replace_all(redis, |_| Some(vec![b'7'; 1024 * 1024]));
        }),
        Scenario::invalid_data("half", |redis| {
            replace_all(redis, |value| Some(value[..value.len() / 2].to_vec()));
        }),
        Scenario::invalid_data("no text", |redis| {
            replace_all(redis, |value| Some(value.iter().map(|byte| byte | 0x80).collect()));
        }),
        Scenario::invalid_data("lists", replace_by_lists),
        // The lists stay, because they have no TTL.
        Scenario {
            expects_rejection: true,
            ..Scenario::once("lists once", |redis| {
                wait_for_messages(redis);
                replace_by_lists(redis);
            })
        },
    ]);
}

/// Adds `offset` to each number of `text` in the range and pads it to its previous number of digits. Returns `None` if
/// `text` has no such number.
fn shift_numbers(text: &[u8], range: &std::ops::Range<u128>, offset: i128) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?;
    let (mut out, mut is_found) = (String::new(), false);
    for run in text.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = run.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        match digits.parse::<u128>() {
            Ok(number) if range.contains(&number) => {
                let (number, width) = (number.checked_add_signed(offset).unwrap(), digits.len());
                is_found = true;
                write!(out, "{number:0width$}{}", &run[width..]).unwrap();
            }
            _ => out += run,
        }
    }
    is_found.then(|| out.into_bytes())
}

#[test]
fn shift_numbers_changes_the_range_and_keeps_the_width() {
    let shift_numbers =
        |offset| shift_numbers(b"0017 3 [\"16\",5]", &(10..20), offset).map(String::from_utf8);
    assert_eq!(shift_numbers(-10), Some(Ok("0007 3 [\"06\",5]".into())));
    assert_eq!(shift_numbers(1000), Some(Ok("1017 3 [\"1016\",5]".into())));
    assert_eq!(super::faults::shift_numbers(b"17", &(0..10), 1), None);
}

/// Shifts the numbers of the range in all values and messages.
fn shift_all_numbers(redis: &Redis, range: &std::ops::Range<u128>, offset: i128) {
    replace_all(redis, |text| shift_numbers(text, range, offset));
}

/// Shifts the block numbers in all values, and publishes such a message for the next slot.
fn shift_heads(redis: &Redis, offset: i128) {
    let (blocks, slots) = (block_numbers(), slot_numbers(redis));
    replace_values(redis, |text| shift_numbers(text, &blocks, offset));
    publish_changed(redis, |text| shift_numbers(&shift_numbers(text, &blocks, offset)?, &slots, 1));
}

/// Returns the range of the chain's block numbers in a test.
fn block_numbers() -> std::ops::Range<u128> {
    u128::from(ChainModel::FIRST_HEAD) - 100..u128::from(ChainModel::FIRST_HEAD) + 1000
}

/// Returns the range of current times in microseconds: one minute before and after Redis's clock.
fn times(redis: &Redis) -> std::ops::Range<u128> {
    let (now, minute) = (redis.time_micros(), 60_000_000);
    now - minute..now + minute
}

/// Returns the range of current slot numbers, with slots of one second.
fn slot_numbers(redis: &Redis) -> std::ops::Range<u128> {
    let now = redis.time_micros() / 1_000_000;
    now - 60..now + 60
}

/// Waits for messages and checks that they contain numbers of the range.
fn wait_for_numbers(redis: &Redis, range: &std::ops::Range<u128>) {
    wait_for_messages(redis);
    let texts: Vec<_> = redis.messages().into_values().collect();
    assert!(
        texts.iter().any(|text| shift_numbers(text, range, 0).is_some()),
        "{range:?} in none of {texts:?}"
    );
}

impl Scenario {
    /// Creates a fault in which `repeat` shifts numbers in the service's own values.
    fn shifted(name: &'static str, inject: fn(&Redis), repeat: fn(&Redis)) -> Self {
        Self { inject, ..Self::invalid_data(name, repeat) }
    }
}

const HOUR: i128 = 3_600_000_000;

#[test]
fn implausible_values_are_never_served() {
    let wait_for_block_numbers: fn(&Redis) = |redis| wait_for_numbers(redis, &block_numbers());
    let wait_for_times: fn(&Redis) = |redis| wait_for_numbers(redis, &times(redis));
    let wait_for_slot_numbers: fn(&Redis) = |redis| wait_for_numbers(redis, &slot_numbers(redis));
    run_scenarios(vec![
        Scenario::shifted("absurd heads", wait_for_block_numbers, |redis| {
            shift_heads(redis, 1 << 63);
        }),
        Scenario::shifted("heads ahead", wait_for_block_numbers, |redis| {
            shift_heads(redis, 1_000_000);
        }),
        Scenario::shifted("heads behind", wait_for_block_numbers, |redis| {
            shift_heads(redis, -5_000_000);
        }),
        Scenario::shifted("from the future", wait_for_times, |redis| {
            shift_all_numbers(redis, &times(redis), HOUR);
        }),
        // A replica ignores values that it published itself, whatever their time, so it may reject none.
        Scenario {
            expects_rejection: false,
            ..Scenario::shifted("from the past", wait_for_times, |redis| {
                shift_all_numbers(redis, &times(redis), -HOUR);
            })
        },
        // Only the slots are wrong. The blocks are valid, so replicas may adopt them.
        Scenario {
            expects_rejection: false,
            ..Scenario::shifted("slots to come", wait_for_slot_numbers, |redis| {
                shift_all_numbers(redis, &slot_numbers(redis), 100_000);
            })
        },
        Scenario {
            expects_rejection: false,
            ..Scenario::shifted("slots of old", wait_for_slot_numbers, |redis| {
                shift_all_numbers(redis, &slot_numbers(redis), -100_000);
            })
        },
    ]);
}

#[test]
fn clock_steps_of_redis_are_tolerated() {
    let scenario =
        |name, inject| Scenario { start: Redis::with_wall_clock, ..Scenario::once(name, inject) };
    run_scenarios(vec![
        scenario("an hour back", |redis| redis.step("-1h")),
        scenario("an hour on", |redis| redis.step("+1h")),
        scenario("a moment back", |redis| redis.step("-2500ms")),
        scenario("a moment on", |redis| redis.step("+2500ms")),
    ]);
}

/// The three Redis servers accept connections, but reject commands or close the connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_redis_causes_no_additional_standalone_polls() {
    const OBSERVATION: Duration = Duration::from_secs(12);
    let block = Duration::from_secs(5);
    let node = MockClockNode::start(CHAIN_ID, block).await;
    let chain = chain_section("a", CHAIN_ID, &node.url(), "").replace("\"1s\"", "\"5s\"");
    let nothing: fn(&Redis) = |_| {};
    let read_only: fn(&Redis) = |redis| command(redis, "REPLICAOF 127.0.0.1 1");
    let no_scripts: fn(&Redis) = |redis| command(redis, "ACL SETUSER default -eval -evalsha");
    let faults = [
        ("read-only", read_only, nothing),
        ("no-scripts", no_scripts, nothing),
        ("broken", nothing, close_connections),
    ];
    let mut servers = Vec::new();
    for (name, inject, repeat) in faults {
        let redis = Redis::start();
        let replica =
            Replica::start(&format!("own-tick-{name}"), &(redis_section(&redis.url(0)) + &chain));
        replica.wait_until_ready().await;
        inject(&redis);
        servers.push((redis, replica, repeat));
    }
    let (since, mut before) = (Instant::now(), Vec::new());
    for (_, replica, _) in &servers {
        before.push(replica.counts("a").await);
    }
    // Additional polls would appear within this time.
    while since.elapsed() < OBSERVATION {
        for (redis, _, repeat) in &servers {
            repeat(redis);
        }
        tokio::time::sleep(REPEAT_INTERVAL).await;
    }
    let max_polls = OBSERVATION.as_secs() / block.as_secs() + 1;
    let mut details = Vec::new();
    for ((_, replica, _), before) in servers.iter().zip(before) {
        let after = replica.counts("a").await;
        let polls = after.standalone + after.claimed - before.standalone - before.claimed;
        details.push((replica.name.clone(), polls));
    }
    println!("in {OBSERVATION:?} with a block time of {block:?}: {details:?}");
    assert!(
        details.iter().all(|(_, polls)| (1..=max_polls).contains(polls)),
        "more than {max_polls}: {details:?}"
    );
}
