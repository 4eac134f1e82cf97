//! The HTTP contract.

use reqwest::Method;
use serde_json::{Value, json};

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::service::Service;

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// A chain that was read once, at the start, and one that never will be.
struct Fixture {
    service: Service,
    _nodes: [FakeNode; 2],
}

impl Fixture {
    async fn start() -> Self {
        Self::with_server("").await
    }

    async fn with_server(more: &str) -> Self {
        let well = FakeNode::start(2020, Answer::Result(fee_history(1000, 1, 7))).await;
        let ill = FakeNode::start(10, Answer::Error(-32000)).await;
        let chains = format!(
            "[chains.ronin]\nname = \"Ronin\"\nchain_id = 2020\nrpc_urls = [\"{}\"]\n\
             block_time = \"1h\"\nmax_age = \"3h\"\n\
             [chains.ill]\nchain_id = 10\nrpc_urls = [\"{}\"]\nblock_time = \"1500ms\"\n",
            well.url(),
            ill.url()
        );
        let service = Service::with_server(more, &chains).await;
        // At the root under any base path.
        service.wait_for("/readyz", |answer| answer.status == 200).await;
        service.wait_for("/livez", |_| ill.calls("eth_feeHistory") >= 1).await;
        Self { service, _nodes: [well, ill] }
    }
}

const BODY: &str = "{\"chain_name\":\"Ronin\",\"type\":\"eip-1559\",\
    \"base_fee_per_gas\":\"2000000000\",\
    \"medium\":{\"max_priority_fee_per_gas\":\"20000000000\",\"max_fee_per_gas\":\"22000000000\"},\
    \"high\":{\"max_priority_fee_per_gas\":\"24000000000\",\"max_fee_per_gas\":\"26000000000\"}}";

#[tokio::test]
async fn a_suggestion_has_its_five_members_and_headers() {
    let Fixture { service, .. } = &Fixture::start().await;
    for path in [SUGGESTION, "/v1/2020/gas-suggestion"] {
        let answer = service.get(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, BODY));
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("x-newest-block"), "1000");
        assert_eq!(answer.header("x-stale"), "");
        let tag = answer.header("etag").strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        assert!(tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tag}");
        assert!(answer.header("age").parse::<u64>().unwrap() < 60);
    }
}

#[tokio::test]
async fn caches_keep_a_suggestion_until_the_next_block_and_no_longer_than_max_age() {
    let Fixture { service, .. } = &Fixture::start().await;
    let answer = service.get(SUGGESTION).await;
    let directives: Vec<_> = answer.header("cache-control").split(", ").collect();
    let seconds = |directive: &str| {
        let found =
            directives.iter().find_map(|text| text.strip_prefix(directive)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{directive} in {directives:?}")).parse::<u64>().unwrap()
    };
    assert!(directives.contains(&"public"));
    assert!((3540..3600).contains(&seconds("max-age")), "{directives:?}");
    for directive in ["stale-while-revalidate", "stale-if-error"] {
        let end = seconds("max-age") + seconds(directive);
        assert!((10_740..10_800).contains(&end), "{directives:?}");
    }
}

#[tokio::test]
async fn a_client_that_has_the_body_gets_304_with_the_same_headers() {
    let Fixture { service, .. } = &Fixture::start().await;
    let tag = service.get(SUGGESTION).await.header("etag").to_owned();
    let known = [
        tag.clone(),
        format!("W/{tag}"),
        "*".into(),
        format!("\"a\", W/\"b\" ,{tag}"),
        format!("\"a, b\",\" \",unquoted,,W/{tag}"),
    ];
    for condition in &known {
        let headers = [("if-none-match", condition.as_str())];
        let answer = service.send(Method::GET, SUGGESTION, &headers).await;
        assert_eq!((answer.status, answer.body.as_str()), (304, ""), "{condition}");
        assert_eq!(answer.header("etag"), tag);
        assert_eq!(answer.header("x-newest-block"), "1000");
        assert!(answer.header("cache-control").starts_with("public, max-age="));
        assert_eq!(answer.header("content-type"), "");
    }
    for condition in ["\"other\"", "W/\"other\"", "unquoted", "", "\"", "\" \"", "\"\t\"", "w/*"] {
        let headers = [("if-none-match", condition)];
        let answer = service.send(Method::GET, SUGGESTION, &headers).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, BODY), "{condition}");
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let Fixture { service, .. } = &Fixture::start().await;
    let (get, head) =
        (service.get(SUGGESTION).await, service.send(Method::HEAD, SUGGESTION, &[]).await);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for name in ["etag", "content-type", "content-length", "x-newest-block"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
        assert_ne!(head.header(name), "", "{name}");
    }
}

#[tokio::test]
async fn all_suggestions_are_those_that_can_be_served() {
    let Fixture { service, .. } = &Fixture::start().await;
    let answer = service.get("/v1/gas-suggestions").await;
    assert_eq!((answer.status, answer.body), (200, format!("[{BODY}]")));
    assert!(answer.headers.get("cache-control").unwrap().to_str().unwrap().starts_with("public"));
}

#[tokio::test]
async fn the_fee_market_tells_what_stands_behind_the_suggestion() {
    let Fixture { service, .. } = &Fixture::start().await;
    let answer = service.get("/v1/ronin/fee-market").await;
    let mut market = answer.json();
    let observed_at = market["observed_at"].take();
    let observed_at = humantime::parse_rfc3339(observed_at.as_str().unwrap()).unwrap();
    assert!(observed_at.elapsed().unwrap().as_secs() < 60);
    let suggestion: Value = serde_json::from_str(BODY).unwrap();
    assert_eq!(
        market,
        json!({
            "chain_name": "Ronin", "chain_id": 2020, "type": "eip-1559",
            "newest_block": 1000, "observed_at": null, "stale": false,
            "window": { "oldest_block": 981, "blocks": 20, "reward_percentiles": [60] },
            "average_base_fee_per_gas": "1000000000",
            "next_base_fee_per_gas": "1000000000",
            "average_reward_per_gas": ["7000000000"],
            "floors_applied": { "base_fee": false, "priority_fee": true },
            "gas_used_ratio": { "latest": 0.5, "average": 0.5 },
            "base_fee_trend": "stable",
            "suggestion": suggestion,
            "covers_full_blocks": { "medium": 6, "high": 16 },
        })
    );
    let names: Vec<_> = answer
        .body
        .match_indices("\":")
        .map(|(end, _)| {
            let start = answer.body[..end].rfind('"').unwrap() + 1;
            &answer.body[start..end]
        })
        .take(6)
        .collect();
    assert_eq!(names, ["chain_name", "chain_id", "type", "newest_block", "observed_at", "stale"]);
    assert_eq!(answer.header("x-newest-block"), "1000");
}

#[tokio::test]
async fn the_fee_history_is_the_newest_blocks_oldest_first() {
    let Fixture { service, .. } = &Fixture::start().await;
    let answer = service.get("/v1/ronin/fee-history?blocks=2").await;
    assert_eq!(
        answer.body,
        "{\"chain_name\":\"Ronin\",\"chain_id\":2020,\"reward_percentiles\":[60],\"blocks\":[\
         {\"number\":999,\"base_fee_per_gas\":\"1000000000\",\"gas_used_ratio\":0.5,\
         \"rewards\":[\"7000000000\"]},\
         {\"number\":1000,\"base_fee_per_gas\":\"1000000000\",\"gas_used_ratio\":0.5,\
         \"rewards\":[\"7000000000\"]}],\
         \"next_base_fee_per_gas\":\"1000000000\"}"
    );
    let count = |answer: &crate::service::Answer| answer.json()["blocks"].as_array().unwrap().len();
    assert_eq!(count(&service.get("/v1/ronin/fee-history").await), 20);
    assert_eq!(count(&service.get("/v1/ronin/fee-history?blocks=1024").await), 20);
    assert_eq!(count(&service.get("/v1/ronin/fee-history?blocks=1&other=x").await), 1);
}

#[tokio::test]
async fn a_count_of_blocks_that_cannot_be_is_refused_with_the_range() {
    let Fixture { service, .. } = &Fixture::start().await;
    for query in [
        "blocks=0",
        "blocks=1025",
        "blocks=-1",
        "blocks=%2B1",
        "blocks=1.0",
        "blocks=",
        "blocks=x",
        "blocks=99999999999999999999999",
        "blocks=1&blocks=2",
        "blocks=%ff",
    ] {
        let answer = service.get(&format!("/v1/ronin/fee-history?{query}")).await;
        let problem = answer.json();
        assert_eq!(
            (answer.status, &problem["code"]),
            (400, &json!("invalid_parameter")),
            "{query}"
        );
        assert_eq!(
            problem["detail"], "`blocks` must be one whole number from 1 to 1024",
            "{query}"
        );
    }
}

#[tokio::test]
async fn chains_are_listed_in_ascending_order_of_their_ids() {
    let Fixture { service, .. } = &Fixture::start().await;
    assert_eq!(
        service.get("/v1/chains").await.body,
        "[{\"chain\":\"ill\",\"chain_name\":\"ill\",\"chain_id\":10,\"block_time_ms\":1500,\
         \"status\":\"unavailable\",\"newest_block\":null},\
         {\"chain\":\"ronin\",\"chain_name\":\"Ronin\",\"chain_id\":2020,\"block_time_ms\":3600000,\
         \"status\":\"fresh\",\"newest_block\":1000}]"
    );
}

#[tokio::test]
async fn a_chain_without_data_says_when_to_come_back() {
    let Fixture { service, .. } = &Fixture::start().await;
    for path in ["gas-suggestion", "fee-market", "fee-history"] {
        let answer = service.get(&format!("/v1/ill/{path}")).await;
        assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("no_data")));
        // 1.5 s, rounded up.
        assert_eq!(answer.header("retry-after"), "2");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("etag"), "");
    }
}

#[tokio::test]
async fn every_error_is_a_problem_with_the_request_id() {
    let Fixture { service, .. } = &Fixture::start().await;
    let cases = [
        (Method::GET, "/v1/none/gas-suggestion", 404, "unknown_chain"),
        (Method::GET, "/v1/2021/fee-market", 404, "unknown_chain"),
        (Method::GET, "/v1/RONIN/fee-history", 404, "unknown_chain"),
        (Method::GET, "/v1/%ff/gas-suggestion", 404, "unknown_chain"),
        (Method::GET, "/v1/ronin/none", 404, "not_found"),
        (Method::GET, "/v1/ronin/gas-suggestion/", 404, "not_found"),
        (Method::GET, "/none", 404, "not_found"),
        (Method::POST, SUGGESTION, 405, "method_not_allowed"),
        (Method::DELETE, "/v1/chains", 405, "method_not_allowed"),
        (Method::PUT, "/livez", 405, "method_not_allowed"),
    ];
    for (method, path, status, code) in cases {
        let answer = service.send(method, path, &[("x-request-id", "mine-1")]).await;
        let problem = answer.json();
        let members: Vec<_> = problem.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["code", "detail", "request_id", "status", "title", "type"]);
        assert_eq!((answer.status, &problem["code"]), (status, &json!(code)), "{path}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["request_id"], "mine-1");
        assert_eq!(answer.header("x-request-id"), "mine-1");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("allow"), if status == 405 { "GET,HEAD" } else { "" });
    }
}

#[tokio::test]
async fn a_request_id_is_unique_unless_the_client_gives_a_plain_one() {
    let Fixture { service, .. } = &Fixture::start().await;
    let id_for = async |given: &str| {
        let headers = [("x-request-id", given)];
        let answer = service.send(Method::GET, "/v1/chains", &headers).await;
        answer.header("x-request-id").to_owned()
    };
    assert_eq!(id_for("a-B_1.2:3").await, "a-B_1.2:3");
    assert_eq!(id_for(&"x".repeat(64)).await.len(), 64);
    let mut made = vec![service.get("/v1/chains").await.header("x-request-id").to_owned()];
    for unfit in ["", "a b", "<script>", "\u{e4}", &"x".repeat(65)] {
        made.push(id_for(unfit).await);
    }
    for id in &made {
        let (process, count) = id.split_once('-').unwrap();
        assert!(
            process.len() == 16 && process.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
        assert!(count.parse::<u64>().is_ok(), "{id}");
    }
    let count = made.len();
    made.sort();
    made.dedup();
    assert_eq!(made.len(), count);
}

#[tokio::test]
async fn browsers_of_any_origin_may_ask() {
    let Fixture { service, .. } = &Fixture::start().await;
    let preflight = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "content-type"),
    ];
    let answer = service.send(Method::OPTIONS, SUGGESTION, &preflight).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("access-control-max-age"), "86400");
    let allowed: Vec<_> = answer.header("access-control-allow-headers").split(',').collect();
    for name in [
        "content-type",
        "accept",
        "authorization",
        "x-api-key",
        "if-none-match",
        "cache-control",
        "last-event-id",
        "x-request-id",
    ] {
        assert!(allowed.contains(&name), "{name} in {allowed:?}");
    }
    assert_eq!(answer.header("access-control-allow-credentials"), "");

    let headers = [("origin", "https://app.example")];
    let answer = service.send(Method::GET, SUGGESTION, &headers).await;
    let exposed: Vec<_> = answer.header("access-control-expose-headers").split(',').collect();
    for name in [
        "etag",
        "age",
        "retry-after",
        "x-newest-block",
        "x-stale",
        "x-delegation-source",
        "x-request-id",
    ] {
        assert!(exposed.contains(&name), "{name} in {exposed:?}");
    }
    assert_eq!(answer.header("vary"), "");
}

#[tokio::test]
async fn origins_can_be_limited() {
    let cors = "[cors]\nallowed_origins = [\"https://app.example\"]\n";
    let Fixture { service, .. } = &Fixture::with_server(cors).await;
    let allowed = async |origin: &str| {
        let answer = service.send(Method::GET, SUGGESTION, &[("origin", origin)]).await;
        assert_eq!((answer.status, answer.header("vary")), (200, "origin"));
        answer.header("access-control-allow-origin").to_owned()
    };
    assert_eq!(allowed("https://app.example").await, "https://app.example");
    assert_eq!(allowed("https://other.example").await, "");
}

#[tokio::test]
async fn a_base_path_moves_every_public_route_and_leaves_the_probes_at_the_root_too() {
    let base_path = "base_path = \"/proxy/public\"";
    let Fixture { service, .. } = &Fixture::with_server(base_path).await;
    let answer = service.get("/proxy/public/v1/ronin/gas-suggestion").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, BODY));
    let moved = service.get(SUGGESTION).await;
    assert_eq!((moved.status, &moved.json()["code"]), (404, &json!("not_found")));
    let unknown = service.get("/proxy/public/v1/none/gas-suggestion").await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!("unknown_chain")));
    for path in ["/livez", "/readyz", "/proxy/public/livez", "/proxy/public/readyz"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_admin_listener_has_the_probes_and_no_public_route() {
    let Fixture { service, .. } = &Fixture::start().await;
    assert_eq!(service.admin("/livez").await.body, "{\"status\":\"live\"}");
    assert_eq!(service.admin("/readyz").await.body, "{\"status\":\"ready\"}");
    let answer = service.admin(SUGGESTION).await;
    assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn the_hot_route_answers_as_the_router_does() {
    for cors in ["", "[cors]\nallowed_origins = [\"https://app.example\"]\n"] {
        let Fixture { service, .. } = &Fixture::with_server(cors).await;
        let tag = service.get(SUGGESTION).await.header("etag").to_owned();
        for method in [Method::GET, Method::HEAD] {
            for chain in [("ronin", "%72onin"), ("ill", "%69ll"), ("2020", "202%30")] {
                for condition in [tag.as_str(), "\"other\""] {
                    for origin in ["https://app.example", "https://other.example"] {
                        let headers = [("if-none-match", condition), ("origin", origin)];
                        // The router decodes a path; the shortcut before it does not.
                        let [hot, routed] = [chain.0, chain.1].map(|name| {
                            let path = format!("/v1/{name}/gas-suggestion");
                            let method = method.clone();
                            async move {
                                let answer = service.send(method, &path, &headers).await;
                                let mut lines: Vec<_> = answer
                                    .headers
                                    .iter()
                                    .filter(|(name, _)| {
                                        !matches!(name.as_str(), "x-request-id" | "date")
                                    })
                                    .map(|(name, value)| {
                                        format!("{name}: {}", value.to_str().unwrap())
                                    })
                                    // The two answers may fall into different seconds.
                                    .map(|line| {
                                        line.replace(|char: char| char.is_ascii_digit(), "0")
                                    })
                                    .collect();
                                if answer.status == 304 {
                                    // The router counts the bytes that it does not send.
                                    lines.retain(|line| !line.starts_with("content-length"));
                                }
                                lines.sort();
                                let body =
                                    answer.body.split("request_id").next().unwrap().to_owned();
                                (answer.status, body, lines)
                            }
                        });
                        assert_eq!(hot.await, routed.await, "{method} {chain:?} {headers:?}");
                    }
                }
            }
        }
    }
}
