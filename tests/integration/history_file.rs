//! `[history] path`: the fee trend survives restarts, also kills, and no file stops the service.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::http_client;
use crate::mock_node::{MockNode, Reply, dead_url, fee_history};
use crate::process::{File, Process};
use crate::raw_client::TIMEOUT;
use crate::test_server::TestServer;

/// A new directory. Removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("gas-suggestion-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.json")
    }

    /// Returns the names of its files, in order.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(node: &MockNode, path: &Path) -> String {
    format!(
        "[history]\nrefill = false\npath = \"{}\"\n[chains.a]\nchain_id = 7\nblock_time = \"20ms\"\nstall_after = \"0s\"\nrpc_urls = [\"{}\"]\n",
        path.display(),
        node.url()
    )
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Number of blocks in all buckets.
fn blocks(trend: &Value) -> u64 {
    trend["buckets"].as_array().unwrap().iter().map(|it| it["blocks"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_graceful_restart_loses_nothing() {
    let directory = Directory::new("graceful");
    let node = MockNode::start(7, Reply::Result(fee_history(1000, 3, 40))).await;
    let config = config(&node, &directory.file());
    let service = TestServer::start(&config).await;
    service.wait_for("/v1/a/fee-trend", |response| response.status == 200).await;
    node.set_reply(Reply::Result(fee_history(1001, 5, 40)));
    let is_next =
        |response: &crate::test_server::Response| response.header("x-newest-block") == "1001";
    let before = service.wait_for("/v1/a/fee-trend?period=7d", is_next).await.json();
    service.stop().await.unwrap();
    assert_eq!(directory.names(), ["history.json"]);
    let saved: Value = serde_json::from_slice(&std::fs::read(directory.file()).unwrap()).unwrap();
    assert_eq!(saved["chains"][0]["trend"]["newest_block"], 1001);

    let service = TestServer::start(&config).await;
    let after = service
        .wait_for("/v1/a/fee-trend?period=7d", |response| response.status == 200)
        .await
        .json();
    assert_eq!(after, before);
    assert_eq!(blocks(&after), 21);
    node.set_reply(Reply::Result(fee_history(1003, 5, 40)));
    service
        .wait_for("/v1/a/fee-trend?period=7d", |response| {
            response.header("x-newest-block") == "1003" && blocks(&response.json()) == 23
        })
        .await;
    service.stop().await.unwrap();
}

/// Returns a history of a week: 168 hours of one base fee each, and 4,000 samples in the last one.
fn week() -> Value {
    let open = seconds() / 3600 * 3600 - 3600;
    let hours: Vec<Value> = (1..=160_u64)
        .map(|hour| {
            json!([
                open - (161 - hour) * 3600,
                1800,
                [hour, hour, hour],
                [7, 8, 9],
                [0.1, 0.2, 0.3],
                hour + 8
            ])
        })
        .collect();
    let samples: Vec<Value> =
        (0..4000_u64).map(|index| json!([index, open + index * 9 / 10, 170, 8, null])).collect();
    json!({
        "format": "gas-suggestion fee trend", "version": 2,
        "chains": [{ "chain_id": 7, "trend": {
            "newest_block": 3999, "newest_time": open + 3599, "minutes": [], "ten_minutes": [], "hours": hours,
            "before": { "start": 0, "stride": 1, "samples": [], "dropped": [] },
            "open": { "start": open, "stride": 1, "samples": samples, "dropped": [] },
        } }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_a_write_loses_nothing_older() {
    const KILLS: u64 = 12;
    let directory = Directory::new("kill");
    let path = directory.file();
    std::fs::write(&path, week().to_string()).unwrap();
    let node = MockNode::start(7, Reply::Result(fee_history(5000, 3, 40))).await;
    let file = File::new("history", &config(&node, &path));
    let mut interrupted = 0;
    for round in 0..KILLS {
        node.set_reply(Reply::Result(fee_history(5000 + 20 * round, 3, 40)));
        let inode = |path: &Path| std::fs::metadata(path).ok().map(|it| it.modified().unwrap());
        let before = inode(&path);
        let arguments = ["--config".to_owned(), file.path().to_owned()];
        let start = move || Process::start(&[&arguments[0], &arguments[1]], &[]);
        let process = tokio::task::spawn_blocking(start).await.unwrap();
        // The kill comes as soon as the write has begun, or a little later.
        let temporary = directory.0.join("history.json.tmp");
        let deadline = Instant::now() + TIMEOUT;
        while !temporary.exists() && inode(&path) == before {
            assert!(Instant::now() < deadline, "nothing is written");
            std::hint::spin_loop();
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(400 * round) {
            std::hint::spin_loop();
        }
        // Dropping it kills it.
        drop(process);
        interrupted += u64::from(temporary.exists());
        let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let hours = saved["chains"][0]["trend"]["hours"].as_array().unwrap();
        assert!(hours.len() >= 160, "round {round}: {} hours", hours.len());
    }
    assert!(interrupted > 0, "no kill came in the middle of a write");
    let service = TestServer::start(&config(&node, &path)).await;
    let trend = service
        .wait_for("/v1/a/fee-trend?period=7d", |response| response.status == 200)
        .await
        .json();
    let buckets = trend["buckets"].as_array().unwrap();
    let fees = buckets.iter().map(|it| it["base_fee_per_gas"]["median"].as_str().unwrap());
    let expected = (1..=160).map(|hour: u64| hour.to_string()).chain(["170".to_owned()]);
    assert_eq!(fees.take(161).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(buckets[160]["blocks"], 4000);
    assert_eq!(trend["level"], "high", "3 gwei after 170 wei");
    assert_eq!(service.get("/v1/a/fee-market").await.json()["level"], "high");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_restored_trend_is_served_although_no_node_responds() {
    let directory = Directory::new("restored");
    std::fs::write(directory.file(), week().to_string()).unwrap();
    let chain = |key: &str, id: u64| {
        format!("[chains.{key}]\nchain_id = {id}\nrpc_urls = [\"{}\"]\n", dead_url())
    };
    let service = TestServer::start(&format!(
        "[history]\npath = \"{}\"\n{}{}",
        directory.file().display(),
        chain("a", 7),
        chain("b", 8)
    ))
    .await;
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
    let unread = service.get("/v1/b/fee-trend").await;
    assert_eq!((unread.status, &unread.json()["code"]), (503, &json!("no_data")));
    service.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_file_is_renamed_and_the_trend_starts_empty() {
    let node = MockNode::start(7, Reply::Result(fee_history(1000, 3, 40))).await;
    let header =
        |version| json!({ "format": "gas-suggestion fee trend", "version": version, "prices": {} });
    let [older, newer] = [1, 3].map(|version| header(version).to_string());
    let mut damaged = week();
    damaged["chains"][0]["trend"]["open"]["samples"][5][0] = 1.into();
    let valid = week().to_string();
    for (name, content, reason) in [
        ("empty", "", "it is damaged"),
        ("garbage", "\u{0}\u{1}", "it is damaged"),
        ("cut", &valid[..valid.len() / 2], "it is damaged"),
        ("foreign", "{\"chains\":[]}", "it is not a fee trend"),
        ("older", &older, "its version is 1, and this program knows version 2"),
        ("newer", &newer, "its version is 3, and this program knows version 2"),
        ("invalid", &damaged.to_string(), "it is damaged"),
        ("large", "large", "it has more than 67108864 bytes"),
    ] {
        let directory = Directory::new(name);
        std::fs::write(directory.file(), content).unwrap();
        if name == "large" {
            std::fs::File::options()
                .write(true)
                .open(directory.file())
                .unwrap()
                .set_len(64 * 1024 * 1024 + 1)
                .unwrap();
        }
        let log = serve_and_stop(&node, &directory.file()).await;
        let names = directory.names();
        let [written, renamed] = &names[..] else { panic!("{name}: {names:?}") };
        assert_eq!(written, "history.json");
        assert!(renamed.starts_with("history.json.damaged-"), "{renamed}");
        let kept = std::fs::read(directory.0.join(renamed)).unwrap();
        assert!(kept.starts_with(content.as_bytes()), "{name}");
        let is_warning = |line: &&str| line.contains("\"WARN\"") && line.contains("history file");
        let warning = log.lines().find(is_warning).unwrap();
        assert!(warning.contains(renamed) && warning.contains(reason), "{name}: {warning}");
        let saved: Value =
            serde_json::from_slice(&std::fs::read(directory.file()).unwrap()).unwrap();
        assert_eq!(saved["chains"][0]["trend"]["newest_block"], 1000, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_cannot_be_used_is_one_warning() {
    let node = MockNode::start(7, Reply::Result(fee_history(1000, 3, 40))).await;
    let directory = Directory::new("unusable");
    for (path, message) in [
        (directory.0.join("none/history.json"), "history file cannot be written"),
        (directory.0.clone(), "history file cannot be used or renamed"),
        ("/dev/null".into(), "history file cannot be used or renamed"),
    ] {
        let log = serve_and_stop(&node, &path).await;
        let warnings: Vec<_> = log.lines().filter(|line| line.contains("history file")).collect();
        let is_warning = |line: &&&str| line.contains("\"WARN\"") && line.contains(message);
        assert_eq!(warnings.iter().filter(is_warning).count(), 1, "{path:?}: {log}");
        assert_eq!(directory.names(), Vec::<String>::new());
    }
}

/// Runs the service with this history file until it has a trend and has tried to write it. Returns the log.
async fn serve_and_stop(node: &MockNode, path: &Path) -> String {
    let json = "[log]\nformat = \"json\"\n[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n";
    let config = format!("{json}{}", config(node, path));
    let start = move || crate::logged_process::LoggedProcess::start("history", &config);
    let process = tokio::task::spawn_blocking(start).await.unwrap();
    let url = format!("http://{}/v1/a/fee-trend", process.addresses[0]);
    let client = http_client::new();
    let is_served = |response: &crate::test_server::Response| response.status == 200;
    crate::test_server::wait_for(&client, &url, is_served).await;
    tokio::task::spawn_blocking(move || process.stop()).await.unwrap()
}
