//! Tests of the calls that clients may cause at the nodes: `reads_per_minute`, `read_urls`, and 429s.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::http_message;
use crate::mock_node::{MockNode, Reply, read_chain, start_reads, wait_until_polled};
use crate::raw_client::RawClient;
use crate::test_server::{TestServer, wait_until};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";
/// Counter of polls that the node refuses.
const REFUSED_POLLS: &str = "gas_suggestion_upstream_attempts_total{chain=\"ronin\",upstream=\"0\",outcome=\"rate_limited\"}";

const ADDRESS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/// Returns a batch of `count` reads that differ from each other and from those with another `first`.
fn batch(first: usize, count: usize) -> String {
    let call = |index| {
        let params = json!([ADDRESS, format!("{index:#x}"), "pending"]);
        json!({ "jsonrpc": "2.0", "id": index, "method": "eth_getStorageAt", "params": params })
    };
    Value::from((first..first + count).map(call).collect::<Vec<_>>()).to_string()
}

/// Sends a batch of `count` new reads and returns the responses.
async fn post(service: &TestServer, first: usize, count: usize) -> Vec<Value> {
    let response = service.post("/rpc/ronin", batch(first, count)).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.json().as_array().unwrap().clone()
}

/// Sends a new read. Returns true if it succeeds.
async fn can_read(service: &TestServer) -> bool {
    count_ok(&post(service, 0, 1).await) == 1
}

fn count_ok(responses: &[Value]) -> usize {
    responses.iter().filter(|response| response["error"].is_null()).count()
}

/// Name of the counter of reads at one upstream with one outcome.
fn reads_counter(upstream: usize, outcome: &str) -> String {
    format!(
        "gas_suggestion_upstream_reads_total{{chain=\"ronin\",upstream=\"{upstream}\",outcome=\"{outcome}\"}}"
    )
}

#[tokio::test]
async fn reads_beyond_the_budget_go_to_the_next_node_and_then_fail() {
    let (first, second) =
        (MockNode::for_reads(Reply::Echo).await, MockNode::for_reads(Reply::Echo).await);
    // Polls do not verify the chain id of a node that is for reads only.
    let more = format!("reads_per_minute = 20\nread_urls = {:?}", [first.url(), second.url()]);
    let service = TestServer::start(&read_chain(&[&first], &more)).await;
    wait_until_polled(&service).await;
    let responses = post(&service, 0, 30).await;
    // The second node's budget includes the verification of its chain id.
    assert_eq!((count_ok(&responses), first.reads().len(), second.reads().len()), (9, 5, 4));
    let error = responses.iter().find(|response| !response["error"].is_null()).unwrap();
    let error = &error["error"];
    assert_eq!(error["code"], -32005);
    let waits =
        [1, 2, 3, 4].map(|wait| format!("the upstreams are rate limiting; retry in {wait} s"));
    assert!(waits.iter().any(|message| error["message"] == *message), "{error}");
    for upstream in [0, 1] {
        assert!(service.count(&reads_counter(upstream, "budget_exhausted")).await >= 21);
    }
    let counter = "gas_suggestion_reads_total{chain=\"ronin\",outcome=\"budget_exhausted\"}";
    assert_eq!(service.count(counter).await, 21);
    // The polls are not affected.
    assert_eq!(service.get(SUGGESTION).await.status, 200);
}

#[tokio::test]
async fn one_client_leaves_most_of_the_budget_to_the_others() {
    let (node, service) = start_reads("", Reply::Echo, "reads_per_minute = 400").await;
    let send = async |client: &mut RawClient, first| {
        let request = http_message::post("/rpc/ronin", "", batch(first, 50).as_bytes());
        let response = client.request(request).await;
        assert_eq!(response.status(), 200, "{response:#?}");
        serde_json::from_str::<Vec<Value>>(response.text()).unwrap()
    };
    let mut greedy = RawClient::connect(service.address()).await;
    let mut responses = Vec::new();
    for round in 0..3 {
        responses.extend(send(&mut greedy, 50 * round).await);
    }
    assert_eq!((responses.len(), count_ok(&responses), node.reads().len()), (150, 100, 100));
    for error in responses.iter().map(|response| &response["error"]).filter(|it| !it.is_null()) {
        assert_eq!(error["code"], -32005, "{error}");
        let wait = error["data"]["retry_after"].as_u64().unwrap();
        assert!((50..=60).contains(&wait), "{error}");
        let message =
            format!("this client has used its share of the reads per minute; retry in {wait} s");
        assert_eq!(error["message"], message);
    }
    // What is known costs nothing, and another client is served.
    assert_eq!(service.count(&reads_counter(0, "budget_exhausted")).await, 50);
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let mut other = RawClient::connect_from(other, service.address()).await;
    let mut first = 1000;
    // The node's own budget refills with the next few calls.
    wait_until("another client is served", async || {
        first += 50;
        count_ok(&send(&mut other, first).await) > 0
    })
    .await;
}

#[tokio::test]
async fn reads_use_the_read_urls_and_polls_the_rpc_urls() {
    let (polled, both, read_only) = (
        MockNode::for_reads(Reply::Echo).await,
        MockNode::for_reads(Reply::Echo).await,
        MockNode::for_reads(Reply::Raw(500, String::new())).await,
    );
    let read_urls = format!("read_urls = {:?}", [read_only.url(), both.url()]);
    let service = TestServer::start(&read_chain(&[&polled, &both], &read_urls)).await;
    wait_until_polled(&service).await;
    assert!(can_read(&service).await);
    let reads = [&polled, &both, &read_only].map(|node| node.reads().len());
    assert_eq!((reads, read_only.polls()), ([0, 1, 1], 0));
    // A URL must report the chain's id before it gets a read.
    assert_eq!(read_only.chain_checks(), 1);
    assert_eq!(service.count(&reads_counter(2, "http_status")).await, 1);
    assert_eq!(service.count(&reads_counter(1, "ok")).await, 1);
    let metrics = service.admin("/metrics").await.body;
    assert!(!metrics.contains("upstream_state{chain=\"ronin\",upstream=\"2\""), "{metrics}");
}

#[tokio::test]
async fn reads_pause_after_a_refused_poll_until_a_poll_succeeds() {
    let (node, service) = start_reads("", Reply::Echo, "block_time = \"200ms\"").await;
    node.set_reply(Reply::Raw(429, String::new()));
    node.wait_for_poll().await;
    service.wait_for_admin("/metrics", |page| page.body.contains(REFUSED_POLLS)).await;
    assert!(!can_read(&service).await);
    // The pause of the polls is over, but the next one is refused too.
    node.wait_for_poll().await;
    assert!(!can_read(&service).await);
    assert_eq!(node.reads(), []);
    node.set_reply(Reply::history(1001, 3, 30));
    service.wait_for_block(SUGGESTION, 1001).await;
    assert!(can_read(&service).await);
}

#[tokio::test]
async fn refused_read_pauses_no_poll() {
    let refusal = Reply::Raw(429, String::new());
    let (node, service) = start_reads("", refusal, "block_time = \"200ms\"").await;
    assert!(!can_read(&service).await);
    node.wait_for_poll().await;
    node.wait_for_poll().await;
    let healthy = "gas_suggestion_upstream_state{chain=\"ronin\",upstream=\"0\",state=\"healthy\"}";
    assert_eq!(service.count(healthy).await, 1);
}
