//! `/inclusion` and `/replacement` on the recorded blocks of Base, against values computed here from `/fee-history` and
//! `/fee-market`.

use serde_json::json;

use crate::fixtures::wei;
use crate::recorded_base;
use crate::test_server::assert_problems;

#[tokio::test(flavor = "multi_thread")]
async fn a_fee_is_compared_with_the_newest_blocks() {
    let service = recorded_base::start("").await;
    let history = service.get("/v1/base/fee-history?blocks=20").await.json();
    let next = wei(&history["next_base_fee_per_gas"]);
    let blocks = history["blocks"].as_array().unwrap();
    let rewards: Vec<u128> = blocks.iter().map(|block| wei(&block["rewards"][0])).collect();
    let base_fees: Vec<u128> = blocks.iter().map(|block| wei(&block["base_fee_per_gas"])).collect();
    let newest = blocks.last().unwrap()["number"].as_u64().unwrap();
    for tip in [0, 1, rewards[3], rewards[11], rewards[19], 10_u128.pow(15)] {
        for max_fee in [tip + next, tip + 2 * next, (tip + next) * 9 / 10] {
            let tip = tip.min(max_fee);
            let query = format!("max_fee_per_gas={max_fee}&max_priority_fee_per_gas={tip}");
            let path = format!("/v1/base/inclusion?{query}");
            let response = service.get(&path).await;
            assert_eq!(response.newest_block(), newest);
            let body = response.json();
            let is_enough = |(reward, base_fee): &(&u128, &u128)| {
                max_fee.checked_sub(**base_fee).is_some_and(|room| tip.min(room) >= **reward)
            };
            let enough = rewards.iter().zip(&base_fees).filter(is_enough).count();
            assert_eq!((&body["enough_in"], &body["of"]), (&json!(enough), &json!(20)), "{path}");
            assert_eq!(body["covers_next_base_fee"], max_fee >= next, "{path}");
            assert_eq!(body["not_before_blocks"] == 0, max_fee >= next, "{path}");
            assert_eq!(body["percentile"], 60);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_raises_both_fees_by_a_tenth_or_to_the_suggestion() {
    let service = recorded_base::start("").await;
    let suggestion = service.get("/v1/base/gas-suggestion").await.json();
    let market = service.get("/v1/base/fee-market").await.json();
    let next = wei(&market["next_base_fee_per_gas"]);
    for (max_fee, tip) in [(1, 0), (10_u128.pow(12) + 1, 10_u128.pow(11) + 1), (7, 7)] {
        let query = format!("max_fee_per_gas={max_fee}&max_priority_fee_per_gas={tip}");
        let body = service.get(&format!("/v1/base/replacement?{query}")).await.json();
        for tier in ["medium", "high"] {
            let raised = |old: u128| old + old.div_ceil(10).max(1);
            let new_tip = raised(tip).max(wei(&suggestion[tier]["max_priority_fee_per_gas"]));
            let new_max = raised(max_fee).max(wei(&suggestion[tier]["max_fee_per_gas"]));
            assert_eq!(wei(&body[tier]["max_priority_fee_per_gas"]), new_tip, "{query}");
            assert_eq!(wei(&body[tier]["max_fee_per_gas"]), new_max.max(new_tip + next), "{query}");
        }
    }
    let body = service.get("/v1/base/replacement?gas_price=1000000000001").await.json();
    let raised = "1100000000002";
    let expected = json!({ "max_priority_fee_per_gas": raised, "max_fee_per_gas": raised });
    assert_eq!(body["medium"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn fees_that_cannot_be_right_are_rejected() {
    let service = recorded_base::start("").await;
    let too_large = u128::MAX.to_string() + "0";
    let queries = [
        "inclusion?max_fee_per_gas=1",
        "inclusion?max_fee_per_gas=1&max_priority_fee_per_gas=2",
        "inclusion?max_fee_per_gas=-1&max_priority_fee_per_gas=0",
        "inclusion?max_fee_per_gas=1e9&max_priority_fee_per_gas=0",
        "inclusion?max_fee_per_gas=&max_priority_fee_per_gas=0",
        &format!("replacement?gas_price={too_large}"),
        &format!("replacement?gas_price={}", u128::MAX),
        "replacement?gas_price=1&max_fee_per_gas=1",
        "replacement",
        "replacement?gas_price=1&gas_price=2",
    ];
    let paths = queries.map(|query| format!("/v1/base/{query}"));
    assert_problems(service.address, "callers-fees", &paths).await;
    let unknown = service.get("/v1/other/inclusion?max_fee_per_gas=1&max_priority_fee_per_gas=1");
    assert_eq!(unknown.await.status, 404);
}
