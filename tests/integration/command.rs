//! The commands of the `gas-suggestion` program.

use std::io::BufRead;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixtures;
use crate::http_client;
use crate::http_message::post;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply};
use crate::process::{FREE_PORTS, File, Process, command, in_shell, output, with_default_hangup};
use crate::raw_client::RawClient;
use crate::test_server::{Response, wait_until};

/// Reads the log up to the occurrence of `text` with this number.
fn read_log(service: &mut Process, text: &str, count: usize) -> String {
    let mut log = String::new();
    while log.matches(text).count() < count {
        assert_ne!(service.log.read_line(&mut log).unwrap(), 0, "{log}");
    }
    log
}

#[tokio::test]
async fn demo_serves_the_exact_first_window_of_the_recording() {
    // With this block time the node has no second block while the test runs.
    let service = Process::start(&["demo", "--block-time", "1h"], &[]);
    // The asks up to the last multiple of ten decide, those before the recording's start are those at its end. An independent
    // program computed the tips.
    for (chain, base, tips) in [
        ("ethereum", 6_505_499_760, [4_476_270, 89_000_001]),
        ("base", 17_230_904, [900_000, 1_000_000]),
    ] {
        let has_asks = |response: &Response| response.json()["strategy"] == "calibrated";
        service.wait_for(&format!("/v1/{chain}/fee-market"), has_asks).await;
        let served = service.wait_for_ok(&format!("/v1/{chain}/gas-suggestion")).await;
        assert_eq!(served.body, fixtures::suggestion(chain, "eip-1559", base, tips));
    }
    let chains = service.get("/v1/chains").await.json();
    let keys: Vec<_> = chains.as_array().unwrap().iter().map(|chain| &chain["chain"]).collect();
    assert_eq!(keys, ["ethereum", "base"]);
}

#[tokio::test]
async fn demo_keeps_the_sections_of_the_configuration_and_shares_nothing() {
    let variables = [
        ("GAS_COMPAT__FORMATS", "etherscan"),
        ("GAS_RPC__MAX_BATCH", "2"),
        ("GAS_REDIS__URL", "redis://127.0.0.1:1"),
        ("GAS_VERIFICATION__URL", "http://127.0.0.1:1"),
        ("GAS_DELEGATION__SOURCE", "chain"),
    ];
    let service = Process::start(&["demo", "--block-time", "1h"], &variables);
    service.wait_for_ok("/v1/1/gas-suggestion").await;
    let address = "0x0000000000000000000000000000000000000000";
    for (path, detail) in [
        ("/compat/safe/1", "add \"safe\" to compat.formats"),
        ("/verify", "contract verification is not part of the demo"),
        (&format!("/registry/v2/{address}"), "the delegation registry is not part of the demo"),
    ] {
        let response = service.get(path).await;
        let problem = response.json();
        let is_so = response.status == 404 && problem["detail"].as_str().unwrap().contains(detail);
        assert!(is_so, "{problem}");
    }
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
    let url = format!("http://{}/rpc/1", service.address);
    let batch = http_client::new().post(url).json(&json!([call, call, call])).send().await.unwrap();
    let batch = batch.text().await.unwrap();
    assert!(batch.contains("error") && !batch.contains("result"), "{batch}");
    let routes = service.get("/v1").await.body;
    assert!(routes.contains("\"/api\"") && !routes.contains("/compat/safe"), "{routes}");
}

#[tokio::test]
async fn demo_has_a_day_of_history_and_writes_none() {
    let file = File::new("history", "of another service");
    let variables = [("GAS_HISTORY__REFILL", "true"), ("GAS_HISTORY__PATH", file.path())];
    let service = Process::start(&["demo", "--block-time", "5m"], &variables);
    for chain in ["ethereum", "base"] {
        let path = format!("/v1/{chain}/fee-trend");
        let has_day = |body: &str| body.matches("\"start\"").count() >= 140;
        service.wait_for(&path, |response| has_day(&response.body)).await;
        let market = service.get(&format!("/v1/{chain}/fee-market")).await.json();
        assert!(market["level"].is_string(), "{market}");
    }
    assert_eq!(service.stop_with("-TERM").0, Some(0));
    assert_eq!(file.text(), "of another service");
}

#[test]
fn signals_drain_and_a_hangup_exits_with_129() {
    for (signal, expected) in [("-TERM", 0), ("-INT", 0), ("-HUP", 129)] {
        let service = with_default_hangup(&command(&["demo"], &FREE_PORTS));
        let (code, log) = Process::spawn(service).stop_with(signal);
        assert_eq!(code, Some(expected), "{signal}: {log}");
        assert!(log.contains("\"message\":\"shutting down\""), "{log}");
    }
}

#[tokio::test]
async fn an_ignored_hangup_stays_ignored() {
    // As `nohup` does.
    let service = Process::spawn(in_shell("trap '' HUP", &command(&["demo"], &FREE_PORTS)));
    service.signal("-HUP");
    assert_eq!(service.get("/livez").await.status, 200);
    let (code, log) = service.stop_with("-TERM");
    assert_eq!(code, Some(0), "{log}");
}

/// Starts the demo with this grace period and a connection with an unfinished request.
async fn start_with_open_request(grace: &str) -> (Process, RawClient) {
    let service = Process::start(&["demo"], &[("GAS_SERVER__SHUTDOWN_GRACE", grace)]);
    let mut client = RawClient::connect(service.address).await;
    client.send("GET /livez HTTP/1.1\r\n").await;
    // After this response the service has accepted the first connection too.
    service.get("/livez").await;
    (service, client)
}

#[tokio::test]
async fn open_connection_delays_shutdown_by_the_grace_period_at_most() {
    let (service, _client) = start_with_open_request("300ms").await;
    let stopped_at = Instant::now();
    assert_eq!(service.stop_with("-TERM").0, Some(0));
    assert!(stopped_at.elapsed() < Duration::from_secs(5), "{:?}", stopped_at.elapsed());
}

#[tokio::test]
async fn second_signal_stops_immediately() {
    let (mut service, _client) = start_with_open_request("1h").await;
    service.signal("-TERM");
    read_log(&mut service, "shutting down", 1);
    assert_eq!(service.stop_with("-TERM").0, Some(0));
}

/// Returns an address whose port is taken.
fn taken_address() -> (TcpListener, SocketAddr) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    (taken, address)
}

#[test]
fn invalid_configuration_exits_with_2_before_binding() {
    // Binding first would fail on the taken port and exit with 1.
    let (_taken, address) = taken_address();
    let file = File::new("wrong", &format!("[server]\nlisten = \"{address}\"\nport = 1\n"));
    let (code, stdout, stderr) = output(&["--config", file.path()], &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with("error: server.port: unknown key; allowed: listen, "), "{stderr}");
    assert!(stderr.ends_with(&format!(" (in {}, line 3)\n", file.path())), "{stderr}");
    let (code, _, stderr) = output(&["check-config", "--config", "/none.toml"], &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("error: cannot read the file /none.toml: No such file"), "{stderr}");
}

const BUILT_IN: [&str; 2] = [
    "ronin (id 2020, preset ronin, 1 RPC URL)",
    "ronin-testnet (id 202601, preset ronin-testnet, 1 RPC URL)",
];

#[test]
fn check_config_lists_the_chains_of_the_file_or_the_built_in_ones() {
    let chains = |text: &str, variables: &[(&str, &str)]| {
        let file = File::new("chains", text);
        let (code, stdout, stderr) = output(&["check-config", "--config", file.path()], variables);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let mut lines = stdout.lines().filter(|line| !line.starts_with("Note: "));
        assert_eq!(lines.next(), Some("The configuration is valid. Chains:"));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let own = "[chains.own]\nchain_id = 4711\nrpc_urls = [\"http://localhost:8545\"]\n";
    assert_eq!(chains(own, &[]), ["own (id 4711, no preset, 1 RPC URL)"]);
    for text in ["", "[log]\nfilter = \"debug\"\n"] {
        assert_eq!(chains(text, &[]), BUILT_IN);
    }
    let read_urls = own.to_owned() + "read_urls = [\"http://a\", \"http://b\"]\n";
    assert_eq!(chains(&read_urls, &[]), ["own (id 4711, no preset, 1 RPC URL, 2 more for reads)"]);
    // Variables override both; an underscore stands for a dash in a chain's name.
    let urls = "[\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]";
    let with_urls = chains("", &[("GAS_CHAINS__RONIN_TESTNET__RPC_URLS", urls)]);
    assert_eq!(with_urls[1], "ronin-testnet (id 202601, preset ronin-testnet, 2 RPC URLs)");
    let with_id = chains(own, &[("GAS_CHAINS__OWN__CHAIN_ID", "6")]);
    assert_eq!(with_id, ["own (id 6, no preset, 1 RPC URL)"]);
}

#[test]
fn taken_port_exits_with_1_and_names_the_address() {
    let (_taken, address) = taken_address();
    let address = address.to_string();
    for (name, key) in [
        ("GAS_SERVER__LISTEN", "server.listen or --listen"),
        ("GAS_SERVER__ADMIN_LISTEN", "server.admin_listen or --admin-listen"),
    ] {
        let variables = [&FREE_PORTS[..], &[(name, &address)]].concat();
        let (code, _, stderr) = output(&["demo"], &variables);
        assert_eq!(code, Some(1), "{stderr}");
        let expected = format!("error: cannot listen on {address} ({key}): Address already in use");
        assert!(stderr.contains(&expected), "{stderr}");
    }
}

#[tokio::test]
async fn no_key_of_a_url_is_logged_not_even_from_the_error_page_of_another_node() {
    let page = Reply::Raw(502, "proxy to /v2/CanaryPathKey77 failed".into());
    let node = MockNode::for_reads(page).await;
    let text = format!(
        "[log]\nfilter = \"trace\"\n[chains.ronin]\nchain_id = 2020\njson_rpc = true\nblock_time = \"500ms\"\n\
         rpc_urls = [{:?}, \"http://user:CanaryPass10@127.0.0.1:9/v2/CanaryPathKey77/?k=CanaryQuery1\"]\n\
         [chains.dead]\nchain_id = 8\nrpc_urls = [\"http://Canary.invalid/Canary\"]\n",
        node.url()
    );
    let service = LoggedProcess::start("keys", &text);
    let mut client = RawClient::connect(service.addresses[0]).await;
    client.wait_for_ok("/v1/ronin/gas-suggestion").await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}"#;
    let response = client.request(post("/rpc/ronin", "", call.as_bytes())).await;
    assert!(response.text().contains("-32002"), "{response:?}");
    let has_failed = async || service.log().contains("\"chain\":\"dead\"");
    wait_until("the dead node is logged", has_failed).await;
    let log = service.stop().to_lowercase();
    assert!(log.contains("upstream read failed") && !log.contains("canary"), "{log}");
}
