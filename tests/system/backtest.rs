//! `gas-suggestion backtest` on the command line.

mod external_estimators;
mod files;
mod network;
mod pages;

use roxmltree::Document;
use serde_json::Value;

use crate::fixtures;
use crate::process::{File, output};

const ETHEREUM: &str = "src/demo/recordings/ethereum.json.gz";
const BASE: &str = "src/demo/recordings/base.json.gz";
const POLYGON: &str = "tests/fixtures/recordings/polygon.json.gz";
const AUGUST: &str = "tests/fixtures/blocks/ethereum-august-2021.csv.gz";

const GWEI: u64 = 1_000_000_000;

/// Runs the command, which has to succeed, and returns its standard output.
fn run(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = output(&[&["backtest"], arguments].concat(), &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    stdout
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

/// Scores of an estimator from an independent program, in this order:
/// - name
/// - numbers of quotes included in the next block, included within five, and covering the base fee after 5 and after
///   25 blocks
/// - tip gap: p50 and p99
/// - numbers of blocks whose tips are covered, and of blocks with tips
/// - overpayment: p50 and p95
/// - median max fee over base fee, in thousandths
type ExpectedScores = (&'static str, [u32; 4], [&'static str; 2], [u32; 2], [&'static str; 2], u32);

fn assert_scores(file: &str, quotes: u32, expected: &[ExpectedScores]) {
    let recording = run_json(&["--landing-percentile", "0", &path(file)]);
    assert_eq!(recording["quotes"], quotes);
    for (name, counts, gaps, [covered, realised], overpaid, permille) in expected {
        let row = row(&recording, name);
        assert_eq!(row["quotes"], quotes, "{name}");
        let keys = ["included_next", "included_within_5", "covers_after_5", "covers_after_25"];
        for (key, count) in keys.iter().zip(counts) {
            assert_eq!(row[key], f64::from(*count) / f64::from(quotes), "{name} {key}");
        }
        assert_eq!([&row["tip_gap_p50"], &row["tip_gap_p99"]], *gaps, "{name}");
        assert_eq!(row["tip_covered"], f64::from(*covered) / f64::from(*realised), "{name}");
        assert_eq!([&row["overpaid_p50"], &row["overpaid_p95"]], *overpaid, "{name}");
        assert_eq!(row["max_fee_over_base_fee_p50"], f64::from(*permille) / 1000.0, "{name}");
    }
}

const RULE: &str = "network rule without floors, medium";

#[test]
fn ethereum_scores_match_an_independent_program() {
    let all = 950;
    assert_scores(
        ETHEREUM,
        950,
        &[
            (
                "alloy",
                [949, all, all, 948],
                ["395854391", "1819198788"],
                [9, 949],
                ["2450000", "45610100"],
                2017,
            ),
            (
                RULE,
                [949, all, all, all],
                ["440001574", "3428996665"],
                [813, 949],
                ["817997318", "1593365841"],
                2602,
            ),
            (
                "MetaMask fallback, medium",
                [all; 4],
                ["1100000000", "1495800000"],
                [936, 949],
                ["1500000000", "1500000000"],
                2137,
            ),
        ],
    );
}

#[test]
fn base_scores_match_an_independent_program() {
    assert_scores(
        BASE,
        950,
        &[
            ("alloy", [950; 4], ["51942", "1509975"], [240, 950], ["993982", "1000000"], 2184),
            (RULE, [950; 4], ["323439", "1505871"], [874, 950], ["1381160", "2017312"], 2293),
        ],
    );
}

#[test]
fn polygon_scores_match_an_independent_program() {
    let all = 950;
    assert_scores(
        POLYGON,
        950,
        &[
            (
                "alloy",
                [922, 948, all, all],
                ["9370572677", "19848438786"],
                [226, 950],
                ["5474015322", "11211379501"],
                4059,
            ),
            (
                RULE,
                [949, all, all, all],
                ["4365576846", "36648386460"],
                [503, 950],
                ["14577775304", "21665555751"],
                4664,
            ),
            (
                "MetaMask fallback, medium",
                [823, 832, all, all],
                ["10086673115", "20701959029"],
                [186, 950],
                ["5054519199", "11121846047"],
                3203,
            ),
            (
                "Polygon station, fast",
                [949, all, all, all],
                ["8034887939", "15732607641"],
                [244, 950],
                ["8401810243", "15189089463"],
                3258,
            ),
        ],
    );
}

#[test]
fn base_fees_alone_are_scored_by_fee_cap_coverage() {
    let recording = run_json(&[&path(AUGUST)]);
    assert_eq!((&recording["quotes"], &recording["has_tips"]), (&34_926.into(), &false.into()));
    let covers = |name: &str, key: &str| {
        let row = row(&recording, name);
        let tips =
            ["included_next", "included_within_5", "tip_gap_p50", "tip_covered", "overpaid_p95"];
        assert!(tips.iter().all(|key| row[key].is_null()), "{row}");
        row[key].clone()
    };
    // An independent program counted 91 heads after which the fifth base fee exceeds twice the average of 20 blocks.
    assert_eq!(covers(RULE, "covers_after_5"), (34_926.0 - 91.0) / 34_926.0);
    assert_eq!(covers("alloy", "covers_after_5"), 1.0);
    assert!(row(&recording, "geth tip oracle")["covers_after_5"].is_null());
}

/// Returns a recording of `count` half-full blocks with a base fee of 10 gwei and these rewards.
fn uniform_recording(count: usize, percentiles: &Value, rewards: &[u64]) -> Value {
    let wei = |wei: u64| format!("{wei:#x}");
    serde_json::json!({
        "oldestBlock": "0x10",
        "rewardPercentiles": percentiles,
        "baseFeePerGas": vec![wei(10 * GWEI); count + 1],
        "gasUsedRatio": vec![0.5; count],
        "reward": vec![rewards.iter().map(|reward| wei(*reward)).collect::<Vec<_>>(); count],
    })
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
        let shares = ["included_next", "included_within_5", "covers_after_5", "covers_after_25"];
        assert_eq!(cells[..4], shares.map(percent), "{name}");
        assert_eq!(cells[6], percent("tip_covered"), "{name}");
        let gwei = ["tip_gap_p50", "tip_gap_p99", "overpaid_p50", "overpaid_p95"];
        for (cell, key) in [cells[4], cells[5], cells[7], cells[8]].iter().zip(gwei) {
            let Some(wei) = row[key].as_str() else {
                assert_eq!(*cell, "–", "{name} {key}");
                continue;
            };
            let (wei, shown): (f64, f64) = (wei.parse().unwrap(), cell.parse().unwrap());
            // The table shows four digits.
            assert!((wei / 1e9 - shown).abs() <= shown * 0.0005, "{name} {key}: {wei} {shown}");
        }
        match row["max_fee_over_base_fee_p50"].as_f64() {
            Some(multiple) => assert_eq!(cells[9], format!("{multiple:.3}"), "{name}"),
            None => assert_eq!(cells[9], "–", "{name}"),
        }
    }
}

#[test]
fn several_files_are_reported_in_argument_order() {
    let names = [path(BASE), path(AUGUST)];
    let arguments = ["--json", &names[0], &names[1]];
    let document: Value = serde_json::from_str(&run(&arguments)).unwrap();
    let result = document["recordings"].as_array().unwrap().iter();
    assert_eq!(
        result.map(|recording| &recording["name"]).collect::<Vec<_>>(),
        [&names[0], &names[1]]
    );
    let table = run(&arguments[1..]);
    let [first, second] = names.map(|name| table.find(&name).unwrap());
    assert!(first < second);
}

#[test]
fn chain_option_selects_the_scored_pricing() {
    let config = File::new(
        "backtest",
        "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n\
         pricing.priority_fee_floor = \"20 gwei\"\n\
         [chains.b]\nchain_id = 2\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.b.pricing]\n\
         base_fee_multiplier = 3\nbase_fee_floor = \"0 wei\"\npriority_fee_floor = \"2 gwei\"\n",
    );
    let file = path(ETHEREUM);
    let (code, stderr) = run_failing(&["--config", config.path(), &file]);
    let expected = "error: the chains have different pricing; choose one with --chain: a, b\n";
    assert_eq!((code, stderr.as_str()), (Some(2), expected));
    let (code, stderr) = run_failing(&["--config", config.path(), "--chain", "c", &file]);
    let expected = "error: --chain: no chain \"c\" is configured; configured chains: a, b\n";
    assert_eq!((code, stderr.as_str()), (Some(2), expected));

    let recording = File::new(
        "flat",
        &uniform_recording(80, &serde_json::json!([0, 50, 60]), &[1, 2, 3]).to_string(),
    );
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
fn landing_percentile_sets_the_tip_needed_for_inclusion() {
    let percentiles = serde_json::json!([0, 10, 20, 30, 40, 50, 60]);
    let rewards: Vec<_> = (1..=7).map(|tip| tip * GWEI).collect();
    let recording =
        File::new("landing", &uniform_recording(80, &percentiles, &rewards).to_string());
    let included = |percentile: &str| {
        let result = run_json(&["--landing-percentile", percentile, recording.path()]);
        ["alloy", RULE].map(|name| row(&result, name)["included_next"].clone())
    };
    let (none, all) = (Value::from(0.0), Value::from(1.0));
    assert_eq!(included("0"), [all.clone(), all.clone()]);
    assert_eq!(included("20"), [all.clone(), all.clone()]);
    assert_eq!(included("30"), [none.clone(), all.clone()]);
    assert_eq!(included("60"), [none, all]);
    // The recording has no rewards at this percentile.
    assert_eq!(included("90"), [Value::Null, Value::Null]);
}

#[test]
fn file_names_are_escaped_in_table_and_chart() {
    let folder = std::env::temp_dir().join(format!("{}-names", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.join("<a>&\u{1}\u{1b}[31m\u{ffff}");
    std::fs::copy(fixtures::path(BASE), &name).unwrap();
    let chart = File::new("names", "");
    let table = run(&["--svg", chart.path(), name.to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(table.contains("/<a>&??[31m?: blocks 36964626"), "{table}");
    let text = chart.text();
    let document = Document::parse(&text).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    assert!(title.text().unwrap().contains("/<a>&??[31m?: blocks 36964626"));
}

#[test]
fn svg_chart_shows_the_same_numbers() {
    let chart = File::new("chart", "");
    run(&["--svg", chart.path(), &path(POLYGON)]);
    let text = chart.text();
    let document = Document::parse(&text).unwrap();
    assert_eq!(document.root_element().tag_name().name(), "svg");
    let facts = document.descendants().find(|node| node.has_tag_name("desc")).unwrap();
    let facts = facts.text().unwrap();
    assert!(
        facts.contains("alloy: in the next block 97.1 %, covers base fee +25 100.0 %, overpaid "),
        "{facts}"
    );
    let bars = document.descendants().filter(|node| node.has_tag_name("rect"));
    let widths: Vec<u32> =
        bars.map(|bar| bar.attribute("width").unwrap().parse().unwrap()).collect();
    assert!(
        widths.contains(&(970 * 230 / 1000)) && widths.iter().all(|width| *width <= 800),
        "{widths:?}"
    );

    run(&["--svg", chart.path(), &path(AUGUST)]);
    assert!(chart.text().contains("covers base fee +5"));
    let files = [path(BASE), path(POLYGON)];
    let (code, stderr) = run_failing(&["--svg", chart.path(), &files[0], &files[1]]);
    assert_eq!(
        (code, stderr.as_str()),
        (Some(2), "error: --svg takes a single recording; pass one file\n")
    );
    let (code, stderr) = run_failing(&["--svg", "/none/chart.svg", &files[0]]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: cannot write /none/chart.svg: No such file"), "{stderr}");
}
