//! Coalesced look-ups, and back-off after a 429 of the API.

use std::time::{Duration, Instant};

use crate::delegation_service::{HOT, Harness, VAULT, assert_rate_limited, check, source};
use crate::http_message::get;
use crate::mock_delegate_api::MockDelegateApi;
use crate::raw_client::RawClient;

/// Sends a look-up on its own connection.
async fn send_look_up(harness: &Harness, path: &str) -> RawClient {
    let mut connection = RawClient::connect(harness.service.address()).await;
    // The service has accepted the connection.
    assert_eq!(connection.request(get("/livez", "")).await.status(), 200);
    connection.send(get(path, "")).await;
    connection
}

/// Requests each path on its own connection, and holds back the API's response until all requests were sent.
async fn send_concurrently(
    harness: &Harness,
    api: &MockDelegateApi,
    paths: &[String],
) -> Vec<(u16, String)> {
    let before = api.request_count();
    let mut connections = Vec::new();
    for path in paths {
        connections.push(send_look_up(harness, path).await);
    }
    api.wait_for_requests(before + 1).await;
    // By the time of these responses the service has read the requests sent before.
    for _ in 0..5 {
        assert_eq!(harness.get("/livez").await.status(), 200);
    }
    api.release();
    let mut responses = Vec::new();
    for mut connection in connections {
        let response = connection.read_response().await.unwrap().unwrap();
        responses.push((response.status(), response.text().to_owned()));
    }
    responses
}

#[tokio::test]
async fn concurrent_identical_look_ups_share_a_response_or_an_error() {
    for (status, body) in [(200, "true"), (500, "{\"error\":\"no\"}")] {
        let (api, harness) = Harness::with_api("api", "cache_ttl = \"0s\"").await;
        api.set_response_with("check/all", status, &[], body);
        api.hold("check/all");
        let spellings = [HOT.to_owned(), HOT.to_lowercase()];
        let path = |to: &String| format!("/registry/v2/check/all?to={to}&from={VAULT}");
        let paths: Vec<_> = spellings.iter().cycle().take(20).map(path).collect();
        let responses = send_concurrently(&harness, &api, &paths).await;
        assert_eq!(responses, vec![(status, body.to_owned()); 20]);
        assert_eq!(api.request_count(), 1, "{status}");
        if status == 200 {
            assert_eq!(harness.lookup_count("api").await, 1);
            assert_eq!(harness.lookup_count("coalesced").await, 19);
        }
    }
}

#[tokio::test]
async fn concurrent_list_directions_are_coalesced() {
    let (api, harness) = Harness::with_api("api", "cache_ttl = \"0s\"").await;
    let to = format!("{{\"from\":\"{HOT}\",\"to\":\"{VAULT}\"}}");
    let from = format!("{{\"from\":\"{VAULT}\",\"to\":\"{HOT}\"}}");
    api.set_response(VAULT, format!("[{to},{from}]"));
    api.hold(VAULT);
    let paths =
        ["", "?direction=incoming", "?direction=outgoing", "?direction=incoming&chainId=0x7e4"];
    let paths = paths.map(|query| format!("/registry/v2/{VAULT}{query}"));
    let expected = [&format!("{to},{from}"), &to, &from, &to];
    assert_eq!(
        send_concurrently(&harness, &api, &paths).await,
        expected.map(|members| (200, format!("[{members}]")))
    );
    assert_eq!(api.request_count(), 1);
}

#[tokio::test]
async fn retry_after_of_the_api_is_honoured() {
    const PAUSE: Duration = Duration::from_secs(1);
    let cases = [("api", 429), ("api-then-chain", 200)].map(async |(configured_source, code)| {
        let (api, harness) = Harness::with_api(configured_source, "").await;
        let body_text = "{\"error\":\"Too many requests\", \"limit\":25}";
        api.set_response_with("check/all", 429, &[("retry-after", "1")], body_text);
        let started = Instant::now();
        let response = harness.get(&check(1)).await;
        assert_eq!(response.status(), code);
        if configured_source == "api" {
            assert_eq!((response.text(), source(&response)), (body_text, "api"));
            assert_eq!(response.header("retry-after"), "1");
            assert_eq!(response.header("cache-control"), "no-store");
        }
        api.set_response("check/all", "false");
        let deadline = Instant::now() + PAUSE + Duration::from_secs(5);
        let mut refusals = 0;
        let response = loop {
            let response = harness.get(&check(2 + refusals)).await;
            if source(&response) == "api" {
                break response;
            }
            if configured_source == "api" {
                let wait = Duration::from_secs(assert_rate_limited(&response));
                let least = (started + PAUSE).saturating_duration_since(Instant::now());
                assert!(wait + Duration::from_millis(250) >= least && wait <= PAUSE, "{wait:?}");
            } else {
                assert_eq!((response.status(), source(&response)), (200, "chain"));
            }
            assert_eq!(api.request_count(), 1);
            refusals += 1;
            assert!(Instant::now() < deadline, "the API gets no further request");
        };
        assert_eq!((response.status(), response.text()), (200, "false"));
        assert!(refusals > 0);
        let requests = api.requests();
        let between = requests[1].at.duration_since(requests[0].at);
        assert!(between >= Duration::from_millis(990), "{between:?}");
    });
    futures_util::future::join_all(cases).await;
}

#[tokio::test]
async fn api_429_without_retry_after_pauses_for_one_window() {
    for (headers, body_text) in [
        (&[][..], "{\"error\":\"Too many requests\"}"),
        (&[("content-type", "text/html")], "<h1>429</h1>"),
        (&[("retry-after", "in a while")], "{}"),
    ] {
        let (api, harness) = Harness::with_api("api", "").await;
        api.set_response_with("check/all", 429, headers, body_text);
        let response = harness.get(&check(1)).await;
        if body_text.starts_with('<') {
            assert_eq!(response.outcome(), (502, "upstream_invalid".into()));
        } else {
            assert_eq!((response.status(), response.text()), (429, body_text));
            assert_eq!(response.header("retry-after"), "10");
        }
        let wait = assert_rate_limited(&harness.get(&check(2)).await);
        assert!((9..=10).contains(&wait), "{wait}");
        assert_eq!(api.request_count(), 1);
    }
}

#[tokio::test]
async fn coalesced_request_survives_its_first_client() {
    let (api, harness) = Harness::with_api("api", "").await;
    api.set_response("check/all", "true");
    api.hold("check/all");
    let first = send_look_up(&harness, &check(1)).await;
    api.wait_for_requests(1).await;
    let mut second = send_look_up(&harness, &check(1)).await;
    drop(first);
    // By the time of these responses the service has noticed the closed connection.
    for _ in 0..20 {
        assert_eq!(harness.get("/livez").await.status(), 200);
    }
    api.release();
    let response = second.read_response().await.unwrap().unwrap();
    assert_eq!((response.status(), response.text()), (200, "true"));
    assert_eq!(api.request_count(), 1);
    // The only client of the request disconnects, and the next client receives the response.
    api.hold("check/all");
    let only = send_look_up(&harness, &check(2)).await;
    api.wait_for_requests(2).await;
    drop(only);
    api.release();
    assert_eq!(harness.get(&check(2)).await.text(), "true");
    assert_eq!(api.request_count(), 2);
}

#[tokio::test]
async fn coalesced_look_ups_keep_the_first_deadline() {
    let (api, harness) = Harness::with_api("api", "timeout = \"2s\"").await;
    api.hold("check/all");
    let leaving = send_look_up(&harness, &check(1)).await;
    api.wait_for_requests(1).await;
    let started = Instant::now();
    let leave = async {
        tokio::time::sleep(Duration::from_millis(1800)).await;
        drop(leaving);
    };
    let path = check(1);
    let (response, ()) = tokio::join!(harness.get(&path), leave);
    assert_eq!(response.outcome(), (504, "upstream_timeout".into()));
    // A deadline of its own would end after 3.8 seconds.
    assert!(started.elapsed() < Duration::from_millis(3600), "{:?}", started.elapsed());
    assert_eq!(api.request_count(), 1);
    api.release();
}

#[tokio::test]
async fn cached_responses_are_served_while_the_api_is_paused() {
    let more = "timeout = \"500ms\"\ncache_ttl = \"1h\"";
    let (api, harness) = Harness::with_api("api-then-chain", more).await;
    api.set_response("check/all", "false");
    assert_eq!(source(&harness.get(&check(1)).await), "api");
    api.hold("check/all");
    let response = harness.get(&check(2)).await;
    assert_eq!((source(&response), response.text()), ("chain", "true"));
    api.release();
    for number in [3, 4] {
        let cached = harness.get(&check(1)).await;
        assert_eq!((source(&cached), cached.text()), ("api", "false"));
        let response = harness.get(&check(number)).await;
        assert_eq!((source(&response), response.text()), ("chain", "true"));
    }
    assert_eq!(api.request_count(), 2);
}
