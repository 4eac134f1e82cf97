//! Compares the estimators of other systems with the published programs. Both must return the same tip and max fee for
//! the same windows of every recording.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gas_suggestion::fees::Pricing;
use serde_json::{Value, json};

use crate::estimators::all_estimators;
use crate::file::read_recording;

/// Number of blocks from one compared head to the next; the first is the twenty-first block of a recording.
const STEP: usize = 10;

/// A window of a recording as a node would return it, and what the estimator quotes.
struct Window {
    base_fee: u128,
    next_base_fee: u128,
    ratios: Vec<f64>,
    /// Rewards at the estimator's first percentile, oldest block first.
    rewards: Vec<u128>,
    tip: u128,
    max_fee: u128,
}

fn path(below_root: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(below_root)
}

/// Returns windows for the estimator `name`.
fn windows(name: &str) -> Vec<Window> {
    let estimators = all_estimators(&Pricing::default());
    let estimator = estimators.iter().find(|estimator| estimator.name == name).unwrap();
    let (percentile, blocks) = (estimator.percentiles[0], estimator.window);
    let mut windows = Vec::new();
    for file in [
        "src/extras/demo/recordings/ethereum.json.gz",
        "src/extras/demo/recordings/base.json.gz",
        "tests/fixtures/recordings/polygon.json.gz",
    ] {
        let recording = read_recording(&path(file), None).unwrap();
        for head in (20..recording.blocks.len() - 1).step_by(STEP) {
            let history = recording.history_at(head);
            let quote = estimator.quote(history).unwrap();
            windows.push(Window {
                base_fee: history.base_fee(),
                next_base_fee: history.next_base_fee().unwrap(),
                ratios: history.ratios(blocks).unwrap(),
                rewards: history.rewards(percentile, blocks).unwrap(),
                tip: quote.tip.unwrap(),
                max_fee: quote.max_fee().unwrap(),
            });
        }
    }
    assert_eq!(windows.len(), 303);
    windows
}

/// Runs a program that reads the windows from the file named by its last argument, and compares its output.
fn assert_same_estimates(program: &Path, arguments: &[&str], name: &str) {
    let windows = windows(name);
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
    let input = std::env::temp_dir().join(format!("{}-{name}.json", std::process::id()));
    std::fs::write(&input, inputs.collect::<Value>().to_string()).unwrap();
    let output = Command::new(program).args(arguments).arg(&input).current_dir(path("")).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program:?}, which tests/run.sh installs: {error}"));
    std::fs::remove_file(input).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = windows.iter().fold(String::new(), |mut text, window| {
        writeln!(text, "{} {}", window.tip, window.max_fee).unwrap();
        text
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
}

/// `backtest/alloy.sh` checks the recorded estimates against alloy itself.
#[test]
fn recorded_alloy_estimates_match() {
    let recorded = windows("alloy").into_iter().map(|window| {
        let amounts = std::iter::once(&window.base_fee).chain(&window.rewards);
        let amounts: Vec<String> = amounts.map(u128::to_string).collect();
        format!("{} = {} {}", amounts.join(" "), window.tip, window.max_fee)
    });
    assert!(recorded.eq(include_str!("../tests/alloy-estimates.txt").lines()));
}

#[test]
fn viem_and_ethers_estimates_match() {
    for library in ["viem", "ethers"] {
        let arguments = ["tests/node/estimators.mjs", library];
        assert_same_estimates(Path::new("node"), &arguments, &format!("{library} on geth"));
    }
}

#[test]
fn web3_py_estimates_match() {
    let python = path("target/python/bin/python");
    assert_same_estimates(&python, &["backtest/tests/estimators.py"], "web3.py fallback");
}
