//! How the service stops: when it is told to, and when a part of it fails.

use std::time::{Duration, Instant};

use gas_suggestion::config::Config;
use gas_suggestion::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::service::Service;

const SUGGESTION: &str = "/v1/a/gas-suggestion";

fn chain(node: &FakeNode) -> String {
    format!("[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\nblock_time = \"50ms\"\n", node.url())
}

#[tokio::test]
async fn a_request_under_way_is_answered_while_the_service_stops() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain(&node)).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    let mut client = TcpStream::connect(service.address()).await.unwrap();
    // Half a request: it is under way when the service is told to stop.
    let request = format!("GET {SUGGESTION} HTTP/1.1\r\nHost: a\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    // An answer on another connection: by now the half request was taken up.
    service.get("/livez").await;
    let stopped = tokio::spawn(service.stop());
    tokio::task::yield_now().await;
    client.write_all(b"\r\n").await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    stopped.await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\"max_fee_per_gas\":\"54000000000\"}}"), "{response}");
}

#[tokio::test]
async fn a_stopping_service_is_not_ready_and_takes_no_new_connection() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain(&node)).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    // A request under way keeps the service from ending.
    let mut client = TcpStream::connect(service.address()).await.unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n").await.unwrap();
    service.get("/livez").await;
    let (address, admin) = (service.address(), service.admin_url("/readyz"));
    let stopped = tokio::spawn(service.stop());
    while TcpStream::connect(address).await.is_ok() {
        assert!(!stopped.is_finished(), "it ended with a request under way");
    }
    let ready = crate::service::Answer::of(reqwest::get(admin).await.unwrap()).await;
    assert_eq!((ready.status, ready.json()["code"].as_str()), (503, Some("not_ready")));
    client.write_all(b"\r\n").await.unwrap();
    stopped.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_has_its_answer_and_sends_on_does_not_hold_up_the_end() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    for (request, status) in [
        ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
        ("POST /rpc/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n", "413"),
    ] {
        let service = Service::start(&chain(&node)).await;
        let mut client = TcpStream::connect(service.address()).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(client.read_buf(&mut answer).await.unwrap() > 0);
        }
        assert!(answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
        let dripping = tokio::spawn(async move {
            let mut ticker = tokio::time::interval(Duration::from_millis(50));
            while client.write_all(b"x").await.is_ok() {
                ticker.tick().await;
            }
        });
        let told = Instant::now();
        service.stop().await.unwrap();
        assert!(told.elapsed() < Duration::from_secs(5), "{status} {:?}", told.elapsed());
        dripping.abort();
    }
}

#[tokio::test]
async fn a_service_is_ready_when_every_chain_was_polled_and_one_was_read() {
    let well = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let silent = FakeNode::start(8, Answer::Silence).await;
    let started = Instant::now();
    let chains = format!(
        "{}[chains.b]\nchain_id = 8\nrpc_urls = [\"{}\"]\nblock_time = \"1h\"\nmax_age = \"3h\"\n",
        chain(&well),
        silent.url()
    );
    let service = Service::start(&chains).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    let early = service.get("/readyz").await;
    // A node gets two seconds to answer.
    if started.elapsed() < Duration::from_secs(2) {
        assert_eq!((early.status, early.json()["code"].as_str()), (503, Some("not_ready")));
    }
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(service.get("/v1/b/gas-suggestion").await.status, 503);
}

#[tokio::test]
async fn a_stopped_service_ends_well_while_its_node_is_silent() {
    let node = FakeNode::start(7, Answer::Silence).await;
    let service = Service::start(&chain(&node)).await;
    service.wait_for("/livez", |_| node.calls("eth_feeHistory") >= 1).await;
    let stopped = tokio::time::timeout(Duration::from_secs(5), service.stop());
    stopped.await.expect("it stops at once").unwrap();
}

/// What a run comes to that nobody stops, beside a task that does not last.
async fn outcome_beside(task: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> String {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n{}",
        chain(&node)
    );
    let mut server = Server::bind(Config::from_toml(&text).unwrap()).await.unwrap();
    server.add_task(task);
    let run = tokio::time::timeout(Duration::from_secs(5), server.run(std::future::pending()));
    format!("{:#}", run.await.expect("the service drains and ends").unwrap_err())
}

#[tokio::test]
async fn a_task_that_ends_by_itself_ends_the_service_with_an_error() {
    assert_eq!(outcome_beside(async { Ok(()) }).await, "a task ended by itself");
    let failed = outcome_beside(async { anyhow::bail!("out of luck") }).await;
    assert_eq!(failed, "a task failed: out of luck");
    let panicked = outcome_beside(async { panic!("out of luck") }).await;
    assert!(panicked.starts_with("a task panicked: task "), "{panicked}");
}
