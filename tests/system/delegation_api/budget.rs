//! The rate limit of API requests without a key.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::delegation_service::{Harness, address, assert_rate_limited, check};
use crate::http_message::{Message, get};
use crate::mock_delegate_api::ReceivedRequest;
use crate::raw_client::{RawClient, exchange};

const WINDOW: Duration = Duration::from_secs(10);
/// Resolution of `Retry-After`. A refusal comes sooner.
const ONE_SECOND: Duration = Duration::from_secs(1);
/// Delay that a busy machine may add.
const TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct FinishedLookUp {
    started_at: Instant,
    finished_at: Instant,
    response: Message,
}

/// Sends look-ups from this address on one connection, `rounds` with this pause between them. `number` returns the
/// number of the look-up in a round.
async fn send_paced(
    from: Ipv4Addr,
    service: SocketAddr,
    pause: Duration,
    rounds: usize,
    number: impl Fn(usize) -> usize,
) -> Vec<FinishedLookUp> {
    let mut connection = RawClient::connect_from(from, service).await;
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut done = Vec::new();
    for round in 0..rounds {
        ticks.tick().await;
        let started_at = Instant::now();
        let response = connection.request(get(&check(number(round)), "")).await;
        done.push(FinishedLookUp { started_at, finished_at: Instant::now(), response });
    }
    done
}

/// Sends 500 look-ups in 10 s from 20 clients. Two in five repeat one of four popular look-ups.
async fn load(service: SocketAddr) -> Vec<FinishedLookUp> {
    let mut clients = JoinSet::new();
    for client in 0..20_usize {
        let from = Ipv4Addr::new(127, 0, 0, u8::try_from(client).unwrap() + 10);
        let number = move |round| {
            let is_popular = (client + round) % 5 < 2;
            if is_popular { 2 + (client + round) % 4 } else { 1000 + client * 100 + round }
        };
        clients.spawn(send_paced(from, service, Duration::from_millis(400), 25, number));
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// Returns the largest number of requests in any window.
fn max_requests_per_window(requests: &[ReceivedRequest]) -> usize {
    let within = |from: Instant| {
        let later = requests.iter().filter(|one| one.at >= from);
        later.filter(|one| one.at.duration_since(from) < WINDOW).count()
    };
    requests.iter().map(|one| within(one.at)).max().unwrap_or_default()
}

/// Asserts that the `Retry-After` of a 429 is neither too short nor much too long. A slot becomes free when the 25th
/// latest request leaves the window. `requests` is in order of arrival.
fn check_refusal(done: &FinishedLookUp, requests: &[ReceivedRequest]) {
    let retry_after = Duration::from_secs(assert_rate_limited(&done.response));
    let arrived = |by: Instant| requests.iter().filter(|one| one.at <= by).count();
    // Some requests may still be on their way to the API.
    let soon = requests.iter().filter(|one| one.at <= done.finished_at + TOLERANCE).count();
    assert!(soon >= 25, "refused after {soon} requests");
    let free_after = |count: usize| requests[count.saturating_sub(25)].at + WINDOW;
    let free = free_after(arrived(done.finished_at));
    let retry_at = done.finished_at + retry_after;
    assert!(retry_at + ONE_SECOND >= free, "{:?} too early", free - retry_at);
    // Requests that were on their way have arrived by then.
    let latest = free_after(arrived(done.finished_at + ONE_SECOND)) + ONE_SECOND + TOLERANCE;
    let retry_at = done.started_at + retry_after;
    assert!(retry_at <= latest, "{:?} too late", retry_at - latest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_limit_holds_under_load_and_retry_after_is_accurate() {
    let (api, harness) = Harness::with_api("api", "").await;
    api.set_response("check/all", "true");
    let done = load(harness.service.address()).await;
    assert_eq!(done.len(), 500);
    let (served, refused): (Vec<_>, Vec<_>) =
        done.iter().partition(|done| is_served(&done.response));
    for done in &served {
        assert_eq!(done.response.text(), "true");
        assert_eq!(done.response.header("x-delegation-source"), "api");
    }
    let requests = api.requests();
    let count = requests.len();
    for done in &refused {
        check_refusal(done, &requests);
        let took = done.finished_at.duration_since(done.started_at);
        assert!(took < ONE_SECOND, "refused after {took:?}");
    }
    // The limit is used up, and repeated look-ups share a request.
    assert!((25..=50).contains(&count), "{count}");
    assert!(served.len() > count && refused.len() > 100, "{}", served.len());
    assert!(max_requests_per_window(&requests) <= 25);
    let mut counted = 0;
    for outcome in ["api", "cached", "coalesced", "budget_exhausted"] {
        counted += harness.lookup_count(outcome).await;
    }
    assert_eq!(counted, 500);
    for (outcome, count) in [("budget_exhausted", refused.len()), ("api", count)] {
        assert_eq!(harness.lookup_count(outcome).await, u64::try_from(count).unwrap(), "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_serves_every_look_up_beyond_the_api_limit() {
    let (api, harness) = Harness::with_api("api-then-chain", "").await;
    // The chain returns true.
    api.set_response("check/all", "false");
    let done = load(harness.service.address()).await;
    assert_eq!(done.len(), 500);
    let (mut from_api, mut from_chain) = (0, 0);
    for done in &done {
        let response = &done.response;
        match (response.status(), response.header("x-delegation-source"), response.text()) {
            (200, "api", "false") => from_api += 1,
            (200, "chain", "true") => from_chain += 1,
            other => panic!("{other:?}"),
        }
    }
    let (count, reads) = (api.request_count(), harness.reads());
    assert!((25..=50).contains(&count), "{count}");
    assert!(from_api >= count && from_chain >= reads && reads > 100, "{from_api} {from_chain}");
}

/// Sends as many look-ups at once as the API allows in a window.
fn first_window(service: SocketAddr) -> JoinSet<Message> {
    let send = |number: usize| async move {
        exchange(service, get(&check(1000 + number), "").as_bytes()).await.0.unwrap()
    };
    (0..25).map(send).collect()
}

fn is_served(response: &Message) -> bool {
    response.status() == 200
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_requests_do_not_exceed_the_api_limit() {
    let (api, harness) = Harness::with_api("api", "").await;
    // The first 25 requests take 2 s to reach the API, later ones no time.
    api.set_delay(Duration::from_secs(2));
    let service = harness.service.address();
    assert!(first_window(service).join_all().await.iter().all(is_served));
    api.set_delay(Duration::ZERO);
    let mut number = 2000;
    loop {
        let started_at = Instant::now();
        let response = RawClient::connect(service).await.request(get(&check(number), "")).await;
        number += 1;
        let done = FinishedLookUp { started_at, finished_at: Instant::now(), response };
        if done.response.status() == 429 {
            check_refusal(&done, &api.requests());
            // Continue until the second window has been used up too.
            if api.request_count() > 25 {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(api.request_count() > 25 && max_requests_per_window(&api.requests()) <= 25);
}

#[tokio::test]
async fn refusals_are_immediate_and_retry_after_holds_with_slow_requests() {
    let (api, harness) = Harness::with_api("api", "timeout = \"5s\"").await;
    api.hold("check/all");
    let in_flight = first_window(harness.service.address());
    api.wait_for_requests(25).await;
    tokio::time::sleep(ONE_SECOND).await;
    let mut wait = 0;
    for path in [format!("/registry/v2/{}", address(5)), check(2000)] {
        let started_at = Instant::now();
        let response = harness.get(&path).await;
        assert!(started_at.elapsed() < ONE_SECOND, "{:?}", started_at.elapsed());
        wait = assert_rate_limited(&response);
        let problem = response.problem();
        assert_eq!(problem["title"], "Too Many Requests");
        assert_eq!(problem["detail"], "delegation API rate limit reached; retry later");
        for name in ["x-delegation-source", "age"] {
            assert!(!response.has_header(name), "{response:#?}");
        }
    }
    let retry_at = Instant::now() + Duration::from_secs(wait);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    api.release();
    assert!(in_flight.join_all().await.iter().all(is_served));
    tokio::time::sleep_until(retry_at.into()).await;
    let response = harness.get(&check(2000)).await;
    assert_eq!((response.status(), response.text()), (200, "false"), "{response:#?}");
}
