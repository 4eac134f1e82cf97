//! How often the API is asked without a key by replicas that share what it allows through Redis.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::budget::most_in_a_window;
use super::{Stage, check};
use crate::delegate_api::DelegateApi;
use crate::raw::{Connection, PATIENCE, get};
use crate::replicas::redis::Redis;

const REPLICAS: u64 = 4;
/// By then all replicas have told Redis what they hold, which gives nothing before.
const SETTLING: Duration = Duration::from_secs(4);
/// By then replicas that are there know how many there are.
const STEADY: Duration = Duration::from_secs(6);
/// By then a replica that has lost Redis goes on with its share.
const CLOSURE: Duration = Duration::from_secs(17);

/// So many that share, in front of an API.
async fn start(api: &DelegateApi, redis: &Redis) -> Vec<Stage> {
    api.say("check/all", "true");
    let more = format!("cache_ttl = \"0s\"\n[redis]\nurl = \"{}\"", redis.url(0));
    let mut stages = Vec::new();
    for _ in 0..REPLICAS {
        stages.push(Stage::before(&api.url(), "api", &more).await);
    }
    until_known(redis, i64::try_from(REPLICAS).unwrap()).await;
    tokio::time::sleep(SETTLING).await;
    stages
}

/// Waits until this many replicas are known in Redis.
async fn until_known(redis: &Redis, count: i64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let keys = redis.keys("gas:v1:{delegation:");
        let replicas = keys.iter().find(|key| key.ends_with(b":replicas"));
        let known = replicas.map(|key| redis.say(&[b"ZCARD".as_slice(), key]));
        if known == Some(crate::replicas::redis::Reply::Integer(count)) {
            return;
        }
        assert!(Instant::now() < deadline, "{known:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// 25 look-ups a second at each, no two of which are alike. How many were answered by each; all others were
/// told when to come back.
async fn load(stages: &[Stage], seconds: usize, salt: usize) -> Vec<usize> {
    let mut clients = JoinSet::new();
    for (replica, stage) in stages.iter().enumerate() {
        for client in 0..5 {
            let address = stage.service.address();
            clients.spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut pace = tokio::time::interval(Duration::from_millis(200));
                pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
                let mut answered = 0;
                for round in 0..5 * seconds {
                    pace.tick().await;
                    let number = ((salt * 10 + replica) * 10 + client) * 10_000 + round;
                    let answer = connection.ask(get(&check(number), "")).await;
                    match answer.outcome() {
                        _ if answer.status == 200 => {
                            assert_eq!(answer.body, "true");
                            answered += 1;
                        }
                        outcome => {
                            assert_eq!(outcome, (429, "rate_limited".into()), "{answer:#?}");
                            let wait: u64 = answer.header("retry-after").parse().unwrap();
                            assert!((1..=30).contains(&wait), "{wait}");
                        }
                    }
                }
                (replica, answered)
            });
        }
    }
    let mut answered = vec![0; stages.len()];
    for (replica, count) in clients.join_all().await {
        answered[replica] += count;
    }
    answered
}

async fn counts(stages: &[Stage], outcome: &str) -> u64 {
    let name = format!("gas_suggestion_delegation_budget_total{{outcome=\"{outcome}\"}}");
    let mut all = 0;
    for stage in stages {
        all += stage.service.count(&name).await;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_together_ask_no_more_often_than_one_may() {
    let (api, redis) = (DelegateApi::start().await, Redis::start());
    let stages = start(&api, &redis).await;
    // Some of it on its way for longer than it takes to ask Redis.
    api.is_away(Duration::from_millis(100));
    let began = Instant::now();
    let answered = load(&stages, 32, 1).await;
    let (requests, took) = (api.count(), began.elapsed());
    let most = most_in_a_window(&api.asked());
    println!(
        "{answered:?} answered of 800 each, {requests} requests in {took:?}, {most} in a window"
    );
    assert!(most <= 25, "{most} in a window");
    // Three windows are nearly used up, whoever does it.
    assert!((65..=100).contains(&requests), "{requests}");
    assert_eq!(answered.iter().sum::<usize>(), requests);
    assert_eq!(counts(&stages, "shared").await, u64::try_from(requests).unwrap());
    assert_eq!(counts(&stages, "local").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_each_replica_has_its_share_and_all_is_shared_again_when_it_is_back() {
    let (api, redis) = (DelegateApi::start().await, Redis::start());
    let stages = start(&api, &redis).await;
    tokio::time::sleep(STEADY).await;
    // One has used all that there is, which the others do not know.
    let answered = load(&stages[..1], 2, 1).await;
    assert_eq!(answered, [25]);
    redis.kill();
    let lost = Instant::now();
    assert_eq!(load(&stages, 4, 2).await, [0; 4], "the window is not over");
    tokio::time::sleep(CLOSURE.saturating_sub(lost.elapsed())).await;
    let answered = load(&stages, 4, 3).await;
    assert_eq!(answered, [25 / 4; 4], "neither nothing nor everything");
    assert_eq!(counts(&stages, "local").await, 24);
    redis.start_again();
    let answered = load(&stages, 25, 4).await;
    let most = most_in_a_window(&api.asked());
    println!("then {answered:?} answered of 625 each, {most} in a window");
    assert!(most <= 25, "{most} in a window");
    assert!(answered.iter().sum::<usize>() >= 40, "{answered:?}");
    assert!(counts(&stages, "shared").await >= 25 + 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_has_lost_is_told_to_it_again_before_it_gives_more() {
    let (api, redis) = (DelegateApi::start().await, Redis::start());
    let stages = start(&api, &redis).await;
    assert_eq!(load(&stages[..1], 2, 1).await, [25]);
    redis.say(&["FLUSHALL"]);
    let answered = load(&stages, 5, 2).await;
    assert_eq!(answered, [0; 4], "25 in all");
    // What was held is free again, and there is more.
    let answered = load(&stages, 12, 3).await;
    let most = most_in_a_window(&api.asked());
    println!("then {answered:?} answered, {most} in a window");
    assert!(most <= 25 && answered.iter().sum::<usize>() >= 25, "{answered:?}, {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_one_replica_has_to_let_be_is_let_be_by_all() {
    let (api, redis) = (DelegateApi::start().await, Redis::start());
    let stages = start(&api, &redis).await;
    api.say_with("check/all", 429, &[("retry-after", "4")], "{\"error\":\"slow down\"}");
    assert_eq!(stages[0].get(&check(1)).await.status(), 429);
    let since = Instant::now();
    api.say("check/all", "true");
    let deadline = since + PATIENCE;
    while redis.keys("gas:v1:{delegation:").iter().all(|key| !key.ends_with(b":closed")) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (number, stage) in stages.iter().enumerate() {
        let answer = stage.get(&check(10 + number)).await;
        assert_eq!(answer.status(), 429, "{answer:#?}");
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((3..=4).contains(&wait), "{wait}");
    }
    assert_eq!(api.count(), 1);
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(since.elapsed())).await;
    for (number, stage) in stages.iter().enumerate() {
        assert_eq!(stage.get(&check(20 + number)).await.status(), 200);
    }
}
