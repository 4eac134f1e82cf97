//! Readings of rewards that polls do not request: one for all replicas.

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::{BLOCK_TIME, CHAIN_ID, shared_chain, start_replicas, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn one_reading_is_enough_for_all_replicas() {
    const REPLICAS: usize = 3;
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let config = shared_chain(&redis.url(0), &node.url(), "pricing.ask_interval = 5\n");
    let replicas = start_replicas("reading", REPLICAS, |_| config.clone()).await;
    let is_long = |(blocks, _): &(u64, u64)| *blocks == 1024;
    let count_long = || node.readings().iter().filter(|reading| is_long(reading)).count();
    wait_until("each replica reads what it lacks", async || count_long() == REPLICAS).await;
    let short = || node.readings().into_iter().filter(|reading| !is_long(reading));
    wait_until("two multiples of five are read", async || short().count() >= 2).await;
    for replica in &replicas {
        // Only short readings have the blocks after the start.
        wait_until("grades", async || {
            let score = replica.get("/v1/a/score").await.json();
            score["tiers"]["medium"]["outbid"]["10"].is_number()
        })
        .await;
    }
    let short: Vec<_> = short().collect();
    assert!(short.iter().all(|(blocks, newest)| *blocks == 5 && newest % 5 == 0), "{short:#?}");
    // One replica polls, and so reads. Two or three multiples of five were published.
    assert!(short.len() <= 4, "{short:#?}");
    assert_eq!(count_long(), REPLICAS);
}
