//! Faults that need checks of their own.

use std::cell::Cell;
use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::harness::{
    ChainSettings, Harness, MAX_AGE, SLACK, SUGGESTION, Suggestion, TestRun, Urls, assert_fresh,
    assert_no_data,
};
use super::{Expectation, PHASES, Rejected, SECOND, Scenario, check_rejected, scenario};
use crate::chain_model::{self, Window, newest_of, whole_blocks};
use crate::fault_proxy::{Fault, Kind, Reply, Scope};
use crate::wall_clock::WallClock;

const FEE_HISTORY: &str = "eth_feeHistory";

/// Builds a scenario that this function checks, with further arguments.
macro_rules! check {
    ($row:literal, $name:literal, $check:ident $(, $argument:expr)*) => {
        scenario($row, $name, Expectation::Custom(|run, settings| {
            Box::pin($check(run, settings $(, $argument)*))
        }))
    };
}

pub(super) fn scenarios() -> Vec<Scenario> {
    const LAG: Shift = |call| call % 2 * -3;
    const JUMP: Shift = |call| if call % 4 == 3 { 1_000_000 } else { 0 };
    vec![
        // The longest scenario starts first.
        check!(23, "429 for a day", rate_limited_for_a_day),
        check!(15, "only integer counts", integer_counts),
        check!(17, "every second reply lags", single_wrong_heads, "head_behind", LAG),
        check!(17, "a reset", permanent_jump, -10_000),
        check!(17, "a reset at two URLs", reset_at_both_upstreams),
        check!(17, "erratic lower heads", erratic_heads, "head_behind", -1000),
        check!(18, "every fourth reply is far ahead", single_wrong_heads, "head_ahead", JUMP),
        check!(18, "far ahead for good", permanent_jump, 1_000_000),
        check!(18, "erratic higher heads", erratic_heads, "head_ahead", 1_000_000),
        check!(20, "beyond head, with a second URL", beyond_head),
        check!(28, "a host that does not resolve", unreachable, Urls::AfterUnresolvableHost),
        check!(28, "https at a plain port", unreachable, Urls::AfterPlainPort),
        check!(28, "dead pooled connections", dead_pool),
        check!(31, "a silent subscription", silent_subscription),
        check!(32, "five times as many blocks", fast),
        check!(32, "a fifth of the blocks", slow),
        check!(33, "a wall clock that steps", clock_steps),
        check!(34, "hundreds of clients", stampede),
        check!(35, "a permanent redirect", redirect, 301),
        check!(35, "a redirect of the call", redirect, 307),
        check!(37, "a stalled head", stalled_head),
        check!(37, "a stalled head, with a second URL", one_of_two_heads_stalled),
    ]
}

async fn rate_limited_for_a_day(run: TestRun, settings: ChainSettings) {
    // Polls go on at least three times in `max_age`, whatever the node asks for.
    let max_pause = MAX_AGE / 3;
    let harness = Harness::start_fresh(&run, &settings).await;
    let calls = harness.proxies[0].call_times(FEE_HISTORY).len();
    let later_calls = || harness.proxies[0].call_times(FEE_HISTORY).split_off(calls);
    harness.inject(&Fault::rewrite(|_, _| Reply::new(429, "").with("retry-after", "86400"))).await;
    harness.wait_for_attempt(0, "rate_limited", |_| {}).await;
    harness.check_expiry().await;

    harness.clear_faults("recovery").await;
    harness.wait_until("another call", async || later_calls().len() >= 2).await;
    let pause = later_calls()[1] - later_calls()[0];
    let is_expected = pause >= max_pause && pause < max_pause * 11 / 10 + SLACK;
    assert!(is_expected, "called again after {pause:?}");
    harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
    harness.finish().await;
}

async fn integer_counts(run: TestRun, settings: ChainSettings) {
    let refusing = |is_refused: fn(&serde_json::Value) -> bool| {
        Fault::rewrite(move |call, reply| {
            if is_refused(&call.json["params"][0]) {
                Reply::error(call, -32602, "invalid argument 0")
            } else {
                Reply::json(&reply)
            }
        })
    };
    let quantities = refusing(serde_json::Value::is_string);
    let harness = Harness::start(&run, &settings, &[&quantities]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        harness.inject(&quantities).await;
        harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
        harness.wait_for_attempt(0, "ok", assert_fresh).await;
        harness.recover(recovery, Duration::ZERO).await;
    }
    // The service remembers the format that the node accepts.
    assert_eq!(harness.node.hex_count_calls(), 1);

    harness.enter_phase("steady state, with a node that rejects integers");
    harness.inject(&refusing(serde_json::Value::is_u64)).await;
    harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    let integers = || harness.node.polls() - harness.node.hex_count_calls();
    let before = integers();
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    assert_eq!(integers(), before);
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

/// Replaces the result by that of a window which ends `blocks` later.
fn shift_window(result: &mut serde_json::Value, blocks: i64) {
    *result = chain_model::history(newest_of(result).checked_add_signed(blocks).unwrap(), 1);
}

/// Blocks by which the head of a reply is moved, from the number of earlier calls.
type Shift = fn(i64) -> i64;

/// Returns a fault that moves the head by `shift(n)` blocks, where n is the number of earlier calls.
fn shifted_heads(shift: impl Fn(i64) -> i64 + Send + Sync + 'static) -> Fault {
    let calls = AtomicI64::new(0);
    Fault::result(move |result| shift_window(result, shift(calls.fetch_add(1, Ordering::Relaxed))))
}

/// Checks that single implausible heads are never served.
async fn single_wrong_heads(
    run: TestRun,
    settings: ChainSettings,
    reason: &'static str,
    shift: Shift,
) {
    let harness = Harness::start(&run, &settings, &[&shifted_heads(shift)]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        let first = harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
        harness.inject(&shifted_heads(shift)).await;
        let newest = Cell::new(first.newest);
        let check = |read: &Suggestion| {
            assert_fresh(read);
            let served = read.as_ref().unwrap();
            let possible = newest.replace(served.newest)..=harness.model.head();
            assert!(possible.contains(&served.newest), "{served:?}");
        };
        for _ in 0..4 {
            harness.wait_for_attempt(0, reason, check).await;
        }
        harness.recover(recovery, Duration::ZERO).await;
    }
    harness.check_outcomes(&["ok", reason]).await;
    harness.finish().await;
}

/// Checks that a permanent jump of the head is accepted at the third poll, in both directions.
async fn permanent_jump(run: TestRun, settings: ChainSettings, blocks: i64) {
    let fault = Fault::result(move |result| shift_window(result, blocks));
    let (there, back) =
        if blocks < 0 { ("head_behind", "head_ahead") } else { ("head_ahead", "head_behind") };
    let harness = Harness::start(&run, &settings, &[&fault]).await;
    let is_elsewhere = |read: &Suggestion| {
        let newest = read.as_ref().map_or(0, |served| served.newest);
        newest.abs_diff(harness.model.head()) > blocks.unsigned_abs() / 2 && newest > 0
    };
    harness.enter_phase("start");
    harness.wait_until("elsewhere", async || is_elsewhere(&harness.read().await)).await;
    assert_eq!(harness.count(0, there).await + harness.count(0, back).await, 0);

    for [_, recovery] in PHASES {
        let before = harness.count(0, back).await;
        harness.clear_faults(recovery).await;
        harness.wait_until("back", async || !is_elsewhere(&harness.read().await)).await;
        harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
        assert_eq!(harness.count(0, back).await, before + 3);
        if recovery == "recovery" {
            break;
        }

        harness.enter_phase("steady state");
        harness.inject(&fault).await;
        harness
            .wait_until("elsewhere", async || {
                let read = harness.read().await;
                assert_fresh(&read);
                is_elsewhere(&read)
            })
            .await;
        assert_eq!(harness.count(0, there).await, 3);
    }
    let log = harness.finish().await;
    assert_eq!(log.matches("suspicious reply confirmed").count(), 3);
}

/// Checks that a jump of the head is accepted at once if a second upstream confirms it.
async fn reset_at_both_upstreams(run: TestRun, settings: ChainSettings) {
    let settings = ChainSettings { urls: Urls::Two, ..settings };
    let harness = Harness::start_fresh(&run, &settings).await;
    for proxy in &harness.proxies {
        proxy.switch(Fault::result(|result| shift_window(result, -10_000))).await;
    }
    harness
        .wait_until("the lower head", async || {
            harness.read().await.unwrap().newest < harness.model.head() - 5000
        })
        .await;
    // The proxies are not switched at the same time, so one poll may have seen different heads.
    let behind = [harness.count(0, "head_behind").await, harness.count(1, "head_behind").await];
    assert!(behind[0] <= 2 && behind[1] == 1, "{behind:?}");
    harness.recover("recovery", Duration::ZERO).await;
    harness.finish().await;
}

/// Checks that implausible heads are never accepted if they do not follow each other.
async fn erratic_heads(run: TestRun, settings: ChainSettings, reason: &'static str, step: i64) {
    let harness = Harness::start_fresh(&run, &settings).await;
    harness.inject(&shifted_heads(move |call| step * (call % 50 + 1))).await;
    harness.wait_for_attempt(0, reason, assert_fresh).await;
    harness.check_expiry().await;
    harness.recover("recovery", Duration::ZERO).await;
    harness.check_outcomes(&["ok", reason]).await;
    harness.finish().await;
}

/// Checks that a node that is one block late stays the first upstream of each poll.
async fn beyond_head(run: TestRun, settings: ChainSettings) {
    let fault = Fault::error(-32000, "request beyond head block");
    let settings = ChainSettings { urls: Urls::Two, ..settings };
    let harness = Harness::start(&run, &settings, &[&fault]).await;
    let counts = async || [harness.count(0, "beyond_head").await, harness.count(1, "ok").await];
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        harness.inject(&fault).await;
        harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
        let before = counts().await;
        harness.check_stays_fresh(&settings).await;
        let after = counts().await;
        let [first, second] = [after[0] - before[0], after[1] - before[1]];
        let counts = harness.counts().await;
        assert!(first >= 3 && first.abs_diff(second) <= 2, "from {before:?} to {counts:?}");
        harness.clear_faults(recovery).await;
        harness.wait_for_attempt(0, "ok", assert_fresh).await;
        harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
    }
    harness.finish().await;
}

/// Checks that the second URL provides the data while the first is unreachable.
async fn unreachable(run: TestRun, settings: ChainSettings, urls: Urls) {
    let settings = ChainSettings { urls, ..settings };
    let refused = Fault::everywhere(Kind::Refuse);
    // The first proxy of two is the plain port.
    let plain_port = Fault::everywhere(Kind::Pass);
    let faults = [&plain_port, &refused];
    let faults = if urls == Urls::AfterPlainPort { &faults[..] } else { &faults[1..] };
    let harness = Harness::start(&run, &settings, faults).await;
    harness.enter_phase("start");
    for upstream in [0, 1] {
        harness.wait_for_attempt(upstream, "unreachable", assert_no_data).await;
    }
    for [_, recovery] in PHASES {
        harness.recover(recovery, Duration::ZERO).await;
        harness.check_stays_fresh(&settings).await;
        if recovery == "recovery" {
            break;
        }
        harness.enter_phase("steady state");
        harness.proxies.last().unwrap().switch(refused.clone()).await;
        harness.wait_for_attempt(1, "unreachable", |_| {}).await;
        harness.check_expiry().await;
    }
    assert_eq!(harness.count(0, "ok").await, 0);
    harness.finish().await;
}

/// Checks that dead pooled connections cost one attempt.
async fn dead_pool(run: TestRun, settings: ChainSettings) {
    let fault = Fault::everywhere(Kind::DeadPool);
    let harness = Harness::start(&run, &settings, &[&fault]).await;
    harness.enter_phase("start");
    harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
    harness.recover("recovery after the start", Duration::ZERO).await;
    harness.enter_phase("steady state");
    let connections = harness.proxies[0].connection_count();
    harness.inject(&fault).await;
    harness.wait_for_attempt(0, "timeout", assert_fresh).await;
    harness.check_stays_fresh(&settings).await;
    assert!(harness.proxies[0].connection_count() > connections);
    harness.clear_faults("recovery").await;
    harness.check_stays_fresh(&settings).await;
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

/// Checks that a silent WebSocket does not delay polling.
async fn silent_subscription(run: TestRun, settings: ChainSettings) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = silent.local_addr().unwrap();
    let more = format!("ws_urls = [\"ws://{address}/canary-path?key=canary-query\"]");
    let settings = ChainSettings { more, ..settings };
    let harness = Harness::start_fresh(&run, &settings).await;
    harness.check_stays_fresh(&settings).await;
    let (connection, _) = silent.accept().expect("a connection attempt");
    drop((connection, silent));
    harness.enter_phase("recovery");
    harness.check_stays_fresh(&settings).await;
    harness.check_outcomes(&["ok"]).await;
    assert!(harness.finish().await.contains("block announcements lost"));
}

/// Checks a chain with five blocks per configured block time, from the start or suddenly.
async fn fast(run: TestRun, settings: ChainSettings) {
    let block = Duration::from_millis(250);
    let started = OnceLock::new();
    let faster = Fault::result(move |result| {
        let elapsed = started.get_or_init(Instant::now).elapsed();
        // Four more blocks per block time.
        shift_window(result, whole_blocks(elapsed, block / 4).cast_signed());
    });
    for (phase, real_block) in [("start", block / 5), ("steady state", block)] {
        let settings = ChainSettings { block, real_block: Some(real_block), ..settings.clone() };
        let harness = Harness::start(&run, &settings, &[]).await;
        harness.enter_phase(phase);
        harness.wait_until_fresh(Window::ending_with, Duration::ZERO).await;
        if real_block == block {
            harness.inject(&faster).await;
        }
        for _ in 0..3 {
            harness.check_stays_fresh(&settings).await;
        }
        harness.check_outcomes(&["ok"]).await;
        harness.finish().await;
    }
}

/// Checks that a chain with one block per five configured block times is not labelled stale.
async fn slow(run: TestRun, settings: ChainSettings) {
    let real_block = Some(settings.block * 5);
    let more = "stall_after = \"1s\"".into();
    let settings = ChainSettings { real_block, more, ..settings };
    let harness = Harness::start(&run, &settings, &[]).await;
    harness.enter_phase("start");
    harness.wait_until_fresh(Window::ending_with, settings.block).await;
    harness.enter_phase("steady state");
    for _ in 0..4 {
        harness.check_stays_fresh(&settings).await;
    }
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

/// Returns `observed_at` minus the real time, in seconds.
async fn wall_clock_offset(harness: &Harness) -> i64 {
    let market = harness.get("/v1/a/fee-market").await.json();
    let observed = humantime::parse_rfc3339(market["observed_at"].as_str().unwrap()).unwrap();
    match observed.duration_since(SystemTime::now()) {
        Ok(ahead) => ahead.as_secs().cast_signed(),
        Err(behind) => -behind.duration().as_secs().cast_signed(),
    }
}

async fn clock_steps(run: TestRun, settings: ChainSettings) {
    let clock = WallClock::new(&format!("faults-{}", run.number));
    let settings = ChainSettings { variables: clock.environment(), ..settings };
    let refused = Fault::everywhere(Kind::Refuse);
    let harness = Harness::start(&run, &settings, &[&refused]).await;
    harness.enter_phase("start");
    for offset in ["-1h", "+1h"] {
        clock.step(offset);
        harness.wait_for_attempt(0, "unreachable", assert_no_data).await;
    }
    harness.recover("recovery after the start", Duration::ZERO).await;

    harness.enter_phase("steady state");
    for (offset, seconds) in [("-1h", -3600), ("+1h", 3600), ("+0", 0), ("+1d", 86_400)] {
        clock.step(offset);
        harness
            .wait_until("the step", async || {
                let read = harness.read().await;
                assert_fresh(&read);
                assert!(read.unwrap().age <= 1);
                (wall_clock_offset(&harness).await - seconds).abs() <= 5
            })
            .await;
        harness.check_stays_fresh(&settings).await;
    }
    // Steps of the wall clock do not change the age of data.
    for offset in ["+1h", "-1h"] {
        harness.inject(&refused).await;
        harness.wait_for_attempt(0, "unreachable", |_| {}).await;
        clock.step(offset);
        harness.check_expiry().await;
        harness.recover("recovery", Duration::ZERO).await;
    }
    harness.finish().await;
}

/// Checks that client requests during an outage cause no upstream calls.
async fn stampede(run: TestRun, settings: ChainSettings) {
    const CLIENTS: usize = 300;
    const REQUESTS: usize = 5;
    let fault = Fault::fixed(503, "down").with_scope(Scope::All);
    let harness = Harness::start(&run, &settings, &[&fault]).await;
    let url = harness.url(0, SUGGESTION);
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        harness.inject(&fault).await;
        harness.wait_for_attempt(0, "http_status", |_| {}).await;
        let (started, before) = (Instant::now(), harness.proxies[0].call_count());
        let clients = (0..CLIENTS).map(|_| {
            let (client, url) = (harness.client().clone(), url.clone());
            tokio::spawn(async move {
                for _ in 0..REQUESTS {
                    let status = client.get(&url).send().await.unwrap().status();
                    assert!([200, 503].contains(&status.as_u16()), "{status}");
                }
            })
        });
        futures_util::future::try_join_all(clients).await.unwrap();
        harness.wait_for_attempt(0, "http_status", |_| {}).await;
        let calls = harness.proxies[0].call_count() - before;
        let polls = whole_blocks(started.elapsed(), settings.block) + 2;
        assert!(calls as u64 <= polls, "{calls} calls in the time of {polls} polls");
        harness.recover(recovery, Duration::ZERO).await;
    }
    harness.finish().await;
}

/// Checks that redirects are not followed.
async fn redirect(run: TestRun, settings: ChainSettings, status: u16) {
    let inner = TcpListener::bind("127.0.0.1:0").unwrap();
    inner.set_nonblocking(true).unwrap();
    let location = format!("http://{}/canary-inner", inner.local_addr().unwrap());
    let fault = Fault::rewrite(move |_, _| Reply::new(status, "").with("location", &*location));
    let rejected = Rejected::new("http_status", fault.with_scope(Scope::All));
    check_rejected(&run, &settings, &rejected).await;
    assert_eq!(inner.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// Returns a fault that repeats the first result of the node.
fn frozen_head() -> Fault {
    let first = OnceLock::new();
    Fault::result(move |result| {
        let newest = *first.get_or_init(|| newest_of(result));
        *result = chain_model::history(newest, 1);
    })
}

/// Checks that a stalled head is labelled after `stall_after` and never expires.
async fn stalled_head(run: TestRun, settings: ChainSettings) {
    let settings = ChainSettings { more: "stall_after = \"1s\"".into(), ..settings };
    let harness = Harness::start(&run, &settings, &[&frozen_head()]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        harness.wait_until("served", async || harness.read().await.is_ok()).await;
        assert_fresh(&harness.read().await);
        if phase == "steady state" {
            harness.inject(&frozen_head()).await;
        }
        let started = Instant::now();
        harness.wait_until("labelled", async || harness.read().await.unwrap().is_stale).await;
        let took = started.elapsed();
        assert!(took <= SECOND + SLACK, "labelled after {took:?}");
        let stalled = harness.read().await.unwrap();
        harness.check_reported_status("stale", stalled.newest.into()).await;
        let until = Instant::now() + MAX_AGE;
        harness
            .wait_until("longer than data may be old", async || {
                let served = harness.read().await.unwrap();
                assert!(served.is_stale && served.age <= 1, "{served:?}");
                assert_eq!(served.newest, stalled.newest);
                Instant::now() >= until
            })
            .await;
        harness.recover(recovery, Duration::ZERO).await;
    }
    harness.check_outcomes(&["ok", "head_ahead"]).await;
    harness.finish().await;
}

async fn one_of_two_heads_stalled(run: TestRun, settings: ChainSettings) {
    let more = "stall_after = \"3s\"".into();
    let settings = ChainSettings { urls: Urls::Two, more, ..settings };
    let harness = Harness::start(&run, &settings, &[&frozen_head()]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        if phase == "steady state" {
            harness.wait_for_attempt(0, "ok", assert_fresh).await;
            harness.inject(&frozen_head()).await;
        }
        let before = harness.count(0, "head_stalled").await;
        harness
            .wait_until("a poll of the second URL", async || {
                if let Ok(served) = harness.read().await {
                    assert!(!served.is_stale, "{served:?}");
                }
                harness.count(0, "head_stalled").await > before
            })
            .await;
        harness.check_stays_fresh(&settings).await;
        harness.recover(recovery, Duration::ZERO).await;
    }
    harness.finish().await;
}
