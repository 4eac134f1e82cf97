//! Tests of the access log, and of log lines that cannot be written.

use serde_json::{Value, json};

use crate::http_message::get;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply};
use crate::process::{self, ChildProcess, FREE_PORTS, File, Process};
use crate::raw_client::{RawClient, free_port};
use crate::test_server::wait_until;

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Returns the access log entries of `log` without the fields that differ between runs.
fn access_log(log: &str) -> Vec<Value> {
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let access_entries = entries.filter(|entry| entry["target"] == "gas_suggestion::requests");
    let comparable = access_entries.map(|mut entry| {
        let fields = entry.as_object_mut().unwrap();
        assert!(fields.remove("duration_ms").unwrap().as_f64().unwrap() >= 0.0);
        assert!(fields.remove("timestamp").is_some() && fields.remove("target").is_some());
        entry
    });
    comparable.collect()
}

/// Returns the number of dropped lines that the admin listener shows.
async fn dropped_lines(admin: &mut RawClient) -> u64 {
    let metrics = admin.request(get("/metrics", "")).await;
    let mut lines = metrics.text().lines();
    let count = lines.find_map(|line| line.strip_prefix("gas_suggestion_log_lines_dropped_total "));
    count.unwrap_or_else(|| panic!("{metrics:?}")).parse().unwrap()
}

#[tokio::test]
async fn every_request_except_probes_is_logged_without_keys() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = LoggedProcess::start("each-request", &node.chain("a", ""));
    let [public, admin] = service.addresses;
    let mut client = RawClient::connect(public).await;
    client.wait_for_ok("/readyz").await;
    let with_id = |id: &str| format!("X-Request-Id: {id}\r\n");
    client.request(get(SUGGESTION, &with_id("first"))).await;
    client.request(get("/v1/nowhere/fee-market?key=secret", &with_id("second"))).await;
    client.status("/livez").await;
    RawClient::connect(admin).await.status("/metrics").await;
    client.request(get("/%22quoted%22", &with_id("third"))).await;
    client.request(get("/v3/secret/networks/7/suggestedGasFees", &with_id("fourth"))).await;
    let log = service.stop();
    let line = |path: &str, status: u16, id: &str| {
        json!({
            "level": "INFO", "message": "request completed", "method": "GET", "path": path, "status": status,
            "request_id": id,
        })
    };
    let expected = [
        line(SUGGESTION, 200, "first"),
        line("/v1/nowhere/fee-market", 404, "second"),
        line("/%22quoted%22", 404, "third"),
        line("/v3/***/networks/7/suggestedGasFees", 200, "fourth"),
    ];
    assert_eq!(access_log(&log), expected);
    assert!(!log.contains("secret"), "{log}");
}

#[tokio::test]
async fn log_lines_have_a_bounded_method_and_path() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let limits =
        "[limits]\nrequests_per_second_per_client = 1\nrequest_burst_per_client = 1\n".to_owned();
    let service = LoggedProcess::start("bounded", &(limits + &node.chain("a", "")));
    let mut client = RawClient::connect(service.addresses[0]).await;
    let method = "M".repeat(4000);
    // Byte 256 of the path is inside a character.
    let path = format!("/{}", "\u{e4}".repeat(2000));
    for status in [404, 429] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.request(request).await.status(), status);
    }
    let log = service.stop();
    for entry in access_log(&log) {
        assert_eq!(entry["method"], "M".repeat(32));
        assert_eq!(entry["path"], format!("/{}", "\u{e4}".repeat(127)));
    }
    assert!(log.lines().all(|line| line.len() < 1024), "{log}");
}

#[tokio::test]
async fn unread_log_pipe_drops_and_counts_lines_without_blocking() {
    /// More lines than the queue of 8,192 and the pipe hold.
    const REQUESTS: usize = 10_000;
    const BATCH: usize = 100;
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let limits = "[limits]\nrequests_per_second_per_client = 0\n";
    let file = File::new("unread", &format!("{limits}{}", node.chain("a", "")));
    // The test stops reading the log from this pipe once the service listens.
    let service = Process::start(&["--config", file.path()], &[]);
    let mut client = RawClient::connect(service.address).await;
    client.wait_for_ok(SUGGESTION).await;
    for _ in 0..REQUESTS / BATCH {
        client.send(get(SUGGESTION, "").repeat(BATCH)).await;
        for _ in 0..BATCH {
            assert_eq!(client.read_response().await.unwrap().unwrap().status(), 200);
        }
    }
    assert!(dropped_lines(&mut RawClient::connect(service.admin).await).await > 0);
    assert_eq!(service.stop_with("-TERM").0, Some(0));
}

#[tokio::test]
async fn text_format_has_the_same_fields_on_one_line() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = [("GAS_LOG__FORMAT", "text"), ("GAS_SERVER__DRAIN_DELAY", "0s")];
    let variables = [&FREE_PORTS[..], &text].concat();
    let service = LoggedProcess::with_variables("text", &node.chain("a", ""), &variables);
    let mut client = RawClient::connect(service.addresses[0]).await;
    client.request(get("/v1/chains", "X-Request-Id: mine\r\n")).await;
    let log = service.stop();
    let line = log.lines().find(|line| line.contains("request completed")).unwrap();
    let (before, after) = line.split_once(" duration_ms=").unwrap();
    let expected = " INFO gas_suggestion::requests: request completed method=\"GET\" path=\"/v1/chains\" status=200";
    assert!(before.ends_with(expected), "{line}");
    assert!(after.ends_with(" request_id=\"mine\""), "{line}");
}

#[tokio::test]
async fn unwritable_log_lines_are_counted() {
    let [public, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut bare = process::command(&["demo"], &[]);
    bare.env("GAS_SERVER__LISTEN", &public).env("GAS_SERVER__ADMIN_LISTEN", &admin);
    // Every write to this device fails with ENOSPC.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let _child = ChildProcess(bare.stderr(full).spawn().unwrap());
    wait_until("dropped lines are counted", async || {
        let Ok(stream) = tokio::net::TcpStream::connect(&admin).await else { return false };
        // The service logs at least "listening" and the lines about upstreams.
        dropped_lines(&mut RawClient::from_stream(stream)).await >= 3
    })
    .await;
}
