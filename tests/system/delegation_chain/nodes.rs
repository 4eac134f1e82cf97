//! Look-ups on nodes with arbitrary replies, or none.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::missing_registry::look_ups;
use super::{
    ABSENT, INVALID, INVALID_RESULT, OVERLOADED, UNREACHABLE, assert_is_problem, start_service,
};
use crate::mock_node::{MockNode, Reply, read_chain, wait_until_polled};
use crate::registry::{self, ADDRESS, DELEGATE, VAULT, look_up, post};
use crate::test_server::TestServer;

/// Starts the service with this node as the source of delegations, these lines in `[rpc]`, and `more` in its chain.
async fn start(node: &MockNode, rpc: &str, more: &str) -> TestServer {
    let chain = read_chain(&[node], more);
    let service = start_service(&format!("[rpc]\n{rpc}\n{chain}")).await;
    wait_until_polled(&service).await;
    service
}

fn result(json: impl Into<String>) -> Reply {
    Reply::RawResult(json.into())
}

/// Returns `number` as a result of 32 bytes.
fn word(number: u64) -> Reply {
    result(format!("\"0x{number:064x}\""))
}

#[tokio::test]
async fn node_failures_are_never_reported_as_delegations() {
    let node = MockNode::for_reads(Reply::Echo).await;
    let service = start(&node, "", "").await;
    let raw = |status, body: &str| Reply::Raw(status, body.into());
    let error = |json: &str| Reply::RawError(json.into());
    for (reply, found) in [
        (raw(500, "canary"), UNREACHABLE),
        (raw(200, "<html>canary</html>"), UNREACHABLE),
        (raw(307, "canary"), UNREACHABLE),
        (raw(200, ""), UNREACHABLE),
        (raw(200, "{\"jsonrpc\":\"2.0\",\"id\":{id}}"), UNREACHABLE),
        (error("{\"code\":-32601,\"message\":\"no such method\"}"), UNREACHABLE),
        (error("\"canary\""), UNREACHABLE),
        (error("{\"code\":3,\"message\":\"execution reverted: canary\"}"), INVALID),
        (error("{\"code\":-32000,\"message\":\"canary\"}"), INVALID_RESULT),
        (result("\"0x\""), ABSENT),
        (result("null"), INVALID_RESULT),
        (result("false"), INVALID_RESULT),
        (result("0"), INVALID_RESULT),
        (result("[]"), INVALID_RESULT),
        (result("\"\""), INVALID_RESULT),
        (result(format!("\"{}\"", "0".repeat(64))), INVALID_RESULT),
        (result("\"0xcanary\""), INVALID_RESULT),
        (result(format!("\"0x{}\"", "f".repeat(63))), INVALID_RESULT),
        (result(format!("\"0x{}\"", "f".repeat(62))), INVALID),
    ] {
        node.set_read_reply(reply.clone());
        // Results of earlier replies are not cached.
        for (_, path) in look_ups() {
            assert_is_problem(&service.get(&path).await, found);
        }
    }
}

#[tokio::test]
async fn rate_limiting_and_unreachable_nodes_give_502() {
    let node = MockNode::for_reads(Reply::Raw(429, "canary".into())).await;
    let service = start(&node, "", "").await;
    for (_, path) in look_ups() {
        assert_is_problem(&service.get(&path).await, UNREACHABLE);
    }
    // After the first 429 the service backs off from the node.
    assert_eq!(node.reads().len(), 1);

    let service = start_service(&registry::chain("ronin", 2020, "http://127.0.0.1:9")).await;
    for (_, path) in look_ups() {
        assert_is_problem(&service.get(&path).await, UNREACHABLE);
    }
}

#[tokio::test]
async fn silent_node_times_out_at_the_rpc_timeout() {
    let node = MockNode::for_reads(Reply::Echo).await;
    let service = start(&node, "timeout = \"1s\"", "").await;
    node.hold_reads();
    let timed_out = (504, "upstream_timeout", "the chain's nodes did not respond in time");
    let started = Instant::now();
    let look_ups = look_ups();
    for response in join_all(look_ups.iter().map(|(_, path)| service.get(path))).await {
        assert_is_problem(&response, timed_out);
    }
    let elapsed = started.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&elapsed), "{elapsed:?}");
}

#[tokio::test]
async fn look_ups_beyond_max_in_flight_are_refused_at_once() {
    let node = MockNode::for_reads(word(1)).await;
    let service = start(&node, "max_in_flight = 1", "").await;
    node.hold_reads();
    let check = format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}");
    let in_flight = look_up(&service, &check);
    let others = async {
        node.wait_for_pending(1).await;
        for (_, path) in look_ups().iter().filter(|(_, path)| *path != check) {
            let response = service.get(path).await;
            assert_is_problem(&response, OVERLOADED);
            assert_eq!(response.header("retry-after"), "1");
        }
        node.release_reads();
    };
    let (found, ()) = tokio::join!(in_flight, others);
    assert_eq!(found, "true");
    assert_eq!(node.reads().len(), 1);
}

#[tokio::test]
async fn look_ups_ignore_the_client_method_allow_list() {
    let node = MockNode::for_reads(word(1)).await;
    let service = start(&node, "", "rpc_methods = [\"eth_chainId\"]").await;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{ "to": ADDRESS }, "latest"],
    });
    assert_eq!(post(&service, "/rpc/ronin", &call).await.json()["error"]["code"], -32601);
    for (kind, path) in look_ups() {
        match kind {
            "bool" => assert_eq!(look_up(&service, &path).await, "true"),
            "amount" => assert_eq!(look_up(&service, &path).await, "\"1\""),
            _ => assert_is_problem(&service.get(&path).await, INVALID),
        }
    }
}
