//! Grades of the demo's chains, compared with those that a program in tests/python computes from what was served and recorded.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use crate::fixtures;
use crate::mock_node::{MockNode, Reply};
use crate::process::File;
use crate::programs;
use crate::test_server::TestServer;

/// Replayed blocks.
const BLOCKS: usize = 150;

/// Index of the newest block of a first reply.
const FIRST: usize = 20;

/// Heads that the service misses: more than a reply has.
const GAP: Range<usize> = 80..105;

/// Percentiles that the service requests.
const PERCENTILES: [u8; 2] = [10, 50];

/// Indices of the heads that the service sees. It misses each fortieth, and those of [`GAP`].
fn heads() -> Vec<usize> {
    let seen = |head: &usize| !GAP.contains(head) && !head.is_multiple_of(40);
    (FIRST..FIRST + BLOCKS).filter(seen).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_score_of_the_demo_is_that_of_the_served_suggestions() {
    for (chain, chain_id) in [("ethereum", 1), ("base", 8453)] {
        let recording_path = format!("src/extras/demo/recordings/{chain}.json.gz");
        let recording = fixtures::recording(&recording_path);
        let reply = |head: usize| {
            let percentiles = PERCENTILES.map(f64::from);
            let history = fixtures::recorded_history(&recording, head + 1, &percentiles);
            Reply::Newest(Arc::new(history))
        };
        let node = MockNode::with_percentiles(chain_id, json!(PERCENTILES), reply(FIRST)).await;
        let service = TestServer::start(&format!(
            "[chains.{chain}]\nchain_id = {chain_id}\nname = \"{chain}\"\nrpc_urls = [\"{}\"]\n\
             block_time = \"10ms\"\npricing.reward_percentiles = {PERCENTILES:?}\n",
            node.url()
        ))
        .await;
        // A line for each head, with its number and the suggestion.
        let mut served = String::new();
        for head in heads() {
            node.set_reply(reply(head));
            let number = recording.oldest_block + head as u64;
            let path = format!("/v1/{chain}/gas-suggestion");
            let response = service.wait_for_block(&path, number).await;
            writeln!(served, "{number} {}", response.body).unwrap();
        }
        let score = service.get(&format!("/v1/{chain}/score")).await.body;
        let [served, score] =
            [("served", &served), ("score", &score)].map(|(name, text)| File::new(name, text));
        let mut script = programs::python_tool("python");
        script.arg(fixtures::path("tests/python/score.py")).arg(fixtures::path(&recording_path));
        script.args([served.path(), score.path()]);
        let checked = programs::expect_success(script).await;
        assert_eq!(checked, format!("{chain}: {} heads, 1 gap", heads().len()));
    }
}
