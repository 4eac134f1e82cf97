//! OpenTelemetry spans as the collector receives them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixtures;
use crate::http_message::{get, post};
use crate::logged_process::LoggedProcess;
use crate::mock_collector::{MockCollector, Span};
use crate::mock_node::{MockNode, Reply};
use crate::process::{FREE_PORTS, File, Process, command};
use crate::raw_client::RawClient;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn chain(node: &MockNode) -> String {
    node.chain("a", "json_rpc = true")
}

/// Header of a client's trace that is sampled, or not.
fn traceparent(is_sampled: bool) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-0{}\r\n", u8::from(is_sampled))
}

/// Starts a node, a collector, and the service, whose environment has the collector's URL in place of `COLLECTOR`. Waits
/// until the service is ready.
async fn start(
    name: &str,
    variables: &[(&str, &str)],
) -> (MockNode, MockCollector, Process, RawClient) {
    let node = MockNode::for_reads(Reply::Result(json!("0x7"))).await;
    let collector = MockCollector::start().await;
    let file = File::new(name, &chain(&node));
    let mut command = command(&["--config", file.path()], &FREE_PORTS);
    let url = collector.url();
    command.envs(variables.iter().map(|(key, value)| (key, value.replace("COLLECTOR", &url))));
    let service = Process::spawn(command);
    let mut client = RawClient::connect(service.address).await;
    client.wait_for_ok("/readyz").await;
    (node, collector, service, client)
}

/// Returns name, kind, error and attributes of a span.
fn shown(span: &Span) -> String {
    let Span { name, kind, error, attributes, .. } = span;
    format!("{name}, kind {kind}, error {error:?}\n{attributes:#?}")
}

fn named(name: &str) -> impl Fn(&Span) -> bool {
    move |span| span.name == name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_polls_and_calls_follow_span_naming_conventions() {
    let (_node, collector, service, mut client) =
        start("spans", &[("GAS_TRACING__OTLP_ENDPOINT", "COLLECTOR")]).await;
    let response = client.request(get("/v1/a/gas-suggestion", &traceparent(true))).await;
    assert_eq!(response.status(), 200);
    let suggestion = collector.wait_for(named("GET /v1/{chain}/gas-suggestion")).await;
    // The span continues the client's trace.
    assert_eq!((suggestion.trace.as_str(), suggestion.parent.as_str()), (TRACE, PARENT));

    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance",
        "params": ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "pending"]});
    assert_eq!(client.request(post("/rpc/a", "", call.to_string().as_bytes())).await.status(), 200);
    let request = collector.wait_for(named("POST /rpc/{chain}")).await;
    let read = collector.wait_for(named("eth_getBalance")).await;
    assert_eq!((&read.trace, &read.parent), (&request.trace, &request.id));
    assert_eq!(request.parent, "");

    let call_span = collector.wait_for(named("eth_feeHistory")).await;
    let poll = collector.wait_for(|span| span.id == call_span.parent).await;
    assert_eq!((poll.parent.as_str(), &call_span.trace), ("", &poll.trace));
    let spans = [suggestion, request, read, poll, call_span].map(|span| shown(&span));
    fixtures::assert_snapshot("spans", &spans.join("\n"));

    let resource = collector.received().resource;
    assert_eq!(resource["service.name"], "gas-suggestion");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(service.stop_with("-TERM").0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_mark_spans_and_trace_ids_reach_problems_and_logs() {
    let node = MockNode::for_reads(Reply::RawError("{\"code\":-32000}".into())).await;
    let collector = MockCollector::start().await;
    let config = format!(
        "[tracing]\notlp_endpoint = \"{}\"\n[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\n\
         source = \"api\"\napi_url = \"http://127.0.0.1:9\"\n{}",
        collector.url(),
        chain(&node)
    );
    let service = LoggedProcess::start("failing-spans", &config);
    let mut client = RawClient::connect(service.addresses[0]).await;
    client.wait_for_ok("/readyz").await;
    let wrong = client.request(get("/v1/nowhere/fee-market", &traceparent(true))).await.problem();
    assert_eq!((&wrong["trace_id"], &wrong["status"]), (&json!(TRACE), &json!(404)));
    let unreachable = client.request(get("/verification/health", "")).await.problem();
    let trace = unreachable["trace_id"].as_str().unwrap();
    client.status("/registry/v2/0x0000000000000000000000000000000000000001?chainId=2020").await;
    client.request("BREW /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n").await;
    // The process exports the remaining spans before it exits.
    let log = service.stop();
    let spans = collector.received().spans;
    let one = |name: &str| {
        let span = spans.iter().find(|span| span.name == name);
        span.unwrap_or_else(|| panic!("{name} in {spans:#?}"))
    };

    let not_found = one("GET /v1/{chain}/fee-market");
    // By OpenTelemetry's conventions, a 4xx status is not an error of a server span.
    assert_eq!((not_found.trace.as_str(), &not_found.error), (TRACE, &None));
    assert_eq!(not_found.attributes["http.response.status_code"], "404");
    let failed = one("GET /verification/{*path}");
    assert_eq!((failed.trace.as_str(), failed.error.as_deref()), (trace, Some("502")));
    assert_eq!(failed.attributes["error.type"], "502");
    let upstream_call = one("GET");
    assert_eq!(upstream_call.parent, failed.id);
    assert_eq!(upstream_call.error.as_deref(), Some("unreachable"));
    fixtures::assert_snapshot("failed-spans", &[failed, upstream_call].map(shown).join("\n"));
    // The task of a shared look-up belongs to the request that started it.
    let look_up = one("GET /registry/v2/{address}");
    let api_call = spans.iter().find(|span| span.parent == look_up.id).unwrap();
    assert_eq!(api_call.attributes["gas_suggestion.upstream"], "delegation");
    let odd = one("HTTP /v1/chains");
    assert_eq!(odd.attributes["http.request.method"], "_OTHER");
    assert_eq!(odd.attributes["http.request.method_original"], "BREW");

    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |key: &str, value: &str| entries.iter().find(|entry| entry[key] == value).unwrap();
    assert_eq!(line("path", "/v1/nowhere/fee-market")["trace_id"], TRACE);
    assert_eq!(line("path", "/verification/health")["trace_id"], trace);
    // Lines that are logged while the request is handled have the trace id too.
    let is_warning = |it: &&Value| it["message"] == "upstream failed" && it["span"].is_object();
    let warned = entries.iter().find(is_warning).unwrap();
    let span = json!({"name": "trace", "trace_id": trace});
    assert_eq!((&warned["span"], &warned["spans"]), (&span, &json!([span])), "{warned}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_variable_of_opentelemetry_names_the_collector_unless_a_key_does() {
    let otel = ("OTEL_EXPORTER_OTLP_ENDPOINT", "COLLECTOR");
    for (own, is_exported) in [("", true), ("\"\"", false)] {
        let (_node, collector, service, mut client) =
            start("otel-variable", &[otel, ("GAS_TRACING__OTLP_ENDPOINT", own)]).await;
        client.request(get("/v1/a/gas-suggestion", &traceparent(true))).await;
        let wrong = client.request(get("/v1/nowhere/fee-market", &traceparent(true))).await;
        assert_eq!(wrong.text().contains("trace_id"), is_exported, "{}", wrong.text());
        // The process exports its spans before it exits.
        assert_eq!(service.stop_with("-TERM").0, Some(0));
        assert_eq!(collector.received().requests > 0, is_exported);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsampled_spans_are_not_exported_unless_the_client_sampled() {
    let variables =
        [("GAS_TRACING__OTLP_ENDPOINT", "COLLECTOR"), ("GAS_TRACING__SAMPLE_RATIO", "0")];
    let (_node, collector, service, mut client) = start("sampled", &variables).await;
    client.request(get("/v1/a/gas-suggestion", "")).await;
    client.request(get("/v1/chains", &traceparent(false))).await;
    client.request(get("/v1/a/fee-market", &traceparent(true))).await;
    assert_eq!(service.stop_with("-TERM").0, Some(0));
    let names: Vec<_> = collector.received().spans.into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["GET /v1/{chain}/fee-market"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_collector_is_logged_once() {
    let variables = [
        ("GAS_TRACING__OTLP_ENDPOINT", "http://127.0.0.1:9/canary"),
        ("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0"),
    ];
    let (_node, _collector, service, mut client) = start("no-collector", &variables).await;
    // These are several batches of 512 spans, all of which fail.
    for _ in 0..16 {
        client.send(get("/v1/a/gas-suggestion", "").repeat(100)).await;
        for _ in 0..100 {
            assert_eq!(client.read_response().await.unwrap().unwrap().status(), 200);
        }
    }
    let stopping = Instant::now();
    let (code, log) = service.stop_with("-TERM");
    assert_eq!(code, Some(0));
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    assert_eq!(log.matches("\"reason\":\"unreachable\"").count(), 1, "{log}");
    assert!(!log.contains("canary"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_collector_does_not_prolong_a_stop() {
    // The system accepts its connections, and nothing reads from them.
    let collector = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", collector.local_addr().unwrap());
    let variables = [
        ("GAS_TRACING__OTLP_ENDPOINT", url.as_str()),
        ("GAS_SERVER__DRAIN_DELAY", "0s"),
        ("GAS_SERVER__SHUTDOWN_GRACE", "1s"),
    ];
    let (_node, _collector, service, mut client) = start("silent-collector", &variables).await;
    assert_eq!(client.request(get("/v1/a/gas-suggestion", "")).await.status(), 200);
    let stopping = Instant::now();
    assert_eq!(service.stop_with("-TERM").0, Some(0));
    assert!(stopping.elapsed() < Duration::from_secs(2), "{:?}", stopping.elapsed());
}
