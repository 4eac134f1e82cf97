//! Headers for caches: the same for GET, HEAD and 304 on every route, and one `Vary` line.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;

/// Headers that differ between two responses to the same request, or that describe a body which one of them lacks.
const OF_ONE_RESPONSE: [&str; 2] = ["date", "transfer-encoding"];
const OF_A_BODY: [&str; 3] = ["content-type", "content-length", "content-encoding"];
/// Headers that count seconds.
const COUNTING: [&str; 4] = ["age", "cache-control", "cdn-cache-control", "x-accel-expires"];

/// Starts a service with all routes, whose blocks are an hour apart.
async fn start(cors: &str) -> (TestServer, MockNode) {
    let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
    let chain = node.chain("ronin", "block_time = \"1h\"\nmax_age = \"3h\"\njson_rpc = true");
    let verification = "[verification]\nurl = \"http://127.0.0.1:9\"\n";
    let service = TestServer::start(&format!("{cors}{chain}{verification}")).await;
    service.wait_for_ok("/readyz").await;
    (service, node)
}

/// Returns the paths of all GET routes, and of some resources of pages.
async fn paths(service: &TestServer) -> Vec<String> {
    const ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let routes = service.get("/v1").await.json();
    let routes = routes["routes"].as_array().unwrap().iter();
    let templates = routes.filter(|route| route["method"] == "GET").map(|route| &route["path"]);
    let paths = templates.filter_map(Value::as_str).map(|template| {
        let path = template
            .replace("{chain}", "ronin")
            .replace("{chain_id}", "2020")
            .replace("{address}", ADDRESS);
        let query = match template.rsplit('/').next().unwrap() {
            "inclusion" | "replacement" => {
                "?max_fee_per_gas=9000000000&max_priority_fee_per_gas=1".to_owned()
            }
            "cost" => "?gas=21000".to_owned(),
            "api" => "?module=gastracker&action=gasoracle".to_owned(),
            _ => String::new(),
        };
        path + &query
    });
    let files = ["/favicon.svg", "/docs/page.js", "/unknown"];
    paths.chain(files.map(str::to_owned)).collect()
}

/// Returns status and headers. The lines of a header are joined by a bar.
async fn send(
    service: &TestServer,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, BTreeMap<String, String>) {
    // Problem bodies contain the id.
    let headers = [headers, &[("x-request-id", "a")]].concat();
    let response = service.open(method, path, &headers).await;
    let names = response.headers().keys().map(reqwest::header::HeaderName::as_str);
    let value = |name: &str| {
        let lines = response.headers().get_all(name).iter();
        lines.map(|line| line.to_str().unwrap()).collect::<Vec<_>>().join(" | ")
    };
    let mut headers: BTreeMap<_, _> = names.map(|name| (name.to_owned(), value(name))).collect();
    headers.retain(|name, _| !OF_ONE_RESPONSE.contains(&name.as_str()));
    for name in COUNTING {
        headers.entry(name.to_owned()).and_modify(|value| {
            value.retain(|character| !character.is_ascii_digit());
        });
    }
    (response.status().as_u16(), headers)
}

const ONE_ORIGIN: &str = "[cors]\nallowed_origins = [\"https://a.example\"]\n";
const ENCODINGS: [&[(&str, &str)]; 2] = [&[], &[("accept-encoding", "gzip")]];

#[tokio::test]
async fn head_has_the_headers_of_get_on_every_route() {
    let (service, _node) = start("").await;
    let paths = paths(&service).await;
    assert!(paths.len() > 25, "{paths:?}");
    for path in &paths {
        for encoding in ENCODINGS {
            let mut get = send(&service, Method::GET, path, encoding).await;
            // Ages in a body may grow by a digit between two responses.
            for _ in 0..10 {
                let head = send(&service, Method::HEAD, path, encoding).await;
                let next = send(&service, Method::GET, path, encoding).await;
                if get == next {
                    assert_eq!(head, get, "{path} {encoding:?}");
                    break;
                }
                get = next;
            }
        }
    }
}

#[tokio::test]
async fn a_304_has_the_headers_of_the_200_on_every_route_and_one_reason_to_vary() {
    let (service, _node) = start(ONE_ORIGIN).await;
    let mut untagged = Vec::new();
    for path in paths(&service).await {
        for encoding in ENCODINGS {
            let (status, mut expected) = send(&service, Method::GET, &path, encoding).await;
            if status != 200 {
                continue;
            }
            let Some(tag) = expected.get("etag").cloned() else {
                untagged.push(path.clone());
                continue;
            };
            expected.retain(|name, _| !OF_A_BODY.contains(&name.as_str()));
            for method in [Method::GET, Method::HEAD] {
                let condition = [encoding, &[("if-none-match", tag.as_str())]].concat();
                let not_modified = send(&service, method, &path, &condition).await;
                assert_eq!(not_modified, (304, expected.clone()), "{path} {encoding:?}");
            }
            // Another method has no copy that could be current.
            let condition = [("if-none-match", tag.as_str())];
            let (status, _) = send(&service, Method::POST, &path, &condition).await;
            assert!([400, 405].contains(&status), "{path}: {status}");
        }
    }
    untagged.dedup();
    let is_stored = |path: &String| !path.ends_with("/stream") && !path.ends_with('z');
    assert!(!untagged.iter().any(is_stored), "{untagged:?}");

    // All reasons to vary are in one line.
    for path in paths(&service).await {
        for origin in
            [&[][..], &[("origin", "https://a.example")], &[("origin", "https://b.example")]]
        {
            for encoding in ENCODINGS {
                let (_, headers) =
                    send(&service, Method::GET, &path, &[origin, encoding].concat()).await;
                let vary = &headers["vary"];
                assert!(
                    !vary.contains('|') && vary.split(", ").any(|name| name == "origin"),
                    "{vary}"
                );
                let is_encoded = headers.contains_key("content-encoding");
                assert!(!is_encoded || vary.contains("accept-encoding"), "{path}: {vary}");
            }
        }
    }
    // Without reasons there is no line.
    let (service, _node) = start("").await;
    let (_, headers) = send(&service, Method::GET, "/v1/ronin/gas-suggestion", &[]).await;
    assert_eq!(headers.get("vary"), None);
    let (_, headers) = send(&service, Method::GET, "/v1/ronin/fee-market", &[]).await;
    assert_eq!(headers["vary"], "accept-encoding");
}
