//! Fees for a horizon and a probability: the route and its rules.

use serde_json::{Value, json};

use crate::fixtures::wei;
use crate::reward_readings::{Model, with_asks};
use crate::test_server::{Response, TestServer};

/// Waits until the fees are made of the rewards up to a block.
async fn wait_for_fees(service: &TestServer, rewards_to: u64) -> Value {
    let is_read =
        |response: &Response| response.status == 200 && response.json()["rewards_to"] == rewards_to;
    service.wait_for("/v1/a/fees", is_read).await.json()
}

#[tokio::test]
async fn the_matrix_and_one_cell_have_the_documented_members() {
    let (_, node) = Model::new(2003).start().await;
    let both = format!("{}pricing.reward_percentiles = [10, 60]\n", with_asks(&node, 10));
    let service = TestServer::start(&both).await;
    let fees = wait_for_fees(&service, 2003).await;
    let response = service.get("/v1/a/fees").await;
    assert_eq!(response.header("x-newest-block"), "2003");
    assert!(
        response.body.starts_with("{\"chain_name\":\"a\",\"chain_id\":7,\"newest_block\":2003,")
    );
    assert_eq!(fees["percentile"], 10.0);
    let cells = fees["cells"].as_array().unwrap();
    let keys: Vec<(Value, Value)> =
        cells.iter().map(|cell| (cell["within"].clone(), cell["probability"].clone())).collect();
    let expected = [1, 2, 3, 5, 10, 25]
        .iter()
        .flat_map(|within| [0.5, 0.8, 0.95, 0.99].map(|share| (json!(within), json!(share))));
    assert_eq!(keys, expected.collect::<Vec<_>>());
    let mut names: Vec<&String> = cells[0].as_object().unwrap().keys().collect();
    names.sort_unstable();
    let expected = "expected_price_per_gas judged kept max_fee_per_gas max_priority_fee_per_gas probability within";
    assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    assert_eq!((&cells[0]["kept"], &cells[0]["judged"]), (&Value::Null, &json!(0)));
    let next_base_fee = 3_000_000_000;
    for cell in cells {
        let tip = wei(&cell["max_priority_fee_per_gas"]);
        assert_eq!(wei(&cell["expected_price_per_gas"]), next_base_fee + tip);
        assert!(wei(&cell["max_fee_per_gas"]) >= next_base_fee + tip);
    }
    // The cell that promises at least what is asked for.
    for (query, within, probability) in [
        ("within=1&probability=0.5", 1, 0.5),
        ("within=4&probability=0.81", 3, 0.95),
        ("within=24&probability=0.96", 10, 0.99),
        ("within=25&probability=0.99", 25, 0.99),
    ] {
        let body = service.get(&format!("/v1/a/fees?{query}")).await.json();
        let wanted = |cell: &&Value| cell["within"] == within && cell["probability"] == probability;
        let expected: Vec<_> = cells.iter().filter(wanted).collect();
        assert_eq!(body["cells"], json!(expected), "{query}");
    }
    // A duration is the nearest number of blocks, which take half a second.
    for (time, within) in [("1s", 2), ("1249ms", 2), ("1250ms", 3), ("4s", 5), ("10m", 25)] {
        let path = format!("/v1/a/fees?within={time}&probability=0.95");
        assert_eq!(service.get(&path).await.json()["cells"][0]["within"], within, "{time}");
    }
    assert_eq!(service.get("/v1/a/fees?hold=0").await.json(), fees);
    // The poll after the reading dates its blocks.
    let is_dated = |response: &Response| response.json()["estimated_from"].as_u64() >= Some(20);
    service.wait_for("/v1/a/fees?hold=30s", is_dated).await;
    // The base fees of four blocks differ by 3 wei, and those of a step of 5 s are known.
    for (query, count, seconds, known, base_fees) in [
        ("hold=30s", 24, 30, 20..100, 2..=3),
        ("hold=30s&within=2s", 1, 30, 20..100, 2..=3),
        // There was no such time, so full blocks count.
        ("hold=10m&within=3&probability=0.99", 1, 600, 0..1, 3_000_000_000..=3_000_000_000),
    ] {
        let held = service.get(&format!("/v1/a/fees?{query}")).await.json();
        assert_eq!(held["hold_seconds"], seconds, "{query}");
        assert!(known.contains(&held["estimated_from"].as_u64().unwrap()), "{held}");
        let holding = held["cells"].as_array().unwrap();
        assert_eq!(holding.len(), count, "{query}");
        for cell in holding {
            let tip = wei(&cell["max_priority_fee_per_gas"]);
            let room = wei(&cell["max_fee_per_gas"]) - tip - next_base_fee;
            assert!(base_fees.contains(&room), "{query}: {cell}");
            let same = ["within", "probability", "max_priority_fee_per_gas"];
            assert!(cells.iter().any(|it| same.iter().all(|name| it[*name] == cell[*name])));
        }
    }
    let invalid = "within=3 probability=0.5 within=0&probability=0.5 within=26&probability=0.5 \
        within=-1&probability=0.5 within=3&probability=0.49 within=3&probability=0.991 \
        within=500ms&probability=0.5 within=601s&probability=0.5 hold=30 hold=601s \
        hold=0s&within=3 hold=30s&within=3&probability=0.991 hold=30s&probability=0.49 within=3&probability=nan within=3&probability=95 within=3&probability= \
        within=&probability=0.5 within=3.5&probability=0.5";
    for query in invalid.split(' ') {
        let response = service.get(&format!("/v1/a/fees?{query}")).await;
        response.assert_problem(400, "invalid_parameter");
    }
    let metrics = service.admin("/metrics").await.body;
    for line in [
        "gas_suggestion_horizon_kept_ratio{chain=\"a\",within=\"25\",probability=\"0.5\"} NaN\n",
        "gas_suggestion_horizon_judged{chain=\"a\",within=\"1\",probability=\"0.99\"} 0",
        "gas_suggestion_horizon_unjudged{chain=\"a\",within=\"3\",probability=\"0.95\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn fewer_than_200_blocks_are_no_data_and_more_need_no_reading() {
    let (_, node) = Model::new(2003).start().await;
    let service = TestServer::start(&with_asks(&node, 0)).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    service.get("/v1/a/fees").await.assert_problem(503, "no_data");
    assert_eq!(service.get("/v1/a/fee-market").await.json()["fees_ready"], false);
    // Polls of 200 blocks have their own percentile alone.
    let long = format!("{}pricing.window_blocks = 200\n", with_asks(&node, 0));
    let service = TestServer::start(&long).await;
    let fees = wait_for_fees(&service, 2003).await;
    assert_eq!(service.get("/v1/a/fee-market").await.json()["fees_ready"], true);
    assert_eq!(fees["percentile"], 60.0);
    assert_eq!(fees["cells"].as_array().unwrap().len(), 24);
    // Blocknative's levels are the same fees.
    let prices = service.get("/gasprices/blockprices?chainid=7").await.json();
    let levels = prices["blockPrices"][0]["estimatedPrices"].as_array().unwrap();
    let confidences: Vec<_> = levels.iter().map(|level| level["confidence"].clone()).collect();
    assert_eq!(confidences, [99, 95, 90, 80, 70].map(Value::from));
}
