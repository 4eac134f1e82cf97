//! Readings of rewards that polls do not request: one for all replicas.

use serde_json::Value;

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, CHAIN_ID, shared_chain, start_replicas, wait_until};

/// Returns the share of the replica's quotes that reached percentile 10, and the number of the other strategy's quotes.
async fn graded(replica: &Replica) -> (Value, u64) {
    let score = replica.get("/v1/a/score").await.json();
    let heads = score["alternative"]["heads"].as_u64().unwrap_or_default();
    (score["tiers"]["medium"]["outbid"]["10"].clone(), heads)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reading_is_enough_for_all_replicas() {
    const REPLICAS: usize = 3;
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = format!("[score]\nevery = 10\n{}", shared_chain(&redis.url(0), &node.url(), ""));
    let replicas = start_replicas("reading", REPLICAS, |_| config.clone()).await;
    let is_long = |(blocks, _): &(u64, u64)| *blocks == 1024;
    let count_long = || node.readings().iter().filter(|reading| is_long(reading)).count();
    wait_until("each replica reads what it lacks", async || count_long() == REPLICAS).await;
    node.wait_for_blocks(25).await;
    for replica in &replicas {
        // The first quotes after the start, and those up to the last reading.
        wait_until("grades", async || graded(replica).await.1 >= 15).await;
        assert!(graded(replica).await.0.is_number(), "{}", replica.name);
    }
    let readings = node.readings();
    let short: Vec<_> = readings.iter().filter(|reading| !is_long(reading)).collect();
    assert!(
        short.iter().all(|(blocks, newest)| *blocks == 10 && newest % 10 == 0),
        "{readings:#?}"
    );
    // Two or three multiples of ten were published. One replica polls, and so reads.
    assert!((2..=4).contains(&short.len()), "{readings:#?}");
    assert_eq!(count_long(), REPLICAS);
}
