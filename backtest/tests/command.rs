//! `gas-suggestion-backtest` on the command line.

#[path = "command/docs.rs"]
mod docs;
#[path = "command/files.rs"]
mod files;
#[path = "command/network.rs"]
mod network;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gas_suggestion::fees::gwei::rounded_gwei;
use serde_json::{Value, json};

/// Paths below the root of the repository, in which the commands run.
const ETHEREUM: &str = "src/extras/demo/recordings/ethereum.json.gz";
const BASE: &str = "src/extras/demo/recordings/base.json.gz";
const POLYGON: &str = "tests/fixtures/recordings/polygon.json.gz";
const AUGUST: &str = "tests/fixtures/blocks/ethereum-august-2021.csv.gz";

const RULE: &str = "network rule without floors, medium";

/// Runs a program in the root of the repository. Returns its exit code, standard output and standard error.
fn output(program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GAS_")) {
        command.env_remove(name);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = command.args(arguments).current_dir(root).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs the command, which has to succeed, and returns its standard output.
fn run(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = output(env!("CARGO_BIN_EXE_gas-suggestion-backtest"), arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    stdout
}

/// Runs the command, which has to print nothing to standard output, and returns its exit code and standard error.
fn fail(arguments: &[&str]) -> (Option<i32>, String) {
    let (code, stdout, stderr) = output(env!("CARGO_BIN_EXE_gas-suggestion-backtest"), arguments);
    assert_eq!(stdout, "", "{arguments:?}");
    (code, stderr)
}

/// Returns the first recording of the JSON output.
fn run_json(arguments: &[&str]) -> Value {
    let document: Value = serde_json::from_str(&run(&[&["--json"], arguments].concat())).unwrap();
    document["recordings"][0].clone()
}

/// Returns the row of this estimator.
fn row<'a>(recording: &'a Value, name: &str) -> &'a Value {
    let rows = recording["estimators"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns a path for a temporary file.
fn new_path() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}/{}-{count}", env!("CARGO_TARGET_TMPDIR"), std::process::id())
}

/// Writes a temporary file, and returns its path.
fn file(bytes: impl AsRef<[u8]>) -> String {
    let path = new_path();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Returns a recording of `count` half-full blocks with a base fee of 10 gwei and these rewards.
fn uniform_recording(count: usize, percentiles: &[f64], rewards: &[u64]) -> Value {
    let row: Vec<String> = rewards.iter().map(|reward| format!("{reward:#x}")).collect();
    json!({
        "oldestBlock": "0x10",
        "baseFeePerGas": vec!["0x2540be400"; count + 1],
        "gasUsedRatio": vec![0.5; count],
        "reward": vec![row; count],
        "rewardPercentiles": percentiles,
    })
}

/// `scores.py` implements ten of the estimators.
#[test]
fn scores_match_an_independent_program() {
    for (file, landing) in [(ETHEREUM, "0"), (BASE, "10")] {
        let (code, expected, stderr) =
            output("python3", &["backtest/tests/scores.py", file, landing]);
        assert_eq!(code, Some(0), "{stderr}");
        let expected: BTreeMap<String, Value> = serde_json::from_str(&expected).unwrap();
        let recording = run_json(&["--landing-percentile", landing, file]);
        assert_eq!((&recording["quotes"], expected.len()), (&600.into(), 10), "{file}");
        for (name, mut scores) in expected {
            scores["name"] = name.as_str().into();
            assert_eq!(*row(&recording, &name), scores, "{file}, {landing}: {name}");
        }
    }
}

#[test]
fn base_fees_alone_are_scored_by_fee_cap_coverage() {
    let recording = run_json(&[AUGUST]);
    assert_eq!((&recording["quotes"], &recording["has_tips"]), (&34_576.into(), &false.into()));
    let rule = row(&recording, RULE);
    let tips = "included_next full_blocks_hit tip_gap_p50 price_over_fair_p50 pinball_loss";
    for name in [RULE, "alloy", "geth tip oracle"] {
        let row = row(&recording, name);
        assert!(tips.split(' ').all(|key| row[key].is_null()), "{row}");
    }
    // An independent program counted 91 heads after which the fifth base fee exceeds twice the average of 20 blocks.
    assert_eq!(rule["covers_after_5"], (34_576.0 - 91.0) / 34_576.0);
    assert_eq!(row(&recording, "alloy")["covers_after_5"], 1.0);
    assert!(row(&recording, "geth tip oracle")["covers_after_5"].is_null());
}

#[test]
fn table_and_json_report_the_same_numbers() {
    let (table, recording) = (run(&[POLYGON]), run_json(&[POLYGON]));
    for row in recording["estimators"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let keys = "included_next included_within_5 full_blocks_hit covers_after_5 covers_after_25 \
                    tip_gap_p50 tip_gap_p99 tip_covered overpaid_p50 overpaid_p95 overpaid_mean \
                    price_over_fair_p50 price_over_fair_p95 pinball_loss max_fee_over_base_fee_p50";
        let cells = keys.split_whitespace().map(|key| match &row[key] {
            Value::String(wei) => rounded_gwei(wei.parse().unwrap()),
            Value::Number(ratio) if key.contains("_over_") => {
                format!("{:.3}", ratio.as_f64().unwrap())
            }
            Value::Number(share) => format!("{:.2}", share.as_f64().unwrap() * 100.0),
            _ => "–".into(),
        });
        assert!(line.split_whitespace().eq(cells), "{name}: {line}\n{row}");
    }
}

#[test]
fn several_files_are_reported_in_argument_order() {
    let document: Value = serde_json::from_str(&run(&["--json", BASE, POLYGON])).unwrap();
    let names = [BASE, POLYGON].map(Value::from);
    let reported = document["recordings"].as_array().unwrap().iter();
    assert!(reported.map(|recording| &recording["name"]).eq(&names), "{document}");
    let table = run(&[BASE, POLYGON]);
    let title = format!("\n\n{POLYGON}: blocks ");
    assert!(table.starts_with(BASE) && table.contains(&title), "{table}");
}

#[test]
fn chain_option_selects_the_scored_pricing() {
    let config = file(
        "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n\
         pricing = { strategy = \"network\", priority_fee_floor = \"20 gwei\" }\n\
         [chains.b]\nchain_id = 2\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.b.pricing]\n\
         strategy = \"network\"\nbase_fee_multiplier = 3\nbase_fee_floor = \"0 wei\"\npriority_fee_floor = \"2 gwei\"\n",
    );
    let recording = file(uniform_recording(80, &[0.0, 50.0, 60.0], &[1, 2, 3]).to_string());
    let with =
        |chain: &[&'static str]| [&["--config", config.as_str(), &recording], chain].concat();
    for (chain, expected) in [
        (&[][..], "the chains have different pricing; choose one with --chain: a, b"),
        (&["--chain", "c"], "--chain: no chain \"c\" is configured; configured chains: a, b"),
    ] {
        let (code, stderr) = fail(&with(chain));
        assert_eq!((code, stderr.lines().next()), (Some(2), Some(&*format!("error: {expected}"))));
    }
    // Max fees of 2 × 10 + 20 gwei and 3 × 10 + 2 gwei at a base fee of 10 gwei. The realised tip is 2 wei.
    for (chain, ratio, gap) in [("a", 4.0, "19999999998"), ("b", 3.2, "1999999998")] {
        let result = run_json(&with(&["--chain", chain]));
        let row = row(&result, "configured, medium");
        assert_eq!(
            (&row["max_fee_over_base_fee_p50"], &row["tip_gap_p50"]),
            (&ratio.into(), &gap.into())
        );
    }
}

#[test]
fn horizons_are_shown_in_seconds_if_the_block_time_is_known() {
    let seconds = |arguments: &[&str]| {
        let arguments = [arguments, &[BASE]].concat();
        let (table, recording) = (run(&arguments), run_json(&arguments));
        let headings = table.lines().nth(3).unwrap().to_owned();
        (
            headings,
            ["seconds_of_5_blocks", "seconds_of_25_blocks"].map(|key| recording[key].as_f64()),
        )
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
    let percentiles = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
    let rewards = [1, 2, 3, 4, 5, 6, 7].map(|tip| tip * 1_000_000_000);
    let recording = file(uniform_recording(80, &percentiles, &rewards).to_string());
    for (percentile, expected) in [
        ("0", json!([1.0, 1.0])),
        ("20", json!([1.0, 1.0])),
        ("30", json!([0.0, 1.0])),
        ("60", json!([0.0, 1.0])),
        // The recording has no rewards at this percentile.
        ("90", json!([null, null])),
    ] {
        let result = run_json(&["--landing-percentile", percentile, &recording]);
        let included = ["alloy", RULE].map(|name| row(&result, name)["included_next"].clone());
        assert_eq!(json!(included), expected, "{percentile}");
    }
    let default = run_json(&[&recording]);
    assert_eq!(default, run_json(&["--landing-percentile", "10", &recording]));
}

#[test]
fn invalid_arguments_exit_with_2() {
    for arguments in [
        &[][..],
        &["--json"],
        &["--rpc-url", "http://127.0.0.1:9", ETHEREUM],
        &["--rpc-url", "ftp://127.0.0.1"],
        &["--rpc-url", "http://127.0.0.1:9", "--blocks", "0"],
        &["--rpc-url", "http://127.0.0.1:9", "--blocks", "65537"],
        &["--blocks", "100", ETHEREUM],
        &["--landing-percentile", "101", ETHEREUM],
        &["--landing-percentile", "NaN", ETHEREUM],
        &["--percentiles", "50,10", ETHEREUM],
        &["--percentiles", "x", ETHEREUM],
        &["--block-time", "2", ETHEREUM],
        &["--svg", "/none/picture.svg", ETHEREUM, BASE],
        &["--config", "/none.toml", ETHEREUM],
    ] {
        let (code, stderr) = fail(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_picture_names_the_axes_and_the_estimators() {
    let picture = new_path();
    // The fees of 34,576 blocks for a horizon take a minute.
    for (recording, options, axes) in [
        (ETHEREUM, &["--horizon"][..], ["Included in the next block", "Overpaid in gwei, median"]),
        (AUGUST, &[], ["Covers the base fee after 25 blocks", "Max fee / base fee, median"]),
    ] {
        let text = run(&[options, &["--svg", &picture, recording]].concat());
        let svg = std::fs::read_to_string(&picture).unwrap();
        let title = text.lines().next().unwrap();
        for shown in axes.into_iter().chain(["configured, high", title]) {
            assert!(svg.contains(shown), "{recording}: {shown}");
        }
        // All but Rundler and geth have both numbers, and the fees for one block four more points. Without tips Rundler is
        // known.
        let points = if recording == ETHEREUM { 27 + 4 } else { 28 };
        assert_eq!(svg.matches("<circle").count(), points, "{recording}");
    }
    let (code, stderr) = fail(&["--svg", "/none/picture.svg", BASE]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: cannot write /none/picture.svg: No such file"), "{stderr}");
}
