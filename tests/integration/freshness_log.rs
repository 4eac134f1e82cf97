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

/// The service blocks one thread, while the node has another one.
#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_chain_has_a_line() {
    let node = MockNode::start(7, Reply::Raw(502, String::new())).await;
    let times = "block_time = \"500ms\"\nmax_age = \"2500ms\"\nstall_after = \"0s\"";
    let chain = node.chain("a", times);
    let text = format!("[log]\nfilter = \"info,gas_suggestion::requests=warn\"\n{chain}");
    let file = File::new("outage", &text);
    let mut service = Process::spawn(command(&["--config", file.path()], &FREE_PORTS));
    let unread = "chain is not served yet: no data was read";
    let lines = read_until(&mut service, unread);
    let warnings: Vec<_> = lines.into_iter().filter(|line| line.starts_with("WARN ")).collect();
    let expected = ["WARN upstream failed (http_status)", &format!("WARN {unread}")];
    assert_eq!(warnings[warnings.len() - 2..], expected);
    node.set_reply(Reply::history(1000, 3, 40));
    let served = read_until(&mut service, "chain is served");
    assert_eq!(served, ["INFO upstream recovered", "INFO chain is served"]);

    node.set_reply(Reply::Raw(502, String::new()));
    let not_served = "chain is not served any more: its data is too old";
    let outage = read_until(&mut service, not_served);
    let expected = [
        "WARN upstream failed (http_status)",
        "WARN chain is stale (old_data)",
        &format!("WARN {not_served}"),
    ];
    assert_eq!(outage[outage.len() - 3..], expected);
    assert_eq!(service.get("/v1/a/gas-suggestion").await.status, 503);
    node.set_reply(Reply::history(1003, 3, 40));
    let back = read_until(&mut service, "chain is fresh again");
    assert_eq!(back, ["INFO upstream recovered", "INFO chain is fresh again"]);
}
