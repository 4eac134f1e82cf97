//! Tests of Redis faults, with three replicas that are read continuously. No read fails, the served head advances, and
//! the replicas share polls again within five seconds after the fault.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, future, stream};
use redis::Value;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::monitor::MAX_GAP;
use super::redis::Redis;
use super::{Counts, Harness};
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

/// Creates a fault that happens once.
fn once(name: &'static str, inject: impl Fn(&Redis) + Send + 'static) -> Scenario {
    Scenario {
        name,
        start: Redis::start,
        inject: Box::new(inject),
        repeat: Box::new(|_| {}),
        end: Box::new(|_| {}),
        is_standalone: false,
        expects_rejection: false,
    }
}

/// Creates a fault, until `end`, during which each replica polls by itself.
fn standalone(
    name: &'static str,
    inject: impl Fn(&Redis) + Send + 'static,
    end: impl Fn(&Redis) + Send + 'static,
) -> Scenario {
    Scenario { is_standalone: true, end: Box::new(end), ..once(name, inject) }
}

/// Creates a fault that is repeated every [`REPEAT_INTERVAL`].
fn repeated(name: &'static str, repeat: impl Fn(&Redis) + Send + 'static) -> Scenario {
    Scenario { repeat: Box::new(repeat), ..once(name, |_| {}) }
}

/// Creates a fault in which `repeat` writes invalid data to the service's keys and channels.
fn invalid_data(name: &'static str, repeat: impl Fn(&Redis) + Send + 'static) -> Scenario {
    let inject = Box::new(wait_for_messages);
    Scenario { inject, expects_rejection: true, ..repeated(name, repeat) }
}

/// Runs all scenarios and reports those that fail.
async fn run_scenarios(scenarios: Vec<Scenario>) {
    /// Number of scenarios that run concurrently. They mostly wait.
    const CONCURRENCY: usize = 4;
    // The panic handler prints the message.
    let run = async |scenario: Scenario| {
        let (name, runtime) = (scenario.name, Handle::current());
        // Commands to Redis block the thread.
        let running = spawn_blocking(move || runtime.block_on(scenario.run()));
        running.await.is_err().then_some(name)
    };
    let runs = stream::iter(scenarios).map(run).buffer_unordered(CONCURRENCY);
    let failed: Vec<_> = runs.filter_map(future::ready).collect().await;
    assert_eq!(failed, [""; 0], "failed scenarios");
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
        let polls = harness.node.calls_of("eth_feeHistory", before.calls).len() as u64;
        let fault = harness.take_stats();
        (self.end)(&redis);
        harness.share_again(Instant::now()).await;
        let later = harness.take_stats();

        let blocks = after.head - before.head;
        let details = format!(
            "{name}: {polls} polls in {blocks} blocks, {counts_before:#?}, then {counts_after:#?}"
        );
        for stats in [normal, fault, later] {
            assert!(stats.reads > 0, "{name}");
            stats.check(MAX_GAP + DETECTION_LAG);
        }
        // Standalone poll times and slots differ, so one more poll may fall into the period.
        let max_polls = blocks + 1;
        assert!(polls <= max_polls * REPLICAS as u64, "{details}");
        let rejected = |counts: &[Counts]| counts.iter().map(|counts| counts.rejected).sum::<u64>();
        let is_noticed = rejected(&counts_after) > rejected(&counts_before);
        assert!(is_noticed || !self.expects_rejection, "{details}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_poll_standalone_without_redis_and_share_again_later() {
    run_scenarios(vec![
        standalone("killed", Redis::kill, Redis::start_again),
        standalone("frozen", |redis| redis.process.freeze(), |redis| redis.process.thaw()),
        once("restarted empty", |redis| {
            redis.kill();
            redis.start_again();
        }),
        // Redis executes no other command during the sleep of half a second.
        repeated("slow", send("DEBUG SLEEP 0.5")),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_poll_standalone_while_redis_rejects_commands() {
    run_scenarios(vec![
        standalone("read only", send("REPLICAOF 127.0.0.1 1"), send("REPLICAOF NO ONE")),
        standalone(
            "full",
            send("CONFIG SET maxmemory 1 maxmemory-policy noeviction"),
            send("CONFIG SET maxmemory 0"),
        ),
        standalone(
            "another password",
            |redis| {
                redis.set_password("another");
                close_connections(redis);
            },
            |redis| redis.set_password(""),
        ),
        standalone(
            "no scripts",
            send("ACL SETUSER default -eval -evalsha"),
            send("ACL SETUSER default +@all"),
        ),
        standalone(
            "no client connections",
            |redis| {
                command(redis, "CONFIG SET maxclients 1");
                close_connections(redis);
            },
            send("CONFIG SET maxclients 1000"),
        ),
        // Replicas can read values, but receive no messages.
        Scenario {
            end: Box::new(send("ACL SETUSER default allchannels")),
            ..once("no channels", send("ACL SETUSER default resetchannels"))
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn data_lost_by_redis_is_shared_again() {
    run_scenarios(vec![
        once("flushed", send("FLUSHALL")),
        repeated("flushed again and again", send("FLUSHALL")),
        once("scripts flushed", send("SCRIPT FLUSH")),
        repeated("connections broken again and again", close_connections),
    ])
    .await;
}

/// Prefix of the service's keys and channels.
const PREFIX: &str = "gas:";

/// Replaces the value of each key of the service for which `replacement` returns another.
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

/// Adds `offset` to a number of a record. Returns `None` if `text` is no record or has another head than the node.
fn shift(text: &[u8], name: &str, offset: i64) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?.strip_prefix('{')?;
    let number_of = |name: &str| {
        let (before, rest) = text.split_once(&format!("\"{name}\":")).expect("the number");
        let (number, rest) = rest.split_once(',').unwrap();
        (before, number.parse::<u64>().unwrap(), rest)
    };
    let (before, number, rest) = number_of(name);
    let is_own = number_of("oldest_block").1.abs_diff(ChainModel::FIRST_HEAD) <= 1000;
    let shifted = || number.checked_add_signed(offset).unwrap();
    is_own.then(|| format!("{{{before}\"{name}\":{},{rest}", shifted()).into_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn foreign_and_implausible_data_in_redis_is_never_served() {
    let replaced = |name, change: fn(&[u8]) -> Vec<u8>| {
        invalid_data(name, move |redis| {
            replace_values(redis, |value| Some(change(value)));
            publish_changed(redis, |value| Some(change(value)));
        })
    };
    // Shifts the heads of all stored records, and publishes such a record for the next slot.
    let heads = |name, offset| {
        invalid_data(name, move |redis| {
            let shift_head = |text: &[u8]| shift(text, "oldest_block", offset);
            replace_values(redis, shift_head);
            publish_changed(redis, |text| shift_head(&shift(text, "slot", 1)?));
        })
    };
    run_scenarios(vec![
        replaced("text", |_| b"junk".to_vec()),
        replaced("nothing", |_| Vec::new()),
        replaced("huge", |_| vec![b'7'; 1024 * 1024]),
        replaced("half", |value| value[..value.len() / 2].to_vec()),
        replaced("no text", |value| value.iter().map(|byte| byte | 0x80).collect()),
        invalid_data("lists", replace_by_lists),
        heads("absurd heads", i64::MAX),
        heads("heads ahead", 1_000_000),
        heads("heads behind", -5_000_000),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clock_steps_of_redis_are_tolerated() {
    let stepped = |name, offset| Scenario {
        start: Redis::with_wall_clock,
        ..once(name, move |redis| redis.step(offset))
    };
    run_scenarios(vec![
        stepped("an hour back", "-1h"),
        stepped("an hour on", "+1h"),
        stepped("a moment back", "-2500ms"),
        stepped("a moment on", "+2500ms"),
    ])
    .await;
}
