//! Tests of the server-sent event streams of suggestions.

mod slow;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::preflight;
use crate::http_client;
use crate::http_message::get;
use crate::mock_node::{MockNode, Reply, fee_history, start_service};
use crate::raw_client::{RawClient, TIMEOUT};
use crate::test_server::{self, TestServer};

const STREAM: &str = "/v1/a/gas-suggestion/stream";
const ALL: &str = "/v1/gas-suggestions/stream";
const SUGGESTION: &str = "/v1/a/gas-suggestion";
const NO_RATE: &str = "[limits]\nrequests_per_second_per_client = 0\n";

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
        let response = service.open(Method::GET, path, headers).await;
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
        let lines: Vec<_> = block.lines().collect();
        let ["event: gas-suggestion", id, data] = lines[..] else { panic!("{block}") };
        let value = |line: &str, name| line.strip_prefix(name).unwrap().to_owned();
        Event { id: value(id, "id: "), data: value(data, "data: ") }
    }

    /// Returns the data of the next event, which tells a status.
    async fn next_status(&mut self) -> Value {
        let block = self.block().await.expect("an event");
        let lines: Vec<_> = block.lines().collect();
        let ["event: status", data] = lines[..] else { panic!("{block}") };
        let data = data.strip_prefix("data: ").unwrap();
        let status: Value = serde_json::from_str(data).unwrap();
        let names = ["\"chain\":", "\"status\":", "\"reason\":", "\"observed_at\":"];
        let positions = names.map(|name| data.find(name).unwrap());
        assert!(positions.is_sorted() && status.as_object().unwrap().len() == 4, "{data}");
        status
    }

    /// Checks status and reason of the next event.
    async fn expect_status(&mut self, status: &str, reason: Option<&str>) {
        let event = self.next_status().await;
        let expected = (&json!(status), &json!(reason));
        assert_eq!((&event["status"], &event["reason"]), expected, "{event}");
    }

    /// Lets the node have this block and checks that the next event is from it.
    async fn expect_block(&mut self, node: &MockNode, block: u64) {
        node.set_reply(Reply::history(block, 3, 40));
        let event = self.next().await;
        assert!(event.id.starts_with(&format!("{block}-")), "{event:?}");
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
    let block = response.header("x-newest-block");
    let id = format!("{block}-{}", response.header("etag").trim_matches('"'));
    Event { id, data: response.body }
}

/// Waits until `count` further polls of the node have ended.
async fn wait_for_polls(node: &MockNode, count: usize) {
    // One poll may already be in flight, and the last one has certainly ended only when the next begins.
    for _ in 0..count + 2 {
        node.wait_for_poll().await;
    }
}

/// Checks that a request opens no stream and gets this problem.
async fn assert_refused(
    service: &TestServer,
    path: &str,
    headers: &[(&str, &str)],
    (status, code): (u16, &str),
) {
    let response = timeout(TIMEOUT, service.send(Method::GET, path, headers));
    let refused = response.await.expect("the response ends: no stream was opened");
    refused.assert_problem(status, code);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("access-control-allow-origin"), "*");
}

async fn wait_for_streams(service: &TestServer, count: usize) {
    service.wait_for_count("gas_suggestion_streams", count).await;
}

#[tokio::test]
async fn subscriber_receives_the_value_and_each_change_only() {
    let (node, service) = start().await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    let headers = subscriber.response.headers();
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store, no-transform");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert!(headers.get("x-stale").is_none());
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

    // A clean end does not use the grace period of 10 s.
    let began = Instant::now();
    service.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(subscriber.block().await, None);
}

#[tokio::test]
async fn a_current_last_event_id_suppresses_the_first_event() {
    let (node, service) = start().await;
    let known = current(&service).await;
    let (id, long) = (known.id.as_str(), "1".repeat(10_000));
    let encoded = id.replace('-', "%2D");
    let open = async |path: &str, header: Option<&str>| {
        let header = header.map(|id| ("last-event-id", id));
        Subscriber::open(&service, path, header.as_slice()).await
    };
    // The query stands for the header, which wins.
    for (path, header) in [
        (STREAM, Some(id)),
        (&format!("{STREAM}?lastEventId=1-a"), Some(id)),
        (&format!("{STREAM}?lastEventId={id}"), None),
        (&format!("{STREAM}?Last-Event-ID={id}"), None),
        (&format!("{STREAM}?_=1&lastEventId={encoded}&evs_preamble=2056"), None),
        (&format!("{ALL}?lastEventId=7-{id}"), None),
    ] {
        let mut resumed = open(path, header).await;
        wait_for_polls(&node, 1).await;
        assert!(resumed.no_event_pending().await, "{path}: {resumed:?}");
    }
    for (path, header) in [
        (STREAM, Some("1001")),
        (STREAM, Some("\u{e9}")),
        (STREAM, Some(&long)),
        (&format!("{STREAM}?lastEventId={id}"), Some("1-a")),
        (&format!("{STREAM}?lastEventId={}", &long[..5000]), None),
        (&format!("{STREAM}?lastEventId="), None),
        (&format!("{STREAM}?lasteventid={id}"), None),
        (&format!("{STREAM}?%FF=%FF&lastEventId=%FF&"), None),
    ] {
        assert_eq!(open(path, header).await.next().await, known, "{path} {header:?}");
    }
    let mut resumed = open(STREAM, Some(id)).await;
    wait_for_polls(&node, 3).await;
    assert!(resumed.no_event_pending().await, "{resumed:?}");
    resumed.expect_block(&node, 1001).await;
    // Now the id is that of an older event.
    assert_eq!(open(STREAM, Some(id)).await.next().await, current(&service).await);
}

#[tokio::test]
async fn each_change_of_the_status_is_an_event_and_expired_values_wait() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service =
        TestServer::start(&node.chain("a", &format!("{FAST}\nmax_age = \"2100ms\""))).await;
    service.wait_for(SUGGESTION, |response| response.body.contains("no_data")).await;
    let mut one = Subscriber::open(&service, "/v1/7/gas-suggestion/stream", &[]).await;
    assert!(one.no_event_pending().await, "{one:?}");
    node.set_reply(Reply::history(1000, 3, 40));
    let first = one.next().await;
    assert_eq!(first, current(&service).await);
    // The status has changed while the subscriber waited.
    one.expect_status("fresh", None).await;
    let mut all = Subscriber::open(&service, ALL, &[]).await;
    all.next().await;
    let listed = async || service.get("/v1/chains").await.json()[0]["status"].take();
    node.set_reply(Reply::Error(-32000));
    for status in ["stale", "unavailable"] {
        let event = one.next_status().await;
        let observed_at = &event["observed_at"];
        assert!(humantime::parse_rfc3339(observed_at.as_str().unwrap()).is_ok(), "{event}");
        let expected = json!({
            "chain": "a", "status": status, "reason": "old_data", "observed_at": observed_at,
        });
        assert_eq!(event, expected);
        assert_eq!(all.next_status().await, expected);
    }
    assert_eq!(listed().await, "unavailable");
    // A value that has expired is withheld until a node confirms it.
    let mut late = Subscriber::open(&service, STREAM, &[]).await;
    late.expect_status("unavailable", Some("old_data")).await;
    assert!(late.no_event_pending().await, "{late:?}");
    // The same reply again: it changes nothing but the status.
    node.set_reply(Reply::history(1000, 3, 40));
    assert_eq!(late.next().await, first);
    // The early subscriber does not get the value again.
    for subscriber in [&mut one, &mut late] {
        subscriber.expect_status("fresh", None).await;
    }
    assert_eq!(listed().await, "fresh");
}

#[tokio::test]
async fn a_head_that_stands_is_told_and_its_end_too() {
    let newest = AtomicU64::new(1000);
    let growing = move |_| fee_history(newest.fetch_add(1, Ordering::Relaxed), 3, 40);
    let node = MockNode::start(7, Reply::computed(growing)).await;
    let chain = "block_time = \"50ms\"\nstall_after = \"300ms\"";
    let service = TestServer::start(&node.chain("a", chain)).await;
    service.wait_for_ok(SUGGESTION).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    node.set_reply(Reply::history(100_000, 3, 40));
    // On a busy machine the head has stood before.
    while !subscriber.block().await.unwrap().contains("id: 100000-") {}
    while subscriber.next_status().await["reason"] != "standing_head" {}
    // A subscriber of now gets the value first.
    let mut late = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(late.response.headers()["x-stale"], "true");
    let value = late.next().await;
    late.expect_status("stale", Some("standing_head")).await;
    // One that has the value gets the status alone.
    let mut resumed = Subscriber::open(&service, STREAM, &[("last-event-id", &value.id)]).await;
    resumed.expect_status("stale", Some("standing_head")).await;
    node.set_reply(Reply::history(100_001, 3, 40));
    for subscriber in [&mut subscriber, &mut late, &mut resumed] {
        assert!(subscriber.next().await.id.starts_with("100001-"));
        subscriber.expect_status("fresh", None).await;
    }
}

#[tokio::test]
async fn one_stream_carries_all_chains() {
    let a = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let b = MockNode::start(8, Reply::history(2000, 3, 40)).await;
    let service = TestServer::start(&(chain("a", &a) + &chain("b", &b))).await;
    service.wait_for_ok("/v1/b/gas-suggestion").await;
    service.wait_for_ok(SUGGESTION).await;
    let mut all = Subscriber::open(&service, ALL, &[]).await;
    let mut events = [all.next().await, all.next().await];
    events.sort_by(|one, other| one.id.cmp(&other.id));
    let [event_a, event_b] = &events;
    let suggestion = current(&service).await;
    assert_eq!(event_a.id, format!("7-{}", suggestion.id));
    assert_eq!(event_a.data, suggestion.data);
    assert!(event_b.id.starts_with("8-2000-") && event_b.data.contains("\"b\""), "{event_b:?}");

    let known = [("last-event-id", event_a.id.as_str())];
    let mut resumed = Subscriber::open(&service, ALL, &known).await;
    assert_eq!(&resumed.next().await, event_b);
    assert!(resumed.no_event_pending().await, "{resumed:?}");
    for (node, block, id) in [(&a, 1001, "7-1001-"), (&b, 2001, "8-2001-")] {
        node.set_reply(Reply::history(block, 3, 40));
        for subscriber in [&mut all, &mut resumed] {
            assert!(subscriber.next().await.id.starts_with(id), "{id}");
        }
    }
}

#[tokio::test]
async fn max_streams_is_enforced_and_a_closed_stream_frees_a_permit() {
    let (_node, service) = start_with(&format!("{NO_RATE}max_streams = 2\n"), "").await;
    let first = Subscriber::open(&service, STREAM, &[]).await;
    let _second = Subscriber::open(&service, ALL, &[]).await;
    wait_for_streams(&service, 2).await;
    for path in [STREAM, ALL] {
        assert_refused(&service, path, &[], (503, "overloaded")).await;
    }
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 2);
    // Other requests are not limited.
    assert_eq!(service.get(SUGGESTION).await.status, 200);

    drop(first);
    wait_for_streams(&service, 1).await;
    let mut third = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(third.next().await, current(&service).await);
    // 0 is no limit.
    let (_node, service) = start_with(&format!("{NO_RATE}max_streams = 0\n"), "").await;
    Subscriber::open(&service, STREAM, &[]).await;
    // The streams of a client behind a proxy count as its connections.
    let more = "trusted_proxies = [\"127.0.0.1/32\"]\n[limits]\nmax_connections_per_client = 2\n";
    let (_node, service) = start_with(more, "").await;
    let client = [("x-forwarded-for", "192.0.2.1")];
    let first = Subscriber::open(&service, STREAM, &client).await;
    let _second = Subscriber::open(&service, ALL, &client).await;
    assert_refused(&service, STREAM, &client, (429, "rate_limited")).await;
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 1);
    let _other = Subscriber::open(&service, STREAM, &[("x-forwarded-for", "192.0.2.2")]).await;
    drop(first);
    wait_for_streams(&service, 2).await;
    Subscriber::open(&service, STREAM, &client).await;
}

#[tokio::test]
async fn streams_outlive_request_timeouts_and_any_write_timeout_is_one() {
    for time in ["0s", "1ms", "25days", "1000years"] {
        let limits = format!("[limits]\nwrite_timeout = \"{time}\"\n");
        let (_node, service) = start_with(&limits, "").await;
        service.wait_for_block(SUGGESTION, 1000).await;
    }
    let timeouts = ["request", "header", "write", "body"];
    let limits = timeouts.map(|name| format!("{name}_timeout = \"100ms\"\n")).concat();
    let (node, service) = start_with(&format!("[limits]\n{limits}"), "").await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    // Ten polls of 50 ms without an event outlast every timeout.
    wait_for_polls(&node, 10).await;
    subscriber.expect_block(&node, 1001).await;
}

#[tokio::test]
async fn a_drain_ends_streams_cleanly_and_later_ones_after_one_value() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"20s\"\n{}",
        chain("a", &node)
    );
    let service = TestServer::with_config(&text).await;
    service.wait_for_block(SUGGESTION, 1000).await;
    let mut early = Subscriber::open(&service, STREAM, &[]).await;
    let first = early.next().await;
    let mut all = Subscriber::open(&service, ALL, &[]).await;
    all.next().await;
    let [address, path] = [service.url(STREAM), service.url("/readyz")];
    let stopping = tokio::spawn(service.stop());
    assert_eq!([early.block().await, all.block().await], [None, None]);
    let client = http_client::new();
    test_server::wait_for(&client, &path, |response| response.status == 503).await;
    let late = timeout(TIMEOUT, async { client.get(address).send().await?.text().await });
    let late = late.await.expect("it ends").unwrap();
    assert!(late.ends_with(&format!("id: {}\ndata: {}\n\n", first.id, first.data)), "{late}");
    stopping.abort();
}

/// Reads up to the next occurrence of `end`.
async fn read_text(client: &mut RawClient, end: &str) -> String {
    String::from_utf8(client.read_bytes_until(end.as_bytes(), 1).await).unwrap()
}

#[tokio::test]
async fn a_waiting_http_1_0_client_gets_an_unchunked_event() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&chain("a", &node)).await;
    let mut waiting = RawClient::connect(service.address()).await;
    waiting.send(get(STREAM, "").replace("HTTP/1.1", "HTTP/1.0")).await;
    let mut received = read_text(&mut waiting, "\nretry: ").await;
    node.set_reply(Reply::history(1000, 3, 40));
    received += &read_text(&mut waiting, "\n\n").await;
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("chunked"), "{head}");
    // No empty line follows the time of the retry: it is in one block with the event.
    let lines: Vec<_> = body.lines().collect();
    assert!(lines[0].starts_with("retry: "), "{body}");
    assert_eq!(lines[1], "event: gas-suggestion");
    assert!(lines[2].starts_with("id: 1000-") && lines[3].starts_with("data: {"), "{body}");
    assert_eq!(body.matches("\n\n").count(), body.matches("event: ").count(), "{body}");
}

#[tokio::test]
async fn stream_routes_handle_errors_head_and_preflight() {
    let (_node, service) = start().await;
    service.get("/v1/none/gas-suggestion/stream").await.assert_problem(404, "unknown_chain");
    for path in [STREAM, ALL] {
        let posted = service.send(Method::POST, path, &[]).await;
        assert_eq!((posted.status, posted.header("allow")), (405, "GET,HEAD"));
        let head = service.send(Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        assert_eq!(head.header("content-type"), "text/event-stream");
        let preflight = preflight("last-event-id,cache-control");
        let allowed = service.send(Method::OPTIONS, path, &preflight).await;
        assert_eq!(allowed.header("access-control-allow-origin"), "*");
        assert!(allowed.header("access-control-allow-headers").contains("last-event-id"));
    }
    wait_for_streams(&service, 0).await;
}
