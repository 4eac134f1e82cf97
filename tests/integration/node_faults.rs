//! Faults of a node's connections, HTTP and encodings, each in a chain of its own and in one with a second URL. The simulator
//! has the faults of what nodes say, and recovery.

use std::fmt::Write;

use crate::fixtures::gzip;
use crate::http_client;
use crate::logged_process::{LoggedProcess, assert_no_secrets};
use crate::mock_node::{MockNode, Reply, dead_url};
use crate::mock_upstream::{MockUpstream, Step, respond_with, response};
use crate::test_server::{Response, wait_for};

/// Part of every secret in the URLs, and the base64 of their credentials, in lower case.
const SECRETS: [&str; 2] = ["canary", "y2fuyxj5lxvzzxi6y2fuyxj5lxbhc3n3b3jk"];

/// The decompressed size of the bomb.
const BOMB: usize = 128 << 20;

/// Returns what a node does on each connection, and the outcome of attempts at it.
fn faults() -> Vec<(&'static str, Vec<Step>)> {
    let read_and = |steps: &[Step]| [&[Step::ReadRequest], steps].concat();
    // A connection that stayed open would answer no further call.
    let respond = |status, headers, body: &[u8]| {
        [respond_with(response(status, headers, body)), vec![Step::Close]].concat()
    };
    let page = format!("<html>no /canary-path\x1b[31m\r\n{}</html>", "~".repeat(1000));
    let bomb = gzip(&vec![b' '; BOMB]);
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [b"40000\r\n", " ".repeat(0x4_0000).as_bytes(), b"\r\n"].concat();
    let part = |length: usize, end: &[Step]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        read_and(&[&[Step::Write((head + "{\"jsonrpc\":").into())], end].concat())
    };
    vec![
        ("not_json", respond("200 OK", "", b"\x1b[31mmaintenance of canary-path")),
        ("http_status", respond("502 Bad Gateway", "", page.as_bytes())),
        ("not_json", part(5, &[])),
        ("transport", part(100, &[Step::Close])),
        ("transport", read_and(&[Step::Reset])),
        ("too_large", read_and(&[Step::Write(chunked.into()), Step::WriteForever(chunk)])),
        ("too_large", respond("200 OK", "Content-Encoding: gzip\r\n", &bomb)),
        ("not_json", respond("200 OK", "", &bomb)),
        ("timeout", read_and(&[Step::Drip(1000, response("200 OK", "", "{}"))])),
        ("timeout", read_and(&[])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_has_its_reason_no_price_and_no_effect_on_the_next_url_or_chain() {
    let good = MockNode::for_every_chain(Reply::history(1000, 3, 40)).await;
    let secret = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap();
        let host = rest.split('/').next().unwrap();
        format!("{scheme}://canary-user:canary-password@{host}/canary-path?key=canary")
    };
    let (mut urls, mut upstreams) = (Vec::new(), Vec::new());
    for (outcome, script) in faults() {
        let upstream = MockUpstream::start(script).await;
        urls.push((outcome, secret(&upstream.url())));
        upstreams.push(upstream);
    }
    let closing = MockUpstream::start(vec![Step::Close]).await;
    let without_tls = closing.url().replace("http:", "https:");
    urls.extend(
        ["http://node.invalid", &without_tls, &dead_url()].map(|url| ("unreachable", secret(url))),
    );
    let mut config = "[limits]\nrequests_per_second_per_client = 0\n[history]\nrefill = false\n\
                      [log]\nfilter = \"trace\"\n"
        .to_owned();
    let mut add_chain = |key: &str, id: usize, faulty: &[&String]| {
        let healthy = format!("{}/{id}", good.url());
        let more = if key.starts_with("only") { &[][..] } else { &[&healthy] };
        write!(
            config,
            "[chains.{key}]\nchain_id = {id}\nrpc_urls = {:?}\nblock_time = \"3s\"\n\
             stall_after = \"0s\"\npricing.ask_interval = 0\n",
            [faulty, more].concat(),
        )
        .unwrap();
    };
    add_chain("healthy", 900, &[]);
    for (number, (_, url)) in urls.iter().enumerate() {
        add_chain(&format!("only{number}"), 100 + number, &[url]);
        add_chain(&format!("first{number}"), 200 + number, &[url]);
    }
    let process = LoggedProcess::start("node-faults", &config);
    let [public, admin] = process.addresses.map(|address| format!("http://{address}"));
    let client = http_client::new();
    let wait = async |url: &str, as_expected: &dyn Fn(&Response) -> bool| {
        let response = wait_for(&client, url, as_expected).await;
        assert_no_secrets(&SECRETS, url, &format!("{:?} {}", response.headers, response.body));
        response
    };
    for (number, (outcome, _)) in urls.iter().enumerate() {
        let suggestion = |key: &str| format!("{public}/v1/{key}{number}/gas-suggestion");
        let is_from_next = |response: &Response| response.header("x-newest-block") == "1000";
        wait(&suggestion("first"), &is_from_next).await;
        for key in ["only", "first"] {
            let labels = format!("chain=\"{key}{number}\",upstream=\"0\",outcome=\"{outcome}\"");
            let counter = format!("gas_suggestion_upstream_attempts_total{{{labels}}}");
            wait(&format!("{admin}/metrics"), &|page| page.body.contains(&counter)).await;
        }
        wait(&suggestion("only"), &|_| true).await.assert_problem(503, "no_data");
    }
    let healthy = wait(&format!("{public}/v1/healthy/gas-suggestion"), &|_| true).await;
    assert_eq!((healthy.status, healthy.header("x-stale")), (200, ""));
    let memory = process.peak_memory();
    assert!(memory < BOMB as u64, "{memory} bytes");
    let output = process.stop();
    assert!(output.contains("TRACE") && !output.to_lowercase().contains("panicked"), "{output}");
    assert_no_secrets(&SECRETS, "the log", &output);
    assert!(
        !output.contains('\x1b') && !output.contains(&"~".repeat(129)),
        "a raw page in the log"
    );
}
