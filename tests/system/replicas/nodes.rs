//! Tests of shared polls when nodes fail, limit the rate or reset, and when replicas are killed, frozen or cut off.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::{MAX_GAP, Monitor};
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, CHAIN_ID, Harness, shared_chain, start_replicas, wait_until};
use crate::chain_model::Window;
use crate::fixtures::wei;
use crate::mock_node::dead_url;
use crate::raw_client::RawClient;
use crate::test_server::Response;

/// Tolerance when times of two processes are compared.
const SECOND: Duration = Duration::from_secs(1);

/// Settings of a chain that is polled so rarely that a test sees one slot.
const LONG_SLOTS: &str = "block_time = \"10m\"\nmax_age = \"40m\"\n";

/// Returns whether an `Age`, in whole seconds, fits a true age between the two. A replica's age counts from the arrival
/// of the node's response, which is a little later than its departure.
fn is_age_between(age: Duration, min_age: Duration, max_age: Duration) -> bool {
    age + SECOND + SECOND / 4 >= min_age && age <= max_age + SECOND
}

fn newest(response: &Response) -> Option<u64> {
    response.header("x-newest-block").parse().ok()
}

fn age(response: &Response) -> Duration {
    Duration::from_secs(response.header("age").parse().unwrap())
}

/// Waits until the suggestions of all replicas are as expected. Returns how long that took.
async fn wait_for_all(
    replicas: &[Arc<Replica>],
    is_expected: impl Fn(&Response) -> bool,
) -> Duration {
    let since = Instant::now();
    wait_until("suggestions of all replicas", async || {
        for replica in replicas {
            if !is_expected(&replica.suggestion().await) {
                return false;
            }
        }
        true
    })
    .await;
    since.elapsed()
}

/// A suggestion of a replica, which was read while the last reply of the node had an age between these.
#[derive(Debug)]
struct Served<'a> {
    replica: &'a str,
    ages: [Duration; 2],
    response: Response,
}

/// Reads the suggestions of all replicas until all refuse, which each has to do at an age of `max_age`, for good. Checks
/// the age of the block `head`, which the node returned at `observed`. Returns the suggestions.
async fn read_until_expiry(
    replicas: &[Arc<Replica>],
    (head, observed): (u64, Instant),
    max_age: Duration,
) -> Vec<Served<'_>> {
    let (mut all, mut ended) = (Vec::new(), vec![None; replicas.len()]);
    wait_until("all refuse", async || {
        for (replica, ended) in replicas.iter().zip(&mut ended) {
            let before = observed.elapsed();
            let response = replica.suggestion().await;
            let served =
                Served { replica: &replica.name, ages: [before, observed.elapsed()], response };
            let Served { ages: [min_age, max_age], response, .. } = &served;
            if response.status == 503 {
                assert_eq!(response.json()["code"], "stale_data", "{served:?}");
                ended.get_or_insert(*max_age);
                continue;
            }
            assert!(response.status == 200 && ended.is_none(), "{served:?}");
            let is_true =
                newest(response) != Some(head) || is_age_between(age(response), *min_age, *max_age);
            assert!(is_true, "{served:?}");
            all.push(served);
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    println!("refused from an age of {ended:?} on");
    for ended in ended.into_iter().flatten() {
        assert!(ended + SECOND / 4 >= max_age && ended <= max_age + SECOND, "{ended:?}");
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_started_during_a_node_outage_serves_shared_data_until_expiry() {
    const STALE_AFTER: Duration = Duration::from_secs(4);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, 2 * BLOCK_TIME).await;
    let config = |client: &str| {
        let more = "block_time = \"2s\"\nmax_age = \"12s\"\n";
        shared_chain(&redis.url(0), &node.url_for(client), more)
    };
    let mut replicas = start_replicas("down", 2, |_| config("old")).await;
    wait_until("an adopted value", async || {
        let (first, second) = (replicas[0].counts("a").await, replicas[1].counts("a").await);
        first.adopted + second.adopted >= 2
    })
    .await;

    node.set_behaviour(Behaviour::Failing);
    // The third replica starts right after a poll, so that the next poll is a block time away.
    node.wait_for_calls(node.progress().calls + 1).await;
    let (head, observed) = node.last_response().unwrap();
    replicas.extend(start_replicas("down-new", 1, |_| config("new")).await);
    let first = replicas[2].suggestion().await;
    let calls_before = node.calls().iter().filter(|call| call.client == "new").count();
    assert_eq!((first.status, calls_before), (200, 0), "{first:?}");
    assert_eq!(first.body, Window::ending_with(head).body("a"));

    // All replicas report the same age and refuse at the same time.
    let all = read_until_expiry(&replicas, (head, observed), Duration::from_secs(12)).await;
    let is_stale = |served: &Served| served.response.header("x-stale") == "true";
    for served in &all {
        let [min_age, max_age] = served.ages;
        assert_eq!(newest(&served.response), Some(head), "{served:?}");
        // Near the limit either label is correct.
        let is_near = min_age < STALE_AFTER + SECOND / 4 && max_age + SECOND / 4 > STALE_AFTER;
        assert!(is_near || is_stale(served) == (min_age > STALE_AFTER), "{served:?}");
    }
    let of_new = all.iter().filter(|served| served.replica == replicas[2].name);
    let labels: BTreeSet<_> = of_new.map(is_stale).collect();
    assert_eq!(labels.len(), 2, "the new replica serves fresh and then stale data");

    node.set_behaviour(Behaviour::Healthy);
    wait_for_all(&replicas, |response| response.status == 200 && newest(response) > Some(head))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_value_received_late_keeps_its_age_and_expiry() {
    const FROZEN: Duration = Duration::from_secs(5);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = shared_chain(&redis.url(0), &node.url(), "max_age = \"9s\"\n");
    let replicas = start_replicas("late", 2, |_| config.clone()).await;
    let Harness { node, monitors } = Harness::sharing(node, &replicas).await;
    // A replica that polls tends to keep polling. The other one is frozen before the last value is published.
    let [first, second] = [replicas[0].counts("a").await, replicas[1].counts("a").await];
    let late = &replicas[usize::from(first.claimed > second.claimed)];
    let calls = node.progress().calls;
    node.wait_for_calls(calls + 1).await;
    // From here on, the test reads the replicas itself.
    monitors.iter().for_each(Monitor::pause);
    late.process.freeze();
    wait_until("another poll", async || node.response_count(calls + 1) == 1).await;
    node.set_behaviour(Behaviour::Failing);
    let last = node.last_response().unwrap();
    // The frozen replica receives the value only after this time.
    tokio::time::sleep(FROZEN).await;
    late.process.thaw();

    let all = read_until_expiry(&replicas, last, Duration::from_secs(9)).await;
    let has_served_it =
        |served: &Served| served.replica == late.name && newest(&served.response) == Some(last.0);
    assert!(all.iter().any(has_served_it), "the late replica never served the value");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_cannot_reach_the_node_serves_shared_values() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // The last one is cut off.
    let urls = [node.url(), node.url(), dead_url()];
    let config = |index: usize| shared_chain(&redis.url(0), &urls[index], "");
    let replicas = start_replicas("reaching", 3, config).await;
    let harness = Harness::sharing(node, &replicas).await;
    let check_sharing = async || {
        harness.take_stats();
        harness.node.check_one_call_per_block(10).await;
        harness.take_stats().check(MAX_GAP);
    };
    check_sharing().await;

    // While the others are frozen, the cut-off replica claims the slots. The others take over once they are thawed.
    let (connected, cut_off) = (&harness.monitors[..2], &replicas[2]);
    let claimed = cut_off.counts("a").await.claimed;
    for monitor in connected {
        monitor.pause();
        monitor.replica.process.freeze();
    }
    wait_until("slots claimed by the cut-off replica", async || {
        cut_off.counts("a").await.claimed >= claimed + 2
    })
    .await;
    for monitor in connected {
        monitor.replica.process.thaw();
        monitor.resume_after_thaw(2 * SECOND);
    }
    harness.node.wait_for_blocks(3).await;
    check_sharing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replica_respects_its_own_rate_limit() {
    const LIMIT: Duration = Duration::from_secs(4);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let clients = ["first", "second", "third"];
    let config = |index: usize| shared_chain(&redis.url(0), &node.url_for(clients[index]), "");
    let replicas = start_replicas("limit", clients.len(), config).await;
    let harness = Harness::sharing(node, &replicas).await;
    let first = harness.node.progress().calls;
    harness.node.set_behaviour(Behaviour::RateLimited(LIMIT.as_secs()));
    let pauses_of = |client: &str| {
        let calls = harness.node.calls().into_iter().skip(first);
        let times: Vec<_> =
            calls.filter(|call| call.client == client).map(|call| call.at).collect();
        // The first poll of a replica sends two calls at once.
        let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.filter(|pause| *pause > SECOND / 4).collect::<Vec<_>>()
    };
    wait_until("a second poll of each replica", async || {
        clients.iter().all(|client| !pauses_of(client).is_empty())
    })
    .await;
    for client in clients {
        let pauses = pauses_of(client);
        assert!(pauses.iter().all(|pause| *pause >= LIMIT), "{client}: {pauses:?}");
    }
    harness.node.set_behaviour(Behaviour::Healthy);
    wait_until("shared polls", async || harness.node.last_response().unwrap().1.elapsed() < SECOND)
        .await;
    harness.share_again(Instant::now()).await;
    harness.check_no_failures();
}

/// Waits until a replica polls. Returns the index of the call and the monitor of the replica. If the node has a delay, the
/// call is still in flight.
async fn next_poll(harness: &Harness) -> (usize, &Monitor) {
    loop {
        let first = harness.node.progress().calls;
        let before = harness.counts().await;
        harness.node.wait_for_calls(first + 1).await;
        let now = harness.counts().await;
        let has_claimed = |index: usize| now[index].claimed > before[index].claimed;
        if let Some(index) = (0..now.len()).find(|index| has_claimed(*index)) {
            return (first, &harness.monitors[index]);
        }
        // The slot was claimed before the counts were read, so wait for the next poll.
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_killed_or_frozen_during_its_poll_costs_one_block() {
    let redis = Redis::start();
    let harness = Harness::start("struck", 3, &redis).await;
    let node = &harness.node;
    node.set_delay(Duration::from_millis(300));
    node.wait_for_blocks(1).await;
    for is_killed in [true, false, true, false] {
        harness.take_stats();
        let (first, interrupted) = next_poll(&harness).await;
        let process = &interrupted.replica.process;
        let wait_for_responses = async |count: usize| {
            wait_until("responses", async || node.response_count(first + 1) >= count).await;
        };
        interrupted.pause();
        if is_killed {
            process.kill();
            wait_for_responses(3).await;
            interrupted.replica.start_again();
            interrupted.replica.wait_until_ready().await;
            interrupted.resume();
        } else {
            process.freeze();
            wait_for_responses(3).await;
            // The result of its interrupted poll is now older than the values of the other replicas.
            process.thaw();
            interrupted.resume_after_thaw(SECOND);
        }
        wait_for_responses(5).await;
        println!("{} was interrupted, killed: {is_killed}", interrupted.replica.name);
        harness.take_stats().check(MAX_GAP);
        // The result of the interrupted poll is lost: one slot is missed, and the next one may be claimed a little
        // later.
        let polls = node.polls(first);
        let allowed = SECOND / 4..=BLOCK_TIME + SECOND / 2;
        assert!(polls.windows(2).all(|two| allowed.contains(&(two[1] - two[0]))), "{polls:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_started_together_poll_the_node_once() {
    let redis = Redis::start();
    // All replicas usually start within the first slot.
    let node = MockClockNode::start(CHAIN_ID, 10 * BLOCK_TIME).await;
    let config = shared_chain(&redis.url(0), &node.url(), "block_time = \"10s\"\n");
    let started = Instant::now();
    for replica in start_replicas("together", 6, |_| config.clone()).await {
        let response = replica.suggestion().await;
        let expected = Window::ending_with(newest(&response).unwrap()).body("a");
        assert_eq!(response.body, expected, "{response:?}");
    }
    let (took, methods) = (started.elapsed(), node.calls_by_method(0));
    println!("{methods:?} in {took:?}");
    assert!(took < 8 * BLOCK_TIME, "too slow for a slot: {took:?}");
    assert_eq!(methods["eth_chainId"], 1, "{methods:?}");
    assert!(methods["eth_feeHistory"] <= 2, "{methods:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_poll_is_retried_within_seconds_by_one_replica() {
    const FAILING: Duration = Duration::from_secs(11);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    node.set_behaviour(Behaviour::Failing);
    let config = shared_chain(&redis.url(0), &node.url(), LONG_SLOTS);
    let start = |index| Arc::new(Replica::start(&format!("failing-{index}"), &config));
    let replicas = [0, 1, 2].map(start);
    for replica in &replicas {
        replica.wait_until_ok("/livez").await;
    }
    node.wait_for_calls(1).await;
    // All replicas together are expected to poll once per five seconds in this time.
    tokio::time::sleep(FAILING).await;
    let failed = node.progress().calls;
    node.set_behaviour(Behaviour::Healthy);
    let took = wait_for_all(&replicas, |response| response.status == 200).await;
    let methods = node.calls_by_method(failed);
    println!("{failed} calls in {FAILING:?}, then {methods:?}, served after {took:?}");
    // Three polls. The first one of a replica sends two calls, and after 10 s another replica may claim the slot.
    assert!((2..=5).contains(&failed), "{failed}");
    assert!(took <= 7 * SECOND, "{took:?}");
    assert_eq!((methods["eth_chainId"], methods["eth_feeHistory"]), (1, 1), "{methods:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_poll_of_a_long_slot_is_repeated_by_another_replica() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    node.set_behaviour(Behaviour::Silent);
    let config = shared_chain(&redis.url(0), &node.url(), LONG_SLOTS);
    let lost = Replica::start("lost", &config);
    node.wait_for_calls(1).await;
    lost.process.kill();
    node.set_behaviour(Behaviour::Healthy);
    let took = Replica::start("repeating", &config).wait_until_ready().await;
    println!("{took:?}");
    assert!(took <= 15 * SECOND, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_started_during_a_stalled_head_labels_it_stale() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, Duration::from_hours(1)).await;
    let config = shared_chain(&redis.url(0), &node.url(), "stall_after = \"4s\"\n");
    let is_stale = |response: &Response| response.header("x-stale") == "true";
    let since = Instant::now();
    let mut replicas = start_replicas("stalled", 2, |_| config.clone()).await;
    for replica in &replicas {
        let response = replica.suggestion().await;
        assert_eq!((response.status, response.header("x-stale")), (200, ""), "{response:?}");
    }
    wait_for_all(&replicas, is_stale).await;
    let took = since.elapsed();
    assert!(took >= 4 * SECOND && took <= 7 * SECOND, "{took:?}");
    replicas.extend(start_replicas("stalled-new", 1, |_| config.clone()).await);
    for replica in &replicas {
        let response = replica.suggestion().await;
        assert!(is_stale(&response) && age(&response) <= 2 * SECOND, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll_result_reaches_the_other_replicas_at_once() {
    const POLLS: usize = 5;
    let redis = Redis::start();
    let harness = Harness::start("reaching-all", 3, &redis).await;
    let (node, replicas) = (&harness.node, harness.replicas());
    let mut delays = Vec::new();
    while delays.len() < POLLS {
        let calls_before = node.progress().calls;
        wait_until("a poll", async || node.response_count(calls_before) == 1).await;
        let (head, at) = node.last_response().unwrap();
        wait_for_all(&replicas, |response| newest(response) >= Some(head)).await;
        delays.push(at.elapsed());
    }
    delays.sort_unstable();
    println!("{delays:?}");
    // Without messages, a replica would find the value an eighth of a slot later, when it tries to claim the slot. A
    // busy machine may delay some messages, but hardly all of them.
    assert!(delays[0] < BLOCK_TIME / 8, "{delays:?}");
    harness.check_no_failures();
}

/// Waits until all replicas serve a head of the chain, which was reset to `first` less than a minute ago. Returns how
/// long that took.
async fn wait_for_reset(replicas: &[Arc<Replica>], first: u64) -> Duration {
    let is_of_new_chain = |response: &Response| {
        assert_eq!(response.status, 200, "{response:?}");
        newest(response).is_some_and(|newest| (first..first + 60).contains(&newest))
    };
    wait_for_all(replicas, is_of_new_chain).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_reset_reaches_all_replicas() {
    let redis = Redis::start();
    let harness = Harness::start("reset", 4, &redis).await;
    let (node, replicas) = (&harness.node, harness.replicas());
    // One replica is frozen during the reset, another one restarts after it.
    let (frozen, new) = (&replicas[0].process, &replicas[1]);
    harness.check_no_failures();
    let resets = [
        (5_000_000, false),
        // Redis is restarted before the reset, so the frozen replica never gets the record that confirms it.
        (3_000_000, true),
        (1_000_000, false),
    ];
    for (first, is_forgotten) in resets {
        harness.monitors.iter().for_each(Monitor::pause_for_reset);
        frozen.freeze();
        if is_forgotten {
            redis.kill();
            redis.start_again();
            node.wait_for_blocks(3).await;
        }
        node.reset_head(first);
        let took = wait_for_reset(&replicas[1..], first).await;
        // By then another record has replaced the one that confirmed the reset.
        node.wait_for_blocks(2).await;
        frozen.thaw();
        let took_frozen = wait_for_reset(&replicas, first).await;
        new.process.kill();
        new.start_again();
        new.wait_until_ready().await;
        wait_for_reset(&replicas, first).await;
        println!("from {first} on: followed after {took:?}, after being frozen {took_frozen:?}");
        assert!(took <= 10 * SECOND && took_frozen <= 4 * SECOND);

        // A replica that fell back to the old chain would serve a block above the new head.
        harness.monitors.iter().for_each(Monitor::resume_after_reset);
        node.wait_for_blocks(6).await;
        harness.take_stats().check(MAX_GAP);
    }
    harness.share_again(Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_blocks_serve_every_route_with_each_replicas_own_pricing() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let expensive = "pricing.base_fee_multiplier = 3\npricing.priority_fee_floor = \"500 gwei\"\n";
    let config =
        |index: usize| shared_chain(&redis.url(0), &node.url(), ["", "", expensive][index]);
    let replicas = start_replicas("priced", 3, config).await;
    let paths = ["fee-market", "fee-history?blocks=20", "gas-suggestion"];
    let (since, mut all) = (Instant::now(), Vec::new());
    wait_until("the same block at all replicas", async || {
        all.clear();
        for replica in &replicas {
            for path in paths {
                all.push(replica.get(&format!("/v1/a/{path}")).await);
            }
        }
        let is_same = all.iter().all(|response| newest(response) == newest(&all[0]));
        is_same && since.elapsed() > 4 * BLOCK_TIME
    })
    .await;
    let [default, identical, expensive] = [0, 1, 2].map(|index| &all[3 * index..][..3]);
    for (default, identical) in default.iter().zip(identical) {
        let (mut default, mut identical) = (default.json(), identical.json());
        let times = [&mut default, &mut identical].map(|json| {
            let at = json.get_mut("observed_at")?.take();
            Some(humantime::parse_rfc3339(at.as_str().unwrap()).unwrap())
        });
        assert_eq!(default, identical);
        if let [Some(at), Some(same_at)] = times {
            let apart = at.max(same_at).duration_since(at.min(same_at)).unwrap();
            assert!(apart < SECOND / 4, "{apart:?}");
        }
    }
    // The stream of each replica has an event for each block.
    let stream = crate::http_message::get("/v1/a/gas-suggestion/stream", "");
    for replica in &replicas {
        let mut client = RawClient::connect(replica.address).await;
        client.send(&stream).await;
        client.read_bytes_until(b"\ndata: {\"chain_name\":\"a\",", 3).await;
    }
    // Each replica prices the blocks by its own configuration.
    assert_eq!(expensive[1].json(), default[1].json());
    let base = |responses: &[Response]| wei(&responses[2].json()["base_fee_per_gas"]);
    assert_eq!(base(expensive) * 2, base(default) * 3);
    let tip = &expensive[2].json()["medium"]["max_priority_fee_per_gas"];
    assert_eq!(tip, "500000000000");
    // The polls were shared.
    for replica in &replicas {
        let counts = replica.counts("a").await;
        assert!(counts.standalone == 0 && counts.claimed + counts.yielded > 0, "{counts:?}");
    }
}
