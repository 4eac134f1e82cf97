//! The estimators of other systems, held against what those systems publish: the same windows of every recording in,
//! the same tip and max fee out.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use gas_suggestion::backtest::{Recording, all, read};
use gas_suggestion::config::Pricing;
use serde_json::{Value, json};

use super::{BASE, ETHEREUM, POLYGON};
use crate::{fixtures, programs};

/// What is compared of each recording: every tenth of its blocks, once there are twenty before it.
const EVERY: usize = 10;

/// A window of a recording as a node would tell it, and what `backtest` quotes from it.
struct Window {
    base_fee: u128,
    next_base_fee: u128,
    ratios: Vec<f64>,
    /// At the percentile that was asked for, oldest first.
    rewards: Vec<u128>,
    tip: u128,
    max_fee: u128,
}

/// Windows of `blocks` for the estimator `name`, which looks at `percentile`.
fn windows(name: &str, percentile: f64, blocks: usize) -> Vec<Window> {
    let pricing = Pricing::default();
    let estimators = all(&pricing);
    let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
    let mut windows = Vec::new();
    for file in [ETHEREUM, BASE, POLYGON] {
        let recording: Recording = read(&fixtures::path(file), None).unwrap();
        let column = recording.percentiles.iter().position(|found| *found >= percentile).unwrap();
        let before = windows.len();
        for head in (20..recording.blocks.len() - 1).step_by(EVERY) {
            let quote = estimator.quote(recording.at(head).unwrap()).unwrap();
            let window = &recording.blocks[head + 1 - blocks..=head];
            windows.push(Window {
                base_fee: recording.blocks[head].base_fee,
                next_base_fee: recording.blocks[head + 1].base_fee,
                ratios: window.iter().map(|block| block.gas_used_ratio.unwrap()).collect(),
                rewards: window
                    .iter()
                    .map(|block| block.rewards.as_ref().unwrap()[column])
                    .collect(),
                tip: quote.tip.unwrap(),
                max_fee: quote.max_fee().unwrap(),
            });
        }
        assert!(windows.len() - before >= 50, "{file}");
    }
    windows
}

fn expected(windows: &[Window]) -> Vec<String> {
    windows.iter().map(|window| format!("{} {}", window.tip, window.max_fee)).collect()
}

/// Runs a program that reads the windows from a file whose path is its last argument, and compares what it tells.
async fn compare(mut command: Command, name: &str, windows: &[Window]) {
    let hex = |wei: &u128| format!("{wei:#x}");
    let told: Vec<Value> = windows
        .iter()
        .map(|window| {
            json!({
                "baseFee": hex(&window.base_fee),
                "nextBaseFee": hex(&window.next_base_fee),
                "ratios": window.ratios,
                "rewards": window.rewards.iter().map(hex).collect::<Vec<_>>(),
                // What the node answers to eth_maxPriorityFeePerGas, for those who ask for that.
                "tip": hex(&window.tip),
            })
        })
        .collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("windows-{name}.json"));
    std::fs::write(&path, json!(told).to_string()).unwrap();
    command.arg(&path);
    let told = programs::success(command).await;
    assert_eq!(told.lines().collect::<Vec<_>>(), expected(windows), "{name}");
}

#[test]
fn alloy_makes_the_same_of_every_window() {
    let program = fixtures::path("target/alloy/debug/gas-suggestion-alloy");
    assert!(program.exists(), "no {}: run tests/run.sh", program.display());
    let windows = windows("alloy", 20.0, 10);
    let lines = windows.iter().map(|window| {
        let amounts = std::iter::once(&window.base_fee).chain(&window.rewards);
        amounts.map(u128::to_string).collect::<Vec<_>>().join(" ") + "\n"
    });
    let mut process =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let lines: String = lines.collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected(&windows));
}

async fn node_library(library: &str) {
    let windows = windows(&format!("{library} on geth"), 0.0, 20);
    let mut command = programs::node(&[library]);
    command.arg(programs::script("estimators.mjs")).arg(library);
    compare(command, library, &windows).await;
}

#[tokio::test]
async fn viem_makes_the_same_of_every_window() {
    node_library("viem").await;
}

#[tokio::test]
async fn ethers_makes_the_same_of_every_window() {
    node_library("ethers").await;
}

#[tokio::test]
async fn web3_py_makes_the_same_of_every_window() {
    let mut command = programs::of_python("python");
    command.arg(fixtures::path("tests/python/estimators.py"));
    compare(command, "web3", &windows("web3.py fallback", 5.0, 10)).await;
}
