//! `gas-suggestion backtest` on the command line.

mod external_estimators;
mod files;
mod html;
mod network;
mod pages;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use crate::fixtures;
use crate::process::{File, output};

const ETHEREUM: &str = "src/extras/demo/recordings/ethereum.json.gz";
const BASE: &str = "src/extras/demo/recordings/base.json.gz";
const POLYGON: &str = "tests/fixtures/recordings/polygon.json.gz";
const AUGUST: &str = "tests/fixtures/blocks/ethereum-august-2021.csv.gz";

const GWEI: u64 = 1_000_000_000;

/// Runs the command, which has to succeed, and returns its standard output.
fn run(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = output(&[&["backtest"], arguments].concat(), &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    stdout
}

/// Returns what `make` returned for these arguments of the command when it was first called. Replays take seconds, and
/// several tests look at the same one.
fn once(arguments: &[&str], make: impl FnOnce() -> String) -> String {
    static RESULTS: Mutex<BTreeMap<String, Arc<OnceLock<String>>>> = Mutex::new(BTreeMap::new());
    let result = RESULTS.lock().unwrap().entry(arguments.join(" ")).or_default().clone();
    result.get_or_init(make).clone()
}

/// Like `run`, for arguments that several tests share.
fn run_once(arguments: &[&str]) -> String {
    once(arguments, || run(arguments))
}

/// Runs the command, which has to print nothing to standard output, and returns its exit code and standard error.
fn run_failing(arguments: &[&str]) -> (Option<i32>, String) {
    let (code, stdout, stderr) = output(&[&["backtest"], arguments].concat(), &[]);
    assert_eq!(stdout, "", "{arguments:?}");
    (code, stderr)
}

fn path(relative: &str) -> String {
    fixtures::path(relative).to_str().unwrap().to_owned()
}

/// Returns the first recording of the JSON output.
fn run_json(arguments: &[&str]) -> Value {
    let mut document: Value =
        serde_json::from_str(&run(&[&["--json"], arguments].concat())).unwrap();
    document["recordings"][0].take()
}

/// Returns the row of this estimator.
fn row<'a>(recording: &'a Value, name: &str) -> &'a Value {
    let rows = recording["estimators"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

const RULE: &str = "network rule without floors, medium";

/// `tests/python/scores.py` implements ten of the estimators.
#[test]
fn scores_match_an_independent_program() {
    for (file, landing_percentile) in
        [(ETHEREUM, "10"), (BASE, "10"), (POLYGON, "10"), (ETHEREUM, "0")]
    {
        let (script, file) = (path("tests/python/scores.py"), path(file));
        let output = Command::new("python3").args([&script, &file, landing_percentile]).output();
        let output = output.expect("python3 has to be installed");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let expected: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
        let recording = run_json(&["--landing-percentile", landing_percentile, &file]);
        assert_eq!((&recording["quotes"], expected.len()), (&600.into(), 10), "{file}");
        for (name, scores) in expected {
            let mut row = row(&recording, &name).clone();
            row.as_object_mut().unwrap().remove("name");
            assert_eq!(row, scores, "{file}, {landing_percentile}: {name}");
        }
    }
}

#[test]
fn base_fees_alone_are_scored_by_fee_cap_coverage() {
    let recording = run_json(&[&path(AUGUST)]);
    assert_eq!((&recording["quotes"], &recording["has_tips"]), (&34_576.into(), &false.into()));
    let covers = |name: &str| {
        let row = row(&recording, name);
        let tips = "included_next full_blocks_hit tip_gap_p50 price_over_fair_p50 pinball_loss";
        assert!(tips.split(' ').all(|key| row[key].is_null()), "{row}");
        &row["covers_after_5"]
    };
    // An independent program counted 91 heads after which the fifth base fee exceeds twice the average of 20 blocks.
    assert_eq!(*covers(RULE), (34_576.0 - 91.0) / 34_576.0);
    assert_eq!(*covers("alloy"), 1.0);
    assert!(row(&recording, "geth tip oracle")["covers_after_5"].is_null());
}

/// Returns a recording of `count` half-full blocks with a base fee of 10 gwei and these rewards.
fn uniform_recording(count: usize, percentiles: &Value, rewards: &[u64]) -> Value {
    let rewards = |_| rewards.iter().map(|reward| u128::from(*reward)).collect();
    let numbers = 0x10..=0xf + count as u64;
    let mut recording = fixtures::computed_history(numbers, |_| (10 * GWEI).into(), rewards);
    recording["rewardPercentiles"] = percentiles.clone();
    recording
}

#[test]
fn table_and_json_report_the_same_numbers() {
    let table = run(&[&path(POLYGON)]);
    let recording = run_json(&[&path(POLYGON)]);
    for row in recording["estimators"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        let percent = |key: &str| match row[key].as_f64() {
            Some(share) => format!("{:.2}", share * 100.0),
            None => "–".into(),
        };
        let keys = "included_next included_within_5 full_blocks_hit covers_after_5 covers_after_25";
        let shares: Vec<_> = keys.split(' ').map(percent).collect();
        assert_eq!(cells[..5], shares, "{name}");
        assert_eq!(cells[7], percent("tip_covered"), "{name}");
        for (column, key) in [
            (5, "tip_gap_p50"),
            (6, "tip_gap_p99"),
            (8, "overpaid_p50"),
            (9, "overpaid_p95"),
            (10, "overpaid_mean"),
            (13, "pinball_loss"),
        ] {
            let cell = cells[column];
            let Some(wei) = row[key].as_str() else {
                assert_eq!(cell, "–", "{name} {key}");
                continue;
            };
            let (wei, shown): (f64, f64) = (wei.parse().unwrap(), cell.parse().unwrap());
            // The table shows four digits.
            assert!((wei / 1e9 - shown).abs() <= shown * 0.0005, "{name} {key}: {wei} {shown}");
        }
        let ratios = ["price_over_fair_p50", "price_over_fair_p95", "max_fee_over_base_fee_p50"];
        let ratio =
            |key: &str| row[key].as_f64().map_or("–".into(), |ratio| format!("{ratio:.3}"));
        assert_eq!([cells[11], cells[12], cells[14]], ratios.map(ratio), "{name}");
    }
}

#[test]
fn several_files_are_reported_in_argument_order() {
    let names = [path(BASE), path(AUGUST)];
    let arguments = ["--json", &names[0], &names[1]];
    let document: Value = serde_json::from_str(&run(&arguments)).unwrap();
    let result = document["recordings"].as_array().unwrap().iter();
    assert!(result.map(|recording| &recording["name"]).eq(&names), "{document}");
    let table = run(&arguments[1..]);
    let [first, second] = names.map(|name| table.find(&name).unwrap());
    assert!(first < second);
}

#[test]
fn chain_option_selects_the_scored_pricing() {
    let config = File::new(
        "backtest",
        "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n\
         pricing = { strategy = \"network\", priority_fee_floor = \"20 gwei\" }\n\
         [chains.b]\nchain_id = 2\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.b.pricing]\n\
         strategy = \"network\"\nbase_fee_multiplier = 3\nbase_fee_floor = \"0 wei\"\npriority_fee_floor = \"2 gwei\"\n",
    );
    for (chain, expected) in [
        (&[][..], "the chains have different pricing; choose one with --chain: a, b"),
        (&["--chain", "c"], "--chain: no chain \"c\" is configured; configured chains: a, b"),
    ] {
        let file = path(ETHEREUM);
        let arguments = [&["--config", config.path(), &file], chain].concat();
        assert_eq!(run_failing(&arguments), (Some(2), format!("error: {expected}\n")));
    }

    let recording = uniform_recording(80, &json!([0, 50, 60]), &[1, 2, 3]);
    let recording = File::new("flat", &recording.to_string());
    let scores = |chain: &str| {
        let result = run_json(&["--config", config.path(), "--chain", chain, recording.path()]);
        let row = row(&result, "configured, medium").clone();
        (row["max_fee_over_base_fee_p50"].as_f64().unwrap(), row["tip_gap_p50"].clone())
    };
    // Max fees of 2 × 10 + 20 gwei and 3 × 10 + 2 gwei at a base fee of 10 gwei. The realised tip is 2 wei.
    assert_eq!(scores("a"), (4.0, "19999999998".into()));
    assert_eq!(scores("b"), (3.2, "1999999998".into()));
}

#[test]
fn horizons_are_shown_in_seconds_if_the_block_time_is_known() {
    let file = path(BASE);
    let seconds = |arguments: &[&str]| {
        let arguments = [arguments, &[&file]].concat();
        let (table, recording) = (run(&arguments), run_json(&arguments));
        let headings = table.lines().nth(3).unwrap().to_owned();
        let seconds = ["seconds_of_5_blocks", "seconds_of_25_blocks"];
        (headings, seconds.map(|key| recording[key].as_f64()))
    };
    let (headings, unknown) = seconds(&[]);
    assert!(headings.contains(" +5 %  ") && !headings.contains("s)"), "{headings}");
    assert_eq!(unknown, [None; 2]);
    let (headings, given) = seconds(&["--block-time", "250ms"]);
    assert!(headings.contains(" +5 (1.25s) %  +25 (6.25s) % "), "{headings}");
    assert_eq!(given, [Some(1.25), Some(6.25)]);
    assert_eq!(seconds(&["--chain", "ronin"]).1, [Some(10.0), Some(50.0)]);
}

#[test]
fn landing_percentile_sets_the_tip_needed_for_inclusion() {
    let rewards = [1, 2, 3, 4, 5, 6, 7].map(|tip| tip * GWEI);
    let recording = uniform_recording(80, &json!([0, 10, 20, 30, 40, 50, 60]), &rewards);
    let recording = File::new("landing", &recording.to_string());
    let included = |percentile: &str| {
        let result = run_json(&["--landing-percentile", percentile, recording.path()]);
        ["alloy", RULE].map(|name| row(&result, name)["included_next"].clone())
    };
    for (percentile, expected) in [
        ("0", json!([1.0, 1.0])),
        ("20", json!([1.0, 1.0])),
        ("30", json!([0.0, 1.0])),
        ("60", json!([0.0, 1.0])),
        // The recording has no rewards at this percentile.
        ("90", json!([null, null])),
    ] {
        assert_eq!(json!(included(percentile)), expected, "{percentile}");
    }
    let default = run_json(&[recording.path()]);
    assert_eq!(default, run_json(&["--landing-percentile", "10", recording.path()]));
}
