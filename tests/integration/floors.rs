//! Fee floors: none by default, and a warning about one that is far above the market.

use serde_json::{Value, json};

use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, wait_for};

#[tokio::test]
async fn no_floor_is_the_default_and_one_of_another_chain_is_warned_of() {
    let node = MockNode::start(8453, Reply::history(1000, 1, 1)).await;
    for (more, tip, is_above) in [
        ("", "1000000000", false),
        ("pricing.priority_fee_floor = \"20 gwei\"\n", "20000000000", true),
    ] {
        let chain = format!("block_time = \"1h\"\nmax_age = \"3h\"\n{more}");
        let service = LoggedProcess::start("floors", &node.chain("base", &chain));
        let [public, admin] = service.addresses.map(|address| format!("http://{address}"));
        let client = http_client::new();
        let url = format!("{public}/v1/base/fee-market");
        let market = wait_for(&client, &url, |response| response.status == 200).await.json();
        let medium = &market["suggestion"]["medium"];
        assert_eq!(medium["max_priority_fee_per_gas"], tip);
        let above_market = json!({ "base_fee": false, "priority_fee": is_above });
        assert_eq!(market["floors_above_market"], above_market);
        assert_eq!([&market["currency"], &market["suggestion"]["chain_name"]], ["ETH", "Base"]);
        let metrics = client.get(format!("{admin}/metrics")).send().await.unwrap();
        let metrics = Response::read(metrics).await.body;
        for (floor, value) in [("base_fee", 0), ("priority_fee", u8::from(is_above))] {
            let sample = format!(
                "gas_suggestion_floor_above_market{{chain=\"base\",floor=\"{floor}\"}} {value}\n"
            );
            assert!(metrics.contains(&sample), "{sample} in {metrics}");
        }
        let log = service.stop();
        let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let message = "the configured floor is more than ten times what the market pays";
        // The node has no asks, which is another warning.
        let warnings: Vec<_> = log.iter().filter(|line| line["message"] == message).collect();
        assert_eq!(warnings.len(), usize::from(is_above), "{warnings:?}");
        for warning in warnings {
            assert_eq!(warning["level"], "WARN");
            assert_eq!(warning["key"], "chains.base.pricing.priority_fee_floor");
            assert_eq!([&warning["floor_gwei"], &warning["market_gwei"]], ["20", "1"]);
        }
    }
}
