//! Bounds of what clients make the service hold, and who is served when they are reached.

use std::net::Ipv4Addr;

use crate::http_message::get;
use crate::mock_node::{MockNode, start_service};
use crate::raw_client::{ConnectionEnd, RawClient, exchange};
use crate::test_server::{TestServer, wait_until};

const SUGGESTION: &str = "/v1/a/gas-suggestion";
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const NEWCOMER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Sections that make `/openapi.json` long.
const LONG_DOCUMENT: &str =
    "[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\nsource = \"chain\"\n";

/// Starts a service with these `[limits]`.
async fn start(limits: &str) -> (MockNode, TestServer) {
    start_service(&format!("{LONG_DOCUMENT}[limits]\n{limits}"), "").await
}

fn shed(reason: &str) -> String {
    format!("gas_suggestion_connections_shed_total{{listener=\"public\",reason=\"{reason}\"}}")
}

/// Opens connections that send `request` and read nothing, until the memory budget of a service is exhausted. Then
/// another client is served, and so is the same one after its connections are closed.
async fn exhaust_memory(request: &str) {
    let limits =
        "memory = \"64 MiB\"\nrequests_per_second_per_client = 0\nwrite_timeout = \"0s\"\n";
    let (_node, service) = start(limits).await;
    let mut clients = Vec::new();
    wait_until("the budget is exhausted", async || {
        for _ in 0..20 {
            let mut client =
                RawClient::connect_with_small_buffer(ATTACKER, service.address()).await;
            client.send(request).await;
            clients.push(client);
        }
        service.count(&shed("memory")).await > 0
    })
    .await;
    let mut other = RawClient::connect_from(NEWCOMER, service.address()).await;
    assert_eq!([other.status(SUGGESTION).await, other.status(SUGGESTION).await], [200, 200]);
    drop(clients);
    // Until all are closed, a connection may still be shed.
    wait_until("a whole response", async || {
        let (response, end) =
            exchange(service.address(), get("/openapi.json", "").as_bytes()).await;
        end == ConnectionEnd::Complete && response.is_some_and(|it| it.status() == 200)
    })
    .await;
}

#[tokio::test]
async fn unread_responses_and_endless_heads_leave_memory_for_others() {
    exhaust_memory(&get("/openapi.json", "")).await;
    exhaust_memory(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {}", "a".repeat(15_000))).await;
}

#[tokio::test]
async fn client_with_the_most_connections_gives_one_to_a_newcomer() {
    let (_node, service) = start("max_connections = 4\n").await;
    let connect = async |source| {
        let mut client = RawClient::connect_from(source, service.address()).await;
        let status = client.status(SUGGESTION).await;
        (client, status)
    };
    let mut holders = Vec::new();
    for _ in 0..4 {
        let (client, status) = connect(ATTACKER).await;
        assert_eq!(status, 200);
        holders.push(client);
    }
    let (mut newcomer, status) = connect(NEWCOMER).await;
    assert_eq!(status, 200);
    let newest = holders.pop().unwrap().read_bytes_until_closed().await;
    assert_eq!(newest, b"");
    for client in &mut holders {
        assert_eq!(client.status(SUGGESTION).await, 200);
    }
    // The client that has the most gets no more.
    assert_eq!(connect(ATTACKER).await.1, 503);
    assert_eq!(newcomer.status(SUGGESTION).await, 200);
    assert_eq!(service.count(&shed("connection_limit")).await, 1);
}
