//! `serve --rpc-url`, `--chain`, `--listen`, `check-config --online`, `price`, `completions` and `man`.
//!
//! Tests with nodes have further threads for them, because a command blocks the thread of its test.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, dead_url};
use crate::process::{FREE_PORTS, File, Process, command, output};

/// Replies of a node of chain `id`.
async fn node(id: u64) -> MockNode {
    MockNode::start(id, Reply::history(1000, 3, 40)).await
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    output(arguments, &[])
}

/// Starts `serve` with these nodes on the command line.
fn start(urls: &[&str]) -> Process {
    let free = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let urls = urls.iter().flat_map(|url| ["--rpc-url", url]);
    let arguments: Vec<_> = ["serve"].into_iter().chain(urls).chain(free).collect();
    let variables = [("GAS_SERVER__LISTEN", "127.0.0.1:1"), ("GAS_LOG__FORMAT", "json")];
    Process::spawn(command(&arguments, &variables))
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_on_the_command_line_are_grouped_by_their_chain_ids() {
    let (base, other, second) = (node(8453).await, node(4711).await, node(8453).await);
    let service = start(&[&base.url(), &other.url(), &second.url()]);
    let chains = service.get("/v1/chains").await.json();
    let keys: Vec<_> = chains.as_array().unwrap().iter().map(|chain| &chain["chain"]).collect();
    assert_eq!(keys, ["chain-4711", "base"]);
    for (path, name) in [("/v1/base", "Base"), ("/v1/4711", "chain-4711")] {
        let suggestion = service.wait_for_ok(&format!("{path}/gas-suggestion")).await.json();
        // There is no floor: the tip is the market's.
        assert_eq!(suggestion["medium"]["max_priority_fee_per_gas"], "40000000000");
        assert_eq!(suggestion["chain_name"], name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_on_the_command_line_is_named_and_left_out() {
    let node = node(4711).await;
    // It accepts connections, and never answers.
    let silent = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let silent = format!("http://{}/c4n4ry", silent.local_addr().unwrap());
    let (dead, url) = (dead_url(), node.url());
    let urls = ["serve", "--rpc-url", &silent, "--rpc-url", &url, "--rpc-url", &dead];
    let mut command = command(&urls, &FREE_PORTS);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut all = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        all.push(line.unwrap());
        if all.last().unwrap().contains("\"listening\"") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // On a busy machine the other node is waited for too.
    let expected = "waiting for the chain id (eth_chainId) of the node of --rpc-url number 1, ";
    assert!(all[0].starts_with(expected), "{all:?}");
    for (number, cause) in [(1, "no response within 3 s; the service"), (3, "cannot connect: ")] {
        let left_out =
            format!("cannot read the chain id from the node of --rpc-url number {number}: {cause}");
        assert!(all.iter().any(|line| line.contains(&left_out)), "{all:?}");
    }
    assert!(all.last().unwrap().contains("\"listening\"") && !all.join("").contains("c4n4ry"));
}

#[tokio::test(flavor = "multi_thread")]
async fn check_config_asks_every_node() {
    let (good, reads) = (node(4711).await, node(4711).await);
    let text = format!(
        "[chains.a]\nchain_id = 4711\nrpc_urls = [\"{}\", \"{}\"]\nread_urls = [\"{}\"]\n\
         [chains.b]\nchain_id = 5\nrpc_urls = [\"{}\"]\n",
        good.url(),
        dead_url(),
        reads.url(),
        good.url()
    );
    let file = File::new("online", &text);
    let (code, stdout, stderr) = run(&["check-config", "--online", "--config", file.path()]);
    let found = "chain id 4711, 20 blocks up to 1000, base fee 3 gwei, medium tip 40 gwei by the network's rule";
    let lines: Vec<_> = stdout.lines().filter(|line| line.starts_with("chains.")).collect();
    let [b, first, second, third] = lines[..] else { panic!("{stdout}") };
    assert_eq!(b, "chains.b.rpc_urls[0]: FAILED: the node serves chain 4711, not 5");
    assert_eq!(first, format!("chains.a.rpc_urls[0]: {found}"));
    assert!(second.starts_with("chains.a.rpc_urls[1]: FAILED: cannot connect"), "{second}");
    assert_eq!(third, format!("chains.a.read_urls[0]: {found}"));
    assert_eq!((code, stderr.as_str()), (Some(1), "error: 2 of 4 upstreams cannot be used\n"));
    let one = File::new("one", &good.chain("a", ""));
    let (code, _, stderr) = run(&["check-config", "--online", "--config", one.path()]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn check_config_asks_every_other_service() {
    let node = node(4711).await;
    let (good, strict) = (server(200, "").await, server(403, "").await);
    let with = |url: &str| {
        let redis = dead_url().replace("http", "redis").replace("/rpc", "");
        let chain = node.chain("a", "");
        format!(
            "[redis]\nurl = \"{redis}\"\n[delegation]\nsource = \"api\"\napi_url = \"{url}\"\n\
             [verification]\nurl = \"{url}/c4n4ry\"\n[tracing]\notlp_endpoint = \"{url}\"\n{chain}"
        )
    };
    let check = |text: &str| {
        let file = File::new("services", text);
        let (code, stdout, stderr) = run(&["check-config", "--online", "--config", file.path()]);
        assert!(!stdout.contains("c4n4ry"), "{stdout}");
        let mut lines: Vec<_> = stdout.lines().map(str::to_owned).skip(3).collect();
        lines.sort();
        (code, lines, stderr)
    };
    let (code, lines, stderr) = check(&with(&good));
    assert_eq!((code, stderr.as_str()), (Some(1), "error: 1 of 5 upstreams cannot be used\n"));
    let [_, api, redis, spans, verifier] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(api, "delegation.api_url: answers, HTTP status 200");
    assert!(redis.starts_with("redis.url: FAILED: ") && redis.contains("refused"), "{redis}");
    assert_eq!(spans, "tracing.otlp_endpoint: takes spans");
    assert_eq!(verifier, "verification.url: answers, HTTP status 200");
    let (_, lines, stderr) = check(&with(&strict));
    assert_eq!(stderr, "error: 4 of 5 upstreams cannot be used\n");
    let refused = "delegation.api_url: FAILED: HTTP status 403: it refuses the key, or needs one";
    assert_eq!(lines[1], refused);
    assert!(lines[3].starts_with("tracing.otlp_endpoint: FAILED: "), "{lines:?}");
    // These speak HTTP alone.
    let (_, lines, _) = check(&with(&good.replace("http:", "https:")));
    for line in [&lines[1], &lines[3], &lines[4]] {
        assert!(line.ends_with(": FAILED: the server does not speak TLS; try http://"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_url_or_key_is_wrong_is_not_waited_for() {
    let (node, error) =
        (node(4711).await, r#"{"id":1,"error":{"code":-32000,"message":"no key"}}"#);
    for (url, reason) in [
        (
            node.url().replace("http:", "https:"),
            "cannot connect: the server does not speak TLS; try http://",
        ),
        (
            server(401, error).await,
            "HTTP status 401: the node refuses the key, or needs one: no key",
        ),
        (server(403, "no").await, "HTTP status 403: the node refuses the key, or needs one: no"),
    ] {
        let name = "cannot read the chain id from the node of --rpc-url: ";
        let (code, stdout, stderr) = run(&["serve", "--rpc-url", &url]);
        // A node that is waited for is named first.
        let expected = format!("error: {name}{reason}");
        assert!(stderr.starts_with(&expected), "{stderr}");
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_for_the_wait_for_a_node_is_told_at_once() {
    let mut command = command(&["serve", "--rpc-url", &dead_url()], &FREE_PORTS);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let expected =
        "waiting for the chain id (eth_chainId) of the node of --rpc-url (cannot connect: ";
    assert!(line.starts_with(expected) && line.contains("refused"), "{line}");
    assert!(line.ends_with("), at most 15 s"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_an_address_or_a_port_and_healthcheck_takes_the_same() {
    let node = node(4711).await;
    for listen in ["localhost:0", ":0", "0"] {
        let arguments =
            ["serve", "--rpc-url", &node.url(), "--listen", listen, "--admin-listen", listen];
        let service = Process::spawn(command(&arguments, &[("GAS_LOG__FORMAT", "json")]));
        service.wait_for_ok("/v1/4711/gas-suggestion").await;
        assert!(service.admin.ip().is_loopback(), "{listen}");
        assert_eq!(service.address.ip().is_loopback(), listen.starts_with("localhost"), "{listen}");
        let (public, admin) = (service.address.port().to_string(), service.admin.to_string());
        for listeners in [["--listen", &public], ["--admin-listen", &admin]] {
            let arguments = [&["healthcheck"][..], &listeners].concat();
            assert_eq!(run(&arguments), (Some(0), String::new(), String::new()), "{arguments:?}");
        }
    }
}

/// Starts a server that gives every request this response. Returns its URL.
async fn server(status: u16, body: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let response = (axum::http::StatusCode::from_u16(status).unwrap(), body);
    let app = axum::Router::new().fallback(async move || response);
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

/// Returns the text without lines about a node that is waited for, because it is busy.
fn without_waits(stderr: &str) -> String {
    stderr.lines().filter(|line| !line.starts_with("waiting for the chain id ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prices_come_from_a_service_or_a_node() {
    let node = node(4711).await;
    let (url, other) = (node.url(), dead_url());
    let service = start(&[&url]);
    service.wait_for_ok("/v1/4711/fee-market").await;
    let address = format!("http://{}", service.address);
    for source in [["price", "--url", &address], ["price", "--rpc-url", &url]] {
        let price = |more: &[&str]| run(&[&source[..], more].concat());
        // 3 gwei of base fee, and 40 of tip. `high` is a fifth above the median tip.
        let table = "CHAIN       LOW  MEDIUM  HIGH        BLOCK\nchain-4711  43   43      51    gwei  1000\n";
        for chain in [&[][..], &["4711"], &["chain-4711"]] {
            let (code, stdout, stderr) = price(chain);
            assert_eq!((code, stdout.as_str()), (Some(0), table), "{source:?}");
            assert_eq!(without_waits(&stderr), "", "{source:?}");
        }
        let json = |more: &[&str]| serde_json::from_str::<Value>(&price(more).1).unwrap();
        let (all, one) = (json(&["--json"]), json(&["--json", "4711"]));
        assert_eq!(all.as_array().unwrap().len(), 1);
        for market in [&one, &all[0]] {
            assert_eq!(market["expected_price_per_gas"]["medium"], "43000000000", "{source:?}");
            assert_eq!(market["newest_block"], 1000);
        }
        assert_eq!(price(&["--json"]).0, Some(0));
        let (code, stdout, stderr) = price(&["nowhere"]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(without_waits(&stderr).starts_with("error: the "), "{stderr}");
    }
    // Without `--url` the variable names the nodes. One of them is in a file.
    let base = self::node(8453).await;
    let file = File::new("url", &format!("{}\n", base.url()));
    let urls = format!("{url}, @{}", file.path());
    let (code, table, stderr) = output(&["price"], &[("GAS_RPC_URL", &urls)]);
    let names: Vec<_> = table.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((code, names), (Some(0), vec!["CHAIN", "chain-4711", "Base"]), "{stderr}");
    let long_ago = json!({"number": "0x3e8", "timestamp": "0x60000000"});
    node.set_header_reply(Reply::Result(long_ago));
    let (_, table, _) = run(&["price", "--rpc-url", &url]);
    assert!(table.contains("  gwei, stale  1000"), "{table}");
    let (code, stdout, stderr) = run(&["price", "--url", &other]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    let expected = "error: no response from the service; --url names another one, --rpc-url a node";
    assert!(stderr.starts_with(expected), "{stderr}");
}

#[test]
fn shells_accept_the_completions_and_a_manual_is_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, stderr) = run(&["completions", shell]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(script.contains("check-config") && script.contains("rpc-url"), "{shell}");
        if shell == "bash" {
            let file = File::new("completions", &script);
            let checked =
                std::process::Command::new("bash").args(["-n", file.path()]).output().unwrap();
            assert!(checked.status.success(), "{checked:?}");
        }
    }
    let (code, manual, stderr) = run(&["man"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(manual.starts_with(".TH GAS-SUGGESTION 1"), "{manual}");
}
