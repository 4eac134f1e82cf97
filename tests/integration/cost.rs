//! The cost of a transaction in all: routes, parameters of OP Stack chains, and reasons why it is not known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::fixtures::{self, computed_history, l1_attributes_deposit as deposit, seconds, wei};
use crate::mock_node::{Call, MockNode, Reply, fee_history};
use crate::test_server::{Response, TestServer};

const GWEI: u128 = 1_000_000_000;
const OP_STACK: &str = "data_fee = \"op-stack\"";
const READ: &str = "eth_getTransactionByBlockNumberAndIndex";

/// Sender and recipient of the transfer whose gas the service asks for.
const MINER: &str = "0x95222290dd7278aa3ddd389cc1e1d165cc4bafe5";
const DEAD: &str = "0x000000000000000000000000000000000000dEaD";

/// A signed transfer of type 2 on chain 7.
const SIGNED: &str = "0x02f86b0705843b9aca00850861c4680082520894d8da6bf26964af9d7eed9e03e53415d37aa960450180c001a0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0a00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20";

/// Starts a node of chain 7 whose newest block begins with `first`. The base fee is 3 gwei, the tip 30.
async fn node(first: Reply) -> (MockNode, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let node = MockNode::scripted(7, move |call: &Call| match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_feeHistory" => {
            let mut history = fee_history(1000, 3, 30);
            history["baseFeePerBlobGas"] = json!(vec!["0x5"; 21]);
            Reply::Result(history)
        }
        READ => {
            assert_eq!(call.params(), json!(["latest", "0x0"]));
            counted.fetch_add(1, Ordering::Relaxed);
            first.clone()
        }
        _ => Reply::Error(-32601),
    })
    .await;
    (node, reads)
}

async fn start(node: &MockNode, more: &str) -> TestServer {
    let floors = "pricing.base_fee_floor = \"0 wei\"\npricing.priority_fee_floor = \"0 wei\"\n";
    let chain =
        node.chain("a", &format!("max_block_age = \"0s\"\nstall_after = \"0s\"\n{floors}{more}"));
    let service = TestServer::start(&chain).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    service
}

/// Waits for a cost with this reason.
async fn with_reason(service: &TestServer, query: &str, reason: Value) -> Value {
    let has_reason = |response: &Response| {
        response.status == 200 && response.json()["data_fee_reason"] == reason
    };
    service.wait_for(&format!("/v1/a/cost?{query}"), has_reason).await.json()
}

#[tokio::test]
async fn an_op_stack_chain_adds_its_data_and_operator_fees() {
    let started = Instant::now();
    let (node, reads) = node(Reply::Result(deposit("3db6be2b", 178))).await;
    // What clients may cause is not enough for the two reads that have to agree: the service has calls of its own.
    let service = start(&node, &format!("{OP_STACK}\nreads_per_minute = 1")).await;
    let query = "gas=21000&bytes=120&balance=1000000000000000000";
    let mut cost = with_reason(&service, query, Value::Null).await;
    let read_at = cost["data_fee"]["observed_at"].take();
    let poor = service.get("/v1/a/cost?gas=21000&balance=5").await.json();
    let mut market = service.get("/v1/a/fee-market").await.json();
    assert_eq!(market["data_fee"]["observed_at"].take(), read_at);
    assert_eq!(market["data_fee_reason"], Value::Null);
    // 120 bytes are at most 136 after compression, which is below the least size of 100: (5227 · 16 · 1,055,991,687 + 1,014,213)
    // / 10,000 wei. The operator's fee is 21,000 · 7 · 100 + 8 wei, and 21,000 gas cost 33 gwei each.
    let shown = json!({
        "cost": cost, "data_fee": market["data_fee"], "poor": poor["tiers"]["high"]["max_send"],
        "cheapest": service.get("/v1/cheapest").await.json(),
    });
    fixtures::assert_snapshot("cost-op-stack", &format!("{shown:#}"));
    // The second read has confirmed the first. The requests above caused no call, and the next read is due after 12 s.
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    let ok = "gas_suggestion_data_fee_reads_total{chain=\"a\",outcome=\"ok\"} 2\n";
    let age = "gas_suggestion_data_fee_parameters_age_seconds{chain=\"a\"} ";
    let metrics = service.admin("/metrics").await.body;
    let age = metrics.lines().find_map(|line| line.strip_prefix(age)?.parse::<f64>().ok());
    let is_since_read = age.is_some_and(|age| age < started.elapsed().as_secs_f64());
    assert!(metrics.contains(ok) && is_since_read, "{metrics}");
}

#[tokio::test]
async fn a_signed_transaction_has_an_exact_fee() {
    let (node, _) = node(Reply::Result(deposit("440a5e20", 164))).await;
    let service = start(&node, OP_STACK).await;
    with_reason(&service, "gas=21000", Value::Null).await;
    let post = async |transaction: &str| {
        let body = json!({ "gas": "21000", "transaction": transaction, "balance": "1" });
        service.post("/v1/a/cost", body.to_string()).await
    };
    let signed = post(SIGNED).await.json();
    assert_eq!(signed["data_fee"]["exact"], true);
    assert_eq!(signed["bytes"], (SIGNED.len() - 2) / 2);
    assert_eq!(signed["data_fee"]["operator_fee"]["max"], "0");
    // The bound for its size is not below.
    let bound =
        service.get(&format!("/v1/a/cost?gas=21000&bytes={}", signed["bytes"])).await.json();
    assert!(wei(&bound["data_fee"]["fee"]) >= wei(&signed["data_fee"]["fee"]));
    let unsigned = post("0xc6808080808080").await.json();
    assert_eq!((&unsigned["data_fee"]["exact"], &unsigned["bytes"]), (&json!(false), &json!(75)));
}

#[tokio::test]
async fn what_is_not_known_is_null_with_its_reason() {
    let of_another_fork = Reply::Result(deposit("01020304", 178));
    let no_deposit = Reply::Result(json!({ "type": "0x2", "to": null, "input": "0x" }));
    let cases = [
        (Reply::Error(-32601), OP_STACK, "not_read"),
        (of_another_fork, OP_STACK, "unknown"),
        (no_deposit, OP_STACK, "unknown"),
        (Reply::Error(-32601), "data_fee = \"off\"", "unknown"),
        (Reply::Error(-32601), "", "unknown"),
    ];
    // Each waits for a second read.
    join_all(cases.map(async |(first, more, reason)| {
        let (node, _) = node(first).await;
        let service = start(&node, more).await;
        let cost = with_reason(&service, "gas=21000&balance=1", json!(reason)).await;
        assert_eq!(cost["data_fee"], Value::Null, "{more}");
        for tier in ["low", "medium", "high"] {
            let tier = &cost["tiers"][tier];
            let amounts = ["expected", "max", "max_send"].map(|name| tier[name].is_null());
            assert_eq!(amounts, [true; 3], "{more}");
            assert!(tier["max_fee_per_gas"].is_string(), "{more}");
        }
        assert_eq!(service.get("/v1/cheapest").await.json(), json!([]));
        assert_eq!(service.get("/v1/a/fee-market").await.json()["data_fee_reason"], reason);
    }))
    .await;
}

#[tokio::test]
async fn chains_without_a_data_fee_have_exact_zeros_and_blob_fees() {
    let (node, reads) = node(Reply::Error(-32601)).await;
    for (configured, kind, is_exact) in [
        ("none", "none", true),
        ("included", "included", true),
        // The tip grows with the data.
        ("included-in-tip", "included", false),
    ] {
        let service = start(&node, &format!("data_fee = \"{configured}\"")).await;
        let cost = service.get("/v1/a/cost?gas=21000").await.json();
        let expected = json!({
            "kind": kind, "exact": is_exact, "fee": "0", "max": "0",
            "operator_fee": { "expected": "0", "max": "0" }, "l1_block": null, "observed_at": null,
        });
        assert_eq!((&cost["data_fee"], &cost["blob_fee"]), (&expected, &Value::Null));
        let market = service.get("/v1/a/fee-market").await.json();
        assert_eq!(market["blob_base_fee_per_gas"], json!({ "latest": "5", "next": "5" }));
        let blobs = service.get("/v1/a/cost?gas=21000&blobs=2").await;
        if kind == "none" {
            let (expected, blobs) = (2 * 131_072 * 5, blobs.json());
            assert_eq!(wei(&blobs["blob_fee"]["expected"]), expected);
            assert_eq!(wei(&blobs["blob_fee"]["max"]), 2 * expected);
            let medium = |cost: &Value| wei(&cost["tiers"]["medium"]["max"]);
            assert_eq!(medium(&blobs) - medium(&cost), 2 * expected);
        } else {
            assert_eq!(blobs.status, 400);
        }
    }
    assert_eq!(reads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_max_fee_that_holds_for_a_time_leaves_less_behind() {
    // Of 199 rises from block to block four are a tenth.
    let base_fee = |block: u64| if block.is_multiple_of(50) { 33 * GWEI / 10 } else { 3 * GWEI };
    let rewards = |_| vec![30 * GWEI];
    let history = Arc::new(computed_history(801..=1000, base_fee, rewards));
    let node = MockNode::start(7, Reply::Newest(history)).await;
    let keys = "data_fee = \"none\"\nblock_time = \"12s\"\n";
    let service = start(&node, &format!("{keys}pricing.window_blocks = 200\n")).await;
    let query = "/v1/a/cost?gas=21000&balance=1000000000000000000";
    let cost = async |more: &str| service.get(&format!("{query}{more}")).await.json();
    let without = cost("").await;
    assert!(wei(&without["tiers"]["medium"]["max_fee_per_gas"]) > 36 * GWEI);
    assert_eq!(cost("&hold=0").await, without);
    for (more, seconds, base_fee, rises) in [
        ("&hold=30s", 30, 33 * GWEI / 10, 197),
        ("&hold=1500ms&probability=0.95", 2, 3 * GWEI, 199),
    ] {
        let held = cost(more).await;
        let facts = (&held["hold_seconds"], &held["estimated_from"]);
        assert_eq!(facts, (&json!(seconds), &json!(rises)), "{more}");
        for name in ["low", "medium", "high"] {
            let (tier, other) = (&held["tiers"][name], &without["tiers"][name]);
            let [tip, max_fee, max_send] =
                ["max_priority_fee_per_gas", "max_fee_per_gas", "max_send"]
                    .map(|it| wei(&tier[it]));
            assert_eq!(max_fee, tip + base_fee, "{more} {name}");
            assert_eq!(max_send, 1_000_000_000_000_000_000 - 21_000 * max_fee);
            assert!(max_send > wei(&other["max_send"]));
            assert_eq!(tier["expected"], other["expected"]);
        }
    }
    // What the tier covers already is not raised.
    let few = start(&node, &format!("{keys}pricing.base_fee_multiplier = 1.5\n")).await;
    let held = few.get(&format!("{query}&hold=10m")).await.json();
    let usual = few.get(query).await.json();
    assert_eq!((&held["tiers"], &held["hold_seconds"]), (&usual["tiers"], &json!(600)));
    let body = json!({ "gas": "21000", "transaction": SIGNED, "hold": "30s", "probability": 0.95 });
    let posted = service.post("/v1/a/cost", body.to_string()).await.json();
    assert_eq!((&posted["hold_seconds"], &posted["estimated_from"]), (&json!(30), &json!(197)));
}

#[tokio::test]
async fn a_chain_without_a_preset_tells_its_data_fee_and_the_gas_of_a_transfer() {
    let (l1_block, arb_sys) = (
        "0x4200000000000000000000000000000000000015",
        "0x0000000000000000000000000000000000000064",
    );
    let cases = [
        (l1_block, 12_000, json!("op-stack"), [1, 1]),
        (arb_sys, 108_000, json!("included"), [2, 1]),
        ("", 21_000, Value::Null, [2, 1]),
    ];
    join_all(cases.map(async |(with_code, gas, kind, calls)| {
        let node = MockNode::scripted(7, move |call: &Call| match call.method.as_str() {
            "eth_chainId" => Reply::Result(json!("0x7")),
            "eth_feeHistory" => Reply::history(1000, 3, 30),
            "eth_getBlockByNumber" => Reply::Result(json!({
                "number": "0x3e8", "timestamp": format!("{:#x}", seconds()), "miner": MINER,
            })),
            READ => Reply::Result(deposit("440a5e20", 164)),
            "eth_getCode" => {
                let has_code = call.params() == json!([with_code, "latest"]);
                Reply::Result(json!(if has_code { "0x60" } else { "0x" }))
            }
            "eth_estimateGas" => {
                let transfer = json!({ "from": MINER, "to": DEAD, "value": "0x1" });
                assert_eq!(call.params(), json!([transfer]));
                Reply::Result(json!(format!("{gas:#x}")))
            }
            _ => Reply::Error(-32601),
        })
        .await;
        let service = TestServer::start(&node.chain("a", "")).await;
        let digits = gas.to_string();
        let told = |response: &Response| {
            let (status, market) = (response.status, response.json());
            let fee = &market["data_fee"]["kind"];
            status == 200 && market["transfer_gas"] == digits && *fee == kind
        };
        service.wait_for("/v1/a/fee-market", told).await;
        let cheapest = service.get("/v1/cheapest").await.json();
        let cost = service.get(&format!("/v1/a/cost?gas={digits}")).await.json();
        assert_eq!(cheapest[0]["expected"], cost["tiers"]["medium"]["expected"], "{kind}");
        let methods = ["eth_getCode", "eth_estimateGas"];
        assert_eq!(methods.map(|method| node.calls(method)), calls, "{kind}");
    }))
    .await;
}

#[tokio::test]
async fn mantles_data_fee_is_multiplied_by_its_token_ratio() {
    let node = MockNode::scripted(7, |call: &Call| match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_feeHistory" => Reply::history(1000, 3, 30),
        READ => Reply::Result(deposit("49e72383", 178)),
        "eth_getStorageAt" => {
            let oracle = "0x420000000000000000000000000000000000000F";
            assert_eq!(call.params(), json!([oracle, "0x0", "latest"]));
            Reply::Result(json!(format!("{:#066x}", 4369)))
        }
        _ => Reply::Error(-32601),
    })
    .await;
    let service = start(&node, "data_fee = \"mantle\"").await;
    let cost = with_reason(&service, "gas=21000", Value::Null).await;
    let fee = 100_000_000 * (5227 * 16 * 1_055_991_687 + 1_014_213) / 1_000_000_000_000;
    assert_eq!(cost["data_fee"]["kind"], "mantle");
    assert_eq!(wei(&cost["data_fee"]["fee"]), 4369 * fee);
    assert_eq!(wei(&cost["data_fee"]["operator_fee"]["max"]), 21_000 * 7 * 100 + 8);
    let market = service.get("/v1/a/fee-market").await.json();
    let parameters = &market["data_fee"];
    assert_eq!((&parameters["rule"], &parameters["token_ratio"]), (&json!("arsia"), &json!(4369)));
}

#[tokio::test]
async fn bad_input_is_refused_with_the_name_of_the_parameter() {
    let (node, _) = node(Reply::Error(-32601)).await;
    let service = start(&node, "data_fee = \"included\"").await;
    service.get("/v1/a/cost?").await.assert_refuses("gas");
    service.get("/v1/a/cost?gas=4294967296").await.assert_refuses("gas");
    for (name, value) in [
        ("bytes", "131073"),
        ("balance", "340282366920938463463374607431768211456"),
        ("blobs", "22"),
        ("hold", "601s"),
        ("probability", "0.9991"),
        ("byte", "1"),
    ] {
        service.get(&format!("/v1/a/cost?gas=21000&{name}={value}")).await.assert_refuses(name);
    }
    let other_chain = SIGNED.replacen("0x02f86b07", "0x02f86b08", 1);
    let long = format!("0x{}", "00".repeat(131_073));
    for (name, gas, transaction, (more, value)) in [
        ("transaction", json!("21000"), Value::Null, ("balance", json!("1"))),
        ("gas", Value::Null, json!(SIGNED), ("balance", json!("1"))),
        ("gas", json!(21000), json!(SIGNED), ("balance", json!("1"))),
        ("gas", json!("0"), json!(SIGNED), ("balance", json!("1"))),
        ("balance", json!("21000"), json!(SIGNED), ("balance", json!(1))),
        ("hold", json!("21000"), json!(SIGNED), ("hold", json!("30"))),
        ("surprise", json!("21000"), json!(SIGNED), ("surprise", json!(1))),
        ("transaction", json!("21000"), json!("0xzz"), ("balance", json!("1"))),
        ("transaction", json!("21000"), json!(other_chain), ("balance", json!("1"))),
        ("transaction", json!("21000"), json!(long), ("balance", json!("1"))),
        ("transaction", json!("21000"), json!(&SIGNED[2..]), ("balance", json!("1"))),
    ] {
        let mut body = json!({ "gas": gas, "transaction": transaction });
        body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        body[more] = value;
        service.post("/v1/a/cost", body.to_string()).await.assert_refuses(name);
    }
    // The parser would take the values of an object as an array.
    let array = json!(["21000", SIGNED, "1"]).to_string();
    service.post("/v1/a/cost", array).await.assert_problem(400, "invalid_parameter");
    let (no_json, too_long) = (service.post("/v1/a/cost", "{").await, " ".repeat(300_000));
    assert_eq!((no_json.status, service.post("/v1/a/cost", too_long).await.status), (400, 413));
    assert_eq!(service.get("/v1/cheapest?gas=0").await.status, 400);
}

#[tokio::test]
async fn the_blob_base_fee_is_that_of_the_fee_history_where_it_is_known() {
    let (node, _) = node(Reply::Error(-32601)).await;
    let service = start(&node, "json_rpc = true\nanswer_fee_methods = true\n").await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blobBaseFee","params":[]}"#;
    assert_eq!(service.post("/rpc/a", call).await.json()["result"], "0x5");
    // A chain without a preset may have blobs, and its data fee is unknown.
    let cost = service.get("/v1/a/cost?gas=21000&blobs=1").await.json();
    assert_eq!(wei(&cost["blob_fee"]["expected"]), 131_072 * 5);
    assert_eq!(cost["data_fee_reason"], "unknown");
    assert_eq!(cost["tiers"]["low"]["max"], Value::Null);
    // So it is not in the list of costs, which has the headers of its chains.
    let list = service.get("/v1/cheapest").await;
    assert_eq!((list.json(), list.header("cache-control")), (json!([]), "no-store"));
}
