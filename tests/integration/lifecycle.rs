//! Start and shutdown of the service, and its exit when a task fails.

use std::time::{Duration, Instant};

use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use gas_suggestion::server::Server;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http_client;
use crate::mock_node::{MockNode, Reply, start_service};
use crate::raw_client::RawClient;
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

const CHAIN: &str = "json_rpc = true\nblock_time = \"50ms\"";

/// Sends the beginning of a request and waits until the only serving thread has read it: the thread looks for readable
/// connections each time it has nothing to do, as between the other requests.
async fn send_part(service: &TestServer, path: &str) -> RawClient {
    let mut client = RawClient::connect(service.address()).await;
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n")).await;
    for _ in 0..5 {
        service.get("/livez").await;
    }
    client
}

#[tokio::test]
async fn request_in_flight_is_completed_during_shutdown() {
    let (_node, service) = start_service("threads = 1", CHAIN).await;
    // The shutdown begins when half of the request has been sent.
    let mut client = send_part(&service, SUGGESTION).await;
    let stopping = tokio::spawn(service.stop());
    tokio::task::yield_now().await;
    client.send("\r\n").await;
    let responses = client.read_until_closed().await;
    stopping.await.unwrap().unwrap();
    assert_eq!((responses.len(), responses[0].status()), (1, 200), "{responses:?}");
    assert!(
        responses[0].text().ends_with("\"max_fee_per_gas\":\"54000000000\"}}"),
        "{responses:?}"
    );
}

#[tokio::test]
async fn draining_service_is_not_ready_and_accepts_no_connections() {
    let (_node, service) = start_service("threads = 1", CHAIN).await;
    // A request in flight keeps the service running.
    let mut client = send_part(&service, "/livez").await;
    let (address, admin) = (service.address(), service.admin_url("/readyz"));
    let stopping = tokio::spawn(service.stop());
    while TcpStream::connect(address).await.is_ok() {
        assert!(!stopping.is_finished(), "the service ended with a request in flight");
    }
    let ready = http_client::new().get(admin).send().await.unwrap();
    Response::read(ready).await.assert_problem(503, "not_ready");
    client.send("\r\n").await;
    stopping.await.unwrap().unwrap();
}

#[tokio::test]
async fn client_that_keeps_sending_does_not_delay_shutdown() {
    for (request, status) in [
        ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("POST /rpc/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n", 413),
    ] {
        let (_node, service) = start_service("", CHAIN).await;
        let mut client = RawClient::connect(service.address()).await;
        assert_eq!(client.request(request).await.status(), status);
        let dripping = tokio::spawn(async move {
            let mut ticker = tokio::time::interval(Duration::from_millis(50));
            while client.try_send(b"x").await.is_ok() {
                ticker.tick().await;
            }
        });
        let since = Instant::now();
        service.stop().await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(5), "{status} {:?}", since.elapsed());
        dripping.abort();
    }
}

#[tokio::test]
async fn service_is_ready_once_all_chains_were_polled_and_one_has_data() {
    let healthy = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let silent = MockNode::start(8, Reply::NoResponse).await;
    let started = Instant::now();
    let silent = silent.chain("b", "block_time = \"1s\"");
    let service = TestServer::start(&(healthy.chain("a", CHAIN) + &silent)).await;
    service.wait_for_ok(SUGGESTION).await;
    let early = service.get("/readyz").await;
    // The first poll of such a chain times out after half a second.
    let timeout = Duration::from_millis(500);
    if started.elapsed() < timeout {
        early.assert_problem(503, "not_ready");
    }
    service.wait_for_ok("/readyz").await;
    assert!(started.elapsed() >= timeout, "{:?}", started.elapsed());
    assert_eq!(service.get("/v1/b/gas-suggestion").await.status, 503);
}

#[tokio::test]
async fn service_stops_while_its_node_does_not_respond() {
    let node = MockNode::start(7, Reply::NoResponse).await;
    let service = TestServer::start(&node.chain("a", CHAIN)).await;
    service.wait_for("/livez", |_| node.polls() >= 1).await;
    let stopping = timeout(Duration::from_secs(5), service.stop());
    stopping.await.expect("an immediate stop").unwrap();
}

/// Runs the service without a stop signal and with an extra `task` that ends. Returns the error.
async fn run_error_with_task(
    task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> String {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n{}",
        node.chain("a", CHAIN)
    );
    let mut server = Server::bind(Config::from_toml(&text, &sections()).unwrap()).await.unwrap();
    server.add_task(task);
    let run = timeout(Duration::from_secs(5), server.run(std::future::pending()));
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
