//! Faults, each of which fires its alerts in a real Prometheus.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::prometheus::{Prometheus, program, target};
use super::stage::{Ill, Narrow, Passing, Sharing, Well, moving};
use super::{rules, text};
use crate::command::{FREE_PORTS, Process, command, with_open_files};
use crate::fake_node::Answer;
use crate::raw::{Connection, free_port, get};

/// The rules for people in a hurry: whatever lasts fires at once, and is over soon.
fn quick_rules() -> String {
    let mut quick = Vec::new();
    let (mut durations, mut ranges) = (0, 0);
    for line in rules().lines() {
        if line.starts_with("        for: ") {
            durations += 1;
            quick.push("        for: 0s".to_owned());
            continue;
        }
        let mut line = line.to_owned();
        for (range, short) in [
            ("5m", "6s"),
            ("10m", "6s"),
            ("15m", "20s"),
            ("30m", "8s"),
            ("1h", "8s"),
            ("6h", "10s"),
        ] {
            let range = format!("[{range}]");
            ranges += line.matches(&range).count();
            line = line.replace(&range, &format!("[{short}]"));
        }
        quick.push(line);
    }
    let rules = rules();
    assert_eq!(durations, rules.matches("- alert: ").count());
    assert_eq!(ranges, rules.matches("h]").count() + rules.matches("m]").count());
    quick.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_fires_its_alerts_until_it_is_over_and_without_one_there_is_none() {
    let prometheus = Prometheus::start(&quick_rules()).await;
    let (well, passing) = (Well::start().await, Arc::new(Passing::start().await));
    let mut targets = vec![("well", target(&well.service)), ("passing", target(&passing.service))];
    prometheus.scrape(&targets);
    peace(&prometheus, &well).await;

    let ill = Ill::start().await;
    let unlimited = "requests_per_second_per_client = 0";
    let strict = "requests_per_second_per_client = 1\nrequest_burst_per_client = 1";
    let strict = Narrow::start(strict).await;
    let full = Narrow::start(&format!("{unlimited}\nmax_streams = 1")).await;
    let crowded =
        Narrow::start(&format!("{unlimited}\nmax_connections = 1\nheader_timeout = \"0s\"")).await;
    let narrow = [("strict", &strict), ("full", &full), ("crowded", &crowded)];
    targets.push(("ill", target(&ill.service)));
    targets.extend(narrow.map(|(name, narrow)| (name, target(&narrow.service))));
    prometheus.scrape(&targets);
    well.silent.say(Answer::Silence);
    passing.occupy().await;
    let stream = full.service.url("/v1/narrow/gas-suggestion/stream");
    let first = reqwest::get(&stream).await.unwrap();
    assert_eq!(first.status(), 200);
    let connection = Connection::open(crowded.service.address()).await;
    let misuse = async || {
        well.traffic().await;
        passing.overdo().await;
        for _ in 0..3 {
            strict.service.get("/v1/chains").await;
            assert_eq!(reqwest::get(&stream).await.unwrap().status(), 503);
            // It is told so before it asks.
            let refused = Connection::open(crowded.service.address()).await.next().await.unwrap();
            assert_eq!(refused.unwrap().status, 503);
        }
    };
    let [stale, unavailable] = ["Stale", "Unavailable"]
        .map(|state| format!("GasSuggestionChain{state} chain=silent instance=well"));
    let is_old = |firing: &[String]| firing.contains(&stale) && !firing.contains(&unavailable);
    prometheus.wait_for_alerts(is_old, misuse).await;
    let expected = [
        "GasSuggestionChainHalted chain=halted instance=ill",
        "GasSuggestionChainPollsFailing chain=silent instance=well",
        "GasSuggestionChainPollsFailing chain=unread instance=ill",
        "GasSuggestionChainStale chain=silent instance=well",
        "GasSuggestionChainUnavailable chain=silent instance=well",
        "GasSuggestionChainUnavailable chain=unread instance=ill",
        "GasSuggestionClientsRateLimited instance=strict",
        "GasSuggestionConnectionsRefused instance=crowded listener=public outcome=refused_overloaded",
        "GasSuggestionDelegationBudgetSpent instance=passing",
        "GasSuggestionErrorBudgetBurnsFast",
        "GasSuggestionErrorBudgetBurnsSlowly",
        "GasSuggestionFreshnessBudgetBurnsFast chain=silent",
        "GasSuggestionFreshnessBudgetBurnsSlowly chain=silent",
        "GasSuggestionProxyFailing instance=passing upstream=verification",
        "GasSuggestionReadsFailing chain=failing instance=passing",
        "GasSuggestionReadsRefused chain=busy instance=passing",
        "GasSuggestionStreamsRefused instance=full",
        "GasSuggestionUpstreamFailing chain=silent instance=well upstream=0",
        "GasSuggestionUpstreamFailing chain=unread instance=ill upstream=0",
        "GasSuggestionUpstreamFailing chain=unread instance=ill upstream=1",
        "GasSuggestionUpstreamRateLimits chain=limited instance=ill upstream=0",
        "GasSuggestionUpstreamWrongChain chain=misled instance=ill upstream=0",
    ]
    .map(str::to_owned);
    // They come and go as nodes are let alone for a while, but no others come.
    let seen = RefCell::new(BTreeSet::new());
    let are_complete = |firing: &[String]| {
        seen.borrow_mut().extend(firing.to_vec());
        expected.iter().all(|alert| seen.borrow().contains(alert))
            && firing.iter().all(|alert| expected.contains(alert))
    };
    prometheus.wait_for_alerts(are_complete, misuse).await;
    for alert in prometheus.alerts().await {
        println!("{}", text(&alert["annotations"], "description"));
    }

    // One node stays what it is.
    well.silent.say(moving());
    ill.recover();
    passing.open();
    drop((first, connection));
    let misled = ["GasSuggestionUpstreamWrongChain chain=misled instance=ill upstream=0"];
    prometheus.wait_for_alerts(|firing| firing == misled, async || well.traffic().await).await;

    ill.service.stop().await.unwrap();
    let down = "GasSuggestionDown instance=ill".to_owned();
    prometheus.wait_for_alerts(|firing| firing.contains(&down), async || ()).await;
    prometheus.scrape(&[]);
    let absent = ["GasSuggestionAbsent"];
    prometheus.wait_for_alerts(|firing| firing == absent, async || ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_fails_and_what_is_foreign_in_it_fire_their_alerts_and_no_others() {
    let prometheus = Prometheus::start(&quick_rules()).await;
    let sharing = Sharing::start().await;
    let [one, other] = sharing.services.each_ref().map(target);
    prometheus.scrape(&[("one", one), ("other", other)]);
    // Until all was there for the first time, something was missing.
    let is_quiet =
        "count(count_over_time(up[7s]) >= 16) == 2 and on () absent(last_over_time(ALERTS[7s]))";
    prometheus.wait_for(is_quiet).await;
    // One polls, and the other one's rates are none.
    prometheus
        .wait_for("count(increase(gas_suggestion_polls_total{outcome=\"ok\"}[6s]) > 6) == 1")
        .await;

    let of_both = |alert: &str| ["one", "other"].map(|name| format!("{alert} instance={name}"));
    let foreign = of_both("GasSuggestionSharedValuesForeign chain=shared");
    let failing = of_both("GasSuggestionRedisFailing");
    // Each polls for itself meanwhile: nothing else is wrong.
    let are_no_others = |firing: &[String]| {
        let is_other = |alert: &&String| !foreign.contains(alert) && !failing.contains(alert);
        let others: Vec<_> = firing.iter().filter(is_other).collect();
        assert!(others.is_empty(), "{others:#?}");
    };
    let are = |expected: &[String], firing: &[String]| {
        are_no_others(firing);
        firing == expected
    };
    prometheus.wait_for_alerts(|firing| are(&foreign, firing), async || sharing.mislead()).await;
    sharing.redis.kill();
    prometheus.wait_for_alerts(|firing| are(&failing, firing), async || ()).await;
    sharing.redis.start_again();
    prometheus.wait_for_alerts(|firing| are(&[], firing), async || ()).await;
}

/// Nothing is wrong with a service under a little traffic, and Prometheus finds nothing wrong.
async fn peace(prometheus: &Prometheus, well: &Well) {
    // Until all was there for the first time, something was missing.
    let is_quiet = "job:gas_suggestion_http_requests:rate6h > 10 \
                    and on () (count_over_time(up{instance=\"well\"}[7s]) >= 16) \
                    and on () absent(last_over_time(ALERTS[7s]))";
    well.traffic_until(async || !prometheus.query(is_quiet).await.is_empty()).await;
    let targets = prometheus.ask("targets", &[]).await;
    let targets = targets["activeTargets"].as_array().unwrap();
    let states: Vec<_> =
        targets.iter().map(|target| [&target["health"], &target["lastError"]]).collect();
    assert_eq!(states, [["up", ""]; 2], "{targets:#?}");

    let mut check = program("promtool");
    check
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let exposed = well.service.admin("/metrics").await.body;
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(exposed.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let complaints = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_does_not_stay_up_fires_its_alert() {
    let prometheus = Prometheus::start(&quick_rules()).await;
    let admin = format!("127.0.0.1:{}", free_port());
    prometheus.scrape(&[("crashing", format!("http://{admin}"))]);
    let mut variables = FREE_PORTS.to_vec();
    variables.push(("GAS_SERVER__ADMIN_LISTEN", &admin));
    let mut last = 0;
    for _ in 0..4 {
        // The time of its start is told in whole seconds, one of which it may be off.
        while UNIX_EPOCH.elapsed().unwrap().as_secs() < last + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let process = Process::start(&["demo"], &variables);
        prometheus.wait_for(&format!("process_start_time_seconds > {last}")).await;
        let started = prometheus.query("process_start_time_seconds").await;
        last = started[0]["value"][1].as_str().unwrap().parse().unwrap();
        drop(process);
    }
    let expected = "GasSuggestionRestarts instance=crashing".to_owned();
    let is_told = |firing: &[String]| firing.contains(&expected);
    prometheus.wait_for_alerts(is_told, async || ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_without_files_and_without_a_reader_of_its_log_fires_its_alerts() {
    const REQUESTS: usize = 24_000;
    const AT_A_TIME: usize = 100;
    let prometheus = Prometheus::start(&quick_rules()).await;
    let mut bare = command(&["demo"], &FREE_PORTS);
    bare.env("GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT", "0");
    // Nothing is read of its log once it listens.
    let process = Process::of(with_open_files(&bare, 96));
    prometheus.scrape(&[("confined", format!("http://{}", process.admin))]);
    prometheus.wait_for("gas_suggestion_log_lines_dropped_total == 0").await;
    let mut client = Connection::open(process.address).await;
    for _ in 0..REQUESTS / AT_A_TIME {
        client.send(get("/v1/chains", "").repeat(AT_A_TIME)).await;
        for _ in 0..AT_A_TIME {
            assert_eq!(client.next().await.unwrap().unwrap().status, 200);
        }
    }
    // Those that are refused take a file each until they are gone.
    let flood = RefCell::new(VecDeque::new());
    let more = async || {
        for _ in 0..32 {
            let connection = tokio::net::TcpStream::connect(process.address).await.unwrap();
            // This process has no files without end either.
            let mut flood = flood.borrow_mut();
            flood.push_back(connection);
            if flood.len() > 128 {
                flood.pop_front();
            }
        }
    };
    let expected = ["GasSuggestionFewFilesLeft", "GasSuggestionLogLinesDropped"]
        .map(|alert| format!("{alert} instance=confined"));
    // Lines are dropped no more by now, so one alert may be over before there is the other.
    let seen = RefCell::new(BTreeSet::new());
    let have_fired = |firing: &[String]| {
        seen.borrow_mut().extend(firing.to_vec());
        expected.iter().all(|alert| seen.borrow().contains(alert))
    };
    prometheus.wait_for_alerts(have_fired, more).await;
}
