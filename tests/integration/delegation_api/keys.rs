//! API keys: the configured key, client keys, and none.

use std::net::Ipv4Addr;

use crate::delegation_service::{Harness, VAULT, assert_rate_limited, check, check_at_api, source};
use crate::http_message::{Message, get};
use crate::mock_delegate_api::MockDelegateApi;
use crate::raw_client::RawClient;

const CLIENT_KEY_HEADER: &str = "X-API-KEY: mine\r\n";

/// Returns the keys of the API's requests, with "none" for a request without a key.
fn keys(api: &MockDelegateApi) -> Vec<String> {
    let key = |key: Option<String>| key.unwrap_or_else(|| "none".into());
    api.requests().into_iter().map(|request| key(request.key)).collect()
}

/// Sends 30 distinct look-ups. The limit allows 25 in a window.
async fn send_thirty(harness: &Harness, headers: &str) -> Vec<Message> {
    let mut responses = Vec::new();
    for number in 1000..1030 {
        responses.push(harness.get_with(&check(number), headers).await);
    }
    responses
}

#[tokio::test]
async fn a_key_lifts_the_limit_and_uses_none_of_it() {
    for (configured, headers, key) in
        [("api_key = \"ours\"", "", "ours"), ("", CLIENT_KEY_HEADER, "mine")]
    {
        let (api, harness) = Harness::with_api("api", configured).await;
        for response in send_thirty(&harness, headers).await {
            assert_eq!((response.status(), source(&response)), (200, "api"), "{response:#?}");
        }
        assert_eq!(keys(&api), [key; 30]);
        if configured.is_empty() {
            for number in 0..25 {
                assert_eq!(harness.get(&check(number)).await.status(), 200);
            }
            assert_rate_limited(&harness.get(&check(25)).await);
            assert_eq!(harness.get_with(&check(25), headers).await.status(), 200);
        } else {
            // From the cache.
            assert_eq!(harness.get(&check(1000)).await.status(), 200);
            assert_eq!(api.request_count(), 30);
        }
    }
}

#[tokio::test]
async fn only_the_clients_key_or_the_configured_one_is_forwarded() {
    let others = "Cookie: a=b\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\n\
        Forwarded: for=192.0.2.1\r\nOrigin: http://a.example\r\nReferer: http://a.example/\r\n\
        User-Agent: test\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\n\
        If-None-Match: *\r\nContent-Type: text/plain\r\nX-Request-Id: a\r\nTraceparent: 00-1\r\n\
        Connection: x-api-key\r\nX-API-KEY: mine\r\n";
    for (configured, own) in [("ours", "ours"), ("", "none")] {
        let more = format!("api_key = \"{configured}\"\ncache_ttl = \"0s\"");
        let (api, harness) = Harness::with_api("api", &more).await;
        for (headers, key) in [
            ("", own),
            ("X-API-KEY:\r\n", own),
            ("X-API-KEY:   \r\n", own),
            ("X-API-KEY:\r\nX-API-KEY:\r\n", own),
            ("X-API-KEY:\r\nX-API-KEY: other\r\n", "other"),
            ("x-api-key: lower\r\n", "lower"),
            (others, "mine"),
        ] {
            for path in [check(1), format!("/registry/v2/{VAULT}")] {
                let response = harness.get_with(&path, headers).await;
                assert_eq!((response.status(), source(&response)), (200, "api"), "{headers:?}");
                assert_eq!(keys(&api).last().unwrap(), key, "{headers:?}");
            }
        }
        let sent = api.request_count();
        for headers in ["X-API-KEY: a\r\nX-API-KEY: b\r\n", "X-API-KEY: a\r\nx-api-key: a\r\n"] {
            let response = harness.get_with(&check(1), headers).await;
            assert_eq!(response.outcome(), (400, "invalid_parameter".into()));
            assert_eq!(response.problem()["detail"], "`X-API-KEY` must be given once");
        }
        assert_eq!((api.request_count(), harness.reads()), (sent, 0));
    }
}

#[tokio::test]
async fn client_key_that_the_api_refused_is_not_sent_again_for_a_minute() {
    const ERROR: &str = "{\"error\":\"of this key\"}";
    let (api, harness) = Harness::with_api("api", "").await;
    for (status, body, expected) in
        [(401, ERROR, 401), (403, ERROR, 403), (429, ERROR, 429), (403, "<p>no</p>", 502)]
    {
        api.set_response_with("check/all", status, &[("retry-after", "7")], body);
        let key = format!("X-API-KEY: refused-{status}-{expected}\r\n");
        let response = harness.get_with(&check(1), &key).await;
        assert_eq!(response.status(), expected, "{response:#?}");
        if body == ERROR {
            assert_eq!(
                (response.text(), response.header("retry-after")),
                (ERROR, if status == 429 { "60" } else { "7" })
            );
        }
        api.set_response("check/all", "true");
        let sent = api.request_count();
        for path in [check(1), check(2), format!("/registry/v2/{VAULT}")] {
            let response = harness.get_with(&path, &key).await;
            let wait = assert_rate_limited(&response);
            assert!((50..=60).contains(&wait), "{wait}");
            let detail = "the delegation API has refused this X-API-KEY; retry later";
            assert_eq!(response.problem()["detail"], detail);
            assert!(!response.has_header("x-delegation-source"), "{response:#?}");
        }
        assert_eq!(api.request_count(), sent);
    }
    // Three errors of the API, and twelve look-ups that were not sent.
    assert_eq!(harness.lookup_count("rejected").await, 15);
    // Errors that are not about the key change nothing.
    for status in [400, 404, 422, 500, 503] {
        api.set_response_with("check/all", status, &[], "{\"error\":\"no\"}");
        assert_eq!(harness.get_with(&check(1), CLIENT_KEY_HEADER).await.status(), status);
    }
    api.set_response("check/all", "true");
    // Neither other keys nor requests without one are affected.
    for headers in [CLIENT_KEY_HEADER, ""] {
        let response = harness.get_with(&check(3), headers).await;
        assert_eq!((response.status(), response.text()), (200, "true"), "{response:#?}");
    }
}

#[tokio::test]
async fn chain_answers_for_a_refused_client_key_if_it_is_the_fallback() {
    let (api, harness) = Harness::with_api("api-then-chain", "").await;
    api.set_response_with("check/all", 401, &[], "{\"error\":\"no such key\"}");
    let response = harness.get_with(&check(1), CLIENT_KEY_HEADER).await;
    assert_eq!((response.status(), source(&response)), (401, "api"));
    let response = harness.get_with(&check(1), CLIENT_KEY_HEADER).await;
    assert_eq!((response.status(), source(&response)), (200, "chain"));
    assert_eq!(api.request_count(), 1);
}

#[tokio::test]
async fn a_client_has_a_quarter_of_the_rate_budget_while_another_asks() {
    let (api, harness) = Harness::with_api("api", "").await;
    let connect = async |last| {
        let source = Ipv4Addr::new(127, 0, 0, last);
        RawClient::connect_from(source, harness.service.address()).await
    };
    let (mut greedy, mut other) = (connect(2).await, connect(3).await);
    assert_eq!(other.request(get(&check(0), "")).await.status(), 200);
    for number in 1..=6 {
        assert_eq!(greedy.request(get(&check(number), "")).await.status(), 200, "{number}");
    }
    let wait = assert_rate_limited(&greedy.request(get(&check(7), "")).await);
    assert!((1..=10).contains(&wait), "{wait}");
    // What is cached costs nothing.
    assert_eq!(greedy.request(get(&check(0), "")).await.status(), 200);
    assert_eq!(other.request(get(&check(8), "")).await.status(), 200);
    assert_eq!(api.request_count(), 8);
}

#[tokio::test]
async fn slow_request_with_a_client_key_turns_no_other_client_away_from_the_api() {
    let (api, harness) = Harness::with_api("api-then-chain", "timeout = \"300ms\"").await;
    api.hold("check/all");
    let response = harness.get_with(&check(1), CLIENT_KEY_HEADER).await;
    assert_eq!((response.status(), source(&response)), (200, "chain"));
    api.release();
    let response = harness.get(&check(2)).await;
    assert_eq!((response.status(), source(&response)), (200, "api"));
    assert_eq!(keys(&api), ["mine", "none"]);
}

#[tokio::test]
async fn responses_to_client_keys_are_not_cached() {
    let (api, harness) = Harness::with_api("api", "cache_ttl = \"1h\"").await;
    for (api_body, headers, expected) in [
        ("true", CLIENT_KEY_HEADER, "true"),
        ("false", "", "false"),
        ("true", CLIENT_KEY_HEADER, "true"),
        ("true", CLIENT_KEY_HEADER, "true"),
        ("true", "", "false"),
    ] {
        api.set_response("check/all", api_body);
        let response = harness.get_with(&check(1), headers).await;
        assert_eq!(response.text(), expected);
        assert_eq!(response.header("vary"), "x-api-key");
        let is_cacheable = headers.is_empty();
        let lifetime = if is_cacheable { "public, max-age=3600" } else { "no-store" };
        assert_eq!(response.header("cache-control"), lifetime);
        assert_eq!(response.has_header("age"), is_cacheable);
    }
    assert_eq!(keys(&api), ["mine", "none", "mine", "mine"]);
}

#[tokio::test]
async fn look_ups_with_client_keys_are_not_coalesced() {
    let (api, harness) = Harness::with_api("api", "").await;
    api.hold("check/all");
    let mut connections = Vec::new();
    // The last look-up has no client key and is coalesced with the first.
    for (headers, requests) in [
        ("", 1),
        (CLIENT_KEY_HEADER, 2),
        (CLIENT_KEY_HEADER, 3),
        ("X-API-KEY: other\r\n", 4),
        ("", 4),
    ] {
        let mut connection = RawClient::connect(harness.service.address()).await;
        connection.send(get(&check(1), headers)).await;
        connections.push(connection);
        api.wait_for_requests(requests).await;
    }
    api.release();
    for connection in &mut connections {
        assert_eq!(connection.read_response().await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(keys(&api), ["none", "mine", "mine", "other"]);
    assert_eq!(api.last_target(), check_at_api(1));
}
