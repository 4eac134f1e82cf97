//! Tests that bodies and queries are forwarded byte for byte.

use super::{
    Harness, chunked, every_byte, get, healthy, post, post_chunked, post_whole_and_chunked,
    respond_with, response,
};
use crate::fixtures::gzip;

#[tokio::test]
async fn request_body_and_framing_are_forwarded_unchanged() {
    let harness = Harness::start(healthy()).await;
    let multipart = [
        b"--x\r\nContent-Disposition: form-data; name=\"chain\"\r\n\r\n2020\r\n--x\r\n\
          Content-Disposition: form-data; name=\"files\"; filename=\"a.sol\"\r\n\r\n"
            .to_vec(),
        every_byte(5000),
        b"\r\n--x--\r\n".to_vec(),
    ]
    .concat();
    let bodies = [
        ("application/octet-stream", "", every_byte(1)),
        ("application/octet-stream", "", every_byte(256)),
        ("application/octet-stream", "", every_byte(1_000_000)),
        ("application/json", "gzip", gzip(&every_byte(20_000))),
        ("application/json", "br", b"not brotli data".to_vec()),
        ("multipart/form-data; boundary=x", "", multipart),
        (
            "application/json",
            "",
            b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        ),
        ("", "", b"{}".to_vec()),
    ];
    for (kind, encoding, body) in bodies {
        let path = "/verification/verify";
        let headers = [("Content-Type", kind), ("Content-Encoding", encoding)];
        let given = headers.into_iter().filter(|(_, value)| !value.is_empty());
        let lines = given.map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers = lines.collect::<Vec<_>>().concat();
        let whole = post(path, &headers, &body);
        let in_chunks = post_chunked(path, &headers, &chunked(&body, 1009));
        let length = body.len().to_string();
        for (request, framing) in [(whole, ["", length.as_str()]), (in_chunks, ["chunked", ""])] {
            let number = harness.upstream.connection_count();
            assert_eq!(harness.request(request).await.status(), 200);
            let seen = harness.upstream.request(number).await;
            assert!(seen.body == body, "{kind}, {framing:?}: {} bytes", seen.body.len());
            let names = ["content-type", "content-encoding", "transfer-encoding", "content-length"];
            let expected = [kind, encoding, framing[0], framing[1]];
            assert_eq!(names.map(|name| seen.header(name)), expected);
        }
    }
}

#[tokio::test]
async fn empty_request_body_is_forwarded_as_empty() {
    let harness = Harness::start(healthy()).await;
    let path = "/verification/v2/verify/1/0xA";
    // The empty bodies: a length of 0, a chunked body without chunks, and no framing header.
    harness.request(post(path, "", b"")).await;
    assert_eq!(harness.upstream.request(0).await.header("content-length"), "0");
    harness.request(post_chunked(path, "", b"0\r\n\r\n")).await;
    let request = harness.upstream.request(1).await;
    assert_eq!((request.header("transfer-encoding"), request.body.len()), ("chunked", 0));
    harness.request(format!("POST {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    // Some servers require a length on every POST.
    assert_eq!(harness.upstream.request(2).await.header("content-length"), "0");
}

#[tokio::test]
async fn max_body_bytes_pass_and_one_more_is_refused() {
    let harness = Harness::with_settings("max_body = \"64 KiB\"", "", healthy()).await;
    let max_body = every_byte(64 * 1024);
    let requests = post_whole_and_chunked("/verification/verify", &max_body, 4099);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(harness.request(request).await.status(), 200);
        assert!(harness.upstream.request(number).await.body == max_body);
    }
    let too_large = every_byte(64 * 1024 + 1);
    let [whole, in_chunks] = post_whole_and_chunked("/verification/verify", &too_large, 4099);
    let refused = (413, "payload_too_large".to_owned());
    assert_eq!(harness.request(whole).await.outcome(), refused);
    assert_eq!(harness.upstream.connection_count(), 2);
    assert_eq!(harness.request(in_chunks).await.outcome(), refused);
    assert!(!harness.upstream.wait_for_close(2).await.is_complete());
}

#[tokio::test]
async fn response_body_and_length_are_returned_unchanged() {
    let harness = Harness::start(healthy()).await;
    let compressed = gzip(&every_byte(3000));
    for length in [0, 1, 100, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 1_000_000] {
        let body = every_byte(length);
        let headers = "Content-Type: application/octet-stream\r\n";
        harness.upstream.set_script(respond_with(response("200 OK", headers, &body)));
        let whole = harness.request(get("/verification/health", "")).await;
        assert!(whole.body == body, "{length}: {}", whole.body.len());
        assert_eq!(whole.header("content-length"), length.to_string());
        let head = format!("HTTP/1.1 200 OK\r\n{headers}Transfer-Encoding: chunked\r\n\r\n");
        let bytes = [head.as_bytes(), &chunked(&body, 5003)].concat();
        harness.upstream.set_script(respond_with(bytes));
        let whole = harness.request(get("/verification/health", "")).await;
        assert!(whole.body == body, "in chunks: {length}: {}", whole.body.len());
    }
    let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    harness.upstream.set_script(respond_with(response("200 OK", headers, &compressed)));
    let request = "GET /verification/chains HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let whole = harness.request(request).await;
    assert_eq!((whole.header("content-encoding"), &whole.body), ("gzip", &compressed));
}
