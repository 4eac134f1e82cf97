//! Tests of the framing of `POST /rpc/{chain}` bodies: the service parses no byte in or after a body as a request that
//! the client did not send.

use crate::mock_node::{MockNode, Reply};
use crate::raw_client::RawClient;
use crate::test_server::TestServer;

/// A call of 46 (0x2e) bytes.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#;
const SMUGGLED: &str = "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n";

async fn start() -> (MockNode, TestServer) {
    let node = MockNode::for_reads(Reply::RawResult("\"2020\"".into())).await;
    let text = node.chain("ronin", "json_rpc = true\nblock_time = \"1h\"\nmax_age = \"1day\"");
    let more = "[limits]\nrequests_per_second_per_client = 0\nbody_timeout = \"500ms\"\n";
    let service = TestServer::with_server(more, &text).await;
    (node, service)
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
    let other = CALL.replace("\"id\":1", "\"id\":2");
    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    connection
        .send(
            [
                with_content_length(CALL),
                with_content_length(notification),
                SMUGGLED.to_owned(),
                with_content_length(&other),
            ]
            .concat(),
        )
        .await;
    let mut next = async || connection.read_response().await.unwrap().expect("a response");
    assert_eq!(next().await.text(), r#"{"jsonrpc":"2.0","id":1,"result":"2020"}"#);
    assert_eq!(next().await.status(), 204);
    assert_eq!(next().await.header("x-request-id"), "smuggled");
    assert_eq!(next().await.text(), r#"{"jsonrpc":"2.0","id":2,"result":"2020"}"#);
}

#[tokio::test]
async fn body_framing_leaves_no_room_for_smuggled_requests() {
    let (_node, service) = start().await;
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let last = "0\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let both = format!("{chunked}Content-Length: {}\r\n", CALL.len());
    for (name, request, statuses) in [
        ("in chunks", post(chunked, &format!("{}{last}", chunk(CALL))), &[200][..]),
        (
            "in chunks of one byte",
            post(
                chunked,
                &CALL
                    .chars()
                    .map(|one| chunk(&one.to_string()))
                    .chain([last.into()])
                    .collect::<String>(),
            ),
            &[200],
        ),
        (
            "chunks followed by a request",
            post(chunked, &format!("{}{last}{SMUGGLED}", chunk(CALL))),
            &[200],
        ),
        ("a request in a chunk", post(chunked, &format!("{}{last}", chunk(SMUGGLED))), &[200]),
        (
            "a chunk extension",
            post(chunked, &format!("{:x};a=b\r\n{CALL}\r\n{last}", CALL.len())),
            &[200],
        ),
        (
            "a chunk size that is no number",
            post(chunked, &format!("zz\r\n{CALL}\r\n{last}{SMUGGLED}")),
            &[400],
        ),
        (
            "a chunk size over 64 bits",
            post(chunked, &format!("10000000000000000\r\n{CALL}\r\n{last}{SMUGGLED}")),
            &[400],
        ),
        (
            "a chunk longer than its size",
            post(chunked, &format!("5\r\n{CALL}\r\n{last}{SMUGGLED}")),
            &[400],
        ),
        ("chunks without an end", post(chunked, &chunk(CALL)), &[408]),
        ("an incomplete chunk", post(chunked, "ff\r\n{"), &[408]),
        ("a body shorter than its length", post("Content-Length: 100\r\n", CALL), &[408]),
        ("a length and chunks", post(&both, &format!("{}{last}{SMUGGLED}", chunk(CALL))), &[200]),
        (
            "a request as a body",
            format!("{}{}", with_content_length(SMUGGLED), with_content_length(CALL)),
            &[200, 200],
        ),
        ("no length", format!("{}{SMUGGLED}", post("", "")), &[200, 200]),
    ] {
        let mut connection = RawClient::connect(service.address()).await;
        connection.send(request).await;
        for status in statuses {
            let response =
                connection.read_response().await.unwrap().unwrap_or_else(|| panic!("{name}"));
            assert_eq!(response.status(), *status, "{name}: {response:?}");
            let is_expected = name == "no length";
            let is_smuggled = response.header("x-request-id") == "smuggled";
            assert!(is_expected || !is_smuggled, "{name}: {response:?}");
        }
        if statuses.len() == 1 {
            let more = connection.read_until_closed().await;
            assert!(more.is_empty(), "{name}: {more:?}");
        } else {
            let closing = connection
                .request("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .await;
            assert_eq!(closing.status(), 200, "{name}");
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
