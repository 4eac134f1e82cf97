//! Tests of request smuggling and path traversal: each malformed request ("shape") gets its expected response, and a
//! proxy in front of the service stays in sync.
//!
//! `tests/fixtures/shapes.md` lists the responses, which the tests read there.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixtures::{self, Bytes};
use crate::http_message::{Message, get};
use crate::mock_node::start_service;
use crate::nginx::{self, Nginx};
use crate::raw_client::{RawClient, TIMEOUT, free_port};

const DOCUMENTED: &str = include_str!("../fixtures/shapes.md");

/// State of the connection after the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Closes,
    /// Closes, but the response could not say so: more of the request's body was expected.
    Breaks,
    Stays,
}
use After::{Breaks, Closes, Stays};

/// A malformed request, the only response to it, and the connection's state after that.
struct Shape {
    name: String,
    request: Vec<u8>,
    /// Status and code; `None`: no response.
    response: Option<(u16, String)>,
    after: After,
}

const SMUGGLED: &str = "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n";

/// Time within which a connection closes that has to.
const MAX_CLOSE_DELAY: Duration = Duration::from_secs(10);

/// Returns the requests of the fixture with what the page says about each, in the same order.
fn shapes() -> Vec<Shape> {
    let requests: Vec<(String, Bytes)> = fixtures::json("tests/fixtures/shapes.json");
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| Shape |");
    let rows: Vec<_> = DOCUMENTED.lines().filter(is_row).collect();
    assert_eq!(rows.len(), requests.len(), "rows of the page, and requests of the fixture");
    let shape = |(row, (name, request)): (&str, (String, Bytes))| {
        let expected = row.strip_prefix(&format!("| {name} | "));
        let expected = expected.unwrap_or_else(|| panic!("{name} is not documented: {row}"));
        let (response, after) = expected.strip_suffix(" |").unwrap().split_once(" | ").unwrap();
        let (status, code) = response.split_once(' ').unwrap_or((response, ""));
        let code = code.trim_matches('`').to_owned();
        let response = (response != "no response").then(|| (status.parse().unwrap(), code));
        let after = match after {
            "closes" => Closes,
            "closes unannounced" => Breaks,
            "stays open" => Stays,
            other => panic!("{name}: {other}"),
        };
        Shape { name, request: request.into(), response, after }
    };
    rows.into_iter().zip(requests).map(shape).collect()
}

fn marker(id: &str, more: &str) -> String {
    get("/v1/a/fee-history?blocks=1", &format!("X-Request-Id: {id}\r\n{more}"))
}

#[tokio::test]
async fn each_shape_gets_its_documented_response_and_nothing_smuggled() {
    let (_node, service) = start_service("", "").await;
    let mut failures = Vec::new();
    for Shape { name, request, response, after } in shapes() {
        let mut client = RawClient::connect(service.address()).await;
        client.send(&request).await;
        let mut max_delay = MAX_CLOSE_DELAY;
        if after == Stays {
            // The response to a smuggled request would arrive before the response to the marker.
            client.send(marker("marker", "Connection: close\r\n")).await;
            max_delay = TIMEOUT;
        }
        let responses = tokio::time::timeout(max_delay, client.read_until_closed()).await;
        let Ok(mut responses) = responses else {
            failures.push(format!("{name}: the connection stays open"));
            continue;
        };
        let is_marker =
            |last: &Message| last.status() == 200 && last.header("x-request-id") == "marker";
        if after == Stays && !responses.pop().is_some_and(|last| is_marker(&last)) {
            failures.push(format!("{name}: no response to the next request"));
        }
        if !responses.iter().map(Message::outcome).eq(response.clone()) {
            failures.push(format!("{name}: not {response:?} alone: {responses:#?}"));
        }
        let first = responses.first();
        if first.is_some_and(|first| first.closes_connection() != (after == Closes)) {
            failures.push(format!("{name}: the Connection header does not match"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn client_still_sending_a_body_can_read_the_response() {
    let (_node, service) = start_service("", "").await;
    let piece = vec![b'x'; 60_000];
    for (headers, before, behind) in [
        ("Content-Length: 120000\r\n", "", ""),
        ("Transfer-Encoding: chunked\r\n", "1d4c0\r\n", "\r\n0\r\n\r\n"),
    ] {
        let mut client = RawClient::connect(service.address()).await;
        let since = Instant::now();
        client.send(format!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n{headers}\r\n{before}")).await;
        // By now the service has sent its response, although the client has not sent the body.
        service.get("/livez").await;
        let sent = [client.try_send(&piece).await, client.try_send(&piece).await];
        client.send(behind).await;
        // The service reads the rest of the body for up to 10 s, for clients that send everything before they read.
        if since.elapsed() < Duration::from_millis(500) {
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        }
        let responses = client.read_until_closed().await;
        assert_eq!(responses.len(), 1, "{responses:#?}");
        assert_eq!(responses[0].own_outcome(), (405, "method_not_allowed".to_owned()));
    }
}

#[tokio::test]
async fn pipelined_requests_are_served_in_order_until_a_malformed_one() {
    let (_node, service) = start_service("", "").await;
    let mut client = RawClient::connect(service.address()).await;
    let good: String = (0..20).map(|count| marker(&format!("marker-{count}"), "")).collect();
    client.send(good + "G@T / HTTP/1.1\r\n\r\n" + SMUGGLED).await;
    let responses = client.read_until_closed().await;
    let ids: Vec<_> = responses.iter().map(|response| response.header("x-request-id")).collect();
    let expected: Vec<_> = (0..20).map(|count| format!("marker-{count}")).collect();
    assert_eq!(ids[..20], expected);
    assert_eq!(responses.len(), 21);
    assert_eq!(responses[20].outcome(), (400, String::new()));
    assert!(responses[20].closes_connection());
}

/// Returns the configuration. Clients share two upstream connections, so a desynchronised one affects other clients.
fn configuration(upstream: SocketAddr, buffering: SocketAddr, streaming: SocketAddr) -> String {
    let server = |address: SocketAddr, buffers: &str| {
        format!(
            "server {{ listen {address}; location / {{ proxy_pass http://service; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; \
             proxy_request_buffering {buffers}; }} }}\n"
        )
    };
    let servers = server(buffering, "on") + &server(streaming, "off");
    nginx::configuration(&format!(
        "ignore_invalid_headers off;\n\
         client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 60s;\n\
         upstream service {{ server {upstream}; keepalive 2; }}\n{servers}"
    ))
}

#[tokio::test]
async fn nginx_connections_stay_in_sync_for_every_shape() {
    let (_node, service) = start_service("", "").await;
    // The first buffers a whole request before it forwards it. The second streams bodies, chunked if they arrive chunked.
    let proxies = [free_port(), free_port()].map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let configure = |_: &Path| configuration(service.address(), proxies[0], proxies[1]);
    let _nginx = Nginx::start(&proxies, configure).await;
    for proxy in proxies {
        let connect = || RawClient::connect(proxy);
        let mut other_clients =
            [connect().await, connect().await, connect().await, connect().await];
        let expected = other_clients[0].request(marker("first", "")).await;
        assert_eq!((expected.status(), expected.header("x-request-id")), (200, "first"));
        for (count, Shape { name, request, .. }) in shapes().iter().enumerate() {
            let mut client = RawClient::connect(proxy).await;
            client.send(request).await;
            let own = format!("own-{count}");
            client.send(marker(&own, "Connection: close\r\n")).await;
            // Other clients send requests while the shape is in flight and after it.
            assert_all_in_sync(&mut other_clients, name, &format!("before-{count}"), &expected)
                .await;
            let bytes = client.read_bytes_until_closed().await;
            assert_all_in_sync(&mut other_clients, name, &format!("behind-{count}"), &expected)
                .await;
            let text = String::from_utf8_lossy(&bytes);
            // nginx may parse the bytes that follow as further requests of the same client. Then each of them gets
            // one response, in order.
            let ids: Vec<_> =
                text.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
            let is_named = |id: &&str| *id == "smuggled" || *id == own;
            let named: Vec<_> = ids.iter().copied().filter(is_named).collect();
            let in_order = [vec![], vec!["smuggled"], vec![&own], vec!["smuggled", &own]];
            assert!(in_order.contains(&named), "{name}: {text}");
            assert!(ids.len() <= named.len() + 1, "{name}: {text}");
            if ids.last() == Some(&own.as_str()) {
                assert!(text.ends_with(expected.text()), "{name}: {text}");
            }
            // Any of these statuses would mean that the service failed. A 501 is fine: nginx itself sends it for an
            // unknown transfer coding.
            let gateway = ["500", "502", "503", "504"].map(|status| format!("HTTP/1.1 {status}"));
            assert!(!gateway.iter().any(|line| text.contains(line)), "{name}: {text}");
        }
    }
}

/// Sends one request per client and checks that each gets its own response.
async fn assert_all_in_sync(
    clients: &mut [RawClient],
    name: &str,
    prefix: &str,
    expected: &Message,
) {
    for (count, client) in clients.iter_mut().enumerate() {
        let id = format!("{prefix}-{count}");
        let response = client.request(marker(&id, "")).await;
        let found = (response.status(), response.header("x-request-id"), response.text());
        assert_eq!(found, (200, id.as_str(), expected.text()), "{name}");
    }
}
