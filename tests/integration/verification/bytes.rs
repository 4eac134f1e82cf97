//! Bodies and queries on their way: byte for byte.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Stage, every_byte, get, post, post_chunked, well};
use crate::message::chunked;
use crate::upstream::{answer, answering};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_body_goes_on_byte_for_byte_and_delimited_as_it_came() {
    let stage = Stage::start(well()).await;
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
        ("application/json", "Content-Encoding: gzip\r\n", gzip(&every_byte(20_000))),
        ("application/json", "Content-Encoding: br\r\n", b"this is no brotli".to_vec()),
        ("multipart/form-data; boundary=x", "", multipart),
        (
            "application/json",
            "",
            b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        ),
        ("", "", b"{}".to_vec()),
    ];
    let mut number = 0;
    for (kind, encoding, body) in bodies {
        let headers = if kind.is_empty() {
            String::new()
        } else {
            format!("Content-Type: {kind}\r\n{encoding}")
        };
        for is_chunked in [false, true] {
            let request = if is_chunked {
                post_chunked("/verification/verify", &headers, &chunked(&body, 1009))
            } else {
                post("/verification/verify", &headers, &body)
            };
            assert_eq!(stage.ask(request).await.status(), 200);
            let seen = stage.upstream.request(number).await;
            assert!(seen.body == body, "{kind}, chunked: {is_chunked}: {} bytes", seen.body.len());
            assert_eq!(seen.header("content-type"), kind);
            assert_eq!(
                seen.header("content-encoding"),
                encoding.trim_start_matches("Content-Encoding: ").trim_end()
            );
            let delimited = (seen.header("transfer-encoding"), seen.header("content-length"));
            let length = body.len().to_string();
            assert_eq!(delimited, if is_chunked { ("chunked", "") } else { ("", length.as_str()) });
            number += 1;
        }
    }
}

#[tokio::test]
async fn an_empty_body_goes_on_as_one() {
    let stage = Stage::start(well()).await;
    let path = "/verification/v2/verify/1/0xA";
    // Said to be empty, empty in chunks, and not mentioned.
    stage.ask(post(path, "", b"")).await;
    assert_eq!(stage.upstream.request(0).await.header("content-length"), "0");
    stage.ask(post_chunked(path, "", b"0\r\n\r\n")).await;
    let request = stage.upstream.request(1).await;
    assert_eq!((request.header("transfer-encoding"), request.body.len()), ("chunked", 0));
    stage.ask(format!("POST {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    // There are servers that want to be told.
    assert_eq!(stage.upstream.request(2).await.header("content-length"), "0");
}

#[tokio::test]
async fn a_body_of_as_many_bytes_as_may_be_passes_and_one_more_does_not() {
    let stage = Stage::with("max_body = \"64 KiB\"", "", well()).await;
    let most = every_byte(64 * 1024);
    for request in [
        post("/verification/verify", "", &most),
        post_chunked("/verification/verify", "", &chunked(&most, 4099)),
    ] {
        let number = stage.upstream.connections();
        assert_eq!(stage.ask(request).await.status(), 200);
        assert!(stage.upstream.request(number).await.body == most);
    }
    let more = every_byte(64 * 1024 + 1);
    let answer = stage.ask(post("/verification/verify", "", &more)).await;
    assert_eq!(answer.outcome(), (413, "payload_too_large".into()));
    assert_eq!(stage.upstream.connections(), 2);
    let answer = stage.ask(post_chunked("/verification/verify", "", &chunked(&more, 4099))).await;
    assert_eq!(answer.outcome(), (413, "payload_too_large".into()));
    assert!(!stage.upstream.ended(2).await.is_whole());
}

#[tokio::test]
async fn a_query_goes_on_as_it_came() {
    let stage = Stage::start(well()).await;
    let queries = [
        "?",
        "?a",
        "?=",
        "?&&",
        "?addresses=0xA%2C0xB&chainIds=2020",
        "?addresses=0xA%2c0xB",
        "?addresses=0xA,0xB",
        "?a=b+c%20d",
        "?a[]=1&a[0]=2",
        "?a=/../..//x\\y",
        "?a=%2e%2e%2f%00%ff%zz%",
        "?url=http://other.example/",
        "?a?b?c",
        "?a={b}|^`;:@!$()*~",
    ];
    for (number, query) in queries.iter().enumerate() {
        let path = "/check-by-addresses";
        let answer = stage.ask(get(&format!("/verification{path}{query}"))).await;
        assert_eq!(answer.status(), 200, "{query}");
        let first = stage.upstream.request(number).await.first;
        assert_eq!(first, format!("GET /server{path}{query} HTTP/1.1"));
    }
    // A body does not change that.
    stage.ask(post("/verification/?a=%2C", "", b"{}")).await;
    let first = stage.upstream.request(queries.len()).await.first;
    assert_eq!(first, "POST /server/?a=%2C HTTP/1.1");
}

#[tokio::test]
async fn a_query_that_would_change_on_its_way_is_refused() {
    let stage = Stage::start(well()).await;
    for query in ["?a='b'", "?a=\"b\"", "?a=<b>", "?a=\u{e4}", "?a=\u{2028}"] {
        for request in [
            get(&format!("/verification/check-by-addresses{query}")).into_bytes(),
            post(&format!("/verification/verify{query}"), "", b"{}"),
        ] {
            let (status, code) = stage.ask(request).await.outcome();
            assert_eq!(status, 400, "{query}");
            assert!(["invalid_parameter", "bad_request"].contains(&code.as_str()), "{query}");
        }
    }
    assert_eq!(stage.upstream.connections(), 0);
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let stage = Stage::start(well()).await;
    let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
    let head = "POST /verification/verify HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                Content-Length: 5\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    client.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    let mut answer = [0; 15];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let request = stage.upstream.request(0).await;
    assert_eq!((request.body.as_slice(), request.has("expect")), (&b"12345"[..], false));
}

#[tokio::test]
async fn a_client_that_waits_is_not_asked_for_a_body_that_is_too_large() {
    let stage = Stage::start(well()).await;
    let answer = stage
        .ask(format!(
            "POST /verification/verify HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: {}\r\n\r\n",
            32 * 1024 * 1024 + 1
        ))
        .await;
    assert_eq!(answer.outcome(), (413, "payload_too_large".into()));
    assert_eq!(stage.upstream.connections(), 0);
}

#[tokio::test]
async fn an_answer_comes_back_byte_for_byte_and_delimited_as_it_was_sent() {
    let stage = Stage::start(well()).await;
    let compressed = gzip(&every_byte(3000));
    for length in [0, 1, 100, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 1_000_000] {
        let body = every_byte(length);
        let headers = "Content-Type: application/octet-stream\r\n";
        stage.upstream.play(answering(answer("200 OK", headers, &body)));
        let whole = stage.ask(get("/verification/health")).await;
        assert!(whole.body == body, "{length}: {}", whole.body.len());
        assert_eq!(whole.header("content-length"), length.to_string());
        let head = format!("HTTP/1.1 200 OK\r\n{headers}Transfer-Encoding: chunked\r\n\r\n");
        let bytes = [head.as_bytes(), &chunked(&body, 5003)].concat();
        stage.upstream.play(answering(bytes));
        let whole = stage.ask(get("/verification/health")).await;
        assert!(whole.body == body, "in chunks: {length}: {}", whole.body.len());
    }
    let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    stage.upstream.play(answering(answer("200 OK", headers, &compressed)));
    let request = "GET /verification/chains HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let whole = stage.ask(request).await;
    assert_eq!((whole.header("content-encoding"), &whole.body), ("gzip", &compressed));
}
