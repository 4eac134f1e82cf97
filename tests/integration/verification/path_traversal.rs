//! Tests of path traversal and request forgery: the service requests only allowed upstream paths and contacts no other
//! server.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Harness, MockUpstream, exchange, healthy};
use crate::fixtures;
use crate::pages::policy;

/// Requests; `{other}` is the address of a listener that must stay unused.
#[derive(Deserialize)]
struct Requests {
    targets: Vec<String>,
    /// Headers that some servers use for routing.
    headers: Vec<String>,
}

#[tokio::test]
async fn only_allowed_upstream_paths_are_requested() {
    let (harness, other) = (Harness::start(healthy()).await, MockUpstream::start(healthy()).await);
    let other_address = other.address().to_string();
    let long = ["a".repeat(128), "a".repeat(129), "a/".repeat(3000), "a".repeat(20_000)];
    let long = long.map(|segment| format!("/verification/v2/{segment}"));
    let Requests { mut targets, headers } = fixtures::json("tests/fixtures/path-traversal.json");
    targets.extend(long);
    assert!(targets.len() > 40);
    let mut requests = Vec::new();
    for target in &targets {
        for method in ["GET", "POST", "PUT", "OPTIONS", "CONNECT"] {
            let headers = "Host: a\r\nContent-Length: 0\r\n";
            requests.push(format!("{method} {target} HTTP/1.1\r\n{headers}\r\n"));
        }
    }
    for headers in &headers {
        for target in [
            "/verification/chains",
            "/verification/v2/../admin",
            "http://{other}/verification/chains",
        ] {
            requests.push(format!("GET {target} HTTP/1.1\r\n{headers}\r\n"));
        }
    }
    let mut passed = 0;
    for request in requests {
        let request = request.replace("{other}", &other_address);
        let before = harness.upstream.connection_count();
        let (message, _) = exchange(harness.service.address(), request.as_bytes()).await;
        let first = request.lines().next().unwrap();
        let response = message.unwrap_or_else(|| panic!("no response to {first}"));
        let (status, code) = response.outcome();
        if harness.upstream.connection_count() > before {
            passed += 1;
            assert_eq!(status, 200, "{first}");
            continue;
        }
        // A request that is not forwarded gets the service's own response: an error, the methods of a path, or a page.
        let is_list_of_methods = request.starts_with("OPTIONS") && status == 204;
        let is_page =
            status == 200 && response.header("content-security-policy") == policy("'self' data:");
        // hyper responds to what is no request line, without a body.
        let is_own = is_list_of_methods || is_page || status == 400;
        assert!(status >= 400 && !code.is_empty() || is_own, "{first}: {response:#?}");
    }
    let mut forwarded = BTreeSet::new();
    for seen in harness.upstream.connections() {
        let request = seen.request();
        forwarded.insert(request.start_line.replace(&other_address, "{other}"));
        assert_eq!(request.header("host"), harness.upstream.address().to_string());
        let head = String::from_utf8_lossy(&seen.bytes);
        let (path, _) = head.split_once(['?', '\n']).unwrap();
        let (_, headers) = head.split_once('\n').unwrap();
        for canary in ["canary", "admin", "Forwarded", "X-"] {
            assert!(!path.contains(canary), "{head}");
            assert!(!headers.to_lowercase().contains(&canary.to_lowercase()), "{head}");
        }
    }
    let forwarded = forwarded.into_iter().collect::<Vec<_>>().join("\n");
    fixtures::assert_snapshot("verification-targets", &forwarded);
    assert_eq!(harness.upstream.connection_count(), passed);
    assert_eq!(other.connection_count(), 0);
}
