//! Faults of connections, HTTP and encodings of a node, injected one at a time into one chain of ten: at the start, in the
//! steady state, and with recovery after each. The simulator has the faults of what nodes say.

mod harness;
mod secrets;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::fault_proxy::{Fault, Kind, Reply};
use crate::fixtures::gzip;
use harness::{Harness, HealthyChains, LONGEST_PAUSE, TestRun, Urls, assert_fresh, assert_no_data};

/// One fault of a node.
struct Scenario {
    name: String,
    expectation: Expectation,
}

/// The expected behaviour of the service.
enum Expectation {
    /// The reply is rejected, and the attempts have this `outcome`: 503 at the start; later the last good suggestion until
    /// it expires.
    Rejected(&'static str, Fault),
    /// The reply is accepted.
    Accepted(Fault),
    /// The service fails over to the second URL. The attempts at the first have this `outcome`.
    FailedOver(&'static str, Fault),
    /// The second of these URLs provides the data while the first is unreachable.
    SecondUrl(Urls),
    /// Dead pooled connections cost no attempt.
    DeadPool,
}

/// Name of each phase with the fault, and of the one after it.
const PHASES: [[&str; 2]; 2] =
    [["start", "recovery after the start"], ["steady state", "recovery"]];

/// Number of scenarios that run concurrently; they mostly wait.
const WORKERS: usize = 6;

/// If at most this many scenarios fail, they run once more.
const MAX_RETRIES: usize = 10;

/// Failures that a busy machine cannot cause.
const NEVER_RETRIED: [&str; 3] = ["a wrong number", "contains a secret", "a panic"];

#[test]
fn faults_of_one_chain_never_cause_wrong_prices_or_affect_other_chains() {
    let scenarios = scenarios();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let healthy = Arc::new(runtime.block_on(HealthyChains::start()));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { return };
                    if let Err(failure) = try_run(scenario, number, &healthy) {
                        failures.lock().unwrap().push((number, failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    // On a busy machine a few scenarios may miss a deadline; they pass when they run again, alone.
    if failures.len() <= MAX_RETRIES {
        failures.retain_mut(|(number, failure)| {
            if NEVER_RETRIED.iter().any(|text| failure.contains(text)) {
                return true;
            }
            eprintln!("retrying: {failure}");
            try_run(&scenarios[*number], *number, &healthy)
                .map_err(|again| *failure = again)
                .is_err()
        });
    }
    let failures: Vec<_> = failures.into_iter().map(|(_, failure)| failure).collect();
    assert!(
        failures.is_empty(),
        "{} of {} scenarios fail:\n\n{}",
        failures.len(),
        scenarios.len(),
        failures.join("\n\n")
    );
}

/// Runs a scenario; the error describes the failure.
fn try_run(scenario: &Scenario, number: usize, healthy: &Arc<HealthyChains>) -> Result<(), String> {
    let phase = Arc::new(Mutex::new("before the start"));
    let run = TestRun { healthy: Arc::clone(healthy), number, phase };
    let check = async {
        match &scenario.expectation {
            Expectation::Rejected(reason, fault) => check_rejected(&run, reason, fault).await,
            Expectation::Accepted(fault) => check_accepted(&run, fault).await,
            Expectation::FailedOver(reason, fault) => check_failover(&run, reason, fault).await,
            Expectation::SecondUrl(urls) => check_second_url(&run, *urls).await,
            Expectation::DeadPool => check_dead_pool(&run).await,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(check))).map_err(|panic| {
        let phase = *run.phase.lock().unwrap();
        format!("{}, phase {phase}: {}", scenario.name, panic_text(&*panic))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic without a text")
}

async fn check_rejected(run: &TestRun, reason: &str, fault: &Fault) {
    let harness = Harness::start(run, Urls::One, &[fault]).await;
    harness.enter_phase("start");
    harness.wait_for_attempt(0, reason, assert_no_data).await;
    assert_no_data(&harness.read().await);
    harness.check_reported_status("unavailable", Value::Null).await;

    harness.recover("recovery after the start").await;

    harness.enter_phase("steady state");
    let before = harness.count(0, reason).await;
    harness.inject(fault).await;
    harness.wait_until(reason, async || harness.count(0, reason).await > before).await;
    let kept = harness.read().await.unwrap();
    harness
        .wait_for_attempt(0, reason, |read| assert_eq!(read.as_ref().unwrap().newest, kept.newest))
        .await;

    harness.recover("recovery").await;
    harness.finish().await;
}

async fn check_accepted(run: &TestRun, fault: &Fault) {
    let harness = Harness::start(run, Urls::One, &[fault]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        harness.wait_until_fresh(Duration::ZERO).await;
        harness.inject(fault).await;
        // The first of two further polls may have begun before the fault.
        for _ in 0..2 {
            harness.wait_for_attempt(0, "ok", assert_fresh).await;
        }
        harness.wait_until_fresh(Duration::ZERO).await;
        harness.recover(recovery).await;
    }
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

async fn check_failover(run: &TestRun, reason: &str, fault: &Fault) {
    let mut harness = Harness::start(run, Urls::Two, &[fault]).await;
    harness.enter_phase("start");
    harness.wait_until_fresh(LONGEST_PAUSE).await;
    assert!(harness.count(0, reason).await > 0, "{:?}", harness.counts().await);

    harness.clear_faults("recovery after the start").await;
    harness.check_stays_fresh().await;
    // After a timeout the service prefers the other upstream for 30 s; after other faults it soon returns to the first.
    let returns_to_first = reason != "timeout";
    if returns_to_first {
        harness.wait_for_attempt(0, "ok", assert_fresh).await;
    } else {
        harness.finish().await;
        harness = Harness::start(run, Urls::Two, &[]).await;
        harness.wait_for_attempt(0, "ok", |_| {}).await;
    }

    harness.enter_phase("steady state");
    harness.wait_until_fresh(Duration::ZERO).await;
    let before = harness.count(0, reason).await;
    harness.inject(fault).await;
    harness.check_stays_fresh().await;
    assert!(harness.count(0, reason).await > before, "{:?}", harness.counts().await);

    harness.clear_faults("recovery").await;
    if returns_to_first {
        harness.wait_for_attempt(0, "ok", assert_fresh).await;
    }
    harness.check_stays_fresh().await;
    harness.finish().await;
}

/// Checks that the second URL provides the data while the first is unreachable.
async fn check_second_url(run: &TestRun, urls: Urls) {
    let refused = Fault::everywhere(Kind::Refuse);
    // The first proxy of two is the plain port.
    let plain_port = Fault::everywhere(Kind::Pass);
    let faults = [&plain_port, &refused];
    let faults = if urls == Urls::AfterPlainPort { &faults[..] } else { &faults[1..] };
    let harness = Harness::start(run, urls, faults).await;
    harness.enter_phase("start");
    for upstream in [0, 1] {
        harness.wait_for_attempt(upstream, "unreachable", assert_no_data).await;
    }
    harness.recover("recovery after the start").await;
    harness.check_stays_fresh().await;

    harness.enter_phase("steady state");
    harness.proxies.last().unwrap().switch(refused.clone()).await;
    harness.wait_for_attempt(1, "unreachable", |_| {}).await;
    harness.check_expiry().await;

    harness.recover("recovery").await;
    harness.check_stays_fresh().await;
    assert_eq!(harness.count(0, "ok").await, 0);
    harness.finish().await;
}

/// Checks that dead pooled connections cost no attempt.
async fn check_dead_pool(run: &TestRun) {
    let fault = Fault::everywhere(Kind::DeadPool);
    let harness = Harness::start(run, Urls::One, &[&fault]).await;
    harness.enter_phase("start");
    harness.wait_until_fresh(Duration::ZERO).await;
    harness.recover("recovery after the start").await;
    harness.enter_phase("steady state");
    let connections = harness.proxies[0].connection_count();
    harness.inject(&fault).await;
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    harness.check_stays_fresh().await;
    assert!(harness.proxies[0].connection_count() > connections);
    assert_eq!(harness.count(0, "timeout").await, 0);
    harness.clear_faults("recovery").await;
    harness.check_stays_fresh().await;
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

fn rejected(name: &str, reason: &'static str, fault: Fault) -> Scenario {
    Scenario { name: name.into(), expectation: Expectation::Rejected(reason, fault) }
}

fn accepted(name: &str, fault: Fault) -> Scenario {
    Scenario { name: name.into(), expectation: Expectation::Accepted(fault) }
}

fn failed_over(name: &str, reason: &'static str, fault: Fault) -> Scenario {
    let name = format!("{name}, with a second URL");
    Scenario { name, expectation: Expectation::FailedOver(reason, fault) }
}

fn scenarios() -> Vec<Scenario> {
    [error_responses(), bodies(), connections()].into_iter().flatten().collect()
}

/// Returns errors. Some repeat the path of the URL, which has a secret, or have text that may not get into the log.
fn error_responses() -> Vec<Scenario> {
    // Control characters and a long line.
    let unpleasant = format!("\x1b[31m\r\n{}", "~".repeat(1000));
    let html = format!("<html>no {{path}} at {{path}} or /V2/CANARY-PATH or {unpleasant}</html>");
    let with_404 = Fault::rewrite(|call, _| Reply {
        status: 404,
        ..Reply::error(call, -32000, &format!("no {}", call.path))
    });
    // The service asks for the chain id again after an error.
    let no_chain_id = Fault::rewrite(|call, mut reply| {
        if call.json["method"] != "eth_chainId" {
            return Reply::new(500, "");
        }
        reply["result"] = "seven".into();
        Reply::json(&reply)
    });
    vec![
        rejected("an error with HTTP 404", "node_error", with_404),
        rejected("a web page for all calls", "not_json", Fault::fixed(200, &html).for_all_calls()),
        rejected("a text", "not_json", Fault::fixed(200, "\u{1b}[31mmaintenance {path}")),
        rejected("a gateway's web page", "http_status", Fault::fixed(502, &html)),
        rejected("an invalid chain id", "invalid_reply", no_chain_id.for_all_calls()),
    ]
}

fn bodies() -> Vec<Scenario> {
    let changed = |change: fn(&mut Reply)| {
        Fault::rewrite(move |_, reply| {
            let mut reply = Reply::json(&reply);
            change(&mut reply);
            reply
        })
    };
    let zipped = Fault::rewrite(|_, reply| {
        Reply::new(200, gzip(reply.to_string().as_bytes())).with("content-encoding", "gzip")
    });
    let padded = Fault::envelope(|reply| reply["padding"] = " ".repeat(200_000).into());
    // 64 gzip members of 1 MiB each decompress as one stream.
    let bomb = gzip(&vec![b' '; 1 << 20]).repeat(64);
    let undeclared = bomb.clone();
    let undeclared = Fault::rewrite(move |_, _| Reply::new(200, undeclared.clone()));
    let bomb =
        Fault::rewrite(move |_, _| Reply::new(200, bomb.clone()).with("content-encoding", "gzip"));
    let endless = || Fault::in_fee_histories(Kind::Endless);
    vec![
        accepted("unrequested gzip", zipped),
        accepted("200 KB", padded),
        rejected("a body that ends early", "transport", changed(|reply| reply.body.truncate(100))),
        rejected("no body", "transport", changed(|reply| reply.body.clear())),
        rejected("too short a length", "not_json", changed(|reply| reply.declared -= 10)),
        rejected("an endless body", "too_large", endless()),
        failed_over("an endless body", "too_large", endless()),
        rejected("a bomb", "too_large", bomb),
        rejected("a bomb without a name", "not_json", undeclared),
    ]
}

fn connections() -> Vec<Scenario> {
    let drip = Fault::in_fee_histories(Kind::Drip(Duration::from_secs(1)));
    let [refuse, reset, silence] =
        [Kind::Refuse, Kind::Reset, Kind::Blackhole].map(Fault::everywhere);
    let faults = [
        ("a byte a second", "timeout", drip),
        ("connection refused", "unreachable", refuse),
        ("resets", "transport", reset),
        ("silence", "timeout", silence),
    ];
    let both = |(name, reason, fault): (&str, _, Fault)| {
        [rejected(name, reason, fault.clone()), failed_over(name, reason, fault)]
    };
    let own = |name: &str, expectation| Scenario { name: name.into(), expectation };
    let second = Expectation::SecondUrl;
    faults
        .into_iter()
        .flat_map(both)
        .chain([
            own("a host that does not resolve", second(Urls::AfterUnresolvableHost)),
            own("https at a plain port", second(Urls::AfterPlainPort)),
            own("dead pooled connections", Expectation::DeadPool),
        ])
        .collect()
}
