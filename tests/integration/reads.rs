//! `POST /rpc/{chain}` against nodes that say what they are told to.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use crate::command::{self, Process};
use crate::raw::{Connection, PATIENCE};
use crate::read_node::{Read, ReadNode, Say};
use crate::service::{Answer, Service};

const ADDRESS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const HASH: &str = "0xe670ec64341771606e55d6b4ca35a1a6b75ee3d5145a99d05921026d1527331a";
const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Chain 2020 at these nodes, whose blocks come once an hour unless `more` says something else.
pub(crate) fn chain(nodes: &[&ReadNode], more: &str) -> String {
    let urls: Vec<_> = nodes.iter().map(|node| node.url()).collect();
    let is_set = more.lines().any(|line| line.starts_with("block_time ="));
    let block_time = if is_set { "" } else { "block_time = \"1h\"\nmax_age = \"1day\"\n" };
    format!("[chains.ronin]\nchain_id = 2020\nrpc_urls = {urls:?}\n{block_time}{more}\n")
}

async fn post(service: &Service, body: impl Into<String>) -> Answer {
    let request = Client::new().post(service.url("/rpc/ronin")).body(body.into());
    Answer::of(request.send().await.unwrap()).await
}

fn call(id: usize, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn balance(id: usize, tag: &str) -> String {
    call(id, "eth_getBalance", &json!([ADDRESS, tag]))
}

/// The `error` of an answer to one call.
async fn error(service: &Service, body: impl Into<String>) -> Value {
    let answer = post(service, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["error"].clone()
}

/// Waits until the service has read the chain.
pub(crate) async fn wait_until_read(service: &Service) {
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
}

#[tokio::test]
async fn what_is_asked_and_what_is_answered_pass_as_the_bytes_that_they_are() {
    let result = r#"{ "b":1, "a":1.0e2,"b":123456789012345678901234567890, "t":"A\/", "n":null }"#;
    let node = ReadNode::start(Say::Result(result.into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    let params =
        format!("[ {{\"to\":\"{ADDRESS}\",\"gas\":1.0, \"data\":\"\\u0030x\"}},\t\"pending\" ]");
    let body = format!(
        "{{\"params\":{params},\"method\":\"eth_c\\u0061ll\",\"id\":1.50,\"jsonrpc\":\"2.0\",\"more\":[]}}"
    );
    let answer = post(&service, body).await;
    let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1.50,\"result\":{result}}}");
    assert_eq!((answer.status, answer.body.as_str()), (200, expected.as_str()));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(node.reads(), [Read { method: "eth_call".into(), params }]);

    // A null is a result, and a call without parameters has an empty list.
    node.say(Say::Result("null".into()));
    let answer = post(&service, call(7, "eth_getTransactionReceipt", &json!([HASH]))).await;
    assert_eq!(answer.body, r#"{"jsonrpc":"2.0","id":7,"result":null}"#);
    post(&service, r#"{"jsonrpc":"2.0","id":7,"method":"eth_gasPrice"}"#).await;
    let last = node.reads().pop().unwrap();
    assert_eq!((last.method.as_str(), last.params.as_str()), ("eth_gasPrice", "[]"));
}

#[tokio::test]
async fn a_batch_of_good_refused_and_malformed_members_is_answered_in_place() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    let invalid = |id: &str, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"{message}"}}}}"#)
    };
    let failed = |id: &str, code: i32, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    let not_allowed =
        |id| failed(id, -32601, "the method asked for does not exist or is not allowed here");
    let not_a_request = invalid("null", "a request must be an object that names nothing twice");
    let good = |id: &str, slot: &str| {
        let params = format!("[\"{ADDRESS}\",\"{slot}\",\"latest\"]");
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_getStorageAt","params":{params}}}"#
            ),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{params}}}"#),
        )
    };
    let of = |id: &str, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let members: [(String, String); 20] = [
        good("1", "0x0"),
        good("\"two\"", "0x1"),
        ("1".into(), not_a_request.clone()),
        (of("3", "eth_sendRawTransaction", "[\"0x00\"]"), not_allowed("3")),
        good("null", "0x2"),
        ("[]".into(), not_a_request.clone()),
        (
            of("4", "eth_getBalance", "[\"0x12\",\"latest\"]"),
            failed("4", -32602, "params[0] must be an address: 0x and 40 hex digits"),
        ),
        (r#"{"jsonrpc":"2.0","method":"eth_blockNumber"}"#.into(), String::new()),
        ("null".into(), not_a_request.clone()),
        (
            r#"{"id":5,"method":"eth_blockNumber"}"#.into(),
            invalid("5", r#"jsonrpc must be \"2.0\""#),
        ),
        good("1", "0x3"),
        (of("6", "ETH_CALL", "[]"), not_allowed("6")),
        (of("7", "eth_getBalance", "\"x\""), invalid("7", "params must be an array")),
        (of("8", "eth_getBalance", "{}"), failed("8", -32602, "params must be an array")),
        (
            of("[9]", "eth_blockNumber", "[]"),
            invalid("null", "id must be a string, a number or null, of at most 64 bytes"),
        ),
        (r#"{"jsonrpc":"2.0","id":10}"#.into(), invalid("10", "method must be a string")),
        (r#"{"foo":"boo"}"#.into(), invalid("null", r#"jsonrpc must be \"2.0\""#)),
        (
            r#"{"jsonrpc":"2.0","id":11,"id":12,"method":"eth_chainId"}"#.into(),
            not_a_request.clone(),
        ),
        (
            of("13", "eth_getTransactionReceipt", &format!("[\"{HASH}\",\"pending\"]")),
            failed("13", -32602, "params must have 1 member, not 2"),
        ),
        good("-0.5", "0x4"),
    ];
    let body = members.iter().map(|(member, _)| member.as_str()).collect::<Vec<_>>().join(",");
    let answers = members.iter().map(|(_, answer)| answer.as_str());
    let expected = answers.filter(|answer| !answer.is_empty()).collect::<Vec<_>>().join(",");
    let answer = post(&service, format!("[{body}]")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, format!("[{expected}]"));
    assert_eq!(node.reads().len(), 5);
}

#[tokio::test]
async fn a_body_that_is_no_call_is_answered_by_the_letter_of_json_rpc() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("[1,", -32700),
        ("hello", -32700),
        ("[]", -32600),
        ("7", -32600),
        ("\"x\"", -32600),
        ("{}", -32600),
    ] {
        let answer = post(&service, body).await;
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(answer.json()["error"]["code"], code, "{body}");
        assert_eq!(answer.json()["id"], Value::Null, "{body}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&service, deep).await.json()[0]["error"]["code"], -32600);
    for body in [
        r#"{"jsonrpc":"2.0","method":"eth_blockNumber"}"#,
        r#"[{"jsonrpc":"2.0","method":"eth_blockNumber"},{"jsonrpc":"2.0","method":"eth_sign"}]"#,
    ] {
        let answer = post(&service, body).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{body}");
    }
    assert_eq!(node.reads(), []);
}

#[tokio::test]
async fn what_is_not_allowed_makes_no_call() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    let checks = node.chain_checks();
    let families = ["debug", "admin", "personal", "miner", "txpool", "trace", "anvil", "evm"];
    let mut names: Vec<String> = [
        "eth_sendRawTransaction",
        "eth_sendTransaction",
        "eth_sign",
        "eth_accounts",
        "eth_subscribe",
        "eth_unsubscribe",
        "eth_newFilter",
        "eth_getFilterChanges",
        "eth_syncing",
        "net_peerCount",
        "rpc_modules",
        "web3_clientVersion",
    ]
    .map(Into::into)
    .into();
    for family in families {
        names.extend(
            ["traceCall", "addPeer", "unlockAccount", "call"]
                .map(|name| format!("{family}_{name}")),
        );
    }
    for odd in [
        "ETH_CALL",
        "Eth_call",
        "eth_Call",
        "eth_call ",
        " eth_call",
        "eth__call",
        "eth_call\\u0000",
        "eth\\u002dcall",
        "еth_call",
        "eth_getbalance",
        "",
    ] {
        names.push(odd.into());
    }
    for name in &names {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":[]}}"#);
        let error = error(&service, body).await;
        let expected = json!({ "code": -32601, "message": "the method asked for does not exist or is not allowed here" });
        assert_eq!(error, expected, "{name}");
    }
    assert_eq!(node.reads(), []);
    assert_eq!(node.chain_checks(), checks);
    let refused =
        service.count("gas_suggestion_reads_total{chain=\"ronin\",outcome=\"refused\"}").await;
    assert_eq!(refused, u64::try_from(names.len()).unwrap());
}

#[tokio::test]
async fn a_chain_can_name_the_methods_that_it_allows() {
    let node = ReadNode::start(Say::Echo).await;
    let methods = "rpc_methods = [\"eth_call\", \"debug_traceCall\"]";
    let service = Service::start(&chain(&[&node], methods)).await;
    for _ in 0..2 {
        let answer = post(&service, call(1, "debug_traceCall", &json!({ "any": ["thing"] }))).await;
        assert_eq!(answer.json()["result"], json!({ "any": ["thing"] }));
    }
    // Nothing is known of it, so no answer is used twice.
    assert_eq!(node.reads().len(), 2);
    assert_eq!(error(&service, balance(1, "latest")).await["code"], -32601);
    assert_eq!(node.reads().len(), 2);
}

/// Posts all these bodies at once, each over a connection of its own.
async fn post_all(service: &Service, bodies: impl IntoIterator<Item = String>) -> Vec<Value> {
    let client = Client::new();
    let posts = bodies.into_iter().map(|body| {
        let request = client.post(service.url("/rpc/ronin")).body(body);
        async move { Answer::of(request.send().await.unwrap()).await.json() }
    });
    join_all(posts).await
}

#[tokio::test]
async fn a_thousand_identical_cold_reads_at_once_make_one_call() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    node.close();
    let reads = post_all(&service, (0..1000).map(|id| balance(id, "latest")));
    let opening = async {
        node.wait_for_waiting(1).await;
        node.open();
    };
    let (answers, ()) = tokio::join!(reads, opening);
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, json!({ "jsonrpc": "2.0", "id": id, "result": "0x7" }));
    }
    assert_eq!(node.reads().len(), 1);
    let mut counts = [0; 3];
    for (count, outcome) in counts.iter_mut().zip(["answered", "shared", "reused"]) {
        let name = format!("gas_suggestion_reads_total{{chain=\"ronin\",outcome=\"{outcome}\"}}");
        *count = service.count(&name).await;
    }
    assert_eq!((counts[0], counts[1] + counts[2]), (1, 999));
}

#[tokio::test]
async fn reads_that_hold_for_no_time_at_all_still_share_the_call_that_is_under_way() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    node.close();
    // The chain has no flashblocks.
    let batch: Vec<_> = (0..16).map(|id| balance(id, "pending")).collect();
    let reads = post(&service, format!("[{}]", batch.join(",")));
    let opening = async {
        node.wait_for_waiting(1).await;
        node.open();
    };
    let (answer, ()) = tokio::join!(reads, opening);
    assert_eq!(answer.json().as_array().unwrap().len(), 16);
    assert_eq!(node.reads().len(), 1);
    post(&service, balance(1, "pending")).await;
    assert_eq!(node.reads().len(), 2);
}

#[tokio::test]
async fn a_thousand_distinct_reads_keep_to_the_limit_and_none_hangs() {
    let node = ReadNode::start(Say::Echo).await;
    let rpc = "[rpc]\nmax_in_flight = 8\n";
    let service = Service::with_server(rpc, &chain(&[&node], "")).await;
    wait_until_read(&service).await;
    node.close();
    let slot =
        |id: usize| call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), "latest"]));
    let overloaded = "gas_suggestion_reads_total{chain=\"ronin\",outcome=\"overloaded\"}";
    let reads = post_all(&service, (0..1000).map(slot));
    let opening = async {
        // The others have their answers although nothing has come of the eight yet.
        service
            .wait_admin("/metrics", |answer| answer.body.contains(&format!("{overloaded} 992\n")))
            .await;
        node.wait_for_waiting(8).await;
        node.open();
    };
    let (answers, ()) = tokio::join!(reads, opening);
    let refusal = json!({ "code": -32005, "message": "too many calls at a time; try again later" });
    let (mut answered, mut refused) = (0, 0);
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], id);
        if answer.get("error").is_some() {
            assert_eq!(answer["error"], refusal);
            refused += 1;
        } else {
            assert_eq!(answer["result"][1], format!("{id:#x}"));
            answered += 1;
        }
    }
    assert_eq!((answered, refused), (8, 992));
    assert_eq!((node.reads().len(), node.most_waiting()), (8, 8));
    // And the limit is free again.
    assert_eq!(post(&service, slot(5000)).await.json()["result"][1], "0x1388");
}

#[tokio::test]
async fn a_batch_takes_no_more_than_its_part_of_the_calls() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "block_time = \"200ms\"")).await;
    wait_until_read(&service).await;
    node.close();
    let slot =
        |id: usize| call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), "pending"]));
    let batch: Vec<_> = (0..100).map(slot).collect();
    let answer = post(&service, format!("[{}]", batch.join(",")));
    let opening = async {
        node.wait_for_waiting(16).await;
        // More would have come by then.
        node.wait_for_poll().await;
        node.wait_for_poll().await;
        node.open();
    };
    let (answer, ()) = tokio::join!(answer, opening);
    for (id, answer) in answer.json().as_array().unwrap().iter().enumerate() {
        assert_eq!((&answer["id"], &answer["result"][1]), (&json!(id), &json!(format!("{id:#x}"))));
    }
    assert_eq!((node.reads().len(), node.most_waiting()), (100, 16));
}

#[tokio::test]
async fn the_latest_state_is_used_again_until_the_polls_see_another_block() {
    let node = ReadNode::start(Say::Result("\"0x1\"".into())).await;
    let text = chain(&[&node], "block_time = \"1s\"");
    let service = Service::start(&text).await;
    wait_until_read(&service).await;
    let newest = |block: &'static str| {
        service.wait_for(SUGGESTION, move |answer| answer.header("x-newest-block") == block)
    };
    // Blocks come often here; a block that comes between two reads may end the hold of the first.
    node.mine(1001);
    newest("1001").await;
    assert_eq!(post(&service, balance(1, "latest")).await.json()["result"], "0x1");
    node.say(Say::Result("\"0x2\"".into()));
    let within = Instant::now();
    let again = post(&service, balance(2, "latest")).await.json();
    if within.elapsed() < Duration::from_millis(500) {
        assert_eq!(again["result"], "0x1");
    }
    node.mine(1002);
    newest("1002").await;
    assert_eq!(post(&service, balance(3, "latest")).await.json()["result"], "0x2");
}

#[tokio::test]
async fn after_a_receipt_the_latest_state_is_not_the_one_before_it() {
    let node = ReadNode::start(Say::Result("\"0x1\"".into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    post(&service, balance(1, "latest")).await;
    post(&service, balance(1, "latest")).await;
    assert_eq!(node.reads().len(), 1);
    node.say(Say::Result("{\"blockNumber\":\"0x3e9\",\"status\":\"0x1\"}".into()));
    post(&service, call(1, "eth_getTransactionReceipt", &json!([HASH]))).await;
    node.say(Say::Result("\"0x2\"".into()));
    assert_eq!(post(&service, balance(1, "latest")).await.json()["result"], "0x2");
}

#[tokio::test]
async fn a_block_that_was_told_of_in_the_making_is_told_of_again_when_it_is_there() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    let receipt = || call(1, "eth_getTransactionReceipt", &json!([HASH]));
    let of_block = |hash| {
        let receipt = json!({ "blockNumber": "0x3e9", "blockHash": hash });
        Say::Result(receipt.to_string())
    };
    for (balance_before, told, asked) in [
        ("0x1", of_block("0x0"), receipt()),
        ("0x2", of_block("0xa"), receipt()),
        ("0x3", Say::Result("\"0x3e9\"".into()), call(1, "eth_blockNumber", &json!([]))),
    ] {
        node.say(Say::Result(format!("{balance_before:?}")));
        for _ in 0..2 {
            let answer = post(&service, balance(1, "latest")).await.json();
            assert_eq!(answer["result"], balance_before);
        }
        node.say(told);
        post(&service, asked).await;
    }
    node.say(Say::Result("\"0x4\"".into()));
    assert_eq!(post(&service, balance(1, "latest")).await.json()["result"], "0x4");
}

#[tokio::test]
async fn pending_state_and_receipts_are_used_again_for_a_flashblock_at_most() {
    let node = ReadNode::start(Say::Result("\"0x1\"".into())).await;
    let service = Service::start(&chain(&[&node], "flashblock_time = \"300ms\"")).await;
    wait_until_read(&service).await;
    for body in [
        balance(1, "pending"),
        call(1, "eth_getTransactionReceipt", &json!([HASH])),
        call(1, "eth_estimateGas", &json!([{ "to": ADDRESS }])),
        call(1, "eth_getLogs", &json!([{}])),
    ] {
        node.say(Say::Result("\"0x1\"".into()));
        let before = Instant::now();
        post(&service, body.clone()).await;
        let asked = Instant::now();
        node.say(Say::Result("\"0x2\"".into()));
        let again = post(&service, body.clone()).await.json();
        if before.elapsed() < Duration::from_millis(300) {
            assert_eq!(again["result"], "0x1", "{body}");
        }
        // Nobody who asks later than that gets the old one; then it is the new one.
        loop {
            let sent = Instant::now();
            if post(&service, body.clone()).await.json()["result"] == "0x2" {
                break;
            }
            let age = sent.saturating_duration_since(asked);
            assert!(age <= Duration::from_millis(300), "{body} after {age:?}");
        }
    }
}

#[tokio::test]
async fn a_pending_nonce_is_never_used_again() {
    let node = ReadNode::start(Say::Result("\"0x1\"".into())).await;
    let service = Service::start(&chain(&[&node], "flashblock_time = \"1h\"")).await;
    wait_until_read(&service).await;
    let nonce = |tag: &str| call(1, "eth_getTransactionCount", &json!([ADDRESS, tag]));
    for tag in ["pending", "latest"] {
        post(&service, nonce(tag)).await;
        post(&service, nonce(tag)).await;
    }
    assert_eq!(node.reads().len(), 3);
}

#[tokio::test]
async fn a_receipt_that_was_not_there_is_asked_for_again_once_a_block_is_known() {
    let node = ReadNode::start(Say::Result("null".into())).await;
    let service = Service::start(&chain(&[&node], "flashblock_time = \"1h\"")).await;
    wait_until_read(&service).await;
    let receipt = call(1, "eth_getTransactionReceipt", &json!([HASH]));
    post(&service, receipt.clone()).await;
    post(&service, receipt.clone()).await;
    assert_eq!(node.reads().len(), 1);
    node.say(Say::Result("\"0x3e9\"".into()));
    post(&service, call(1, "eth_blockNumber", &json!([]))).await;
    node.say(Say::Result("{\"blockNumber\":\"0x3e9\"}".into()));
    assert_eq!(post(&service, receipt).await.json()["result"]["blockNumber"], "0x3e9");
}

#[tokio::test]
async fn what_can_never_change_is_used_again_over_blocks() {
    let node = ReadNode::start(Say::Result("{\"number\":\"0x384\"}".into())).await;
    let service = Service::start(&chain(&[&node], "block_time = \"500ms\"")).await;
    wait_until_read(&service).await;
    let at = |block: Value| call(1, "eth_getBalance", &json!([ADDRESS, block]));
    // The first read of a block far below the head finds out that 900 is final.
    post(&service, at(json!("0x300"))).await;
    let methods: Vec<_> = node.reads().into_iter().map(|read| read.method).collect();
    assert_eq!(
        methods.iter().filter(|name| *name == "eth_getBlockByNumber").count(),
        1,
        "{methods:?}"
    );
    let fixed = [
        at(json!(HASH)),
        at(json!({ "blockHash": HASH })),
        at(json!("0x384")),
        at(json!("earliest")),
    ];
    for body in &fixed {
        post(&service, body.clone()).await;
    }
    // 901 is not final, and a hash that has to be canonical may cease to be.
    let moving = [at(json!("0x385")), at(json!({ "blockHash": HASH, "requireCanonical": true }))];
    for body in &moving {
        post(&service, body.clone()).await;
    }
    node.say(Say::Result("\"new\"".into()));
    node.mine(1001);
    service.wait_for(SUGGESTION, |answer| answer.header("x-newest-block") == "1001").await;
    for body in &fixed {
        assert_eq!(
            post(&service, body.clone()).await.json()["result"]["number"],
            "0x384",
            "{body}"
        );
    }
    for body in &moving {
        assert_eq!(post(&service, body.clone()).await.json()["result"], "new", "{body}");
    }
}

#[tokio::test]
async fn an_absence_by_hash_is_not_kept() {
    let node = ReadNode::start(Say::Result("null".into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    let logs = call(1, "eth_getLogs", &json!([{ "blockHash": HASH }]));
    for say in [
        Say::Result("null".into()),
        Say::Error("{\"code\":-32000,\"message\":\"unknown block\"}".into()),
    ] {
        node.say(say);
        post(&service, logs.clone()).await;
    }
    node.say(Say::Result("[]".into()));
    assert_eq!(post(&service, logs.clone()).await.json()["result"], json!([]));
    // Some nodes say so of a block that they do not have yet.
    node.say(Say::Result("[7]".into()));
    assert_eq!(post(&service, logs).await.json()["result"], json!([7]));
}

#[tokio::test]
async fn a_nodes_own_error_is_the_answer_with_what_is_secret_blanked() {
    let node = ReadNode::start(Say::Error(String::new())).await;
    let other = "https://user:canarypass@other.example/v2/canary-key-1?k=canary%20q";
    let text = format!(
        "{}\n[chains.other]\nchain_id = 7\nblock_time = \"1h\"\nmax_age = \"1day\"\nrpc_urls = [\"{other}\"]\n",
        chain(&[&node], "")
    );
    let service = Service::start(&text).await;
    let revert =
        r#"{ "code":3, "message":"execution reverted: no","data":"0x08c379a0", "x":[1.0] }"#;
    node.say(Say::Error(revert.into()));
    let answer = post(&service, balance(1, "pending")).await;
    assert_eq!(answer.body, format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{revert}}}"));

    let url = node.url();
    let leak = format!(
        "{{\"code\":-32000,\"message\":\"POST {url}: canarypass canary q\",\"data\":[\"c\\u0061nary-key-1\"]}}"
    );
    node.say(Say::Error(leak));
    let answer = post(&service, balance(1, "pending")).await;
    assert_eq!(
        answer.json()["error"],
        json!({ "code": -32000, "message": "POST ***: *** ***", "data": ["***"] })
    );
    // No other upstream is asked for what one has answered.
    assert_eq!(node.reads().len(), 2);
}

/// What the service says when no node gives an answer.
fn unavailable() -> Value {
    json!({ "code": -32002, "message": "no upstream gave a usable answer" })
}

fn rate_limited() -> Value {
    json!({ "code": -32005, "message": "the upstreams limit the rate of calls; try again later" })
}

#[tokio::test]
async fn upstream_trouble_has_a_message_of_the_services_own() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    let raw = |status, body: &str| Say::Raw(status, body.into());
    for say in [
        raw(200, "<html>canary</html>"),
        raw(502, "canary"),
        raw(307, "canary"),
        raw(200, "{\"id\":{id}}"),
        raw(200, "{\"id\":0,\"result\":\"canary\"}"),
        raw(200, "{\"id\":\"{id}\",\"result\":\"canary\"}"),
        Say::Error("\"canary\"".into()),
        Say::Error("{\"code\":\"canary\",\"message\":\"canary\"}".into()),
        Say::Error("{\"code\":1}".into()),
        Say::Error(format!(
            "{{\"code\":1,\"message\":\"\",\"data\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        )),
    ] {
        node.say(say.clone());
        assert_eq!(error(&service, balance(1, "pending")).await, unavailable(), "{say:?}");
    }
    // Last, for it is not asked again for a while.
    node.say(raw(429, "canary"));
    assert_eq!(error(&service, balance(1, "pending")).await, rate_limited());
    let reads = node.reads().len();
    assert_eq!(error(&service, balance(1, "pending")).await, rate_limited());
    assert_eq!(node.reads().len(), reads);
}

#[tokio::test]
async fn a_read_that_one_node_cannot_answer_is_asked_of_the_next() {
    let raw = |status, body: &str| Say::Raw(status, body.into());
    for say in [
        raw(500, "no"),
        raw(429, "slow down"),
        raw(200, "not JSON"),
        Say::Error("{\"code\":-32601,\"message\":\"no such method\"}".into()),
        Say::Error("{\"code\":-32016,\"message\":\"over rate limit\"}".into()),
    ] {
        let (first, second) =
            (ReadNode::start(say.clone()).await, ReadNode::start(Say::Echo).await);
        let service = Service::start(&chain(&[&first, &second], "block_time = \"500ms\"")).await;
        wait_until_read(&service).await;
        for _ in 0..2 {
            let answer = post(&service, balance(1, "pending")).await.json();
            assert_eq!(answer["result"], json!([ADDRESS, "pending"]), "{say:?}");
        }
        assert_eq!(second.reads().len(), 2, "{say:?}");
        // The polls do not care: they go on with the first alone.
        first.wait_for_poll().await;
        first.wait_for_poll().await;
        assert_eq!(second.polls(), 0, "{say:?}");
    }
}

#[tokio::test]
async fn too_many_results_are_the_answer_and_not_a_rate_limit() {
    let node = ReadNode::start(Say::Error(
        "{\"code\":-32005,\"message\":\"query returned more than 10000 results\"}".into(),
    ))
    .await;
    let service = Service::start(&chain(&[&node], "")).await;
    for _ in 0..2 {
        let error = error(&service, call(1, "eth_getLogs", &json!([{}]))).await;
        assert_eq!(error["message"], "query returned more than 10000 results");
    }
    assert_eq!(node.reads().len(), 2);
}

#[tokio::test]
async fn a_method_that_a_node_lacks_says_nothing_of_its_others() {
    let lacks = || Say::Error("{\"code\":-32601,\"message\":\"canary\"}".into());
    let (node, other) = (ReadNode::start(lacks()).await, ReadNode::start(Say::Echo).await);
    let service = Service::start(&chain(&[&node, &other], "block_time = \"500ms\"")).await;
    wait_until_read(&service).await;
    let simulate = || call(1, "eth_simulateV1", &json!([{}, "pending"]));
    for _ in 0..2 {
        assert_eq!(post(&service, simulate()).await.json()["result"][1], "pending");
    }
    // It is not asked for that again so soon, but for all else.
    assert_eq!((node.reads().len(), other.reads().len()), (1, 2));
    node.say(Say::Echo);
    assert_eq!(post(&service, balance(1, "pending")).await.json()["result"][1], "pending");
    assert_eq!((node.reads().len(), other.reads().len()), (2, 2));
    node.wait_for_poll().await;

    // Where no node has it, it may have been what one call asked for.
    let node = ReadNode::start(lacks()).await;
    let service = Service::start(&chain(&[&node], "")).await;
    let unsupported = json!({ "code": -32601, "message": "the method asked for does not exist at the upstreams" });
    assert_eq!(error(&service, simulate()).await, unsupported);
    node.say(Say::Echo);
    assert_eq!(post(&service, simulate()).await.json()["result"][1], "pending");
}

#[tokio::test]
async fn a_node_of_another_chain_answers_no_read() {
    let (wrong, right) = (ReadNode::start(Say::Echo).await, ReadNode::start(Say::Echo).await);
    wrong.serve_chain(1);
    let service = Service::start(&chain(&[&wrong, &right], "")).await;
    for _ in 0..2 {
        assert_eq!(post(&service, balance(1, "pending")).await.json()["result"][1], "pending");
    }
    assert_eq!((wrong.reads().len(), right.reads().len()), (0, 2));
    let service = Service::start(&chain(&[&wrong], "")).await;
    assert_eq!(error(&service, balance(1, "pending")).await, unavailable());
    assert_eq!(wrong.reads(), []);
}

#[tokio::test]
async fn a_node_that_failed_has_to_prove_its_chain_again() {
    let node = ReadNode::start(Say::Echo).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    post(&service, balance(1, "pending")).await;
    assert_eq!(node.chain_checks(), 1);
    node.say(Say::Raw(500, String::new()));
    for _ in 0..3 {
        post(&service, balance(1, "pending")).await;
    }
    // Meanwhile another node has taken its place.
    node.serve_chain(1);
    node.say(Say::Echo);
    assert_eq!(error(&service, balance(1, "pending")).await, unavailable());
    assert_eq!((node.reads().len(), node.chain_checks()), (4, 2));
}

#[tokio::test]
async fn a_method_that_one_node_lacks_and_another_fails_at_may_be_there() {
    let lacks = Say::Error("{\"code\":-32601,\"message\":\"no\"}".into());
    for (first, expected) in [
        (Say::Raw(502, String::new()), unavailable()),
        (Say::Raw(429, String::new()), rate_limited()),
    ] {
        let (node, other) = (ReadNode::start(first).await, ReadNode::start(lacks.clone()).await);
        let service = Service::start(&chain(&[&node, &other], "")).await;
        for _ in 0..2 {
            assert_eq!(error(&service, balance(1, "pending")).await, expected);
        }
    }
}

#[tokio::test]
async fn clients_that_give_up_soon_find_the_next_node_in_the_end() {
    let (silent, good) = (ReadNode::start(Say::Echo).await, ReadNode::start(Say::Echo).await);
    let service = Service::start(&chain(&[&silent, &good], "")).await;
    wait_until_read(&service).await;
    silent.close();
    let client = Client::builder().timeout(Duration::from_millis(700)).build().unwrap();
    let since = Instant::now();
    loop {
        let read = client.post(service.url("/rpc/ronin")).body(balance(1, "pending")).send().await;
        if read.is_ok() {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "the silent node is asked for ever");
    }
    assert_eq!(good.reads().len(), 1);
}

#[tokio::test]
async fn silent_reads_end_in_time_and_no_poll_waits_for_them() {
    let node = ReadNode::start(Say::Echo).await;
    let rpc = "[rpc]\ntimeout = \"5s\"\nmax_in_flight = 4\n";
    let service = Service::with_server(rpc, &chain(&[&node], "block_time = \"200ms\"")).await;
    wait_until_read(&service).await;
    node.close();
    let started = Instant::now();
    let slots = (0..4)
        .map(|id| call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), "pending"])));
    let reads = post_all(&service, slots);
    let watching = async {
        node.wait_for_waiting(4).await;
        for block in 1001..1005 {
            node.mine(block);
            let newest = block.to_string();
            let answer = service
                .wait_for(SUGGESTION, |answer| answer.header("x-newest-block") == newest)
                .await;
            assert_eq!((answer.status, answer.header("x-stale")), (200, ""));
        }
        assert!(started.elapsed() < Duration::from_secs(5), "the reads are still under way");
        // A fifth one has its answer at once.
        assert_eq!(error(&service, balance(9, "pending")).await["code"], -32005);
    };
    let (answers, ()) = tokio::join!(reads, watching);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for answer in answers {
        let expected = json!({ "code": -32002, "message": "no upstream answered in time" });
        assert_eq!(answer["error"], expected);
    }
    node.open();
    assert_eq!(post(&service, balance(1, "pending")).await.json()["result"][1], "pending");
}

#[tokio::test]
async fn a_silent_node_leaves_time_for_the_next() {
    let (silent, good) = (ReadNode::start(Say::Echo).await, ReadNode::start(Say::Echo).await);
    let service = Service::start(&chain(&[&silent, &good], "")).await;
    wait_until_read(&service).await;
    silent.close();
    assert_eq!(post(&service, balance(1, "pending")).await.json()["result"][1], "pending");
    // From then on the other one comes first.
    post(&service, balance(1, "pending")).await;
    assert_eq!((silent.reads().len(), good.reads().len()), (1, 2));
}

#[tokio::test]
async fn a_slow_node_can_still_answer_while_the_next_is_asked() {
    let (slow, silent) = (ReadNode::start(Say::Echo).await, ReadNode::start(Say::Echo).await);
    let service = Service::start(&chain(&[&slow, &silent], "")).await;
    wait_until_read(&service).await;
    slow.close();
    silent.close();
    let read = post(&service, balance(1, "pending"));
    let opening = async {
        silent.wait_for_waiting(1).await;
        slow.open();
    };
    let (answer, ()) = tokio::join!(read, opening);
    assert_eq!(answer.json()["result"][1], "pending");
}

#[tokio::test]
async fn who_joins_a_call_that_has_little_time_left_still_has_their_own() {
    let node = ReadNode::start(Say::Echo).await;
    let rpc = "[rpc]\ntimeout = \"2s\"\n";
    let service = Service::with_server(rpc, &chain(&[&node], "block_time = \"500ms\"")).await;
    wait_until_read(&service).await;
    node.close();
    let first = post(&service, balance(1, "pending"));
    let second = async {
        node.wait_for_waiting(1).await;
        // Until more than half of the time is over, which is all that there is to wait for.
        tokio::time::sleep(Duration::from_millis(1300)).await;
        let second = post(&service, balance(2, "pending"));
        let opening = async {
            node.wait_for_reads(2).await;
            node.open();
        };
        tokio::join!(second, opening).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.json()["error"]["message"], "no upstream answered in time");
    assert_eq!(second.json()["result"][1], "pending", "{second:?}");
}

#[tokio::test]
async fn reads_that_wait_for_one_check_of_the_chain_do_not_make_another() {
    let node = ReadNode::start(Say::Raw(500, String::new())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    for _ in 0..3 {
        post(&service, balance(1, "pending")).await;
    }
    node.serve_chain(1);
    let checks = node.chain_checks();
    let slot =
        |id: usize| call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), "pending"]));
    let batch: Vec<_> = (0..16).map(slot).collect();
    for answer in post(&service, format!("[{}]", batch.join(","))).await.json().as_array().unwrap()
    {
        assert_eq!(answer["error"], unavailable());
    }
    assert_eq!((node.chain_checks() - checks, node.reads().len()), (1, 3));
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_shared_call_to_the_others() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let service = Service::start(&chain(&[&node], "")).await;
    wait_until_read(&service).await;
    node.close();
    let body = balance(1, "latest");
    let request = format!(
        "POST /rpc/ronin HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut first = Connection::open(service.address()).await;
    first.send(&request).await;
    node.wait_for_waiting(1).await;
    let other = post(&service, balance(2, "latest"));
    let leaving = async {
        drop(first);
        node.wait_for_waiting(0).await;
        node.open();
    };
    let (other, ()) = tokio::join!(other, leaving);
    assert_eq!(other.json()["result"], "0x7");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_refused_and_the_node_is_not_blamed() {
    let too_large = format!("\"{}\"", "x".repeat(10 * 1024 * 1024));
    let (node, other) =
        (ReadNode::start(Say::Result(too_large)).await, ReadNode::start(Say::Echo).await);
    let service = Service::start(&chain(&[&node, &other], "")).await;
    let refusal = json!({ "code": -32005, "message": "the answer is too large; ask for less" });
    assert_eq!(error(&service, balance(1, "pending")).await, refusal);
    let large = format!("\"{}\"", "x".repeat(9 * 1024 * 1024));
    node.say(Say::Result(large.clone()));
    let answer = post(&service, balance(1, "pending")).await;
    assert_eq!(answer.body, format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{large}}}"));
    assert_eq!(other.reads(), []);
}

#[tokio::test]
async fn a_request_keeps_to_its_limits() {
    let node = ReadNode::start(Say::Echo).await;
    let more = "[rpc]\nmax_body = \"1 KiB\"\nmax_batch = 3\n[limits]\nbody_timeout = \"300ms\"\n";
    let service = Service::with_server(more, &chain(&[&node], "")).await;
    let members = |count: usize| {
        let members = (0..count)
            .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"eth_chainId\"}}"));
        format!("[{}]", members.collect::<Vec<_>>().join(","))
    };
    assert_eq!(post(&service, members(3)).await.json().as_array().unwrap().len(), 3);
    let error = error(&service, members(4)).await;
    assert_eq!(error, json!({ "code": -32600, "message": "a batch may have 3 calls, not 4" }));

    let padded = |length: usize| {
        let mut body = balance(1, "latest");
        let _ = write!(body, "{}", " ".repeat(length - body.len()));
        body
    };
    assert_eq!(post(&service, padded(1024)).await.status, 200);
    let large = post(&service, padded(1025)).await;
    assert_eq!((large.status, &large.json()["code"]), (413, &json!("payload_too_large")));

    let send = |headers: &'static str, body: String| {
        let address = service.address();
        async move {
            let mut connection = Connection::open(address).await;
            connection
                .ask(format!("POST /rpc/ronin HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}"))
                .await
        }
    };
    let chunked = |body: &str| format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let answer = send("Transfer-Encoding: chunked\r\n", chunked(&balance(1, "latest"))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = send("Transfer-Encoding: chunked\r\n", chunked(&padded(1025))).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    let answer = send("Content-Length: 100\r\n", "{\"jsonrpc\"".into()).await;
    assert_eq!(answer.status, 408, "{answer:?}");
    let answer = send("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}".into()).await;
    assert_eq!(answer.status, 415, "{answer:?}");

    let wrong_verb = service.get("/rpc/ronin").await;
    assert_eq!((wrong_verb.status, wrong_verb.header("allow")), (405, "POST"));
    let unknown = Client::new().post(service.url("/rpc/nowhere")).body("{}").send().await.unwrap();
    let unknown = Answer::of(unknown).await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!("unknown_chain")));
    let by_id = Client::new().post(service.url("/rpc/2020")).body(balance(1, "latest"));
    assert_eq!(by_id.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn every_call_of_a_batch_is_charged_to_its_client() {
    let node = ReadNode::start(Say::Echo).await;
    let more = "[limits]\nrequests_per_second_per_client = 1\nrequest_burst_per_client = 30\n";
    let service = Service::with_server(more, &chain(&[&node], "")).await;
    let batch = |count: usize| {
        let members: Vec<_> = (0..count).map(|id| balance(id, "latest")).collect();
        format!("[{}]", members.join(","))
    };
    assert_eq!(post(&service, batch(20)).await.status, 200);
    let refused = post(&service, batch(20)).await;
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("rate_limited")));
    assert!(!refused.header("retry-after").is_empty());
    // What was refused as a whole cost no more than a request.
    assert_eq!(post(&service, batch(5)).await.status, 200);
}

/// The service as a process of its own, with the JSON-RPC route's limits alone.
async fn start_process(name: &str, node: &ReadNode, more: &str) -> Process {
    let text = format!(
        "[limits]\nrequests_per_second_per_client = 0\nwrite_timeout = \"10m\"\n{}",
        chain(&[node], more)
    );
    let file = command::File::new(name, &text);
    let service = Process::start(&["--config", file.path()], &[]);
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    service
}

#[tokio::test]
async fn one_nodes_error_page_does_not_tell_anothers_key_to_the_log() {
    let node = ReadNode::start(Say::Raw(502, "proxy to /v2/CanaryPathKey77 failed".into())).await;
    let text = format!(
        "[log]\nfilter = \"trace\"\n[chains.ronin]\nchain_id = 2020\nblock_time = \"500ms\"\n\
         rpc_urls = [{:?}, \"http://user:CanaryPass10@127.0.0.1:9/v2/CanaryPathKey77/?k=CanaryQuery1\"]\n",
        node.url()
    );
    let file = command::File::new("other-key", &text);
    let service = Process::start(&["--config", file.path()], &[]);
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    let mut client = Connection::open(service.address).await;
    let answer = client.ask(request(&balance(1, "pending"))).await;
    assert!(answer.body.contains("-32002"), "{answer:?}");
    let (code, log) = service.end_by("-TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("an upstream did not answer a read"), "{log}");
    assert!(!log.contains("Canary"), "{log}");
}

fn request(body: &str) -> String {
    format!("POST /rpc/ronin HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Whether what comes is a result, as far as its first bytes tell.
async fn is_answered(reader: &mut Connection) -> bool {
    let mut start = String::new();
    while !start.contains("\"id\":") {
        start.push_str(&String::from_utf8(reader.bytes(1).await).unwrap());
    }
    while !start.ends_with("\"result\"") && !start.ends_with("\"error\"") {
        start.push_str(&String::from_utf8(reader.bytes(1).await).unwrap());
    }
    start.ends_with("\"result\"") || {
        let error = String::from_utf8(reader.bytes(60).await).unwrap();
        assert!(error.contains("too many large answers"), "{error}");
        false
    }
}

#[tokio::test]
async fn slow_readers_of_one_large_answer_share_its_bytes() {
    const READERS: u64 = 200;
    const MIB: usize = 1024 * 1024;
    let node =
        ReadNode::start(Say::Result(format!("\"NaN Infinity {}\"", "x".repeat(8 * MIB)))).await;
    let service = start_process("slow-readers", &node, "").await;
    let head = b"HTTP/1.1 200 OK\r\n";
    let mut warm = Connection::open(service.address).await;
    warm.send(request(&balance(0, "latest"))).await;
    assert_eq!(warm.bytes(head.len()).await, head);
    let before = service.resident_kib();
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = Connection::open(service.address).await;
        reader.send(request(&balance(0, "latest"))).await;
        assert_eq!(reader.bytes(head.len()).await, head);
        readers.push(reader);
    }
    let each = (service.resident_kib().saturating_sub(before)) / READERS;
    assert!(each < 256, "{each} KiB for each reader of 8 MiB");
    assert_eq!(node.reads().len(), 1);
}

#[tokio::test]
async fn answers_that_nobody_takes_fill_the_memory_so_far_and_no_further() {
    const MIB: usize = 1024 * 1024;
    let large = format!("\"NaN Infinity {}\"", "x".repeat(8 * MIB));
    let node = ReadNode::start(Say::Result(large.clone())).await;
    let service = start_process("full", &node, "").await;
    let slot =
        |id: usize| call(id, "eth_getStorageAt", &json!([ADDRESS, format!("{id:#x}"), "pending"]));
    let mut readers = Vec::new();
    let mut refused = 0;
    for id in 0..60 {
        let mut reader = Connection::open(service.address).await;
        reader.send(request(&slot(id))).await;
        if is_answered(&mut reader).await {
            readers.push(reader);
        } else {
            refused += 1;
        }
    }
    // 256 MiB are 32 of them, the free beginning of each aside.
    assert_eq!((readers.len(), refused), (32, 28));
    let resident = service.resident_kib() / 1024;
    assert!(resident < 256 + 96, "{resident} MiB");
    // Small answers have room, the gas suggestion does not care, and all is well again when the
    // readers are gone.
    node.say(Say::Echo);
    let mut small = Connection::open(service.address).await;
    assert!(small.ask(request(&slot(98))).await.body.contains("result"));
    node.say(Say::Result(large));
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    drop(readers);
    let since = Instant::now();
    loop {
        let mut reader = Connection::open(service.address).await;
        reader.send(request(&slot(99))).await;
        if is_answered(&mut reader).await {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "the memory is not given back");
    }
}
