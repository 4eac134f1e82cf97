//! Compares the estimators of other systems with the published programs. Both must return the same tip and max fee for
//! the same windows of every recording.

use std::path::Path;
use std::process::Command;

use gas_suggestion::extras::backtest::{Recording, all_estimators, read_recording};
use gas_suggestion::fees::Pricing;
use serde_json::{Value, json};

use super::{BASE, ETHEREUM, POLYGON};
use crate::{fixtures, programs};

/// Number of blocks from one compared head to the next; the first is the twenty-first block of a recording.
const STEP: usize = 10;

/// A window of a recording as a node would return it, and the quote of `backtest`.
struct Window {
    base_fee: u128,
    next_base_fee: u128,
    ratios: Vec<f64>,
    /// Rewards at the estimator's percentile, oldest block first.
    rewards: Vec<u128>,
    tip: u128,
    max_fee: u128,
}

/// Returns windows of `blocks` blocks for the estimator `name`, which uses `percentile`.
fn windows(name: &str, percentile: f64, blocks: usize) -> Vec<Window> {
    let pricing = Pricing::default();
    let estimators = all_estimators(&pricing);
    let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
    let mut windows = Vec::new();
    for file in [ETHEREUM, BASE, POLYGON] {
        let recording: Recording = read_recording(&fixtures::path(file), None).unwrap();
        let column = recording.percentiles.iter().position(|found| *found >= percentile).unwrap();
        let before = windows.len();
        for head in (20..recording.blocks.len() - 1).step_by(STEP) {
            let quote = estimator.quote(recording.history_at(head).unwrap()).unwrap();
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

/// Runs a program that reads the windows from the file named by its last argument, and compares its output.
async fn assert_same_estimates(mut command: Command, name: &str, windows: &[Window]) {
    let hex = |wei: &u128| format!("{wei:#x}");
    let inputs = windows.iter().map(|window| {
        json!({
            "baseFee": hex(&window.base_fee),
            "nextBaseFee": hex(&window.next_base_fee),
            "ratios": window.ratios,
            "rewards": window.rewards.iter().map(hex).collect::<Vec<_>>(),
            // The node's result of eth_maxPriorityFeePerGas, for libraries that call it.
            "tip": hex(&window.tip),
        })
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("windows-{name}.json"));
    std::fs::write(&path, inputs.collect::<Value>().to_string()).unwrap();
    command.arg(&path);
    let output = programs::expect_success(command).await;
    let expected = windows.iter().map(|window| format!("{} {}", window.tip, window.max_fee));
    assert_eq!(output.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
}

/// `tests/alloy.sh` checks the recorded estimates against alloy itself.
#[test]
fn recorded_alloy_estimates_match() {
    let lines = windows("alloy", 20.0, 10).into_iter().map(|window| {
        let amounts = std::iter::once(&window.base_fee).chain(&window.rewards);
        let amounts = amounts.map(u128::to_string).collect::<Vec<_>>().join(" ");
        format!("{amounts} = {} {}\n", window.tip, window.max_fee)
    });
    let recorded = String::from_utf8(fixtures::read("tests/fixtures/alloy-estimates.txt")).unwrap();
    assert_eq!(lines.collect::<String>(), recorded);
}

#[tokio::test]
async fn viem_and_ethers_estimates_match() {
    for library in ["viem", "ethers"] {
        let windows = windows(&format!("{library} on geth"), 0.0, 20);
        let mut command = programs::node_js(&[library]);
        command.arg(programs::script_path("estimators.mjs")).arg(library);
        assert_same_estimates(command, library, &windows).await;
    }
}

#[tokio::test]
async fn web3_py_estimates_match() {
    let mut command = programs::python_tool("python");
    command.arg(fixtures::path("tests/python/estimators.py"));
    assert_same_estimates(command, "web3", &windows("web3.py fallback", 5.0, 10)).await;
}
