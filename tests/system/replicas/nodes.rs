//! Tests of shared polls when nodes fail or limit the rate, and when replicas are killed, late or cut off.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::MAX_GAP;
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

fn is_stale(response: &Response) -> bool {
    response.header("x-stale") == "true"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_and_late_replicas_serve_shared_data_with_its_age_until_expiry() {
    const STALE_AFTER: Duration = Duration::from_secs(4);
    const MAX_AGE: Duration = Duration::from_secs(12);
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, 2 * BLOCK_TIME).await;
    let clients = ["first", "second", "new"];
    let config = |index: usize| {
        let more = "block_time = \"2s\"\nmax_age = \"12s\"\n";
        shared_chain(&redis.url(0), &node.url_for(clients[index]), more)
    };
    let mut replicas = start_replicas("down", 2, config).await;
    wait_until("an adopted value", async || {
        let (first, second) = (replicas[0].counts("a").await, replicas[1].counts("a").await);
        first.adopted + second.adopted >= 2
    })
    .await;

    // A replica that polls tends to keep polling. The other one is frozen before the last value is published.
    let calls = node.progress().calls;
    node.wait_for_calls(calls + 1).await;
    let late = Arc::clone(&replicas[usize::from(node.calls()[calls].client == clients[0])]);
    late.process.freeze();
    let calls = node.progress().calls;
    wait_until("another poll", async || node.response_count(calls) >= 1).await;
    node.set_behaviour(Behaviour::Failing);
    // The third replica starts right after a poll, so that the next poll is a block time away.
    let (head, observed) = node.last_response().unwrap();
    replicas.extend(start_replicas("down-new", 1, |_| config(2)).await);
    let first = replicas[2].suggestion().await;
    let calls_before = node.calls().iter().filter(|call| call.client == "new").count();
    assert_eq!((first.status, calls_before, is_stale(&first)), (200, 0, false), "{first:?}");
    assert_eq!(first.body, Window::ending_with(head).body("a"));
    // The frozen replica receives the value only after this time.
    wait_until("a late time", async || observed.elapsed() >= MAX_AGE / 2).await;
    late.process.thaw();

    // All replicas report the same age and refuse at the same time, for good.
    let (mut ended, mut has_late_served_it) = ([None; 3], false);
    wait_until("all refuse", async || {
        for (replica, ended) in replicas.iter().zip(&mut ended) {
            let min_age = observed.elapsed();
            let response = replica.suggestion().await;
            let max_age = observed.elapsed();
            let details = format!("{}, {min_age:?} to {max_age:?}: {response:?}", replica.name);
            if response.status == 503 {
                assert_eq!(response.json()["code"], "stale_data", "{details}");
                ended.get_or_insert(max_age);
                continue;
            }
            assert!(response.status == 200 && ended.is_none(), "{details}");
            assert!(min_age <= MAX_AGE + SECOND, "{details}");
            if response.newest_block() != head {
                assert_eq!(replica.name, late.name, "{details}");
                continue;
            }
            has_late_served_it |= replica.name == late.name;
            // The age is in whole seconds. It counts from the arrival of the node's response, which is a little later
            // than its departure.
            let age = Duration::from_secs(response.header("age").parse().unwrap());
            assert!(age + SECOND + SECOND / 4 >= min_age && age <= max_age + SECOND, "{details}");
            // Near the limit either label is correct.
            let is_near = min_age < STALE_AFTER + SECOND / 4 && max_age + SECOND / 4 > STALE_AFTER;
            assert!(is_near || is_stale(&response) == (min_age > STALE_AFTER), "{details}");
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    assert!(ended.into_iter().flatten().all(|age| age + SECOND / 4 >= MAX_AGE), "{ended:?}");
    assert!(has_late_served_it, "the late replica never served the value");

    node.set_behaviour(Behaviour::Healthy);
    wait_for_all(&replicas, |response| response.status == 200 && response.newest_block() > head)
        .await;
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
        harness.node.check_one_poll_per_block(5).await;
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
        monitor.resume(2 * SECOND);
    }
    harness.node.wait_for_blocks(3).await;
    check_sharing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_started_together_poll_the_node_once() {
    let redis = Redis::start();
    // All replicas start within one slot.
    let node = MockClockNode::start(CHAIN_ID, 10 * BLOCK_TIME).await;
    let config = shared_chain(&redis.url(0), &node.url(), LONG_SLOTS);
    for replica in start_replicas("together", 6, |_| config.clone()).await {
        let response = replica.suggestion().await;
        assert_eq!(response.body, Window::ending_with(response.newest_block()).body("a"));
    }
    let calls = ["eth_chainId", "eth_feeHistory"].map(|method| node.calls_of(method, 0).len());
    assert_eq!(calls, [1, 1], "{:?}", node.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_poll_of_a_long_slot_is_repeated_by_another_replica() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    node.set_behaviour(Behaviour::Silent);
    let config = shared_chain(&redis.url(0), &node.url(), LONG_SLOTS);
    let lost = Replica::start("lost", &config, &[]);
    node.wait_for_calls(1).await;
    lost.process.kill();
    node.set_behaviour(Behaviour::Healthy);
    let took = Replica::start("repeating", &config, &[]).wait_until_ready().await;
    assert!(took <= 15 * SECOND, "{took:?}");
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
        wait_until("a poll", async || node.response_count(calls_before) >= 1).await;
        let (head, at) = node.last_response().unwrap();
        wait_for_all(&replicas, |response| response.newest_block() >= head).await;
        delays.push(at.elapsed());
    }
    delays.sort_unstable();
    // Without messages, a replica would find the value an eighth of a slot later, when it tries to claim the slot. A
    // busy machine may delay some messages, but hardly all of them.
    assert!(delays[0] < BLOCK_TIME / 8, "{delays:?}");
    harness.check_no_failures();
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
        let newest = all[0].newest_block();
        all.iter().all(|response| response.newest_block() == newest)
            && since.elapsed() > 4 * BLOCK_TIME
    })
    .await;
    let [default, identical, expensive] = [0, 1, 2].map(|index| &all[3 * index..][..3]);
    for (default, identical) in default.iter().zip(identical) {
        let mut bodies = [default.json(), identical.json()];
        let times = bodies.each_mut().map(|body| {
            let at = body.get_mut("observed_at")?.take();
            Some(humantime::parse_rfc3339(at.as_str().unwrap()).unwrap())
        });
        assert_eq!(bodies[0], bodies[1]);
        if let [Some(at), Some(same_at)] = times {
            let apart = at.max(same_at).duration_since(at.min(same_at)).unwrap();
            // Each replica knows the clock of Redis but for a round trip, of at most half a second.
            assert!(apart < SECOND, "{apart:?}");
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
        assert!(counts.standalone == 0 && counts.shared() > 0, "{counts:?}");
    }
}
