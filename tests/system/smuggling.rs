//! Tests of request smuggling and path traversal: each malformed request ("shape") gets its expected response, and a
//! proxy in front of the service stays in sync.
//!
//! `docs/reliability-shapes.md` has the same table. A test compares the two.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::http_message::{Message, get};
use crate::mock_node::{MockNode, Reply, fee_history};
use crate::nginx::Nginx;
use crate::raw_client::{RawClient, free_port};
use crate::test_server::TestServer;

const DOCUMENTED: &str = include_str!("../../docs/reliability-shapes.md");

/// State of the connection after the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Closes,
    /// Closes, but the response could not say so: more of the request's body was expected.
    Breaks,
    Stays,
}
use After::{Breaks, Closes, Stays};

/// Name, request bytes, status and problem code of the only response, and the connection's state after it. Status 0: no
/// response.
type Shape = (&'static str, &'static [u8], u16, &'static str, After);

/// The smuggled request: 60 (0x3c) bytes.
macro_rules! inner {
    () => {
        "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n"
    };
}

macro_rules! post {
    ($headers:expr, $body:expr) => {
        concat!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n", $headers, "\r\n", $body).as_bytes()
    };
}

/// A chunked body that ends at once, followed by the smuggled request.
macro_rules! chunked {
    ($headers:expr) => {
        post!($headers, concat!("0\r\n\r\n", inner!()))
    };
}

/// Time within which a connection closes that has to.
const MAX_CLOSE_DELAY: Duration = Duration::from_secs(10);

const BAD: &str = "bad_request";
const NO_METHOD: &str = "method_not_allowed";
/// hyper's own response to what it cannot parse.
const NO_BODY: &str = "";

const SMUGGLING: &[Shape] = &[
    (
        "`Content-Length`, then `Transfer-Encoding`",
        post!(
            "Content-Length: 65\r\nTransfer-Encoding: chunked\r\n",
            concat!("0\r\n\r\n", inner!())
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "`Transfer-Encoding`, then `Content-Length`",
        post!(
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            concat!("3c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "`Transfer-Encoding : chunked`",
        chunked!("Transfer-Encoding : chunked\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "`Transfer-Encoding: xchunked`",
        chunked!("Transfer-Encoding: xchunked\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "`chunked, identity`",
        chunked!("Transfer-Encoding: chunked, identity\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    ("`identity, chunked`", chunked!("Transfer-Encoding: identity, chunked\r\n"), 400, BAD, Closes),
    (
        "`Transfer-Encoding: chunked` twice",
        chunked!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    (
        "`Transfer-Encoding: chunked` and `identity` on two lines",
        chunked!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "`\"chunked\"` in quotes",
        chunked!("Transfer-Encoding: \"chunked\"\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "a vertical tab before `chunked`",
        chunked!("Transfer-Encoding: \x0bchunked\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "`chunked` on a folded line",
        chunked!("Transfer-Encoding:\r\n chunked\r\n"),
        400,
        NO_BODY,
        Closes,
    ),
    ("an empty `Transfer-Encoding`", chunked!("Transfer-Encoding:\r\n"), 400, NO_BODY, Closes),
    (
        "`Transfer-Encoding` in HTTP/1.0",
        concat!(
            "POST /v1/chains HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            inner!()
        )
        .as_bytes(),
        400,
        NO_BODY,
        Closes,
    ),
    ("a tab before `chunked`", chunked!("Transfer-Encoding:\tchunked\r\n"), 405, NO_METHOD, Closes),
    ("`CHUNKED` in capitals", chunked!("Transfer-Encoding: CHUNKED\r\n"), 405, NO_METHOD, Closes),
    (
        "a request behind the last chunk",
        chunked!("Transfer-Encoding: chunked\r\n"),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a request within a chunk",
        post!("Transfer-Encoding: chunked\r\n", concat!("3c\r\n", inner!(), "\r\n0\r\n\r\n")),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk size that is no number",
        post!("Transfer-Encoding: chunked\r\n", concat!("zz\r\n", inner!(), "\r\n0\r\n\r\n")),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk size over 64 bits",
        post!(
            "Transfer-Encoding: chunked\r\n",
            concat!("1000000000000003c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk extension that ends in a bare LF",
        post!(
            "Transfer-Encoding: chunked\r\n",
            concat!("2;a\nxx\r\n3c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "no CRLF behind the last chunk",
        post!("Transfer-Encoding: chunked\r\n", concat!("0\r\n", inner!())),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "two different `Content-Length`",
        post!("Content-Length: 0\r\nContent-Length: 60\r\n", inner!()),
        400,
        NO_BODY,
        Closes,
    ),
    (
        "two equal `Content-Length`",
        post!("Content-Length: 60\r\nContent-Length: 60\r\n", inner!()),
        405,
        NO_METHOD,
        Stays,
    ),
    ("`Content-Length: +60`", post!("Content-Length: +60\r\n", inner!()), 400, NO_BODY, Closes),
    ("`Content-Length: -1`", post!("Content-Length: -1\r\n", inner!()), 400, NO_BODY, Closes),
    ("`Content-Length: 0x3c`", post!("Content-Length: 0x3c\r\n", inner!()), 400, NO_BODY, Closes),
    (
        "a `Content-Length` over 64 bits",
        post!("Content-Length: 18446744073709551676\r\n", inner!()),
        400,
        NO_BODY,
        Closes,
    ),
    ("`Content-Length: 6 0`", post!("Content-Length: 6 0\r\n", inner!()), 400, NO_BODY, Closes),
    (
        "`Content-Length: 60, 60`",
        post!("Content-Length: 60, 60\r\n", inner!()),
        400,
        NO_BODY,
        Closes,
    ),
    ("`Content-Length : 60`", post!("Content-Length : 60\r\n", inner!()), 400, NO_BODY, Closes),
    ("a request within a body", post!("Content-Length: 60\r\n", inner!()), 405, NO_METHOD, Stays),
    (
        "a request within a body that a `GET` has",
        concat!("GET /v1/chains HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n", inner!())
            .as_bytes(),
        200,
        "",
        Stays,
    ),
    (
        "a body that is longer than what comes",
        post!("Content-Length: 1000\r\n", inner!()),
        405,
        NO_METHOD,
        Breaks,
    ),
    (
        "`Expect: 100-continue` and no body",
        post!("Content-Length: 60\r\nExpect: 100-continue\r\n", ""),
        405,
        NO_METHOD,
        Breaks,
    ),
    (
        "`Upgrade: h2c`",
        b"GET /v1/chains HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
          Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        200,
        "",
        Stays,
    ),
    (
        "a bare CR between headers",
        post!("X: a\rContent-Length: 60\r\n", inner!()),
        400,
        NO_BODY,
        Closes,
    ),
    ("bare LF at the ends of lines", b"GET /v1/chains HTTP/1.1\nHost: a\n\n", 200, "", Stays),
    ("NUL in a value", post!("X: a\0b\r\n", ""), 400, NO_BODY, Closes),
    ("NUL in a name", post!("X\0: a\r\n", ""), 400, NO_BODY, Closes),
    ("a header without a colon", post!("X\r\n", ""), 400, NO_BODY, Closes),
    ("a folded line", post!("X: a\r\n Content-Length: 60\r\n", inner!()), 400, NO_BODY, Closes),
    (
        "a folded first header",
        b"GET /v1/chains HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n",
        400,
        NO_BODY,
        Closes,
    ),
    (
        "no `Host`",
        concat!("GET /v1/chains HTTP/1.1\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    (
        "two different `Host`",
        concat!("GET /v1/chains HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    (
        "two equal `Host`",
        b"GET /v1/chains HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        400,
        BAD,
        Closes,
    ),
    ("`Host : a`", b"GET /v1/chains HTTP/1.1\r\nHost : a\r\n\r\n", 400, NO_BODY, Closes),
    ("`Host: user@a`", b"GET /v1/chains HTTP/1.1\r\nHost: user@a\r\n\r\n", 400, BAD, Closes),
    ("`Host: a/b`", b"GET /v1/chains HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, BAD, Closes),
    (
        "an absolute form with another host",
        b"GET http://other.example/v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        200,
        "",
        Stays,
    ),
    (
        "`CONNECT`, and a request for the other end",
        concat!("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    ("HTTP/0.9", b"GET /v1/chains\r\n\r\n", 400, NO_BODY, Closes),
    ("HTTP/1.2", b"GET /v1/chains HTTP/1.2\r\nHost: a\r\n\r\n", 400, NO_BODY, Closes),
    (
        "the preface of HTTP/2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        0,
        NO_BODY,
        Closes,
    ),
    (
        "a method in lower case",
        b"get /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        405,
        NO_METHOD,
        Stays,
    ),
    (
        "a method that is no token",
        b"G@T /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        NO_BODY,
        Closes,
    ),
    ("a blank in the path", b"GET /v1/chains /x HTTP/1.1\r\nHost: a\r\n\r\n", 400, NO_BODY, Closes),
    (
        "empty lines before the request",
        b"\r\n\r\nGET /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        200,
        "",
        Stays,
    ),
];

const NOT_FOUND: &str = "not_found";
const NO_CHAIN: &str = "unknown_chain";

/// Like [`Shape`], with the request target in place of the request.
type Target = (&'static str, &'static [u8], u16, &'static str, After);

const TRAVERSAL: &[Target] = &[
    ("`/v1/../v1/chains`", b"/v1/../v1/chains", 404, NOT_FOUND, Stays),
    ("`/../v1/chains`", b"/../v1/chains", 404, NOT_FOUND, Stays),
    ("`/%2e%2e/v1/chains`", b"/%2e%2e/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1/..%2fchains`", b"/v1/..%2fchains", 404, NOT_FOUND, Stays),
    ("`/v1/..%5cchains`", b"/v1/..%5cchains", 404, NOT_FOUND, Stays),
    ("`/v1/%252e%252e/fee-market`", b"/v1/%252e%252e/fee-market", 404, NO_CHAIN, Stays),
    ("`/v1/%2e%2e/fee-market`", b"/v1/%2e%2e/fee-market", 404, NO_CHAIN, Stays),
    ("`//v1/chains`", b"//v1/chains", 404, NOT_FOUND, Stays),
    ("`//other.example/v1/chains`", b"//other.example/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1//chains`", b"/v1//chains", 404, NOT_FOUND, Stays),
    ("`/v1/./chains`", b"/v1/./chains", 404, NOT_FOUND, Stays),
    ("`/v1/..;/v1/chains`", b"/v1/..;/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1/a%00/gas-suggestion`", b"/v1/a%00/gas-suggestion", 404, NO_CHAIN, Stays),
    ("`/v1/chains%00`", b"/v1/chains%00", 404, NOT_FOUND, Stays),
    ("`/v1/%c0%ae%c0%ae/fee-market`", b"/v1/%c0%ae%c0%ae/fee-market", 404, NO_CHAIN, Stays),
    ("the bytes c0 ae in the path", b"/v1/\xc0\xae\xc0\xae/fee-market", 400, NO_BODY, Closes),
    (
        "`/v1/http:%2f%2f169.254.169.254/fee-history`",
        b"/v1/http:%2f%2f169.254.169.254/fee-history",
        404,
        NO_CHAIN,
        Stays,
    ),
    (
        "`/v1/..%2f..%2fetc%2fpasswd/fee-market`",
        b"/v1/..%2f..%2fetc%2fpasswd/fee-market",
        404,
        NO_CHAIN,
        Stays,
    ),
    (
        "`http://169.254.169.254/latest/meta-data`",
        b"http://169.254.169.254/latest/meta-data",
        404,
        NOT_FOUND,
        Stays,
    ),
    ("`file:///etc/passwd`", b"file:///etc/passwd", 400, NO_BODY, Closes),
    ("`/v1\\chains`", b"/v1\\chains", 404, NOT_FOUND, Stays),
    ("a control character in the path", b"/v1/ch\x01ains", 400, NO_BODY, Closes),
    ("`v1/chains`, without a slash", b"v1/chains", 400, NO_BODY, Closes),
    ("`*`", b"*", 404, NOT_FOUND, Stays),
    ("a path over 8 KiB", b"/v1/LONG", 414, "uri_too_long", Stays),
    ("a path over 16 KiB", b"/v1/LONGER", 414, "uri_too_long", Stays),
];

/// Returns all shapes as complete requests.
fn shapes() -> impl Iterator<Item = (&'static str, Vec<u8>, u16, &'static str, After)> {
    let requests = SMUGGLING
        .iter()
        .map(|&(name, bytes, status, code, after)| (name, bytes.to_vec(), status, code, after));
    let targets = TRAVERSAL.iter().map(|&(name, path, status, code, after)| {
        let path = match path {
            b"/v1/LONG" => [b"/v1/", &b"x".repeat(9000)[..]].concat(),
            b"/v1/LONGER" => [b"/v1/", &b"x".repeat(20_000)[..]].concat(),
            path => path.to_vec(),
        };
        let bytes = [b"GET ", &path[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        (name, bytes, status, code, after)
    });
    requests.chain(targets)
}

async fn start() -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::Result(fee_history(1000, 3, 40))).await;
    let chains = format!("[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n", node.url());
    let service = TestServer::start(&chains).await;
    service.wait_for("/readyz", |response| response.status == 200).await;
    (node, service)
}

fn marker(id: &str, more: &str) -> String {
    get("/v1/a/fee-history?blocks=1", &format!("X-Request-Id: {id}\r\n{more}"))
}

#[tokio::test]
async fn each_shape_gets_its_documented_response_and_nothing_smuggled() {
    let (_node, service) = start().await;
    let mut failures = Vec::new();
    for (name, bytes, status, code, after) in shapes() {
        let mut client = RawClient::connect(service.address()).await;
        client.send(&bytes).await;
        let mut responses = match after {
            Closes | Breaks => {
                let responses = tokio::time::timeout(MAX_CLOSE_DELAY, client.read_until_closed());
                responses.await.unwrap_or_else(|_| {
                    failures.push(format!("{name}: the connection stays open"));
                    Vec::new()
                })
            }
            Stays => {
                // The response to a smuggled request would arrive before the response to the marker.
                client.send(marker("marker", "")).await;
                let mut responses = Vec::new();
                while let Some(response) = client.read_response().await.unwrap() {
                    let is_marker = response.header("x-request-id") == "marker";
                    responses.push(response);
                    if is_marker {
                        break;
                    }
                }
                let last = responses.pop().filter(|last| last.status() == 200);
                if last.is_none_or(|last| last.header("x-request-id") != "marker") {
                    failures.push(format!("{name}: no response to the next request"));
                }
                responses
            }
        };
        let first = (!responses.is_empty()).then(|| responses.remove(0));
        let found = first.as_ref().map_or((0, String::new()), Message::outcome);
        if found != (status, code.to_owned()) || !responses.is_empty() {
            failures
                .push(format!("{name}: not {status} {code} alone: {first:#?} and {responses:#?}"));
        }
        if first.is_some_and(|first| first.closes_connection() != (after == Closes)) {
            failures.push(format!("{name}: the Connection header does not match"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn documentation_lists_every_shape_tested_here() {
    let rows: Vec<_> = shapes()
        .map(|(name, _, status, code, after)| {
            let code = if code.is_empty() { String::new() } else { format!(" `{code}`") };
            let after = match after {
                Closes => "closes",
                Breaks => "closes unannounced",
                Stays => "stays open",
            };
            let status = if status == 0 { "no response".into() } else { status.to_string() };
            format!("| {name} | {status}{code} | {after} |")
        })
        .collect();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| Shape |");
    let documented: Vec<_> = DOCUMENTED.lines().filter(is_row).collect();
    assert_eq!(documented, rows, "\n{}", rows.join("\n"));
}

#[tokio::test]
async fn client_still_sending_a_body_can_read_the_response() {
    let (_node, service) = start().await;
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
        assert_eq!(responses[0].own_outcome(), (405, NO_METHOD.to_owned()));
    }
}

#[tokio::test]
async fn pipelined_requests_are_served_in_order_until_a_malformed_one() {
    let (_node, service) = start().await;
    let mut client = RawClient::connect(service.address()).await;
    let good: String = (0..20).map(|count| marker(&format!("marker-{count}"), "")).collect();
    client.send(good + "G@T / HTTP/1.1\r\n\r\n" + inner!()).await;
    let responses = client.read_until_closed().await;
    let ids: Vec<_> = responses.iter().map(|response| response.header("x-request-id")).collect();
    let expected: Vec<_> = (0..20).map(|count| format!("marker-{count}")).collect();
    assert_eq!(ids[..20], expected);
    assert_eq!(responses.len(), 21);
    assert_eq!(responses[20].outcome(), (400, NO_BODY.to_owned()));
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
    format!(
        "pid nginx.pid;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n\
         access_log off; ignore_invalid_headers off;\n\
         client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 60s;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         upstream service {{ server {upstream}; keepalive 2; }}\n\
         {}{}}}\n",
        server(buffering, "on"),
        server(streaming, "off"),
    )
}

/// Returns the request ids of all responses, in order.
fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect()
}

#[tokio::test]
async fn nginx_connections_stay_in_sync_for_every_shape() {
    let (_node, service) = start().await;
    // The first buffers a whole request before it forwards it. The second streams bodies, chunked if they arrive chunked.
    let proxies = [free_port(), free_port()].map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let configure = |_: &Path| configuration(service.address(), proxies[0], proxies[1]);
    let _nginx = Nginx::start(&proxies, configure).await;
    for proxy in proxies {
        let mut other_clients = Vec::new();
        for _ in 0..4 {
            other_clients.push(RawClient::connect(proxy).await);
        }
        let expected = other_clients[0].request(marker("first", "")).await;
        assert_eq!((expected.status(), expected.header("x-request-id")), (200, "first"));
        for (count, (name, bytes, ..)) in shapes().enumerate() {
            let mut client = RawClient::connect(proxy).await;
            client.send(&bytes).await;
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
            let ids = ids(&text);
            let named: Vec<_> = ids.iter().filter(|id| **id == "smuggled" || **id == own).collect();
            let in_order = [vec![], vec!["smuggled"], vec![&own], vec!["smuggled", &own]];
            assert!(
                in_order.iter().any(|ids| named.iter().eq(&ids.iter().collect::<Vec<_>>())),
                "{name}: {text}"
            );
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
