//! The streams of suggestions, as their subscribers see them.

mod slow;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::time::timeout;

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::raw::{Connection, get};
use crate::service::{self, DEADLINE, Service};

const STREAM: &str = "/v1/a/gas-suggestion/stream";
const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// A chain that is polled every 50 ms.
fn chain(key: &str, chain_id: u64, node: &FakeNode) -> String {
    format!(
        "[chains.{key}]\nchain_id = {chain_id}\nrpc_urls = [\"{}\"]\nblock_time = \"50ms\"\n\
         stall_after = \"0s\"\n",
        node.url()
    )
}

/// A node whose newest block is this, and a service that has read it.
async fn start(newest_block: u64) -> (FakeNode, Service) {
    let node = FakeNode::start(7, Answer::Result(fee_history(newest_block, 3, 40))).await;
    let service = Service::start(&chain("a", 7, &node)).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    (node, service)
}

/// What comes of a stream.
#[derive(Debug)]
struct Subscriber {
    response: reqwest::Response,
    received: String,
}

/// One event, in its own words.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    id: String,
    data: String,
}

impl Subscriber {
    async fn open(service: &Service, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = reqwest::Client::new().get(service.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut subscriber = Self { response, received: String::new() };
        let beginning = subscriber.block().await.unwrap();
        let retry: u64 = beginning.strip_prefix("retry: ").unwrap().parse().unwrap();
        assert!((2000..5000).contains(&retry), "{retry}");
        subscriber
    }

    /// The next lines up to an empty one; `None` at the end of the stream, which has to be a good one.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, _)) = self.received.split_once("\n\n") {
                let block = block.to_owned();
                self.received.drain(..block.len() + 2);
                return Some(block);
            }
            let chunk = timeout(DEADLINE, self.response.chunk()).await.expect("an event");
            let Some(chunk) = chunk.expect("no event is cut off") else {
                assert_eq!(self.received, "");
                return None;
            };
            self.received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event.
    async fn next(&mut self) -> Event {
        let block = self.block().await.expect("an event");
        let (kind, rest) = block.split_once('\n').unwrap();
        assert_eq!(kind, "event: gas-suggestion");
        let (id, data) = rest.split_once('\n').unwrap();
        let value = |line: &str, name| line.strip_prefix(name).unwrap().to_owned();
        assert!(!data.contains('\n'), "{block}");
        Event { id: value(id, "id: "), data: value(data, "data: ") }
    }

    /// What has come and was not looked at.
    async fn has_nothing(&mut self) -> bool {
        // What was sent before the answer to another request has been sent by now.
        let more = timeout(Duration::from_millis(1), self.response.chunk()).await;
        self.received.is_empty() && more.is_err()
    }
}

/// The event for what the service answers now.
async fn current(service: &Service) -> Event {
    let answer = service.get(SUGGESTION).await;
    let (block, tag) = (answer.header("x-newest-block"), answer.header("etag").trim_matches('"'));
    Event { id: format!("{block}-{tag}"), data: answer.body }
}

async fn wait_for_block(service: &Service, block: &str) {
    service.wait_for(SUGGESTION, |answer| answer.header("x-newest-block") == block).await;
}

/// Waits until the node was polled this often from now on, and all came to their end.
async fn wait_for_polls(node: &FakeNode, count: usize) {
    // One of them may be under way, and one begins when all before have ended.
    let enough = node.calls("eth_feeHistory") + count + 2;
    let deadline = Instant::now() + DEADLINE;
    while node.calls("eth_feeHistory") < enough {
        assert!(Instant::now() < deadline, "the node is not polled");
        tokio::task::yield_now().await;
    }
}

/// The answer to who gets no stream: it has an end.
async fn refusal(service: &Service, path: &str, headers: &[(&str, &str)]) -> service::Answer {
    let answer = timeout(DEADLINE, service.send(Method::GET, path, headers));
    answer.await.expect("no stream is begun")
}

async fn wait_for_streams(service: &Service, count: usize) {
    let line = format!("\ngas_suggestion_streams {count}\n");
    service.wait_admin("/metrics", |answer| answer.body.contains(&line)).await;
}

#[tokio::test]
async fn a_subscriber_is_told_the_value_and_each_change_and_nothing_else() {
    let (node, service) = start(1000).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    let headers = subscriber.response.headers();
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-accel-buffering"], "no");
    let first = subscriber.next().await;
    assert_eq!(first, current(&service).await);
    assert!(first.id.starts_with("1000-"), "{first:?}");

    // Polls that say the same are no news.
    wait_for_polls(&node, 3).await;
    assert!(subscriber.has_nothing().await, "{subscriber:?}");

    // A new block at the same price.
    node.say(Answer::Result(fee_history(1001, 3, 40)));
    let second = subscriber.next().await;
    assert_eq!(second, current(&service).await);
    assert_eq!(second.id, first.id.replace("1000", "1001"));
    assert_eq!(second.data, first.data);

    // A reorg at the same height.
    node.say(Answer::Result(fee_history(1001, 4, 40)));
    let third = subscriber.next().await;
    assert_eq!(third, current(&service).await);
    assert!(third.id.starts_with("1001-") && third.id != second.id, "{third:?}");
}

#[tokio::test]
async fn who_has_the_current_value_is_not_told_it_again() {
    let (node, service) = start(1000).await;
    let known = current(&service).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[("last-event-id", &known.id)]).await;
    wait_for_polls(&node, 3).await;
    assert!(subscriber.has_nothing().await, "{subscriber:?}");
    node.say(Answer::Result(fee_history(1001, 3, 40)));
    assert!(subscriber.next().await.id.starts_with("1001-"));

    let long = "1".repeat(10_000);
    for other in [known.id.as_str(), "1001", "", "\u{e9}", &long] {
        let mut subscriber = Subscriber::open(&service, STREAM, &[("last-event-id", other)]).await;
        assert_eq!(subscriber.next().await, current(&service).await, "{other}");
    }
}

#[tokio::test]
async fn a_chain_without_data_opens_the_stream_and_waits() {
    let node = FakeNode::start(7, Answer::Error(-32000)).await;
    let service = Service::start(&chain("a", 7, &node)).await;
    service.wait_for(SUGGESTION, |answer| answer.body.contains("no_data")).await;
    let mut subscriber = Subscriber::open(&service, "/v1/7/gas-suggestion/stream", &[]).await;
    assert!(subscriber.has_nothing().await, "{subscriber:?}");
    node.say(Answer::Result(fee_history(1000, 3, 40)));
    assert_eq!(subscriber.next().await, current(&service).await);
}

#[tokio::test]
async fn what_is_too_old_is_not_told_until_a_node_says_it_again() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&(chain("a", 7, &node) + "max_age = \"2100ms\"\n")).await;
    let mut early = Subscriber::open(&service, STREAM, &[]).await;
    let first = early.next().await;
    node.say(Answer::Error(-32000));
    service.wait_for(SUGGESTION, |answer| answer.body.contains("stale_data")).await;
    let mut late = Subscriber::open(&service, STREAM, &[]).await;
    assert!(late.has_nothing().await, "{late:?}");

    node.say(Answer::Result(fee_history(1000, 3, 40)));
    assert_eq!(late.next().await, first);
    // Who has it already is not told it again.
    wait_for_polls(&node, 3).await;
    assert!(early.has_nothing().await, "{early:?}");
}

#[tokio::test]
async fn all_chains_come_over_one_stream() {
    let nodes = [
        FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await,
        FakeNode::start(8, Answer::Result(fee_history(2000, 3, 40))).await,
    ];
    let [a, b] = &nodes;
    let service = Service::start(&(chain("a", 7, a) + &chain("b", 8, b))).await;
    service.wait_for("/v1/b/gas-suggestion", |answer| answer.status == 200).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    let mut all = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    let mut events = [all.next().await, all.next().await];
    events.sort_by(|one, other| one.id.cmp(&other.id));
    let [of_a, of_b] = &events;
    let own = current(&service).await;
    assert_eq!((of_a.id.as_str(), &of_a.data), (format!("7-{}", own.id).as_str(), &own.data));
    assert!(of_b.id.starts_with("8-2000-") && of_b.data.contains("\"b\""), "{of_b:?}");

    let known = [("last-event-id", of_a.id.as_str())];
    let mut back = Subscriber::open(&service, "/v1/gas-suggestions/stream", &known).await;
    assert_eq!(&back.next().await, of_b);
    assert!(back.has_nothing().await, "{back:?}");
    a.say(Answer::Result(fee_history(1001, 3, 40)));
    for subscriber in [&mut all, &mut back] {
        assert!(subscriber.next().await.id.starts_with("7-1001-"));
    }
    b.say(Answer::Result(fee_history(2001, 3, 40)));
    for subscriber in [&mut all, &mut back] {
        assert!(subscriber.next().await.id.starts_with("8-2001-"));
    }
}

#[tokio::test]
async fn there_are_so_many_streams_and_one_that_ends_makes_room() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let limits = "[limits]\nrequests_per_second_per_client = 0\nmax_streams = 2\n";
    let service = Service::with_server(limits, &chain("a", 7, &node)).await;
    wait_for_block(&service, "1000").await;
    let first = Subscriber::open(&service, STREAM, &[]).await;
    let _second = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    wait_for_streams(&service, 2).await;
    for path in [STREAM, "/v1/gas-suggestions/stream"] {
        let refused = refusal(&service, path, &[]).await;
        assert_eq!(refused.status, 503);
        assert_eq!(refused.json()["code"], "overloaded");
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(refused.header("access-control-allow-origin"), "*");
    }
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 2);
    // Nothing else is refused.
    assert_eq!(service.get(SUGGESTION).await.status, 200);

    drop(first);
    wait_for_streams(&service, 1).await;
    let mut third = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(third.next().await, current(&service).await);
}

#[tokio::test]
async fn a_client_behind_a_proxy_has_as_many_streams_as_it_may_have_connections() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let more = "trusted_proxies = [\"127.0.0.1/32\"]\n[limits]\nmax_connections_per_client = 2\n";
    let service = Service::with_server(more, &chain("a", 7, &node)).await;
    wait_for_block(&service, "1000").await;
    let of_one = [("x-forwarded-for", "192.0.2.1")];
    let first = Subscriber::open(&service, STREAM, &of_one).await;
    let _second = Subscriber::open(&service, "/v1/gas-suggestions/stream", &of_one).await;
    let refused = refusal(&service, STREAM, &of_one).await;
    assert_eq!((refused.status, &refused.json()["code"]), (429, &"rate_limited".into()));
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(service.count("gas_suggestion_streams_refused_total").await, 1);
    let _other = Subscriber::open(&service, STREAM, &[("x-forwarded-for", "192.0.2.2")]).await;
    drop(first);
    wait_for_streams(&service, 2).await;
    Subscriber::open(&service, STREAM, &of_one).await;
}

#[tokio::test]
async fn a_stream_that_begins_with_stale_data_says_so() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain("a", 7, &node)).await;
    wait_for_block(&service, "1000").await;
    let fresh = Subscriber::open(&service, STREAM, &[]).await;
    assert!(!fresh.response.headers().contains_key("x-stale"));
    node.say(Answer::Error(-32000));
    service.wait_for(SUGGESTION, |answer| answer.header("x-stale") == "true").await;
    let mut stale = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(stale.response.headers()["x-stale"], "true");
    assert!(stale.next().await.id.starts_with("1000-"));
}

#[tokio::test]
async fn any_time_that_a_client_may_take_nothing_for_lets_the_service_start() {
    for time in ["0s", "1ms", "25days", "1000years"] {
        let limits = format!("[limits]\nwrite_timeout = \"{time}\"\n");
        let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
        let service = Service::with_server(&limits, &chain("a", 7, &node)).await;
        wait_for_block(&service, "1000").await;
    }
}

#[tokio::test]
async fn a_switched_off_limit_refuses_no_stream() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let limits = "[limits]\nrequests_per_second_per_client = 0\nmax_streams = 0\n";
    let service = Service::with_server(limits, &chain("a", 7, &node)).await;
    wait_for_block(&service, "1000").await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    assert_eq!(subscriber.next().await, current(&service).await);
}

#[tokio::test]
async fn a_stream_outlives_the_deadline_of_requests() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let limits = "[limits]\nrequest_timeout = \"100ms\"\nidle_timeout = \"100ms\"\n\
                  header_timeout = \"100ms\"\nwrite_timeout = \"100ms\"\nbody_timeout = \"100ms\"\n";
    let service = Service::with_server(limits, &chain("a", 7, &node)).await;
    wait_for_block(&service, "1000").await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    // Several times as long as any of them, in which nothing is sent.
    wait_for_polls(&node, 40).await;
    node.say(Answer::Result(fee_history(1001, 3, 40)));
    assert!(subscriber.next().await.id.starts_with("1001-"));
}

#[tokio::test]
async fn the_streams_end_in_good_order_when_the_service_stops() {
    let (_node, service) = start(1000).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    let mut of_all = Subscriber::open(&service, "/v1/gas-suggestions/stream", &[]).await;
    subscriber.next().await;
    of_all.next().await;
    let began = Instant::now();
    service.stop().await.unwrap();
    // The grace period is 10 s.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for subscriber in [&mut subscriber, &mut of_all] {
        assert_eq!(subscriber.block().await, None);
    }
}

#[tokio::test]
async fn who_comes_while_the_service_stops_is_told_the_value_and_sent_on() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"20s\"\n{}",
        chain("a", 7, &node)
    );
    let service = Service::with_config(&text).await;
    wait_for_block(&service, "1000").await;
    let mut early = Subscriber::open(&service, STREAM, &[]).await;
    let first = early.next().await;
    let [address, path] = [service.url(STREAM), service.url("/readyz")];
    let stopping = tokio::spawn(service.stop());
    assert_eq!(early.block().await, None);
    let client = reqwest::Client::new();
    service::wait_for(&client, &path, |answer| answer.status == 503).await;
    let late = timeout(DEADLINE, async { client.get(address).send().await?.text().await });
    let late = late.await.expect("it ends").unwrap();
    assert!(late.ends_with(&format!("id: {}\ndata: {}\n\n", first.id, first.data)), "{late}");
    stopping.abort();
}

#[tokio::test]
async fn a_comment_shows_that_a_quiet_stream_lives() {
    let (_node, service) = start(1000).await;
    let mut subscriber = Subscriber::open(&service, STREAM, &[]).await;
    subscriber.next().await;
    let began = Instant::now();
    assert_eq!(subscriber.block().await.as_deref(), Some(":"));
    assert!(began.elapsed() >= Duration::from_millis(14_900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_stream_is_asked_for_like_everything_else() {
    let (_node, service) = start(1000).await;
    let unknown = service.get("/v1/none/gas-suggestion/stream").await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &"unknown_chain".into()));
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
async fn a_client_of_http_1_0_reads_until_the_end() {
    let (node, service) = start(1000).await;
    let mut connection = Connection::open_from(Ipv4Addr::LOCALHOST, service.address()).await;
    connection.send(get(STREAM, "").replace("HTTP/1.1", "HTTP/1.0")).await;
    let beginning = connection.bytes_until(b"\n\n", 2).await;
    let beginning = String::from_utf8(beginning).unwrap();
    assert!(!beginning.contains("chunked") && beginning.contains("\nid: 1000-"), "{beginning}");
    node.say(Answer::Result(fee_history(1001, 3, 40)));
    let next = String::from_utf8(connection.bytes_until(b"\n\n", 1).await).unwrap();
    assert!(next.starts_with("event: gas-suggestion\nid: 1001-"), "{next}");
}
