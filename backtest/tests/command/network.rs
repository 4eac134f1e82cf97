//! Blocks from a node.

use std::io::Read;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use axum::{Json, Router, routing::post};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{ETHEREUM, fail, file, run_json};

/// A node that serves recorded blocks.
struct Node {
    url: String,
    /// Parameters of all calls.
    calls: Arc<Mutex<Vec<Value>>>,
}

/// Restrictions of the node.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    /// Returns at most this many blocks per call.
    AtMost(usize),
    /// Accepts only integer block counts.
    Integers,
    /// Returns an error to every call but the first.
    FirstOnly,
    /// Always returns the newest blocks.
    Newest,
}

fn ethereum() -> Value {
    let bytes = std::fs::read(format!("{}/../{ETHEREUM}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut json = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn number(quantity: &Value) -> usize {
    usize::from_str_radix(quantity.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Returns the result of `eth_feeHistory` for the recorded blocks at these positions. Their percentiles are 0, 5, …, 100.
fn fee_history(recording: &Value, first: usize, last: usize, percentiles: &Value) -> Value {
    let part = |key: &str, end: usize| &recording[key].as_array().unwrap()[first..=end];
    let column =
        |percentile: &Value| usize::try_from((percentile.as_u64().unwrap() + 2) / 5).unwrap();
    let columns: Vec<usize> = percentiles.as_array().unwrap().iter().map(column).collect();
    let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect::<Vec<_>>();
    json!({
        "oldestBlock": format!("{:#x}", number(&recording["oldestBlock"]) + first),
        "baseFeePerGas": part("baseFeePerGas", last + 1),
        "gasUsedRatio": part("gasUsedRatio", last),
        "reward": part("reward", last).iter().map(row).collect::<Vec<_>>(),
    })
}

impl Node {
    fn start(recording: Value, behaviour: Behaviour) -> Self {
        let calls = Arc::<Mutex<Vec<Value>>>::default();
        let seen = Arc::clone(&calls);
        let answer = move |call: Value| {
            assert_eq!(call["method"], "eth_feeHistory");
            let params = &call["params"];
            let mut seen = seen.lock().unwrap();
            seen.push(params.clone());
            let mut reply = json!({ "jsonrpc": "2.0", "id": call["id"] });
            if params[0].is_u64() != (behaviour == Behaviour::Integers) {
                reply["error"] = json!({ "code": -32602, "message": "canary" });
                return reply;
            }
            if behaviour == Behaviour::FirstOnly && seen.len() > 1 {
                reply["error"] = json!({ "code": -32000, "message": "canary" });
                return reply;
            }
            let count = params[0].as_u64().map(|count| usize::try_from(count).unwrap());
            let count = count.unwrap_or_else(|| number(&params[0]));
            let last = if params[1] == "latest" || behaviour == Behaviour::Newest {
                recording["gasUsedRatio"].as_array().unwrap().len() - 1
            } else {
                number(&params[1]) - number(&recording["oldestBlock"])
            };
            let most = if let Behaviour::AtMost(most) = behaviour { most } else { 1024 };
            let first = (last + 1).saturating_sub(count.min(most));
            reply["result"] = fee_history(&recording, first, last, &params[2]);
            reply
        };
        let answer = Arc::new(answer);
        let route = post(move |Json(call): Json<Value>| async move { Json(answer(call)) });
        let app = Router::new().fallback_service(route);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://canary:canary@{}/canarykey", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        Self { url, calls }
    }

    fn run(&self, blocks: &str) -> Value {
        run_json(&["--rpc-url", &self.url, "--blocks", blocks])
    }
}

#[test]
fn node_gets_one_call_for_the_needed_percentiles() {
    let recording = ethereum();
    let node = Node::start(recording.clone(), Behaviour::AtMost(1024));
    let mut result = node.run("1024");
    let percentiles = json!([0, 5, 10, 15, 20, 30, 33, 40, 45, 50, 60, 70, 90]);
    assert_eq!(*node.calls.lock().unwrap(), [json!(["0x400", "latest", percentiles])]);

    let mut blocks = fee_history(&recording, 0, 1023, &percentiles);
    blocks["rewardPercentiles"] = percentiles;
    let mut recorded = run_json(&[&file(blocks.to_string())]);
    assert_eq!(result["estimators"].take(), recorded["estimators"].take());
    assert_eq!(result["name"], "the node's newest blocks");
    assert_eq!(result["oldest_block"], recorded["oldest_block"]);
}

#[test]
fn calls_repeat_for_capped_nodes_and_those_that_need_integers() {
    let whole = Node::start(ethereum(), Behaviour::AtMost(1024)).run("250");
    assert_eq!((&whole["quotes"], &whole["newest_block"]), (&176.into(), &23_598_757.into()));
    let before = |blocks: u64| format!("{:#x}", 23_598_757 - blocks);
    let capped = json!([["0xfa", "latest"], ["0x96", before(100)], ["0x32", before(200)]]);
    let integers = json!([["0xfa", "latest"], [250, "latest"]]);
    for (behaviour, expected) in [(Behaviour::AtMost(100), capped), (Behaviour::Integers, integers)]
    {
        let node = Node::start(ethereum(), behaviour);
        assert_eq!(node.run("250"), whole);
        let calls = node.calls.lock().unwrap();
        let calls: Vec<_> = calls.iter().map(|params| [&params[0], &params[1]]).collect();
        assert_eq!(json!(calls), expected);
    }
}

#[test]
fn blocks_are_scored_from_genesis() {
    let mut recording = ethereum();
    recording["oldestBlock"] = "0x0".into();
    recording["gasUsedRatio"].as_array_mut().unwrap().truncate(91);
    let result = Node::start(recording, Behaviour::AtMost(1024)).run("1000");
    assert_eq!((&result["oldest_block"], &result["newest_block"]), (&0.into(), &90.into()));
    assert_eq!(result["quotes"], 17);
}

#[test]
fn node_errors_do_not_reveal_its_url() {
    for (behaviour, blocks, error) in [
        // The recording has fewer blocks and starts after genesis, so the command requests 76 older blocks. This node
        // returns its newest ones instead.
        (
            Behaviour::Newest,
            "1100",
            "eth_feeHistory of 76 blocks up to 23597733 returned other blocks",
        ),
        (
            Behaviour::AtMost(1),
            "300",
            "256 calls of eth_feeHistory returned only 256 blocks; request fewer with --blocks",
        ),
        (
            Behaviour::FirstOnly,
            "2000",
            "eth_feeHistory of 976 blocks up to 23597733 failed: the node returned error -32000: ***",
        ),
    ] {
        let node = Node::start(ethereum(), behaviour);
        let expected = (Some(1), format!("error: {error}\n"));
        assert_eq!(fail(&["--rpc-url", &node.url, "--blocks", blocks]), expected);
    }

    // No process listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, stderr) = fail(&["--rpc-url", &format!("http://canary:canary@{address}")]);
    let expected = "error: eth_feeHistory of the newest 1024 blocks failed: cannot connect";
    assert!(code == Some(1) && stderr.starts_with(expected), "{stderr}");
    assert!(!stderr.contains("canary"), "{stderr}");

    let (code, stderr) = fail(&["--rpc-url", "canary"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("expected an http:// or https:// URL"), "{stderr}");
}
