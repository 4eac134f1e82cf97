//! `GET /v1/{chain}/badge.svg` of the running service.

use reqwest::Method;

use crate::mock_node::{MockNode, Reply, start_service};
use crate::test_server::{Response, TestServer};

const CHAIN: &str = "block_time = \"50ms\"\nstall_after = \"0s\"";

fn texts(response: &Response) -> Vec<String> {
    let document = roxmltree::Document::parse(&response.body).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_badge_shows_the_expected_medium_price() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&node.chain("a", CHAIN)).await;
    let without = service.get("/v1/a/badge.svg").await;
    assert_eq!(
        (without.status, texts(&without)),
        (200, vec!["gas".to_owned(), "no data".to_owned()])
    );
    assert_eq!(without.header("cache-control"), "no-cache");
    assert!(without.body.contains("<title id=\"title\">gas: no data</title>"), "{without:?}");
    node.set_reply(Reply::history(1000, 3, 40));
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let badge = service.get("/v1/a/badge.svg").await;
    assert_eq!(texts(&badge), ["gas", "43 gwei"]);
    assert_eq!(badge.header("content-type"), "image/svg+xml");
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    assert_eq!(badge.header("content-security-policy"), policy);
    assert_eq!(badge.header("x-content-type-options"), "nosniff");
    assert_eq!(badge.header("x-newest-block"), "1000");
    assert!(badge.header("cache-control").starts_with("public, max-age="), "{badge:?}");

    let tag = [("if-none-match", badge.header("etag"))];
    let other = service.send(Method::GET, "/v1/a/badge.svg?label=x", &tag).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn a_label_is_escaped_and_limited() {
    let (_node, service) = start_service("", CHAIN).await;
    let long = "%C3%A4".repeat(40);
    for (label, expected) in [
        ("Ronin+gas", "Ronin gas"),
        ("++a++b+", "a b"),
        ("%3C%2Ftext%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E", "</text><script>alert(1)</script>"),
        ("%26amp%3B%22%27", "&amp;\"'"),
        (&long, &"\u{e4}".repeat(40)),
    ] {
        let badge = service.get(&format!("/v1/a/badge.svg?label={label}")).await;
        assert_eq!(texts(&badge), [expected, "43 gwei"], "{label}");
    }
    assert_eq!(texts(&service.get("/v1/a/badge.svg?label=").await), ["43 gwei"]);
    for label in [&format!("{long}a"), "a%00", "a%0Ab", "%7F", "%EF%BF%BF", "%FF", "a&label=b"] {
        let response = service.get(&format!("/v1/a/badge.svg?label={label}")).await;
        response.assert_problem(400, "invalid_parameter");
    }
}
