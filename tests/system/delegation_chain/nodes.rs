//! Look-ups on nodes with arbitrary replies. `tests/integration/reads.rs` has nodes that are slow, full or gone.

use serde_json::json;

use super::missing_registry::look_ups;
use super::{ABSENT, INVALID, INVALID_RESULT, UNREACHABLE, assert_is_problem, start_service};
use crate::mock_node::{MockNode, Reply, read_chain, wait_until_polled};
use crate::registry::{ADDRESS, look_up, post};
use crate::test_server::TestServer;

/// Starts the service with this node as the source of delegations, and `more` in its chain.
async fn start(node: &MockNode, more: &str) -> TestServer {
    let service = start_service(&read_chain(&[node], more)).await;
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
    let service = start(&node, "").await;
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
async fn look_ups_ignore_the_client_method_allow_list() {
    let node = MockNode::for_reads(word(1)).await;
    let service = start(&node, "rpc_methods = [\"eth_chainId\"]").await;
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
