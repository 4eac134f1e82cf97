//! Invalid and incomplete recordings.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Value, json};

use super::{ETHEREUM, GWEI, path, row, run, run_failing, run_json, uniform_recording};
use crate::fixtures::{self, gzip};
use crate::process::File;

/// Creates a temporary file with these bytes.
fn file(bytes: impl AsRef<[u8]>) -> File {
    let file = File::new("recording", "");
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// Returns the error about a file with these bytes, without the file name.
fn error_of_file(bytes: impl AsRef<[u8]>) -> String {
    let file = file(bytes);
    let (code, stderr) = run_failing(&[file.path()]);
    assert_eq!(code, Some(1), "{stderr}");
    let prefix = format!("error: {}: ", file.path());
    let message = stderr.strip_prefix(&prefix).unwrap_or_else(|| panic!("{stderr}"));
    message.trim_end().to_owned()
}

/// Compares the errors about these files, each with its description, with a snapshot.
fn assert_errors(
    snapshot: &str,
    files: impl IntoIterator<Item = (impl Display, impl AsRef<[u8]>)>,
) {
    let line = |(shown, bytes)| format!("{shown}: {}\n", error_of_file(bytes));
    fixtures::assert_snapshot(snapshot, &files.into_iter().map(line).collect::<String>());
}

#[test]
fn unreadable_recordings_are_refused_with_file_name_and_reason() {
    let whole = fixtures::read(ETHEREUM);
    let files = [
        ("empty", b"".as_slice()),
        ("text", b"hello\nworld\n"),
        ("binary", &[0xff, 0xfe, 0x00]),
        ("half-json", b"{\"oldestBlock\":"),
        ("array", b"[1,2]"),
        ("object", b"{}"),
        ("null-result", b"{\"result\":null}"),
        ("error", b"{\"error\":{\"code\":-32000}}"),
        ("text-result", b"{\"result\":\"0x1\"}"),
        ("cut-gzip", &whole[..whole.len() / 2]),
        ("no-gzip", &[0x1f, 0x8b, 0x08, 0x00]),
    ];
    assert_errors("backtest-unreadable", files);
    for (path, reason) in [("/none.json", "No such file"), ("/", "")] {
        let (code, stderr) = run_failing(&[path]);
        let expected = format!("error: {path}: cannot be read: {reason}");
        assert!(code == Some(1) && stderr.starts_with(&expected), "{stderr}");
    }
}

#[test]
fn invalid_recording_members_are_reported_with_their_path() {
    let members = [
        ("/oldestBlock", json!("latest")),
        ("/oldestBlock", json!("0x10000000000000000")),
        ("/oldestBlock", json!("0xffffffffffffffff")),
        ("/baseFeePerGas/7", json!(null)),
        ("/baseFeePerGas/7", json!("-0x1")),
        ("/baseFeePerGas/7", json!(format!("0x1{}", "0".repeat(32)))),
        ("/reward/3/2", json!(1.5)),
        ("/reward/3", json!(["0x1"])),
        ("/reward", json!([["0x1"]])),
        ("/gasUsedRatio/5", json!("full")),
        ("/gasUsedRatio", json!([0.5])),
        ("/baseFeePerGas", json!([])),
        ("/rewardPercentiles", json!([0, 20, 20, 60])),
        ("/rewardPercentiles", json!([60, 20, 10, 0])),
        ("/rewardPercentiles", json!([0, 20, 50, 101])),
        ("/rewardPercentiles", json!(null)),
        ("/rewardPercentiles", json!([0])),
        ("/baseFeePerGas", json!("0x1")),
        ("/reward", json!("0x1")),
    ];
    let files = members.map(|(pointer, value)| {
        let mut recording = uniform_recording(80, &json!([0, 20, 50, 60]), &[1, 2, 3, 4]);
        let shown = format!("{pointer} = {value}");
        *recording.pointer_mut(pointer).unwrap() = value;
        (shown, recording.to_string())
    });
    assert_errors("backtest-members", files);
}

#[test]
fn invalid_base_fee_tables_are_reported_with_their_line() {
    let header = "number,base_fee_per_gas_wei,gas_used,gas_limit";
    let row = |row: &str| format!("{header}\n{row}\n");
    let tables = [
        "number,fee\n1,2\n".into(),
        "base_fee_per_gas_wei\n1\n".into(),
        format!("{header}\n"),
        row("1,2,3"),
        row("1,2,3,4\n3,2,3,4"),
        row("1,-2,3,4"),
        row(&format!("1,{},3,4", "9".repeat(60))),
        row("1,2,x\u{1b}[31m,4"),
        row(",2,3,4"),
        row("1,2,3,4"),
    ];
    let files = tables.map(|table: String| (format!("{table:?}"), table));
    assert_errors("backtest-base-fee-tables", files);
}

#[test]
fn too_short_recordings_report_the_required_block_count() {
    for count in [1, 74] {
        let recording = uniform_recording(count, &json!([0, 50]), &[1, 2]).to_string();
        let expected = format!("has {count} consecutive blocks, but at least 75 are required");
        assert_eq!(error_of_file(&recording), expected);
    }
    let enough = file(uniform_recording(75, &json!([0, 50]), &[1, 2]).to_string());
    assert_eq!(run_json(&[enough.path()])["quotes"], 1);
}

#[test]
fn decompression_stops_at_the_size_limit() {
    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024 + 1]);
    assert!(bomb.len() < 1024 * 1024);
    assert_eq!(error_of_file(&bomb), "larger than 64 MiB");
    // Nested gzip is not unpacked.
    assert_eq!(error_of_file(gzip(&bomb)), "not text");
}

#[test]
fn rpc_reply_plain_and_gzipped_recordings_score_alike() {
    let result = uniform_recording(80, &json!([0, 20, 50, 60]), &[1, 2, 3, 4]);
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
    let mut bare = result.clone();
    bare["rewardPercentiles"] = Value::Null;
    let files = [
        file(result.to_string()),
        file(&reply),
        file(format!("\u{feff}{result}")),
        file(gzip(result.to_string().as_bytes())),
    ];
    let result = files.each_ref().map(|file| run_json(&[file.path()])["estimators"].take());
    assert!(result.iter().all(|other| *other == result[0]));
    let bare = file(bare.to_string());
    let message = run_json(&["--percentiles", "0,20,50,60", bare.path()])["estimators"].take();
    assert_eq!(message, result[0]);
}

#[test]
fn missing_percentiles_leave_scores_unknown_with_a_note() {
    let text = |percentiles: &Value, rewards: &[u64]| {
        let file = file(uniform_recording(80, percentiles, rewards).to_string());
        (run(&[file.path()]), run_json(&[file.path()]))
    };
    let (table, result) = text(&json!([10, 20, 35, 50]), &[GWEI; 4]);
    let has_note = |table: &str, what: &str, percentile: u8| {
        let why = format!("\n{what}: unknown, because percentile {percentile} is not recorded.\n");
        assert!(table.contains(&why), "{table}");
    };
    has_note(&table, "Rundler", 33);
    has_note(&table, "Alto", 40);
    let quotes = |name: &str| row(&result, name)["quotes"].as_u64().unwrap();
    assert_eq!((quotes("alloy"), quotes("Rundler"), quotes("Alto")), (6, 0, 0));
    assert_eq!(row(&result, "Alto")["included_next"], Value::Null);
    assert_eq!(row(&result, "alloy")["included_next"], 1.0);

    // Inclusion is judged by percentile 10, which is missing here.
    let (table, result) = text(&json!([20, 50]), &[GWEI; 2]);
    has_note(&table, "required tips", 10);
    assert_eq!(row(&result, "alloy")["included_next"], Value::Null);
    assert_eq!(row(&result, "alloy")["tip_covered"], 1.0);

    // A block without transactions includes any tip, but it does not stand for the others.
    let mut recording = uniform_recording(80, &json!([60]), &[GWEI]);
    recording["gasUsedRatio"][60] = json!(0.0);
    let only_60 = file(recording.to_string());
    let result = run_json(&[only_60.path()]);
    for estimator in result["estimators"].as_array().unwrap() {
        let name = estimator["name"].as_str().unwrap();
        let is_quoted =
            ["configured", "network", "Chainlink"].iter().any(|own| name.starts_with(own));
        assert_eq!(estimator["quotes"], if is_quoted { 6 } else { 0 }, "{name}");
        let known = estimator.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
        let known: BTreeSet<_> = known.map(|(key, _)| key.as_str()).collect();
        let mut expected = BTreeSet::from(["name", "pinball_target", "quotes"]);
        if is_quoted {
            expected.extend(["covers_after_25", "covers_after_5", "max_fee_over_base_fee_p50"]);
        }
        assert_eq!(known, expected, "{name}");
    }
}

#[test]
fn blocks_without_rewards_are_skipped_and_counted() {
    let mut recording = uniform_recording(80, &json!([10, 20, 50]), &[GWEI; 3]);
    recording["reward"].as_array_mut().unwrap()[52..54].fill(Value::Null);
    let file = file(recording.to_string());
    let result = run_json(&[file.path()]);
    let note = "2 blocks have no rewards and are excluded from the tip measures.";
    assert!(result["notes"].as_array().unwrap().contains(&note.into()), "{result}");
    let alloy = row(&result, "alloy");
    assert_eq!((&alloy["quotes"], &alloy["included_next"]), (&6.into(), &1.0.into()));
    assert_eq!((&alloy["tip_covered"], &alloy["tip_gap_p99"]), (&1.0.into(), &"0".into()));
}

#[test]
fn invalid_arguments_exit_with_2() {
    let file = path(ETHEREUM);
    for arguments in [
        &[][..],
        &["--json"],
        &["--rpc-url", "http://127.0.0.1:9", &file],
        &["--rpc-url", "ftp://127.0.0.1"],
        &["--rpc-url", "http://127.0.0.1:9", "--blocks", "0"],
        &["--rpc-url", "http://127.0.0.1:9", "--blocks", "65537"],
        &["--blocks", "100", &file],
        &["--landing-percentile", "101", &file],
        &["--landing-percentile", "NaN", &file],
        &["--percentiles", "50,10", &file],
        &["--percentiles", "x", &file],
        &["--block-time", "2", &file],
    ] {
        let (code, stderr) = run_failing(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
}
