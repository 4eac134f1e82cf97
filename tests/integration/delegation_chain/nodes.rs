//! Nodes that may answer anything, or nothing.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::nothing_there::look_ups;
use crate::read_node::{Read, ReadNode, Say};
use crate::reads::{chain, wait_until_read};
use crate::registry::{ADDRESS, DELEGATE, VAULT, assert_problem, look_up, post, request};
use crate::service::{Answer, Service};

const TRANSACTIONS: &str = "/v1/ronin/delegations/transactions";
const NO_ANSWER: (u16, &str, &str) =
    (502, "upstream_unreachable", "none of the chain's nodes gave an answer");
const INVALID: (u16, &str, &str) = (
    502,
    "upstream_invalid",
    "what is at the registry's address does not answer like the registry",
);
const NO_ANSWER_TO_THIS: (u16, &str, &str) =
    (502, "upstream_invalid", "what the chain's node answered is no answer to this");
const ABSENT: (u16, &str, &str) =
    (502, "registry_absent", "the chain has no contract at the registry's address");
const REFUSED: (u16, &str, &str) =
    (502, "upstream_invalid", "the chain's node finds that this transaction would fail");
const OVERLOADED: (u16, &str, &str) =
    (503, "overloaded", "too many such requests or answers at a time");

/// The service in front of this node, which it reads delegations from.
async fn start(node: &ReadNode, rpc: &str, more: &str) -> Service {
    let delegation = format!("[delegation]\nsource = \"chain\"\n[rpc]\n{rpc}\n");
    let service = Service::with_server(&delegation, &chain(&[node], more)).await;
    wait_until_read(&service).await;
    service
}

fn is(answer: &Answer, (status, code, detail): (u16, &str, &str)) {
    assert_problem(answer, status, code, detail);
}

async fn prepare(service: &Service) -> Answer {
    post(service, TRANSACTIONS, &request("delegate_all", json!({}))).await
}

fn result(json: impl Into<String>) -> Say {
    Say::Result(json.into())
}

/// A word in hex that is this number.
fn word(number: u64) -> Say {
    result(format!("\"0x{number:064x}\""))
}

#[tokio::test]
async fn a_node_that_fails_is_never_taken_for_a_registry() {
    let node = ReadNode::start(Say::Echo).await;
    let service = start(&node, "", "").await;
    let raw = |status, body: &str| Say::Raw(status, body.into());
    let error = |json: &str| Say::Error(json.into());
    for (say, found, prepared) in [
        (raw(500, "canary"), NO_ANSWER, NO_ANSWER),
        (raw(200, "<html>canary</html>"), NO_ANSWER, NO_ANSWER),
        (raw(307, "canary"), NO_ANSWER, NO_ANSWER),
        (raw(200, ""), NO_ANSWER, NO_ANSWER),
        (raw(200, "{\"jsonrpc\":\"2.0\",\"id\":{id}}"), NO_ANSWER, NO_ANSWER),
        (error("{\"code\":-32601,\"message\":\"no such method\"}"), NO_ANSWER, NO_ANSWER),
        (error("\"canary\""), NO_ANSWER, NO_ANSWER),
        (
            error("{\"code\":3,\"message\":\"execution reverted: canary\"}"),
            INVALID,
            NO_ANSWER_TO_THIS,
        ),
        (error("{\"code\":-32000,\"message\":\"canary\"}"), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("\"0x\""), ABSENT, ABSENT),
        (result("null"), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("false"), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("0"), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("[]"), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("\"\""), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result(format!("\"{}\"", "0".repeat(64))), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result("\"0xcanary\""), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result(format!("\"0x{}\"", "f".repeat(63))), NO_ANSWER_TO_THIS, NO_ANSWER_TO_THIS),
        (result(format!("\"0x{}\"", "f".repeat(62))), INVALID, NO_ANSWER_TO_THIS),
    ] {
        node.say(say.clone());
        // Nothing of what the node said before is used again.
        for (_, path) in look_ups() {
            is(&service.get(&path).await, found);
        }
        is(&prepare(&service).await, prepared);
    }
}

#[tokio::test]
async fn a_node_that_limits_calls_or_is_away_gives_no_answer() {
    let node = ReadNode::start(Say::Raw(429, "canary".into())).await;
    let service = start(&node, "", "").await;
    for (_, path) in look_ups() {
        is(&service.get(&path).await, NO_ANSWER);
    }
    is(&prepare(&service).await, NO_ANSWER);
    // It is left alone for a while.
    assert_eq!(node.reads().len(), 1);

    let away = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
    let service = Service::start(&format!("[delegation]\nsource = \"chain\"\n{away}")).await;
    for (_, path) in look_ups() {
        is(&service.get(&path).await, NO_ANSWER);
    }
}

#[tokio::test]
async fn a_node_that_is_silent_is_waited_for_as_long_as_for_any_read() {
    let node = ReadNode::start(Say::Echo).await;
    let service = start(&node, "timeout = \"1s\"", "").await;
    node.close();
    let timed_out =
        (504, "upstream_timeout", "the chain's nodes gave no answer within the time they have");
    let began = Instant::now();
    let answers = look_ups().map(|(_, path)| {
        let service = &service;
        async move { service.get(&path).await }
    });
    for answer in join_all(answers).await {
        is(&answer, timed_out);
    }
    let elapsed = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&elapsed), "{elapsed:?}");
    let service = start(&node, "timeout = \"1s\"", "").await;
    is(&prepare(&service).await, timed_out);
}

#[tokio::test]
async fn a_list_that_is_too_large_is_refused() {
    let huge = format!("\"0x{}\"", "0".repeat(10 * 1024 * 1024));
    let node = ReadNode::start(Say::Result(huge)).await;
    let service = start(&node, "", "").await;
    let too_large = (502, "upstream_invalid", "the chain's answer is too large");
    for query in ["", "?direction=incoming"] {
        is(&service.get(&format!("/registry/v2/{VAULT}{query}")).await, too_large);
    }
}

#[tokio::test]
async fn a_look_up_beyond_the_calls_at_a_time_is_refused_at_once() {
    let node = ReadNode::start(word(1)).await;
    let service = start(&node, "max_in_flight = 1", "").await;
    node.close();
    let check = format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}");
    let under_way = look_up(&service, &check);
    let others = async {
        node.wait_for_waiting(1).await;
        for (_, path) in look_ups().iter().filter(|(_, path)| *path != check) {
            let answer = service.get(path).await;
            is(&answer, OVERLOADED);
            assert_eq!(answer.header("retry-after"), "1");
        }
        is(&prepare(&service).await, OVERLOADED);
        node.open();
    };
    let (found, ()) = tokio::join!(under_way, others);
    assert_eq!(found, "true");
    assert_eq!(node.reads().len(), 1);
}

#[tokio::test]
async fn the_methods_that_clients_may_call_are_none_of_the_look_ups_business() {
    let node = ReadNode::start(Say::Each(vec![
        ("eth_call", word(1)),
        ("eth_getCode", result("\"0x00\"")),
        ("eth_estimateGas", result("\"0x5208\"")),
    ]))
    .await;
    let service = start(&node, "", "rpc_methods = [\"eth_chainId\"]").await;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{ "to": ADDRESS }, "latest"],
    });
    assert_eq!(post(&service, "/rpc/ronin", &call).await.json()["error"]["code"], -32601);
    for (kind, path) in look_ups() {
        match kind {
            "bool" => assert_eq!(look_up(&service, &path).await, "true"),
            "amount" => assert_eq!(look_up(&service, &path).await, "\"1\""),
            _ => is(&service.get(&path).await, INVALID),
        }
    }
    assert_eq!(prepare(&service).await.status, 200);
}

#[tokio::test]
async fn identical_look_ups_at_one_time_make_one_call() {
    let node = ReadNode::start(word(1)).await;
    let service = start(&node, "", "").await;
    node.close();
    // Two spellings of one question.
    let paths = [
        format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}"),
        format!("/registry/v2/check/all?chainId=2020&to={}&from={VAULT}", DELEGATE.to_lowercase()),
    ];
    let look_ups = join_all((0..100).map(|index| look_up(&service, &paths[index % 2])));
    let opening = async {
        node.wait_for_waiting(1).await;
        node.open();
    };
    let (found, ()) = tokio::join!(look_ups, opening);
    assert_eq!(found, vec!["true"; 100]);
    let [read] = &node.reads()[..] else { panic!("{:#?}", node.reads()) };
    let data = format!(
        "0xe839bd53{:0>64}{:0>64}{:064}",
        DELEGATE[2..].to_lowercase(),
        VAULT[2..].to_lowercase(),
        0
    );
    let params: Value = serde_json::from_str(&read.params).unwrap();
    assert_eq!(
        (read.method.as_str(), params),
        ("eth_call", json!([{ "to": ADDRESS, "data": data }, "latest"]))
    );
    let count = |of: &str, outcome: &str| {
        let name = format!("gas_suggestion_{of}outcome=\"{outcome}\"}}");
        let service = &service;
        async move { service.count(&name).await }
    };
    let reads = "reads_total{chain=\"ronin\",";
    assert_eq!(count(reads, "answered").await, 1);
    assert_eq!(count(reads, "shared").await + count(reads, "reused").await, 99);
    assert_eq!(count("delegation_lookups_total{", "chain").await, 100);
}

#[tokio::test]
async fn to_prepare_a_transaction_is_to_read_its_code_and_gas_and_nothing_else() {
    let node = ReadNode::start(Say::Each(vec![
        ("eth_getCode", result("\"0x00\"")),
        ("eth_estimateGas", result("\"0x5208\"")),
    ]))
    .await;
    let service = start(&node, "", "").await;
    let prepared = prepare(&service).await;
    assert_eq!((prepared.status, &prepared.json()["gas"]), (200, &json!("0x5208")));
    let call = json!({ "from": VAULT, "to": ADDRESS, "data": prepared.json()["data"] });
    let read = |method: &str, params: Value| (method.to_owned(), params);
    let mut reads: Vec<_> = node
        .reads()
        .into_iter()
        .map(|Read { method, params }| (method, serde_json::from_str::<Value>(&params).unwrap()))
        .collect();
    reads.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        reads,
        [
            read("eth_estimateGas", json!([call, "latest"])),
            read("eth_getCode", json!([ADDRESS, "latest"])),
        ]
    );
}

#[tokio::test]
async fn no_transaction_is_prepared_for_what_may_not_be_there() {
    let error = || Say::Error("{\"code\":3,\"message\":\"canary\"}".into());
    let (code, gas) = (|| result("\"0x00\""), || result("\"0x5208\""));
    for (code_said, gas_said, expected) in [
        (result("\"0x\""), gas(), ABSENT),
        (result("\"0x\""), error(), ABSENT),
        (Say::Raw(500, "canary".into()), gas(), NO_ANSWER),
        (error(), gas(), NO_ANSWER_TO_THIS),
        (result("null"), gas(), NO_ANSWER_TO_THIS),
        (result("0"), gas(), NO_ANSWER_TO_THIS),
        (result("\"\""), gas(), NO_ANSWER_TO_THIS),
        (result("\"0x0\""), gas(), NO_ANSWER_TO_THIS),
        (result("\"0xcanary\""), gas(), NO_ANSWER_TO_THIS),
        (code(), Say::Error("{\"code\":-32000,\"message\":\"canary\"}".into()), NO_ANSWER_TO_THIS),
        (code(), error(), REFUSED),
        (code(), Say::Raw(500, "canary".into()), NO_ANSWER),
        (code(), result("null"), NO_ANSWER_TO_THIS),
        // Less than any transaction takes, and more than one can have.
        (code(), result("\"0x5207\""), NO_ANSWER_TO_THIS),
        (code(), result("\"0x10000000000000000\""), NO_ANSWER_TO_THIS),
        (code(), result("\"0x\""), NO_ANSWER_TO_THIS),
        (code(), result("\"21000\""), NO_ANSWER_TO_THIS),
        (code(), result(format!("\"0x1{}\"", "0".repeat(32))), NO_ANSWER_TO_THIS),
    ] {
        let says = vec![("eth_getCode", code_said), ("eth_estimateGas", gas_said)];
        let node = ReadNode::start(Say::Each(says)).await;
        let service = start(&node, "", "").await;
        is(&prepare(&service).await, expected);
    }
}

#[tokio::test]
async fn the_gas_of_a_transaction_is_estimated_for_it_alone() {
    let node = ReadNode::start(result("\"0x00\"")).await;
    let service = start(&node, "", "").await;
    node.close();
    let others = async {
        // Another's may be from before the last block.
        node.wait_for_waiting(2).await;
        node.say(result("\"0x5208\""));
        node.open();
    };
    let (one, other, ()) = tokio::join!(prepare(&service), prepare(&service), others);
    for answer in [one, other] {
        // The code was told to be what the gas is.
        assert_eq!((answer.status, answer.json()["gas"].as_str()), (200, Some("0x5208")));
    }
    let methods: Vec<_> = node.reads().iter().map(|read| read.method.clone()).collect();
    let count = |name: &str| methods.iter().filter(|method| *method == name).count();
    assert_eq!((count("eth_getCode"), count("eth_estimateGas"), methods.len()), (2, 2, 4));
}
