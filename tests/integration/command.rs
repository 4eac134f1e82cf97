//! The commands of the `gas-suggestion` program.

use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixtures;
use crate::http_client;
use crate::process::{FREE_PORTS, File, Process, command, in_shell, output, with_default_hangup};
use crate::test_server::Response;

#[tokio::test]
async fn demo_serves_recorded_fees_and_follows_blocks() {
    let service = Process::start(&["demo", "--block-time", "200ms"], &[]);
    let first = service.wait_for_ok("/v1/ethereum/gas-suggestion").await;
    let newest = |response: &Response| response.header("x-newest-block").parse::<u64>().unwrap();
    assert!(newest(&first) >= 23_597_753);
    let moved = service
        .wait_for("/v1/1/gas-suggestion", |response| newest(response) > newest(&first))
        .await;
    assert_ne!(moved.body, first.body);
    let chains = service.get("/v1/chains").await.json();
    let keys: Vec<_> = chains.as_array().unwrap().iter().map(|chain| &chain["chain"]).collect();
    assert_eq!(keys, ["ethereum", "base"]);
}

#[tokio::test]
async fn demo_serves_the_exact_first_window_of_the_recording() {
    // With this block time the node has no second block while the test runs.
    let service = Process::start(&["demo", "--block-time", "1h"], &[]);
    service.wait_for_ok("/v1/8453/gas-suggestion").await;
    let ethereum = service.wait_for_ok("/v1/ethereum/gas-suggestion").await;
    // Ethereum has the calibrated strategy. Base has the first row without floors in tests/fixtures/expected.
    assert_eq!(
        ethereum.body,
        "{\"chain_name\":\"ethereum\",\"type\":\"eip-1559\",\"base_fee_per_gas\":\"6505499760\",\
         \"medium\":{\"max_priority_fee_per_gas\":\"2100000\",\"max_fee_per_gas\":\"6507599760\"},\
         \"high\":{\"max_priority_fee_per_gas\":\"55000000\",\"max_fee_per_gas\":\"6560499760\"}}"
    );
    assert_eq!(
        service.get("/v1/base/gas-suggestion").await.body,
        "{\"chain_name\":\"base\",\"type\":\"eip-1559\",\"base_fee_per_gas\":\"17004640\",\
         \"medium\":{\"max_priority_fee_per_gas\":\"2046763\",\"max_fee_per_gas\":\"19051403\"},\
         \"high\":{\"max_priority_fee_per_gas\":\"2456115\",\"max_fee_per_gas\":\"19460755\"}}"
    );
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
        let body = response.json();
        let shown = body["detail"].as_str().unwrap();
        assert!(response.status == 404 && shown.contains(detail), "{shown}");
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

#[tokio::test]
async fn open_connection_delays_shutdown_by_the_grace_period_at_most() {
    let service = Process::start(&["demo"], &[("GAS_SERVER__SHUTDOWN_GRACE", "300ms")]);
    let mut client = std::net::TcpStream::connect(service.address).unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    // After this response the service has accepted the first connection too.
    service.get("/livez").await;
    let stopped_at = Instant::now();
    let (code, _) = service.stop_with("-TERM");
    assert_eq!(code, Some(0));
    assert!(stopped_at.elapsed() < Duration::from_secs(5), "{:?}", stopped_at.elapsed());
}

#[tokio::test]
async fn second_signal_stops_immediately() {
    let mut service = Process::start(&["demo"], &[("GAS_SERVER__SHUTDOWN_GRACE", "1h")]);
    let mut client = std::net::TcpStream::connect(service.address).unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    service.get("/livez").await;
    service.signal("-TERM");
    let mut log = String::new();
    while !log.contains("shutting down") {
        assert_ne!(service.log.read_line(&mut log).unwrap(), 0, "{log}");
    }
    assert_eq!(service.stop_with("-TERM").0, Some(0));
}

#[test]
fn invalid_configuration_exits_with_2_before_binding() {
    // Binding first would fail on the taken port and exit with 1.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = File::new("wrong", &format!("[server]\nlisten = \"{address}\"\nport = 1\n"));
    let (code, stdout, stderr) = output(&["--config", file.path()], &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with("error: server.port: unknown key; allowed: listen, "), "{stderr}");
    assert!(stderr.ends_with(&format!(" (in {}, line 3)\n", file.path())), "{stderr}");
}

#[test]
fn configuration_error_names_the_environment_variable() {
    let mut errors = String::new();
    for (name, value) in [
        ("GAS_CHAINS__RONIN__MAX_AGE", "1s"),
        ("GAS_CHAINS__RONIN_TESTNET__BLOCK_TIME", "soon"),
        ("GAS_SERVER__LISTEN", "8080"),
        ("GAS_CHAINS__NEW__CHAIN_ID", "9"),
    ] {
        let (code, _, stderr) = output(&["check-config"], &[(name, value)]);
        assert_eq!(code, Some(2), "{stderr}");
        errors += &stderr;
    }
    fixtures::assert_snapshot("errors-of-variables", &errors);
}

#[test]
fn missing_key_error_names_the_file() {
    let file = File::new("missing", "[chains.own]\nchain_id = 5\n");
    let (code, _, stderr) = output(&["check-config", "--config", file.path()], &[]);
    let expected =
        format!("error: chains.own.rpc_urls: required, but not set (in {}, line 1)\n", file.path());
    assert_eq!((code, stderr), (Some(2), expected));
}

#[test]
fn check_config_lists_the_chains_and_exits() {
    let (code, stdout, stderr) = output(&["check-config"], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(
        stdout,
        "The configuration is valid. Chains:\n  ronin (id 2020, preset ronin, 1 RPC URL)\n  \
         ronin-testnet (id 202601, preset ronin-testnet, 1 RPC URL)\n"
    );
}

#[test]
fn chains_in_a_file_replace_the_built_in_chains() {
    let chains = |text: &str, variables: &[(&str, &str)]| {
        let file = File::new("chains", text);
        let (code, stdout, stderr) = output(&["check-config", "--config", file.path()], variables);
        assert_eq!(code, Some(0), "{stderr}");
        let lines = stdout.lines().skip(1).filter(|line| !line.starts_with("Note: "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let own = "[chains.own]\nchain_id = 5\nrpc_urls = [\"http://localhost:8545\"]\n";
    assert_eq!(chains(own, &[]), ["own (id 5, no preset, 1 RPC URL)"]);
    let built_in = [
        "ronin (id 2020, preset ronin, 1 RPC URL)",
        "ronin-testnet (id 202601, preset ronin-testnet, 1 RPC URL)",
    ];
    assert_eq!(chains("[log]\nfilter = \"debug\"\n", &[]), built_in);
    // Variables override both; an underscore stands for a dash in a chain's name.
    let urls = "[\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]";
    let variables =
        [("GAS_CHAINS__RONIN_TESTNET__RPC_URLS", urls), ("GAS_CHAINS__OWN__CHAIN_ID", "6")];
    let read_urls = own.to_owned() + "read_urls = [\"http://a\", \"http://b\"]\n";
    assert_eq!(chains(&read_urls, &[]), ["own (id 5, no preset, 1 RPC URL, 2 more for reads)"]);
    assert_eq!(
        chains("", &variables[..1])[1],
        "ronin-testnet (id 202601, preset ronin-testnet, 2 RPC URLs)"
    );
    assert_eq!(chains(own, &variables[1..]), ["own (id 6, no preset, 1 RPC URL)"]);
}

#[test]
fn missing_or_malformed_file_exits_with_2() {
    let (code, _, stderr) = output(&["check-config", "--config", "/none.toml"], &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("error: cannot read the file /none.toml: No such file"), "{stderr}");
    let file = File::new("broken", "[chains.a]\nrpc_urls = [\"https://node.example/canary]\n");
    let (code, _, stderr) = output(&["--config", file.path()], &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("is not valid TOML") && stderr.contains("at line 2"), "{stderr}");
    assert!(!stderr.contains("canary"), "{stderr}");
}

#[test]
fn invalid_arguments_exit_with_2() {
    for arguments in [
        &["nonsense"][..],
        &["--nonsense"],
        &["--config"],
        &["demo", "--block-time", "soon"],
        &["demo", "--block-time", "1ms"],
    ] {
        assert_eq!(output(arguments, &[]).0, Some(2), "{arguments:?}");
    }
}

#[test]
fn help_says_what_each_command_does() {
    let (_, help, _) = output(&["--help"], &[]);
    let purposes = [
        ("serve", "Run the service (the default)"),
        ("check-config", "Check the configuration and exit"),
        ("healthcheck", "Check whether a running service is ready: exit code 0 if it is, else 1"),
        ("openapi", "Print the OpenAPI document of this configuration"),
        ("demo", "Run the service on recorded blocks of Ethereum and Base; needs no network"),
        ("backtest", "Score fee estimators on recorded fee history"),
    ];
    for (command, purpose) in purposes {
        let line = format!("  {command:<14}{purpose}\n");
        assert!(help.contains(&line), "{line}{help}");
    }
}

#[test]
fn taken_port_exits_with_1_and_names_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (name, key) in [
        ("GAS_SERVER__LISTEN", "server.listen or --listen"),
        ("GAS_SERVER__ADMIN_LISTEN", "server.admin_listen or --admin-listen"),
    ] {
        let mut variables = FREE_PORTS.to_vec();
        variables.push((name, &address));
        let (code, _, stderr) = output(&["demo"], &variables);
        assert_eq!(code, Some(1), "{stderr}");
        let expected = format!("error: cannot listen on {address} ({key}): Address already in use");
        assert!(stderr.contains(&expected), "{stderr}");
    }
}

#[tokio::test]
async fn api_key_in_an_rpc_url_is_never_logged() {
    let variables = [
        ("GAS_CHAINS__RONIN__RPC_URLS", "[\"http://canary:canary@127.0.0.1:9/canary?key=canary\"]"),
        ("GAS_CHAINS__RONIN_TESTNET__RPC_URLS", "[\"http://canary.invalid/canary\"]"),
        ("GAS_LOG__FILTER", "debug"),
    ];
    let mut service = Process::start(&["serve"], &variables);
    let suggestion = service.get("/v1/ronin/gas-suggestion").await;
    suggestion.assert_problem(503, "no_data");
    let mut log = String::new();
    while log.matches("upstream failed").count() < 2 {
        assert_ne!(service.log.read_line(&mut log).unwrap(), 0, "{log}");
    }
    let (code, rest) = service.stop_with("-TERM");
    assert_eq!(code, Some(0));
    log.push_str(&rest);
    let leaks: Vec<_> = log.lines().filter(|line| line.contains("canary")).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn the_committed_openapi_document_is_current() {
    let (_, printed, _) = output(&["openapi", "--generic"], &[]);
    let committed = std::fs::read_to_string(fixtures::path("docs/openapi.json")).unwrap();
    assert!(
        printed == committed,
        "docs/openapi.json is out of date; update it: cargo run -- openapi --generic > docs/openapi.json"
    );
}
