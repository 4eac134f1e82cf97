//! Subscribers that do not keep up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::net::{TcpSocket, TcpStream};

use super::{DEADLINE, STREAM, SUGGESTION, Subscriber, wait_for_streams};
use crate::fake_node::{FakeNode, Made, fee_history};
use crate::raw::{Connection, get};
use crate::service::Service;

/// Each event takes so much because of the chain's name, or a test had to wait until small ones fill
/// the buffers of the system.
const EVENT_BYTES: usize = 16 * 1024;

/// A node that has another block each time that it is asked, up to the `last` one, and a service that asks it
/// 100 times a second. An event has as many bytes as this, and some more.
async fn start(limits: &str, event_bytes: usize, last: u64) -> (FakeNode, Service) {
    let newest = Arc::new(AtomicU64::new(1000));
    let more = move |_| fee_history(newest.fetch_add(1, Ordering::Relaxed).min(last), 3, 40);
    let node = FakeNode::start(7, Made::by(more)).await;
    let name = "a".repeat(event_bytes);
    let chain = format!(
        "[chains.a]\nname = \"{name}\"\nchain_id = 7\nrpc_urls = [\"{}\"]\nblock_time = \"10ms\"\n\
         stall_after = \"0s\"\n",
        node.url()
    );
    let limits = format!("[limits]\nrequests_per_second_per_client = 0\n{limits}");
    let service = Service::with_server(&limits, &chain).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    (node, service)
}

/// A connection whose side of the system keeps little of what is not read.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(address).await.unwrap()
}

async fn newest_block(service: &Service) -> u64 {
    service.get(SUGGESTION).await.header("x-newest-block").parse().unwrap()
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_value_and_no_backlog() {
    let (_node, service) = start("", EVENT_BYTES, u64::MAX).await;
    let mut slow = Connection::of(connect(service.address()).await);
    slow.send(get(STREAM, "")).await;
    wait_for_streams(&service, 1).await;
    let mut quick = Subscriber::open(&service, STREAM, &[]).await;
    // Several times what all buffers between the two have room for.
    let begun_at = newest_block(&service).await;
    for _ in 0..100 {
        quick.next().await;
    }
    let resumed_at = newest_block(&service).await;
    assert!(resumed_at >= begun_at + 90, "{begun_at} {resumed_at}");
    let mut received = String::new();
    let blocks = loop {
        received += &String::from_utf8(slow.bytes_until(b"\n", 1).await).unwrap();
        let ids = received.split("\nid: ").skip(1);
        let blocks: Vec<u64> =
            ids.filter_map(|rest| rest.split_once('-')?.0.parse().ok()).collect();
        if blocks.last().is_some_and(|last| *last >= resumed_at) {
            break blocks;
        }
    };
    assert!(blocks.is_sorted_by(|one, next| one < next), "{blocks:?}");
    let of_the_pause = blocks.iter().filter(|block| **block <= resumed_at).count();
    assert!(of_the_pause <= 20, "{of_the_pause} old values: {blocks:?}");
}

#[tokio::test]
async fn a_subscriber_that_stops_reading_is_dropped_at_its_deadline() {
    let (_node, service) = start("write_timeout = \"1s\"\n", EVENT_BYTES, u64::MAX).await;
    let mut silent = Connection::of(connect(service.address()).await);
    silent.send(get(STREAM, "")).await;
    wait_for_streams(&service, 1).await;
    let mut quick = Subscriber::open(&service, STREAM, &[]).await;
    let deadline = Instant::now() + DEADLINE;
    while !service.admin("/metrics").await.body.contains("\ngas_suggestion_streams 1\n") {
        assert!(Instant::now() < deadline, "it is not dropped");
        quick.next().await;
    }
    // The other one goes on.
    let last = quick.next().await;
    assert_ne!(quick.next().await, last);
    // What was sent to the first has an end within an event, and that is no good end.
    let rest = String::from_utf8_lossy(&silent.bytes_until_closed().await).into_owned();
    assert!(!rest.ends_with("0\r\n\r\n"), "{}", &rest[rest.len() - 20..]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_that_stops_reading_is_dropped_where_only_the_system_can_see_it() {
    // Its system takes a few KiB of these 30, and ours all others.
    let (_node, service) = start("write_timeout = \"1s\"\n", 1024, 1030).await;
    let mut silent = Connection::of(connect(service.address()).await);
    silent.send(get(STREAM, "")).await;
    wait_for_streams(&service, 1).await;
    wait_for_streams(&service, 0).await;
    let cut = "gas_suggestion_connections_cut_total{listener=\"public\",deadline=\"write\"}";
    assert_eq!(service.count(cut).await, 1);
}

#[tokio::test]
async fn one_that_stops_reading_holds_up_no_shutdown() {
    let (_node, service) = start("", EVENT_BYTES, u64::MAX).await;
    let mut silent = Connection::of(connect(service.address()).await);
    silent.send(get(STREAM, "")).await;
    wait_for_streams(&service, 1).await;
    let mut quick = Subscriber::open(&service, STREAM, &[]).await;
    // By then the other one has been blocked for long.
    for _ in 0..30 {
        quick.next().await;
    }
    let began = Instant::now();
    service.stop().await.unwrap();
    // The grace period is 10 s, and so is the time that a client may take nothing for.
    assert!(began.elapsed() < DEADLINE / 4, "{:?}", began.elapsed());
}
