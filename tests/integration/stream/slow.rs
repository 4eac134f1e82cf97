//! Tests of stream subscribers that read too slowly.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{NO_RATE, STREAM, SUGGESTION, Subscriber, wait_for_streams};
use crate::http_message::get;
use crate::mock_node::{MockNode, Reply, fee_history};
use crate::raw_client::RawClient;
use crate::test_server::TestServer;

/// Size of one event, which has a long chain name. Small events would take too long to fill the socket buffers.
const EVENT_BYTES: usize = 16 * 1024;

/// Starts a node with a new block for every poll, up to block `last`, a service that polls it 100 times per second, and a
/// subscriber that does not read yet. The size of an event is a little more than `event_bytes`.
async fn start(limits: &str, event_bytes: usize, last: u64) -> (MockNode, TestServer, RawClient) {
    let newest = AtomicU64::new(1000);
    let more = move |_| fee_history(newest.fetch_add(1, Ordering::Relaxed).min(last), 3, 40);
    let node = MockNode::start(7, Reply::computed(more)).await;
    let name = "a".repeat(event_bytes);
    let chain = format!("name = \"{name}\"\nblock_time = \"10ms\"\nstall_after = \"0s\"");
    let limits = format!("shutdown_grace = \"1s\"\n{NO_RATE}{limits}");
    let service = TestServer::with_server(&limits, &node.chain("a", &chain)).await;
    service.wait_for_ok(SUGGESTION).await;
    let mut slow =
        RawClient::connect_with_small_buffer(Ipv4Addr::LOCALHOST, service.address()).await;
    slow.send(get(STREAM, "")).await;
    wait_for_streams(&service, 1).await;
    (node, service, slow)
}

async fn newest_block(service: &TestServer) -> u64 {
    service.get(SUGGESTION).await.header("x-newest-block").parse().unwrap()
}

#[tokio::test]
async fn slow_reader_gets_the_newest_value_without_a_backlog() {
    let (_node, service, mut slow) = start("", EVENT_BYTES, u64::MAX).await;
    let mut quick = Subscriber::open(&service, STREAM, &[]).await;
    // The size of 100 events is several times the capacity of all buffers between service and reader.
    let begun_at = newest_block(&service).await;
    for _ in 0..100 {
        quick.next().await;
    }
    let resumed_at = newest_block(&service).await;
    assert!(resumed_at >= begun_at + 90, "{begun_at} {resumed_at}");
    let mut received = String::new();
    let blocks = loop {
        received += &String::from_utf8(slow.read_bytes_until(b"\n", 1).await).unwrap();
        let ids = received.split("\nid: ").skip(1);
        let blocks: Vec<u64> =
            ids.filter_map(|rest| rest.split_once('-')?.0.parse().ok()).collect();
        if blocks.last().is_some_and(|last| *last >= resumed_at) {
            break blocks;
        }
    };
    assert!(blocks.is_sorted_by(|one, next| one < next), "{blocks:?}");
    let buffered = blocks.iter().filter(|block| **block <= resumed_at).count();
    assert!(buffered <= 20, "{buffered} old values: {blocks:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn kernel_timeout_disconnects_a_stalled_subscriber() {
    // The 30 events of 1 KiB fit into the socket buffers, so only the kernel can detect that the client reads nothing.
    let (_node, service, _silent) = start("write_timeout = \"1s\"\n", 1024, 1030).await;
    wait_for_streams(&service, 0).await;
    let cut = "gas_suggestion_connection_timeouts_total{listener=\"public\",deadline=\"write\"}";
    assert_eq!(service.count(cut).await, 1);
}

#[tokio::test]
async fn stalled_subscriber_does_not_delay_shutdown() {
    let (_node, service, _silent) = start("", EVENT_BYTES, u64::MAX).await;
    let mut quick = Subscriber::open(&service, STREAM, &[]).await;
    // After 30 events the stalled subscriber has been blocked for a while.
    for _ in 0..30 {
        quick.next().await;
    }
    let began = Instant::now();
    service.stop().await.unwrap();
    // The grace period ends the stream, and not the write timeout of 10 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
