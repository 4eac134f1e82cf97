//! How a chain moves its base fee: from the configuration, its headers, or its blocks.

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

/// Starts a node at block 1000 with a base fee of 30 gwei and this header, and a service that polls it, with `more` lines of
/// the chain.
async fn start(header: Reply, more: &str) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::history(1000, 30, 30)).await;
    node.set_header_reply(header);
    let times = "block_time = \"50ms\"\nstall_after = \"0s\"\nmax_block_age = \"1h\"";
    let service = TestServer::start(&chain_of(&[&node], &format!("{times}\n{more}"))).await;
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
    let (node, service) = start(jovian(25, 2, GWEI), "").await;
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
    for without in [json!("0x"), json!("0x0"), Value::Null] {
        change_header(&node, header(&without)).await;
        wait_for_parameters(&service, UNKNOWN).await;
        change_header(&node, jovian(25, 2, 0)).await;
        wait_for_parameters(&service, (Some(["25"; 2]), None, Some("header"))).await;
    }
    change_header(&node, header(&json!("0x"))).await;
    wait_for_parameters(&service, UNKNOWN).await;
    // How the base fee moves is not known any more, but a covered one needs no rule.
    assert_eq!(inclusion(90).await, [Value::Null, json!(0)]);
}

#[tokio::test]
async fn what_the_operator_writes_wins() {
    let more = "pricing.empty_block_denominator = 300";
    let (_node, service) = start(jovian(250, 6, GWEI), more).await;
    let header = (Some(["50", "300"]), Some("1000000000"), Some("header"));
    wait_for_parameters(&service, header).await;
    let more = "pricing.base_fee_change_denominator = 8";
    let (_node, service) = start(jovian(250, 6, GWEI), more).await;
    let configured = (Some(["8"; 2]), Some("1000000000"), Some("configuration"));
    wait_for_parameters(&service, configured).await;
}

#[tokio::test]
async fn blocks_tell_the_rule_of_a_chain_without_parameters() {
    let mut base_fees = vec![30 * GWEI];
    let ratios: Vec<f64> = (0..20).map(|block| f64::from(block % 5) / 4.0).collect();
    for ratio in &ratios {
        let base_fee = base_fees[base_fees.len() - 1];
        // Ratios of quarters: a target is two of them.
        let quarters = i64::from(*ratio >= 0.25)
            + i64::from(*ratio >= 0.5)
            + i64::from(*ratio >= 0.75)
            + i64::from(*ratio >= 1.0);
        let change = i64::try_from(base_fee).unwrap() * (quarters - 2).abs() / 2 / 8;
        let change = if quarters < 2 { -change } else { change.max(i64::from(quarters > 2)) };
        base_fees.push(base_fee.checked_add_signed(change).unwrap());
    }
    let base_fees: Vec<_> = base_fees.iter().map(|fee| format!("{fee:#x}")).collect();
    let (node, service) = start(header(&Value::Null), "").await;
    node.set_reply(Reply::Result(json!({
        "oldestBlock": "0x3d5", "baseFeePerGas": base_fees, "gasUsedRatio": ratios,
        "reward": vec![["0x1"]; 20],
    })));
    wait_for_parameters(&service, (Some(["8"; 2]), None, Some("observed"))).await;
}
