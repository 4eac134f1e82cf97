//! Services for Prometheus to look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::delegate_api::DelegateApi;
use crate::fake_node::{Answer, FakeNode, Made, fee_history};
use crate::raw::free_port;
use crate::read_node::{ReadNode, Say};
use crate::replicas::redis::Redis;
use crate::service::Service;

/// The time between two blocks of what [`moving`] answers, in milliseconds.
const BLOCK_TIME: u128 = 500;

/// What a node answers whose chain goes on.
pub(super) fn moving() -> Answer {
    let start = Instant::now();
    Made::by(move |_| {
        let blocks = u64::try_from(start.elapsed().as_millis() / BLOCK_TIME).unwrap();
        fee_history(1000 + blocks, 3, 40)
    })
}

/// A chain with these nodes.
pub(super) fn chain(key: &str, id: u64, urls: &[String], more: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {id}\nrpc_urls = {urls:?}\nblock_time = \"{BLOCK_TIME}ms\"\n{more}\n"
    )
}

/// A service of two chains that go on.
#[derive(Debug)]
pub(super) struct Well {
    pub(super) service: Service,
    _steady: FakeNode,
    /// Of the chain `silent`, which is refused when nothing came for 6 s.
    pub(super) silent: FakeNode,
}

impl Well {
    pub(super) async fn start() -> Self {
        let steady = FakeNode::start(7, moving()).await;
        let silent = FakeNode::start(8, moving()).await;
        let chains = chain("steady", 7, &[steady.url()], "")
            + &chain("silent", 8, &[silent.url()], "max_age = \"6s\"");
        let service = Service::start(&chains).await;
        for key in ["steady", "silent"] {
            let path = format!("/v1/{key}/gas-suggestion");
            service.wait_for(&path, |answer| answer.status == 200).await;
        }
        Self { service, _steady: steady, silent }
    }

    /// What users may well ask, and get wrong.
    pub(super) async fn traffic(&self) {
        for path in [
            "/v1/steady/gas-suggestion",
            "/v1/silent/gas-suggestion",
            "/v1/gas-suggestions",
            "/v1/steady/fee-history.svg",
            "/v1/nowhere/gas-suggestion",
            "/livez",
        ] {
            self.service.get(path).await;
        }
    }

    /// A little of it until `is_enough`.
    pub(super) async fn traffic_until(&self, is_enough: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !is_enough().await {
            self.traffic().await;
            assert!(Instant::now() < deadline, "it is never enough");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A service that asks others on behalf of its clients: the delegation API, which answers, a verification server
/// that is not there, and the nodes of two chains, of which one refuses reads and the other does not answer any.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) service: Service,
    _api: DelegateApi,
    _failing: ReadNode,
    busy: ReadNode,
    /// Nothing is asked for twice.
    number: AtomicUsize,
}

impl Passing {
    pub(super) async fn start() -> Self {
        let api = DelegateApi::start().await;
        let failing = ReadNode::start(Say::Raw(502, String::new())).await;
        let busy = ReadNode::start(Say::Result("\"0x1\"".into())).await;
        busy.serve_chain(2021);
        busy.close();
        let rarely = "block_time = \"1h\"\nmax_age = \"1day\"";
        let config = format!(
            "[limits]\nrequests_per_second_per_client = 0\nrequest_timeout = \"0s\"\n\
             [verification]\nurl = \"http://127.0.0.1:{}\"\n\
             [delegation]\nsource = \"api\"\napi_url = {:?}\n\
             [rpc]\nmax_in_flight = 1\ntimeout = \"60s\"\n\
             [chains.failing]\nchain_id = 2020\nrpc_urls = [{:?}]\n{rarely}\n\
             [chains.busy]\nchain_id = 2021\nrpc_urls = [{:?}]\n{rarely}\n",
            free_port(),
            api.url(),
            failing.url(),
            busy.url(),
        );
        let service = Service::start(&config).await;
        for key in ["failing", "busy"] {
            let path = format!("/v1/{key}/gas-suggestion");
            service.wait_for(&path, |answer| answer.status == 200).await;
        }
        let number = AtomicUsize::new(1);
        Self { service, _api: api, _failing: failing, busy, number }
    }

    /// A look-up, a verification and a read.
    pub(super) async fn use_once(&self) {
        self.look_up().await;
        self.service.get("/verification/health").await;
        self.read("failing").await;
    }

    /// Takes the only place for reads of the chain `busy`, until [`open`](Self::open).
    pub(super) async fn occupy(self: &Arc<Self>) {
        let reader = Arc::clone(self);
        tokio::spawn(async move { reader.read("busy").await });
        self.busy.wait_for_waiting(1).await;
    }

    pub(super) fn open(&self) {
        self.busy.open();
    }

    /// More of everything than there is.
    pub(super) async fn overdo(&self) {
        while self.look_up().await != 429 {}
        for _ in 0..4 {
            self.use_once().await;
            self.read("busy").await;
        }
    }

    fn next(&self) -> usize {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    async fn look_up(&self) -> u16 {
        let path = format!("/registry/v2/check/all?from=0x{:040}&to=0x{:040}", self.next(), 0);
        self.service.get(&path).await.status
    }

    async fn read(&self, chain: &str) {
        let call = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "eth_getBalance",
            "params": [format!("0x{:040}", self.next()), "latest"],
        });
        let url = self.service.url(&format!("/rpc/{chain}"));
        let answer = reqwest::Client::new().post(url).json(&call).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// Two services that share a chain.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) services: [Service; 2],
    pub(super) redis: Redis,
    _node: FakeNode,
}

impl Sharing {
    pub(super) async fn start() -> Self {
        let (redis, node) = (Redis::start(), FakeNode::start(7, moving()).await);
        let services =
            [Self::one(&redis.url(0), &node).await, Self::one(&redis.url(0), &node).await];
        Self { services, redis, _node: node }
    }

    /// One that shares by the Redis at `url`, if there is one.
    pub(super) async fn one(url: &str, node: &FakeNode) -> Service {
        let chain = chain("shared", 7, &[node.url()], "");
        let service = Service::start(&format!("[redis]\nurl = {url:?}\n{chain}")).await;
        service.wait_for("/v1/shared/gas-suggestion", |answer| answer.status == 200).await;
        service
    }

    /// Has them find in Redis what nobody can have published.
    pub(super) fn mislead(&self) {
        for channel in self.redis.channels("gas:v1:") {
            self.redis.say(&[b"PUBLISH".as_slice(), &channel, b"value 1 is no value"]);
        }
    }
}

/// A service that may do next to nothing, with a node that is well.
#[derive(Debug)]
pub(super) struct Narrow {
    pub(super) service: Service,
    _node: FakeNode,
}

impl Narrow {
    pub(super) async fn start(limits: &str) -> Self {
        let node = FakeNode::start(7, moving()).await;
        let chain = chain("narrow", 7, &[node.url()], "");
        Self { service: Service::start(&format!("[limits]\n{limits}\n{chain}")).await, _node: node }
    }
}

/// A service whose chains have been ill from the start.
#[derive(Debug)]
pub(super) struct Ill {
    pub(super) service: Service,
    /// Of the chain `unread`.
    failing: [FakeNode; 2],
    halted: FakeNode,
    limiting: FakeNode,
    /// One of another chain, and those that are well.
    _others: [FakeNode; 3],
}

impl Ill {
    pub(super) async fn start() -> Self {
        let failing = [
            FakeNode::start(7, Answer::Error(-32000)).await,
            FakeNode::start(7, Answer::Raw(502, String::new())).await,
        ];
        let halted = FakeNode::start(8, Answer::Result(fee_history(1000, 3, 40))).await;
        let limiting = FakeNode::start(9, Answer::Raw(429, String::new())).await;
        let astray = FakeNode::start(7, moving()).await;
        let [spare, right] =
            [FakeNode::start(9, moving()).await, FakeNode::start(10, moving()).await];
        let chains = [
            chain("unread", 7, &failing.each_ref().map(FakeNode::url), ""),
            chain("halted", 8, &[halted.url()], "stall_after = \"1s\""),
            chain("limited", 9, &[limiting.url(), spare.url()], ""),
            chain("misled", 10, &[astray.url(), right.url()], ""),
        ];
        let service = Service::start(&chains.concat()).await;
        Self { service, failing, halted, limiting, _others: [astray, spare, right] }
    }

    /// All but the node of another chain is well from now on.
    pub(super) fn recover(&self) {
        for node in self.failing.iter().chain([&self.halted, &self.limiting]) {
            node.say(moving());
        }
    }
}
