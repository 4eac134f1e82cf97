//! Tests of the framing of `POST /rpc/{chain}` bodies: the service parses no byte in or after a body as a request that
//! the client did not send.

use serde_json::json;

use crate::http_message::chunked;
use crate::mock_node::{MockNode, Reply, start_reads};
use crate::raw_client::RawClient;
use crate::test_server::TestServer;

/// A call of 46 (0x2e) bytes.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#;
const SMUGGLED: &str = "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n";

async fn start() -> (MockNode, TestServer) {
    let more = "[limits]\nrequests_per_second_per_client = 0\nbody_timeout = \"500ms\"\n";
    start_reads(more, Reply::Result(json!("2020")), "").await
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /rpc/ronin HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}")
}

fn with_content_length(body: &str) -> String {
    post(&format!("Content-Length: {}\r\n", body.len()), body)
}

#[tokio::test]
async fn pipelined_calls_get_responses_in_order() {
    let (_node, service) = start().await;
    let mut connection = RawClient::connect(service.address()).await;
    let first = with_content_length(CALL);
    let notification = with_content_length(r#"{"jsonrpc":"2.0","method":"net_version"}"#);
    let other = with_content_length(&CALL.replace("\"id\":1", "\"id\":2"));
    connection.send(format!("{first}{notification}{SMUGGLED}{other}")).await;
    let mut next = async || connection.read_response().await.unwrap().expect("a response");
    assert_eq!(next().await.text(), r#"{"jsonrpc":"2.0","id":1,"result":"2020"}"#);
    assert_eq!(next().await.status(), 204);
    assert_eq!(next().await.header("x-request-id"), "smuggled");
    assert_eq!(next().await.text(), r#"{"jsonrpc":"2.0","id":2,"result":"2020"}"#);
}

#[tokio::test]
async fn body_framing_leaves_no_room_for_smuggled_requests() {
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    let (_node, service) = start().await;
    let whole =
        |text: &str, size: usize| String::from_utf8(chunked(text.as_bytes(), size)).unwrap();
    let call = whole(CALL, 1000);
    // A call of 46 bytes behind a wrong or an unusual line, and a request behind it.
    let behind = |line: &str| format!("{line}\r\n{CALL}\r\n0\r\n\r\n{SMUGGLED}");
    let both = format!("{CHUNKED}Content-Length: {}\r\n", CALL.len());
    // Further ones are rows of `tests/fixtures/shapes.md`, which `tests/system/smuggling.rs` sends.
    let coded = |between: &str| format!("Transfer-Encoding: gzip{between}chunked\r\n");
    let two_calls = with_content_length(SMUGGLED) + &with_content_length(CALL);
    for (name, request, statuses) in [
        ("in chunks", post(CHUNKED, &call), &[200][..]),
        ("in chunks of one byte", post(CHUNKED, &whole(CALL, 1)), &[200]),
        ("chunks followed by a request", post(CHUNKED, &(call.clone() + SMUGGLED)), &[200]),
        ("a request in a chunk", post(CHUNKED, &whole(SMUGGLED, 1000)), &[200]),
        ("a chunk extension", post(CHUNKED, &call.replacen("\r\n", ";a=b\r\n", 1)), &[200]),
        ("a chunk size that is no number", post(CHUNKED, &behind("zz")), &[400]),
        ("a chunk size over 64 bits", post(CHUNKED, &behind("10000000000000000")), &[400]),
        ("a chunk longer than its size", post(CHUNKED, &behind("5")), &[400]),
        ("chunks without an end", post(CHUNKED, call.trim_end_matches("0\r\n\r\n")), &[408]),
        ("an incomplete chunk", post(CHUNKED, "ff\r\n{"), &[408]),
        ("a body shorter than its length", post("Content-Length: 100\r\n", CALL), &[408]),
        ("a length and chunks", post(&both, &(call.clone() + SMUGGLED)), &[200]),
        ("a coding before chunked", post(&coded(", "), &behind("2e")), &[400]),
        (
            "a coding in a line before",
            post(&coded("\r\nTransfer-Encoding: "), &behind("2e")),
            &[400],
        ),
        ("a request as a body", two_calls, &[200, 200]),
        ("no length", post("", "") + SMUGGLED, &[200, 200]),
    ] {
        let mut connection = RawClient::connect(service.address()).await;
        connection.send(request).await;
        for status in statuses {
            let response = connection.read_response().await.unwrap();
            let response = response.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(response.status(), *status, "{name}: {response:?}");
            let is_smuggled = response.header("x-request-id") == "smuggled";
            assert!(name == "no length" || !is_smuggled, "{name}: {response:?}");
        }
        if statuses.len() == 1 {
            let more = connection.read_until_closed().await;
            assert!(more.is_empty(), "{name}: {more:?}");
        } else {
            assert_eq!(connection.status("/livez").await, 200, "{name}");
        }
    }
}

#[tokio::test]
async fn expect_100_continue_requests_the_body() {
    let (_node, service) = start().await;
    let mut connection = RawClient::connect(service.address()).await;
    let head = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", CALL.len());
    connection.send(post(&head, "")).await;
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(connection.read_bytes(expected.len()).await, expected);
    connection.send(CALL).await;
    let response = connection.read_response().await.unwrap().expect("a response");
    assert_eq!(response.text(), r#"{"jsonrpc":"2.0","id":1,"result":"2020"}"#);

    // The service refuses an announced body that is too large without reading it.
    let mut connection = RawClient::connect(service.address()).await;
    let response =
        connection.request(post("Expect: 100-continue\r\nContent-Length: 300000\r\n", "")).await;
    assert_eq!(response.own_outcome(), (413, "payload_too_large".into()));
    assert!(connection.read_until_closed().await.is_empty());
}
