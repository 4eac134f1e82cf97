//! Which headers pass, either way, and answers that have no body.

use super::{Stage, get, post, well};
use crate::message::{Message, chunked};
use crate::upstream::{answer, answering};

/// What a client may send, and more.
const SENT: &str = "Content-Type: application/json; charset=utf-8\r\n\
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
async fn only_what_says_what_the_body_is_and_what_is_wanted_goes_on() {
    let stage = Stage::start(well()).await;
    for (number, path) in
        ["/", "/verify", "/verify/solc-json", "/v2/verify/1/0xA", "/verify/create2"]
            .iter()
            .enumerate()
    {
        let answer = stage.ask(post(&format!("/verification{path}"), SENT, b"{}")).await;
        assert_eq!(answer.status(), 200, "{answer:#?}");
        let request = stage.upstream.request(number).await;
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
        let mut is_told = String::from_utf8(stage.upstream.all()[number].bytes.clone()).unwrap();
        if *path == "/verify/create2" {
            expected.insert(3, "authorization");
            assert_eq!(request.header("authorization"), "Bearer canary");
            is_told = is_told.replace("Bearer canary", "");
        }
        assert_eq!(request.names(), expected, "{path}");
        assert!(!is_told.contains("canary"), "{is_told}");
        assert_eq!(values(&request, "accept"), ["application/json", "text/plain"]);
        assert_eq!(request.header("accept-encoding"), "gzip, br");
        assert_eq!(request.header("content-type"), "application/json; charset=utf-8");
        assert_eq!(request.header("host"), stage.upstream.address().to_string());
        assert!(request.header("user-agent").starts_with("gas-suggestion/"));
    }
}

#[tokio::test]
async fn a_header_that_connection_names_is_for_this_hop_alone() {
    let stage = Stage::start(well()).await;
    let headers = "Content-Type: a/b\r\nAccept: c/d\r\nAuthorization: Bearer canary\r\n\
                   Connection: close, content-TYPE\r\nConnection: authorization\r\n";
    stage.ask(post("/verification/verify/create2", headers, b"{}")).await;
    let request = stage.upstream.request(0).await;
    assert_eq!(request.names(), ["accept", "content-length", "host", "user-agent"]);
    assert_eq!(request.header("accept"), "c/d");
}

/// What an upstream may answer, and more.
const ANSWERED: &str = "Content-Type: application/json\r\n\
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
     Vary: canary\r\n\
     Via: 1.1 canary\r\n\
     X-Hop: canary\r\n\
     Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
     Connection: X-Hop, keep-alive\r\n\
     Keep-Alive: timeout=9\r\n";

#[tokio::test]
async fn only_what_says_what_the_answer_is_comes_back_with_headers_of_our_own() {
    let stage = Stage::start(well()).await;
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
        stage.upstream.play(answering(answer(status, ANSWERED, "{}")));
        let request =
            "GET /verification/chains HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n";
        let answer = stage.ask(request).await;
        assert_eq!((answer.status().to_string().as_str(), answer.text()), (&status[..3], "{}"));
        assert_eq!(
            answer.names(),
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
        assert!(!format!("{answer:?}").contains("canary"), "{answer:#?}");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(values(&answer, "warning"), ["299 - \"v1 is deprecated\"", "199 - \"another\""]);
        assert_eq!(answer.header("deprecation"), "true");
        assert_eq!(answer.header("retry-after"), "7");
        assert_eq!(answer.header("vary"), "accept, accept-encoding");
        assert_eq!(answer.header("cache-control"), "private, max-age=5");
        assert_eq!(answer.header("etag"), "W/\"x\"");
    }
}

#[tokio::test]
async fn a_header_of_an_answer_that_connection_names_does_not_come_back() {
    let stage = Stage::start(well()).await;
    let headers = "Content-Type: a/b\r\nETag: \"x\"\r\nConnection: etag, Close\r\n";
    stage.upstream.play(answering(answer("200 OK", headers, "{}")));
    let answer = stage.ask(get("/verification/chains")).await;
    assert_eq!((answer.header("content-type"), answer.has("etag")), ("a/b", false));
    // What is between the upstream and the service is nothing between the service and its client.
    assert!(!answer.has("connection"));
}

#[tokio::test]
async fn trailers_stay_where_they_are() {
    let stage = Stage::start(well()).await;
    let with_trailer = |body: &[u8]| {
        [&chunked(body, 3)[..chunked(body, 3).len() - 2], b"X-Canary: 1\r\n\r\n"].concat()
    };
    let head = b"HTTP/1.1 200 OK\r\nTrailer: X-Canary\r\nTransfer-Encoding: chunked\r\n\r\n";
    stage.upstream.play(vec![
        crate::upstream::Step::Head,
        crate::upstream::Step::Say([&head[..], &with_trailer(b"12345")].concat()),
    ]);
    let request = super::post_chunked("/verification/verify", "", &with_trailer(b"67890"));
    let answer = stage.ask(request).await;
    assert_eq!(answer.text(), "12345");
    assert!(!format!("{answer:?}").to_lowercase().contains("canary"), "{answer:#?}");
    let seen = stage.upstream.until(0, super::Seen::is_whole).await;
    assert_eq!(seen.request().body, b"67890");
    assert!(!String::from_utf8(seen.bytes).unwrap().to_lowercase().contains("canary"));
}

#[tokio::test]
async fn head_is_asked_as_head_and_told_the_length_that_the_upstream_tells() {
    let stage = Stage::start(well()).await;
    let head = |path: &str| format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let says =
        |headers: &str| answering(format!("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n{headers}\r\n"));
    for (headers, length) in [
        ("Content-Length: 12345678\r\n", Some("12345678")),
        ("Content-Length: 0\r\n", Some("0")),
        // Nobody knows the length, so nobody says that it is 0.
        ("Transfer-Encoding: chunked\r\n", None),
        ("", None),
    ] {
        stage.upstream.play(says(headers));
        let number = stage.upstream.connections();
        let answer = stage.ask(head("/verification/chains")).await;
        assert_eq!(answer.status(), 200);
        let told = answer.has("content-length").then(|| answer.header("content-length"));
        assert_eq!(told, length, "{headers}: {answer:#?}");
        assert_eq!(answer.header("content-type"), "a/b");
        let request = stage.upstream.request(number).await;
        assert_eq!(request.first, "HEAD /server/chains HTTP/1.1");
    }
    // Nothing of it is taken for an answer to what comes next.
    let address = stage.service.address();
    let mut connection = crate::raw::Connection::open(address).await;
    connection.send([head("/verification/chains"), get("/livez")].concat()).await;
    let bytes = connection.bytes_until(b"HTTP/1.1 200 OK", 2).await;
    assert_eq!(String::from_utf8(bytes).unwrap().matches("HTTP/1.1").count(), 2);
}

#[tokio::test]
async fn an_answer_without_a_body_stays_one() {
    let stage = Stage::start(well()).await;
    for (status, headers) in [
        ("204 No Content", ""),
        ("204 No Content", "Content-Length: 5\r\n"),
        ("304 Not Modified", "ETag: \"x\"\r\n"),
        ("304 Not Modified", "ETag: \"x\"\r\nContent-Length: 500\r\n"),
    ] {
        stage.upstream.play(answering(format!("HTTP/1.1 {status}\r\n{headers}\r\n")));
        for method in ["GET", "HEAD"] {
            let request = format!("{method} /verification/chains HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = stage.ask(request).await;
            assert_eq!(answer.status().to_string(), status[..3]);
            assert!(!answer.has("transfer-encoding"), "{method} {status} {answer:#?}");
            // A length would be that of another answer (RFC 9110, section 8.6).
            assert_ne!(answer.header("content-length"), "0", "{method} {status} {answer:#?}");
            let has_length = answer.has("content-length");
            assert!(!has_length || status.starts_with("304"), "{method} {status} {answer:#?}");
        }
    }
}
