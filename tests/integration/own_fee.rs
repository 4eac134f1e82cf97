//! `/inclusion` and `/replacement` of the running service. Their arithmetic has unit tests.

use serde_json::json;

use crate::mock_node::start_service;
use crate::test_server::assert_problems;

#[tokio::test]
async fn a_fee_is_compared_with_the_newest_blocks_and_replaced_or_rejected() {
    // The base fee is 3 gwei, and percentile 60 of the rewards 40 gwei.
    let (_node, service) = start_service("", "pricing.base_fee_change_denominator = 8").await;
    for (max_fee_gwei, tip_gwei, enough_in, covers_full_blocks, not_before_blocks) in
        [(43, 40, 20, 23, 0), (43, 39, 0, 23, 0), (2, 1, 0, 0, 4)]
    {
        let query = format!(
            "max_fee_per_gas={max_fee_gwei}000000000&max_priority_fee_per_gas={tip_gwei}000000000"
        );
        let response = service.get(&format!("/v1/a/inclusion?{query}")).await;
        assert_eq!(response.newest_block(), 1000);
        let expected = json!({
            "enough_in": enough_in, "of": 20, "percentile": 60, "covers_next_base_fee": max_fee_gwei >= 3,
            "covers_full_blocks": covers_full_blocks, "not_before_blocks": not_before_blocks,
        });
        let body = response.json();
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&body[member], value, "{member} in {query}: {body}");
        }
    }
    // A replacement raises both fees by a tenth, or to the suggestion.
    let fees = |tip: &str, max_fee: &str| json!({ "max_priority_fee_per_gas": tip, "max_fee_per_gas": max_fee });
    for (query, medium) in [
        ("max_fee_per_gas=1&max_priority_fee_per_gas=0", fees("40000000000", "46000000000")),
        (
            "max_fee_per_gas=1000000000001&max_priority_fee_per_gas=100000000001",
            fees("110000000002", "1100000000002"),
        ),
        ("gas_price=1000000000001", fees("1100000000002", "1100000000002")),
    ] {
        let body = service.get(&format!("/v1/a/replacement?{query}")).await.json();
        assert_eq!(body["medium"], medium, "{query}");
    }

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
    let paths = queries.map(|query| format!("/v1/a/{query}"));
    assert_problems(service.address(), "callers-fees", &paths).await;
    let unknown = service.get("/v1/other/inclusion?max_fee_per_gas=1&max_priority_fee_per_gas=1");
    assert_eq!(unknown.await.status, 404);
}
