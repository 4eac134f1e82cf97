//! What the service tells its operator of requests and upstreams.

use std::time::Instant;

use serde_json::{Value, json};

use crate::command::{self, FREE_PORTS, File};
use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::logged;
use crate::raw::{Connection, PATIENCE, free_port, get};

/// A process that ends with the test, however that ends.
struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// The lines of `log` about requests, without what differs from run to run.
fn requests(log: &str) -> Vec<Value> {
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_requests = entries.filter(|entry| entry["target"] == "gas_suggestion::requests");
    let comparable = of_requests.map(|mut entry| {
        let fields = entry.as_object_mut().unwrap();
        assert!(fields.remove("duration_ms").unwrap().as_f64().unwrap() >= 0.0);
        assert!(fields.remove("timestamp").is_some() && fields.remove("target").is_some());
        entry
    });
    comparable.collect()
}

#[tokio::test]
async fn each_request_is_a_line_but_those_of_orchestrators() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         [log]\nformat = \"json\"\n[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n",
        node.url()
    );
    let service = logged::Process::start("each-request", &config);
    let [public, admin] = service.addresses;
    let mut client = Connection::open(public).await;
    let since = Instant::now();
    while client.ask(get("/readyz", "")).await.status != 200 {
        assert!(since.elapsed() < PATIENCE, "the node is not read");
    }
    let with_id = |id: &str| format!("X-Request-Id: {id}\r\n");
    client.ask(get(SUGGESTION, &with_id("first"))).await;
    client.ask(get("/v1/nowhere/fee-market?key=secret", &with_id("second"))).await;
    client.ask(get("/livez", "")).await;
    let mut operator = Connection::open(admin).await;
    operator.ask(get("/metrics", "")).await;
    client.ask(get("/%22quoted%22", &with_id("third"))).await;
    let log = service.end();
    let line = |path: &str, status: u16, id: &str| {
        json!({
            "level": "INFO", "message": "answered", "method": "GET", "path": path, "status": status,
            "request_id": id,
        })
    };
    assert_eq!(
        requests(&log),
        [
            line(SUGGESTION, 200, "first"),
            line("/v1/nowhere/fee-market", 404, "second"),
            line("/%22quoted%22", 404, "third"),
        ]
    );
    assert!(!log.contains("secret"), "{log}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_nobody_up_and_loses_lines_that_are_counted() {
    const REQUESTS: usize = 24_000;
    const AT_A_TIME: usize = 100;
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let file = File::new(
        "unread",
        &format!(
            "[limits]\nrequests_per_second_per_client = 0\n\
             [chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n",
            node.url()
        ),
    );
    // Its standard error is a pipe, from which nothing is taken once it listens.
    let service = command::Process::start(&["--config", file.path()], &[]);
    let mut client = Connection::open(service.address).await;
    for _ in 0..REQUESTS / AT_A_TIME {
        client.send(get("/v1/chains", "").repeat(AT_A_TIME)).await;
        for _ in 0..AT_A_TIME {
            assert_eq!(client.next().await.unwrap().unwrap().status, 200);
        }
    }
    let mut operator = Connection::open(service.admin).await;
    let metrics = operator.ask(get("/metrics", "")).await.body;
    let dropped = metrics
        .lines()
        .find_map(|line| line.strip_prefix("gas_suggestion_log_lines_dropped_total "))
        .unwrap_or_else(|| panic!("{metrics}"));
    assert!(dropped.parse::<usize>().unwrap() > 0, "{dropped}");
    let (code, _) = service.end_by("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_log_for_people_has_the_same_on_one_line() {
    let mut bare = command::command(&["demo"], &FREE_PORTS);
    bare.env("GAS_LOG__FORMAT", "text");
    let mut child = Ending(bare.stderr(std::process::Stdio::piped()).spawn().unwrap());
    let mut log = std::io::BufReader::new(child.0.stderr.take().unwrap());
    let mut next = |part: &str| loop {
        let mut line = String::new();
        assert_ne!(std::io::BufRead::read_line(&mut log, &mut line).unwrap(), 0, "no {part}");
        if line.contains(part) {
            break line;
        }
    };
    let listening = next("listening address=");
    let address = listening.split("address=").nth(1).unwrap().split(' ').next().unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    let request = "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n";
    std::io::Write::write_all(&mut client, request.as_bytes()).unwrap();
    let line = next("answered");
    let (before, after) = line.split_once(" duration_ms=").unwrap();
    assert!(
        before.ends_with(
            " INFO gas_suggestion::requests: answered method=\"GET\" path=\"/v1/chains\" status=200"
        ),
        "{line}"
    );
    assert!(after.ends_with(" request_id=\"mine\"\n"), "{line}");
}

#[tokio::test]
async fn lines_that_cannot_be_written_are_counted() {
    let [public, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut bare = command::command(&["demo"], &[]);
    bare.env("GAS_SERVER__LISTEN", &public).env("GAS_SERVER__ADMIN_LISTEN", &admin);
    // A disk that is always full.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let _child = Ending(bare.stderr(full).spawn().unwrap());
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < PATIENCE, "nothing is counted");
        let Ok(stream) = tokio::net::TcpStream::connect(&admin).await else { continue };
        let metrics = Connection::of(stream).ask(get("/metrics", "")).await.body;
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix("gas_suggestion_log_lines_dropped_total "));
        // "listening" and what the upstreams do.
        if count.unwrap().parse::<u64>().unwrap() >= 3 {
            break;
        }
    }
}
