//! Metrics of a chain, of its routes, and of the process.

use std::fs;

use crate::fixtures;
use crate::http_client;
use crate::mock_node::{MockNode, Reply, start_service};
use crate::process::Process;
use crate::test_server::{Response, TestServer};

/// Returns the value of the sample with this name and these labels.
fn value<'a>(page: &'a Response, sample: &str) -> &'a str {
    let mut rests = page.body.lines().filter_map(|line| line.strip_prefix(sample));
    rests.find_map(|rest| rest.strip_prefix(' ')).unwrap_or_else(|| panic!("{sample} in {page:#?}"))
}

/// Returns the samples of fees in wei and gwei, sorted.
fn fees(page: &Response) -> String {
    let is_fee = |line: &&str| {
        let name = line.split('{').next().unwrap();
        name.starts_with("gas_suggestion_") && (name.ends_with("_wei") || name.ends_with("_gwei"))
    };
    let mut lines: Vec<_> = page.body.lines().filter(is_fee).collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[tokio::test]
async fn fees_are_exported_in_wei_and_gwei_until_they_expire() {
    let (first, second) = (
        MockNode::start(8, Reply::history(1000, 3, 40)).await,
        MockNode::start(7, Reply::history(1000, 3, 40)).await,
    );
    let service = TestServer::start(&format!(
        "[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\", \"{}\"]\nblock_time = \"50ms\"\n\
         stall_after = \"0s\"\nmax_age = \"2100ms\"\n",
        first.url(),
        second.url()
    ))
    .await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    // On a busy machine the service may need a second attempt to detect the wrong chain.
    let wrong_chain = "gas_suggestion_upstream_wrong_chain{chain=\"a\",upstream=\"0\"}";
    let metrics = service.wait_for_admin("/metrics", |page| value(page, wrong_chain) == "1").await;
    fixtures::assert_snapshot("fee-gauges", &fees(&metrics));
    let status = |page: &Response| {
        ["fresh", "stale", "unavailable"].map(|status| {
            let sample = format!("gas_suggestion_chain_status{{chain=\"a\",status=\"{status}\"}}");
            value(page, &sample).to_owned()
        })
    };
    assert_eq!(status(&metrics), ["1", "0", "0"]);
    assert_eq!(value(&metrics, "gas_suggestion_chain_newest_block{chain=\"a\"}"), "1000");
    let upstream_gauge = |page: &Response, gauge: &str| {
        ["0", "1"].map(|upstream| {
            let labels = format!("{{chain=\"a\",upstream=\"{upstream}\"}}");
            value(page, &format!("gas_suggestion_upstream_{gauge}{labels}")).to_owned()
        })
    };
    assert_eq!(upstream_gauge(&metrics, "in_use"), ["0", "1"]);
    assert_eq!(upstream_gauge(&metrics, "wrong_chain"), ["1", "0"]);
    assert_eq!(value(&metrics, "gas_suggestion_chain_block_time_seconds{chain=\"a\"}"), "0.05");

    second.set_reply(Reply::Error(-32000));
    let too_old = service.wait_for_admin("/metrics", |page| status(page) == ["0", "0", "1"]).await;
    let names = fees(&metrics);
    let names = names.lines().map(|line| line.rsplit_once(' ').unwrap().0);
    let expired: Vec<_> = names.map(|name| format!("{name} NaN")).collect();
    assert_eq!(fees(&too_old), expired.join("\n"));
    // Block number and age are always exported.
    assert_eq!(value(&too_old, "gas_suggestion_chain_newest_block{chain=\"a\"}"), "1000");
    for path in [
        "/v1/a/gas-suggestion",
        "/v1/a/fee-market",
        "/v1/a/fee-history",
        "/v1/a/score",
        "/v1/a/cost?gas=21000",
        "/networks/7/suggestedGasFees",
    ] {
        service.get(path).await.assert_problem(503, "stale_data");
    }
    let age = value(&too_old, "gas_suggestion_chain_data_age_seconds{chain=\"a\"}");
    // The age is read shortly before the status, so it may be slightly less than `max_age`.
    assert!(age.parse::<f64>().unwrap() >= 2.09, "{age}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_suggestions_by_freshness() {
    let (_node, service) = start_service("base_path = \"/below\"", "").await;
    let client = http_client::new();
    let url = service.url("/below/v1/a/gas-suggestion");
    for _ in 0..3 {
        assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    }
    assert_eq!(client.head(&url).header("if-none-match", "*").send().await.unwrap().status(), 304);
    service.get("/below/v1/nowhere/fee-market").await;
    service.get("/nothing/at/all").await;
    client.delete(service.url("/below/v1/chains")).send().await.unwrap();
    for (route, method, status, count) in [
        ("/v1/{chain}/gas-suggestion", "GET", "200", 3),
        ("/v1/{chain}/gas-suggestion", "HEAD", "304", 1),
        ("/v1/{chain}/fee-market", "GET", "404", 1),
        ("none", "GET", "404", 1),
        ("/v1/chains", "other", "405", 1),
    ] {
        let labels = format!(
            "{{listener=\"public\",route=\"{route}\",method=\"{method}\",status=\"{status}\"}}"
        );
        let counter = format!("gas_suggestion_http_requests_total{labels}");
        assert_eq!(service.count(&counter).await, count, "{counter}");
    }
    let fresh = "gas_suggestion_suggestion_responses_total{chain=\"a\",freshness=\"fresh\"}";
    assert_eq!(service.count(fresh).await, 4);
    let duration = "gas_suggestion_http_request_duration_seconds_count\
                {listener=\"public\",route=\"/v1/{chain}/gas-suggestion\"}";
    assert_eq!(service.count(duration).await, 4);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn metrics_of_the_process_are_those_of_the_system() {
    let before = fixtures::seconds();
    let service = Process::start(&["demo"], &[]);
    let after = fixtures::seconds();
    let url = format!("http://{}/metrics", service.admin);
    let page = Response::read(http_client::new().get(url).send().await.unwrap()).await;
    let number = |name: &str| value(&page, name).parse::<u64>().unwrap();
    // The system rounds the time of its own start and the time since then.
    let started_at = number("process_start_time_seconds");
    assert!((before - 2..=after + 2).contains(&started_at), "{started_at}, {before} to {after}");
    let resident = number("process_resident_memory_bytes") / 1024;
    let expected = service.resident_kib();
    // The program is still starting.
    assert!((expected / 2..expected * 2).contains(&resident), "{resident} of {expected} KiB");
    assert!(number("process_virtual_memory_bytes") / 1024 >= resident);
    let entries = |folder: &str| {
        let path = format!("/proc/{}/{folder}", service.id());
        u64::try_from(fs::read_dir(path).unwrap().count()).unwrap()
    };
    let threads = number("process_threads");
    assert!(threads.abs_diff(entries("task")) < 4, "{threads}");
    let descriptors = number("process_open_fds");
    assert!(descriptors.abs_diff(entries("fd")) < 16, "{descriptors}");
    assert!(number("process_max_fds") >= descriptors);
    assert!(number("process_cpu_seconds_total") < 10);
}
