//! Start and shutdown of the service, and its exit when a task fails.

use std::time::{Duration, Instant};

use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use gas_suggestion::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http_client;
use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;

const SUGGESTION: &str = "/v1/a/gas-suggestion";

fn chain(node: &MockNode) -> String {
    node.chain("a", "json_rpc = true\nblock_time = \"50ms\"")
}

/// Waits until the service's only serving thread has read what was sent before: it looks for readable connections each
/// time it has nothing to do, as between these requests.
async fn wait_until_read(service: &TestServer) {
    for _ in 0..5 {
        service.get("/livez").await;
    }
}

#[tokio::test]
async fn request_in_flight_is_completed_during_shutdown() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = TestServer::with_server("threads = 1", &chain(&node)).await;
    service.wait_for_ok(SUGGESTION).await;
    let mut client = TcpStream::connect(service.address()).await.unwrap();
    // The shutdown begins when half of the request has been sent.
    let request = format!("GET {SUGGESTION} HTTP/1.1\r\nHost: a\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    wait_until_read(&service).await;
    let stopping = tokio::spawn(service.stop());
    tokio::task::yield_now().await;
    client.write_all(b"\r\n").await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    stopping.await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\"max_fee_per_gas\":\"54000000000\"}}"), "{response}");
}

#[tokio::test]
async fn draining_service_is_not_ready_and_accepts_no_connections() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = TestServer::with_server("threads = 1", &chain(&node)).await;
    service.wait_for_ok("/readyz").await;
    // A request in flight keeps the service running.
    let mut client = TcpStream::connect(service.address()).await.unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n").await.unwrap();
    wait_until_read(&service).await;
    let (address, admin) = (service.address(), service.admin_url("/readyz"));
    let stopping = tokio::spawn(service.stop());
    while TcpStream::connect(address).await.is_ok() {
        assert!(!stopping.is_finished(), "the service ended with a request in flight");
    }
    let ready =
        crate::test_server::Response::read(http_client::new().get(admin).send().await.unwrap())
            .await;
    ready.assert_problem(503, "not_ready");
    client.write_all(b"\r\n").await.unwrap();
    stopping.await.unwrap().unwrap();
}

#[tokio::test]
async fn client_that_keeps_sending_does_not_delay_shutdown() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    for (request, status) in [
        ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
        ("POST /rpc/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n", "413"),
    ] {
        let service = TestServer::start(&chain(&node)).await;
        let mut client = TcpStream::connect(service.address()).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"}") {
            assert!(client.read_buf(&mut response).await.unwrap() > 0);
        }
        assert!(response.starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
        let dripping = tokio::spawn(async move {
            let mut ticker = tokio::time::interval(Duration::from_millis(50));
            while client.write_all(b"x").await.is_ok() {
                ticker.tick().await;
            }
        });
        let stopped_at = Instant::now();
        service.stop().await.unwrap();
        assert!(
            stopped_at.elapsed() < Duration::from_secs(5),
            "{status} {:?}",
            stopped_at.elapsed()
        );
        dripping.abort();
    }
}

#[tokio::test]
async fn service_is_ready_once_all_chains_were_polled_and_one_has_data() {
    let healthy = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let silent = MockNode::start(8, Reply::NoResponse).await;
    let started = Instant::now();
    let chains = format!(
        "{}[chains.b]\nchain_id = 8\nrpc_urls = [\"{}\"]\nblock_time = \"1h\"\nmax_age = \"3h\"\n",
        chain(&healthy),
        silent.url()
    );
    let service = TestServer::start(&chains).await;
    service.wait_for_ok(SUGGESTION).await;
    let early = service.get("/readyz").await;
    // A call to a node times out after 2 s.
    if started.elapsed() < Duration::from_secs(2) {
        early.assert_problem(503, "not_ready");
    }
    service.wait_for_ok("/readyz").await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(service.get("/v1/b/gas-suggestion").await.status, 503);
}

#[tokio::test]
async fn service_stops_while_its_node_does_not_respond() {
    let node = MockNode::start(7, Reply::NoResponse).await;
    let service = TestServer::start(&chain(&node)).await;
    service.wait_for("/livez", |_| node.calls("eth_feeHistory") >= 1).await;
    let stopping = tokio::time::timeout(Duration::from_secs(5), service.stop());
    stopping.await.expect("an immediate stop").unwrap();
}

/// Runs the service without a stop signal and with an extra `task` that ends. Returns the error.
async fn run_error_with_task(
    task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> String {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n{}",
        chain(&node)
    );
    let mut server = Server::bind(Config::from_toml(&text, &sections()).unwrap()).await.unwrap();
    server.add_task(task);
    let run = tokio::time::timeout(Duration::from_secs(5), server.run(std::future::pending()));
    format!("{:#}", run.await.expect("the service drains and ends").unwrap_err())
}

#[tokio::test]
async fn ended_task_stops_the_service_with_an_error() {
    assert_eq!(run_error_with_task(async { Ok(()) }).await, "a task ended unexpectedly");
    let failed = run_error_with_task(async { anyhow::bail!("test error") }).await;
    assert_eq!(failed, "a task failed: test error");
    let panicked = run_error_with_task(async { panic!("test error") }).await;
    assert!(panicked.starts_with("a task panicked: task "), "{panicked}");
}
