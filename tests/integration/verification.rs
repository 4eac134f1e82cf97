//! Contract verification between clients and an upstream of which each may do anything: what goes on,
//! what comes back, and what happens when something breaks off.

mod bytes;
mod clients;
mod fault_list;
mod faults;
mod headers;
mod overload;
mod routes;
mod secrets;
mod shapes;

use std::time::Instant;

use crate::exchange::{End, exchange, get, post, post_chunked};
use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::message::Message;
use crate::raw::PATIENCE;
use crate::service::Service;
use crate::upstream::{Seen, Step, Upstream, answer, answering};

/// The service in front of a scripted upstream, with one chain.
#[derive(Debug)]
struct Stage {
    upstream: Upstream,
    service: Service,
    _node: FakeNode,
}

impl Stage {
    async fn start(script: Vec<Step>) -> Self {
        Self::with("", "", script).await
    }

    /// With more lines in `[verification]` and in `[limits]`.
    async fn with(verification: &str, limits: &str, script: Vec<Step>) -> Self {
        let upstream = Upstream::start(script).await;
        Self::before(upstream, "", verification, limits).await
    }

    /// Before this upstream, with more lines in `[server]` too.
    async fn before(upstream: Upstream, server: &str, verification: &str, limits: &str) -> Self {
        let url = if verification.contains("url = ") {
            String::new()
        } else {
            format!("url = {:?}\n", upstream.url())
        };
        let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
        let text = format!(
            "[limits]\nrequests_per_second_per_client = 0\n{limits}\n\
             [verification]\n{url}{verification}\n\
             [chains.a]\nchain_id = 7\nrpc_urls = [{:?}]\nblock_time = \"1h\"\nmax_age = \"1day\"\n",
            node.url()
        );
        let service = Service::with_server(server, &text).await;
        Self { upstream, service, _node: node }
    }

    /// The whole answer to this request.
    async fn ask(&self, request: impl AsRef<[u8]>) -> Message {
        let (message, end) = exchange(self.service.address(), request.as_ref()).await;
        assert_eq!(end, End::Whole, "{message:#?}");
        message.unwrap()
    }

    /// The count of requests that came to this.
    async fn count(&self, outcome: &str) -> u64 {
        let name = "gas_suggestion_proxied_requests_total";
        let labels = format!("upstream=\"verification\",outcome=\"{outcome}\"");
        self.service.count(&format!("{name}{{{labels}}}")).await
    }

    /// Asks with `request` until there is a place for it again.
    async fn ask_when_free(&self, request: impl AsRef<[u8]>) -> Message {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(&request).await;
            if answer.status() != 503 {
                return answer;
            }
            assert!(Instant::now() < deadline, "no place gets free");
            tokio::task::yield_now().await;
        }
    }
}

/// Every byte value, in an order that shows what is missing.
fn every_byte(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect()
}

/// An upstream that is well.
fn well() -> Vec<Step> {
    answering(answer("200 OK", "Content-Type: application/json\r\n", "{\"result\":[]}"))
}
