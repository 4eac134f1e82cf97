//! Invalid and incomplete recordings.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{BASE, ETHEREUM, fail, file, new_path, row, run, run_json, uniform_recording};

const GWEI: u64 = 1_000_000_000;

/// Asserts that a file with these bytes is refused, with an error that begins with `expected` after its name.
fn assert_refused(bytes: impl AsRef<[u8]>, expected: &str) {
    let path = file(bytes);
    let (code, stderr) = fail(&[&path]);
    let begins = stderr.starts_with(&format!("error: {path}: {expected}"));
    assert!(code == Some(1) && begins, "{expected}: {stderr}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn four_tips() -> Value {
    uniform_recording(80, &[0.0, 20.0, 50.0, 60.0], &[1, 2, 3, 4])
}

#[test]
fn unreadable_recordings_are_refused_with_file_name_and_reason() {
    let whole = std::fs::read(format!("{}/../{ETHEREUM}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for (bytes, expected) in [
        (b"".as_slice(), "line 1: no column number"),
        (b"hello\nworld\n", "line 1: no column number"),
        (&[0xff, 0xfe, 0x00], "not text"),
        (b"{\"oldestBlock\":", "not a fee history: EOF while parsing a value at line 1 column 15"),
        (b"[1,2]", "expected the result object of eth_feeHistory"),
        (b"{}", "not a fee history: missing field `oldestBlock`"),
        (b"{\"result\":null}", "not a fee history: missing field `oldestBlock`"),
        (b"{\"error\":{\"code\":-32000}}", "error: found a node's error instead of a fee history"),
        (
            b"{\"result\":\"0x1\"}",
            "not a fee history: invalid type: string \"0x1\", expected the result",
        ),
        (&whole[..whole.len() / 2], "broken gzip: "),
        (&[0x1f, 0x8b, 0x08, 0x00], "broken gzip: "),
    ] {
        assert_refused(bytes, expected);
    }
    for (path, reason) in [("/none.json", "No such file"), ("/", "")] {
        let (code, stderr) = fail(&[path]);
        let expected = format!("error: {path}: cannot be read: {reason}");
        assert!(code == Some(1) && stderr.starts_with(&expected), "{stderr}");
    }
    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024 + 1]);
    assert!(bomb.len() < 1024 * 1024);
    assert_refused(&bomb, "larger than 64 MiB");
    // Nested gzip is not unpacked.
    assert_refused(gzip(&bomb), "not text");
}

#[test]
fn invalid_recording_members_are_reported_with_their_path() {
    const QUANTITY: &str = "not a quantity such as \"0x3b9aca00\"";
    const ASCENDING: &str = "rewardPercentiles: must be from 0 to 100 in ascending order";
    let too_large = format!("0x1{}", "0".repeat(32));
    for (pointer, value, expected) in [
        ("/oldestBlock", json!("latest"), format!("not a fee history: oldestBlock: {QUANTITY}")),
        (
            "/oldestBlock",
            json!("0x10000000000000000"),
            "oldestBlock: no block has that number".into(),
        ),
        (
            "/oldestBlock",
            json!("0xffffffffffffffff"),
            "oldestBlock: no block has that number".into(),
        ),
        (
            "/baseFeePerGas/7",
            json!(null),
            format!("not a fee history: baseFeePerGas[7]: {QUANTITY}"),
        ),
        (
            "/baseFeePerGas/7",
            json!("-0x1"),
            format!("not a fee history: baseFeePerGas[7]: {QUANTITY}"),
        ),
        (
            "/baseFeePerGas/7",
            json!(too_large),
            "not a fee history: baseFeePerGas[7]: over 128 bits".into(),
        ),
        ("/reward/3/2", json!(1.5), format!("not a fee history: reward[3][2]: {QUANTITY}")),
        ("/reward/3", json!(["0x1"]), "reward[3]: has 1 amounts for 4 percentiles".into()),
        ("/reward", json!([["0x1"]]), "reward: has 1 rows for 80 blocks".into()),
        (
            "/gasUsedRatio/5",
            json!("full"),
            "not a fee history: gasUsedRatio[5]: invalid type: string".into(),
        ),
        (
            "/gasUsedRatio",
            json!([0.5]),
            "baseFeePerGas: has 81 amounts, but there are 1 blocks".into(),
        ),
        (
            "/baseFeePerGas",
            json!([]),
            "baseFeePerGas: has 0 amounts, but there are 80 blocks".into(),
        ),
        ("/rewardPercentiles", json!([0, 20, 20, 60]), ASCENDING.into()),
        ("/rewardPercentiles", json!([60, 20, 10, 0]), ASCENDING.into()),
        ("/rewardPercentiles", json!([0, 20, 50, 101]), ASCENDING.into()),
        (
            "/rewardPercentiles",
            json!(null),
            "rewardPercentiles: the percentiles of the rewards are unknown".into(),
        ),
        ("/rewardPercentiles", json!([0]), "reward[0]: has 4 amounts for 1 percentiles".into()),
        (
            "/baseFeePerGas",
            json!("0x1"),
            "not a fee history: baseFeePerGas: invalid type: string".into(),
        ),
        ("/reward", json!("0x1"), "not a fee history: reward: invalid type: string".into()),
    ] {
        let mut recording = four_tips();
        *recording.pointer_mut(pointer).unwrap() = value;
        assert_refused(recording.to_string(), &expected);
    }
}

#[test]
fn invalid_tables_are_reported_with_their_line() {
    for (header, rows, expected) in [
        ("number,fee", "1,2", "line 1: no column base_fee_per_gas_wei"),
        ("base_fee_per_gas_wei", "1", "line 1: no column number"),
        ("number,base_fee_per_gas_wei", "", "line 2: no block"),
        (
            "number,base_fee_per_gas_wei,x",
            "1,2",
            "CSV error: record 1 (line: 2, byte: 30): found record with 2",
        ),
        ("number,base_fee_per_gas_wei", "1,2\n3,2", "line 3: block 3 is not 2"),
        (
            "number,base_fee_per_gas_wei",
            "1,-2",
            "line 2, base_fee_per_gas_wei: \"-2\" is not a number that fits",
        ),
        (
            "number,base_fee_per_gas_wei",
            &format!("1,{}", "9".repeat(60)),
            "line 2, base_fee_per_gas_wei: \"9999999999999999999999999999999999999999\" is not",
        ),
        (
            "number,base_fee_per_gas_wei,gas_used,gas_limit",
            "1,2,x\u{1b}[31m,4",
            "line 2, gas_used: \"x\\u{1b}[31m\" is not",
        ),
        ("number,base_fee_per_gas_wei", ",2", "line 2, number: \"\" is not"),
        (
            "number,base_fee_per_gas_wei,p60,p10",
            "1,2,3,4",
            "line 1: the percentiles are not in ascending order",
        ),
        (
            "number,base_fee_per_gas_wei,p10,p10",
            "1,2,3,4",
            "line 1: the percentiles are not in ascending order",
        ),
        ("number,base_fee_per_gas_wei,p10", "1,2,-3", "line 2, p10: \"-3\" is not"),
        (
            "number,base_fee_per_gas_wei,p101",
            "1,2,3",
            "has 1 consecutive blocks, but at least 75 are required",
        ),
    ] {
        assert_refused(format!("{header}\n{rows}\n"), expected);
    }
}

#[test]
fn a_table_has_rewards_in_columns_of_percentiles() {
    let rows = (100..180).map(|number| {
        format!("{number}, {GWEI}, x, 0.5, {}, 7\n", if number == 160 { "" } else { "5" })
    });
    let header = "number,base_fee_per_gas_wei,price,gas_used_ratio,p10,p99.5\n";
    let result = run_json(&[
        "--landing-percentile",
        "99.5",
        &file(header.to_owned() + &rows.collect::<String>()),
    ]);
    assert_eq!((&result["oldest_block"], &result["newest_block"]), (&100.into(), &179.into()));
    let note = "1 blocks have no rewards and are excluded from the tip measures.";
    assert!(result["notes"].as_array().unwrap().contains(&note.into()), "{result}");
    assert_eq!(row(&result, "foundry, low")["tip_covered"], Value::Null);
    assert_eq!(row(&result, "foundry, low")["included_next"], 0.0);
}

#[test]
fn too_short_recordings_report_the_required_block_count() {
    for count in [1, 74] {
        let recording = uniform_recording(count, &[0.0, 50.0], &[1, 2]).to_string();
        let expected = format!("has {count} consecutive blocks, but at least 75 are required\n");
        assert_refused(recording, &expected);
    }
    let enough = file(uniform_recording(75, &[0.0, 50.0], &[1, 2]).to_string());
    assert_eq!(run_json(&[&enough])["quotes"], 1);
}

#[test]
fn rpc_reply_plain_and_gzipped_recordings_score_alike() {
    let result = four_tips();
    let scores = |arguments: &[&str]| run_json(arguments)["estimators"].take();
    let plain = scores(&[&file(result.to_string())]);
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    for bytes in [
        reply.to_string().into_bytes(),
        format!("\u{feff}{result}").into_bytes(),
        gzip(result.to_string().as_bytes()),
    ] {
        assert_eq!(scores(&[&file(bytes)]), plain);
    }
    let mut bare = result;
    bare["rewardPercentiles"] = Value::Null;
    assert_eq!(scores(&["--percentiles", "0,20,50,60", &file(bare.to_string())]), plain);
}

#[test]
fn missing_percentiles_leave_scores_unknown_with_a_note() {
    let assert_note = |path: &str, what: &str, percentile: u8| {
        let note = format!("\n{what}: unknown, because percentile {percentile} is not recorded.\n");
        let table = run(&[path]);
        assert!(table.contains(&note), "{table}");
    };
    let path = file(uniform_recording(80, &[10.0, 20.0, 35.0, 50.0], &[GWEI; 4]).to_string());
    assert_note(&path, "Rundler", 33);
    assert_note(&path, "Alto", 40);
    let result = run_json(&[&path]);
    let quotes = |name: &str| row(&result, name)["quotes"].as_u64().unwrap();
    assert_eq!((quotes("alloy"), quotes("Rundler"), quotes("Alto")), (6, 0, 0));
    assert_eq!(row(&result, "Alto")["included_next"], Value::Null);
    assert_eq!(row(&result, "alloy")["included_next"], 1.0);

    // Inclusion is judged by percentile 10, which is missing here.
    let path = file(uniform_recording(80, &[20.0, 50.0], &[GWEI; 2]).to_string());
    assert_note(&path, "required tips", 10);
    let result = run_json(&[&path]);
    assert_eq!(row(&result, "alloy")["included_next"], Value::Null);
    assert_eq!(row(&result, "alloy")["tip_covered"], 1.0);

    // A block without transactions includes any tip, but it does not stand for the others.
    let mut recording = uniform_recording(80, &[60.0], &[GWEI]);
    recording["gasUsedRatio"][60] = json!(0.0);
    let result = run_json(&[&file(recording.to_string())]);
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
    let mut recording = uniform_recording(80, &[10.0, 20.0, 50.0], &[GWEI; 3]);
    recording["reward"].as_array_mut().unwrap()[52..54].fill(Value::Null);
    let result = run_json(&[&file(recording.to_string())]);
    let note = "2 blocks have no rewards and are excluded from the tip measures.";
    assert!(result["notes"].as_array().unwrap().contains(&note.into()), "{result}");
    let alloy = row(&result, "alloy");
    assert_eq!((&alloy["quotes"], &alloy["included_next"]), (&6.into(), &1.0.into()));
    assert_eq!((&alloy["tip_covered"], &alloy["tip_gap_p99"]), (&1.0.into(), &"0".into()));
}

#[test]
fn file_names_are_escaped_in_text_and_picture() {
    let (name, picture) = (new_path() + "<a>&\u{1}\u{1b}[31m\u{ffff}", new_path());
    std::fs::copy(format!("{}/../{BASE}", env!("CARGO_MANIFEST_DIR")), &name).unwrap();
    let text = run(&["--svg", &picture, &name]);
    assert!(text.contains("<a>&??[31m?: blocks 36964626"), "{text}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.contains("&lt;a&gt;&amp;??[31m?: blocks 36964626"), "{picture}");
}
