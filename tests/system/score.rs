//! The score of the demo's chains, compared with one that tests/python/score.py computes from what was served and
//! recorded.

use std::fmt::Write;
use std::sync::Arc;

use gas_suggestion::extras::demo::DemoRecording;
use serde_json::json;

use crate::fixtures;
use crate::mock_node::{MockNode, Reply};
use crate::process::File;
use crate::programs;
use crate::test_server::TestServer;

/// Replayed blocks.
const BLOCKS: usize = 300;

/// Indices of the heads that the service sees. It misses some, and once more than a reply has.
fn heads() -> Vec<usize> {
    let seen = |head: &usize| !(150..175).contains(head) && !head.is_multiple_of(40);
    (20..20 + BLOCKS).filter(seen).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_score_of_the_demo_is_that_of_the_served_suggestions() {
    for (chain, chain_id) in [("ethereum", 1), ("base", 8453)] {
        let path = format!("src/extras/demo/recordings/{chain}.json.gz");
        let recording = DemoRecording::from_gzip(&fixtures::read(&path)).unwrap();
        let reply = |head: usize| {
            let history = fixtures::recorded_history(&recording, head + 1, &[10.0, 50.0, 60.0]);
            Reply::Newest(Arc::new(history))
        };
        let percentiles = json!([10, 50, 60]);
        let node = MockNode::with_percentiles(chain_id, percentiles, reply(20)).await;
        let service = TestServer::start(&format!(
            "[score]\npercentiles = [10, 50]\n[chains.{chain}]\nchain_id = {chain_id}\n\
             name = \"{chain}\"\nrpc_urls = [\"{}\"]\nblock_time = \"10ms\"\n",
            node.url()
        ))
        .await;
        let mut served = String::new();
        for head in heads() {
            node.set_reply(reply(head));
            let number = recording.oldest_block + head as u64;
            let path = format!("/v1/{chain}/gas-suggestion");
            let suggestion = service.wait_for_block(&path, number).await;
            writeln!(served, "{number} {}", suggestion.body).unwrap();
        }
        let score = service.get(&format!("/v1/{chain}/score")).await.body;
        let (served, score) = (File::new("served", &served), File::new("score", &score));
        let mut script = programs::python_tool("python");
        script.arg(fixtures::path("tests/python/score.py"));
        script.arg(fixtures::path(&path)).args([served.path(), score.path()]);
        let checked = programs::expect_success(script).await;
        assert_eq!(checked, format!("{chain}: {} heads, 1 gap", heads().len()));
    }
}
