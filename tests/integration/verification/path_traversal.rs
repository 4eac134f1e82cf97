//! Tests of path traversal and request forgery: the service requests only allowed upstream paths and contacts no other
//! server.

use super::{Harness, exchange, healthy};
use crate::mock_upstream::MockUpstream;
use crate::pages::policy;

/// Request targets; `{other}` is the address of a listener that must stay unused.
const TARGETS: &[&str] = &[
    "/verification/..",
    "/verification/../admin",
    "/verification/../../admin",
    "/verification/v2/../../admin",
    "/verification/v2/../..//admin",
    "/verification/v2/./chains",
    "/verification/v2/.",
    "/verification/v2/verify/..",
    "/verification/files/../../../etc/passwd",
    "/verification/%2e%2e/admin",
    "/verification/v2/%2e%2e/%2e%2e/admin",
    "/verification/v2/%2E%2E/admin",
    "/verification/v2/.%2e/admin",
    "/verification/v2/..%2f..%2fadmin",
    "/verification/v2/..%2Fadmin",
    "/verification/v2/..%5cadmin",
    "/verification/v2/..%5C..%5Cadmin",
    "/verification/v2/..\\..\\admin",
    "/verification/v2\\admin",
    "/verification/v2/%252e%252e/admin",
    "/verification/v2/..;/admin",
    "/verification/v2/a;jsessionid=1",
    "/verification/v2/..%00/admin",
    "/verification/v2/%00",
    "/verification/v2/a%0d%0aX-Canary:%201",
    "/verification/v2/a%20HTTP/1.1%0d%0aHost:%20{other}",
    "/verification/v2/%c0%ae%c0%ae/admin",
    "/verification/v2/%uff0e%uff0e/admin",
    "/verification/v2/\u{ff0e}\u{ff0e}/admin",
    "/verification/v2/\u{e4}",
    "/verification/v2/a\tb",
    "/verification/v2/a b",
    "/verification/v2/a@{other}",
    "/verification/@{other}/",
    "/verification/v2/a#b",
    "/verification/v2/a%23b",
    "/verification/v2/a%3fb",
    "/verification/v2/%2f%2f{other}/",
    "/verification/http:%2f%2f169.254.169.254/latest/meta-data",
    "/verification/http://{other}/",
    "/verification/v2/http:%2f%2f{other}%2f",
    "/verification/v2/http:/{other}/",
    "/verification/v2/http://{other}/",
    "/verification/files/http://{other}/",
    "/verification//{other}/",
    "/verification///{other}/admin",
    "/verification/\\\\{other}\\admin",
    "/verification?url=http://{other}/",
    "/verification/chains?url=http://{other}/",
    "/verification/chains?../../admin",
    "/verification/chains?a=b#@{other}/",
    "/verification/chains/../admin",
    "/verification/chains/x",
    "/verification/admin",
    "/verification/session/clear",
    "/verification/VERIFY",
    "/verification/v1/verify",
    "/verification/verify/create2/x",
    "/verification/v2",
    "/verification/files",
    "/verification/v2/1/2/3/4/5/6/7/8/9",
    "/Verification/chains",
    "/VERIFICATION/chains",
    "/x/../verification/chains",
    "/./verification/chains",
    "/%76erification/chains",
    "/verification%2fchains",
    "/verification%2f..%2fchains",
    "//{other}/verification/chains",
    "//{other}/",
    "http://{other}/verification/chains",
    "http://{other}/verification/v2/../../admin",
    "HTTP://{other}/",
    "https://{other}/verification/chains",
    "http://user:password@{other}/verification/chains",
    "http://{other}@localhost/verification/chains",
    "ftp://{other}/verification/chains",
    "{other}",
    "*",
    "verification/chains",
];

/// Headers that some servers use for routing.
const HEADERS: &[&str] = &[
    "Host: {other}\r\n",
    "Host: a\r\nX-Forwarded-Host: {other}\r\n",
    "Host: a\r\nX-Forwarded-Server: {other}\r\nX-Forwarded-Proto: https\r\n",
    "Host: a\r\nX-Forwarded-Prefix: /../admin\r\nX-Forwarded-Path: /admin\r\n",
    "Host: a\r\nForwarded: host={other};proto=http\r\n",
    "Host: a\r\nX-Original-URL: /admin\r\n",
    "Host: a\r\nX-Rewrite-URL: http://{other}/admin\r\n",
    "Host: a\r\nX-Host: {other}\r\nX-HTTP-Host-Override: {other}\r\n",
    "Host: a\r\nDestination: http://{other}/\r\n",
    "Host: a\r\nReferer: http://{other}/\r\nOrigin: http://{other}\r\n",
    "Host: a\r\nX-HTTP-Method-Override: DELETE\r\nX-Method-Override: PUT\r\n",
    "Host: a\r\nProxy: http://{other}/\r\nProxy-Connection: keep-alive\r\n",
];

/// Returns true if the request line is one that the proxy may send.
fn is_allowed(first: &str) -> bool {
    let (method, rest) = first.split_once(' ').unwrap();
    let target = rest.strip_suffix(" HTTP/1.1").expect("HTTP/1.1");
    let path = target.split('?').next().unwrap();
    let Some(path) = path.strip_prefix("/server/") else { return false };
    let is_plain = |segment: &str| {
        let is_allowed_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        (1..=128).contains(&segment.len())
            && segment.bytes().all(is_allowed_byte)
            && !matches!(segment, "." | "..")
    };
    let segments: Vec<_> = path.split('/').collect();
    match (method, segments.as_slice()) {
        ("POST", ["" | "verify"] | ["verify", "create2" | "solc-json"]) | ("GET", ["chains"]) => {
            true
        }
        ("GET" | "POST", ["v2", rest @ ..]) | ("GET", ["files", rest @ ..]) => {
            (1..=8).contains(&rest.len()) && rest.iter().all(|segment| is_plain(segment))
        }
        _ => false,
    }
}

#[tokio::test]
async fn only_allowed_upstream_paths_are_requested() {
    let (harness, other) = (Harness::start(healthy()).await, MockUpstream::start(healthy()).await);
    let other_address = other.address().to_string();
    let too_long = ["a".repeat(129), "a/".repeat(3000), "a".repeat(20_000)];
    let too_long = too_long.map(|segment| format!("/verification/v2/{segment}"));
    let mut targets: Vec<_> = TARGETS.iter().map(|target| (*target).to_owned()).collect();
    targets.extend(too_long);
    assert!(targets.len() > 40);
    let mut requests = Vec::new();
    for target in &targets {
        for method in ["GET", "POST", "PUT", "OPTIONS", "CONNECT"] {
            requests.push(format!(
                "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    }
    for headers in HEADERS {
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
        // A request that is not forwarded gets the service's own response: an error, a CORS preflight or a page.
        let is_preflight = request.starts_with("OPTIONS") && status == 200;
        let is_page =
            status == 200 && response.header("content-security-policy") == policy("'self' data:");
        // hyper responds to what is no request line, without a body.
        let is_own = is_preflight || is_page || status == 400;
        assert!(status >= 400 && !code.is_empty() || is_own, "{first}: {response:#?}");
    }
    for seen in harness.upstream.connections() {
        let request = seen.request();
        assert!(is_allowed(&request.start_line), "{}", request.start_line);
        assert_eq!(request.header("host"), harness.upstream.address().to_string());
        for canary in ["canary", "admin", "Forwarded", "X-"] {
            let head = String::from_utf8_lossy(&seen.bytes).into_owned();
            let (path, _) = head.split_once(['?', '\n']).unwrap();
            assert!(!path.contains(canary), "{head}");
            let (_, headers) = head.split_once('\n').unwrap();
            assert!(!headers.to_lowercase().contains(&canary.to_lowercase()), "{head}");
        }
    }
    assert!(passed > 10, "{passed}");
    assert_eq!(harness.upstream.connection_count(), passed);
    assert_eq!(other.connection_count(), 0);
}

#[tokio::test]
async fn redirects_are_not_followed_and_lose_their_location() {
    let other = MockUpstream::start(healthy()).await;
    let harness = Harness::start(healthy()).await;
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let to_other = format!("Location: http://{}/admin\r\n", other.address());
        harness.upstream.set_script(crate::mock_upstream::respond_with(
            crate::mock_upstream::response(status, &to_other, "moved"),
        ));
        let number = harness.upstream.connection_count();
        for request in [
            super::get("/verification/chains", "").into_bytes(),
            super::post("/verification", "", b"{}"),
        ] {
            let response = harness.request(request).await;
            assert_eq!(
                (response.status().to_string().as_str(), response.text()),
                (&status[..3], "moved")
            );
            assert!(!response.has_header("location"));
        }
        assert_eq!(harness.upstream.connection_count(), number + 2);
    }
    assert_eq!(other.connection_count(), 0);
}
