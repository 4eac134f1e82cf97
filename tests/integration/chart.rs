//! The chart of recent fees.

use roxmltree::Document;
use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, fee_history};
use crate::test_server::{Response, TestServer};

const CHART: &str = "/v1/a/fee-history.svg";

fn chain(node: &MockNode) -> String {
    let name = "name = \"Chain <A> & co\"";
    node.chain(
        "a",
        &format!("{name}\nblock_time = \"50ms\"\nstall_after = \"0s\"\nhistory_blocks = 30"),
    )
}

/// Builds 20 blocks up to `newest` with different base fees. One has no rewards, one no gas used ratio.
fn history(newest: u64) -> Value {
    let mut history = fee_history(newest, 3, 40);
    let base_fees = (newest - 19..=newest + 1).map(|number| format!("{:#x}", number * 1_000_000));
    history["baseFeePerGas"] = base_fees.collect();
    history["reward"][5] = json!(null);
    history["gasUsedRatio"][6] = json!(null);
    history
}

async fn start(newest: u64) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::Result(history(newest))).await;
    let service = TestServer::start(&chain(&node)).await;
    service.wait_for_ok(CHART).await;
    (node, service)
}

fn title(response: &Response) -> String {
    let document = Document::parse(&response.body).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    title.text().unwrap().to_owned()
}

#[tokio::test]
async fn chart_shows_the_requested_number_of_newest_blocks() {
    let (node, service) = start(1000).await;
    let response = service.get(CHART).await;
    assert_eq!(response.header("content-type"), "image/svg+xml");
    assert_eq!(response.header("access-control-allow-origin"), "*");
    assert_eq!(response.header("x-content-type-options"), "nosniff");
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    assert_eq!(response.header("content-security-policy"), policy);
    assert_eq!(response.header("x-newest-block"), "1000");
    assert!(response.header("cache-control").starts_with("public, max-age="), "{response:?}");
    assert!(!response.header("age").is_empty());
    assert_eq!(title(&response), "Chain <A> & co, blocks 981 to 1000");
    node.set_reply(Reply::Result(history(1010)));
    service.wait_for_block(CHART, 1010).await;
    for (query, range, first) in [
        ("", "blocks 991 to 1010", 991),
        ("?blocks=1", "block 1010", 1010),
        ("?blocks=7", "blocks 1004 to 1010", 1004),
        ("?blocks=30", "blocks 981 to 1010", 981),
    ] {
        let response = service.get(&format!("{CHART}{query}")).await;
        assert_eq!(title(&response), format!("Chain <A> & co, {range}"));
        // The JSON route has the same blocks.
        let json = service.get(&format!("/v1/7/fee-history{query}")).await.json();
        assert_eq!(json["blocks"][0]["number"], first);
    }
    for query in ["?blocks=0", "?blocks=31", "?blocks=-1", "?blocks=", "?blocks=1&blocks=2"] {
        service.get(&format!("{CHART}{query}")).await.assert_problem(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn stale_chart_is_labelled_then_refused() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&(chain(&node) + "max_age = \"10s\"\n")).await;
    let response = service.wait_for(CHART, |response| response.body.contains("no_data")).await;
    assert_eq!((response.status, response.header("retry-after")), (503, "1"));
    node.set_reply(Reply::Result(history(1000)));
    let fresh = service.wait_for_ok(CHART).await;
    assert!(!fresh.body.contains("stale"), "{}", fresh.body);
    node.set_reply(Reply::Error(-32000));
    let stale = service.wait_for(CHART, |response| !response.header("x-stale").is_empty()).await;
    assert_eq!(title(&stale), "Chain <A> & co, blocks 981 to 1000, stale");
    assert_ne!(stale.header("etag"), fresh.header("etag"));
    service.wait_for(CHART, |response| response.body.contains("stale_data")).await;
}
