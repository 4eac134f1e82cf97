//! Grades of the demo's chains, compared with those that programs in tests/python compute from what was served and recorded.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use gas_suggestion::extras::demo::DemoRecording;
use gas_suggestion::extras::horizon::estimator::MIN_BLOCKS;
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

/// Indices of the heads from `start` on that the service sees. It misses each fortieth, and those of `gap`.
fn heads(start: usize, gap: Range<usize>) -> Vec<usize> {
    let seen = |head: &usize| !gap.contains(head) && !head.is_multiple_of(40);
    (start..start + BLOCKS).filter(seen).collect()
}

/// A service whose node replays a recording of the demo.
struct Replay {
    chain: &'static str,
    recording_path: String,
    recording: DemoRecording,
    percentiles: Vec<u8>,
    node: MockNode,
    service: TestServer,
}

impl Replay {
    /// Starts with the first 20 blocks. `percentiles` are those that the service requests.
    async fn start(chain: &'static str, chain_id: u64, percentiles: &[u8]) -> Self {
        let recording_path = format!("src/extras/demo/recordings/{chain}.json.gz");
        let recording = fixtures::recording(&recording_path);
        let first = reply(&recording, FIRST, percentiles);
        let node = MockNode::with_percentiles(chain_id, json!(percentiles), first).await;
        let service = TestServer::start(&format!(
            "[chains.{chain}]\nchain_id = {chain_id}\nname = \"{chain}\"\nrpc_urls = [\"{}\"]\n\
             block_time = \"10ms\"\npricing.reward_percentiles = {percentiles:?}\n",
            node.url()
        ))
        .await;
        let percentiles = percentiles.to_vec();
        Self { chain, recording_path, recording, percentiles, node, service }
    }

    /// Plays these heads. Returns a line for each, with its number and the body of this route of the chain.
    async fn play(&self, heads: Vec<usize>, route: &str) -> File {
        let path = format!("/v1/{}/{route}", self.chain);
        let mut served = String::new();
        for head in heads {
            self.node.set_reply(reply(&self.recording, head, &self.percentiles));
            let number = self.recording.oldest_block + head as u64;
            let response = self.service.wait_for_block(&path, number).await;
            writeln!(served, "{number} {}", response.body).unwrap();
        }
        File::new("served", &served)
    }

    /// Runs a program of tests/python with the recording and these arguments. Returns its standard output.
    async fn compare(&self, name: &str, arguments: &[&str]) -> String {
        let mut script = programs::python_tool("python");
        script.arg(fixtures::path("tests/python").join(name));
        script.arg(fixtures::path(&self.recording_path)).args(arguments);
        programs::expect_success(script).await
    }
}

fn reply(recording: &DemoRecording, head: usize, percentiles: &[u8]) -> Reply {
    let percentiles: Vec<_> = percentiles.iter().copied().map(f64::from).collect();
    Reply::Newest(Arc::new(fixtures::recorded_history(recording, head + 1, &percentiles)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_score_of_the_demo_is_that_of_the_served_suggestions() {
    for (chain, chain_id) in [("ethereum", 1), ("base", 8453)] {
        let replay = Replay::start(chain, chain_id, &[10, 50]).await;
        let served = replay.play(heads(FIRST, GAP), "gas-suggestion").await;
        let score = replay.service.get(&format!("/v1/{chain}/score")).await.body;
        let score = File::new("score", &score);
        let checked = replay.compare("score.py", &[served.path(), score.path()]).await;
        assert_eq!(checked, format!("{chain}: {} heads, 1 gap", heads(FIRST, GAP).len()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fees_for_horizons_are_kept_as_often_as_they_say() {
    for (chain, chain_id) in [("ethereum", 1), ("base", 8453)] {
        let replay = Replay::start(chain, chain_id, &[10, 60]).await;
        // After a gap there are no fees for so many blocks.
        replay.play((FIRST..MIN_BLOCKS).collect(), "gas-suggestion").await;
        let served = replay.play(heads(MIN_BLOCKS, 0..0), "fees").await;
        let checked = replay.compare("horizon.py", &[served.path()]).await;
        assert_eq!(
            checked,
            format!("{chain}: {} heads, 24 cells, 24 shares", heads(MIN_BLOCKS, 0..0).len())
        );
    }
}
