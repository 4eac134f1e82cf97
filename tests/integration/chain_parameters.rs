//! Parameters of the base fee in the headers of an OP Stack chain.

use serde_json::{Value, json};

use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply, chain_of};
use crate::test_server::{Response, TestServer, wait_for, wait_until};

const GWEI: u64 = 1_000_000_000;
const MARKET: &str = "/v1/a/fee-market";

/// Returns the header of a Jovian block with elasticity 2.
fn header(denominator: u32, minimum_base_fee: u64) -> Reply {
    header_of(denominator, 2, minimum_base_fee)
}

fn header_of(denominator: u32, elasticity: u32, minimum_base_fee: u64) -> Reply {
    let extra_data = format!("0x01{denominator:08x}{elasticity:08x}{minimum_base_fee:016x}");
    Reply::Result(json!({ "number": "0x3e8", "extraData": extra_data, "transactions": ["0x12"] }))
}

/// Starts a node of this chain at block 1000 with a base fee of 30 gwei, and with this header.
async fn node(chain_id: u64, header: Reply) -> MockNode {
    let node = MockNode::start(chain_id, Reply::history(1000, 30, 30)).await;
    node.set_header_reply(header);
    node
}

fn chain(nodes: &[&MockNode], more: &str) -> String {
    let times = "block_time = \"50ms\"\nflashblock_time = \"0s\"\nstall_after = \"0s\"";
    chain_of(nodes, &format!("{times}\n{more}"))
}

/// Starts a node and a service that polls it, with `more` lines of the chain.
async fn start(chain_id: u64, header: Reply, more: &str) -> (MockNode, TestServer) {
    let node = node(chain_id, header).await;
    let service = TestServer::start(&chain(&[&node], more)).await;
    (node, service)
}

/// Denominators of a full and of an empty block, minimum base fee in wei, source.
type Parameters<'a> = (Option<[&'a str; 2]>, Option<&'a str>, &'a str);

const UNKNOWN: Parameters<'_> = (None, None, "unknown");
const PRESET_OF_2020: Parameters<'_> = (Some(["50", "250"]), Some("1000000000"), "configuration");

/// Waits until the fee market has these parameters.
async fn wait_for_parameters(service: &TestServer, parameters: Parameters<'_>) {
    let (denominators, minimum, source) = parameters;
    let [full_block, empty_block] = denominators.map_or([None; 2], |both| both.map(Some));
    let expected = json!({
        "base_fee_change_denominator": full_block, "empty_block_denominator": empty_block,
        "minimum_base_fee": minimum, "source": source,
    });
    let are_expected =
        |market: &Response| market.status == 200 && market.json()["chain_parameters"] == expected;
    service.wait_for(MARKET, are_expected).await;
}

/// Publishes this block, and waits for two polls after it.
async fn advance_to(service: &TestServer, node: &MockNode, newest_block: u64) {
    node.set_reply(Reply::history(newest_block, 30, 30));
    service.wait_for_block(MARKET, newest_block).await;
    node.wait_for_poll().await;
    node.wait_for_poll().await;
}

fn gauge(parameter: &str, value: &str) -> String {
    format!(
        "gas_suggestion_chain_parameters_disagree{{chain=\"a\",parameter=\"{parameter}\"}} {value}\n"
    )
}

async fn wait_for_gauges(service: &TestServer, floor: &str, denominator: &str) {
    service.wait_for_sample(&gauge("base_fee_floor", floor)).await;
    service.wait_for_sample(&gauge("base_fee_change_denominator", denominator)).await;
}

#[tokio::test]
async fn headers_are_read_again_after_100_blocks_and_change_the_market() {
    let (node, service) = start(7, header(25, GWEI), "").await;
    wait_for_parameters(&service, (Some(["25"; 2]), Some("1000000000"), "header")).await;
    wait_for_gauges(&service, "0", "0").await;
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

    node.set_header_reply(header(100, 20 * GWEI));
    advance_to(&service, &node, 1099).await;
    assert_eq!(node.header_reads(), 1);
    advance_to(&service, &node, 1100).await;
    wait_for_parameters(&service, (Some(["100"; 2]), Some("20000000000"), "header")).await;
    assert_eq!(inclusion(20).await, [json!(0), json!(41)]);
    // The base fee stays above the minimum.
    assert_eq!(inclusion(19).await, [json!(0), Value::Null]);
    assert_eq!(node.header_reads(), 2);

    // A header without parameters takes them back, a failure does not.
    node.set_header_reply(Reply::Error(-32000));
    advance_to(&service, &node, 1200).await;
    wait_for_parameters(&service, (Some(["100"; 2]), Some("20000000000"), "header")).await;
    node.set_header_reply(Reply::Result(json!({ "extraData": "0x" })));
    advance_to(&service, &node, 1300).await;
    wait_for_parameters(&service, UNKNOWN).await;
    wait_for_gauges(&service, "NaN", "NaN").await;
    // How the base fee moves is not known any more, but a covered one needs no rule.
    assert_eq!(inclusion(90).await, [Value::Null, json!(0)]);
    assert_eq!(node.header_reads(), 4);

    // A chain that was reset.
    node.set_header_reply(header(50, 0));
    advance_to(&service, &node, 1200).await;
    wait_for_parameters(&service, (Some(["50"; 2]), Some("0"), "header")).await;
    assert_eq!(node.header_reads(), 5);
}

#[tokio::test]
async fn a_contradiction_is_logged_once_for_each_value_of_the_headers() {
    let node = node(2020, header_of(250, 6, GWEI)).await;
    let service = LoggedProcess::start("chain-parameters", &chain(&[&node], ""));
    let [public, admin] = service.addresses.map(|address| format!("http://{address}"));
    let client = http_client::new();
    let wait_for_text = async |url: String, text: &str| {
        wait_for(&client, &url, |page| page.body.contains(text)).await;
    };
    let wait_for_gauge = async |parameter, value: &str| {
        wait_for_text(format!("{admin}/metrics"), &gauge(parameter, value)).await;
    };
    wait_for_gauge("base_fee_floor", "0").await;
    for (newest, elasticity, minimum) in
        [(1100, 6, 20), (1200, 6, 20), (1300, 2, 20), (1400, 2, 25), (1500, 2, 25)]
    {
        let reads = node.header_reads();
        node.set_header_reply(header_of(250, elasticity, minimum * GWEI));
        node.set_reply(Reply::history(newest, 30, 30));
        wait_until("a read", async || node.header_reads() > reads).await;
        wait_for_gauge("base_fee_floor", "1").await;
        let minimum = format!("\"minimum_base_fee\":\"{}\"", minimum * GWEI);
        wait_for_text(format!("{public}{MARKET}"), &minimum).await;
    }
    wait_for_gauge("base_fee_change_denominator", "1").await;
    let log = service.stop();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let warnings = entries.filter(|entry| {
        entry["level"] == "WARN" && entry["message"].as_str().unwrap().contains("headers")
    });
    let fields = ["chain", "key", "configured", "header", "configured_gwei", "header_gwei"];
    let warnings: Vec<_> = warnings.map(|entry| fields.map(|field| entry[field].clone())).collect();
    let floor = |minimum| {
        let key = "chains.a.pricing.base_fee_floor";
        [json!("a"), json!(key), Value::Null, Value::Null, json!("1"), json!(minimum)]
    };
    let key = "chains.a.pricing.base_fee_change_denominator";
    let denominator = [json!("a"), json!(key), json!("50"), json!("250"), Value::Null, Value::Null];
    assert_eq!(warnings, [floor("20"), denominator, floor("25")]);
}

#[tokio::test]
async fn without_the_key_no_header_is_requested() {
    let (node, service) = start(2020, header(250, GWEI), "chain_parameters = \"off\"").await;
    wait_for_parameters(&service, PRESET_OF_2020).await;
    advance_to(&service, &node, 1200).await;
    wait_for_parameters(&service, PRESET_OF_2020).await;
    assert_eq!(node.header_reads(), 0);
    let metrics = service.admin("/metrics").await.body;
    assert!(!metrics.contains("gas_suggestion_chain_parameters_disagree{"), "{metrics}");
    // A preset that is not of the OP Stack has the key off.
    let (node, service) = start(1, header(250, GWEI), "").await;
    advance_to(&service, &node, 1200).await;
    wait_for_parameters(&service, (Some(["8"; 2]), None, "configuration")).await;
    assert_eq!(node.header_reads(), 0);
}

#[tokio::test]
async fn both_denominators_of_an_empty_and_a_full_block_may_contradict() {
    let (node, service) = start(2020, header_of(200, 5, GWEI), "").await;
    wait_for_parameters(&service, (Some(["50", "200"]), Some("1000000000"), "header")).await;
    wait_for_gauges(&service, "0", "0").await;
    service.wait_for_sample(&gauge("empty_block_denominator", "1")).await;
    // An operator's own value wins, for an empty block alone.
    let more = "pricing.empty_block_denominator = 300";
    let service = TestServer::start(&chain(&[&node], more)).await;
    wait_for_parameters(&service, (Some(["50", "300"]), Some("1000000000"), "header")).await;
}

#[tokio::test]
async fn a_failed_read_changes_nothing() {
    let in_header = |extra_data: Value| Reply::Result(json!({ "extraData": extra_data }));
    for header in [
        Reply::Raw(502, "<html>".into()),
        Reply::NoResponse,
        Reply::RawResult("null".into()),
        Reply::Result(json!({ "number": "0x3e8" })),
        in_header(json!("0x0")),
    ] {
        let named = format!("{header:?}");
        let (node, service) = start(7, header, "").await;
        wait_for_parameters(&service, UNKNOWN).await;
        wait_until(&named, async || node.header_reads() == 1).await;
        advance_to(&service, &node, 1001).await;
        wait_for_parameters(&service, UNKNOWN).await;
        assert_eq!(node.header_reads(), 1, "{named}");
    }
    let (node, service) = start(2020, Reply::Error(-32601), "").await;
    wait_until("a read", async || node.header_reads() == 1).await;
    wait_for_parameters(&service, PRESET_OF_2020).await;
}

#[tokio::test]
async fn another_node_is_asked_when_one_lacks_the_method() {
    let nodes = [node(7, Reply::Error(-32601)).await, node(7, header(25, 0)).await];
    let service = TestServer::start(&chain(&[&nodes[0], &nodes[1]], "")).await;
    wait_for_parameters(&service, (Some(["25"; 2]), Some("0"), "header")).await;
    assert_eq!(nodes.each_ref().map(MockNode::header_reads), [1, 1]);
}
