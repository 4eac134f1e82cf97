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

/// Which files are refused, and how, has unit tests. A run goes on without the file, with one warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_is_one_warning_and_check_config_refuses_it() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let directory = Directory::new("unusable");
    std::fs::write(directory.file(), "{\"chains\":[]}").unwrap();
    let process = LoggedProcess::start("history", &config(&node, &directory.file()));
    let url = format!("http://{}/v1/a/fee-trend", process.addresses[0]);
    wait_for(&http_client::new(), &url, |response| response.status == 200).await;
    let log = process.stop();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("history database")).collect();
    let [warning] = lines[..] else { panic!("{log}") };
    let path = directory.file().to_string_lossy().into_owned();
    for part in ["\"WARN\"", "it is not a database of this service", path.as_str()] {
        assert!(warning.contains(part), "{warning}");
    }
    assert_eq!(std::fs::read(directory.file()).unwrap(), b"{\"chains\":[]}");
    let check = |name: &str| {
        let file = File::new("checked", &config(&node, &directory.path().join(name)));
        crate::process::output(&["check-config", "--config", file.path()], &[])
    };
    let (code, _, stderr) = check("none/history.redb");
    let expected =
        "error: history.path: its folder cannot be written to: No such file or directory";
    assert!(code == Some(2) && stderr.starts_with(expected), "{stderr}");
    let (code, _, stderr) = check("other.redb");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(directory.names(), ["history.redb"]);
}
