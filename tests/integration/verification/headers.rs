//! Tests of forwarded headers in both directions, and of responses without a body.

use std::fmt::Write;

use super::{
    Harness, RawClient, ReceivedConnection, Step, chunked, get, healthy, post, post_chunked,
    respond_with, response,
};
use crate::fixtures;

/// Headers of the client. Most of those that must not be forwarded contain "canary".
const CLIENT_HEADERS: &str = include_str!("../../fixtures/upstream-faults/client-headers.txt");

/// Returns the headers of a fixture as they are sent.
fn sent(headers: &str) -> String {
    headers.replace('\n', "\r\n")
}

#[tokio::test]
async fn only_listed_request_headers_are_forwarded() {
    let harness = Harness::start(healthy()).await;
    let mut forwarded = String::new();
    let paths = ["/", "/verify", "/verify/solc-json", "/v2/verify/1/0xA", "/verify/create2"];
    for (number, path) in paths.iter().enumerate() {
        let request = post(&format!("/verification{path}"), &sent(CLIENT_HEADERS), b"{}");
        let response = harness.request(request).await;
        assert_eq!(response.status(), 200, "{response:#?}");
        let request = harness.upstream.request(number).await;
        let mut head =
            String::from_utf8(harness.upstream.connections()[number].bytes.clone()).unwrap();
        if *path == "/verify/create2" {
            head = head.replace("Bearer canary", "");
        }
        writeln!(forwarded, "{path}\n{}", request.header_text(&["host", "user-agent"])).unwrap();
        assert!(!head.contains("canary"), "{head}");
        assert_eq!(request.header("host"), harness.upstream.address().to_string());
        assert!(request.header("user-agent").starts_with("gas-suggestion/"));
    }
    fixtures::assert_snapshot("verification-request-headers", &forwarded);
}

/// Headers of the upstream's response. Most of those that must not be returned contain "canary".
const UPSTREAM_HEADERS: &str = include_str!("../../fixtures/upstream-faults/upstream-headers.txt");

#[tokio::test]
async fn only_listed_response_headers_come_back_and_no_redirect_is_followed() {
    let harness = Harness::start(healthy()).await;
    let origin = "Origin: https://app.example\r\n";
    for status in [
        "200 OK",
        "202 Accepted",
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
        "401 Unauthorized",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        harness.upstream.set_script(respond_with(response(status, &sent(UPSTREAM_HEADERS), "{}")));
        for request in
            [get("/verification/chains", origin).into(), post("/verification", origin, b"{}")]
        {
            let number = harness.upstream.connection_count();
            let response = harness.request(request).await;
            let found = (response.status().to_string(), response.text());
            assert_eq!(found, (status[..3].to_owned(), "{}"));
            let headers = response.header_text(&["date", "x-request-id"]);
            fixtures::assert_snapshot("verification-response-headers", &headers);
            assert!(!format!("{response:?}").contains("canary"), "{response:#?}");
            assert_eq!(harness.upstream.connection_count(), number + 1, "{status}");
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_unreadable_or_too_long_is_left_out() {
    let harness = Harness::start(healthy()).await;
    for (sent, passed_on) in [
        ("300", "300"),
        ("301", ""),
        ("soon", ""),
        ("-1", ""),
        ("Fri, 31 Dec 1999 23:59:59 GMT", "1"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", ""),
        ("7\r\nRetry-After: 8", "7"),
    ] {
        let headers = format!("Retry-After: {sent}\r\n");
        harness.upstream.set_script(respond_with(response("503 Busy", &headers, "{}")));
        let response = harness.request(get("/verification/chains", "")).await;
        assert_eq!((response.status(), response.header("retry-after")), (503, passed_on), "{sent}");
    }
}

#[tokio::test]
async fn trailers_are_not_forwarded() {
    let harness = Harness::start(healthy()).await;
    let with_trailer = |body: &[u8]| {
        let chunks = chunked(body, 3);
        [&chunks[..chunks.len() - 2], b"X-Canary: 1\r\n\r\n"].concat()
    };
    let head = b"HTTP/1.1 200 OK\r\nTrailer: X-Canary\r\nTransfer-Encoding: chunked\r\n\r\n";
    harness.upstream.set_script(vec![
        Step::ReadHeaders,
        Step::Write([&head[..], &with_trailer(b"12345")].concat()),
    ]);
    let request = post_chunked("/verification/verify", "", &with_trailer(b"67890"));
    let response = harness.request(request).await;
    assert_eq!(response.text(), "12345");
    assert!(!format!("{response:?}").to_lowercase().contains("canary"), "{response:#?}");
    let seen = harness.upstream.wait_for_connection(0, ReceivedConnection::is_complete).await;
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
    let mut connection = RawClient::connect(harness.service.address()).await;
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
