//! Tests of shared polls when nodes fail, limit the rate or reset, and when replicas are killed, frozen or cut off.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mock_clock_node::{Behaviour, MockClockNode, PricingSettings};
use super::monitor::{MAX_GAP, Monitor, ReadStats};
use super::redis::Redis;
use super::replica::Replica;
use super::{
    BLOCK_TIME, CHAIN_ID, Harness, READ_INTERVAL, chain_section, redis_section, shared_chain,
    wait_until,
};
use crate::mock_node::dead_url;
use crate::raw_client::RawClient;
use crate::test_server::Response;

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Tolerance when times of two processes are compared.
const SECOND: Duration = Duration::from_secs(1);

/// Returns whether an `Age`, in whole seconds, fits a true age between the two. A replica's age counts from the arrival
/// of the node's response, which is a little later than its departure.
fn is_age_between(age: Duration, min_age: Duration, max_age: Duration) -> bool {
    age + SECOND + SECOND / 4 >= min_age && age <= max_age + SECOND
}

fn newest(response: &Response) -> Option<u64> {
    response.header("x-newest-block").parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_started_during_a_node_outage_serves_shared_data_until_expiry() {
    const MAX_AGE: Duration = Duration::from_secs(12);
    const STALE_AFTER: Duration = Duration::from_secs(4);
    let block = Duration::from_secs(2);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, block).await;
    let config = |url: &str| {
        let chain =
            chain_section("a", CHAIN_ID, url, "max_age = \"12s\"\n").replace("\"1s\"", "\"2s\"");
        redis_section(&redis.url(0)) + &chain
    };
    let start =
        |client: &str| Replica::start(&format!("down-{client}"), &config(&node.url_for(client)));
    let mut replicas = vec![start("first"), start("second")];
    for replica in &replicas {
        replica.wait_until_ready().await;
    }
    wait_until("an adopted value", async || {
        let (first, second) = (replicas[0].counts("a").await, replicas[1].counts("a").await);
        first.adopted + second.adopted >= 2
    })
    .await;

    node.set_behaviour(Behaviour::Failing);
    // The third replica starts right after a poll, so that the next poll is a block time away.
    let calls = node.progress().calls;
    wait_until("a failed poll", async || node.progress().calls > calls).await;
    let (head, observed) = node.last_response().unwrap();
    let started = Instant::now();
    replicas.push(start("new"));
    replicas[2].wait_until_ready().await;
    let ready = started.elapsed();
    let first = replicas[2].get(SUGGESTION).await;
    let calls_before = node.calls().iter().filter(|call| call.client == "new").count();
    println!(
        "ready after {ready:?}, {calls_before} calls before that, age {}",
        first.header("age")
    );
    assert_eq!((first.status, calls_before), (200, 0), "{first:?}");
    assert_eq!(first.body, PricingSettings::default().expected_suggestion("a", head));

    // All replicas report the same age and refuse at the same time.
    let mut ended = [None; 3];
    let (mut fresh, mut stale) = (0, 0);
    wait_until("all refuse", async || {
        for (replica, ended) in replicas.iter().zip(&mut ended) {
            let min_age = observed.elapsed();
            let response = replica.get(SUGGESTION).await;
            let max_age = observed.elapsed();
            let details =
                format!("{} between {min_age:?} and {max_age:?}: {response:?}", replica.name);
            if response.status == 503 {
                assert_eq!(response.json()["code"], "stale_data", "{details}");
                ended.get_or_insert(max_age);
                continue;
            }
            assert!(response.status == 200 && ended.is_none(), "{details}");
            assert_eq!(newest(&response), Some(head), "{details}");
            let age = Duration::from_secs(response.header("age").parse().unwrap());
            assert!(is_age_between(age, min_age, max_age), "{details}");
            let is_stale = response.header("x-stale") == "true";
            // Near the limit either label is correct.
            let is_near = min_age < STALE_AFTER + SECOND / 4 && max_age + SECOND / 4 > STALE_AFTER;
            assert!(is_near || is_stale == (min_age > STALE_AFTER), "{details}");
            if replica.name == "down-new" {
                *(if is_stale { &mut stale } else { &mut fresh }) += 1;
            }
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    println!("refused from an age of {ended:?} on");
    for ended in ended.into_iter().flatten() {
        assert!(ended + SECOND / 4 >= MAX_AGE && ended <= MAX_AGE + SECOND, "{ended:?}");
    }
    assert!(fresh > 0 && stale > 0, "{fresh} fresh, {stale} stale");

    node.set_behaviour(Behaviour::Healthy);
    wait_until("all serve again", async || {
        for replica in &replicas {
            let response = replica.get(SUGGESTION).await;
            if response.status != 200 || newest(&response).is_none_or(|newest| newest <= head) {
                return false;
            }
        }
        true
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_value_received_late_keeps_its_age_and_expiry() {
    const MAX_AGE: Duration = Duration::from_secs(9);
    const FROZEN: Duration = Duration::from_secs(5);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = shared_chain(&redis, &node.url(), "max_age = \"9s\"\n");
    let start = |name: &str| Arc::new(Replica::start(name, &config));
    let harness = Harness::from_replicas(redis, node, &["late-0", "late-1"].map(start)).await;
    // A replica that polls tends to keep polling. The other one is frozen before the last value is published.
    let counts = harness.counts().await;
    let late = &harness.monitors[usize::from(counts[0].claimed > counts[1].claimed)];
    let calls = harness.node.progress().calls;
    wait_until("a poll", async || harness.node.progress().calls > calls).await;
    // From here on, the test reads the replicas itself.
    harness.monitors.iter().for_each(Monitor::pause);
    late.replica.freeze();
    wait_until("another poll", async || harness.node.response_times(calls + 1).len() == 1).await;
    harness.node.set_behaviour(Behaviour::Failing);
    let (head, observed) = harness.node.last_response().unwrap();
    // The frozen replica receives the value only after this time.
    tokio::time::sleep(FROZEN).await;
    late.replica.thaw();

    let mut ages = Vec::new();
    let mut ended = [None; 2];
    wait_until("both refuse", async || {
        for (monitor, ended) in harness.monitors.iter().zip(&mut ended) {
            let min_age = observed.elapsed();
            let response = monitor.replica.get(SUGGESTION).await;
            let max_age = observed.elapsed();
            if response.status == 503 {
                ended.get_or_insert(max_age);
            } else if newest(&response) == Some(head) {
                let age: u64 = response.header("age").parse().unwrap();
                ages.push((monitor.replica.name.clone(), min_age, age, max_age));
            }
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    println!("{} is late; refused from an age of {ended:?} on", late.replica.name);
    let is_true = |(_, min_age, age, max_age): &&(_, Duration, u64, Duration)| {
        is_age_between(Duration::from_secs(*age), *min_age, *max_age)
    };
    let wrong: Vec<_> = ages.iter().filter(|age| !is_true(age)).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        ages.iter().any(|(name, ..)| *name == late.replica.name),
        "the late replica never served the value"
    );
    for ended in ended.into_iter().flatten() {
        assert!(ended + SECOND / 4 >= MAX_AGE && ended <= MAX_AGE + SECOND, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_cannot_reach_the_node_serves_shared_values() {
    const BLOCKS: u64 = 10;
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = |url: &str| shared_chain(&redis, url, "");
    let start = |name: &str, url: &str| Arc::new(Replica::start(name, &config(url)));
    let replicas = [
        start("reaching-0", &node.url()),
        start("reaching-1", &node.url()),
        start("cut-off", &dead_url()),
    ];
    let harness = Harness::from_replicas(redis, node, &replicas).await;
    let check_sharing = async |what: &str| {
        harness.take_stats();
        let before = harness.node.progress();
        harness.wait_for_blocks(BLOCKS).await;
        let (blocks, calls) = harness.node.progress().since(before);
        let stats = harness.take_stats();
        println!("{what}: {calls} calls in {blocks} blocks, {stats:?}");
        assert_eq!(stats.failures, [""; 0]);
        assert!(stats.max_lag() <= MAX_GAP && stats.max_jump() <= MAX_GAP, "{stats:?}");
        assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    };
    check_sharing("all run").await;

    // While the others are frozen, the cut-off replica claims the slots. The others take over once they are thawed.
    let cut_off = async || harness.monitors[2].replica.counts("a").await;
    let claimed = cut_off().await.claimed;
    for monitor in &harness.monitors[..2] {
        monitor.pause();
        monitor.replica.freeze();
    }
    wait_until("slots claimed by the cut-off replica", async || {
        cut_off().await.claimed >= claimed + 2
    })
    .await;
    for monitor in &harness.monitors[..2] {
        monitor.replica.thaw();
        monitor.resume_after_thaw(2 * SECOND);
    }
    harness.wait_for_blocks(3).await;
    check_sharing("after the connected replicas were frozen").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replica_respects_its_own_rate_limit() {
    const LIMIT: Duration = Duration::from_secs(4);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let names = ["limit-0", "limit-1", "limit-2"];
    let replicas = names.map(|name| {
        let chain = chain_section("a", CHAIN_ID, &node.url_for(name), "");
        Arc::new(Replica::start(name, &(redis_section(&redis.url(0)) + &chain)))
    });
    let harness = Harness::from_replicas(redis, node, &replicas).await;
    let first = harness.node.progress().calls;
    harness.node.set_behaviour(Behaviour::RateLimited(LIMIT.as_secs()));
    let pauses_of = |name: &str| {
        let calls: Vec<_> = harness.node.calls().into_iter().skip(first).collect();
        let calls: Vec<_> =
            calls.iter().filter(|call| call.client == name).map(|call| call.at).collect();
        // The first poll of a replica sends two calls at once.
        let pauses = calls.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.filter(|pause| *pause > SECOND / 4).collect::<Vec<_>>()
    };
    wait_until("a second poll of each replica", async || {
        names.iter().all(|name| !pauses_of(name).is_empty())
    })
    .await;
    for name in names {
        let pauses = pauses_of(name);
        assert!(pauses.iter().all(|pause| *pause >= LIMIT), "{name}: {pauses:?}");
    }
    harness.node.set_behaviour(Behaviour::Healthy);
    wait_until("shared polls", async || harness.node.last_response().unwrap().1.elapsed() < SECOND)
        .await;
    harness.share_again(Instant::now()).await;
    harness.check_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_killed_or_frozen_during_its_poll_costs_one_block() {
    let harness = Harness::start("struck", 3, Redis::start()).await;
    harness.node.set_delay(Duration::from_millis(300));
    harness.wait_for_blocks(1).await;
    for is_killed in [true, false, true, false] {
        harness.take_stats();
        let (first, interrupted) = harness.next_poll().await;
        interrupted.pause();
        if is_killed {
            interrupted.replica.kill();
        } else {
            interrupted.replica.freeze();
        }
        let responses = || harness.node.response_times(first + 1);
        wait_until("further polls", async || responses().len() >= 3).await;
        if is_killed {
            interrupted.replica.start_again();
            interrupted.replica.wait_until_ready().await;
            interrupted.resume();
        } else {
            // The result of its interrupted poll is now older than the values of the other replicas.
            interrupted.replica.thaw();
            interrupted.resume_after_thaw(SECOND);
        }
        wait_until("further polls", async || responses().len() >= 5).await;
        let stats = harness.take_stats();
        let by = if is_killed { "killed" } else { "frozen" };
        println!("{} is {by}: {stats:?}", interrupted.replica.name);
        assert_eq!(stats.failures, [""; 0]);
        assert!(stats.max_lag() <= MAX_GAP && stats.max_jump() <= MAX_GAP, "{stats:?}");
        // The result of the interrupted poll is lost: one slot is missed, and the next one may be claimed a little
        // later.
        let polls = harness.node.polls(first);
        for two in polls.windows(2) {
            let pause = two[1] - two[0];
            assert!(pause <= BLOCK_TIME + SECOND / 2, "{pause:?}: {polls:#?}");
            assert!(pause >= SECOND / 4, "{pause:?}: {polls:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_started_together_poll_the_node_once() {
    let redis = Redis::start();
    // All replicas usually start within the first slot.
    let node = MockClockNode::start(CHAIN_ID, 10 * BLOCK_TIME).await;
    let chain = chain_section("a", CHAIN_ID, &node.url(), "").replace("\"1s\"", "\"10s\"");
    let config = redis_section(&redis.url(0)) + &chain;
    let started = Instant::now();
    let replicas: Vec<_> =
        (0..6).map(|index| Replica::start(&format!("together-{index}"), &config)).collect();
    for replica in &replicas {
        replica.wait_until_ready().await;
        let response = replica.get(SUGGESTION).await;
        let newest = newest(&response).unwrap();
        assert_eq!(
            response.body,
            PricingSettings::default().expected_suggestion("a", newest),
            "{response:?}"
        );
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
    let chain = chain_section("a", CHAIN_ID, &node.url(), "max_age = \"40m\"\n")
        .replace("\"1s\"", "\"10m\"");
    let config = redis_section(&redis.url(0)) + &chain;
    let replicas: Vec<_> =
        (0..3).map(|index| Replica::start(&format!("failing-{index}"), &config)).collect();
    for replica in &replicas {
        replica.wait_until_live().await;
    }
    wait_until("a failed poll", async || node.progress().calls > 0).await;
    // All replicas together are expected to poll once per five seconds in this time.
    tokio::time::sleep(FAILING).await;
    let failed = node.progress().calls;
    node.set_behaviour(Behaviour::Healthy);
    let since = Instant::now();
    wait_until("all serve", async || {
        for replica in &replicas {
            if replica.get(SUGGESTION).await.status != 200 {
                return false;
            }
        }
        true
    })
    .await;
    let (took, methods) = (since.elapsed(), node.calls_by_method(failed));
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
    let chain = chain_section("a", CHAIN_ID, &node.url(), "max_age = \"40m\"\n")
        .replace("\"1s\"", "\"10m\"");
    let config = redis_section(&redis.url(0)) + &chain;
    let lost = Replica::start("lost", &config);
    wait_until("a poll", async || node.progress().calls > 0).await;
    lost.kill();
    node.set_behaviour(Behaviour::Healthy);
    let took = Replica::start("repeating", &config).wait_until_ready().await;
    println!("{took:?}");
    assert!(took <= 15 * SECOND, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_started_during_a_stalled_head_labels_it_stale() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, Duration::from_hours(1)).await;
    let config = shared_chain(&redis, &node.url(), "stall_after = \"4s\"\n");
    let start = |name: &str| Replica::start(name, &config);
    let mut replicas = vec![start("stalled-0"), start("stalled-1")];
    let since = Instant::now();
    for replica in &replicas {
        replica.wait_until_ready().await;
        let response = replica.get(SUGGESTION).await;
        assert_eq!((response.status, response.header("x-stale")), (200, ""), "{response:?}");
    }
    for replica in &replicas {
        let is_stale = async || replica.get(SUGGESTION).await.header("x-stale") == "true";
        wait_until("the stale label", is_stale).await;
    }
    let took = since.elapsed();
    assert!(took >= 4 * SECOND && took <= 7 * SECOND, "{took:?}");
    replicas.push(start("stalled-new"));
    replicas[2].wait_until_ready().await;
    for replica in &replicas {
        let response = replica.get(SUGGESTION).await;
        let age: u64 = response.header("age").parse().unwrap();
        assert!(response.header("x-stale") == "true" && age <= 2, "{}: {response:?}", replica.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll_result_reaches_the_other_replicas_at_once() {
    const POLLS: usize = 5;
    let harness = Harness::start("reaching-all", 3, Redis::start()).await;
    let mut delays = Vec::new();
    while delays.len() < POLLS {
        let calls_before = harness.node.progress().calls;
        wait_until("a poll", async || harness.node.response_times(calls_before).len() == 1).await;
        let (head, at) = harness.node.last_response().unwrap();
        let reached =
            async |replica: &Replica| newest(&replica.get(SUGGESTION).await) >= Some(head);
        wait_until("the value at all replicas", async || {
            for replica in harness.replicas() {
                if !reached(replica).await {
                    return false;
                }
            }
            true
        })
        .await;
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
async fn wait_for_reset(monitors: &[Monitor], first: u64) -> Duration {
    let since = Instant::now();
    wait_until("all follow", async || {
        for monitor in monitors {
            let response = monitor.replica.get(SUGGESTION).await;
            assert_eq!(response.status, 200, "{response:?}");
            if newest(&response).is_none_or(|newest| !(first..first + 60).contains(&newest)) {
                return false;
            }
        }
        true
    })
    .await;
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_reset_reaches_all_replicas() {
    let harness = Harness::start("reset", 4, Redis::start()).await;
    harness.check_no_failures();
    let resets = [
        (5_000_000, false),
        // Redis is restarted before the reset, so the frozen replica never gets the record that confirms it.
        (3_000_000, true),
        (1_000_000, false),
    ];
    for (first, is_forgotten) in resets {
        harness.monitors.iter().for_each(Monitor::pause_for_reset);
        // One replica is frozen during the reset, another one restarts after it.
        let (frozen, new) = (&harness.monitors[0].replica, &harness.monitors[1].replica);
        frozen.freeze();
        if is_forgotten {
            harness.redis.kill();
            harness.redis.start_again();
            harness.wait_for_blocks(3).await;
        }
        harness.node.reset_head(first);
        let took = wait_for_reset(&harness.monitors[1..], first).await;
        // By then another record has replaced the one that confirmed the reset.
        harness.wait_for_blocks(2).await;
        frozen.thaw();
        let took_frozen = wait_for_reset(&harness.monitors, first).await;
        new.kill();
        new.start_again();
        new.wait_until_ready().await;
        wait_for_reset(&harness.monitors, first).await;
        println!("from {first} on: followed after {took:?}, after being frozen {took_frozen:?}");
        assert!(took <= 10 * SECOND && took_frozen <= 4 * SECOND);

        // A replica that fell back to the old chain would serve a block above the new head.
        harness.monitors.iter().for_each(Monitor::resume_after_reset);
        harness.wait_for_blocks(6).await;
        let stats = harness
            .monitors
            .iter()
            .map(Monitor::take_stats)
            .fold(ReadStats::default(), ReadStats::merge);
        assert_eq!(stats.failures, [""; 0]);
        assert!(stats.max_lag() <= MAX_GAP && stats.max_jump() <= MAX_GAP, "{stats:?}");
    }
    harness.share_again(Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_blocks_serve_every_route_with_each_replicas_own_pricing() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = |more: &str| shared_chain(&redis, &node.url(), more);
    let expensive = "pricing.base_fee_multiplier = 3\npricing.priority_fee_floor = \"500 gwei\"\n";
    let replicas = [("plain", config("")), ("same", config("")), ("expensive", config(expensive))]
        .map(|(name, config)| Replica::start(&format!("priced-{name}"), &config));
    for replica in &replicas {
        replica.wait_until_ready().await;
    }
    // Wait until all three replicas have the same block.
    let paths = ["fee-market", "fee-history?blocks=20", "gas-suggestion"];
    let responses = async |replica: &Replica| {
        let mut responses = Vec::new();
        for path in paths {
            responses.push(replica.get(&format!("/v1/a/{path}")).await);
        }
        responses
    };
    let since = Instant::now();
    let [default, identical, expensive] = loop {
        let mut all = Vec::new();
        for replica in &replicas {
            all.push(responses(replica).await);
        }
        let heads: Vec<_> = all.iter().flatten().map(newest).collect();
        if heads.iter().all(|head| *head == heads[0]) && since.elapsed() > 4 * BLOCK_TIME {
            break all.try_into().unwrap();
        }
        assert!(since.elapsed() < crate::raw_client::TIMEOUT, "{heads:?}");
        tokio::time::sleep(READ_INTERVAL).await;
    };
    let comparable = |response: &Response| {
        let mut json = response.json();
        if let Some(at) = json.get_mut("observed_at") {
            let at = humantime::parse_rfc3339(at.take().as_str().unwrap()).unwrap();
            return (json, Some(at));
        }
        (json, None)
    };
    for (default, identical) in default.iter().zip(&identical) {
        let ((default, at), (identical, same_at)) = (comparable(default), comparable(identical));
        assert_eq!(default, identical);
        if let (Some(at), Some(same_at)) = (at, same_at) {
            let apart = at.duration_since(same_at).or_else(|_| same_at.duration_since(at)).unwrap();
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
    let base = |responses: &[Response]| -> u128 {
        responses[2].json()["base_fee_per_gas"].as_str().unwrap().parse().unwrap()
    };
    assert_eq!(base(&expensive) * 2, base(&default) * 3);
    let tip = &expensive[2].json()["medium"]["max_priority_fee_per_gas"];
    assert_eq!(tip, "500000000000");
    // The polls were shared.
    for replica in &replicas {
        let counts = replica.counts("a").await;
        assert!(counts.standalone == 0 && counts.claimed + counts.yielded > 0, "{counts:?}");
    }
}
