//! The service with a mock delegation API, for tests of delegation look-ups.

use crate::http_message::Message;
use crate::mock_delegate_api::MockDelegateApi;
use crate::mock_node::{MockNode, Reply};
use crate::raw_client::{ConnectionEnd, exchange};
use crate::test_server::TestServer;

/// The service with a delegation API and two chains.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) service: TestServer,
    /// Node of chain 2020.
    pub(crate) node: MockNode,
    /// Node of chain 2021.
    pub(crate) other: MockNode,
}

impl Harness {
    /// Starts the service with this API and source, and `more` lines in `[delegation]`.
    pub(crate) async fn start(api_url: &str, source: &str, more: &str) -> Self {
        Self::with_server("", api_url, source, more).await
    }

    /// Starts a delegation API too, as the service's.
    pub(crate) async fn with_api(source: &str, more: &str) -> (MockDelegateApi, Self) {
        let api = MockDelegateApi::start().await;
        let harness = Self::start(&api.url(), source, more).await;
        (api, harness)
    }

    /// Like [`start`](Self::start), with the lines `server` in `[server]` or in sections after it.
    pub(crate) async fn with_server(server: &str, api_url: &str, source: &str, more: &str) -> Self {
        let node = MockNode::for_reads(Reply::RawResult(TRUE.into())).await;
        let other = MockNode::for_reads(Reply::RawResult(TRUE.into())).await;
        other.set_chain_id(2021);
        // Look-ups default to the chain with the lowest id, which is not the first in the file.
        let text = format!(
            "[limits]\nrequests_per_second_per_client = 0\n\
             [delegation]\nsource = \"{source}\"\napi_url = \"{api_url}\"\n{more}\n\
             {}{}",
            other.chain("z", RARELY),
            node.chain("a-chain", &format!("data_fee = \"off\"\n{RARELY}")),
        );
        Self { service: TestServer::with_server(server, &text).await, node, other }
    }

    pub(crate) async fn send(&self, request: impl AsRef<[u8]>) -> Message {
        let (message, end) = exchange(self.service.address(), request.as_ref()).await;
        assert_eq!(end, ConnectionEnd::Complete, "{message:#?}");
        message.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Message {
        self.get_with(path, "").await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &str) -> Message {
        self.send(crate::http_message::get(path, headers)).await
    }

    /// Returns the number of reads that both nodes received.
    pub(crate) fn reads(&self) -> usize {
        self.node.reads().len() + self.other.reads().len()
    }

    /// Returns the metric of look-ups with this outcome.
    pub(crate) async fn lookup_count(&self, outcome: &str) -> u64 {
        let name = "gas_suggestion_delegation_lookups_total";
        self.service.count(&format!("{name}{{outcome=\"{outcome}\"}}")).await
    }
}

/// Chain settings under which each chain is polled once per test.
pub(crate) const RARELY: &str = "block_time = \"1h\"\nmax_age = \"1day\"\n";

/// Result of the registry contract for an existing delegation, or for an amount of 1.
pub(crate) const TRUE: &str =
    "\"0x0000000000000000000000000000000000000000000000000000000000000001\"";

/// Result of the registry contract for an empty list of delegations.
pub(crate) const NO_DELEGATIONS: &str = "\"0x\
    0000000000000000000000000000000000000000000000000000000000000020\
    0000000000000000000000000000000000000000000000000000000000000000\"";

pub(crate) const VAULT: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
pub(crate) const HOT: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
pub(crate) const CONTRACT: &str = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB";

/// Returns an address that has no letters, and so no other spelling.
pub(crate) fn address(number: usize) -> String {
    format!("0x{number:040}")
}

/// Returns the path of a check that is unique to `number`.
pub(crate) fn check(number: usize) -> String {
    format!("/registry/v2/check/all?from={}&to={}", address(number), address(1))
}

/// Returns the API request of [`check`].
pub(crate) fn check_at_api(number: usize) -> String {
    format!("check/all?to={}&from={}&chainId=2020", address(1), address(number))
}

pub(crate) fn source(response: &Message) -> &str {
    response.header("x-delegation-source")
}

/// Asserts that the service itself refused the look-up because of the API's rate limit. Returns the seconds to wait.
pub(crate) fn assert_rate_limited(response: &Message) -> u64 {
    assert_eq!(response.outcome(), (429, "rate_limited".into()), "{response:#?}");
    response.header("retry-after").parse().unwrap()
}
