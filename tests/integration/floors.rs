//! Fee floors on the recorded blocks of Base: none by default, and a warning about one that is far above the market.

use std::io::BufRead;

use serde_json::{Value, json};

use crate::http_client;
use crate::recorded_base;
use crate::test_server::Response;

#[tokio::test(flavor = "multi_thread")]
async fn no_floor_is_the_default_and_one_of_another_chain_is_warned_of() {
    // The average of the recorded rewards: the first row without floors in tests/fixtures/expected/base.csv.gz.
    for (more, tip, is_above) in [
        ("", "2046763", false),
        ("pricing.priority_fee_floor = \"20 gwei\"\n", "20000000000", true),
    ] {
        let mut service = recorded_base::start(more).await;
        // The request is logged after everything that led to its response.
        let mut log = Vec::new();
        while log.last().is_none_or(|line: &Value| line["status"] != 200) {
            let mut line = String::new();
            assert_ne!(service.log.read_line(&mut line).unwrap(), 0, "the log ended");
            log.push(serde_json::from_str(&line).unwrap());
        }
        let suggestion = service.get("/v1/base/gas-suggestion").await.json();
        assert_eq!(suggestion["medium"]["max_priority_fee_per_gas"], tip);
        assert_eq!(suggestion["chain_name"], "Base");
        let market = service.get("/v1/base/fee-market").await.json();
        let above_market = json!({ "base_fee": false, "priority_fee": is_above });
        assert_eq!(market["floors_above_market"], above_market);
        assert_eq!(market["currency"], "ETH");
        let warnings = log.iter().filter(|line| line["level"] == "WARN");
        let warnings: Vec<_> = warnings.map(|line| line["message"].as_str().unwrap()).collect();
        let message = "the configured floor is more than ten times what the market pays";
        assert_eq!(warnings, vec![message; usize::from(is_above)]);
        if let Some(warning) = log.iter().find(|line| line["message"] == message) {
            assert_eq!(warning["key"], "chains.base.pricing.priority_fee_floor");
            assert_eq!([&warning["floor_gwei"], &warning["market_gwei"]], ["20", "0.002047"]);
        }
        let url = format!("http://{}/metrics", service.admin);
        let metrics = Response::read(http_client::new().get(url).send().await.unwrap()).await.body;
        let gauge = "gas_suggestion_floor_above_market{chain=\"base\"";
        assert!(metrics.contains(&format!("{gauge},floor=\"base_fee\"}} 0\n")), "{metrics}");
        let sample = format!("{gauge},floor=\"priority_fee\"}} {}\n", u8::from(is_above));
        assert!(metrics.contains(&sample), "{metrics}");
    }
}
