//! Tests of Redis faults, with three replicas that are read continuously. No read fails, the served head advances, and
//! the replicas share polls again within five seconds after the fault.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, future, stream};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::Harness;
use super::monitor::MAX_GAP;
use super::redis::Redis;

const REPLICAS: usize = 3;

/// Duration of a fault.
const FAULT_DURATION: Duration = Duration::from_secs(3);

/// Blocks of additional lag until a replica detects the fault.
const DETECTION_LAG: u64 = 1;

type Action = Box<dyn Fn(&Redis) + Send>;

/// One fault of Redis.
struct Scenario {
    name: &'static str,
    /// Injects the fault.
    inject: Action,
    /// Ends the fault.
    end: Action,
    /// True if replicas cannot share polls during the fault.
    is_standalone: bool,
}

/// Creates a fault that happens once.
fn once(name: &'static str, inject: impl Fn(&Redis) + Send + 'static) -> Scenario {
    Scenario { name, inject: Box::new(inject), end: Box::new(|_| {}), is_standalone: false }
}

/// Creates a fault, until `end`, during which each replica polls by itself.
fn standalone(
    name: &'static str,
    inject: impl Fn(&Redis) + Send + 'static,
    end: impl Fn(&Redis) + Send + 'static,
) -> Scenario {
    Scenario { is_standalone: true, end: Box::new(end), ..once(name, inject) }
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
        let redis = Redis::start();
        let harness = Harness::start(&format!("faults-{name}"), REPLICAS, &redis).await;
        let normal = harness.take_stats();
        let (before, counts_before) = (harness.node.progress(), harness.counts().await);

        (self.inject)(&redis);
        tokio::time::sleep(FAULT_DURATION).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_poll_standalone_while_redis_is_gone_or_rejects_commands() {
    run_scenarios(vec![
        standalone("killed", Redis::kill, Redis::start_again),
        standalone(
            "full",
            send("CONFIG SET maxmemory 1 maxmemory-policy noeviction"),
            send("CONFIG SET maxmemory 0"),
        ),
        standalone(
            "no scripts",
            send("ACL SETUSER default -eval -evalsha"),
            send("ACL SETUSER default +@all"),
        ),
        // Replicas can read values, but receive no messages.
        Scenario {
            end: Box::new(send("ACL SETUSER default allchannels")),
            ..once("no channels", send("ACL SETUSER default resetchannels"))
        },
    ])
    .await;
}
