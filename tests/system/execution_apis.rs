//! Exchanges that ethereum/execution-apis recorded from a node, through `/rpc/{chain}`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::delegation_service::RARELY;
use crate::fixtures;
use crate::mock_node::{MockNode, Read, Reply};
use crate::test_server::TestServer;

/// A recorded call with its response.
struct Exchange {
    file: String,
    request: String,
    response: String,
}

/// The part of a request that decides the response.
#[derive(Deserialize)]
struct Call {
    method: String,
    params: Option<Box<RawValue>>,
}

impl Exchange {
    fn call(&self) -> Read {
        let Call { method, params } = serde_json::from_str(&self.request).unwrap();
        let params = params.map_or_else(|| "[]".to_owned(), |params| params.get().to_owned());
        Read { method, params }
    }
}

fn recorded() -> Vec<Exchange> {
    let folder = fixtures::path("tests/fixtures/execution-apis");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut exchanges = Vec::new();
    for path in files {
        let file = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = |prefix| text.lines().filter_map(move |line| line.strip_prefix(prefix));
        for (request, response) in lines(">> ").zip(lines("<< ")) {
            let [file, request, response] = [file, request, response].map(str::to_owned);
            exchanges.push(Exchange { file, request, response });
        }
    }
    exchanges
}

/// A node that responds to the recorded calls, and no others, with the recorded responses.
async fn recorded_node(exchanges: &[Exchange]) -> MockNode {
    let key = |method: &str, params: &Value| format!("{method} {params}");
    let mut responses = HashMap::new();
    for exchange in exchanges {
        let Read { method, params } = exchange.call();
        let (_, rest) = exchange.response.split_once(',').unwrap();
        let (id, rest) = rest.split_once(',').unwrap();
        assert!(id.starts_with("\"id\":"), "{}", exchange.file);
        let response = format!("{{\"jsonrpc\":\"2.0\",\"id\":{{id}},{rest}");
        responses.insert(key(&method, &serde_json::from_str(&params).unwrap()), response);
    }
    let node = MockNode::for_reads(Reply::script(move |call| {
        let recorded = responses.get(&key(&call.method, &call.params()));
        let response = recorded.unwrap_or_else(|| panic!("not recorded: {call:?}"));
        Reply::Raw(200, response.clone())
    }));
    node.await
}

/// Sends `exchanges` to the service, with these lines in the configuration of its chain. Returns the name of each file
/// whose response differs from the recording, with that response.
async fn replay(node: &MockNode, options: &str, exchanges: &[Exchange]) -> Vec<(String, Value)> {
    let chain = node.chain("geth", &format!("json_rpc = true\n{RARELY}{options}"));
    let service = TestServer::start(&chain).await;
    service.wait_for_ok("/v1/geth/gas-suggestion").await;
    let mut differing = Vec::new();
    for Exchange { file, request, response } in exchanges {
        let received = service.post("/rpc/geth", request.clone()).await;
        assert_eq!(received.status, 200, "{file}");
        if received.body != *response {
            differing.push((file.clone(), received.json()));
        }
    }
    differing
}

#[tokio::test]
async fn recorded_exchanges_of_a_node_are_forwarded_byte_for_byte() {
    let exchanges = recorded();
    assert_eq!(exchanges.len(), 59);
    let node = recorded_node(&exchanges).await;
    let chain_id = exchanges.iter().find(|exchange| exchange.call().method == "eth_chainId");
    let chain_id: Value = serde_json::from_str(&chain_id.unwrap().response).unwrap();
    let chain_id = chain_id["result"].as_str().unwrap().strip_prefix("0x").unwrap();
    node.set_chain_id(u64::from_str_radix(chain_id, 16).unwrap());

    let differing = replay(&node, "", &exchanges).await;
    // Only the method that sends is not allowed by default, and the node receives all other calls as they came.
    let sending = "eth_sendRawTransaction--send-dynamic-fee-transaction.io";
    let files: Vec<_> = differing.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(files, [sending], "{differing:#?}");
    assert_eq!(differing[0].1["error"]["code"], -32601, "{differing:#?}");
    // The mock counts checks of the chain id apart.
    let others = ["eth_chainId", "eth_sendRawTransaction"];
    let is_forwarded = |call: &Read| !others.contains(&call.method.as_str());
    let expected: Vec<_> = exchanges.iter().map(Exchange::call).filter(is_forwarded).collect();
    assert_eq!(node.reads(), expected);

    let allowed = "rpc_methods = [\"+eth_sendRawTransaction\"]";
    assert_eq!(replay(&node, allowed, &exchanges).await, []);
}
