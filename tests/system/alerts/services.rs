//! Services for Prometheus to scrape.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use crate::delegation_service::{VAULT, check};
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
fn chain(key: &str, id: u64, urls: &[String], more: &str) -> String {
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
    _nodes: [MockNode; 3],
}

impl HealthyService {
    pub(super) async fn start() -> Self {
        let steady = MockNode::start(7, advancing_chain()).await;
        let other = MockNode::start(8, advancing_chain()).await;
        let calibrated = start_calibrated_node(9).await;
        let strategy = "pricing.reward_percentiles = [10, 60]\nstall_after = \"0s\"";
        let chains = chain("steady", 7, &[steady.url()], "")
            + &chain("other", 8, &[other.url()], "")
            + &chain("calibrated", 9, &[calibrated.url()], strategy);
        let service = TestServer::start(&chains).await;
        for key in ["steady", "other", "calibrated"] {
            service.wait_for_ok(&format!("/v1/{key}/gas-suggestion")).await;
        }
        Self { service, _nodes: [steady, other, calibrated] }
    }

    /// Sends typical requests, one of them for an unknown chain.
    pub(super) async fn traffic(&self) {
        let paths = "/v1/steady/gas-suggestion /v1/other/gas-suggestion /v1/gas-suggestions \
            /v1/steady/badge.svg /v1/nowhere/gas-suggestion /livez";
        for path in paths.split(' ') {
            self.service.get(path).await;
        }
    }
}

/// A service that forwards requests to upstreams: a delegation API that works, a verification server that is
/// unreachable, and a chain whose node fails every read.
pub(super) struct ForwardingService {
    pub(super) service: TestServer,
    _api: MockDelegateApi,
    _failing: MockNode,
}

impl ForwardingService {
    pub(super) async fn start() -> Self {
        let api = MockDelegateApi::start().await;
        let failing = MockNode::for_reads(Reply::Raw(502, String::new())).await;
        let rarely = "block_time = \"1h\"\nmax_age = \"1day\"";
        let config = format!(
            "[limits]\nrequests_per_second_per_client = 0\nrequest_timeout = \"0s\"\n\
             [verification]\nurl = \"http://127.0.0.1:{}\"\n\
             [delegation]\nsource = \"api\"\napi_url = {:?}\n\
             [chains.failing]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [{:?}]\n{rarely}\n",
            free_port(),
            api.url(),
            failing.url(),
        );
        let service = TestServer::start(&config).await;
        service.wait_for_ok("/v1/failing/gas-suggestion").await;
        Self { service, _api: api, _failing: failing }
    }

    /// Sends a delegation look-up, a verification request and a read.
    pub(super) async fn send_to_each_upstream(&self) {
        self.service.get(&check(2)).await;
        self.service.get("/verification/health").await;
        let call = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "eth_getBalance",
            "params": [VAULT, "latest"],
        });
        assert_eq!(self.service.post("/rpc/failing", call.to_string()).await.status, 200);
    }
}

/// Two replicas that share a chain over Redis.
pub(super) struct ReplicaPair {
    pub(super) services: [TestServer; 2],
    _redis: Redis,
    _node: MockNode,
}

impl ReplicaPair {
    pub(super) async fn start() -> Self {
        let (redis, node) = (Redis::start(), MockNode::start(7, advancing_chain()).await);
        let services = [
            Self::start_replica(&redis.url(0), &node).await,
            Self::start_replica(&redis.url(0), &node).await,
        ];
        Self { services, _redis: redis, _node: node }
    }

    /// Starts a replica with the Redis at `url`, which may be unreachable.
    pub(super) async fn start_replica(url: &str, node: &MockNode) -> TestServer {
        let chain = chain("shared", 7, &[node.url()], "");
        let service = TestServer::start(&format!("[redis]\nurl = {url:?}\n{chain}")).await;
        service.wait_for_ok("/v1/shared/gas-suggestion").await;
        service
    }
}
