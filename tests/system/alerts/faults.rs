//! Faults that fire their alerts in a real Prometheus.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::prometheus::{Prometheus, program, target};
use super::rules;
use super::services::{
    FaultyService, ForwardingService, HealthyService, ReplicaPair, advancing_chain, start_limited,
};
use crate::http_message::get;
use crate::mock_node::Reply;
use crate::process::{FREE_PORTS, File, Process, command, with_open_files};
use crate::raw_client::{RawClient, free_port};

/// Ranges of the rules, and what takes their place.
const SHORTER: [(&str, &str); 6] = [
    ("[5m]", "[6s]"),
    ("[10m]", "[6s]"),
    ("[15m]", "[20s]"),
    ("[30m]", "[8s]"),
    ("[1h]", "[8s]"),
    ("[6h]", "[10s]"),
];

/// Returns the alert rules with short ranges and no `for` duration, so that alerts fire and resolve within seconds.
fn shortened_rules() -> String {
    let is_duration = |line: &&str| line.starts_with("        for: ");
    let rules = rules();
    let durations = rules.lines().filter(is_duration).count();
    assert_eq!(durations, rules.matches("- alert: ").count());
    let ranges: usize = SHORTER.iter().map(|(range, _)| rules.matches(range).count()).sum();
    assert_eq!(ranges, rules.matches("h]").count() + rules.matches("m]").count());
    let shorten = |line: &str| {
        if is_duration(&line) {
            return "        for: 0s\n".to_owned();
        }
        let replace = |line: String, (range, shorter): &(&str, &str)| line.replace(range, shorter);
        SHORTER.iter().fold(format!("{line}\n"), replace)
    };
    rules.lines().map(shorten).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_fires_its_alerts_until_it_is_over() {
    let prometheus = Prometheus::start(&shortened_rules()).await;
    let (healthy, forwarding) =
        (HealthyService::start().await, Arc::new(ForwardingService::start().await));
    let mut targets =
        vec![("healthy", target(&healthy.service)), ("forwarding", target(&forwarding.service))];
    prometheus.scrape(&targets);
    wait_for_no_alerts(&prometheus, &healthy).await;

    let faulty = FaultyService::start().await;
    let unlimited = "requests_per_second_per_client = 0";
    let strict = "requests_per_second_per_client = 1\nrequest_burst_per_client = 1";
    let crowded = format!("{unlimited}\nmax_connections = 1\nheader_timeout = \"0s\"");
    let (strict, _node_of_strict) = start_limited(strict).await;
    let (full, _node_of_full) = start_limited(&format!("{unlimited}\nmax_streams = 1")).await;
    let (crowded, _node_of_crowded) = start_limited(&crowded).await;
    let others =
        [("faulty", &faulty.service), ("strict", &strict), ("full", &full), ("crowded", &crowded)];
    targets.extend(others.map(|(name, service)| (name, target(service))));
    prometheus.scrape(&targets);
    healthy.silent.set_reply(Reply::NoResponse);
    forwarding.occupy_read_slot().await;
    let stream = full.url("/v1/narrow/gas-suggestion/stream");
    let first = reqwest::get(&stream).await.unwrap();
    assert_eq!(first.status(), 200);
    let connection = RawClient::connect(crowded.address()).await;
    let exceed_limits = async || {
        healthy.traffic().await;
        forwarding.exceed_limits().await;
        for _ in 0..3 {
            strict.get("/v1/chains").await;
            assert_eq!(reqwest::get(&stream).await.unwrap().status(), 503);
            let mut refused = RawClient::connect(crowded.address()).await;
            assert_eq!(refused.request(get("/v1/chains", "")).await.status(), 503);
        }
    };
    let [stale, unavailable] = ["Stale", "Unavailable"]
        .map(|state| format!("GasSuggestionChain{state} chain=silent instance=healthy"));
    let is_only_stale =
        |firing: &[String]| firing.contains(&stale) && !firing.contains(&unavailable);
    // The chain is stale, but still available, for ten seconds only.
    prometheus.wait_for_alerts(is_only_stale, async || ()).await;
    let expected = include_str!("../../fixtures/alerts-of-faults.txt").lines();
    let expected: Vec<_> = expected.map(str::to_owned).collect();
    // Alerts may resolve and fire again while the service backs off from nodes. No other alert may fire.
    prometheus.wait_for_each(&expected, false, exceed_limits).await;

    // Only the chain with a node of the wrong chain, and with a wrong floor, stays faulty.
    healthy.silent.set_reply(advancing_chain());
    faulty.repair();
    forwarding.release_read_slot();
    drop((first, connection));
    let wrong_chain = [
        "GasSuggestionFloorAboveMarket chain=misled floor=priority_fee",
        "GasSuggestionUpstreamWrongChain chain=misled instance=faulty upstream=0",
    ];
    prometheus
        .wait_for_alerts(|firing| firing == wrong_chain, async || healthy.traffic().await)
        .await;

    faulty.service.stop().await.unwrap();
    let down = "GasSuggestionDown instance=faulty".to_owned();
    prometheus.wait_for_alerts(|firing| firing.contains(&down), async || ()).await;
    prometheus.scrape(&[]);
    let absent = ["GasSuggestionAbsent"];
    prometheus.wait_for_alerts(|firing| firing == absent, async || ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_failure_and_invalid_messages_fire_only_their_alerts() {
    let prometheus = Prometheus::start(&shortened_rules()).await;
    let pair = ReplicaPair::start().await;
    let [one, other] = pair.services.each_ref().map(target);
    prometheus.scrape(&[("one", one), ("other", other)]);
    // The first scrapes lack series, so wait until no alert has fired for a whole range.
    let is_quiet =
        "count(count_over_time(up[7s]) >= 16) == 2 and on () absent(last_over_time(ALERTS[7s]))";
    prometheus.wait_for(is_quiet).await;
    // One replica polls; the other makes no successful poll.
    prometheus
        .wait_for("count(increase(gas_suggestion_polls_total{outcome=\"ok\"}[6s]) > 6) == 1")
        .await;

    let on_both = |alert: &str| ["one", "other"].map(|name| format!("{alert} instance={name}"));
    let invalid = on_both("GasSuggestionReplicaMessagesInvalid chain=shared");
    let failing = on_both("GasSuggestionRedisFailing");
    // Each replica polls for itself meanwhile, so no other alert may fire.
    let assert_no_others = |firing: &[String]| {
        let is_other = |alert: &&String| !invalid.contains(alert) && !failing.contains(alert);
        let others: Vec<_> = firing.iter().filter(is_other).collect();
        assert!(others.is_empty(), "{others:#?}");
    };
    let wait_for_exactly = async |expected: &[String], meanwhile: &dyn Fn()| {
        let are_expected = |firing: &[String]| {
            assert_no_others(firing);
            firing == expected
        };
        prometheus.wait_for_alerts(are_expected, async || meanwhile()).await;
    };
    wait_for_exactly(&invalid, &|| pair.publish_invalid_messages()).await;
    pair.redis.kill();
    wait_for_exactly(&failing, &|| ()).await;
    pair.redis.start_again();
    wait_for_exactly(&[], &|| ()).await;
}

/// Waits until a healthy service under light traffic has no alert, and checks its exposition with promtool.
async fn wait_for_no_alerts(prometheus: &Prometheus, healthy: &HealthyService) {
    // The first scrapes lack series, so wait until no alert has fired for a whole range.
    let is_quiet = "job:gas_suggestion_http_requests:rate6h > 10 \
                    and on () (count_over_time(up{instance=\"healthy\"}[7s]) >= 16) \
                    and on () absent(last_over_time(ALERTS[7s]))";
    let are_up_and_quiet = async || {
        healthy.traffic().await;
        let targets = prometheus.call_api("targets", &[]).await;
        let targets = targets["activeTargets"].as_array().unwrap();
        let states = targets.iter().map(|target| [&target["health"], &target["lastError"]]);
        states.eq([["up", ""]; 2]) && !prometheus.query(is_quiet).await.is_empty()
    };
    prometheus
        .wait_until(are_up_and_quiet, || {
            "a target is down, an alert fires, or traffic is missing".to_owned()
        })
        .await;

    let exposed = File::new("exposed-metrics", &healthy.service.admin("/metrics").await.body);
    let mut check = program("promtool");
    check.args(["check", "metrics"]).stdin(fs::File::open(exposed.path()).unwrap());
    let output = check.output().unwrap();
    let output_text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && output_text.is_empty(), "{output_text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_loop_fires_its_alert() {
    let prometheus = Prometheus::start(&shortened_rules()).await;
    let admin = format!("127.0.0.1:{}", free_port());
    prometheus.scrape(&[("crashing", format!("http://{admin}"))]);
    let mut last = 0;
    for _ in 0..4 {
        // The exported start time has whole seconds and may be off by one.
        while UNIX_EPOCH.elapsed().unwrap().as_secs() < last + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let process = Process::start(&["demo"], &[("GAS_SERVER__ADMIN_LISTEN", &admin)]);
        prometheus.wait_for(&format!("process_start_time_seconds > {last}")).await;
        let started = prometheus.query("last_over_time(process_start_time_seconds[1m])").await;
        last = started[0]["value"][1].as_str().unwrap().parse().unwrap();
        drop(process);
    }
    let expected = "GasSuggestionRestarts instance=crashing".to_owned();
    let has_fired = |firing: &[String]| firing.contains(&expected);
    prometheus.wait_for_alerts(has_fired, async || ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_files_and_unread_log_fire_their_alerts() {
    const REQUESTS: usize = 24_000;
    const AT_A_TIME: usize = 100;
    let prometheus = Prometheus::start(&shortened_rules()).await;
    let mut command_line = command(&["demo"], &FREE_PORTS);
    command_line.env("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0");
    // Once it listens, the test no longer reads its log.
    let process = Process::spawn(with_open_files(&command_line, 96));
    prometheus.scrape(&[("confined", format!("http://{}", process.admin))]);
    prometheus.wait_for("gas_suggestion_log_lines_dropped_total == 0").await;
    let mut client = RawClient::connect(process.address).await;
    for _ in 0..REQUESTS / AT_A_TIME {
        client.send(get("/v1/chains", "").repeat(AT_A_TIME)).await;
        for _ in 0..AT_A_TIME {
            assert_eq!(client.read_response().await.unwrap().unwrap().status(), 200);
        }
    }
    // Each refused connection holds a file descriptor until it is closed.
    let connections = RefCell::new(VecDeque::new());
    let open_connections = async || {
        for _ in 0..32 {
            let connection = tokio::net::TcpStream::connect(process.address).await.unwrap();
            // The test process has a limited number of file descriptors too.
            let mut connections = connections.borrow_mut();
            connections.push_back(connection);
            if connections.len() > 128 {
                connections.pop_front();
            }
        }
    };
    let expected = ["GasSuggestionFileDescriptorsLow", "GasSuggestionLogLinesDropped"]
        .map(|alert| format!("{alert} instance=confined"));
    // No more lines are dropped by now, so one alert may resolve before the other fires.
    prometheus.wait_for_each(&expected, true, open_connections).await;
}
