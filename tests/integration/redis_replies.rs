//! Replies of a Redis server that are larger than any that the service needs.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::mock_node::{MockNode, Reply, read_chain, wait_until_polled};
use crate::test_server::TestServer;

/// Sends a line without an end, and returns how much of it was taken.
async fn send_endless_line(mut socket: TcpStream) -> usize {
    let block = vec![b'x'; 64 * 1024];
    let mut request = [0; 1024];
    let _ = socket.read(&mut request).await;
    let mut sent = 0;
    let mut written = socket.write(b"+").await;
    while let Ok(count) = written {
        sent += count;
        written = socket.write(&block).await;
    }
    sent
}

#[tokio::test]
async fn endless_reply_of_redis_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let redis = format!("[redis]\nurl = \"redis://{}\"\n", listener.local_addr().unwrap());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let all_sent = Arc::clone(&sent);
    let server = tokio::spawn(async move {
        loop {
            let socket = listener.accept().await.unwrap().0;
            let sent = send_endless_line(socket).await;
            all_sent.lock().push(sent);
        }
    });
    let node = MockNode::for_reads(Reply::Echo).await;
    let service = TestServer::with_server(&redis, &read_chain(&[&node], "")).await;
    let failure = "gas_suggestion_redis_failures_total{reason=\"reply_too_large\"} 2";
    service.wait_for_sample(failure).await;
    // The limit, and what the buffers of both sockets hold.
    let sent = sent.lock().clone();
    assert!(sent.iter().all(|bytes| *bytes < 16 * 1024 * 1024), "{sent:?}");
    wait_until_polled(&service).await;
    assert_eq!(service.get("/v1/ronin/gas-suggestion").await.status, 200);
    server.abort();
}
