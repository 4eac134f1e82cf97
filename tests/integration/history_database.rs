//! `[history] path`: the fee trend survives restarts, also kills, and no file stops the service.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixtures::seconds;
use crate::history_rows::{Directory, Rows};
use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply, dead_url};
use crate::process::{File, Process};
use crate::test_server::{Response, TestServer, wait_for};

const HOUR: u32 = 3600;

fn config(node: &MockNode, path: &Path) -> String {
    let chain = node.chain("a", "block_time = \"20ms\"\nstall_after = \"0s\"");
    format!("[history]\nrefill = false\npath = \"{}\"\n{chain}", path.display())
}

/// Number of blocks in all buckets.
fn blocks(trend: &Value) -> u64 {
    trend["buckets"].as_array().unwrap().iter().map(|it| it["blocks"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_graceful_restart_loses_nothing() {
    let directory = Directory::new("graceful");
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let config = config(&node, &directory.file());
    let service = TestServer::start(&config).await;
    service.wait_for_ok("/v1/a/fee-trend").await;
    node.set_reply(Reply::history(1001, 5, 40));
    let before = service.wait_for_block("/v1/a/fee-trend?period=7d", 1001).await.json();
    service.stop().await.unwrap();
    assert_eq!(directory.names(), ["history.redb"]);
    assert_eq!(Rows::read(&directory.file()).blocks(), 21);

    let service = TestServer::start(&config).await;
    let after = service.wait_for_block("/v1/a/fee-trend?period=7d", 1001).await.json();
    assert_eq!(after, before);
    assert_eq!(blocks(&after), 21);
    node.set_reply(Reply::history(1003, 5, 40));
    // The first poll repeats twenty blocks. What was seen since the start has more blocks now.
    let is_continued =
        |it: &Response| it.header("x-newest-block") == "1003" && blocks(&it.json()) == 22;
    service.wait_for("/v1/a/fee-trend?period=7d", is_continued).await;
    service.stop().await.unwrap();
}

/// Returns a history of 160 hours, of one base fee each, and of an hour with 4,000 blocks, which was two hours ago and has
/// buckets of ten minutes too.
fn history() -> Rows {
    let last = u32::try_from(seconds()).unwrap() / HOUR * HOUR - 2 * HOUR;
    let mut rows = Rows::default();
    let mut add = |width: u32, start: u32, blocks: u32, fee: u32| {
        let ratios = [0.1_f64, 0.2, 0.3].map(f64::to_bits);
        let fee = u64::from(fee);
        let row = (start, blocks, [fee; 3], [7, 8, 9], ratios, fee + 8);
        rows.buckets.insert((7, width, start), row);
    };
    for hour in 1..=160 {
        add(HOUR, last - (161 - hour) * HOUR, 1800, hour);
    }
    add(HOUR, last, 4000, 170);
    for start in (last..last + HOUR).step_by(600) {
        add(600, start, 667, 170);
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_loses_nothing_older_than_the_open_minute() {
    const KILLS: u32 = 20;
    let directory = Directory::new("kill");
    let path = directory.file();
    let saved = history();
    saved.write(&path);
    let node = MockNode::start(7, Reply::history(5000, 3, 40)).await;
    let file = File::new("history", &config(&node, &path));
    for round in 0..KILLS {
        let process = Process::start(&["--config", file.path()], &[]);
        // It opens, repairs and writes the file in the first hundredths of a second.
        std::thread::park_timeout(Duration::from_millis(1) * round);
        drop(process);
        let after = Rows::read(&path);
        assert!(after.buckets.len() >= 160, "round {round}: {} buckets", after.buckets.len());
        assert!(saved.buckets.iter().all(|(key, row)| after.buckets.get(key) == Some(row)));
    }
    let service = TestServer::start(&config(&node, &path)).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let trend = service.wait_for_ok("/v1/a/fee-trend?period=7d").await.json();
    let buckets = trend["buckets"].as_array().unwrap();
    for (fee, bucket) in (1..=160).chain([170]).zip(buckets) {
        assert_eq!(bucket["base_fee_per_gas"]["median"], fee.to_string());
    }
    let tips = json!({ "min": "7", "median": "8", "max": "9" });
    assert_eq!(buckets[0]["max_priority_fee_per_gas"], tips);
    assert_eq!(buckets[0]["gas_used_ratio"], json!({ "min": 0.1, "median": 0.2, "max": 0.3 }));
    assert_eq!(buckets[160]["blocks"], 4000);
    assert_eq!(trend["level"], "high", "3 gwei after 170 wei");
    assert_eq!(service.get("/v1/a/fee-market").await.json()["level"], "high");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_restored_trend_is_served_although_no_node_responds() {
    let directory = Directory::new("restored");
    history().write(&directory.file());
    let chain = |key: &str, id: u64| {
        format!("[chains.{key}]\nchain_id = {id}\nrpc_urls = [\"{}\"]\n", dead_url())
    };
    let (path, chains) = (directory.file(), chain("a", 7) + &chain("b", 8));
    let config = format!("[history]\npath = \"{}\"\n{chains}", path.display());
    let service = TestServer::start(&config).await;
    for (period, buckets) in [("7d", 161..=161), ("24h", 6..=7), ("1h", 0..=60)] {
        let response = service.get(&format!("/v1/a/fee-trend?period={period}")).await;
        assert_eq!((response.status, response.header("x-stale")), (200, "true"), "{response:?}");
        assert_eq!(response.header("cache-control"), "no-store");
        assert_eq!(["age", "x-newest-block"].map(|name| response.header(name)), [""; 2]);
        let body = response.json();
        assert_eq!(body["level"], Value::Null);
        assert!(buckets.contains(&body["buckets"].as_array().unwrap().len()), "{body}");
    }
    assert_eq!(service.get("/v1/a/fee-market").await.json()["code"], "no_data");
    service.get("/v1/b/fee-trend").await.assert_problem(503, "no_data");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn check_config_refuses_a_file_that_cannot_be_created() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let directory = Directory::new("checked");
    let check = |path: &std::path::Path| {
        let file = crate::process::File::new("checked", &config(&node, path));
        crate::process::output(&["check-config", "--config", file.path()], &[])
    };
    let (code, _, stderr) = check(&directory.path().join("none/history.redb"));
    let expected =
        "error: history.path: its folder cannot be written to: No such file or directory";
    assert!(code == Some(2) && stderr.starts_with(expected), "{stderr}");
    let (code, _, stderr) = check(&directory.file());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(directory.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_is_one_warning_and_is_not_changed() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let directory = Directory::new("unusable");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("foreign"), "{\"chains\":[]}").unwrap();
    let first = TestServer::start(&config(&node, &directory.file())).await;
    first.wait_for_ok("/v1/a/fee-trend").await;
    let before = directory.names();
    for (path, reason) in [
        (at("none/history.redb"), "No such file or directory"),
        (directory.path().to_owned(), "it is not a regular file"),
        (at("foreign"), "it is not a database of this service"),
        (directory.file(), "another instance uses it"),
    ] {
        let (warning, log) = warning_of_a_run(&node, &path).await;
        assert!(warning.contains(reason), "{warning}");
        assert!(warning.contains(&*path.to_string_lossy()), "{warning}");
        assert_eq!(log.matches("history database").count(), 1, "{log}");
        assert_eq!(directory.names(), before);
    }
    assert_eq!(std::fs::read(at("foreign")).unwrap(), b"{\"chains\":[]}");
    first.stop().await.unwrap();
    assert_eq!(Rows::read(&directory.file()).blocks(), 20);
    // A damaged file is renamed.
    std::fs::File::options().write(true).open(directory.file()).unwrap().set_len(5000).unwrap();
    let (warning, _) = warning_of_a_run(&node, &directory.file()).await;
    let names = directory.names();
    let renamed = names.iter().find(|name| name.starts_with("history.redb.damaged-")).unwrap();
    let is_named = warning.contains("history database is damaged") && warning.contains(renamed);
    assert!(is_named, "{warning}");
    assert_eq!(Rows::read(&directory.file()).blocks(), 20);
}

/// Runs the service with this database until it has a trend. Returns the only line about the database that is not of
/// level INFO, and the whole log.
async fn warning_of_a_run(node: &MockNode, path: &Path) -> (String, String) {
    let process = LoggedProcess::start("history", &config(node, path));
    let url = format!("http://{}/v1/a/fee-trend", process.addresses[0]);
    wait_for(&http_client::new(), &url, |response| response.status == 200).await;
    let log = process.stop();
    let is_bad = |line: &&str| line.contains("history database") && !line.contains("\"INFO\"");
    let lines: Vec<_> = log.lines().filter(is_bad).collect();
    let [warning] = lines[..] else { panic!("{}: {log}", path.display()) };
    assert!(warning.contains("\"WARN\""), "{warning}");
    (warning.to_owned(), log.clone())
}
