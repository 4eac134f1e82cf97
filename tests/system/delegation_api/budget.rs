//! The rate limit of API requests without a key.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::delegation_service::{Harness, address, assert_rate_limited, check, source};
use crate::http_message::{Message, get};
use crate::mock_delegate_api::ReceivedRequest;
use crate::mock_upstream::{MockUpstream, Step};
use crate::raw_client::{RawClient, exchange, free_port};

const WINDOW: Duration = Duration::from_secs(10);
/// Longest wait of a look-up for a free slot.
const SLOT_WAIT: Duration = Duration::from_secs(1);
/// Delay that a busy machine may add.
const TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct FinishedLookUp {
    started_at: Instant,
    finished_at: Instant,
    response: Message,
}

impl FinishedLookUp {
    fn new(started_at: Instant, response: Message) -> Self {
        Self { started_at, finished_at: Instant::now(), response }
    }

    /// Asserts that the look-up was refused, and returns the `Retry-After`.
    fn retry_after(&self) -> Duration {
        Duration::from_secs(assert_rate_limited(&self.response))
    }
}

/// Sends 500 look-ups in 10 s from 20 clients. Two in five repeat one of four popular look-ups.
async fn load(service: SocketAddr) -> Vec<FinishedLookUp> {
    let mut clients = JoinSet::new();
    for client in 0..20_usize {
        clients.spawn(async move {
            let from = Ipv4Addr::new(127, 0, 0, u8::try_from(client).unwrap() + 10);
            let mut connection = RawClient::connect_from(from, service).await;
            let mut ticks = tokio::time::interval(Duration::from_millis(400));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut done = Vec::new();
            for round in 0..25 {
                ticks.tick().await;
                let is_popular = (client + round) % 5 < 2;
                let number =
                    if is_popular { 2 + (client + round) % 4 } else { 1000 + client * 100 + round };
                let started_at = Instant::now();
                let response = connection.request(get(&check(number), "")).await;
                done.push(FinishedLookUp::new(started_at, response));
            }
            done
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// Returns the largest number of requests in any window.
pub(super) fn max_requests_per_window(requests: &[ReceivedRequest]) -> usize {
    let within = |from: Instant| {
        let later = requests.iter().filter(|one| one.at >= from);
        later.filter(|one| one.at.duration_since(from) < WINDOW).count()
    };
    requests.iter().map(|one| within(one.at)).max().unwrap_or_default()
}

/// Asserts that the `Retry-After` of a 429 is neither too short nor much too long. A slot becomes free when the 25th
/// latest request leaves the window. `requests` is in order of arrival.
fn check_refusal(done: &FinishedLookUp, requests: &[ReceivedRequest]) {
    let retry_after = done.retry_after();
    let arrived = |by: Instant| requests.iter().filter(|one| one.at <= by).count();
    // Some requests may still be on their way to the API.
    let soon = requests.iter().filter(|one| one.at <= done.finished_at + TOLERANCE).count();
    assert!(soon >= 25, "refused after {soon} requests");
    let free_after = |count: usize| requests[count.saturating_sub(25)].at + WINDOW;
    let free = free_after(arrived(done.finished_at));
    let retry_at = done.finished_at + retry_after;
    assert!(retry_at + SLOT_WAIT >= free, "{:?} too early", free - retry_at);
    // Requests that were waiting for a slot have arrived by then.
    let latest =
        free_after(arrived(done.finished_at + SLOT_WAIT)) + Duration::from_secs(1) + TOLERANCE;
    let retry_at = done.started_at + retry_after;
    assert!(retry_at <= latest, "{:?} too late", retry_at - latest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_limit_holds_under_load_and_retry_after_is_accurate() {
    let (api, harness) = Harness::with_api("api", "").await;
    api.set_response("check/all", "true");
    let started = Instant::now();
    let done = load(harness.service.address()).await;
    println!("500 look-ups in {:?}", started.elapsed());
    assert_eq!(done.len(), 500);
    let (served, refused): (Vec<_>, Vec<_>) =
        done.iter().partition(|done| is_served(&done.response));
    for done in &served {
        assert_eq!(done.response.text(), "true");
        assert_eq!(done.response.header("x-delegation-source"), "api");
    }
    let requests = api.requests();
    let (count, most) = (requests.len(), max_requests_per_window(&requests));
    println!("{} served, {count} requests, at most {most} in a window", served.len());
    for done in &refused {
        check_refusal(done, &requests);
        let took = done.finished_at.duration_since(done.started_at);
        assert!(took < Duration::from_secs(1), "refused after {took:?}");
    }
    // The limit is used up, and repeated look-ups share a request.
    assert!((25..=50).contains(&count), "{count}");
    assert!(served.len() > count && refused.len() > 100, "{}", served.len());
    // A client that retries after `Retry-After` succeeds if no other client came in between.
    let mut more = 0;
    let wait = loop {
        let response = harness.get(&check(9000 + more)).await;
        more += 1;
        if !is_served(&response) {
            break assert_rate_limited(&response);
        }
        assert!(more <= 25, "the API limit was exceeded");
    };
    tokio::time::sleep(Duration::from_secs(wait)).await;
    let response = harness.get(&check(8999)).await;
    assert_eq!((response.status(), response.text()), (200, "true"), "{response:#?}");
    assert!(max_requests_per_window(&api.requests()) <= 25);
    let mut counted = 0;
    for outcome in ["api", "cached", "coalesced", "budget_exhausted"] {
        counted += harness.lookup_count(outcome).await;
    }
    assert_eq!(counted, u64::try_from(501 + more).unwrap());
    for (outcome, count) in [("budget_exhausted", refused.len() + 1), ("api", api.request_count())]
    {
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
    let (requests, reads) = (api.requests(), harness.reads());
    let (count, most) = (requests.len(), max_requests_per_window(&requests));
    println!("{from_api} by the API in {count} requests, at most {most} in a window");
    println!("{from_chain} by the chain in {reads} reads");
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
        let done = FinishedLookUp::new(started_at, response);
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
async fn look_ups_beyond_the_limit_are_refused_at_once() {
    let (api, harness) = Harness::with_api("api", "").await;
    for number in 0..25 {
        assert_eq!(harness.get(&check(1000 + number)).await.status(), 200);
    }
    let first = api.requests()[0].at;
    for path in [check(2000), format!("/registry/v2/{}", address(5))] {
        let started_at = Instant::now();
        let response = harness.get(&path).await;
        assert!(started_at.elapsed() < Duration::from_secs(1), "{:?}", started_at.elapsed());
        let wait = assert_rate_limited(&response);
        let problem = response.problem();
        assert_eq!(problem["title"], "Too Many Requests");
        assert_eq!(problem["detail"], "delegation API rate limit reached; retry later");
        let free = (first + WINDOW).duration_since(Instant::now());
        assert!(wait <= 10 && Duration::from_secs(wait) + SLOT_WAIT >= free, "{wait} {free:?}");
        for name in ["x-delegation-source", "age"] {
            assert!(!response.has_header(name), "{response:#?}");
        }
    }
    // Cached responses are still served.
    let response = harness.get(&check(1024)).await;
    assert_eq!((response.status(), source(&response)), (200, "api"));
    assert_eq!(api.request_count(), 25);
}

#[tokio::test]
async fn unsent_requests_keep_their_slots_free_and_failed_ones_use_them() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let harness = Harness::start(&url, "api", "timeout = \"1s\"").await;
    for number in 0..60 {
        let response = harness.get(&check(number)).await;
        assert_eq!(response.outcome(), (502, "upstream_unreachable".into()));
    }
    let upstream = MockUpstream::start_at(port, vec![Step::ReadRequest, Step::Close]).await;
    for number in 0..25 {
        let response = harness.get(&check(number)).await;
        assert_eq!(response.outcome(), (502, "upstream_unreachable".into()), "{number}");
    }
    assert_rate_limited(&harness.get(&check(100)).await);
    assert_eq!(upstream.connection_count(), 25);
}

#[tokio::test]
async fn retry_after_holds_while_requests_are_in_flight() {
    let (api, harness) = Harness::with_api("api", "timeout = \"3s\"").await;
    api.hold("check/all");
    let in_flight = first_window(harness.service.address());
    api.wait_for_requests(25).await;
    // The requests now take longer than the latency that the service assumes until it has measured one.
    tokio::time::sleep(SLOT_WAIT).await;
    let wait = assert_rate_limited(&harness.get(&check(2000)).await);
    let retry_at = Instant::now() + Duration::from_secs(wait);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    api.release();
    assert!(in_flight.join_all().await.iter().all(is_served));
    tokio::time::sleep_until(retry_at.into()).await;
    let response = harness.get(&check(2000)).await;
    assert_eq!((response.status(), response.text()), (200, "false"), "{response:#?}");
}
