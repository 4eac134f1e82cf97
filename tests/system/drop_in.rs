//! Clients of other gas services, unmodified, that read this one. Their settings are those of `docs/drop-in.md`.

use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::fixtures;
use crate::integrations;
use crate::mock_node::{MockNode, Reply};
use crate::programs;
use crate::test_server::TestServer;

/// A service whose tiers and prices all differ, and the clients' own node, whose prices are others.
struct Setup {
    _polled: MockNode,
    service: TestServer,
    node: Anvil,
}

/// Fees that the service serves, in wei as decimal strings.
struct Served {
    suggestion: Value,
    next_base_fee: String,
    prices: Value,
}

impl Setup {
    async fn start() -> Self {
        // Rewards rise from 21 to 44.5 gwei, and the next base fee is below the average.
        let base_fee = |number| if number == 1020 { 2_987_654_321 } else { 3_000_000_007 };
        let rewards =
            |number: u64| vec![21_000_000_001 + u128::from(number - 1000) * 1_234_567_891];
        let window = fixtures::computed_history(1000..=1019, base_fee, rewards);
        let polled = MockNode::start(2020, Reply::Result(window)).await;
        let chain = polled.chain("ronin", "");
        let service = TestServer::start(&chain).await;
        service.wait_for_ok("/v1/ronin/gas-suggestion").await;
        let node = Anvil::start(&["--gas-price", "7000000000"]);
        Self { _polled: polled, service, node }
    }

    async fn served(&self) -> Served {
        let mut market = self.service.get("/v1/ronin/fee-market").await.json();
        let next_base_fee = market["next_base_fee_per_gas"].as_str().unwrap().to_owned();
        let [suggestion, prices] =
            ["suggestion", "expected_price_per_gas"].map(|name| market[name].take());
        Served { suggestion, next_base_fee, prices }
    }

    /// Returns what the consumer reads, with its own node.
    async fn read(&self, consumer: &str, packages: &[&str]) -> Value {
        let (service, node) = (self.service.url(""), self.node.url());
        read(consumer, packages, &[&service, &node]).await
    }
}

/// Runs `tests/node/drop-in.mjs`, which must succeed.
async fn read(consumer: &str, packages: &[&str], urls: &[&str]) -> Value {
    let mut command = programs::node_js(packages);
    command.arg(programs::script_path("drop-in.mjs")).arg(consumer).args(urls);
    programs::expect_json(command).await
}

const METAMASK: [&str; 4] = [
    "@metamask/gas-fee-controller",
    "@metamask/network-controller",
    "@metamask/messenger",
    "@metamask/controller-utils",
];

fn wei(amount: &Value) -> f64 {
    amount.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn metamask_takes_the_tiers_and_legacy_prices_to_the_wei() {
    let setup = Setup::start().await;
    let served = setup.served().await;
    let read = setup.read("metamask-fees", &METAMASK).await;
    assert_eq!(read["gasEstimateType"], "fee-market", "{read}");
    for tier in ["medium", "high"] {
        for (theirs, ours) in [
            ("maxPriorityFeePerGas", "max_priority_fee_per_gas"),
            ("maxFeePerGas", "max_fee_per_gas"),
        ] {
            assert_eq!(read["wei"][tier][theirs], served.suggestion[tier][ours], "{read}");
        }
    }
    assert_eq!(read["wei"]["estimatedBaseFee"], served.next_base_fee);
    let low = &read["wei"]["low"];
    // The lowest reward, over the same base fee as the other tiers.
    let tip = 21_000_000_001_u64;
    let base_fee: u64 = served.suggestion["base_fee_per_gas"].as_str().unwrap().parse().unwrap();
    assert_eq!(low["maxPriorityFeePerGas"], tip.to_string());
    assert_eq!(low["maxFeePerGas"], (tip + base_fee).to_string());
    // The controller found the times of the medium tier.
    let times = &read["estimatedGasFeeTimeBounds"];
    let medium = &read["gasFeeEstimates"]["medium"];
    assert_eq!(times["lowerTimeBound"], medium["minWaitTimeEstimate"], "{read}");
    assert_eq!(times["upperTimeBound"], medium["maxWaitTimeEstimate"], "{read}");
    // The prices of a network without EIP-1559.
    let read = setup.read("metamask-legacy", &METAMASK).await;
    assert_eq!((&read["gasEstimateType"], &read["wei"]), (&json!("legacy"), &served.prices));
}

#[tokio::test(flavor = "multi_thread")]
async fn metamask_falls_back_to_its_node_when_the_service_has_no_data() {
    let chain = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
    let setup = Setup { service: TestServer::start(chain).await, ..Setup::start().await };
    let response = setup.service.get("/networks/2020/suggestedGasFees").await;
    assert_eq!(response.status, 503);
    let price = fixtures::quantity(&setup.node.call("eth_gasPrice", json!([])).await);
    for consumer in ["metamask-fees", "metamask-legacy"] {
        let read = setup.read(consumer, &METAMASK).await;
        assert_eq!(read["gasEstimateType"], "eth_gasPrice", "{consumer}: {read}");
        assert_eq!(read["wei"]["gasPrice"], price.to_string(), "{consumer}: {read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ethers_takes_the_medium_tier_from_the_gas_station() {
    let setup = Setup::start().await;
    let medium = setup.served().await.suggestion["medium"].take();
    let read = setup.read("polygon", &["ethers"]).await;
    assert_eq!(read["maxFeePerGas"], medium["max_fee_per_gas"], "{read}");
    assert_eq!(read["maxPriorityFeePerGas"], medium["max_priority_fee_per_gas"], "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hardhats_gas_reporter_takes_gas_price_and_base_fee() {
    let setup = Setup::start().await;
    let served = setup.served().await;
    let read = setup.read("gas-reporter", &[]).await;
    // It rounds prices of a gwei and more to whole gwei.
    let gwei = |wei: f64| (wei / 1e9).round();
    let tip = wei(&served.suggestion["medium"]["max_priority_fee_per_gas"]);
    let next: f64 = served.next_base_fee.parse().unwrap();
    assert_eq!(read["gasPrice"].as_f64().unwrap().to_bits(), gwei(next + tip).to_bits(), "{read}");
    assert_eq!((&read["baseFee"], &read["warnings"]), (&json!(3), &json!([])), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gas_price_oracle_takes_etherscans_and_flat_prices() {
    let setup = Setup::start().await;
    let prices = setup.served().await.prices;
    for consumer in ["etherscan", "flat"] {
        let read = setup.read(consumer, &["gas-price-oracle"]).await;
        for (speed, tier) in
            [("instant", "high"), ("fast", "high"), ("standard", "medium"), ("low", "low")]
        {
            let difference = read[speed].as_f64().unwrap() * 1e9 - wei(&prices[tier]);
            assert!(difference.abs() < 0.5, "{consumer} {speed}: {read}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wallets_take_fees_from_the_route_that_answers_fee_methods() {
    let node = Anvil::start(&["--gas-price", "7000000000"]);
    let mut blocks = integrations::blocks("docs/drop-in.md");
    blocks.retain(|block| block.text.contains("answer_fee_methods"));
    let [block] = &blocks[..] else { panic!("{blocks:?}") };
    let chain = block.text.replace("https://api.roninchain.com/rpc", &node.url());
    assert_ne!(chain, block.text);
    let service = TestServer::start(&chain).await;
    service.wait_for_ok("/v1/ronin/gas-suggestion").await;
    let market = service.get("/v1/ronin/fee-market").await.json();
    let medium = &market["suggestion"]["medium"]["max_priority_fee_per_gas"];
    // Ronin's floor, of which anvil knows nothing.
    assert_eq!(medium, "20000000000");
    let next: u64 = market["next_base_fee_per_gas"].as_str().unwrap().parse().unwrap();
    let gas_price = (next + 20_000_000_000).to_string();
    let route = service.url("/rpc/ronin");
    for (consumer, package) in [("rpc-viem", "viem"), ("rpc-ethers", "ethers")] {
        let read = read(consumer, &[package], &[&route]).await;
        assert_eq!((&read["maxPriorityFeePerGas"], &read["gasPrice"]), (medium, &json!(gas_price)));
        assert_ne!(read["maxFeePerGas"], Value::Null);
    }
    let mut command = programs::python_tool("python");
    command.arg(fixtures::path("tests/python/web3_fees.py")).arg(&route);
    let read: Value = programs::expect_json(command).await;
    assert_eq!((&read["maxPriorityFeePerGas"], &read["gasPrice"]), (medium, &json!(gas_price)));
    let cast = async |command: &str| {
        programs::expect_success(programs::cast(&[command, "--rpc-url", &route])).await
    };
    assert_eq!(cast("gas-price").await, gas_price);
}
