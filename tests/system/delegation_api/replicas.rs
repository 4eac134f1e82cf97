//! Replicas share the API's rate limit through Redis.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::budget::max_requests_per_window;
use crate::delegation_service::{Harness, check};
use crate::http_message::get;
use crate::mock_delegate_api::MockDelegateApi;
use crate::raw_client::{RawClient, TIMEOUT};
use crate::replicas::redis::Redis;

const REPLICAS: u64 = 4;
/// Time until all replicas have sent their reservations to Redis, which grants no permit for the first 3 s.
const REGISTRATION_TIME: Duration = Duration::from_secs(4);
/// Time until the replicas rely on their number, which has to be stable for 5 s.
const DISCOVERY_TIME: Duration = Duration::from_secs(6);
/// Time until a replica that has lost Redis uses its own quota, after a cool-down of 15 s.
const TAKEOVER_TIME: Duration = Duration::from_secs(17);

/// Starts [`REPLICAS`] replicas that share the limit of `api`.
async fn start(api: &MockDelegateApi, redis: &Redis) -> Vec<Harness> {
    api.set_response("check/all", "true");
    let more = format!("cache_ttl = \"0s\"\n[redis]\nurl = \"{}\"", redis.url(0));
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(Harness::start(&api.url(), "api", &more).await);
    }
    wait_for_registered(redis, i64::try_from(REPLICAS).unwrap()).await;
    tokio::time::sleep(REGISTRATION_TIME).await;
    replicas
}

/// Waits until this many replicas are registered in Redis.
async fn wait_for_registered(redis: &Redis, count: i64) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let keys = redis.keys("gas:v1:{delegation:");
        let replicas = keys.iter().find(|key| key.ends_with(b":replicas"));
        let registered = replicas.map(|key| redis.command(&[b"ZCARD".as_slice(), key]));
        if registered == Some(crate::replicas::redis::Reply::Integer(count)) {
            return;
        }
        assert!(Instant::now() < deadline, "{registered:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends 25 distinct look-ups a second to each replica, and returns how many each one served. Asserts that all others
/// get a 429 with a valid `Retry-After`.
async fn load(replicas: &[Harness], seconds: usize, salt: usize) -> Vec<usize> {
    let mut clients = JoinSet::new();
    for (replica, harness) in replicas.iter().enumerate() {
        for client in 0..5 {
            let address = harness.service.address();
            clients.spawn(async move {
                let mut connection = RawClient::connect(address).await;
                let mut ticks = tokio::time::interval(Duration::from_millis(200));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                let mut served = 0;
                for round in 0..5 * seconds {
                    ticks.tick().await;
                    let number = ((salt * 10 + replica) * 10 + client) * 10_000 + round;
                    let response = connection.request(get(&check(number), "")).await;
                    match response.outcome() {
                        _ if response.status() == 200 => {
                            assert_eq!(response.text(), "true");
                            served += 1;
                        }
                        outcome => {
                            assert_eq!(outcome, (429, "rate_limited".into()), "{response:#?}");
                            let wait: u64 = response.header("retry-after").parse().unwrap();
                            assert!((1..=30).contains(&wait), "{wait}");
                        }
                    }
                }
                (replica, served)
            });
        }
    }
    let mut served = vec![0; replicas.len()];
    for (replica, count) in clients.join_all().await {
        served[replica] += count;
    }
    served
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
    let (api, redis) = (MockDelegateApi::start().await, Redis::start());
    let replicas = start(&api, &redis).await;
    // Requests take longer to reach the API than a call to Redis takes.
    api.set_delay(Duration::from_millis(100));
    let started = Instant::now();
    let served = load(&replicas, 32, 1).await;
    let (requests, took) = (api.request_count(), started.elapsed());
    let most = max_requests_per_window(&api.requests());
    println!("{served:?} served of 800 each, {requests} requests in {took:?}, {most} in a window");
    assert!(most <= 25, "{most} in a window");
    // The replicas together nearly use up three windows.
    assert!((65..=100).contains(&requests), "{requests}");
    assert_eq!(served.iter().sum::<usize>(), requests);
    assert_eq!(total_count(&replicas, "shared").await, u64::try_from(requests).unwrap());
    assert_eq!(total_count(&replicas, "local").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_use_their_own_quota_while_redis_is_down() {
    let (api, redis) = (MockDelegateApi::start().await, Redis::start());
    let replicas = start(&api, &redis).await;
    tokio::time::sleep(DISCOVERY_TIME).await;
    // One replica has used the whole limit.
    let served = load(&replicas[..1], 2, 1).await;
    assert_eq!(served, [25]);
    redis.kill();
    let lost = Instant::now();
    assert_eq!(load(&replicas, 4, 2).await, [0; 4], "the window has not ended");
    tokio::time::sleep(TAKEOVER_TIME.saturating_sub(lost.elapsed())).await;
    let served = load(&replicas, 4, 3).await;
    assert_eq!(served, [25 / 4; 4], "each replica has its quota");
    assert_eq!(total_count(&replicas, "local").await, 24);
    redis.start_again();
    let served = load(&replicas, 25, 4).await;
    let most = max_requests_per_window(&api.requests());
    println!("then {served:?} served of 625 each, {most} in a window");
    assert!(most <= 25, "{most} in a window");
    assert!(served.iter().sum::<usize>() >= 40, "{served:?}");
    assert!(total_count(&replicas, "shared").await >= 25 + 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_redis_relearns_reservations_before_granting_more() {
    let (api, redis) = (MockDelegateApi::start().await, Redis::start());
    let replicas = start(&api, &redis).await;
    assert_eq!(load(&replicas[..1], 2, 1).await, [25]);
    redis.command(&["FLUSHALL"]);
    let served = load(&replicas, 5, 2).await;
    assert_eq!(served, [0; 4], "the limit was used up before");
    // The reservations expire during this load, so the limit becomes available again.
    let served = load(&replicas, 12, 3).await;
    let most = max_requests_per_window(&api.requests());
    println!("then {served:?} served, {most} in a window");
    assert!(most <= 25 && served.iter().sum::<usize>() >= 25, "{served:?}, {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_429_pauses_every_replica() {
    let (api, redis) = (MockDelegateApi::start().await, Redis::start());
    let replicas = start(&api, &redis).await;
    api.set_response_with("check/all", 429, &[("retry-after", "4")], "{\"error\":\"slow down\"}");
    assert_eq!(replicas[0].get(&check(1)).await.status(), 429);
    let paused_at = Instant::now();
    api.set_response("check/all", "true");
    let deadline = paused_at + TIMEOUT;
    while redis.keys("gas:v1:{delegation:").iter().all(|key| !key.ends_with(b":closed")) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (number, harness) in replicas.iter().enumerate() {
        let response = harness.get(&check(10 + number)).await;
        assert_eq!(response.status(), 429, "{response:#?}");
        let wait: u64 = response.header("retry-after").parse().unwrap();
        assert!((3..=4).contains(&wait), "{wait}");
    }
    assert_eq!(api.request_count(), 1);
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(paused_at.elapsed())).await;
    for (number, harness) in replicas.iter().enumerate() {
        assert_eq!(harness.get(&check(20 + number)).await.status(), 200);
    }
}
