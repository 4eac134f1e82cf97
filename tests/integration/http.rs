//! The HTTP contract of the public routes.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures;
use crate::http_client;
use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, TestServer, assert_problems};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Starts a service with two chains: `ronin` is polled once, at the start; the node of `ill` always fails.
async fn start(more: &str) -> (TestServer, [MockNode; 2]) {
    let healthy = MockNode::start(2020, Reply::history(1000, 1, 7)).await;
    let failing = MockNode::start(10, Reply::Error(-32000)).await;
    let chains = [
        healthy.chain("ronin", "name = \"Ronin\"\nblock_time = \"1h\"\nmax_age = \"3h\""),
        failing.chain("ill", "name = \"ill\"\nblock_time = \"1500ms\""),
    ];
    let service = TestServer::with_server(more, &chains.concat()).await;
    // The base path does not apply to the probes.
    service.wait_for_ok("/readyz").await;
    service.wait_for("/livez", |_| failing.polls() >= 1).await;
    (service, [healthy, failing])
}

/// A chain without a node.
const UNREACHABLE: &str = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

/// Headers that depend on the time.
pub(crate) const VARYING: [&str; 5] =
    ["age", "cache-control", "cdn-cache-control", "last-modified", "x-accel-expires"];

const BODY: &str = "{\"chain_name\":\"Ronin\",\"type\":\"eip-1559\",\
    \"base_fee_per_gas\":\"2000000000\",\
    \"medium\":{\"max_priority_fee_per_gas\":\"20000000000\",\"max_fee_per_gas\":\"22000000000\"},\
    \"high\":{\"max_priority_fee_per_gas\":\"24000000000\",\"max_fee_per_gas\":\"26000000000\"}}";

#[tokio::test]
async fn each_document_has_its_members_and_headers() {
    let (service, _nodes) = start("").await;
    for path in [SUGGESTION, "/v1/2020/gas-suggestion"] {
        let response = service.get(path).await;
        assert_eq!(response.body, BODY);
        fixtures::assert_snapshot("suggestion", &response.text(&VARYING));
        assert!(response.header("age").parse::<u64>().unwrap() < 60);
    }

    let response = service.get("/v1/ronin/fee-market").await;
    let market = response.json();
    // Blocks an hour apart make an hour known, or not, by the minute of their time.
    let level = [market["level"].clone(), market["level_deviation"].clone()];
    assert!([[json!(null), json!(null)], [json!("normal"), json!(0.0)]].contains(&level));
    assert!(age(&market["observed_at"]) < 60, "{market}");
    let more = ["etag", "content-length", "observed_at", "level", "level_deviation"];
    fixtures::assert_snapshot("fee-market", &response.text(&[&VARYING[..], &more].concat()));

    // The newest blocks, the oldest first.
    let response = service.get("/v1/ronin/fee-history?blocks=2").await;
    fixtures::assert_snapshot("fee-history", &response.text(&VARYING));
    for (query, count) in [("", 20), ("?blocks=1024", 20), ("?blocks=1&", 1)] {
        let history = service.get(&format!("/v1/ronin/fee-history{query}")).await.json();
        assert_eq!(history["blocks"].as_array().unwrap().len(), count, "{query}");
    }

    let chains = service.get("/v1/chains").await;
    let varying = ["newest_block_at", "observed_at"];
    for name in varying {
        assert!(age(&chains.json()[1][name]) < 60, "{name}");
    }
    let text = chains.text(&[&varying[..], &["content-length", "etag"]].concat());
    fixtures::assert_snapshot("chains", &text);
}

#[tokio::test]
async fn matching_if_none_match_gets_304_and_if_modified_since_is_ignored() {
    let (service, _nodes) = start("").await;
    let tag = service.get(SUGGESTION).await.header("etag").to_owned();
    let matching = [
        tag.clone(),
        format!("W/{tag}"),
        "*".into(),
        format!("\"a\", W/\"b\" ,{tag}"),
        format!("\"a, b\",\" \",unquoted,,W/{tag}"),
    ];
    for condition in &matching {
        let headers = [("if-none-match", condition.as_str())];
        let response = service.send(Method::GET, SUGGESTION, &headers).await;
        assert_eq!((response.status, response.body.as_str()), (304, ""), "{condition}");
    }
    for condition in ["\"other\"", "W/\"other\"", "unquoted", "", "\"", "\" \"", "\"\t\"", "w/*"] {
        let headers = [("if-none-match", condition)];
        let response = service.send(Method::GET, SUGGESTION, &headers).await;
        assert_eq!((response.status, response.body.as_str()), (200, BODY), "{condition}");
    }
    // A time is no condition.
    for path in [SUGGESTION, "/v1/ronin/fee-market", "/v1/ronin/badge.svg", "/v1/gas-suggestions"] {
        let modified = service.get(path).await.header("last-modified").to_owned();
        let headers = [("if-modified-since", modified.as_str())];
        assert_eq!(service.send(Method::GET, path, &headers).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn lists_have_every_chain_with_data_and_no_other() {
    let (service, _nodes) = start("").await;
    let suggestions = service.get("/v1/gas-suggestions").await;
    assert_eq!((suggestions.status, suggestions.body.as_str()), (200, &*format!("[{BODY}]")));
    let markets = service.get("/v1/fee-markets").await;
    assert_eq!(markets.status, 200);
    let (mut all, mut one) = (markets.json(), service.get("/v1/ronin/fee-market").await.json());
    // Another poll may have succeeded meanwhile.
    for market in [&mut all[0], &mut one] {
        market["observed_at"].take();
    }
    assert_eq!(all, json!([one]));
    for list in [suggestions, markets] {
        assert!(list.header("cache-control").starts_with("public"), "{list:?}");
    }
    let empty = TestServer::start(UNREACHABLE).await;
    let response = empty.get("/v1/fee-markets").await;
    assert_eq!((response.body.as_str(), response.header("cache-control")), ("[]", "no-store"));
}

/// Returns the seconds since a time of a response.
fn age(time: &Value) -> u64 {
    humantime::parse_rfc3339(time.as_str().unwrap()).unwrap().elapsed().unwrap().as_secs()
}

#[tokio::test]
async fn every_error_is_a_problem_document_with_the_request_id() {
    let (service, _nodes) = start("").await;
    for (method, path, status, code) in [
        (Method::GET, "/v1/none/gas-suggestion", 404, "unknown_chain"),
        (Method::GET, "/v1/2021/fee-market", 404, "unknown_chain"),
        (Method::GET, "/v1/%ff/gas-suggestion", 404, "unknown_chain"),
        (Method::GET, "/v1/ronin/none", 404, "not_found"),
        (Method::GET, "/v1/ronin/gas-suggestion//", 404, "not_found"),
        (Method::GET, "/v1/ronin/fee-history?blocks=b", 400, "invalid_parameter"),
        (Method::GET, "/none", 404, "not_found"),
        (Method::GET, "/v1/ill/gas-suggestion", 503, "no_data"),
        (Method::GET, "/v1/ill/fee-market", 503, "no_data"),
        (Method::GET, "/v1/ill/fee-history", 503, "no_data"),
        (Method::POST, SUGGESTION, 405, "method_not_allowed"),
        (Method::DELETE, "/v1/chains", 405, "method_not_allowed"),
        (Method::PUT, "/livez", 405, "method_not_allowed"),
    ] {
        let response = service.send(method, path, &[("x-request-id", "mine-1")]).await;
        response.assert_problem(status, code);
        let problem = response.json();
        let members: Vec<_> = problem.as_object().unwrap().keys().collect();
        assert_eq!(members, ["code", "detail", "request_id", "status", "title", "type"]);
        let headers = ["x-request-id", "access-control-allow-origin", "x-content-type-options"];
        assert_eq!(headers.map(|name| response.header(name)), ["mine-1", "*", "nosniff"], "{path}");
        let headers = ["allow", "retry-after", "etag"].map(|name| response.header(name));
        // The block time of 1.5 s, rounded up.
        let [allowed, wait] = [(405, "GET,HEAD"), (503, "2")]
            .map(|(of, value)| if status == of { value } else { "" });
        assert_eq!(headers, [allowed, wait, ""], "{path}");
        assert_eq!(response.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn request_id_is_unique_unless_the_client_sends_a_valid_one() {
    let (service, _nodes) = start("").await;
    let id_for = async |headers: &[(&str, &str)]| {
        let response = service.send(Method::GET, "/v1/chains", headers).await;
        response.header("x-request-id").to_owned()
    };
    for valid in ["a-B_1.2:3", &"x".repeat(64)] {
        assert_eq!(id_for(&[("x-request-id", valid)]).await, valid);
    }
    let mut made = BTreeSet::from([id_for(&[]).await]);
    let invalid = ["", "a b", "<script>", "\u{e4}", &"x".repeat(65)];
    for id in invalid {
        made.insert(id_for(&[("x-request-id", id)]).await);
    }
    for id in &made {
        let (process, count) = id.split_once('-').unwrap();
        let is_hex = process.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(process.len() == 16 && is_hex && count.parse::<u64>().is_ok(), "{id}");
    }
    assert_eq!(made.len(), 1 + invalid.len(), "{made:?}");
}

/// Headers of a preflight that asks for these names.
pub(crate) fn preflight(names: &str) -> [(&str, &str); 3] {
    [
        ("origin", "https://app.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", names),
    ]
}

#[tokio::test]
async fn cors_allows_any_origin_and_options_depends_on_the_question() {
    let (service, _nodes) = start("").await;
    let response = service.send(Method::OPTIONS, SUGGESTION, &preflight("content-type")).await;
    fixtures::assert_snapshot("preflight", &response.text(&[]));

    let headers = [("origin", "https://app.example")];
    let response = service.send(Method::GET, SUGGESTION, &headers).await;
    fixtures::assert_snapshot("suggestion", &response.text(&VARYING));

    let plain = [("origin", "https://app.example")];
    for (path, status, allow) in [
        ("/v1/ronin/fee-history?blocks=x", 204, "GET,HEAD,OPTIONS"),
        ("/", 204, "GET,HEAD,OPTIONS"),
        ("/livez", 200, ""),
        ("/readyz", 200, ""),
        ("/none", 404, ""),
    ] {
        for headers in [&[][..], &plain] {
            let response = service.send(Method::OPTIONS, path, headers).await;
            assert_eq!((response.status, response.header("allow")), (status, allow), "{path}");
            assert_eq!(response.header("access-control-allow-origin"), "*", "{path}");
            assert_eq!(response.header("access-control-allow-methods"), "", "{path}");
        }
    }
    // Tracing libraries and older libraries add names of their own.
    let names =
        "baggage,sentry-trace,traceparent,x-datadog-origin,pragma,x-requested-with,anything";
    for (path, status, allowed) in [(SUGGESTION, 200, names), ("/none", 404, "")] {
        let response = service.send(Method::OPTIONS, path, &preflight(names)).await;
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.header("access-control-allow-headers"), allowed, "{path}");
        assert_eq!(response.header("access-control-allow-origin"), "*", "{path}");
    }
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 204), ("/none", 404)] {
        let url = service.admin_url(path);
        let response = http_client::new().request(Method::OPTIONS, url).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }
    // Readiness is that of GET.
    let unready = TestServer::start(UNREACHABLE).await;
    let not_ready = unready.send(Method::OPTIONS, "/readyz", &[]).await;
    for response in [not_ready, unready.get("/readyz").await, unready.admin("/readyz").await] {
        response.assert_problem(503, "not_ready");
        let headers = ["cache-control", "retry-after"].map(|name| response.header(name));
        assert_eq!(headers, ["no-store", ""]);
    }
    assert_eq!(unready.get("/livez").await.status, 200);
    // Each path of the document has exactly its methods.
    let document = service.get("/openapi.json").await.json();
    let mut compared = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        // Probes have the status of GET, and the verification service decides which methods its second version has.
        if ["/livez", "/readyz"].contains(&path.as_str()) || path.starts_with("/verification/v2/") {
            continue;
        }
        let methods = [("get", "GET,HEAD"), ("post", "POST")];
        let methods = methods.iter().filter(|(name, _)| item.get(*name).is_some());
        let expected: Vec<_> = methods.map(|(_, allowed)| *allowed).chain(["OPTIONS"]).collect();
        let filled = path.replace("{chain}", "ronin").replace(['{', '}'], "");
        let response = service.send(Method::OPTIONS, &filled, &[]).await;
        let found = (response.status, response.header("allow"));
        assert_eq!(found, (204, expected.join(",").as_str()), "{path}");
        compared += 1;
    }
    assert!(compared > 20, "{compared} paths");
}

#[tokio::test]
async fn cors_allows_only_the_configured_origins() {
    let cors = "[cors]\nallowed_origins = [\"https://app.example\", \"https://*.example.com\", \
                \"capacitor://localhost\"]\n";
    let (service, _nodes) = start(cors).await;
    let allowed = async |origin: &str| {
        let response = service.send(Method::GET, SUGGESTION, &[("origin", origin)]).await;
        assert_eq!((response.status, response.header("vary")), (200, "origin"));
        response.header("access-control-allow-origin").to_owned()
    };
    for origin in ["https://app.example", "https://a-1.example.com", "capacitor://localhost"] {
        assert_eq!(allowed(origin).await, origin);
    }
    let others = "https://other.example https://example.com https://a.b.example.com \
        https://a.example.com.evil http://a.example.com https://a.example.com:8443 \
        https://evil/.example.com capacitor://localhost.evil null";
    for origin in others.split(' ') {
        assert_eq!(allowed(origin).await, "", "{origin}");
    }
}

#[tokio::test]
async fn wrong_values_get_the_range_and_close_names_the_nearest_one() {
    let (service, _nodes) = start("").await;
    let counts = "blocks=0 blocks=1025 blocks=-1 blocks=%2B1 blocks=1.0 blocks= blocks=x \
        blocks=99999999999999999999999 blocks=1&blocks=2 bl%6fcks=1&blocks=1 blocks=%ff";
    let path = |count: &str| format!("/v1/ronin/fee-history?{count}");
    let paths: Vec<_> = counts.split(' ').map(path).collect();
    assert_problems(service.address(), "invalid-block-counts", &paths).await;
    let close = "/v1/ronin/fee-history?block=2 /v1/ronin/fee-history?a=b&BLOCKS=2 \
        /v1/ronin/badge.svg?lable=x /v1/ronin/fee-trend?periode=7d \
        /v1/ronin/inclusion?max_fee_per_gas=2&max_priority_fee_per_gas=1&maxFeePerGas=3 \
        /v1/ronn/gas-suggestion /v1/polygon/gas-suggestion";
    let close: Vec<_> = close.split(' ').collect();
    assert_problems(service.address(), "close-names", &close).await;
    // Cache busters, polyfills and keys add names.
    let known = "/v1/ronin/gas-suggestion? /v1/ronin/gas-suggestion?chain=1&_=1795196100000 \
        /v1/ronin/fee-history?blocks=2&apikey=a&_=%ff&_=2 /v1/chains?& /livez?verbose \
        /?utm_source=x /docs?a=b";
    for path in known.split(' ') {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn routes_move_with_the_base_path_and_a_trailing_slash_redirects() {
    for base_path in ["", "/proxy/public"] {
        let (service, _nodes) = start(&format!("base_path = \"{base_path}\"")).await;
        let client = http_client::builder().redirect(reqwest::redirect::Policy::none());
        let client = client.build().unwrap();
        let get = async |path: &str| {
            let request = client.get(service.url(&format!("{base_path}{path}")));
            Response::read(request.header("Origin", "https://app.example").send().await.unwrap())
                .await
        };
        for (path, location) in [
            ("/v1/", "../v1"),
            ("/v1/ronin/gas-suggestion/", "../gas-suggestion"),
            ("/v1/ronin/fee-history/?blocks=1&a=%2f", "../fee-history?blocks=1&a=%2f"),
        ] {
            let response = get(path).await;
            assert_eq!((response.status, response.header("location")), (308, location));
            assert_eq!(response.header("access-control-allow-origin"), "*");
        }
        // A client that follows it arrives.
        // Programs that have this address alone find the description of the routes.
        let page = service.get(&format!("{base_path}/")).await;
        let link = format!("<{base_path}/openapi.json>; rel=\"service-desc\"");
        assert_eq!(page.header("link"), link);
        let for_agents = service.get(&format!("{base_path}/llms.txt")).await;
        assert_eq!(for_agents.header("content-type"), "text/plain; charset=utf-8");
        assert!(for_agents.body.contains("(openapi.json)"), "{for_agents:?}");
        let followed = service.get(&format!("{base_path}/v1/2020/gas-suggestion/")).await;
        assert_eq!((followed.status, followed.body.as_str()), (200, BODY));
        for path in ["/v1/ronin/none/", "/none/", "//v1/", "//evil.example/", "/metrics/"] {
            assert_eq!(get(path).await.status, 404, "{path}");
        }
        let none = get("/v1/none/gas-suggestion").await;
        none.assert_problem(404, "unknown_chain");
        // The probes stay at the root, and every other route moves.
        for path in ["/livez", "/readyz"] {
            assert_eq!((service.get(path).await.status, get(path).await.status), (200, 200));
        }
        let status = if base_path.is_empty() { 200 } else { 404 };
        assert_eq!(service.get(SUGGESTION).await.status, status);
    }
}

#[tokio::test]
async fn both_listeners_list_their_routes() {
    let (service, _nodes) = start("base_path = \"/below\"").await;
    let routes = service.get("/below/v1").await.json()["routes"].take();
    let routes = routes.as_array().unwrap();
    for path in ["/below/v1/{chain}/gas-suggestion", "/below/v1"] {
        let is_it = |route: &Value| route["method"] == "GET" && route["path"] == path;
        assert!(routes.iter().any(is_it), "{path} in {routes:?}");
    }
    // This service has no delegation look-ups and no verification.
    let mut paths = routes.iter().map(|route| route["path"].as_str().unwrap());
    assert!(!paths.any(|path| path.contains("registry") || path.contains("verif")));
    assert_ne!(routes[0]["summary"].as_str().unwrap(), "");
    fixtures::assert_snapshot("admin-routes", &service.admin("/").await.text(&[]));
}

#[tokio::test]
async fn admin_listener_serves_its_own_routes_to_its_hosts_without_cors() {
    let (service, _nodes) = start("admin_hosts = [\"metrics.test\"]").await;
    let get = async |host: &str| {
        let request = http_client::new().get(service.admin_url("/metrics")).header("Host", host);
        let request = request.header("Origin", "https://app.example");
        let response = Response::read(request.send().await.unwrap()).await;
        assert_eq!(response.header("access-control-allow-origin"), "", "{host}");
        response
    };
    for host in ["localhost", "127.0.0.1:9090", "metrics.test:9090"] {
        assert_eq!(get(host).await.status, 200, "{host}");
    }
    get("rebound.example:9090").await.assert_problem(421, "misdirected_request");
    // The public listener serves every host.
    let response = service.send(Method::GET, SUGGESTION, &[("Host", "rebound.example")]).await;
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(service.admin("/livez").await.body, "{\"status\":\"live\"}");
    assert_eq!(service.admin("/readyz").await.body, "{\"status\":\"ready\"}");
    service.admin(SUGGESTION).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn fast_path_responds_like_the_router() {
    for cors in ["", "[cors]\nallowed_origins = [\"https://app.example\"]\n"] {
        let (service, _nodes) = start(cors).await;
        let tag = service.get(SUGGESTION).await.header("etag").to_owned();
        let comparable = async |method: &Method, name: &str, headers: &[(&str, &str)]| {
            let path = format!("/v1/{name}/gas-suggestion");
            let mut response = service.send(method.clone(), &path, headers).await;
            if response.status == 304 {
                // The router adds the length of the body that a 304 omits.
                response.headers.remove("content-length");
            }
            let body = std::mem::take(&mut response.body);
            let body = body.split("request_id").next().unwrap().to_owned();
            // The two responses may be from different seconds.
            let digit = |char: char| char.is_ascii_digit();
            (response.status, body, response.text(&[]).replace(digit, "0"))
        };
        for method in [Method::GET, Method::HEAD] {
            // Only the router decodes paths, so an encoded name bypasses the fast path.
            for (fast, routed) in
                [("ronin", "%72onin"), ("ill", "%69ll"), ("2020", "202%30"), ("0X7E4", "%30X7E4")]
            {
                for condition in [tag.as_str(), "\"other\""] {
                    for origin in ["https://app.example", "https://other.example"] {
                        let headers = [("if-none-match", condition), ("origin", origin)];
                        let fast_response = comparable(&method, fast, &headers).await;
                        let routed_response = comparable(&method, routed, &headers).await;
                        assert_eq!(fast_response, routed_response, "{method} {fast} {headers:?}");
                    }
                }
            }
        }
    }
}
