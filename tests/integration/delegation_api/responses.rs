//! Requests to the API, and its responses as clients receive them.

use std::time::Duration;

use alloy_primitives::hex;
use serde_json::value::RawValue;

use crate::delegation_service::{CONTRACT, HOT, Harness, VAULT, address, check, source};
use crate::fixtures;
use crate::http_message::Message;
use crate::mock_delegate_api::MockDelegateApi;
use crate::test_server::wait_until;

/// Look-ups below `/registry/v2/`, each followed by the API request that it becomes, as templates for [`expand`].
///
/// `{V}`, `{H}` and `{C}` are addresses with checksum, `{v}` and `{c}` in lower case, `{h}` in upper case. `{most}` is
/// the largest uint256. All other braces enclose rights that are sent as bytes32.
const CANONICAL_REQUESTS: &str = include_str!("../../fixtures/delegation/requests.txt");

const MAX_UINT256: &str =
    "115792089237316195423570985008687907853269984665640564039457584007913129639935";

fn expand(template: &str) -> String {
    template
        .replace("{V}", VAULT)
        .replace("{H}", HOT)
        .replace("{C}", CONTRACT)
        .replace("{v}", &VAULT.to_lowercase())
        .replace("{h}", &HOT.to_uppercase().replace("0X", "0x"))
        .replace("{c}", &CONTRACT.to_lowercase())
        .replace("{most}", MAX_UINT256)
        .replace("{claim}", &bytes32("claim"))
        .replace("{a b&\u{e4}}", &bytes32("a b&\u{e4}"))
        .replace("{}", &bytes32(""))
}

/// Returns `text` as bytes32, padded on the right.
fn bytes32(text: &str) -> String {
    format!("0x{:0<64}", hex::encode(text))
}

#[tokio::test]
async fn equivalent_look_ups_become_one_canonical_api_request() {
    let (api, harness) = Harness::with_api("api", "api_key = \"k\"\ncache_ttl = \"0s\"").await;
    let requests = fixtures::pairs(CANONICAL_REQUESTS);
    assert_eq!(requests.len(), 21);
    for (number, (look_up, expected)) in requests.into_iter().enumerate() {
        let response = harness.get(&format!("/registry/v2/{}", expand(look_up))).await;
        let found = (response.status(), source(&response));
        assert_eq!(found, (200, "api"), "{look_up}: {response:#?}");
        let found = (api.last_target(), api.request_count());
        assert_eq!(found, (expand(expected), number + 1), "{look_up}");
    }
    assert_eq!(harness.reads(), 0);
}

#[tokio::test]
async fn api_url_and_service_may_have_a_base_path() {
    for (prefix, slash, base_path) in
        [("/a/b-c", "", "/proxy/public"), ("/a/b-c", "/", ""), ("", "/", "/proxy")]
    {
        let api = MockDelegateApi::with_prefix(prefix).await;
        let url = format!("{}{slash}", api.url());
        let server = format!("base_path = \"{base_path}\"");
        let harness = Harness::with_server(&server, &url, "api", "").await;
        for path in [check(1), format!("/registry/v2/{VAULT}")] {
            let response = harness.get(&format!("{base_path}{path}")).await;
            assert_eq!((response.status(), source(&response)), (200, "api"), "{prefix}{slash}");
            if !base_path.is_empty() {
                assert_eq!(harness.get(&path).await.outcome(), (404, "not_found".into()));
            }
        }
        assert_eq!(api.request_count(), 2);
    }
}

#[tokio::test]
async fn api_bodies_are_returned_byte_for_byte() {
    let (api, harness) = Harness::with_api("api", "api_key = \"k\"\ncache_ttl = \"0s\"").await;
    let list = "[ {\"type\":\"ALL\",\"from\":\"x\",\"extra\":{\"b\":1,\"a\":[1.50,1e3]},\n\
        \"amount\":123456789012345678901234567890.0,\"note\":\"\\u00e4\\/\u{e4}\"},\r\n\
        {\"type\":\"ERC9999\",\"type\":\"twice\",\"rights\":null} , {} ]\n";
    let parties = format!("from={VAULT}&to={HOT}");
    let contract = format!("{parties}&contract={CONTRACT}");
    let token = format!("{contract}&tokenId=1");
    for (path, query, body) in [
        (VAULT, "", list),
        (VAULT, "", "[]"),
        (VAULT, "", " [\n]\t"),
        ("check/all", parties.as_str(), "true"),
        ("check/all", &parties, " false\n"),
        ("check/contract", &contract, "false"),
        ("check/erc721", &token, "true "),
        ("check/erc20", &contract, MAX_UINT256),
        ("check/erc20", &contract, "0"),
        ("check/erc20", &contract, "1.157920892373162e+77"),
        ("check/erc20", &contract, "\"1000\""),
        ("check/erc1155", &token, " 55 "),
        ("check/erc1155", &token, "0.5"),
    ] {
        api.set_response(path, body);
        let response = harness.get(&format!("/registry/v2/{path}?{query}")).await;
        assert_eq!((response.status(), response.text()), (200, body), "{path}");
        assert_eq!(response.header("content-length"), body.len().to_string());
    }
}

#[tokio::test]
async fn api_response_headers_are_replaced_by_source_and_max_age() {
    let (api, harness) = Harness::with_api("api", "").await;
    let api_headers = [
        ("set-cookie", "a=b"),
        ("access-control-allow-origin", "https://theirs.example"),
        ("access-control-allow-credentials", "true"),
        ("cache-control", "private, max-age=86400"),
        ("etag", "\"theirs\""),
        ("age", "1000"),
        ("vary", "Cookie"),
        ("server", "theirs"),
        ("location", "http://theirs.example/"),
        ("x-request-id", "theirs"),
        ("x-delegation-source", "theirs"),
    ];
    api.set_response_with("check/all", 200, &api_headers, "true");
    let response = harness.get(&check(1)).await;
    let headers = response.header_text(&["date", "x-request-id"]);
    fixtures::assert_snapshot("delegation-response-headers", &headers);
    assert_ne!(response.header("x-request-id"), "theirs");
}

#[tokio::test]
async fn head_omits_the_body_and_other_methods_are_refused() {
    let (api, harness) = Harness::with_api("api", "").await;
    api.set_response("check/all", "true");
    let send_request = async |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        harness.send(request).await
    };
    for path in [check(1), format!("/registry/v2/{VAULT}")] {
        let (head, get) = (send_request("HEAD", &path).await, send_request("GET", &path).await);
        assert_eq!((head.status(), head.text()), (200, ""));
        for name in ["content-type", "content-length", "x-delegation-source", "cache-control"] {
            assert_ne!(get.header(name), "", "{name}");
            assert_eq!(head.header(name), get.header(name), "{name}");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE"] {
            let response = send_request(method, &path).await;
            assert_eq!(response.outcome(), (405, "method_not_allowed".into()), "{method}");
            assert_eq!(response.header("allow"), "GET,HEAD", "{method}");
        }
    }
    assert_eq!(api.request_count(), 2);
}

#[tokio::test]
async fn unknown_routes_are_not_forwarded() {
    let (api, harness) = Harness::with_api("api-then-chain", "").await;
    let query = check(1).split_once('?').unwrap().1.to_owned();
    let unknown = "/registry/v2/check/erc404 /registry/v2/check/ALL /registry/v2/check/all// \
        /registry/v2/check/all/x /registry/v2/ /registry/v2/../v2/x /registry/v1/check/all \
        /registry/v2 /registry/check/all /v2/check/all";
    for path in unknown.split(' ') {
        let response = harness.get(&format!("{path}?{query}")).await;
        assert_eq!(response.outcome(), (404, "not_found".into()), "{path}");
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

/// Returns the members of the list in this response.
fn members(response: &Message) -> Vec<&str> {
    assert_eq!((response.status(), source(response)), (200, "api"), "{response:#?}");
    let list: Vec<&RawValue> = serde_json::from_str(response.text()).unwrap();
    list.into_iter().map(RawValue::get).collect()
}

#[tokio::test]
async fn direction_filters_members_without_rewriting_them() {
    let (api, harness) = Harness::with_api("api", "").await;
    let vault = VAULT.to_lowercase();
    let upper = VAULT.to_uppercase();
    let to = format!(
        "{{ \"type\":\"ALL\", \"from\":\"{HOT}\",\n \"to\":\"{VAULT}\", \"amount\":1.50, \"new\":[1e2] }}"
    );
    let to_too = format!("{{\"to\":\"{upper}\",\"from\":\"{HOT}\",\"to2\":\"\\u00e4\"}}");
    let from = format!("{{\"from\":\"{vault}\",\"to\":\"{CONTRACT}\",\"rights\":\"0x00\"}}");
    let both = format!("{{\"from\":\"{VAULT}\",\"to\":\"{vault}\"}}");
    let neither = format!("{{\"from\":\"{HOT}\",\"to\":\"{CONTRACT}\",\"vault\":\"{VAULT}\"}}");
    let list = format!("[{to}, {from} ,{both},{neither},{to_too}]\n");
    api.set_response(VAULT, list.clone());
    let path = format!("/registry/v2/{VAULT}");
    assert_eq!(harness.get(&path).await.text(), list);
    let incoming = harness.get(&format!("{path}?direction=incoming")).await;
    assert_eq!(members(&incoming), [&to, &both, &to_too]);
    let outgoing = harness.get(&format!("{path}?direction=outgoing")).await;
    assert_eq!(members(&outgoing), [&from, &both]);
    // The API has no direction parameter: one list serves all three look-ups.
    assert_eq!(api.request_count(), 1);
    let other = address(3);
    api.set_response(other.clone(), list);
    let response = harness.get(&format!("/registry/v2/{other}?direction=incoming")).await;
    assert_eq!(response.text(), "[]");
}

#[tokio::test]
async fn responses_are_cached_by_look_up_for_cache_ttl() {
    let (api, harness) = Harness::with_api("api", "cache_ttl = \"1h\"").await;
    let others = ["&chainId=2021", "&rights=a"].map(|more| check(2) + more);
    for (requests, path) in [check(1), check(2)].iter().chain(&others).enumerate() {
        for _ in 0..2 {
            let response = harness.get(path).await;
            assert!(response.header("age").parse::<u64>().unwrap() < 60, "{path}");
            assert_eq!(response.header("cache-control"), "public, max-age=3600", "{path}");
            assert_eq!(api.request_count(), requests + 1, "{path}");
        }
    }
    let (api, harness) = Harness::with_api("api", "cache_ttl = \"200ms\"").await;
    harness.get(&check(1)).await;
    api.set_response("check/all", "true");
    let is_read_again = async || harness.get(&check(1)).await.text() == "true";
    wait_until("the response expires", is_read_again).await;
    let requests = api.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].at - requests[0].at >= Duration::from_millis(200));
}

#[tokio::test]
async fn zero_cache_ttl_disables_caching_and_errors_are_never_cached() {
    for (more, responses) in [
        ("cache_ttl = \"0s\"", [(200, "true"), (200, "false"), (200, "true")].as_slice()),
        ("", &[(404, "{\"error\":\"not yet\"}"), (500, "{\"error\":\"no\"}")]),
    ] {
        let (api, harness) = Harness::with_api("api", more).await;
        for (number, (status, body)) in responses.iter().enumerate() {
            api.set_response_with("check/all", *status, &[], *body);
            let response = harness.get(&check(1)).await;
            assert_eq!((response.status(), response.text()), (*status, *body));
            assert_eq!(response.header("cache-control"), "no-store", "{body}");
            assert!(!response.has_header("age"), "{body}");
            assert_eq!(api.request_count(), number + 1, "{body}");
        }
    }
}

#[tokio::test]
async fn lists_with_unreadable_parties_are_not_filtered() {
    let (api, harness) = Harness::with_api("api", "cache_ttl = \"0s\"").await;
    let path = format!("/registry/v2/{VAULT}");
    for odd in [
        "{}".to_owned(),
        format!("{{\"type\":\"ALL\",\"delegate\":\"{VAULT}\",\"from\":\"{HOT}\"}}"),
        format!("{{\"from\":7,\"to\":\"{VAULT}\"}}"),
        format!("{{\"from\":\"{HOT}\",\"to\":\"alice\"}}"),
    ] {
        let list = format!("[{odd}]");
        api.set_response(VAULT, list.clone());
        assert_eq!(harness.get(&path).await.text(), list);
        for direction in ["incoming", "outgoing"] {
            let response = harness.get(&format!("{path}?direction={direction}")).await;
            assert_eq!(response.outcome(), (502, "upstream_invalid".into()), "{odd}");
        }
    }
}
