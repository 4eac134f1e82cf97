//! Tests of Redis faults, with three replicas that are read continuously. No read fails, the served head advances, and
//! the replicas share polls again within five seconds after the fault.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::Value;

use super::mock_clock_node::MockClockNode;
use super::monitor::MAX_GAP;
use super::redis::Redis;
use super::{CHAIN_ID, Counts, Harness, shared_chain, start_replicas};
use crate::chain_model::ChainModel;
use crate::raw_client::TIMEOUT;

const REPLICAS: usize = 3;

/// Duration of a fault.
const FAULT_DURATION: Duration = Duration::from_secs(5);

/// Interval at which a repeated fault is injected.
const REPEAT_INTERVAL: Duration = Duration::from_millis(50);

/// Blocks of additional lag until a replica detects the fault.
const DETECTION_LAG: u64 = 1;

type Action = Box<dyn Fn(&Redis) + Send>;

/// One fault of Redis.
struct Scenario {
    name: &'static str,
    start: fn() -> Redis,
    /// Injects the fault.
    inject: Action,
    /// Called every [`REPEAT_INTERVAL`] while the fault lasts.
    repeat: Action,
    /// Ends the fault.
    end: Action,
    /// True if replicas cannot share polls during the fault.
    is_standalone: bool,
    /// True if at least one replica must reject a shared value during the fault.
    expects_rejection: bool,
}

impl Scenario {
    /// Creates a fault that happens once.
    fn once(name: &'static str, inject: impl Fn(&Redis) + Send + 'static) -> Self {
        Self {
            name,
            start: Redis::start,
            inject: Box::new(inject),
            repeat: Box::new(|_| {}),
            end: Box::new(|_| {}),
            is_standalone: false,
            expects_rejection: false,
        }
    }

    /// Creates a fault during which each replica polls by itself.
    fn standalone(
        name: &'static str,
        inject: impl Fn(&Redis) + Send + 'static,
        end: impl Fn(&Redis) + Send + 'static,
    ) -> Self {
        Self { is_standalone: true, ..Self::once(name, inject).until(end) }
    }

    /// Creates a fault that is repeated every [`REPEAT_INTERVAL`].
    fn repeated(name: &'static str, repeat: impl Fn(&Redis) + Send + 'static) -> Self {
        Self { repeat: Box::new(repeat), ..Self::once(name, |_| {}) }
    }

    /// Creates a fault in which `repeat` writes invalid data to the service's keys and channels.
    fn invalid_data(name: &'static str, repeat: impl Fn(&Redis) + Send + 'static) -> Self {
        let inject = Box::new(wait_for_messages);
        Self { inject, expects_rejection: true, ..Self::repeated(name, repeat) }
    }

    /// Sets what ends the fault.
    fn until(self, end: impl Fn(&Redis) + Send + 'static) -> Self {
        Self { end: Box::new(end), ..self }
    }

    /// Lets replicas reject nothing: they may ignore what they published themselves, or adopt what is true in it.
    fn unnoticed(self) -> Self {
        Self { expects_rejection: false, ..self }
    }
}

/// Number of scenarios that run concurrently. They mostly wait.
const WORKERS: usize = 4;

/// Runs all scenarios and reports those that fail.
fn run_scenarios(scenarios: Vec<Scenario>) {
    let (scenarios, failed) = (Mutex::new(scenarios.into_iter()), Mutex::new(Vec::new()));
    let next = || scenarios.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(scenario) = next() {
                    let name = scenario.name;
                    // Commands to Redis block this thread; the monitors run on the worker thread.
                    let mut runtime = tokio::runtime::Builder::new_multi_thread();
                    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
                    // The panic handler prints the message.
                    let run = AssertUnwindSafe(|| runtime.block_on(scenario.run()));
                    if catch_unwind(run).is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), [""; 0], "failed scenarios");
}

impl Scenario {
    async fn run(self) {
        let name = self.name.replace(' ', "-");
        let redis = (self.start)();
        let harness = Harness::start(&format!("faults-{name}"), REPLICAS, &redis).await;
        let normal = harness.take_stats();
        let (before, counts_before) = (harness.node.progress(), harness.counts().await);

        (self.inject)(&redis);
        let injected_at = Instant::now();
        while injected_at.elapsed() < FAULT_DURATION {
            (self.repeat)(&redis);
            tokio::time::sleep(REPEAT_INTERVAL).await;
        }
        let (after, counts_after) = (harness.node.progress(), harness.counts().await);
        let fault = harness.take_stats();
        (self.end)(&redis);
        let rejoined = harness.share_again(Instant::now()).await;
        let later = harness.take_stats();

        let (blocks, calls) = after.since(before);
        let details = format!(
            "{name}: {calls} calls in {blocks} blocks, {counts_before:#?}, then {counts_after:#?}"
        );
        println!("{name}: {calls} calls in {blocks} blocks, shared again after {rejoined:?}");
        for stats in [normal, fault, later] {
            println!("{name}: {} reads, lag at most {}", stats.reads, stats.max_lag());
            assert!(stats.reads > 0, "{name}");
            stats.check(MAX_GAP + DETECTION_LAG);
        }
        // Standalone poll times and slots differ, so one more poll may fall into the period.
        let max_polls = blocks + 1;
        assert!(calls <= max_polls * REPLICAS as u64, "{details}");
        let rejected = |counts: &[Counts]| counts.iter().map(|counts| counts.rejected).sum::<u64>();
        assert!(
            !self.expects_rejection || rejected(&counts_after) > rejected(&counts_before),
            "{details}"
        );
        for (before, after) in counts_before.iter().zip(&counts_after) {
            let standalone = after.standalone - before.standalone;
            assert!(standalone <= max_polls, "{details}");
            if self.is_standalone {
                assert!(after.redis_up == 0 && standalone >= 2, "{details}");
                assert!(after.redis_failures > before.redis_failures, "{details}");
            }
        }
        // A replica logs each change between shared and standalone polls, and each change of the reason.
        let max_lines = if self.is_standalone { 5 } else { 20 };
        for replica in harness.replicas() {
            let lines = replica.redis_log_lines();
            assert!(lines.len() <= max_lines, "{} logs {lines:#?}", replica.name);
        }
    }
}

fn command(redis: &Redis, text: &str) {
    let words: Vec<_> = text.split(' ').collect();
    redis.command(&words);
}

/// Returns an action that sends a command.
fn send(text: &'static str) -> impl Fn(&Redis) + Send {
    move |redis| command(redis, text)
}

/// Closes all connections except the test's own.
fn close_connections(redis: &Redis) {
    command(redis, "CLIENT KILL TYPE normal");
    command(redis, "CLIENT KILL TYPE pubsub");
}

#[test]
fn replicas_poll_standalone_without_redis_and_share_again_later() {
    run_scenarios(vec![
        Scenario::standalone("killed", Redis::kill, Redis::start_again),
        Scenario::standalone("frozen", Redis::freeze, Redis::thaw),
        // Redis responds to PING when the pause is over.
        Scenario::standalone("paused", send("CLIENT PAUSE 5500 ALL"), send("PING")),
        Scenario::once("restarted empty", |redis| {
            redis.kill();
            redis.start_again();
        }),
        // Redis executes no other command during the sleep of half a second.
        Scenario::repeated("slow", send("DEBUG SLEEP 0.5")),
    ]);
}

#[test]
fn replicas_poll_standalone_while_redis_rejects_commands() {
    run_scenarios(vec![
        Scenario::standalone("read only", send("REPLICAOF 127.0.0.1 1"), send("REPLICAOF NO ONE")),
        Scenario::standalone(
            "full",
            send("CONFIG SET maxmemory 1 maxmemory-policy noeviction"),
            send("CONFIG SET maxmemory 0"),
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
            send("ACL SETUSER default -eval -evalsha"),
            send("ACL SETUSER default +@all"),
        ),
        Scenario::standalone(
            "no client connections",
            |redis| {
                command(redis, "CONFIG SET maxclients 1");
                close_connections(redis);
            },
            send("CONFIG SET maxclients 1000"),
        ),
        // Replicas can read values, but receive no messages.
        Scenario::once("no channels", send("ACL SETUSER default resetchannels"))
            .until(send("ACL SETUSER default allchannels")),
    ]);
}

#[test]
fn data_lost_by_redis_is_shared_again() {
    let fill = |redis: &Redis| {
        let limit = redis.info("used_memory_startup") + 4 * 1024 * 1024;
        command(redis, &format!("CONFIG SET maxmemory {limit} maxmemory-policy allkeys-lru"));
        // Each repetition writes 6.4 MB, more than the 4 MiB left by `maxmemory`.
        for index in 0..64 {
            redis.command(&["SET", &format!("junk-{index}"), &"x".repeat(100_000)]);
        }
    };
    let break_one_connection = |redis: &Redis| {
        let clients: String = redis.read(&["CLIENT", "LIST"]);
        let own_id: u64 = redis.read(&["CLIENT", "ID"]);
        let mut ids =
            clients.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
        let other = ids.find(|id| *id != own_id.to_string()).expect("a replica's connection");
        redis.command(&["CLIENT", "KILL", "ID", other]);
    };
    run_scenarios(vec![
        Scenario::once("flushed", send("FLUSHALL")),
        Scenario::repeated("flushed again and again", send("FLUSHALL")),
        Scenario::once("scripts flushed", send("SCRIPT FLUSH")),
        Scenario::repeated("evicting", fill).until(|redis| {
            assert!(redis.info("evicted_keys") > 0, "no key was evicted");
            command(redis, "CONFIG SET maxmemory 0");
            command(redis, "FLUSHALL");
        }),
        Scenario::once("a connection broken", break_one_connection),
        Scenario::repeated("connections broken again and again", close_connections),
    ]);
}

/// Prefix of the service's keys and channels.
const PREFIX: &str = "gas:";

/// Replaces the value of each key of the service, and publishes each of its last messages with another content.
/// Values and messages for which `replacement` returns `None` are left out.
fn replace_all(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    replace_values(redis, &replacement);
    publish_changed(redis, replacement);
}

/// Replaces the value of each key of the service.
fn replace_values(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for key in redis.keys(PREFIX) {
        // The key may expire at any moment, and may have another type.
        if let Ok(Value::BulkString(value)) = redis.try_command(&[b"GET", key.as_slice()])
            && let Some(invalid) = replacement(&value)
        {
            redis.command(&[b"SET", key.as_slice(), &invalid]);
        }
    }
}

/// Publishes the last message of each channel with another content.
fn publish_changed(redis: &Redis, replacement: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for (channel, message) in redis.messages() {
        if let Some(invalid) = replacement(&message) {
            redis.command(&[b"PUBLISH", channel.as_slice(), &invalid]);
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
        assert!(since.elapsed() < TIMEOUT, "nothing is published");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn foreign_data_in_redis_is_never_served() {
    let replaced = |name, change: fn(&[u8]) -> Vec<u8>| {
        Scenario::invalid_data(name, move |redis| replace_all(redis, |value| Some(change(value))))
    };
    run_scenarios(vec![
        replaced("text", |_| b"junk".to_vec()),
        replaced("nothing", |_| Vec::new()),
        replaced("huge", |_| vec![b'7'; 1024 * 1024]),
        replaced("half", |value| value[..value.len() / 2].to_vec()),
        replaced("no text", |value| value.iter().map(|byte| byte | 0x80).collect()),
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

/// Adds `offset` to a number of a record. Returns `None` if `text` is no record or has another number than replicas write.
fn shift(redis: &Redis, text: &[u8], name: &str, offset: i64) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?.strip_prefix('{')?;
    let (before, rest) = text.split_once(&format!("\"{name}\":")).expect("the number");
    let (number, rest) = rest.split_once(',').unwrap();
    let number: u64 = number.parse().unwrap();
    let now = u64::try_from(redis.time_micros()).unwrap();
    let is_own = match name {
        "oldest_block" => number.abs_diff(ChainModel::FIRST_HEAD) <= 1000,
        "observed_us" => number.abs_diff(now) <= 60_000_000,
        "slot" => number.abs_diff(now / 1_000_000) <= 60,
        other => panic!("{other}"),
    };
    let shifted = || number.checked_add_signed(offset).unwrap();
    is_own.then(|| format!("{{{before}\"{name}\":{},{rest}", shifted()).into_bytes())
}

/// Shifts a number in all records, stored and published.
fn shift_all(redis: &Redis, name: &str, offset: i64) {
    replace_all(redis, |text| shift(redis, text, name, offset));
}

/// Shifts the block numbers in all stored records, and publishes such a record for the next slot.
fn shift_heads(redis: &Redis, offset: i64) {
    let shift_head = |text: &[u8]| shift(redis, text, "oldest_block", offset);
    replace_values(redis, shift_head);
    publish_changed(redis, |text| shift(redis, &shift_head(text)?, "slot", 1));
}

const HOUR: i64 = 3_600_000_000;

#[test]
fn implausible_values_are_never_served() {
    let heads =
        |name, offset| Scenario::invalid_data(name, move |redis| shift_heads(redis, offset));
    let numbers = |name, number, offset| Scenario {
        inject: Box::new(move |redis| {
            wait_for_messages(redis);
            let shifted = redis.messages().into_values();
            let mut shifted = shifted.map(|text| shift(redis, &text, number, offset));
            assert!(shifted.any(|text| text.is_some()), "no record has a {number} to shift");
        }),
        ..Scenario::invalid_data(name, move |redis| shift_all(redis, number, offset))
    };
    run_scenarios(vec![
        heads("absurd heads", i64::MAX),
        heads("heads ahead", 1_000_000),
        heads("heads behind", -5_000_000),
        numbers("from the future", "observed_us", HOUR),
        numbers("from the past", "observed_us", -HOUR).unnoticed(),
        numbers("slots to come", "slot", 100_000).unnoticed(),
        numbers("slots of old", "slot", -100_000).unnoticed(),
    ]);
}

#[test]
fn clock_steps_of_redis_are_tolerated() {
    let stepped = |name, offset| Scenario {
        start: Redis::with_wall_clock,
        ..Scenario::once(name, move |redis| redis.step(offset))
    };
    run_scenarios(vec![
        stepped("an hour back", "-1h"),
        stepped("an hour on", "+1h"),
        stepped("a moment back", "-2500ms"),
        stepped("a moment on", "+2500ms"),
    ]);
}

/// The three Redis servers accept connections, but reject commands or close the connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_redis_causes_no_additional_standalone_polls() {
    const OBSERVATION: Duration = Duration::from_secs(12);
    let block = Duration::from_secs(5);
    let node = MockClockNode::start(CHAIN_ID, block).await;
    let faults: [(&str, Action, Action); 3] = [
        ("read-only", Box::new(send("REPLICAOF 127.0.0.1 1")), Box::new(|_| {})),
        ("no-scripts", Box::new(send("ACL SETUSER default -eval -evalsha")), Box::new(|_| {})),
        ("broken", Box::new(|_| {}), Box::new(close_connections)),
    ];
    let mut servers = Vec::new();
    for (name, inject, repeat) in faults {
        let redis = Redis::start();
        let config = shared_chain(&redis.url(0), &node.url(), "block_time = \"5s\"\n");
        let replica = start_replicas(name, 1, |_| config.clone()).await.remove(0);
        inject(&redis);
        servers.push((redis, replica, repeat));
    }
    let count_polls = async || {
        let mut polls = Vec::new();
        for (_, replica, _) in &servers {
            let counts = replica.counts("a").await;
            polls.push(counts.standalone + counts.claimed);
        }
        polls
    };
    let (since, before) = (Instant::now(), count_polls().await);
    // Additional polls would appear within this time.
    while since.elapsed() < OBSERVATION {
        for (redis, _, repeat) in &servers {
            repeat(redis);
        }
        tokio::time::sleep(REPEAT_INTERVAL).await;
    }
    let allowed = 1..=OBSERVATION.as_secs() / block.as_secs() + 1;
    for ((_, replica, _), (before, after)) in
        servers.iter().zip(before.iter().zip(count_polls().await))
    {
        assert!(allowed.contains(&(after - before)), "{}: {before}, then {after}", replica.name);
    }
}
