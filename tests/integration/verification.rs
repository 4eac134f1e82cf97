//! Tests of the contract-verification proxy between misbehaving clients and a misbehaving upstream: forwarded requests,
//! returned responses, and failures.

mod bytes;
mod clients;
mod faults;
mod headers;
mod overload;
mod path_traversal;
mod routes;
mod secrets;

use std::time::Instant;

use crate::http_message::{Message, chunked, get, post, post_chunked};
use crate::mock_node::{MockNode, Reply};
use crate::mock_upstream::{MockUpstream, ReceivedConnection, Step, respond_with, response};
use crate::raw_client::{ConnectionEnd, RawClient, TIMEOUT, exchange};
use crate::test_server::TestServer;

/// A service with one chain, and the scripted upstream to which it forwards.
#[derive(Debug)]
struct Harness {
    upstream: MockUpstream,
    service: TestServer,
    _node: MockNode,
}

impl Harness {
    async fn start(script: Vec<Step>) -> Self {
        Self::with_settings("", "", script).await
    }

    /// Like [`start`](Self::start), with further lines in `[verification]` and `[limits]`.
    async fn with_settings(verification: &str, limits: &str, script: Vec<Step>) -> Self {
        let upstream = MockUpstream::start(script).await;
        Self::with_upstream(upstream, "", verification, limits).await
    }

    /// Like [`with_settings`](Self::with_settings), with this `upstream` and further lines in `[server]` too.
    async fn with_upstream(
        upstream: MockUpstream,
        server: &str,
        verification: &str,
        limits: &str,
    ) -> Self {
        let url = if verification.contains("url = ") {
            String::new()
        } else {
            format!("url = {:?}\n", upstream.url())
        };
        let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
        let text = format!(
            "[limits]\nrequests_per_second_per_client = 0\n{limits}\n\
             [verification]\n{url}{verification}\n{}",
            node.chain("a", "json_rpc = true\nblock_time = \"1h\"\nmax_age = \"1day\"")
        );
        let service = TestServer::with_server(server, &text).await;
        Self { upstream, service, _node: node }
    }

    /// Sends `request` and returns the response, which must be complete.
    async fn request(&self, request: impl AsRef<[u8]>) -> Message {
        let (message, end) = exchange(self.service.address(), request.as_ref()).await;
        assert_eq!(end, ConnectionEnd::Complete, "{message:#?}");
        message.unwrap()
    }

    /// Returns the number of proxied requests with this outcome.
    async fn count(&self, outcome: &str) -> u64 {
        let name = "gas_suggestion_proxied_requests_total";
        let labels = format!("upstream=\"verification\",outcome=\"{outcome}\"");
        self.service.count(&format!("{name}{{{labels}}}")).await
    }

    /// Asserts that a request passes to a healthy upstream as soon as a permit is free.
    async fn assert_recovers(&self, context: &str) {
        self.upstream.set_script(healthy());
        let deadline = Instant::now() + TIMEOUT;
        let response = loop {
            let response = self.request(get("/verification/health", "")).await;
            if response.status() != 503 {
                break response;
            }
            assert!(Instant::now() < deadline, "{context}: no permit becomes free");
            tokio::task::yield_now().await;
        };
        assert_eq!((response.status(), response.text()), (200, "{\"result\":[]}"), "{context}");
    }
}

/// Returns `length` bytes that take every value, in an order that reveals gaps.
fn every_byte(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect()
}

/// Builds a GET and a POST request of these paths.
fn get_and_post(get_path: &str, post_path: &str) -> [Vec<u8>; 2] {
    [get(get_path, "").into(), post(post_path, "", b"{}")]
}

/// Builds a POST request with `body` at once, and one with chunks of `size` bytes.
fn post_whole_and_chunked(path: &str, body: &[u8], size: usize) -> [Vec<u8>; 2] {
    [post(path, "", body), post_chunked(path, "", &chunked(body, size))]
}

/// Returns the script of a healthy upstream.
fn healthy() -> Vec<Step> {
    respond_with(response("200 OK", "Content-Type: application/json\r\n", "{\"result\":[]}"))
}
