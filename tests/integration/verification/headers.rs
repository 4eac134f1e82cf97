//! Tests of forwarded headers in both directions, and of responses without a body.

use super::{Harness, get, healthy, post};
use crate::http_message::{Message, chunked};
use crate::mock_upstream::{respond_with, response};

/// Headers of the client. Most of those that must not be forwarded contain "canary".
const CLIENT_HEADERS: &str = "Content-Type: application/json; charset=utf-8\r\n\
     Content-Encoding: gzip\r\n\
     Accept: application/json\r\n\
     Accept: text/plain\r\n\
     Accept-Encoding: gzip, br\r\n\
     Authorization: Bearer canary\r\n\
     Proxy-Authorization: Basic canary\r\n\
     X-API-KEY: canary\r\n\
     Cookie: session=canary\r\n\
     Origin: https://canary.example\r\n\
     Referer: https://canary.example/\r\n\
     User-Agent: canary/1.0\r\n\
     X-Forwarded-For: 10.9.8.7\r\n\
     X-Forwarded-Host: canary.example\r\n\
     X-Forwarded-Proto: canary\r\n\
     Forwarded: for=canary\r\n\
     X-Real-IP: 10.9.8.7\r\n\
     X-Original-URL: /canary\r\n\
     X-Rewrite-URL: /canary\r\n\
     X-HTTP-Method-Override: DELETE\r\n\
     X-Request-Id: canary-1\r\n\
     TE: trailers\r\n\
     Trailer: X-Canary\r\n\
     Upgrade: canary\r\n\
     Keep-Alive: timeout=9\r\n\
     If-None-Match: \"canary\"\r\n\
     Range: bytes=0-1\r\n\
     Via: 1.1 canary\r\n\
     X-Hop: canary\r\n\
     Connection: X-Hop, Keep-Alive, TE, Upgrade\r\n";

fn values<'a>(message: &'a Message, name: &str) -> Vec<&'a str> {
    let values = message.headers.iter().filter(|(one, _)| one == name);
    values.map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn only_listed_request_headers_are_forwarded() {
    let harness = Harness::start(healthy()).await;
    for (number, path) in
        ["/", "/verify", "/verify/solc-json", "/v2/verify/1/0xA", "/verify/create2"]
            .iter()
            .enumerate()
    {
        let response =
            harness.request(post(&format!("/verification{path}"), CLIENT_HEADERS, b"{}")).await;
        assert_eq!(response.status(), 200, "{response:#?}");
        let request = harness.upstream.request(number).await;
        let mut expected = vec![
            "accept",
            "accept",
            "accept-encoding",
            "content-encoding",
            "content-length",
            "content-type",
            "host",
            "user-agent",
        ];
        let mut head =
            String::from_utf8(harness.upstream.connections()[number].bytes.clone()).unwrap();
        if *path == "/verify/create2" {
            expected.insert(3, "authorization");
            assert_eq!(request.header("authorization"), "Bearer canary");
            head = head.replace("Bearer canary", "");
        }
        assert_eq!(request.header_names(), expected, "{path}");
        assert!(!head.contains("canary"), "{head}");
        assert_eq!(values(&request, "accept"), ["application/json", "text/plain"]);
        assert_eq!(request.header("accept-encoding"), "gzip, br");
        assert_eq!(request.header("content-type"), "application/json; charset=utf-8");
        assert_eq!(request.header("host"), harness.upstream.address().to_string());
        assert!(request.header("user-agent").starts_with("gas-suggestion/"));
    }
}

#[tokio::test]
async fn request_headers_named_in_connection_are_not_forwarded() {
    let harness = Harness::start(healthy()).await;
    let headers = "Content-Type: a/b\r\nAccept: c/d\r\nAuthorization: Bearer canary\r\n\
                   Connection: close, content-TYPE\r\nConnection: authorization\r\n";
    harness.request(post("/verification/verify/create2", headers, b"{}")).await;
    let request = harness.upstream.request(0).await;
    assert_eq!(request.header_names(), ["accept", "content-length", "host", "user-agent"]);
    assert_eq!(request.header("accept"), "c/d");
}

/// Headers of the upstream's response. Most of those that must not be returned contain "canary".
const UPSTREAM_HEADERS: &str = "Content-Type: application/json\r\n\
     Content-Encoding: identity\r\n\
     Deprecation: true\r\n\
     Warning: 299 - \"v1 is deprecated\"\r\n\
     Warning: 199 - \"another\"\r\n\
     Retry-After: 7\r\n\
     Cache-Control: private, max-age=5\r\n\
     ETag: W/\"x\"\r\n\
     Set-Cookie: session=canary\r\n\
     Set-Cookie: other=canary\r\n\
     Access-Control-Allow-Origin: https://canary.example\r\n\
     Access-Control-Allow-Credentials: true\r\n\
     Access-Control-Allow-Methods: CANARY\r\n\
     Access-Control-Allow-Headers: X-Canary\r\n\
     Access-Control-Expose-Headers: X-Canary\r\n\
     Access-Control-Max-Age: 1\r\n\
     Location: https://canary.example/\r\n\
     Server: canary/1.0\r\n\
     X-Powered-By: canary\r\n\
     Strict-Transport-Security: max-age=1\r\n\
     Content-Security-Policy: canary\r\n\
     Alt-Svc: h3=\"canary:443\"\r\n\
     Refresh: 0; url=https://canary.example/\r\n\
     Link: <https://canary.example/>; rel=preload\r\n\
     Content-Disposition: attachment; filename=canary\r\n\
     X-Request-Id: canary\r\n\
     WWW-Authenticate: Basic realm=canary\r\n\
     Clear-Site-Data: \"canary\"\r\n\
     Vary: Origin\r\n\
     Vary: cookie, Accept\r\n\
     Via: 1.1 canary\r\n\
     X-Hop: canary\r\n\
     Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
     Connection: X-Hop, keep-alive\r\n\
     Keep-Alive: timeout=9\r\n";

#[tokio::test]
async fn only_listed_response_headers_come_back_beside_our_own() {
    let harness = Harness::start(healthy()).await;
    for status in [
        "200 OK",
        "202 Accepted",
        "301 Moved Permanently",
        "401 Unauthorized",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        harness.upstream.set_script(respond_with(response(status, UPSTREAM_HEADERS, "{}")));
        let request =
            "GET /verification/chains HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n";
        let response = harness.request(request).await;
        assert_eq!((response.status().to_string().as_str(), response.text()), (&status[..3], "{}"));
        assert_eq!(
            response.header_names(),
            [
                "access-control-allow-origin",
                "access-control-expose-headers",
                "cache-control",
                "content-encoding",
                "content-length",
                "content-security-policy",
                "content-type",
                "date",
                "deprecation",
                "etag",
                "retry-after",
                "vary",
                "warning",
                "warning",
                "x-content-type-options",
                "x-request-id",
            ],
            "{status}"
        );
        assert!(!format!("{response:?}").contains("canary"), "{response:#?}");
        assert_eq!(response.header("access-control-allow-origin"), "*");
        assert_eq!(
            values(&response, "warning"),
            ["299 - \"v1 is deprecated\"", "199 - \"another\""]
        );
        assert_eq!(response.header("deprecation"), "true");
        assert_eq!(response.header("retry-after"), "7");
        assert_eq!(response.header("vary"), "Origin, cookie, Accept, accept-encoding");
        assert_eq!(response.header("cache-control"), "private, max-age=5");
        assert_eq!(response.header("etag"), "W/\"x\"");
    }
}

#[tokio::test]
async fn response_headers_named_in_connection_do_not_come_back() {
    let harness = Harness::start(healthy()).await;
    let headers = "Content-Type: a/b\r\nETag: \"x\"\r\nConnection: etag, Close\r\n";
    harness.upstream.set_script(respond_with(response("200 OK", headers, "{}")));
    let response = harness.request(get("/verification/chains", "")).await;
    assert_eq!((response.header("content-type"), response.has_header("etag")), ("a/b", false));
    // `Connection` itself is a hop-by-hop header.
    assert!(!response.has_header("connection"));
}

#[tokio::test]
async fn trailers_are_not_forwarded() {
    let harness = Harness::start(healthy()).await;
    let with_trailer = |body: &[u8]| {
        [&chunked(body, 3)[..chunked(body, 3).len() - 2], b"X-Canary: 1\r\n\r\n"].concat()
    };
    let head = b"HTTP/1.1 200 OK\r\nTrailer: X-Canary\r\nTransfer-Encoding: chunked\r\n\r\n";
    harness.upstream.set_script(vec![
        crate::mock_upstream::Step::ReadHeaders,
        crate::mock_upstream::Step::Write([&head[..], &with_trailer(b"12345")].concat()),
    ]);
    let request = super::post_chunked("/verification/verify", "", &with_trailer(b"67890"));
    let response = harness.request(request).await;
    assert_eq!(response.text(), "12345");
    assert!(!format!("{response:?}").to_lowercase().contains("canary"), "{response:#?}");
    let seen =
        harness.upstream.wait_for_connection(0, super::ReceivedConnection::is_complete).await;
    assert_eq!(seen.request().body, b"67890");
    assert!(!String::from_utf8(seen.bytes).unwrap().to_lowercase().contains("canary"));
}

#[tokio::test]
async fn head_is_forwarded_as_head_with_the_upstream_content_length() {
    let harness = Harness::start(healthy()).await;
    let head = |path: &str| format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let bodyless = |headers: &str| {
        respond_with(format!("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n{headers}\r\n"))
    };
    for (headers, length) in [
        ("Content-Length: 12345678\r\n", Some("12345678")),
        ("Content-Length: 0\r\n", Some("0")),
        // An unknown length must not become 0.
        ("Transfer-Encoding: chunked\r\n", None),
        ("", None),
    ] {
        harness.upstream.set_script(bodyless(headers));
        let number = harness.upstream.connection_count();
        let response = harness.request(head("/verification/chains")).await;
        assert_eq!(response.status(), 200);
        let content_length =
            response.has_header("content-length").then(|| response.header("content-length"));
        assert_eq!(content_length, length, "{headers}: {response:#?}");
        assert_eq!(response.header("content-type"), "a/b");
        let request = harness.upstream.request(number).await;
        assert_eq!(request.start_line, "HEAD /server/chains HTTP/1.1");
    }
    // A pipelined request after HEAD gets its own response.
    let address = harness.service.address();
    let mut connection = crate::raw_client::RawClient::connect(address).await;
    connection.send([head("/verification/chains"), get("/livez", "")].concat()).await;
    let bytes = connection.read_bytes_until(b"HTTP/1.1 200 OK", 2).await;
    assert_eq!(String::from_utf8(bytes).unwrap().matches("HTTP/1.1").count(), 2);
}

#[tokio::test]
async fn bodyless_responses_stay_bodyless() {
    let harness = Harness::start(healthy()).await;
    for (status, headers) in [
        ("204 No Content", ""),
        ("204 No Content", "Content-Length: 5\r\n"),
        ("304 Not Modified", "ETag: \"x\"\r\n"),
        ("304 Not Modified", "ETag: \"x\"\r\nContent-Length: 500\r\n"),
    ] {
        harness.upstream.set_script(respond_with(format!("HTTP/1.1 {status}\r\n{headers}\r\n")));
        for method in ["GET", "HEAD"] {
            let request = format!("{method} /verification/chains HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = harness.request(request).await;
            assert_eq!(response.status().to_string(), status[..3]);
            assert!(!response.has_header("transfer-encoding"), "{method} {status} {response:#?}");
            // The length of a 304 would be that of the corresponding 200 response (RFC 9110, section 8.6).
            assert_ne!(response.header("content-length"), "0", "{method} {status} {response:#?}");
            let has_length = response.has_header("content-length");
            assert!(!has_length || status.starts_with("304"), "{method} {status} {response:#?}");
        }
    }
}
