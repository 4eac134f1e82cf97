//! What the service makes of nodes that announce their blocks over a WebSocket, and of those that do not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::anvil::Anvil;
use crate::failover::dead_url;
use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::logged::Process;
use crate::service::{Service, until};

const SUGGESTION: &str = "/v1/a/gas-suggestion";
const UP: &str = "gas_suggestion_new_heads_up{chain=\"a\"}";
const ANNOUNCED: &str = "gas_suggestion_new_heads_total{chain=\"a\"}";
const POLLS: &str = "gas_suggestion_polls_total{chain=\"a\",outcome=\"ok\"}";
const SUBSCRIPTION: &str = "0x9ce59a13059e417087c02d3236a0b1cc";

/// How an [`Announcer`] takes a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    /// It announces what the test tells it to.
    Well,
    /// It says nothing to a subscription.
    Silent,
    /// It answers the subscription, and then only asks whether anybody is there.
    Pinging,
    /// The same as fast as it can, and it takes no answer.
    Deaf,
    /// It refuses the subscription.
    Refusing,
    /// It closes the connection at once.
    Closing,
    /// It breaks off in the middle of a frame.
    Breaking,
    /// It answers the upgrade with 200.
    NoWebSocket,
    /// It answers the upgrade with the wrong key.
    WrongKey,
}

/// A node's WebSocket, which checks what it is sent.
#[derive(Debug)]
struct Announcer {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    connections: Arc<Mutex<Vec<Instant>>>,
    say: broadcast::Sender<String>,
    violations: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Announcer {
    const PATH: &str = "/canary-path?key=canary-query";

    async fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (say, _) = broadcast::channel(64);
        let mood = Arc::new(Mutex::new(mood));
        let (connections, violations) = <(Arc<Mutex<Vec<_>>>, Arc<_>)>::default();
        let told =
            (Arc::clone(&mood), Arc::clone(&connections), Arc::clone(&violations), say.clone());
        let task = tokio::spawn(async move {
            let (mood, connections, violations, say) = told;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.lock().unwrap().push(Instant::now());
                let mood = *mood.lock().unwrap();
                tokio::spawn(serve(stream, mood, say.subscribe(), Arc::clone(&violations)));
            }
        });
        Self { address, mood, connections, say, violations, task }
    }

    fn url(&self) -> String {
        format!("ws://{}{}", self.address, Self::PATH)
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    fn say(&self, text: impl Into<String>) {
        self.say.send(text.into()).unwrap();
    }

    fn announce(&self, number: u64) {
        self.say(announcement(SUBSCRIPTION, &json!(format!("{number:#x}"))));
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.task.abort();
        let violations = self.violations.lock().unwrap();
        assert!(violations.is_empty() || std::thread::panicking(), "{violations:#?}");
    }
}

fn announcement(subscription: &str, number: &serde_json::Value) -> String {
    let head = json!({ "number": number, "hash": "0x00", "logsBloom": "0x".to_owned() + &"0".repeat(512) });
    let params = json!({ "subscription": subscription, "result": head });
    json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": params }).to_string()
}

async fn serve(
    mut stream: TcpStream,
    mood: Mood,
    mut told: broadcast::Receiver<String>,
    violations: Arc<Mutex<Vec<String>>>,
) {
    let violated = |what: String| violations.lock().unwrap().push(what);
    if let Mood::NoWebSocket | Mood::WrongKey = mood {
        let wrong = match mood {
            Mood::NoWebSocket => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            _ => {
                "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
            }
        };
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
        let _ = stream.write_all(wrong.as_bytes()).await;
        // Until the other side has had enough.
        let _ = stream.read_buf(&mut request).await;
        return;
    }
    #[expect(clippy::result_large_err, reason = "it is what the callback has to return")]
    let check = |request: &Request, response: Response| {
        if *request.uri() != Announcer::PATH {
            violated(format!("{request:?}"));
        }
        let expected = concat!("gas-suggestion/", env!("CARGO_PKG_VERSION"));
        if request.headers().get("user-agent").is_none_or(|agent| agent != expected) {
            violated(format!("{request:?}"));
        }
        Ok(response)
    };
    let mut socket = match tokio_tungstenite::accept_hdr_async(stream, check).await {
        Ok(socket) => socket,
        Err(error) => return violated(error.to_string()),
    };
    let subscribe =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
    match socket.next().await {
        Some(Ok(Message::Text(text)))
            if serde_json::from_str::<serde_json::Value>(&text).ok().as_ref()
                == Some(&subscribe) => {}
        Some(Ok(other)) => violated(format!("{other:?}")),
        _ => return,
    }
    let _ = converse(&mut socket, mood, &mut told, violated).await;
}

async fn converse(
    socket: &mut WebSocketStream<TcpStream>,
    mood: Mood,
    told: &mut broadcast::Receiver<String>,
    violated: impl Fn(String),
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    match mood {
        Mood::Closing => return socket.close(None).await,
        Mood::Breaking => {
            let frame = [0x81, 126, 0x7f];
            return Ok(socket.get_mut().write_all(&frame).await?);
        }
        Mood::Refusing => {
            let error =
                json!({ "code": -32601, "message": "no canary-path?key=canary-query here" });
            let refusal = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
            socket.send(Message::text(refusal)).await?;
        }
        Mood::Silent => {}
        _ => {
            let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": SUBSCRIPTION }).to_string();
            socket.send(Message::text(answer)).await?;
        }
    }
    if let Mood::Deaf = mood {
        // 50 MB of answers.
        for _ in 0..400_000 {
            socket.feed(Message::Ping(vec![0; 125].into())).await?;
        }
        return socket.flush().await;
    }
    let mut pings = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            _ = pings.tick(), if mood == Mood::Pinging => {
                socket.send(Message::Ping(vec![].into())).await?;
            }
            text = told.recv() => match text {
                Ok(text) => socket.send(Message::text(text)).await?,
                Err(_) => return Ok(()),
            },
            message = socket.next() => match message {
                None => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok(message)) if message.is_text() => violated(format!("{message:?}")),
                Some(Ok(_)) => {}
            },
        }
    }
}

/// A chain whose blocks are, as far as the configuration knows, this far apart.
fn chain(node: &str, announcers: &[String], block_time: &str) -> String {
    format!(
        "[chains.a]\nchain_id = 2020\nrpc_urls = [\"{node}\"]\nws_urls = {}\n\
         block_time = \"{block_time}\"\nmax_polls_per_block = 10\nstall_after = \"0s\"\nmax_age = \"2h\"\n",
        json!(announcers)
    )
}

/// Waits until the suggestion is from this block, and gives for how long.
async fn wait_for_block(service: &Service, number: u64) -> Duration {
    let since = Instant::now();
    let number = number.to_string();
    service.wait_for(SUGGESTION, |answer| answer.header("x-newest-block") == number).await;
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_node_announces_each_block_and_each_is_polled_for_at_once() {
    const BLOCKS: u64 = 5;
    let node = Anvil::start(0, &["--no-mining"]);
    let socket = node.url().replace("http://", "ws://");
    // Nothing but an announcement can be the reason for a poll.
    let service = Service::start(&chain(&node.url(), &[socket], "30s")).await;
    wait_for_block(&service, 0).await;
    until("a subscription", async || service.count(UP).await == 1).await;
    let since = Instant::now();
    for block in 1..=BLOCKS {
        node.call("evm_mine", json!([])).await;
        wait_for_block(&service, block).await;
    }
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    // One before the first announcement, and one for each, or two where the node had it a moment later.
    let polls = service.count(POLLS).await;
    assert!((BLOCKS + 1..=BLOCKS + 4).contains(&polls), "{polls}");
    assert_eq!(service.count(ANNOUNCED).await, BLOCKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announcement_is_a_reason_to_ask_and_no_more() {
    let node = FakeNode::start(2020, Answer::Result(fee_history(1000, 3, 40))).await;
    let announcer = Announcer::start(Mood::Well).await;
    let service = Service::start(&chain(&node.url(), &[announcer.url()], "2s")).await;
    wait_for_block(&service, 1000).await;
    until("a subscription", async || service.count(UP).await == 1).await;
    // What is said of a block is not believed: the node has none.
    announcer.announce(u64::MAX);
    until("an announcement", async || service.count(ANNOUNCED).await == 1).await;
    for odd in [
        announcement("0x1", &json!("0x7d0")),
        announcement(SUBSCRIPTION, &json!(null)),
        announcement(SUBSCRIPTION, &json!("0x1ffffffffffffffff")),
        "{".into(),
        "[]".into(),
        String::new(),
        json!({ "jsonrpc": "2.0", "id": 1, "result": "0x1" }).to_string(),
    ] {
        announcer.say(odd);
    }
    announcer.announce(1);
    until("the last one", async || service.count(ANNOUNCED).await == 2).await;
    assert_eq!(service.get(SUGGESTION).await.header("x-newest-block"), "1000");
    // A flood of them is no reason for more polls than there may be.
    let since = Instant::now();
    let polls = node.calls("eth_feeHistory");
    while since.elapsed() < Duration::from_secs(4) {
        announcer.announce(u64::MAX - 1);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let polls = node.calls("eth_feeHistory") - polls;
    assert!(polls <= 3 * 10, "{polls} polls in two block times");
    // Until the next polls find it.
    node.say(Answer::Result(fee_history(1001, 4, 30)));
    assert!(wait_for_block(&service, 1001).await < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_websocket_does_the_polls_go_on_and_it_is_tried_again() {
    let moods = [
        (Mood::Silent, "silent"),
        (Mood::Refusing, "refused"),
        (Mood::Closing, "closed"),
        (Mood::Breaking, "connection"),
        (Mood::NoWebSocket, "no_websocket"),
        (Mood::WrongKey, "no_websocket"),
    ];
    let tries = moods.map(|(mood, reason)| async move {
        let node = FakeNode::start(2020, Answer::Result(fee_history(1000, 3, 40))).await;
        let announcer = Announcer::start(mood).await;
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
             [log]\nformat = \"json\"\nfilter = \"debug\"\n{}",
            chain(&node.url(), &[announcer.url()], "100ms")
        );
        let process = Process::start(&format!("new-heads-{mood:?}"), &config);
        let url = format!("http://{}{SUGGESTION}", process.addresses[0]);
        let client = reqwest::Client::new();
        let newest = async || {
            let answer = client.get(&url).send().await.unwrap();
            answer.headers().get("x-newest-block").map(|number| number.to_str().unwrap().to_owned())
        };
        for number in 1000..1010 {
            node.say(Answer::Result(fee_history(number, 3, 40)));
            let expected = number.to_string();
            until("the next block", async || newest().await.as_ref() == Some(&expected)).await;
        }
        until("another attempt", async || announcer.connections() >= 2).await;
        announcer.is(Mood::Well);
        let metrics = format!("http://{}/metrics", process.addresses[1]);
        let is_up = async || {
            let text = client.get(&metrics).send().await.unwrap().text().await.unwrap();
            text.contains(&format!("{UP} 1"))
        };
        until("a subscription", is_up).await;
        let log = process.end();
        assert!(log.contains(&format!("\"reason\":\"{reason}\"")), "{mood:?}: {log}");
        assert!(log.contains("new blocks are announced"), "{mood:?}: {log}");
        assert!(!log.contains("canary"), "{mood:?}: {log}");
    });
    futures_util::future::join_all(tries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_first_websocket_is_away_the_next_one_announces() {
    let node = FakeNode::start(2020, Answer::Result(fee_history(1000, 3, 40))).await;
    let announcer = Announcer::start(Mood::Well).await;
    let dead = dead_url().replace("http://", "ws://");
    let service = Service::start(&chain(&node.url(), &[dead, announcer.url()], "30s")).await;
    wait_for_block(&service, 1000).await;
    until("a subscription", async || service.count(UP).await == 1).await;
    node.say(Answer::Result(fee_history(1001, 4, 30)));
    announcer.announce(1001);
    wait_for_block(&service, 1001).await;
    // What is too long ends the connection, and the next one is there before long.
    announcer.say(" ".repeat(300 * 1024));
    until("another connection", async || announcer.connections() >= 2).await;
    until("a subscription", async || service.count(UP).await == 1).await;
    node.say(Answer::Result(fee_history(1002, 4, 30)));
    announcer.announce(1002);
    wait_for_block(&service, 1002).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_of_which_nothing_comes_is_given_up_for_the_next_one() {
    let node = FakeNode::start(2020, Answer::Result(fee_history(1000, 3, 40))).await;
    let [dead, well] = [Announcer::start(Mood::Pinging).await, Announcer::start(Mood::Well).await];
    let service = Service::start(&chain(&node.url(), &[dead.url(), well.url()], "1s")).await;
    // It is there, and pings come, for half a minute.
    until("a subscription", async || service.count(UP).await == 1).await;
    until("the next one", async || well.connections() == 1).await;
    until("a subscription", async || service.count(UP).await == 1).await;
    assert_eq!(dead.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_asks_without_end_and_takes_no_answer_has_no_memory() {
    let node = FakeNode::start(2020, Answer::Result(fee_history(1000, 3, 40))).await;
    let announcer = Announcer::start(Mood::Deaf).await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         [log]\nformat = \"json\"\n{}",
        chain(&node.url(), &[announcer.url()], "1s")
    );
    let process = Process::start("new-heads-deaf", &config);
    // All of it was taken, or the connection ended sooner.
    until("another connection", async || announcer.connections() > 1).await;
    let memory = process.most_memory();
    println!("{memory} bytes at most");
    assert!(memory < 60_000_000, "{memory}");
    process.end();
}
