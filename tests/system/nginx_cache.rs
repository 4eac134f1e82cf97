//! nginx as a shared cache: a client never gets a response that was made for another kind of client, and no old one while
//! the service is there.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use futures_util::future::join_all;

use crate::deployment::text;
use crate::http_client;
use crate::mock_node::{MockNode, Reply};
use crate::nginx::{self, Nginx};
use crate::process::Process;
use crate::raw_client::free_port;
use crate::test_server::{Response, TestServer, serve, wait_until};

const ORIGINS: [&str; 2] = ["https://a.example", "https://b.example"];
const ADDRESS: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";

/// Starts a delegation API that says `true` to clients with a key of their own.
async fn start_api() -> String {
    let answer = async |request: HeaderMap| {
        let body = request.contains_key("x-api-key").to_string();
        // The API's own reason to vary is none of the service.
        ([("content-type", "application/json"), ("vary", "cookie")], body)
    };
    format!("http://{}", serve(Router::new().fallback(get(answer))).await.0)
}

struct Harness {
    url: String,
    _nginx: Nginx,
    _service: TestServer,
    _node: MockNode,
}

impl Harness {
    /// Starts the service behind an nginx that caches whatever it may.
    async fn start() -> Self {
        let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
        let [one, other] = ORIGINS;
        let text = format!(
            "[cors]\nallowed_origins = [\"{one}\", \"{other}\"]\n\
             [chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nblock_time = \"1h\"\nmax_age = \"3h\"\n\
             [delegation]\nsource = \"api\"\napi_url = \"{}\"\ncache_ttl = \"60s\"\n\
             [limits]\nrequests_per_second_per_client = 0\n",
            node.url(),
            start_api().await,
        );
        let service = TestServer::start(&text).await;
        service.wait_for_ok("/readyz").await;
        let listen = format!("127.0.0.1:{}", free_port());
        let (addresses, upstream) = ([listen.parse().unwrap()], service.address());
        let nginx = Nginx::start(&addresses, |_| {
            nginx::configuration(&format!(
                "proxy_cache_path cache keys_zone=gas:1m;\n\
                 server {{ listen {listen}; location / {{ proxy_pass http://{upstream};\n\
                 proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_cache gas;\n\
                 add_header X-Cache $upstream_cache_status always; }} }}"
            ))
        });
        let (url, nginx) = (format!("http://{listen}"), nginx.await);
        Self { url, _nginx: nginx, _service: service, _node: node }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = http_client::new().get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Response::read(request.send().await.unwrap()).await
    }
}

#[tokio::test]
async fn each_kind_of_client_gets_its_own_response_from_a_shared_cache() {
    let harness = Harness::start().await;
    let look_up = format!("/registry/v2/check/all?from={ADDRESS}&to={ADDRESS}&chainId=2020");
    let paths = "/v1/ronin/gas-suggestion /v1/ronin/fee-market /v1/ronin/fee-history \
        /v1/ronin/badge.svg /v1/ronin/score /v1/fee-markets /v1/chains \
        /compat/safe/ronin /gasprices/blockprices /openapi.json /";
    let origins = [None, Some(ORIGINS[0]), Some(ORIGINS[1]), Some("https://c.example")];
    let mut hits = 0;
    for path in paths.split(' ').chain([look_up.as_str()]) {
        // Two rounds: the second one finds copies of all kinds.
        for asks_gzip in [true, false, false, true] {
            for origin in origins {
                let mut headers = Vec::from_iter(origin.map(|origin| ("origin", origin)));
                headers.extend(asks_gzip.then_some(("accept-encoding", "gzip")));
                let response = harness.get(path, &headers).await;
                assert_eq!(response.status, 200, "{path}");
                let allowed = origin.filter(|origin| ORIGINS.contains(origin)).unwrap_or_default();
                assert_eq!(response.header("access-control-allow-origin"), allowed, "{path}");
                let is_plain = response.header("content-encoding").is_empty();
                assert!(is_plain || asks_gzip, "{path} for {headers:?}: {response:?}");
                hits += usize::from(response.header("x-cache") == "HIT");
            }
        }
    }
    assert!(hits > 60, "{hits} responses from the cache");
}

#[tokio::test]
async fn a_look_up_with_a_key_never_gets_the_cached_response_of_another() {
    let harness = Harness::start().await;
    let path = format!("/registry/v2/check/all?from={ADDRESS}&to={ADDRESS}&chainId=2020");
    let mut hits = 0;
    for key in [None, Some("one"), None, Some("two"), Some("one"), None] {
        let headers = Vec::from_iter(key.map(|key| ("x-api-key", key)));
        let response = harness.get(&path, &headers).await;
        hits += usize::from(response.header("x-cache") == "HIT");
        let vary: Vec<_> = response.headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["x-api-key, origin"]);
        assert_eq!(response.body, key.is_some().to_string(), "{key:?}");
    }
    assert_eq!(hits, 2);
}

const PRICE: &str = "/v1/ethereum/gas-suggestion";

/// Starts the service on recorded blocks of this block time.
fn start_demo(block_time: &str, address: &str) -> Process {
    let variables = [
        ("GAS_SERVER__LISTEN", address),
        ("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0"),
        ("GAS_SERVER__DRAIN_DELAY", "0s"),
    ];
    Process::start(&["demo", "--block-time", block_time], &variables)
}

async fn get_price(address: impl std::fmt::Display) -> Response {
    let url = format!("http://{address}{PRICE}");
    Response::read(http_client::new().get(url).send().await.unwrap()).await
}

/// Starts the documented nginx in front of the service at this address.
async fn start_documented_nginx(service: &str) -> (Nginx, SocketAddr) {
    let address: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().unwrap();
    let configuration = text("docs/examples/nginx/nginx.conf")
        .replace("listen 8082;", &format!("listen {address};"))
        .replace("127.0.0.1:8080", service)
        .replace("add_header Age", "add_header X-Cache $upstream_cache_status; add_header Age");
    (Nginx::start(&[address], |_| configuration).await, address)
}

/// Requests the price 20 times a second for this time, from the service and from nginx. Returns the share of copies, and the
/// age of the oldest one.
async fn measure(service: &str, nginx: SocketAddr, duration: Duration) -> (f64, Duration) {
    let (mut first_seen, mut oldest) = (HashMap::new(), Duration::ZERO);
    let (mut requests, mut hits) = (0, 0);
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let end = Instant::now() + duration;
    while Instant::now() < end {
        ticks.tick().await;
        let newest = get_price(service).await.newest_block();
        first_seen.entry(newest).or_insert_with(Instant::now);
        let response = get_price(nginx).await;
        assert_eq!((response.status, response.header("x-stale")), (200, ""), "{response:?}");
        requests += 1;
        if response.header("x-cache") == "HIT" {
            hits += 1;
            let seen_at = first_seen.get(&response.newest_block());
            oldest = oldest.max(seen_at.map_or(Duration::ZERO, Instant::elapsed));
        }
    }
    (f64::from(hits) / f64::from(requests), oldest)
}

#[tokio::test]
async fn documented_nginx_serves_no_old_price_but_over_a_restart() {
    const TOLERANCE: Duration = Duration::from_millis(200);
    let cases = [("200ms", 5, 0.0..=0.0), ("2s", 10, 0.6..=1.0), ("12s", 15, 0.8..=1.0)];
    let cases = cases.map(async |(block_time, seconds, expected)| {
        let address = format!("127.0.0.1:{}", free_port());
        let service = start_demo(block_time, &address);
        service.wait_for_ok("/readyz").await;
        let (_nginx, nginx) = start_documented_nginx(&address).await;
        let (share, oldest) = measure(&address, nginx, Duration::from_secs(seconds)).await;
        println!("blocks of {block_time}: {share:.3} of the responses are copies, the oldest of {oldest:?}");
        assert!(expected.contains(&share), "{block_time}: {share}");
        let max_age = humantime::parse_duration(block_time).unwrap() + Duration::from_millis(1500);
        assert!(oldest <= max_age + TOLERANCE, "{block_time}: {oldest:?}");
        if share <= 0.0 {
            return;
        }
        assert_eq!(service.stop_with("-TERM").0, Some(0));
        let is_stale = |response: &Response| {
            assert_eq!(response.status, 200, "{block_time}: {response:?}");
            let is_stale = response.header("x-stale") == "true";
            assert_eq!(response.headers.contains_key("age"), !is_stale, "{response:?}");
            is_stale
        };
        wait_until("the copy is old", async || is_stale(&get_price(nginx).await)).await;
        let _service = start_demo(block_time, &address);
        wait_until("the price is new", async || !is_stale(&get_price(nginx).await)).await;
    });
    join_all(cases).await;
}
