//! Replicas share the API's rate limit through Redis.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::budget::{is_served, max_requests_per_window, send_paced};
use crate::delegation_service::{Harness, assert_rate_limited, check, source};
use crate::mock_delegate_api::MockDelegateApi;
use crate::replicas::redis::Redis;
use crate::test_server::wait_until;

const REPLICAS: usize = 4;

/// Starts an API, Redis, and [`REPLICAS`] replicas that share the limit of the API. Waits until they are connected.
async fn start(source: &str) -> (MockDelegateApi, Redis, Vec<Harness>) {
    let (api, redis) = (MockDelegateApi::start().await, Redis::start());
    api.set_response("check/all", "true");
    let more = format!("cache_ttl = \"0s\"\n[redis]\nurl = \"{}\"", redis.url(0));
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(Harness::start(&api.url(), source, &more).await);
    }
    wait_for_redis(&replicas, 1).await;
    (api, redis, replicas)
}

/// Waits until Redis is up (1) or down (0) for all replicas.
async fn wait_for_redis(replicas: &[Harness], up: u64) {
    for replica in replicas {
        let is_up = async || replica.service.count("gas_suggestion_redis_up").await == up;
        wait_until("Redis", is_up).await;
    }
}

/// Returns the key in Redis with this ending.
fn redis_key(redis: &Redis, ending: &str) -> Option<Vec<u8>> {
    let keys = redis.keys("gas:v1:{delegation:");
    keys.into_iter().find(|key| key.ends_with(ending.as_bytes()))
}

/// Sends 25 distinct look-ups a second to each replica, and returns how many each one served. Asserts that all others
/// get a 429 with a valid `Retry-After`, of the service or of the API, which counts its own.
async fn load(replicas: &[Harness], seconds: usize, salt: usize) -> Vec<usize> {
    let mut clients = JoinSet::new();
    for (replica, harness) in replicas.iter().enumerate() {
        for client in 0..5 {
            let service = harness.service.address();
            let number = move |round| ((salt * 10 + replica) * 10 + client) * 10_000 + round;
            let pause = Duration::from_millis(200);
            let sent = send_paced(Ipv4Addr::LOCALHOST, service, pause, 5 * seconds, number);
            clients.spawn(async move { (replica, sent.await) });
        }
    }
    let mut served = vec![0; replicas.len()];
    for (replica, done) in clients.join_all().await {
        for response in done.iter().map(|done| &done.response) {
            if is_served(response) {
                assert_eq!(response.text(), "true");
                served[replica] += 1;
            } else if source(response) != "api" {
                let wait = assert_rate_limited(response);
                assert!((1..=30).contains(&wait), "{wait}");
            }
        }
    }
    served
}

/// Returns true if a command of Redis has failed, as on a machine that stood still for half a second.
async fn has_redis_failed(replicas: &[Harness]) -> bool {
    for harness in replicas {
        let metrics = harness.service.admin("/metrics").await.body;
        if metrics.contains("gas_suggestion_redis_failures_total{") {
            return true;
        }
    }
    false
}

async fn total_count(replicas: &[Harness], outcome: &str) -> u64 {
    let name = format!("gas_suggestion_delegation_budget_total{{outcome=\"{outcome}\"}}");
    let mut all = 0;
    for harness in replicas {
        all += harness.service.count(&name).await;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_one_api_limit() {
    for _ in 0..3 {
        let (api, _redis, replicas) = start("api").await;
        // Requests take longer to reach the API than a call to Redis takes.
        api.set_delay(Duration::from_millis(100));
        let burst = load(&replicas, 1, 1).await.iter().sum::<usize>();
        let first = api.request_count();
        load(&replicas, 22, 2).await;
        if has_redis_failed(&replicas).await {
            // The replica has had a window of its own.
            api.forget_rejected_requests();
            continue;
        }
        assert_eq!((burst, first), (25, 25), "of 100 look-ups");
        let requests = api.request_count();
        let most = max_requests_per_window(&api.requests());
        assert!(most <= 25, "{most} in a window");
        // The replicas together use up three windows.
        assert!((60..=75).contains(&requests), "{requests}");
        assert_eq!(total_count(&replicas, "shared").await, u64::try_from(requests).unwrap());
        assert_eq!(total_count(&replicas, "local").await, 0);
        return;
    }
    panic!("a command of Redis failed in each of three runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_replica_count_without_redis_too() {
    let (api, redis, replicas) = start("api").await;
    assert_eq!(load(&replicas[..1], 2, 1).await, [25]);
    redis.kill();
    wait_for_redis(&replicas, 0).await;
    assert_eq!(load(&replicas[..1], 1, 2).await, [0], "what Redis granted counts without Redis");
    redis.start_again();
    let clients = u64::try_from(REPLICAS).unwrap();
    wait_until("connections", async || redis.info("connected_clients") > clients).await;
    assert_eq!(load(&replicas[..1], 1, 3).await, [0], "and with an empty Redis");
    assert_eq!(api.request_count(), 25);
}

#[tokio::test]
async fn chain_is_read_without_redis_if_it_is_the_fallback() {
    let (api, redis, replicas) = start("api-then-chain").await;
    assert_eq!(source(&replicas[0].get(&check(1)).await), "api");
    redis.kill();
    wait_for_redis(&replicas, 0).await;
    for replica in &replicas {
        assert_eq!(source(&replica.get(&check(2)).await), "chain");
    }
    assert_eq!(api.request_count(), 1);
}

#[tokio::test]
async fn foreign_values_and_requests_from_before_a_clock_change_do_not_count() {
    let (_api, redis, replicas) = start("api").await;
    assert_eq!(replicas[0].get(&check(1)).await.status(), 200);
    let key = redis_key(&redis, ":requests").unwrap();
    redis.command(&[b"SET".as_slice(), &key, b"foreign"]);
    assert_eq!(replicas[1].get(&check(2)).await.status(), 200);
    assert_eq!(total_count(&replicas, "shared").await, 2);
    let in_an_hour = (redis.time_micros() / 1000 + 3_600_000).to_string();
    for request in 0..25 {
        let member = format!("old-{request}");
        redis.command(&[b"ZADD".as_slice(), &key, in_an_hour.as_bytes(), member.as_bytes()]);
    }
    assert_eq!(replicas[1].get(&check(3)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_429_pauses_every_replica_and_is_no_failure_of_redis() {
    let (api, redis, replicas) = start("api").await;
    let body = "{\"error\":\"slow down\"}";
    api.set_response_with("check/all", 429, &[("retry-after", "0")], body);
    assert_eq!(replicas[0].get(&check(1)).await.status(), 429);
    api.set_response("check/all", "true");
    // Sent over the same connection as the pause, of no length.
    assert_eq!(replicas[0].get(&check(2)).await.status(), 200);
    api.set_response_with("check/all", 429, &[("retry-after", "4")], body);
    assert_eq!(replicas[0].get(&check(3)).await.status(), 429);
    let paused_at = Instant::now();
    api.set_response("check/all", "true");
    wait_until("the pause in Redis", async || redis_key(&redis, ":pause").is_some()).await;
    for (number, harness) in replicas.iter().enumerate() {
        let wait = assert_rate_limited(&harness.get(&check(10 + number)).await);
        assert!((3..=4).contains(&wait), "{wait}");
    }
    assert_eq!(api.request_count(), 3);
    wait_for_redis(&replicas, 1).await;
    let metrics = replicas[0].service.admin("/metrics").await.body;
    assert!(!metrics.contains("gas_suggestion_redis_failures_total{"), "{metrics}");
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(paused_at.elapsed())).await;
    for (number, harness) in replicas.iter().enumerate() {
        assert_eq!(harness.get(&check(20 + number)).await.status(), 200);
    }
}
