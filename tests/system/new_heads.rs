//! Polling with `newHeads` subscriptions, over WebSockets that work or fail.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::anvil::Anvil;
use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply, dead_url};
use crate::test_server::{self, TestServer, wait_until};

const SUGGESTION: &str = "/v1/a/gas-suggestion";
const UP: &str = "gas_suggestion_new_heads_up{chain=\"a\"}";
const ANNOUNCED: &str = "gas_suggestion_new_heads_total{chain=\"a\"}";
const POLLS: &str = "gas_suggestion_polls_total{chain=\"a\",outcome=\"ok\"}";
const SUBSCRIPTION: &str = "0x9ce59a13059e417087c02d3236a0b1cc";

/// Reaction of a [`MockWebSocketNode`] to a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    /// Confirms the subscription, then sends the texts that the test passes to [`MockWebSocketNode::send`].
    Healthy,
    /// Does not respond to the subscription.
    Silent,
    /// Confirms the subscription, then sends 400,000 pings as fast as it can and does not read.
    Flooding,
    /// Rejects the subscription.
    Refusing,
    /// Closes the connection after the subscription request.
    Closing,
    /// Closes the connection in the middle of a frame.
    Breaking,
    /// Sends these bytes in response to the upgrade.
    Http(&'static str),
}

const NO_WEBSOCKET: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// A response with a wrong `Sec-WebSocket-Accept`.
const WRONG_KEY: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
     sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A node's WebSocket endpoint. Dropping it fails the test if it received an unexpected request.
struct MockWebSocketNode {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    connections: AtomicUsize,
    /// Texts that the open connections send.
    texts: broadcast::Sender<String>,
    violations: Mutex<Vec<String>>,
}

impl MockWebSocketNode {
    const PATH: &str = "/canary-path?key=canary-query";

    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour),
            connections: AtomicUsize::new(0),
            texts: broadcast::Sender::new(64),
            violations: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&accepting);
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        Self { address, shared }
    }

    fn url(&self) -> String {
        format!("ws://{}{}", self.address, Self::PATH)
    }

    fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    fn send(&self, text: impl Into<String>) {
        self.shared.texts.send(text.into()).unwrap();
    }

    fn announce(&self, number: u64) {
        self.send(announcement(SUBSCRIPTION, &json!(format!("{number:#x}"))));
    }
}

impl Drop for MockWebSocketNode {
    fn drop(&mut self) {
        let violations = self.shared.violations.lock().unwrap();
        assert!(violations.is_empty() || std::thread::panicking(), "{violations:#?}");
    }
}

fn announcement(subscription: &str, number: &Value) -> String {
    let head = json!({ "number": number, "hash": "0x00", "logsBloom": "0x".to_owned() + &"0".repeat(512) });
    let params = json!({ "subscription": subscription, "result": head });
    json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": params }).to_string()
}

impl Shared {
    fn record_violation(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    async fn serve(&self, mut stream: TcpStream) -> Result<(), Error> {
        let mut texts = self.texts.subscribe();
        let behaviour = *self.behaviour.lock().unwrap();
        if let Behaviour::Http(response) = behaviour {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await? > 0 {}
            stream.write_all(response.as_bytes()).await?;
            // Keeps the connection open until the service closes it.
            stream.read_buf(&mut request).await?;
            return Ok(());
        }
        #[expect(clippy::result_large_err, reason = "it is what the callback has to return")]
        let check = |request: &Request, response: Response| {
            let agent = request.headers().get("user-agent");
            let expected = concat!("gas-suggestion/", env!("CARGO_PKG_VERSION"));
            if *request.uri() != MockWebSocketNode::PATH
                || agent.is_none_or(|agent| agent != expected)
            {
                self.record_violation(format!("{request:?}"));
            }
            Ok(response)
        };
        let accepted = tokio_tungstenite::accept_hdr_async(stream, check).await;
        let mut socket = accepted.inspect_err(|error| self.record_violation(error.to_string()))?;
        let Some(request) = socket.next().await else { return Ok(()) };
        let request = request?;
        let subscribe =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
        if serde_json::from_slice::<Value>(&request.clone().into_data()).ok() != Some(subscribe) {
            self.record_violation(format!("{request:?}"));
        }
        let reply = |member: &str, value: Value| {
            Message::text(json!({ "jsonrpc": "2.0", "id": 1, member: value }).to_string())
        };
        match behaviour {
            Behaviour::Closing => return socket.close(None).await,
            Behaviour::Breaking => {
                return Ok(socket.get_mut().write_all(&[0x81, 126, 0x7f]).await?);
            }
            Behaviour::Refusing => {
                let message = "no canary-path?key=canary-query here";
                let error = json!({ "code": -32601, "message": message });
                socket.send(reply("error", error)).await?;
            }
            Behaviour::Silent => {}
            _ => socket.send(reply("result", json!(SUBSCRIPTION))).await?,
        }
        if behaviour == Behaviour::Flooding {
            // The replies (pongs) amount to 50 MB.
            for _ in 0..400_000 {
                socket.feed(Message::Ping(vec![0; 125].into())).await?;
            }
            return socket.flush().await;
        }
        loop {
            tokio::select! {
                text = texts.recv() => match text {
                    Ok(text) => socket.send(Message::text(text)).await?,
                    Err(_) => return Ok(()),
                },
                message = socket.next() => match message.transpose()? {
                    None => return Ok(()),
                    Some(message) if message.is_text() => {
                        self.record_violation(format!("{message:?}"));
                    }
                    Some(_) => {}
                },
            }
        }
    }
}

/// Returns the configuration of a chain with this `block_time`.
fn chain(node: &str, ws_urls: &[String], block_time: &str) -> String {
    format!(
        "[chains.a]\nchain_id = 2020\nrpc_urls = [\"{node}\"]\nws_urls = {}\n\
         block_time = \"{block_time}\"\nmax_polls_per_block = 10\nstall_after = \"0s\"\nmax_age = \"2h\"\n",
        json!(ws_urls)
    )
}

/// Waits until the suggestion is from block `number`.
async fn wait_for_block(service: &TestServer, number: u64) {
    service.wait_for_block(SUGGESTION, number).await;
}

async fn wait_for_subscription(service: &TestServer) {
    wait_until("a subscription", async || service.count(UP).await == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_block_that_a_real_node_announces_is_polled_at_once() {
    const BLOCKS: u64 = 5;
    let node = Anvil::start(&["--no-mining"]);
    let socket = node.url().replace("http://", "ws://");
    // With a block time of 30 s only announcements cause polls.
    let service = TestServer::start(&chain(&node.url(), &[socket], "30s")).await;
    wait_for_block(&service, 0).await;
    wait_for_subscription(&service).await;
    let since = Instant::now();
    for block in 1..=BLOCKS {
        node.call("evm_mine", json!([])).await;
        wait_for_block(&service, block).await;
    }
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    // One poll before the first announcement, then one per block, or two if the node lagged its announcement.
    // A poll is counted after its block is served.
    wait_until("the last poll is counted", async || service.count(POLLS).await > BLOCKS).await;
    let polls = service.count(POLLS).await;
    assert!((BLOCKS + 1..=2 * BLOCKS + 1).contains(&polls), "{polls}");
    assert_eq!(service.count(ANNOUNCED).await, BLOCKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_only_trigger_polls_within_the_poll_limit() {
    let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
    let node_socket = MockWebSocketNode::start(Behaviour::Healthy).await;
    let service = TestServer::start(&chain(&node.url(), &[node_socket.url()], "1s")).await;
    wait_for_block(&service, 1000).await;
    wait_for_subscription(&service).await;
    // The service does not use the announced number: the node's reply is still block 1000.
    node_socket.announce(u64::MAX);
    wait_until("an announcement", async || service.count(ANNOUNCED).await == 1).await;
    for invalid in [
        announcement("0x1", &json!("0x7d0")),
        announcement(SUBSCRIPTION, &json!(null)),
        announcement(SUBSCRIPTION, &json!("0x1ffffffffffffffff")),
        "{".into(),
        "[]".into(),
        String::new(),
        json!({ "jsonrpc": "2.0", "id": 1, "result": "0x1" }).to_string(),
    ] {
        node_socket.send(invalid);
    }
    node_socket.announce(1);
    wait_until("the last announcement", async || service.count(ANNOUNCED).await == 2).await;
    assert_eq!(service.get(SUGGESTION).await.header("x-newest-block"), "1000");
    // A flood of announcements does not exceed the poll limit.
    let since = Instant::now();
    let polls = node.calls("eth_feeHistory");
    while since.elapsed() < Duration::from_secs(2) {
        node_socket.announce(u64::MAX - 1);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let polls = node.calls("eth_feeHistory") - polls;
    assert!(polls <= 3 * 10, "{polls} polls in two block times");
    node.set_reply(Reply::history(1001, 4, 30));
    let since = Instant::now();
    wait_for_block(&service, 1001).await;
    assert!(since.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polling_continues_and_the_websocket_is_retried_after_any_failure() {
    let cases = [
        (Behaviour::Silent, "timeout"),
        (Behaviour::Refusing, "refused"),
        (Behaviour::Closing, "closed"),
        (Behaviour::Breaking, "connection"),
        (Behaviour::Http(NO_WEBSOCKET), "no_websocket"),
        (Behaviour::Http(WRONG_KEY), "no_websocket"),
        // No response to the upgrade.
        (Behaviour::Http(""), "timeout"),
    ];
    let cases = cases.into_iter().enumerate().map(|(number, (behaviour, reason))| async move {
        let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
        let node_socket = MockWebSocketNode::start(behaviour).await;
        let chain = chain(&node.url(), &[node_socket.url()], "100ms");
        let config = format!("[log]\nfilter = \"debug\"\n{chain}");
        let process = LoggedProcess::start(&format!("new-heads-{number}"), &config);
        let [public, admin] = process.addresses;
        let url = format!("http://{public}{SUGGESTION}");
        let metrics = format!("http://{admin}/metrics");
        let client = http_client::new();
        for number in 1000..1010 {
            node.set_reply(Reply::history(number, 3, 40));
            let number = number.to_string();
            test_server::wait_for(&client, &url, |response| {
                response.header("x-newest-block") == number
            })
            .await;
        }
        wait_until("an attempt", async || node_socket.connections() >= 1).await;
        *node_socket.shared.behaviour.lock().unwrap() = Behaviour::Healthy;
        let is_up = format!("{UP} 1");
        test_server::wait_for(&client, &metrics, |response| response.body.contains(&is_up)).await;
        let log = process.stop();
        assert!(log.contains(&format!("\"reason\":\"{reason}\"")), "{behaviour:?}: {log}");
        assert!(log.contains("block announcements established"), "{behaviour:?}: {log}");
        assert!(!log.contains("canary"), "{behaviour:?}: {log}");
    });
    futures_util::future::join_all(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_websocket_is_used_when_the_first_is_unreachable() {
    let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
    let node_socket = MockWebSocketNode::start(Behaviour::Healthy).await;
    let dead = dead_url().replace("http://", "ws://");
    let service = TestServer::start(&chain(&node.url(), &[dead, node_socket.url()], "30s")).await;
    wait_for_block(&service, 1000).await;
    wait_for_subscription(&service).await;
    node.set_reply(Reply::history(1001, 4, 30));
    node_socket.announce(1001);
    wait_for_block(&service, 1001).await;
    // An oversized message closes the connection; the service reconnects.
    node_socket.send(" ".repeat(300 * 1024));
    wait_until("another connection", async || node_socket.connections() >= 2).await;
    wait_for_subscription(&service).await;
    node.set_reply(Reply::history(1002, 4, 30));
    node_socket.announce(1002);
    wait_for_block(&service, 1002).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_pongs_do_not_accumulate_in_memory() {
    let node = MockNode::start(2020, Reply::history(1000, 3, 40)).await;
    let node_socket = MockWebSocketNode::start(Behaviour::Flooding).await;
    let config = chain(&node.url(), &[node_socket.url()], "1s");
    let process = LoggedProcess::start("new-heads-deaf", &config);
    // The node closes the connection after its last ping, unless the service ended it earlier.
    wait_until("another connection", async || node_socket.connections() > 1).await;
    let memory = process.peak_memory();
    assert!(memory < 60_000_000, "{memory}");
    process.stop();
}
