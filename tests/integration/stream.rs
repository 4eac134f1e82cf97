//! Tests of the server-sent event streams of suggestions.

mod slow;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http_client;
use crate::http_message::get;
use crate::mock_node::{MockNode, Reply, start_service};
use crate::raw_client::{RawClient, TIMEOUT};
use crate::test_server::{self, TestServer};

const STREAM: &str = "/v1/a/gas-suggestion/stream";
const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Settings of a chain that is polled every 50 ms.
const FAST: &str = "block_time = \"50ms\"\nstall_after = \"0s\"";

/// Returns the configuration of such a chain.
fn chain(key: &str, node: &MockNode) -> String {
    node.chain(key, FAST)
}

/// Starts a node at block 1000 and a service that has polled it.
async fn start() -> (MockNode, TestServer) {
    start_with("", "").await
}

/// Like [`start`], with further lines for `[server]` or further sections, and for the chain.
async fn start_with(server: &str, more: &str) -> (MockNode, TestServer) {
    start_service(server, &format!("{FAST}\n{more}")).await
}

/// Reader of one stream.
#[derive(Debug)]
struct Subscriber {
    response: reqwest::Response,
    received: String,
}

/// The `id` and `data` fields of one event.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    id: String,
    data: String,
}

impl Subscriber {
    async fn open(service: &TestServer, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = http_client::new().get(service.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut subscriber = Self { response, received: String::new() };
        // The line is part of the first event's block, whenever that comes.
        let beginning = subscriber.until("\n").await.unwrap();
        let retry: u64 = beginning.strip_prefix("retry: ").unwrap().parse().unwrap();
        assert!((2000..5000).contains(&retry), "{retry}");
        assert!(!subscriber.received.starts_with('\n'), "{subscriber:?}");
        subscriber
    }

    /// Reads the lines up to the next empty one. Returns `None` at a clean end of the stream.
    async fn block(&mut self) -> Option<String> {
        self.until("\n\n").await
    }

    /// Reads up to `end`, which is not returned. Returns `None` at a clean end of the stream.
    async fn until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some((text, _)) = self.received.split_once(end) {
                let text = text.to_owned();
                self.received.drain(..text.len() + end.len());
                return Some(text);
            }
            let chunk = timeout(TIMEOUT, self.response.chunk()).await.expect("an event");
            let Some(chunk) = chunk.expect("no event is cut off") else {
                assert_eq!(self.received, "");
                return None;
            };
            self.received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn next(&mut self) -> Event {
        let block = self.block().await.expect("an event");
        let (kind, rest) = block.split_once('\n').unwrap();
        assert_eq!(kind, "event: gas-suggestion");
        let (id, data) = rest.split_once('\n').unwrap();
        let value = |line: &str, name| line.strip_prefix(name).unwrap().to_owned();
        assert!(!data.contains('\n'), "{block}");
        Event { id: value(id, "id: "), data: value(data, "data: ") }
    }

    /// Returns the data of the next event, which tells a status.
    async fn next_status(&mut self) -> Value {
        let block = self.block().await.expect("an event");
        let data = block.strip_prefix("event: status\ndata: ");
        let data = data.unwrap_or_else(|| panic!("{block} is a status"));
        assert!(!data.contains('\n'), "{block}");
        let status: Value = serde_json::from_str(data).unwrap();
        let names = ["\"chain\":", "\"status\":", "\"reason\":", "\"observed_at\":"];
        let positions = names.map(|name| data.find(name).unwrap());
        assert!(positions.is_sorted() && status.as_object().unwrap().len() == 4, "{data}");
        status
    }

    /// Returns true if no unread event has arrived.
    async fn no_event_pending(&mut self) -> bool {
        // Callers have awaited another response before, so every earlier event has arrived.
        let more = timeout(Duration::from_millis(1), self.response.chunk()).await;
        self.received.is_empty() && more.is_err()
    }
}

/// Returns the event for the current suggestion.
async fn current(service: &TestServer) -> Event {
    let response = service.get(SUGGESTION).await;
    let (block, tag) =
        (response.header("x-newest-block"), response.header("etag").trim_matches('"'));
    Event { id: format!("{block}-{tag}"), data: response.body }
}

/// Waits until `count` further polls of the node have ended.
async fn wait_for_polls(node: &MockNode, count: usize) {
    // One poll may already be in flight, and the last one has certainly ended only when the next begins.
    let enough = node.calls("eth_feeHistory") + count + 2;
    let deadline = Instant::now() + TIMEOUT;
    while node.calls("eth_feeHistory") < enough {
        assert!(Instant::now() < deadline, "the node is not polled");
        tokio::task::yield_now().await;
    }
}

/// Returns the response to a request that must not open a stream.
async fn refused_response(
    service: &TestServer,
    path: &str,
    headers: &[(&str, &str)],
) -> test_server::Response {
    let response = timeout(TIMEOUT, service.send(Method::GET, path, headers));
    response.await.expect("the response ends: no stream was opened")
}

async fn wait_for_streams(service: &TestServer, count: usize) {
    let line = format!("\ngas_suggestion_streams {count}\n");
    service.wait_for_admin("/metrics", |response| response.body.contains(&line)).await;
}

#[tokio::test]
async fn subscriber_receives_the_value_and_each_change_only() {
    let (node, service) = start().await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    let headers = subscriber.response.headers();
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store, no-transform");
    assert_eq!(headers["x-accel-buffering"], "no");
    let first = subscriber.next().await;
    assert_eq!(first, current(&service).await);
    assert!(first.id.starts_with("1000-"), "{first:?}");

    // Polls without a change cause no event.
    wait_for_polls(&node, 3).await;
    assert!(subscriber.no_event_pending().await, "{subscriber:?}");

    // A new block at the same price causes an event.
    node.set_reply(Reply::history(1001, 3, 40));
    let second = subscriber.next().await;
    assert_eq!(second, current(&service).await);
    assert_eq!(second.id, first.id.replace("1000", "1001"));
    assert_eq!(second.data, first.data);

    // A reorg at the same height causes an event.
    node.set_reply(Reply::history(1001, 4, 40));
    let third = subscriber.next().await;
    assert_eq!(third, current(&service).await);
    assert!(third.id.starts_with("1001-") && third.id != second.id, "{third:?}");
}

#[tokio::test]
async fn current_last_event_id_suppresses_the_first_event() {
    let (node, service) = start().await;
    let known = current(&service).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[("last-event-id", &known.id)]).await;
    wait_for_polls(&node, 3).await;
    assert!(subscriber.no_event_pending().await, "{subscriber:?}");
    node.set_reply(Reply::history(1001, 3, 40));
    assert!(subscriber.next().await.id.starts_with("1001-"));

    let long = "1".repeat(10_000);
    for other in [known.id.as_str(), "1001", "", "\u{e9}", &long] {
        let mut subscriber = Subscriber::open(&service, STREAM, &[("last-event-id", other)]).await;
        assert_eq!(subscriber.next().await, current(&service).await, "{other}");
    }
}

#[tokio::test]
async fn stream_of_a_chain_without_data_opens_and_waits() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&chain("a", &node)).await;
    service.wait_for(SUGGESTION, |response| response.body.contains("no_data")).await;
    let mut subscriber = Subscriber::open(&service, "/v1/7/gas-suggestion/stream", &[]).await;
    assert!(subscriber.no_event_pending().await, "{subscriber:?}");
    node.set_reply(Reply::history(1000, 3, 40));
    assert_eq!(subscriber.next().await, current(&service).await);
    // The status has changed while the subscriber waited.
    assert_eq!(subscriber.next_status().await["status"], "fresh");
}

#[tokio::test]
async fn expired_value_is_withheld_until_a_node_confirms_it() {
    let (node, service) = start_with("", "max_age = \"2100ms\"\n").await;
    let mut early = Subscriber::open(&service, STREAM, &[]).await;
    let first = early.next().await;
    node.set_reply(Reply::Error(-32000));
    service.wait_for(SUGGESTION, |response| response.body.contains("stale_data")).await;
    while early.next_status().await["status"] != "unavailable" {}
    let mut late = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(late.next_status().await["status"], "unavailable");
    assert!(late.no_event_pending().await, "{late:?}");

    node.set_reply(Reply::history(1000, 3, 40));
    assert_eq!(late.next().await, first);
    // The early subscriber does not get the value again.
    for subscriber in [&mut early, &mut late] {
        assert_eq!(subscriber.next_status().await["status"], "fresh");
    }
    wait_for_polls(&node, 3).await;
    assert!(early.no_event_pending().await, "{early:?}");
}

/// Returns the status of the chain `a` as `/v1/chains` shows it.
async fn listed_status(service: &TestServer) -> Value {
    service.get("/v1/chains").await.json()[0]["status"].clone()
}

#[tokio::test]
async fn each_change_of_the_status_is_an_event_that_no_publication_causes() {
    let (node, service) = start_with("", "max_age = \"3s\"\n").await;
    let mut one = Subscriber::open(&service, STREAM, &[]).await;
    let mut all = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    one.next().await;
    all.next().await;
    node.set_reply(Reply::Error(-32000));
    for (status, reason) in [("stale", "old_data"), ("unavailable", "old_data")] {
        let event = one.next_status().await;
        let observed_at = event["observed_at"].as_str().unwrap();
        let observed_at = humantime::parse_rfc3339(observed_at).unwrap();
        assert!(observed_at.elapsed().unwrap() < Duration::from_secs(10), "{event}");
        let expected = json!({ "chain": "a", "status": status, "reason": reason, "observed_at": event["observed_at"] });
        assert_eq!(event, expected);
        assert_eq!(all.next_status().await, expected);
        assert_eq!(listed_status(&service).await, status);
    }
    // The same reply again: it changes nothing but the status.
    node.set_reply(Reply::history(1000, 3, 40));
    // The value had expired, so it may be sent again.
    loop {
        let block = one.block().await.unwrap();
        if block.starts_with("event: status\n") {
            assert!(block.contains("\"status\":\"fresh\",\"reason\":null,"), "{block}");
            break;
        }
    }
    assert_eq!(listed_status(&service).await, "fresh");
}

#[tokio::test]
async fn a_head_that_stands_is_told_and_its_end_too() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = node.chain("a", "block_time = \"50ms\"\nstall_after = \"3s\"");
    let service = TestServer::start(&text).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    let mut status = subscriber.next_status().await;
    if status["status"] == "fresh" {
        // The stream was opened before the first reply.
        status = subscriber.next_status().await;
    }
    assert_eq!((&status["status"], &status["reason"]), (&json!("stale"), &json!("standing_head")));
    // A subscriber of now gets the value first.
    let mut late = Subscriber::open(&service, STREAM, &[]).await;
    let value = late.next().await;
    assert_eq!(late.next_status().await["reason"], "standing_head");
    // One that has the value gets the status alone.
    let mut resumed = Subscriber::open(&service, STREAM, &[("last-event-id", &value.id)]).await;
    assert_eq!(resumed.next_status().await["reason"], "standing_head");
    node.set_reply(Reply::history(1001, 3, 40));
    for subscriber in [&mut subscriber, &mut late, &mut resumed] {
        assert!(subscriber.next().await.id.starts_with("1001-"));
        let status = subscriber.next_status().await;
        assert_eq!((&status["status"], &status["reason"]), (&json!("fresh"), &json!(null)));
    }
}

#[tokio::test]
async fn the_query_stands_for_the_last_event_id_and_the_header_wins() {
    let (node, service) = start().await;
    let known = current(&service).await;
    let all = "/v1/gas-suggestions/stream";
    for (path, query) in [
        (STREAM, format!("lastEventId={}", known.id)),
        (STREAM, format!("Last-Event-ID={}", known.id)),
        (STREAM, format!("_=1&lastEventId={}&evs_preamble=2056", known.id.replace('-', "%2D"))),
        (STREAM, format!("lastEventId=1-a&lastEventId={}", known.id)),
        (all, format!("lastEventId=7-{}", known.id)),
    ] {
        let mut resumed = Subscriber::open(&service, &format!("{path}?{query}"), &[]).await;
        wait_for_polls(&node, 1).await;
        assert!(resumed.no_event_pending().await, "{query}: {resumed:?}");
    }
    let other = format!("{STREAM}?lastEventId={}", known.id);
    let long = format!("{STREAM}?lastEventId={}", "1".repeat(5000));
    let header = ("last-event-id", "1-a");
    for (path, headers) in [
        (other.as_str(), &[header][..]),
        (&long, &[]),
        (&format!("{STREAM}?lastEventId="), &[]),
        (&format!("{STREAM}?lastEventId"), &[]),
        (&format!("{STREAM}?lasteventid={}", known.id), &[]),
        (&format!("{STREAM}?%FF=%FF&lastEventId=%FF&"), &[]),
    ] {
        let mut subscriber = Subscriber::open(&service, path, headers).await;
        assert_eq!(subscriber.next().await, known, "{path}");
    }
    let known = ("last-event-id", known.id.as_str());
    let mut resumed =
        Subscriber::open(&service, &format!("{STREAM}?lastEventId=1-a"), &[known]).await;
    wait_for_polls(&node, 1).await;
    assert!(resumed.no_event_pending().await, "{resumed:?}");
}

#[tokio::test]
async fn one_stream_carries_all_chains() {
    let nodes = [
        MockNode::start(7, Reply::history(1000, 3, 40)).await,
        MockNode::start(8, Reply::history(2000, 3, 40)).await,
    ];
    let [a, b] = &nodes;
    let service = TestServer::start(&(chain("a", a) + &chain("b", b))).await;
    service.wait_for_ok("/v1/b/gas-suggestion").await;
    service.wait_for_ok(SUGGESTION).await;
    let mut all = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    let mut events = [all.next().await, all.next().await];
    events.sort_by(|one, other| one.id.cmp(&other.id));
    let [event_a, event_b] = &events;
    let suggestion = current(&service).await;
    assert_eq!(
        (event_a.id.as_str(), &event_a.data),
        (format!("7-{}", suggestion.id).as_str(), &suggestion.data)
    );
    assert!(event_b.id.starts_with("8-2000-") && event_b.data.contains("\"b\""), "{event_b:?}");

    let known = [("last-event-id", event_a.id.as_str())];
    let mut resumed = Subscriber::open(&service, "/v1/gas-suggestions/stream", &known).await;
    assert_eq!(&resumed.next().await, event_b);
    assert!(resumed.no_event_pending().await, "{resumed:?}");
    a.set_reply(Reply::history(1001, 3, 40));
    for subscriber in [&mut all, &mut resumed] {
        assert!(subscriber.next().await.id.starts_with("7-1001-"));
    }
    b.set_reply(Reply::history(2001, 3, 40));
    for subscriber in [&mut all, &mut resumed] {
        assert!(subscriber.next().await.id.starts_with("8-2001-"));
    }
}

#[tokio::test]
async fn max_streams_is_enforced_and_a_closed_stream_frees_a_permit() {
    let limits = "[limits]\nrequests_per_second_per_client = 0\nmax_streams = 2\n";
    let (_node, service) = start_with(limits, "").await;
    let first = Subscriber::open(&service, STREAM, &[]).await;
    let _second = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    wait_for_streams(&service, 2).await;
    for path in [STREAM, "/v1/gas-suggestions/stream"] {
        let refused = refused_response(&service, path, &[]).await;
        refused.assert_problem(503, "overloaded");
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(refused.header("access-control-allow-origin"), "*");
    }
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 2);
    // Other requests are not limited.
    assert_eq!(service.get(SUGGESTION).await.status, 200);

    drop(first);
    wait_for_streams(&service, 1).await;
    let mut third = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(third.next().await, current(&service).await);
}

#[tokio::test]
async fn proxied_client_streams_are_capped_by_its_connection_limit() {
    let more = "trusted_proxies = [\"127.0.0.1/32\"]\n[limits]\nmax_connections_per_client = 2\n";
    let (_node, service) = start_with(more, "").await;
    let client_headers = [("x-forwarded-for", "192.0.2.1")];
    let first = Subscriber::open(&service, STREAM, &client_headers).await;
    let _second = Subscriber::open(&service, "/v1/gas-suggestions/stream", &client_headers).await;
    let refused = refused_response(&service, STREAM, &client_headers).await;
    refused.assert_problem(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 1);
    let _other = Subscriber::open(&service, STREAM, &[("x-forwarded-for", "192.0.2.2")]).await;
    drop(first);
    wait_for_streams(&service, 2).await;
    Subscriber::open(&service, STREAM, &client_headers).await;
}

#[tokio::test]
async fn stream_that_starts_with_stale_data_sets_x_stale() {
    let (node, service) = start().await;
    let fresh = Subscriber::open(&service, STREAM, &[]).await;
    assert!(!fresh.response.headers().contains_key("x-stale"));
    node.set_reply(Reply::Error(-32000));
    service.wait_for(SUGGESTION, |response| response.header("x-stale") == "true").await;
    let mut stale = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(stale.response.headers()["x-stale"], "true");
    assert!(stale.next().await.id.starts_with("1000-"));
    let status = stale.next_status().await;
    assert_eq!((&status["status"], &status["reason"]), (&json!("stale"), &json!("old_data")));
}

#[tokio::test]
async fn service_starts_with_any_write_timeout() {
    for time in ["0s", "1ms", "25days", "1000years"] {
        let limits = format!("[limits]\nwrite_timeout = \"{time}\"\n");
        let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
        let service = TestServer::with_server(&limits, &chain("a", &node)).await;
        service.wait_for_block(SUGGESTION, 1000).await;
    }
}

#[tokio::test]
async fn max_streams_zero_disables_the_limit() {
    let limits = "[limits]\nrequests_per_second_per_client = 0\nmax_streams = 0\n";
    let (_node, service) = start_with(limits, "").await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(subscriber.next().await, current(&service).await);
}

#[tokio::test]
async fn streams_outlive_request_timeouts() {
    let limits = "[limits]\nrequest_timeout = \"100ms\"\n\
                  header_timeout = \"100ms\"\nwrite_timeout = \"100ms\"\nbody_timeout = \"100ms\"\n";
    let (node, service) = start_with(limits, "").await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    // 40 polls of 50 ms without an event outlast every timeout.
    wait_for_polls(&node, 40).await;
    node.set_reply(Reply::history(1001, 3, 40));
    assert!(subscriber.next().await.id.starts_with("1001-"));
}

#[tokio::test]
async fn shutdown_ends_streams_cleanly() {
    let (_node, service) = start().await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    let mut all_chains = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    subscriber.next().await;
    all_chains.next().await;
    let began = Instant::now();
    service.stop().await.unwrap();
    // A clean end does not use the grace period of 10 s.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for subscriber in [&mut subscriber, &mut all_chains] {
        assert_eq!(subscriber.block().await, None);
    }
}

#[tokio::test]
async fn subscriber_during_drain_gets_one_value_then_the_end() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"20s\"\n{}",
        chain("a", &node)
    );
    let service = TestServer::with_config(&text).await;
    service.wait_for_block(SUGGESTION, 1000).await;
    let mut early = Subscriber::open(&service, STREAM, &[]).await;
    let first = early.next().await;
    let [address, path] = [service.url(STREAM), service.url("/readyz")];
    let stopping = tokio::spawn(service.stop());
    assert_eq!(early.block().await, None);
    let client = http_client::new();
    test_server::wait_for(&client, &path, |response| response.status == 503).await;
    let late = timeout(TIMEOUT, async { client.get(address).send().await?.text().await });
    let late = late.await.expect("it ends").unwrap();
    assert!(late.ends_with(&format!("id: {}\ndata: {}\n\n", first.id, first.data)), "{late}");
    stopping.abort();
}

#[tokio::test]
async fn idle_stream_sends_keep_alive_comments() {
    let (node, service) = start().await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    let began = Instant::now();
    assert_eq!(subscriber.until("\n").await.as_deref(), Some(":"));
    assert!(began.elapsed() >= Duration::from_millis(14_900), "{:?}", began.elapsed());
    // No empty line follows, so the next event is in one block with the comment.
    node.set_reply(Reply::history(1001, 3, 40));
    assert!(subscriber.next().await.id.starts_with("1001-"));
}

#[tokio::test]
async fn the_first_event_of_a_waiting_stream_has_the_retry_in_its_block() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&chain("a", &node)).await;
    let mut waiting = RawClient::connect_from(Ipv4Addr::LOCALHOST, service.address()).await;
    waiting.send(get(STREAM, "").replace("HTTP/1.1", "HTTP/1.0")).await;
    let mut received = waiting.read_bytes_until(b"\nretry: ", 1).await;
    // Longer than the time of a comment.
    received.extend(waiting.read_bytes_until(b":\n", 1).await);
    node.set_reply(Reply::history(1000, 3, 40));
    received.extend(waiting.read_bytes_until(b"\n\n", 1).await);
    let received = String::from_utf8(received).unwrap();
    let (_, body) = received.split_once("\r\n\r\n").unwrap();
    let lines: Vec<_> = body.lines().collect();
    assert!(lines[0].starts_with("retry: ") && lines[1] == ":", "{body}");
    assert_eq!(lines[2], "event: gas-suggestion");
    assert!(lines[3].starts_with("id: 1000-") && lines[4].starts_with("data: {"), "{body}");
    assert_eq!(body.matches("\n\n").count(), body.matches("event: ").count(), "{body}");
}

#[tokio::test]
async fn stream_routes_handle_errors_head_and_preflight() {
    let (_node, service) = start().await;
    let unknown = service.get("/v1/none/gas-suggestion/stream").await;
    unknown.assert_problem(404, "unknown_chain");
    for path in [STREAM, "/v1/gas-suggestions/stream"] {
        let posted = service.send(Method::POST, path, &[]).await;
        assert_eq!((posted.status, posted.header("allow")), (405, "GET,HEAD"));
        let head = service.send(Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        assert_eq!(head.header("content-type"), "text/event-stream");
        let preflight = [
            ("origin", "https://app.example"),
            ("access-control-request-method", "GET"),
            ("access-control-request-headers", "last-event-id,cache-control"),
        ];
        let allowed = service.send(Method::OPTIONS, path, &preflight).await;
        assert_eq!(allowed.header("access-control-allow-origin"), "*");
        assert!(allowed.header("access-control-allow-headers").contains("last-event-id"));
    }
    wait_for_streams(&service, 0).await;
}

#[tokio::test]
async fn http_1_0_client_gets_an_unchunked_stream() {
    let (node, service) = start().await;
    let mut connection = RawClient::connect_from(Ipv4Addr::LOCALHOST, service.address()).await;
    connection.send(get(STREAM, "").replace("HTTP/1.1", "HTTP/1.0")).await;
    let beginning = connection.read_bytes_until(b"\n\n", 1).await;
    let beginning = String::from_utf8(beginning).unwrap();
    assert!(!beginning.contains("chunked") && beginning.contains("\nid: 1000-"), "{beginning}");
    assert!(beginning.contains("\r\n\r\nretry: "), "{beginning}");
    node.set_reply(Reply::history(1001, 3, 40));
    let next = String::from_utf8(connection.read_bytes_until(b"\n\n", 1).await).unwrap();
    assert!(next.starts_with("event: gas-suggestion\nid: 1001-"), "{next}");
}
