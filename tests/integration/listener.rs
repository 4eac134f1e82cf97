//! Limits per client: time, connections, requests, memory and file descriptors.
//!
//! The machine may be busy, so these tests only distinguish the configured timeouts from the defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::TcpStream;

use crate::http_message::{Message, get};
use crate::mock_node::{MockNode, Reply, dead_url, start_service};
use crate::process::{self, FREE_PORTS, File, Process};
use crate::raw_client::{RawClient, TIMEOUT};
use crate::test_server::{TestServer, wait_until};

/// Timeout that the tests configure, and the maximum time until the connection is closed.
const DEADLINE: Duration = Duration::from_millis(300);
const MAX_CLOSE_DELAY: Duration = Duration::from_secs(6);

const DEADLINES: &str =
    "header_timeout = \"300ms\"\nwrite_timeout = \"300ms\"\nbody_timeout = \"300ms\"\n";
const NO_RATE: &str = "requests_per_second_per_client = 0\n";

/// Starts a service with these `[limits]` and additions to its `[server]` section.
async fn start(limits: &str, server: &str) -> (MockNode, TestServer) {
    start_service(&format!("{server}\n[limits]\n{limits}"), "").await
}

const SUGGESTION: &str = "/v1/a/gas-suggestion";
/// Another client.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn connections(outcome: &str) -> String {
    format!("gas_suggestion_connections_total{{listener=\"public\",outcome=\"{outcome}\"}}")
}

fn timeouts(deadline: &str) -> String {
    format!(
        "gas_suggestion_connection_timeouts_total{{listener=\"public\",deadline=\"{deadline}\"}}"
    )
}

fn outcomes(responses: &[Message]) -> Vec<(u16, String)> {
    responses.iter().map(Message::outcome).collect()
}

#[tokio::test]
async fn connection_without_a_whole_request_is_closed_without_a_response() {
    let (_node, service) = start(DEADLINES, "").await;
    let request = get(SUGGESTION, "");
    let cases = [
        (String::new(), 0),
        // An empty line does not start a request, so the timeout still applies.
        (format!("{request}\r\n"), 1),
        (format!("{request}G"), 1),
        (format!("{request}GET /v1/chains HTTP/1.1\r\nHost: a\r\n"), 1),
    ];
    join_all(cases.map(async |(sent, served)| {
        let since = Instant::now();
        let mut client = RawClient::connect(service.address()).await;
        client.send(&sent).await;
        let responses = client.read_until_closed().await;
        let elapsed = since.elapsed();
        assert!(elapsed >= DEADLINE && elapsed < MAX_CLOSE_DELAY, "closed after {elapsed:?}");
        assert_eq!(outcomes(&responses), vec![(200, String::new()); served], "{sent}");
    }))
    .await;
    assert_eq!(service.count(&timeouts("header")).await, 4);
}

#[tokio::test]
async fn slow_headers_end_the_connection() {
    let (_node, service) = start(DEADLINES, "").await;
    let since = Instant::now();
    let mut client = RawClient::connect(service.address()).await;
    let endless = format!("GET {SUGGESTION} HTTP/1.1\r\nHost: a\r\nX-A: {}", "x".repeat(100_000));
    for byte in endless.as_bytes().chunks(1) {
        assert!(since.elapsed() < MAX_CLOSE_DELAY, "the connection is still open");
        let is_closed = client.try_send(byte).await.is_err();
        if is_closed || tokio::time::timeout(DEADLINE / 10, client.read_response()).await.is_ok() {
            break;
        }
    }
    assert!(since.elapsed() >= DEADLINE, "closed after {:?}", since.elapsed());
    assert_eq!(service.count(&timeouts("header")).await, 1);
}

#[tokio::test]
async fn stalled_request_body_gets_a_response_and_is_closed() {
    for headers in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"] {
        let (_node, service) = start("body_timeout = \"300ms\"\nmax_connections = 1\n", "").await;
        let since = Instant::now();
        let mut client = RawClient::connect(service.address()).await;
        client.send(format!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n{headers}\r\n5\r\nab")).await;
        let responses = client.read_until_closed().await;
        assert!(since.elapsed() < MAX_CLOSE_DELAY, "{:?}", since.elapsed());
        assert_eq!(outcomes(&responses), [(405, "method_not_allowed".into())]);
        // The client keeps its end open; the service closes its own and frees the slot.
        wait_for_free_slot(service.address()).await;
    }
}

#[tokio::test]
async fn client_that_reads_nothing_is_disconnected() {
    let limits = format!("write_timeout = \"300ms\"\n{NO_RATE}max_connections = 1\n");
    let (_node, service) = start(&limits, "").await;
    let mut client = RawClient::connect(service.address()).await;
    let requests = get("/v1/chains", "").repeat(100);
    let since = Instant::now();
    let sending = async { while client.try_send(&requests).await.is_ok() {} };
    // The client reads nothing, so its writes block until the service resets the connection.
    tokio::time::timeout(TIMEOUT, sending).await.expect("a reset connection");
    assert!(since.elapsed() >= DEADLINE, "{:?}", since.elapsed());
    assert_eq!(service.count(&timeouts("write")).await, 1);
    wait_for_free_slot(service.address()).await;
}

#[tokio::test]
async fn connections_over_a_limit_are_refused_until_a_slot_is_free() {
    for (limit, status, code, outcome) in [
        ("max_connections", 503, "overloaded", "refused_overloaded"),
        ("max_connections_per_client", 429, "rate_limited", "refused_client_limit"),
    ] {
        let (_node, service) = start(&format!("{limit} = 3\n{NO_RATE}"), "").await;
        let mut held = Vec::new();
        for _ in 0..3 {
            let mut client = RawClient::connect(service.address()).await;
            assert_eq!(client.status(SUGGESTION).await, 200);
            held.push(client);
        }
        let mut rejected = RawClient::connect(service.address()).await;
        rejected.send(get(SUGGESTION, "")).await;
        let responses = rejected.read_until_closed().await;
        assert_eq!(outcomes(&responses), [(status, code.to_owned())]);
        assert_eq!(responses[0].header("retry-after"), "1", "{limit}");
        assert!(responses[0].closes_connection(), "{limit}");
        // Accepted connections are not affected.
        for client in &mut held {
            assert_eq!(client.status(SUGGESTION).await, 200, "{limit}");
        }
        assert_eq!(service.count(&connections("accepted")).await, 3, "{limit}");
        assert_eq!(service.count(&connections(outcome)).await, 1, "{limit}");
        if status == 429 {
            let mut other = RawClient::connect_from(OTHER, service.address()).await;
            assert_eq!(other.status(SUGGESTION).await, 200);
        }
        let accepted = service.count(&connections("accepted")).await;
        held.pop();
        wait_for_free_slot(service.address()).await;
        assert_eq!(service.count(&connections("accepted")).await, accepted + 1, "{limit}");
    }
}

/// Connects until a connection is served. Rejected connections must get 503 or 429.
async fn wait_for_free_slot(address: SocketAddr) {
    wait_until("a slot is free", async || {
        let mut client = RawClient::connect(address).await;
        client.send(get(SUGGESTION, "")).await;
        // With short timeouts, a busy machine may delay the test until this connection is closed too.
        let response = client.read_response().await.ok().flatten();
        let status = response.as_ref().map(Message::status);
        assert!(matches!(status, Some(200 | 429 | 503) | None), "{response:#?}");
        status == Some(200)
    })
    .await;
}

const RATE_LIMITED: &str = "gas_suggestion_requests_rate_limited_total";

/// Sends requests until one is rejected. Returns the number of successes and the rejection.
async fn exhaust_rate_limit(client: &mut RawClient, headers: &str) -> (usize, Message) {
    for count in 0..1000 {
        let response = client.request(get(SUGGESTION, headers)).await;
        if response.status() != 200 {
            return (count, response);
        }
    }
    panic!("no request was rejected");
}

#[tokio::test]
async fn rate_limited_client_gets_retry_after_and_is_served_later() {
    let limits = "requests_per_second_per_client = 1\nrequest_burst_per_client = 3\n";
    let (_node, service) = start(limits, "").await;
    let address = service.address();
    let mut client = RawClient::connect(address).await;
    // Probes are not limited.
    for path in ["/livez", "/readyz"].repeat(5) {
        assert_eq!(client.status(path).await, 200);
    }
    let since = Instant::now();
    let (count, rejected) =
        exhaust_rate_limit(&mut client, "Origin: https://app.example\r\n").await;
    let refills = usize::try_from(since.elapsed().as_secs()).unwrap() + 1;
    assert!((3..=3 + refills).contains(&count), "{count} were accepted");
    assert_eq!(rejected.own_outcome(), (429, "rate_limited".into()));
    assert_eq!(rejected.header("retry-after"), "1");
    assert_ne!(rejected.header("access-control-expose-headers"), "");
    assert!(!rejected.closes_connection());
    assert_eq!(service.count(RATE_LIMITED).await, 1);
    // The limit applies to the client, not to the connection.
    let mut second = RawClient::connect(address).await;
    let mut other = RawClient::connect_from(OTHER, address).await;
    assert_eq!(other.status(SUGGESTION).await, 200);
    let mut rejections = 1;
    for path in ["/livez", "/readyz", "/livez"] {
        rejections += u64::from(second.status(SUGGESTION).await == 429);
        assert_eq!(second.status(path).await, 200);
    }
    assert!(rejections > 1, "a second connection has its own limit");
    let since = Instant::now();
    while client.status(SUGGESTION).await == 429 {
        rejections += 1;
        assert!(since.elapsed() < TIMEOUT, "the limit never refills");
    }
    assert_eq!(service.count(RATE_LIMITED).await, rejections);
}

#[tokio::test]
async fn long_documents_lists_and_histories_cost_what_they_take() {
    let limits = "requests_per_second_per_client = 1\nrequest_burst_per_client = 11\n";
    let chain = |id| format!("[chains.c{id}]\nchain_id = {id}\nrpc_urls = [{:?}]\n", dead_url());
    let chains: String = (1..=40).map(chain).collect();
    let service = TestServer::with_server(&format!("[limits]\n{limits}"), &chains).await;
    let connect = |source| RawClient::connect_from(source, service.address());
    // Each response of more than 64 KiB is at least one request more.
    let mut client = connect(Ipv4Addr::new(127, 0, 0, 3)).await;
    let mut served = 0;
    while client.status("/openapi.json").await == 200 {
        served += 1;
    }
    assert!((2..=6).contains(&served), "{served}");
    // 40 chains are 10 requests beside the first.
    let mut client = connect(Ipv4Addr::new(127, 0, 0, 4)).await;
    assert_eq!(client.status("/v1/fee-markets").await, 200);
    let refused = client.request(get("/v1/fee-markets", "")).await;
    assert_eq!(refused.outcome(), (429, "rate_limited".into()));
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((9..=12).contains(&wait), "{wait}");
    // Suggestions take less.
    let mut client = connect(OTHER).await;
    for _ in 0..5 {
        assert_eq!(client.status("/v1/gas-suggestions").await, 200);
    }
    // A history is a request for each 32 blocks.
    let limits = "requests_per_second_per_client = 1\nrequest_burst_per_client = 40\n";
    let (_node, service) = start(limits, "").await;
    let mut client = RawClient::connect(service.address()).await;
    for status in [200, 429] {
        assert_eq!(client.status("/v1/a/fee-history?blocks=1024").await, status);
    }
    let mut client = RawClient::connect_from(OTHER, service.address()).await;
    for _ in 0..10 {
        assert_eq!(client.status("/v1/a/fee-history?blocks=31").await, 200);
    }
}

#[tokio::test]
async fn x_forwarded_for_counts_only_from_trusted_proxies() {
    const BUDGET: &str = "requests_per_second_per_client = 1\nrequest_burst_per_client = 5\n";
    let (_node, service) = start(BUDGET, "trusted_proxies = [\"127.0.0.2/32\"]").await;
    let forwarded = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    let mut proxy = RawClient::connect_from(OTHER, service.address()).await;
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert!(exhaust_rate_limit(&mut proxy, &forwarded(client)).await.0 >= 5, "{client}");
    }
    // The header of any other peer is ignored.
    let mut untrusted = RawClient::connect(service.address()).await;
    let since = Instant::now();
    let mut accepted = 0;
    for count in 0..100 {
        let headers = forwarded(&format!("192.0.3.{count}"));
        let response = untrusted.request(get(SUGGESTION, &headers)).await;
        accepted += u64::from(response.status() == 200);
    }
    assert!(accepted <= 5 + since.elapsed().as_secs() + 1, "{accepted} were accepted");
}

#[tokio::test]
async fn oversized_headers_and_uris_get_431_and_414() {
    let (_node, service) = start(NO_RATE, "").await;
    let header = |bytes| get(SUGGESTION, &format!("X-A: {}\r\n", "x".repeat(bytes)));
    let long = get(&format!("/{}", "x".repeat(20_000)), "");
    let mut client = RawClient::connect(service.address()).await;
    for (request, status, code) in
        [(header(17_000), 431, "headers_too_large"), (long, 414, "uri_too_long")]
    {
        let response = client.request(request).await;
        assert_eq!(response.own_outcome(), (status, code.to_owned()));
        assert!(!response.closes_connection());
    }
    // hyper responds to what it does not parse, without a body.
    let many = get(SUGGESTION, &"X-A: b\r\n".repeat(101));
    for (request, status) in [(header(100_000), 431), (many, 431), ("nonsense\r\n\r\n".into(), 400)]
    {
        let mut client = RawClient::connect(service.address()).await;
        client.send(request).await;
        let responses = client.read_until_closed().await;
        assert_eq!(outcomes(&responses), [(status, String::new())]);
        assert!(responses[0].closes_connection());
    }
}

#[tokio::test]
async fn service_survives_running_out_of_file_descriptors() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let chain = node.chain("a", "block_time = \"50ms\"");
    let file = File::new("few-files", &format!("[limits]\nmax_connections = 2\n{NO_RATE}{chain}"));
    let bare = process::command(&["--config", file.path()], &FREE_PORTS);
    let service = Process::spawn(process::with_open_files(&bare, 96));
    let mut client = RawClient::connect(service.address).await;
    let mut admin = RawClient::connect(service.admin).await;
    client.wait_for_ok(SUGGESTION).await;
    // Each rejected connection keeps its descriptor for a while, until the process has none left.
    let mut flood = Vec::new();
    let mut connect = async |count: usize| {
        for _ in 0..count {
            flood.push(TcpStream::connect(service.address).await.unwrap());
        }
    };
    let descriptors = format!("/proc/{}/fd", service.id());
    wait_until("no descriptor is left", async || {
        connect(32).await;
        std::fs::read_dir(&descriptors).unwrap().count() >= 96
    })
    .await;
    connect(300).await;
    // Without free descriptors, polling continues and open connections are served.
    let polls = node.polls();
    let since = Instant::now();
    while node.polls() < polls + 5 {
        assert!(since.elapsed() < TIMEOUT, "polling has stopped");
        assert_eq!(client.status(SUGGESTION).await, 200);
        assert_eq!(admin.status("/readyz").await, 200);
    }
    drop(flood);
    // The service accepts again. While the flood is still processed, some connections get 503 or no response.
    wait_for_free_slot(service.address).await;
    let (code, log) = service.stop_with("-TERM");
    assert_eq!(code, Some(0), "{log}");
    let warnings = log.lines().filter(|line| line.contains("cannot accept connections"));
    assert_eq!(warnings.count(), 1, "{log}");
}

#[tokio::test]
async fn disconnected_clients_leave_nothing_in_memory() {
    const MAX_GROWTH_KIB: u64 = 1024;
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = format!(
        // The rate limit refills within a millisecond. Until then the service must remember the client.
        "[server]\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
         [limits]\nrequests_per_second_per_client = 1000\nrequest_burst_per_client = 1\n\
         [log]\nfilter = \"warn,gas_suggestion::server=info\"\n{}",
        node.chain("a", "")
    );
    let file = File::new("memory", &text);
    let service = Process::start(&["--config", file.path()], &[]);
    let mut proxy = RawClient::connect(service.address).await;
    proxy.wait_for_ok(SUGGESTION).await;
    let mut next = 0_u32;
    // Many clients send one request each through a proxy, and some connect directly.
    let mut wave = async |clients: usize| {
        for _ in 0..clients / 100 {
            let mut requests = String::new();
            for _ in 0..100 {
                next += 1;
                let address = Ipv4Addr::from_bits(0x0a00_0000 + next);
                requests += &get(SUGGESTION, &format!("X-Forwarded-For: {address}\r\n"));
            }
            proxy.send(requests).await;
            for _ in 0..100 {
                assert_eq!(proxy.read_response().await.unwrap().unwrap().status(), 200);
            }
            for offset in 0..5 {
                let source = Ipv4Addr::from_bits(0x7f01_0000 + next + offset);
                let mut client = RawClient::connect_from(source, service.address).await;
                // Large headers, so that a leak would show.
                let headers = format!("X-A: {}\r\n", "x".repeat(12_000));
                assert_eq!(client.request(get("/livez", &headers)).await.status(), 200);
            }
        }
        service.resident_kib()
    };
    let first = wave(2_000).await;
    let mut last = first;
    for _ in 0..3 {
        last = wave(2_000).await;
    }
    assert!(last <= first + MAX_GROWTH_KIB, "{first} KiB became {last} KiB");
}
