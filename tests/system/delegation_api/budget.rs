//! The rate limit of API requests without a key. The unit tests of `delegation/budget.rs` have its times.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::delegation_service::{Harness, address, assert_rate_limited, check, source};
use crate::http_message::{Message, get};
use crate::raw_client::exchange;

const LIMIT: usize = 25;
const WINDOW: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends as many look-ups at once as the API allows in a window.
fn send_first_window(harness: &Harness) -> JoinSet<Message> {
    let service = harness.service.address();
    let send = |number: usize| async move {
        exchange(service, get(&check(number), "").as_bytes()).await.0.unwrap()
    };
    (0..LIMIT).map(send).collect()
}

/// The mock API fails the test if it receives more requests than its limit.
#[tokio::test]
async fn requests_count_in_flight_and_for_a_window_after_their_response() {
    let more = format!("timeout = \"{}s\"", TIMEOUT.as_secs());
    let (api, harness) = Harness::with_api("api", &more).await;
    api.set_response("check/all", "true");
    api.hold("check/all");
    let sent_at = Instant::now();
    let in_flight = send_first_window(&harness);
    api.wait_for_requests(LIMIT).await;
    let check_refusal = async |path: &str, expected: Duration, since: Instant| {
        let started_at = Instant::now();
        let response = harness.get(path).await;
        assert!(started_at.elapsed() < Duration::from_secs(1), "{:?}", started_at.elapsed());
        let wait = Duration::from_secs(assert_rate_limited(&response));
        // `Retry-After` is neither too short nor more than its resolution too long.
        assert!(wait <= expected && Instant::now() + wait >= since + expected, "{wait:?}");
        let problem = response.problem();
        assert_eq!(problem["title"], "Too Many Requests");
        assert_eq!(problem["detail"], "delegation API rate limit reached; retry later");
        for name in ["x-delegation-source", "age"] {
            assert!(!response.has_header(name), "{response:#?}");
        }
    };
    for path in [format!("/registry/v2/{}", address(5)), check(1000)] {
        check_refusal(&path, TIMEOUT + WINDOW, sent_at).await;
    }
    let released_at = Instant::now();
    api.release();
    for response in in_flight.join_all().await {
        let found = (response.status(), response.text(), source(&response));
        assert_eq!(found, (200, "true", "api"), "{response:#?}");
    }
    check_refusal(&check(1000), WINDOW, released_at).await;
    // What is cached costs nothing.
    assert_eq!(harness.get(&check(0)).await.text(), "true");
    for (outcome, count) in [("api", 25), ("budget_exhausted", 3), ("cached", 1), ("coalesced", 0)]
    {
        assert_eq!(harness.lookup_count(outcome).await, count, "{outcome}");
    }
}

#[tokio::test]
async fn chain_serves_every_look_up_beyond_the_api_limit() {
    let (api, harness) = Harness::with_api("api-then-chain", "").await;
    // The chain returns true.
    api.set_response("check/all", "false");
    let (mut from_api, mut from_chain) = (0, 0);
    for number in 0..100 {
        let response = harness.get(&check(number)).await;
        match (response.status(), source(&response), response.text()) {
            (200, "api", "false") => from_api += 1,
            (200, "chain", "true") => from_chain += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((from_api, api.request_count()), (LIMIT, LIMIT));
    assert_eq!((from_chain, harness.reads()), (75, 75));
}
