//! Tests of `POST /rpc/{chain}` with mock nodes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::fixtures;
use crate::http_client;
use crate::http_message;
use crate::mock_node::{MockNode, Read, Reply, read_chain, start_reads, wait_until_polled};
use crate::process::{File, Process};
use crate::raw_client::RawClient;
use crate::test_server::{Response, TestServer, wait_until};

const ADDRESS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const HASH: &str = "0xe670ec64341771606e55d6b4ca35a1a6b75ee3d5145a99d05921026d1527331a";
const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Starts a node with this reply to reads, and a service that has polled it, with `more` lines for the chain.
async fn start(reply: Reply, more: &str) -> (MockNode, TestServer) {
    start_reads("", reply, more).await
}

/// Replies with this status and body.
fn raw(status: u16, body: &str) -> Reply {
    Reply::Raw(status, body.into())
}

/// Replies with a JSON-RPC error of this code.
fn node_error(code: i64, message: &str) -> Reply {
    Reply::RawError(json!({ "code": code, "message": message }).to_string())
}

fn reads_counter(outcome: &str) -> String {
    format!("gas_suggestion_reads_total{{chain=\"ronin\",outcome=\"{outcome}\"}}")
}

/// Checks that the rate limit refuses a request, and that the client has to wait for so many seconds.
fn assert_rate_limited(refused: &Response, expected: RangeInclusive<u64>) {
    refused.assert_problem(429, "rate_limited");
    let wait = refused.header("retry-after").parse().unwrap();
    assert!(expected.contains(&wait), "{wait}");
}

/// Like [`start`], with two nodes.
async fn start_two(first: Reply, second: Reply, more: &str) -> (MockNode, MockNode, TestServer) {
    let nodes = (MockNode::for_reads(first).await, MockNode::for_reads(second).await);
    let service = TestServer::start(&read_chain(&[&nodes.0, &nodes.1], more)).await;
    wait_until_polled(&service).await;
    (nodes.0, nodes.1, service)
}

/// Returns the read of a slot that is unique to `id`.
fn slot(id: usize, tag: &str) -> String {
    call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), tag]))
}

fn batch(calls: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", calls.into_iter().collect::<Vec<_>>().join(","))
}

/// Lets the node answer once `count` reads are pending.
async fn release_at(node: &MockNode, count: usize) {
    node.wait_for_pending(count).await;
    node.release_reads();
}

async fn post(service: &TestServer, body: impl Into<String>) -> Response {
    service.post("/rpc/ronin", body.into()).await
}

fn call(id: usize, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn balance(id: usize, tag: &str) -> String {
    call(id, "eth_getBalance", &json!([ADDRESS, tag]))
}

/// Returns the `error` of the response to one call.
async fn error(service: &TestServer, body: impl Into<String>) -> Value {
    let response = post(service, body).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["error"].take()
}

/// Returns the `result` of the response to one call.
async fn result(service: &TestServer, body: impl Into<String>) -> Value {
    post(service, body).await.json()["result"].take()
}

/// Reads a pending balance from a node that echoes the parameters of reads.
async fn assert_echoed(service: &TestServer) {
    assert_eq!(result(service, balance(1, "pending")).await, json!([ADDRESS, "pending"]));
}

#[tokio::test]
async fn params_and_results_are_passed_through_byte_for_byte() {
    let result = r#"{ "b":1, "a":1.0e2,"b":123456789012345678901234567890, "t":"A\/", "n":null }"#;
    let (node, service) = start(Reply::RawResult(result.into()), "").await;
    let params =
        format!("[ {{\"to\":\"{ADDRESS}\",\"gas\":1.0, \"data\":\"\\u0030x\"}},\t\"pending\" ]");
    let body = format!(
        "{{\"params\":{params},\"method\":\"eth_c\\u0061ll\",\"id\":1.50,\"jsonrpc\":\"2.0\",\"more\":[]}}"
    );
    let response = post(&service, body).await;
    let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1.50,\"result\":{result}}}");
    assert_eq!((response.status, response.body.as_str()), (200, expected.as_str()));
    assert_eq!(response.header("content-type"), "application/json");
    assert_eq!(response.header("access-control-allow-origin"), "*");
    assert_eq!(node.reads(), [Read { method: "eth_call".into(), params }]);

    // `null` is a valid result. A call without `params` is sent upstream with an empty array.
    node.set_read_reply(Reply::RawResult("null".into()));
    let response = post(&service, call(7, "eth_getTransactionReceipt", &json!([HASH]))).await;
    assert_eq!(response.body, r#"{"jsonrpc":"2.0","id":7,"result":null}"#);
    post(&service, r#"{"jsonrpc":"2.0","id":7,"method":"eth_gasPrice"}"#).await;
    let last = node.reads().pop().unwrap();
    assert_eq!((last.method.as_str(), last.params.as_str()), ("eth_gasPrice", "[]"));
}

#[tokio::test]
async fn batch_responses_keep_their_order_and_other_bodies_are_errors() {
    let (node, service) = start(Reply::Echo, "").await;
    let members = fixtures::pairs(include_str!("../fixtures/batch.txt"));
    let (calls, mut expected): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    assert_eq!(calls.len(), 32);
    // A notification has no response.
    expected.retain(|response| !response.is_empty());
    let response = post(&service, format!("[{}]", calls.join(","))).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.body, format!("[{}]", expected.join(",")));
    assert_eq!(node.reads().len(), 10);
    let notification = r#"{"jsonrpc":"2.0","method":"eth_blockNumber"}"#;
    for (body, status, code) in [
        // JSON that is no call has another code than what is no JSON.
        ("[1,", 200, "\"code\":-32700"),
        ("7", 200, "\"code\":-32600"),
        (notification, 204, ""),
        (&format!("[{notification},{notification}]"), 204, ""),
    ] {
        let response = post(&service, body).await;
        assert_eq!((response.status, response.body.contains(code)), (status, true), "{body}");
        assert_eq!(response.body.is_empty(), status == 204, "{body}");
    }
    assert_eq!(node.reads().len(), 10);
}

#[tokio::test]
async fn methods_that_are_not_allowed_cause_no_upstream_call() {
    let (node, service) = start(Reply::Echo, "").await;
    let checks = node.chain_checks();
    let mut names: Vec<String> = fixtures::json("tests/fixtures/methods-not-allowed.json");
    for family in ["debug", "admin", "personal", "miner", "txpool", "trace", "anvil", "evm"] {
        let methods = ["traceCall", "addPeer", "unlockAccount", "call"];
        names.extend(methods.map(|name| format!("{family}_{name}")));
    }
    let message = "the method requested does not exist or is not allowed";
    for name in &names {
        // Some names are escapes of JSON.
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":[]}}"#);
        let error = error(&service, body).await;
        assert_eq!(error, json!({ "code": -32601, "message": message }), "{name}");
    }
    assert_eq!((node.reads().len(), node.chain_checks()), (0, checks));
    assert_eq!(service.count(&reads_counter("rejected")).await, names.len() as u64);
}

#[tokio::test]
async fn rpc_methods_replaces_the_allowed_methods_and_two_need_no_node() {
    let node = MockNode::for_reads(Reply::Echo).await;
    let own = "rpc_methods = [\"eth_accounts\", \"web3_clientVersion\", \"debug_traceCall\"]";
    let version = json!(concat!("gas-suggestion/", env!("CARGO_PKG_VERSION")));
    for more in ["", own] {
        let service = TestServer::start(&read_chain(&[&node], more)).await;
        for (method, expected) in [("web3_clientVersion", &version), ("eth_accounts", &json!([]))] {
            let response = post(&service, call(1, method, &json!([]))).await.json();
            assert_eq!(response, json!({ "jsonrpc": "2.0", "id": 1, "result": expected }));
            assert_eq!(error(&service, call(1, method, &json!([1]))).await["code"], -32602);
        }
        assert_eq!(node.reads(), []);
    }
    let service = TestServer::start(&read_chain(&[&node], own)).await;
    assert_eq!(error(&service, balance(1, "latest")).await["code"], -32601);
    // Responses to methods that the service does not know are not cached.
    let any = json!({ "any": ["thing"] });
    for reads in 1..=2 {
        assert_eq!(result(&service, call(1, "debug_traceCall", &any)).await, any);
        assert_eq!(node.reads().len(), reads);
    }
}

/// Posts all bodies concurrently, each over its own connection.
async fn post_all(service: &TestServer, bodies: impl IntoIterator<Item = String>) -> Vec<Value> {
    let client = http_client::new();
    let posts = bodies.into_iter().map(|body| {
        let request = client.post(service.url("/rpc/ronin")).body(body);
        async move { Response::read(request.send().await.unwrap()).await.json() }
    });
    join_all(posts).await
}

#[tokio::test]
async fn thousand_concurrent_identical_reads_make_one_upstream_call() {
    let (node, service) = start(Reply::Result(json!("0x7")), "").await;
    node.hold_reads();
    let reads = post_all(&service, (0..1000).map(|id| balance(id, "latest")));
    let (responses, ()) = tokio::join!(reads, release_at(&node, 1));
    for (id, response) in responses.iter().enumerate() {
        assert_eq!(*response, json!({ "jsonrpc": "2.0", "id": id, "result": "0x7" }));
    }
    assert_eq!(node.reads().len(), 1);
    let count = async |outcome| service.count(&reads_counter(outcome)).await;
    assert_eq!((count("ok").await, count("coalesced").await + count("cached").await), (1, 999));
    // Without flashblocks, pending state is not cached.
    node.hold_reads();
    let reads = post(&service, batch((0..16).map(|id| balance(id, "pending"))));
    let (response, ()) = tokio::join!(reads, release_at(&node, 1));
    assert_eq!((response.json().as_array().unwrap().len(), node.reads().len()), (16, 2));
    post(&service, balance(1, "pending")).await;
    assert_eq!(node.reads().len(), 3);
}

#[tokio::test]
async fn each_client_gets_a_quarter_of_the_calls_in_flight() {
    let options = "trusted_proxies = [\"127.0.0.1/32\"]\n[rpc]\nmax_in_flight = 8\n";
    let (node, service) = start_reads(options, Reply::Echo, "").await;
    node.hold_reads();
    let send = async |client: usize, number: usize| {
        let request =
            http_client::new().post(service.url("/rpc/ronin")).body(slot(number, "latest"));
        let request = request.header("X-Forwarded-For", format!("192.0.2.{client}"));
        Response::read(request.send().await.unwrap()).await.json()
    };
    let of_first = join_all([send(1, 0), send(1, 1)]);
    let others = async {
        node.wait_for_pending(2).await;
        let refused = send(1, 2).await;
        let error = json!({
            "code": -32005, "message": "too many concurrent calls of this client; retry later",
            "data": { "retry_after": 1 },
        });
        assert_eq!(refused["error"], error);
        service.wait_for_count(&reads_counter("overloaded"), 1).await;
        let others = [send(2, 10), send(2, 11), send(3, 12), send(3, 13), send(4, 14), send(4, 15)];
        let overload = async {
            node.wait_for_pending(8).await;
            let refused = send(5, 20).await;
            assert_eq!(refused["error"]["message"], "too many concurrent calls; retry later");
            node.release_reads();
        };
        let (responses, ()) = tokio::join!(join_all(others), overload);
        responses
    };
    let (of_first, of_others) = tokio::join!(of_first, others);
    for response in of_first.iter().chain(&of_others) {
        assert!(response["error"].is_null(), "{response}");
    }
    assert_eq!((node.reads().len(), node.max_pending()), (8, 8));
    // The permits are released.
    assert_eq!(send(1, 2).await["result"][1], "0x2");
}

#[tokio::test]
async fn batch_is_limited_to_its_share_of_concurrent_calls() {
    let (node, service) = start(Reply::Echo, "block_time = \"200ms\"").await;
    node.hold_reads();
    let response = post(&service, batch((0..100).map(|id| slot(id, "pending"))));
    let open_gate = async {
        node.wait_for_pending(16).await;
        // Two poll intervals leave enough time for further calls to arrive, if there were any.
        node.wait_for_poll().await;
        node.wait_for_poll().await;
        node.release_reads();
    };
    let (response, ()) = tokio::join!(response, open_gate);
    for (id, response) in response.json().as_array().unwrap().iter().enumerate() {
        let found = (&response["id"], &response["result"][1]);
        assert_eq!(found, (&json!(id), &json!(format!("{id:#x}"))));
    }
    assert_eq!((node.reads().len(), node.max_pending()), (100, 16));
}

#[tokio::test]
async fn result_that_mentions_a_new_block_expires_latest_state_once() {
    let (node, service) = start(Reply::Echo, "").await;
    let receipt = |block: u64, hash: &str| {
        let mined = json!({ "blockNumber": format!("{block:#x}"), "blockHash": hash });
        (mined, call(1, "eth_getTransactionReceipt", &json!([HASH])))
    };
    let mut expected = 0;
    // The newest polled block is 1000. A block can be mentioned while it is pending, and as the head.
    for ((mentioning, trigger), is_expired) in [
        (receipt(999, "0xa"), false),
        (receipt(1001, "0xa"), true),
        (receipt(1001, "0xa"), false),
        // The next flashblock, or the mined block.
        (receipt(1001, "0xb"), true),
        ((json!("0x3e9"), call(1, "eth_blockNumber", &json!([]))), true),
        (receipt(1001, "0xb"), false),
        (receipt(1000 + 1025, "0xa"), false),
        (receipt(1000 + 1024, "0xa"), true),
    ] {
        node.set_read_reply(Reply::Result(json!(expected)));
        post(&service, balance(1, "latest")).await;
        node.set_read_reply(Reply::Result(mentioning.clone()));
        post(&service, trigger).await;
        node.set_read_reply(Reply::Result(json!(expected + 1)));
        expected += usize::from(is_expired);
        assert_eq!(result(&service, balance(1, "latest")).await, expected, "{mentioning}");
    }
}

#[tokio::test]
async fn missing_results_and_pending_nonces_are_not_cached_for_a_flashblock() {
    let (node, service) = start(Reply::Echo, "flashblock_time = \"1h\"").await;
    let (missing, found) = (&Reply::Result(Value::Null), &Reply::Result(json!("0x1")));
    // Some nodes return an empty list for a block that they do not have yet.
    let empty = &Reply::Result(json!([]));
    let logs = json!([{ "blockHash": HASH }]);
    for (reply, method, params, reads) in [
        (missing, "eth_getTransactionReceipt", json!([HASH]), 2),
        (missing, "eth_getTransactionByHash", json!([HASH]), 2),
        (missing, "eth_getBlockByHash", json!([HASH, false]), 2),
        (missing, "eth_getBlockByNumber", json!(["0x3e9", false]), 2),
        (missing, "eth_getTransactionByBlockNumberAndIndex", json!(["latest", "0x0"]), 2),
        (missing, "eth_getBlockReceipts", json!([HASH]), 2),
        (missing, "eth_getLogs", logs.clone(), 2),
        (empty, "eth_getLogs", logs, 2),
        (found, "eth_getTransactionCount", json!([ADDRESS, "pending"]), 2),
        (found, "eth_getTransactionCount", json!([ADDRESS, "latest"]), 1),
        (found, "eth_getBalance", json!([ADDRESS, "pending"]), 1),
        (found, "eth_getTransactionReceipt", json!([HASH]), 1),
        (found, "eth_estimateGas", json!([{ "to": ADDRESS }]), 1),
        (found, "eth_getLogs", json!([{}]), 1),
    ] {
        node.set_read_reply(reply.clone());
        let before = node.reads().len();
        post(&service, call(1, method, &params)).await;
        post(&service, call(1, method, &params)).await;
        assert_eq!(node.reads().len() - before, reads, "{method} {params}");
    }
}

#[tokio::test]
async fn only_immutable_state_is_cached_across_blocks() {
    let old = json!({ "number": "0x384" });
    let (node, service) = start(Reply::Result(old.clone()), "block_time = \"500ms\"").await;
    let at = |block: Value| call(1, "eth_getBalance", &json!([ADDRESS, block]));
    let reads = [
        (at(json!(HASH)), &old),
        (at(json!({ "blockHash": HASH })), &old),
        (at(json!("earliest")), &old),
        (call(1, "eth_getBlockByHash", &json!([HASH, false])), &old),
        (at(json!("latest")), &json!("new")),
        // A reorg can replace a block, so that its number names another one and its hash is no longer canonical.
        (at(json!("0x384")), &json!("new")),
        (at(json!({ "blockHash": HASH, "requireCanonical": true })), &json!("new")),
    ];
    for (body, _) in &reads {
        post(&service, body.clone()).await;
    }
    node.set_read_reply(Reply::Result(json!("new")));
    node.set_reply(Reply::history(1001, 3, 30));
    service.wait_for_block(SUGGESTION, 1001).await;
    for (body, expected) in reads {
        assert_eq!(result(&service, body.clone()).await, *expected, "{body}");
    }
}

#[tokio::test]
async fn node_errors_are_passed_on_with_secrets_redacted() {
    let node = MockNode::for_reads(Reply::Echo).await;
    let other = "https://user:canarypass@other.example/v2/canary-key-1?k=canary%20q";
    let text = format!(
        "{}[chains.other]\nchain_id = 7\njson_rpc = true\nblock_time = \"1h\"\nmax_age = \"1day\"\n\
         rpc_urls = [\"{other}\"]\n",
        read_chain(&[&node], "")
    );
    let service = TestServer::start(&text).await;
    for error in [
        r#"{ "code":3, "message":"execution reverted: no","data":"0x08c379a0", "x":[1.0] }"#,
        // Its code is also that of a rate limit.
        r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
        r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
    ] {
        node.set_read_reply(Reply::RawError(error.into()));
        let response = post(&service, call(1, "eth_getLogs", &json!([{}]))).await;
        assert_eq!(response.body, format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{error}}}"));
    }
    let url = node.url();
    let leaking_error = format!(
        "{{\"code\":-32000,\"message\":\"POST {url}: canarypass canary q\",\"data\":[\"c\\u0061nary-key-1\"]}}"
    );
    node.set_read_reply(Reply::RawError(leaking_error));
    let redacted = json!({ "code": -32000, "message": "POST ***: *** ***", "data": ["***"] });
    assert_eq!(error(&service, balance(1, "pending")).await, redacted);
    // Each call was sent once: the service does not retry a JSON-RPC error.
    assert_eq!(node.reads().len(), 4);
}

/// Returns the error that the service sends if no node returned a usable response.
fn unavailable() -> Value {
    json!({ "code": -32002, "message": "no upstream returned a usable response" })
}

fn rate_limited() -> Value {
    json!({ "code": -32005, "message": "the upstreams are rate limiting; retry later" })
}

/// Checks and removes the time to wait of an error that has one.
fn without_wait(mut error: Value) -> Value {
    if let Some(data) = error.as_object_mut().unwrap().remove("data") {
        let wait = data["retry_after"].as_u64().unwrap();
        assert!((1..=60).contains(&wait), "{data}");
    }
    error
}

#[tokio::test]
async fn upstream_failures_get_the_services_own_errors() {
    let (node, service) = start(Reply::Echo, "").await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for reply in [
        raw(200, "<html>canary</html>"),
        raw(502, "canary"),
        raw(307, "canary"),
        raw(200, "{\"id\":0,\"result\":\"canary\"}"),
        Reply::RawError("{\"code\":\"canary\",\"message\":\"canary\"}".into()),
        Reply::RawError(format!("{{\"code\":1,\"message\":\"\",\"data\":{deep}}}")),
    ] {
        node.set_read_reply(reply.clone());
        assert_eq!(error(&service, balance(1, "pending")).await, unavailable(), "{reply:?}");
    }
    // This case comes last, because after a 429 the service pauses calls to the node.
    node.set_read_reply(raw(429, "canary"));
    let reads = node.reads().len() + 1;
    for _ in 0..2 {
        let limited = error(&service, balance(1, "pending")).await;
        assert!(limited["data"]["retry_after"].is_u64(), "{limited}");
        assert_eq!(without_wait(limited), rate_limited());
        assert_eq!(node.reads().len(), reads);
    }
}

#[tokio::test]
async fn failed_read_is_retried_at_the_next_node() {
    for reply in [
        raw(500, "no"),
        raw(429, "slow down"),
        raw(200, "not JSON"),
        node_error(-32601, "no such method"),
        node_error(-32016, "over rate limit"),
    ] {
        println!("{reply:?}");
        let (_first, second, service) = start_two(reply, Reply::Echo, "").await;
        assert_echoed(&service).await;
        assert_echoed(&service).await;
        assert_eq!(second.reads().len(), 2);
    }
}

#[tokio::test]
async fn unsupported_method_does_not_affect_other_methods() {
    let method_not_found = || node_error(-32601, "canary");
    let (node, other, service) =
        start_two(method_not_found(), Reply::Echo, "block_time = \"500ms\"").await;
    let simulate = || call(1, "eth_simulateV1", &json!([{}, "pending"]));
    for _ in 0..2 {
        assert_eq!(result(&service, simulate()).await[1], "pending");
    }
    // The node is skipped for this method only.
    assert_eq!((node.reads().len(), other.reads().len()), (1, 2));
    node.set_read_reply(Reply::Echo);
    assert_echoed(&service).await;
    assert_eq!((node.reads().len(), other.reads().len()), (2, 2));
    node.wait_for_poll().await;

    // If no node supports the method, the next call is sent anyway: the error may have been specific to one call.
    let (node, service) = start(method_not_found(), "").await;
    let unsupported =
        json!({ "code": -32601, "message": "the upstreams do not support the method" });
    assert_eq!(error(&service, simulate()).await, unsupported);
    node.set_read_reply(Reply::Echo);
    assert_eq!(result(&service, simulate()).await[1], "pending");

    // It is reported only if every node lacks it.
    for (first, expected) in [(raw(502, ""), unavailable()), (raw(429, ""), rate_limited())] {
        let (_node, _other, service) = start_two(first, method_not_found(), "").await;
        for _ in 0..2 {
            assert_eq!(without_wait(error(&service, balance(1, "pending")).await), expected);
        }
    }
}

#[tokio::test]
async fn node_that_does_not_report_the_chain_gets_no_read() {
    let (wrong, right) =
        (MockNode::for_reads(Reply::Echo).await, MockNode::for_reads(Reply::Echo).await);
    wrong.set_chain_id(1);
    let service = TestServer::start(&read_chain(&[&wrong, &right], "")).await;
    assert_echoed(&service).await;
    assert_echoed(&service).await;
    assert_eq!((wrong.reads().len(), right.reads().len()), (0, 2));
    let read_url = format!("read_urls = {:?}", [wrong.url()]);
    for (polled, more) in [(&wrong, ""), (&right, read_url.as_str())] {
        let service = TestServer::start(&read_chain(&[polled], more)).await;
        for slot in [slot(1, "pending"), slot(2, "pending")] {
            assert_eq!(error(&service, slot).await, unavailable(), "{more}");
        }
    }
    assert_eq!((wrong.reads().len(), right.reads().len()), (0, 2));
    let silent = MockNode::scripted(2020, |call| match call.method.as_str() {
        "eth_chainId" => Reply::Error(-32000),
        "eth_feeHistory" => Reply::history(1000, 3, 30),
        _ => Reply::Result(json!("0x1")),
    })
    .await;
    let service = TestServer::start(&read_chain(&[&silent], "")).await;
    assert_eq!(error(&service, balance(1, "latest")).await, unavailable());
    let counter = "gas_suggestion_upstream_reads_total{chain=\"ronin\",upstream=\"0\",outcome=\"unverified_chain\"}";
    assert_eq!(service.count(counter).await, 1);
    assert_eq!((silent.calls("eth_getBalance"), silent.chain_checks() > 0), (0, true));
}

#[tokio::test]
async fn chain_id_is_verified_again_after_failures() {
    let (node, service) = start(Reply::Echo, "").await;
    post(&service, balance(1, "pending")).await;
    assert_eq!(node.chain_checks(), 1);
    node.set_read_reply(raw(500, ""));
    for _ in 0..3 {
        post(&service, balance(1, "pending")).await;
    }
    // Meanwhile a node of another chain serves the same URL. Concurrent reads share one check.
    node.set_chain_id(1);
    node.set_read_reply(Reply::Echo);
    let response = post(&service, batch((0..16).map(|id| slot(id, "pending")))).await;
    for response in response.json().as_array().unwrap() {
        assert_eq!(response["error"], unavailable());
    }
    assert_eq!((node.reads().len(), node.chain_checks()), (4, 2));
}

#[tokio::test]
async fn clients_with_short_timeouts_eventually_reach_the_next_node() {
    let (silent, healthy, service) = start_two(Reply::Echo, Reply::Echo, "").await;
    silent.hold_reads();
    let client = http_client::builder().timeout(Duration::from_millis(700)).build().unwrap();
    wait_until("the silent node is left", async || {
        let read = client.post(service.url("/rpc/ronin")).body(balance(1, "pending"));
        read.send().await.is_ok()
    })
    .await;
    assert_eq!(healthy.reads().len(), 1);
}

#[tokio::test]
async fn silent_reads_time_out_and_do_not_delay_polls() {
    let rpc = "[rpc]\ntimeout = \"2s\"\nmax_in_flight = 16\n";
    let (node, service) = start_reads(rpc, Reply::Echo, "block_time = \"50ms\"").await;
    node.hold_reads();
    let started = Instant::now();
    let reads = post_all(&service, (0..4).map(|id| slot(id, "pending")));
    let watching = async {
        node.wait_for_pending(4).await;
        for block in 1001..1005 {
            node.set_reply(Reply::history(block, 3, 30));
            let response = service.wait_for_block(SUGGESTION, block).await;
            assert_eq!((response.status, response.header("x-stale")), (200, ""));
        }
        // A fifth read is rejected at once.
        assert_eq!(error(&service, balance(9, "pending")).await["code"], -32005);
    };
    let (responses, ()) = tokio::join!(reads, watching);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for response in responses {
        let expected = json!({ "code": -32002, "message": "no upstream responded in time" });
        assert_eq!(response["error"], expected);
    }
    node.release_reads();
    assert_eq!(post(&service, balance(1, "pending")).await.json()["result"][1], "pending");
}

#[tokio::test]
async fn silent_node_leaves_time_for_the_next_one_and_may_still_respond() {
    let (silent, healthy, service) = start_two(Reply::Echo, Reply::Echo, "").await;
    silent.hold_reads();
    assert_echoed(&service).await;
    // The responsive node is tried first from then on.
    post(&service, balance(1, "pending")).await;
    assert_eq!((silent.reads().len(), healthy.reads().len()), (1, 2));

    let (slow, silent, service) = start_two(Reply::Echo, Reply::Echo, "").await;
    slow.hold_reads();
    silent.hold_reads();
    let open_gate = async {
        silent.wait_for_pending(1).await;
        slow.release_reads();
    };
    tokio::join!(assert_echoed(&service), open_gate);
}

#[tokio::test]
async fn coalesced_read_keeps_its_own_timeout() {
    let rpc = "[rpc]\ntimeout = \"1s\"\n";
    let (node, service) = start_reads(rpc, Reply::Echo, "").await;
    node.hold_reads();
    let first = post(&service, balance(1, "pending"));
    let second = async {
        node.wait_for_pending(1).await;
        // More than half of the timeout elapses before the second read.
        tokio::time::sleep(Duration::from_millis(600)).await;
        let second = post(&service, balance(2, "pending"));
        let open_gate = async {
            node.wait_for_reads(2).await;
            node.release_reads();
        };
        tokio::join!(second, open_gate).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.json()["error"]["message"], "no upstream responded in time");
    assert_eq!(second.json()["result"][1], "pending", "{second:?}");
}

#[tokio::test]
async fn shared_call_continues_after_a_client_disconnects() {
    let (node, service) = start(Reply::Result(json!("0x7")), "").await;
    node.hold_reads();
    let first = send(service.address(), &balance(1, "latest")).await;
    node.wait_for_pending(1).await;
    let other = post(&service, balance(2, "latest"));
    let leaving = async {
        drop(first);
        // The other client's request makes the call again, whether it came before or after the client left.
        node.wait_for_reads(2).await;
        node.release_reads();
    };
    let (other, ()) = tokio::join!(other, leaving);
    assert_eq!(other.json()["result"], "0x7", "{other:?}");
}

#[tokio::test]
async fn too_large_response_is_rejected_without_penalising_the_node() {
    let too_large = Reply::Result(json!("x".repeat(10 * MIB)));
    let (node, other) =
        (MockNode::for_reads(too_large).await, MockNode::for_reads(Reply::Echo).await);
    // A call that may change something is not sent to the next node while the first one is slow.
    let chain = read_chain(&[&node, &other], "rpc_methods = [\"debug_traceCall\"]");
    let service = TestServer::with_server("[rpc]\ntimeout = \"1h\"\n", &chain).await;
    wait_until_polled(&service).await;
    let rejection = json!({ "code": -32005, "message": "the response is too large; request less" });
    assert_eq!(error(&service, call(1, "debug_traceCall", &json!([]))).await, rejection);
    let large = json!("x".repeat(9 * MIB));
    node.set_read_reply(Reply::Result(large.clone()));
    let response = post(&service, call(1, "debug_traceCall", &json!([]))).await;
    assert_eq!(response.body, format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{large}}}"));
    assert_eq!(other.reads(), []);
}

#[tokio::test]
async fn request_limits_are_enforced() {
    let more = "[rpc]\nmax_body = \"1 KiB\"\nmax_batch = 3\n[limits]\nbody_timeout = \"300ms\"\n";
    let (node, service) = start_reads(more, Reply::Echo, "").await;
    let members = |count: usize| batch((0..count).map(|id| call(id, "eth_chainId", &json!([]))));
    assert_eq!(post(&service, members(3)).await.json().as_array().unwrap().len(), 3);
    let too_long = json!({ "code": -32600, "message": "a batch may have at most 3 calls, not 4" });
    let rejected = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "error": too_long });
    let expected: Vec<_> = (0..4).map(|id| rejected(json!(id))).collect();
    assert_eq!(post(&service, members(4)).await.json(), json!(expected));
    assert_eq!(node.reads(), []);
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"eth_chainId\"}";
    let long_id = format!("{{\"id\":{:?}}}", "i".repeat(63));
    let some = format!("[{{\"id\":\"a\"}},{notification},{long_id},1]");
    assert_eq!(post(&service, some).await.json(), json!([rejected(json!("a"))]));
    assert_eq!(post(&service, "[1,2,3,4]").await.json(), rejected(Value::Null));
    let notifications = post(&service, format!("[{}]", [notification; 4].join(","))).await;
    assert_eq!((notifications.status, notifications.body.as_str()), (204, ""));

    let padded = |length: usize| format!("{:<length$}", balance(1, "latest"));
    assert_eq!(post(&service, padded(1024)).await.status, 200);
    post(&service, padded(1025)).await.assert_problem(413, "payload_too_large");
    for (headers, body, status) in [
        ("Transfer-Encoding: chunked", format!("401\r\n{}\r\n0\r\n\r\n", padded(1025)), 413),
        ("Content-Encoding: gzip\r\nContent-Length: 2", "{}".into(), 415),
    ] {
        let request = format!("POST /rpc/ronin HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}");
        let response = RawClient::connect(service.address()).await.request(request).await;
        assert_eq!(response.status(), status, "{headers}: {response:?}");
    }

    let wrong_method = service.get("/rpc/ronin").await;
    assert_eq!((wrong_method.status, wrong_method.header("allow")), (405, "POST"));
    service.post("/rpc/nowhere", "{}").await.assert_problem(404, "unknown_chain");
    assert_eq!(service.post("/rpc/2020", balance(1, "latest")).await.status, 200);
}

#[tokio::test]
async fn each_call_of_a_batch_and_each_64_kib_count_against_the_rate_limit() {
    let node = MockNode::for_reads(Reply::Echo).await;
    let batch = |count: usize| batch((0..count).map(|id| balance(id, "latest")));
    let start = async |burst: usize, rpc: &str| {
        let limits =
            format!("requests_per_second_per_client = 1\nrequest_burst_per_client = {burst}");
        let more = format!("[limits]\n{limits}\n{rpc}");
        TestServer::with_server(&more, &read_chain(&[&node], "")).await
    };
    // The errors of a batch over the maximum cost as much.
    for rpc in ["", "[rpc]\nmax_batch = 4\n"] {
        let service = start(30, rpc).await;
        assert_eq!(post(&service, batch(20)).await.status, 200);
        assert_rate_limited(&post(&service, batch(20)).await, 1..=30);
        // A rejected batch costs one request.
        assert_eq!(post(&service, batch(5)).await.status, 200);
    }
    // A batch above the burst is served from a full burst.
    let service = start(5, "").await;
    assert_eq!(post(&service, batch(20)).await.status, 200);
    // The wait is that of the whole cost, although not even the first unit is left.
    assert_rate_limited(&post(&service, batch(20)).await, 4..=6);
    // Of its burst, the first large response leaves nine requests, and the second none.
    node.set_read_reply(Reply::Result(json!("7".repeat(20 * 64 * 1024))));
    let service = start(30, "").await;
    for _ in 0..2 {
        assert_eq!(post(&service, balance(1, "latest")).await.status, 200);
    }
    assert_rate_limited(&post(&service, balance(1, "latest")).await, 10..=14);
}

/// Sends a call on its own connection.
async fn send(address: SocketAddr, body: &str) -> RawClient {
    let mut client = RawClient::connect(address).await;
    client.send(http_message::post("/rpc/ronin", "", body.as_bytes())).await;
    client
}

const MIB: usize = 1024 * 1024;

/// Replies with a large result of words that some JSON parsers take for numbers.
fn large_result() -> Reply {
    Reply::Result(json!(format!("NaN Infinity {}", "x".repeat(8 * MIB))))
}

/// Reads the start of a response. Returns true if it is a result, false if it is the error of the memory budget.
async fn is_result(reader: &mut RawClient) -> bool {
    let mut start = String::new();
    loop {
        start += &String::from_utf8(reader.read_bytes_until(b"\"", 1).await).unwrap();
        if start.contains("\"result\"") {
            return true;
        }
        if start.contains("too many large responses") {
            return false;
        }
    }
}

#[tokio::test]
async fn unread_responses_are_limited_by_the_memory_budget() {
    let node = MockNode::for_reads(large_result()).await;
    let text = format!(
        "[limits]\nmemory = \"256 MiB\"\nrequests_per_second_per_client = 0\nwrite_timeout = \"10m\"\n{}",
        read_chain(&[&node], "pricing.ask_interval = 0")
    );
    let file = File::new("full", &text);
    let service = Process::start(&["--config", file.path()], &[]);
    service.wait_for_ok(SUGGESTION).await;
    // The budget of 95 MiB holds 11 responses of 8 MiB with the buffers of their connections.
    let (mut readers, mut rejected) = (Vec::new(), 0);
    for id in 0..26 {
        let mut reader = send(service.address, &slot(id, "pending")).await;
        if is_result(&mut reader).await {
            readers.push(reader);
        } else {
            rejected += 1;
        }
    }
    assert_eq!((readers.len(), rejected), (11, 15));
    let resident = service.resident_kib() / 1024;
    assert!(resident < 95 + 96, "{resident} MiB");
    // Small responses and the gas suggestion still work. Large ones work again once the readers have disconnected.
    node.set_read_reply(Reply::Echo);
    assert!(is_result(&mut send(service.address, &slot(98, "pending")).await).await);
    assert_eq!(service.get(SUGGESTION).await.status, 200);
    node.set_read_reply(large_result());
    drop(readers);
    let is_served =
        async || is_result(&mut send(service.address, &slot(99, "pending")).await).await;
    wait_until("the memory is given back", is_served).await;
    // A response that is shared takes its memory once.
    let mut readers = Vec::new();
    for _ in 0..100 {
        let mut reader = send(service.address, &balance(0, "latest")).await;
        assert!(is_result(&mut reader).await);
        readers.push(reader);
    }
}
