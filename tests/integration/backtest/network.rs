//! Blocks of a node: one that is made up at the network's edge, and anvil.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::extract::State;
use gas_suggestion::demo::Recording;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{ETHEREUM, refused, replayed, row};
use crate::anvil::Anvil;
use crate::fixtures;

/// A node of the recorded blocks; the last one is its newest.
struct Node {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Served {
    recording: Arc<Recording>,
    manner: Manner,
    asked: Arc<Mutex<Vec<Value>>>,
}

/// How the node answers.
#[derive(Clone, Copy)]
enum Manner {
    /// At most so many blocks to each call.
    AtMost(usize),
    /// Integers for the block count and nothing else.
    Integers,
    /// All calls but the first with an error.
    Once,
    /// Always the newest blocks.
    Newest,
}

impl Node {
    async fn start(manner: Manner) -> Self {
        let recording = Recording::from_gzip(&fixtures::read(ETHEREUM)).unwrap();
        let asked = Arc::default();
        let served = Served { recording: Arc::new(recording), manner, asked: Arc::clone(&asked) };
        let app = Router::new().fallback(answer).with_state(served);
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, asked, task }
    }

    fn url(&self) -> String {
        format!("http://canary:canary@{}/v2/canarykey", self.address)
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(served): State<Served>, Json(call): Json<Value>) -> Json<Value> {
    let calls = {
        let mut asked = served.asked.lock().unwrap();
        asked.push(call.clone());
        asked.len()
    };
    let error = |code: i32| {
        let error = json!({ "code": code, "message": "canary" });
        Json(json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }))
    };
    let params = &call["params"];
    let wants_integer = matches!(served.manner, Manner::Integers);
    if params[0].is_u64() != wants_integer {
        return error(-32602);
    }
    if matches!(served.manner, Manner::Once) && calls > 1 {
        return error(-32000);
    }
    let recording = &served.recording;
    let hex = |value: &Value| {
        u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
    };
    let count: usize = params[0].as_u64().unwrap_or_else(|| hex(&params[0])).try_into().unwrap();
    let last = match params[1].as_str().unwrap() {
        "latest" => recording.blocks() - 1,
        _ if matches!(served.manner, Manner::Newest) => recording.blocks() - 1,
        _ => usize::try_from(hex(&params[1]) - recording.oldest_block).unwrap(),
    };
    let most = if let Manner::AtMost(most) = served.manner { most } else { 1024 };
    let first = (last + 1).saturating_sub(count.min(most));
    let columns: Vec<_> = params[2].as_array().unwrap().iter().map(column).collect();
    let quantity = |wei: &u64| format!("{wei:#x}");
    let rows = recording.reward[first..=last].iter();
    let rows = rows.map(|row| columns.iter().map(|column| quantity(&row[*column])).collect());
    let result = json!({
        "oldestBlock": quantity(&(recording.oldest_block + first as u64)),
        "baseFeePerGas": recording.base_fee_per_gas[first..=last + 1].iter().map(quantity).collect::<Vec<_>>(),
        "gasUsedRatio": recording.gas_used_ratio[first..=last],
        "reward": rows.collect::<Vec<Vec<_>>>(),
    });
    Json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))
}

/// Where the recording has this percentile, or the one that stands for it.
fn column(percentile: &Value) -> usize {
    // To the nearest of 0, 5, …, 100.
    usize::try_from((percentile.as_u64().unwrap() + 2) / 5).unwrap()
}

/// The command, away from the node that it asks.
async fn away<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn replayed_from(node: &Node, blocks: &str) -> Value {
    let (url, blocks) = (node.url(), blocks.to_owned());
    away(move || replayed(&["--rpc-url", &url, "--blocks", &blocks])).await
}

async fn refused_by(node: &Node) -> String {
    let url = node.url();
    let (code, stderr) = away(move || refused(&["--rpc-url", &url, "--blocks", "300"])).await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(!stderr.contains("canary"), "{stderr}");
    stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_asked_for_what_is_needed_and_nothing_else() {
    let node = Node::start(Manner::AtMost(1024)).await;
    let mut found = replayed_from(&node, "1024").await;
    let mut recorded = away(|| replayed(&[&super::path(ETHEREUM)])).await;
    assert_eq!(found["estimators"].take(), recorded["estimators"].take());
    assert_eq!(found["name"], "the node's newest blocks");
    assert_eq!(found["oldest_block"], recorded["oldest_block"]);
    let asked = node.asked();
    assert_eq!(asked.len(), 1);
    let percentiles = json!([0, 5, 10, 15, 20, 30, 33, 40, 45, 50, 60, 70, 90]);
    assert_eq!(asked[0]["method"], "eth_feeHistory");
    assert_eq!(asked[0]["params"], json!(["0x400", "latest", percentiles]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_gives_fewer_blocks_to_a_call_is_asked_again_until_all_are_there() {
    let node = Node::start(Manner::AtMost(100)).await;
    let all = replayed_from(&node, "250").await;
    assert_eq!((&all["quotes"], &all["newest_block"]), (&176.into(), &23_598_757.into()));
    let asked = node.asked();
    let asked: Vec<_> = asked.iter().map(|call| [&call["params"][0], &call["params"][1]]).collect();
    let before = |blocks: u64| format!("{:#x}", 23_598_757 - blocks);
    let expected = [
        [json!("0xfa"), json!("latest")],
        [json!("0x96"), json!(before(100))],
        [json!("0x32"), json!(before(200))],
    ];
    assert_eq!(asked, expected.each_ref().map(|[count, newest]| [count, newest]));
    let whole = Node::start(Manner::AtMost(1024)).await;
    assert_eq!(replayed_from(&whole, "250").await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wants_integers_gets_them() {
    let node = Node::start(Manner::Integers).await;
    let found = replayed_from(&node, "250").await;
    assert_eq!(found["quotes"], 176);
    let asked = node.asked();
    assert_eq!(
        asked.iter().map(|call| &call["params"][0]).collect::<Vec<_>>(),
        [&json!("0xfa"), &json!(250)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_with_a_node_is_told_without_its_url() {
    let node = Node::start(Manner::Newest).await;
    let url = node.url();
    let (code, stderr) = away(move || refused(&["--rpc-url", &url, "--blocks", "1100"])).await;
    // The chain is older than the recording, so this node has no older blocks to give.
    assert_eq!(code, Some(1));
    assert_eq!(stderr, "error: eth_feeHistory of 76 blocks up to 23597733 gave other blocks\n");

    let few = Node::start(Manner::AtMost(1)).await;
    let told = refused_by(&few).await;
    assert_eq!(
        told,
        "error: 256 calls of eth_feeHistory gave 256 blocks only; ask for fewer with --blocks\n"
    );

    let gone = few.url();
    drop(few);
    let (code, stderr) = away(move || refused(&["--rpc-url", &gone])).await;
    assert_eq!(code, Some(1));
    assert!(
        stderr
            .starts_with("error: eth_feeHistory of the newest 1024 blocks failed: cannot connect"),
        "{stderr}"
    );
    assert!(!stderr.contains("canary"), "{stderr}");

    let (code, stderr) = away(|| refused(&["--rpc-url", "canary"])).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("expected an http:// or https:// URL"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_under_way_gives_nothing() {
    let node = Node::start(Manner::Once).await;
    let url = node.url();
    let (code, stderr) = away(move || refused(&["--rpc-url", &url, "--blocks", "2000"])).await;
    let expected = "error: eth_feeHistory of 976 blocks up to 23597733 failed: the node answers error -32000\n";
    assert_eq!((code, stderr.as_str()), (Some(1), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn anvils_blocks_are_scored_from_the_first() {
    let anvil = Anvil::start(0, &[]);
    anvil.call("anvil_mine", json!(["0x5a"])).await;
    let url = anvil.url();
    let found = away(move || replayed(&["--rpc-url", &url, "--blocks", "1000"])).await;
    // The blocks 0 to 90, all without a transaction.
    assert_eq!((&found["oldest_block"], &found["newest_block"]), (&0.into(), &90.into()));
    assert_eq!(found["quotes"], 17);
    let alloy = row(&found, "alloy");
    assert_eq!((&alloy["included_next"], &alloy["overpaid_p50"]), (&1.0.into(), &"1".into()));
    assert_eq!(alloy["tip_covered"], Value::Null);
}
