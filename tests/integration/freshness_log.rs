//! The log of an outage.

use std::io::BufRead;

use serde_json::Value;

use crate::mock_node::{MockNode, Reply};
use crate::process::{FREE_PORTS, File, Process, command};

/// Reads the log up to the line with this message. Returns the messages of all lines, with chain and reason.
fn read_until(service: &mut Process, message: &str) -> Vec<String> {
    let mut messages = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(service.log.read_line(&mut line).unwrap(), 0, "the log ended: {messages:?}");
        let entry: Value = serde_json::from_str(&line).unwrap();
        let text = entry["message"].as_str().unwrap();
        let level = entry["level"].as_str().unwrap();
        let reason =
            entry["reason"].as_str().map_or(String::new(), |reason| format!(" ({reason})"));
        messages.push(format!("{level} {text}{reason}"));
        if text == message {
            return messages;
        }
    }
}

/// Starts the service with this chain. It blocks one thread, while the node has another one.
fn start(name: &str, node: &MockNode, more: &str) -> Process {
    let times = "block_time = \"500ms\"\nmax_age = \"2500ms\"";
    let chain = node.chain("a", &format!("{times}\n{more}"));
    let text = format!("[log]\nfilter = \"info,gas_suggestion::requests=warn\"\n{chain}");
    let file = File::new(name, &text);
    Process::spawn(command(&["--config", file.path()], &FREE_PORTS))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_has_a_line_for_each_change_of_the_chain() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let mut service = start("outage", &node, "stall_after = \"0s\"");
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    node.set_reply(Reply::Raw(502, String::new()));
    let not_served = "chain is not served any more: its data is too old";
    let outage = read_until(&mut service, not_served);
    let expected = [
        "WARN upstream failed (http_status)",
        "WARN chain is stale (old_data)",
        &format!("WARN {not_served}"),
    ];
    assert_eq!(outage[outage.len() - 3..], expected);
    assert!(outage.iter().any(|line| line == "INFO upstream reached"), "{outage:?}");
    assert_eq!(service.get("/v1/a/gas-suggestion").await.status, 503);
    node.set_reply(Reply::history(1003, 3, 40));
    let back = read_until(&mut service, "chain is fresh again");
    assert_eq!(back, ["INFO upstream recovered", "INFO chain is fresh again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_is_never_read_is_reported_once() {
    let node = MockNode::start(7, Reply::Raw(502, String::new())).await;
    let mut service = start("unread", &node, "");
    let lines = read_until(&mut service, "chain is not served yet: no data was read");
    let warnings: Vec<_> = lines.iter().filter(|line| line.starts_with("WARN ")).collect();
    assert_eq!(
        warnings[warnings.len() - 2..],
        ["WARN upstream failed (http_status)", "WARN chain is not served yet: no data was read"]
    );
    node.set_reply(Reply::history(1003, 3, 40));
    let back = read_until(&mut service, "chain is served");
    assert_eq!(back, ["INFO upstream recovered", "INFO chain is served"]);
}
