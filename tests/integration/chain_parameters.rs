//! How a chain moves its base fee, by its headers. Unit tests have the rules that blocks tell and that the operator writes;
//! the simulator has a year of them.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, chain_of};
use crate::test_server::{Response, TestServer};

const GWEI: u64 = 1_000_000_000;
const MARKET: &str = "/v1/a/fee-market";

/// Returns a header of now with this `extraData`.
fn header(extra_data: &Value) -> Reply {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Reply::Result(json!({
        "number": "0x3e8", "timestamp": format!("{now:#x}"), "extraData": extra_data,
    }))
}

/// Returns the header of a Jovian block.
fn jovian(denominator: u32, elasticity: u32, minimum_base_fee: u64) -> Reply {
    let numbers = format!("0x01{denominator:08x}{elasticity:08x}{minimum_base_fee:016x}");
    header(&json!(numbers))
}

/// Starts a node at block 1000 with a base fee of 30 gwei and this header, and a service that polls it.
async fn start(header: Reply) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::history(1000, 30, 30)).await;
    node.set_header_reply(header);
    let times = "block_time = \"50ms\"\nstall_after = \"0s\"\nmax_block_age = \"1h\"";
    let service = TestServer::start(&chain_of(&[&node], times)).await;
    (node, service)
}

/// Denominators of a full and of an empty block, minimum base fee in wei, source.
type Parameters<'a> = (Option<[&'a str; 2]>, Option<&'a str>, Option<&'a str>);

const UNKNOWN: Parameters<'_> = (None, None, None);

/// Waits until the fee market has these parameters.
async fn wait_for_parameters(service: &TestServer, parameters: Parameters<'_>) {
    let (denominators, minimum, source) = parameters;
    let [full_block, empty_block] = denominators.map_or([None; 2], |both| both.map(Some));
    let reason = source.is_none().then_some("unknown");
    let expected = json!({
        "base_fee_change_denominator": full_block, "empty_block_denominator": empty_block,
        "minimum_base_fee": minimum, "source": source, "reason": reason,
    });
    let are_expected =
        |market: &Response| market.status == 200 && market.json()["chain_parameters"] == expected;
    service.wait_for(MARKET, are_expected).await;
}

/// Makes the service read this header, as after each failed poll.
async fn change_header(node: &MockNode, header: Reply) {
    node.set_header_reply(header);
    let reads = node.header_reads();
    node.set_reply(Reply::Error(-32000));
    node.wait_for_poll().await;
    node.set_reply(Reply::history(1001, 30, 30));
    crate::test_server::wait_until("a header", async || node.header_reads() > reads).await;
}

#[tokio::test]
async fn the_parameters_of_headers_change_the_market_while_the_service_runs() {
    let (node, service) = start(jovian(25, 2, GWEI)).await;
    wait_for_parameters(&service, (Some(["25"; 2]), Some("1000000000"), Some("header"))).await;
    let market = service.get(MARKET).await.json();
    // The max fee of 2 x 30 + 30 gwei covers 1.04 to the power of 28, and of an eighth 1.125 to the power of 9.
    assert_eq!(market["covers_full_blocks"]["medium"], 29);
    let inclusion = async |max_fee_gwei: u64| {
        let query = format!("max_fee_per_gas={}&max_priority_fee_per_gas=0", max_fee_gwei * GWEI);
        let body = service.get(&format!("/v1/a/inclusion?{query}")).await.json();
        [body["covers_full_blocks"].clone(), body["not_before_blocks"].clone()]
    };
    assert_eq!(inclusion(90).await, [json!(29), json!(0)]);
    assert_eq!(inclusion(19).await, [json!(0), json!(12)]);

    change_header(&node, jovian(100, 2, 20 * GWEI)).await;
    wait_for_parameters(&service, (Some(["100"; 2]), Some("20000000000"), Some("header"))).await;
    assert_eq!(inclusion(20).await, [json!(0), json!(41)]);
    // The base fee stays above the minimum.
    assert_eq!(inclusion(19).await, [json!(0), Value::Null]);

    change_header(&node, jovian(250, 6, 0)).await;
    wait_for_parameters(&service, (Some(["50", "250"]), None, Some("header"))).await;

    // A header without parameters takes them back.
    change_header(&node, header(&json!("0x"))).await;
    wait_for_parameters(&service, UNKNOWN).await;
    // How the base fee moves is not known any more, but a covered one needs no rule.
    assert_eq!(inclusion(90).await, [Value::Null, json!(0)]);
}
