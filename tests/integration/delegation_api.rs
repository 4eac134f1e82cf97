//! Look-ups of delegations at the REST API: what it is asked, how often, with whose key, what comes back,
//! and who answers where it does not.

mod answers;
mod budget;
mod fault_list;
mod faults;
mod keys;
mod limits;
mod parameters;
mod replicas;
mod secrets;
mod sources;
mod transactions;

use crate::exchange::{End, exchange, get};
use crate::message::Message;
use crate::read_node::{ReadNode, Say};
use crate::service::Service;

/// The service with two chains between clients and an API.
#[derive(Debug)]
struct Stage {
    service: Service,
    /// Of chain 2020.
    node: ReadNode,
    /// Of chain 2021.
    other: ReadNode,
}

impl Stage {
    /// Before the API at this URL, with this source and more lines in `[delegation]`.
    async fn before(api_url: &str, source: &str, more: &str) -> Self {
        Self::with_server("", api_url, source, more).await
    }

    /// The same with more lines in `[server]`, or after it.
    async fn with_server(server: &str, api_url: &str, source: &str, more: &str) -> Self {
        let node = ReadNode::start(Say::Result(TRUE.into())).await;
        let other = ReadNode::start(Say::Result(TRUE.into())).await;
        other.serve_chain(2021);
        // The chain with the lowest id is not the first one.
        let text = format!(
            "[limits]\nrequests_per_second_per_client = 0\n\
             [delegation]\nsource = \"{source}\"\napi_url = \"{api_url}\"\n{more}\n\
             [chains.z]\nchain_id = 2021\nrpc_urls = [{:?}]\n{RARELY}\
             [chains.a-chain]\nchain_id = 2020\nrpc_urls = [{:?}]\n{RARELY}",
            other.url(),
            node.url(),
        );
        Self { service: Service::with_server(server, &text).await, node, other }
    }

    async fn ask(&self, request: impl AsRef<[u8]>) -> Message {
        let (message, end) = exchange(self.service.address(), request.as_ref()).await;
        assert_eq!(end, End::Whole, "{message:#?}");
        message.unwrap()
    }

    async fn get(&self, path: &str) -> Message {
        self.ask(get(path)).await
    }

    /// With more headers.
    async fn get_with(&self, path: &str, headers: &str) -> Message {
        self.ask(crate::raw::get(path, headers)).await
    }

    /// How many reads the chains' nodes got.
    fn reads(&self) -> usize {
        self.node.reads().len() + self.other.reads().len()
    }

    /// The count of look-ups that came to this.
    async fn count(&self, outcome: &str) -> u64 {
        let name = "gas_suggestion_delegation_lookups_total";
        self.service.count(&format!("{name}{{outcome=\"{outcome}\"}}")).await
    }
}

/// Nothing is polled twice in a test.
const RARELY: &str = "block_time = \"1h\"\nmax_age = \"1day\"\n";

/// What the registry contract returns where somebody may act, or for an amount of 1.
const TRUE: &str = "\"0x0000000000000000000000000000000000000000000000000000000000000001\"";

/// What it returns where nothing is delegated to an address, or by it.
const NO_DELEGATIONS: &str = "\"0x\
    0000000000000000000000000000000000000000000000000000000000000020\
    0000000000000000000000000000000000000000000000000000000000000000\"";

const VAULT: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const HOT: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
const CONTRACT: &str = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB";

/// An address that is the same in lower case and with its checksum.
fn address(number: usize) -> String {
    format!("0x{number:040}")
}

/// A look-up unlike those with other numbers.
fn check(number: usize) -> String {
    format!("/registry/v2/check/all?from={}&to={}", address(number), address(1))
}

/// What the API is asked then.
fn check_at_api(number: usize) -> String {
    format!("check/all?to={}&from={}&chainId=2020", address(1), address(number))
}

/// Whose answer it is.
fn source(answer: &Message) -> &str {
    answer.header("x-delegation-source")
}
