//! Services for Prometheus to scrape, healthy and faulty.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::http_client;
use crate::mock_delegate_api::MockDelegateApi;
use crate::mock_node::{MockNode, Reply, fee_history};
use crate::raw_client::free_port;
use crate::replicas::redis::Redis;
use crate::test_server::TestServer;

/// Block time of [`advancing_chain`] in milliseconds.
const BLOCK_TIME: u128 = 500;

/// Returns replies of a node whose chain has a new block every [`BLOCK_TIME`].
pub(super) fn advancing_chain() -> Reply {
    let start = Instant::now();
    Reply::computed(move |_| {
        let blocks = u64::try_from(start.elapsed().as_millis() / BLOCK_TIME).unwrap();
        fee_history(1000 + blocks, 3, 40)
    })
}

/// Returns the configuration of a chain with these nodes.
pub(super) fn chain(key: &str, id: u64, urls: &[String], more: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {id}\njson_rpc = true\nrpc_urls = {urls:?}\nblock_time = \"{BLOCK_TIME}ms\"\n{more}\n"
    )
}

/// Starts a node for the strategy `calibrated`. Its newest block does not change.
pub(crate) async fn start_calibrated_node(chain_id: u64) -> MockNode {
    let mut history = fee_history(1000, 3, 40);
    history["reward"] = json!(vec![["0x1", "0x2"]; 20]);
    MockNode::with_percentiles(chain_id, json!([10, 60]), Reply::Newest(Arc::new(history))).await
}

/// A healthy service with three chains. One has targets: `calibrated`, whose block does not change.
pub(super) struct HealthyService {
    pub(super) service: TestServer,
    _others: [MockNode; 2],
    /// Node of the chain `silent`, whose suggestions expire after 12 s.
    pub(super) silent: MockNode,
}

impl HealthyService {
    pub(super) async fn start() -> Self {
        let steady = MockNode::start(7, advancing_chain()).await;
        let silent = MockNode::start(8, advancing_chain()).await;
        let calibrated = start_calibrated_node(9).await;
        let strategy = "pricing.reward_percentiles = [10, 60]\nstall_after = \"0s\"";
        let chains = chain("steady", 7, &[steady.url()], "")
            + &chain("silent", 8, &[silent.url()], "max_age = \"12s\"")
            + &chain("calibrated", 9, &[calibrated.url()], strategy);
        let service = TestServer::start(&chains).await;
        for key in ["steady", "silent", "calibrated"] {
            service.wait_for_ok(&format!("/v1/{key}/gas-suggestion")).await;
        }
        Self { service, _others: [steady, calibrated], silent }
    }

    /// Sends typical requests, one of them for an unknown chain.
    pub(super) async fn traffic(&self) {
        let paths = "/v1/steady/gas-suggestion /v1/silent/gas-suggestion /v1/gas-suggestions \
            /v1/steady/badge.svg /v1/nowhere/gas-suggestion /livez";
        for path in paths.split(' ') {
            self.service.get(path).await;
        }
    }
}

/// A service that forwards requests to upstreams: a delegation API that works, a verification server that is
/// unreachable, a chain whose node fails every read, and a chain whose node does not reply to reads.
pub(super) struct ForwardingService {
    pub(super) service: TestServer,
    _api: MockDelegateApi,
    _failing: MockNode,
    busy: MockNode,
    /// Makes the address in every request a new one.
    number: AtomicUsize,
}

impl ForwardingService {
    pub(super) async fn start() -> Self {
        let api = MockDelegateApi::start().await;
        let failing = MockNode::for_reads(Reply::Raw(502, String::new())).await;
        let busy = MockNode::for_reads(Reply::RawResult("\"0x1\"".into())).await;
        busy.set_chain_id(2021);
        busy.hold_reads();
        let rarely = "block_time = \"1h\"\nmax_age = \"1day\"";
        let config = format!(
            "[limits]\nrequests_per_second_per_client = 0\nrequest_timeout = \"0s\"\n\
             [verification]\nurl = \"http://127.0.0.1:{}\"\n\
             [delegation]\nsource = \"api\"\napi_url = {:?}\n\
             [rpc]\nmax_in_flight = 1\ntimeout = \"60s\"\n\
             [chains.failing]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [{:?}]\n{rarely}\n\
             [chains.busy]\nchain_id = 2021\njson_rpc = true\nrpc_urls = [{:?}]\n{rarely}\n",
            free_port(),
            api.url(),
            failing.url(),
            busy.url(),
        );
        let service = TestServer::start(&config).await;
        for key in ["failing", "busy"] {
            service.wait_for_ok(&format!("/v1/{key}/gas-suggestion")).await;
        }
        Self { service, _api: api, _failing: failing, busy, number: AtomicUsize::new(1) }
    }

    /// Sends a delegation look-up, a verification request and a read.
    pub(super) async fn send_to_each_upstream(&self) {
        self.look_up().await;
        self.service.get("/verification/health").await;
        self.read("failing").await;
    }

    /// Occupies the only read slot of the chain `busy` until [`release_read_slot`](Self::release_read_slot).
    pub(super) async fn occupy_read_slot(self: &Arc<Self>) {
        let this = Arc::clone(self);
        tokio::spawn(async move { this.read("busy").await });
        self.busy.wait_for_pending(1).await;
    }

    pub(super) fn release_read_slot(&self) {
        self.busy.release_reads();
    }

    /// Exceeds the API's rate limit and the read limit of `busy`, and sends requests to the failing upstreams.
    pub(super) async fn exceed_limits(&self) {
        while self.look_up().await != 429 {}
        for _ in 0..4 {
            self.send_to_each_upstream().await;
            self.read("busy").await;
        }
    }

    fn new_address(&self) -> String {
        format!("0x{:040}", self.number.fetch_add(1, Ordering::Relaxed))
    }

    async fn look_up(&self) -> u16 {
        let path = format!("/registry/v2/check/all?from={}&to=0x{:040}", self.new_address(), 0);
        self.service.get(&path).await.status
    }

    async fn read(&self, chain: &str) {
        let call = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "eth_getBalance",
            "params": [self.new_address(), "latest"],
        });
        let url = self.service.url(&format!("/rpc/{chain}"));
        // A client of each chain, because a client may have one call in flight.
        let address: IpAddr = if chain == "busy" { [127, 0, 0, 2] } else { [127, 0, 0, 1] }.into();
        let client = http_client::builder().local_address(address).build().unwrap();
        let response = client.post(url).json(&call).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
}

/// Two replicas that share a chain over Redis.
pub(super) struct ReplicaPair {
    pub(super) services: [TestServer; 2],
    pub(super) redis: Redis,
    _node: MockNode,
}

impl ReplicaPair {
    pub(super) async fn start() -> Self {
        let (redis, node) = (Redis::start(), MockNode::start(7, advancing_chain()).await);
        let services = [
            Self::start_replica(&redis.url(0), &node).await,
            Self::start_replica(&redis.url(0), &node).await,
        ];
        Self { services, redis, _node: node }
    }

    /// Starts a replica with the Redis at `url`, which may be unreachable.
    pub(super) async fn start_replica(url: &str, node: &MockNode) -> TestServer {
        let chain = chain("shared", 7, &[node.url()], "");
        let service = TestServer::start(&format!("[redis]\nurl = {url:?}\n{chain}")).await;
        service.wait_for_ok("/v1/shared/gas-suggestion").await;
        service
    }

    /// Publishes an invalid value on every channel of the replicas.
    pub(super) fn publish_invalid_messages(&self) {
        for channel in self.redis.channels("gas:") {
            self.redis.command(&[b"PUBLISH".as_slice(), &channel, b"no record"]);
        }
    }
}

/// Starts a service with these limits, and its healthy node.
pub(super) async fn start_limited(limits: &str) -> (TestServer, MockNode) {
    let node = MockNode::start(7, advancing_chain()).await;
    let chain = chain("narrow", 7, &[node.url()], "");
    (TestServer::start(&format!("[limits]\n{limits}\n{chain}")).await, node)
}

/// A service whose chains are faulty from the start.
pub(super) struct FaultyService {
    pub(super) service: TestServer,
    /// Nodes that fail, do not advance or limit requests.
    failing: [MockNode; 4],
    /// Contradicts two other nodes of the chain `divided`.
    dissenting: MockNode,
    /// Reply with which it would agree.
    agreeing: Reply,
    /// A node of the wrong chain, and the healthy nodes.
    _others: [MockNode; 5],
}

impl FaultyService {
    pub(super) async fn start() -> Self {
        let failing = [
            MockNode::start(7, Reply::Error(-32000)).await,
            MockNode::start(7, Reply::Raw(502, String::new())).await,
            MockNode::start(8, Reply::history(1000, 3, 40)).await,
            MockNode::start(9, Reply::Raw(429, String::new())).await,
        ];
        let [error, unavailable, halted, limiting] = failing.each_ref().map(MockNode::url);
        let wrong_chain = MockNode::start(7, advancing_chain()).await;
        let agreeing = advancing_chain();
        let [spare, right, one, other] = [
            MockNode::start(9, advancing_chain()).await,
            MockNode::start(10, advancing_chain()).await,
            MockNode::start(11, agreeing.clone()).await,
            MockNode::start(11, agreeing.clone()).await,
        ];
        let dissenting = MockNode::start(11, Reply::history(1000, 30, 400)).await;
        let divided = [&dissenting, &one, &other].map(MockNode::url);
        let chains = [
            chain("unread", 7, &[error, unavailable], ""),
            chain("halted", 8, &[halted], "stall_after = \"1s\""),
            chain("limited", 9, &[limiting, spare.url()], ""),
            chain(
                "misled",
                10,
                &[wrong_chain.url(), right.url()],
                "pricing.priority_fee_floor = \"100000 gwei\"",
            ),
            chain("divided", 11, &divided, "agreement = 3"),
        ];
        let service = TestServer::start(&chains.concat()).await;
        let others = [wrong_chain, spare, right, one, other];
        Self { service, failing, dissenting, agreeing, _others: others }
    }

    /// Repairs every node except the one of the wrong chain.
    pub(super) fn repair(&self) {
        for node in &self.failing {
            node.set_reply(advancing_chain());
        }
        self.dissenting.set_reply(self.agreeing.clone());
    }
}
