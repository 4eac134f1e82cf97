//! Faults that need checks of their own.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::harness::{
    BLOCK, ChainSettings, Harness, SUGGESTION, TestRun, Urls, assert_fresh, assert_no_data,
};
use super::{Expectation, PHASES, Scenario};
use crate::chain_model::{self, newest_of, whole_blocks};
use crate::fault_proxy::{Fault, Kind, Reply};
use crate::wall_clock::WallClock;

/// Builds a scenario that this function checks, with further arguments.
macro_rules! check {
    ($name:literal, $check:ident $(, $argument:expr)*) => {
        Scenario {
            name: $name.into(),
            expectation: Expectation::Custom(|run| Box::pin($check(run $(, $argument)*))),
        }
    };
}

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        // The longest scenario starts first.
        check!("a wall clock that steps", clock_steps),
        check!("only integer counts, then only quantities", count_formats),
        check!("far ahead for good", permanent_jump),
        check!("a host that does not resolve", unreachable, Urls::AfterUnresolvableHost),
        check!("https at a plain port", unreachable, Urls::AfterPlainPort),
        check!("dead pooled connections", dead_pool),
        check!("hundreds of clients", stampede),
        check!("a stalled head, with a second URL", one_of_two_heads_stalled),
    ]
}

/// Checks that the service remembers the format of the block count that the node accepts, until that changes.
async fn count_formats(run: TestRun) {
    let refusing = |is_refused: fn(&Value) -> bool| {
        Fault::rewrite(move |call, reply| {
            if is_refused(&call.json["params"][0]) {
                Reply::error(call, -32602, "invalid argument 0")
            } else {
                Reply::json(&reply)
            }
        })
    };
    let settings = ChainSettings::default();
    let harness = Harness::start(&run, &settings, &[&refusing(Value::is_string)]).await;
    harness.enter_phase("the node rejects quantities");
    harness.wait_until_fresh(Duration::ZERO).await;
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    assert_eq!(harness.node.hex_count_calls(), 1);

    harness.enter_phase("the node rejects integers");
    harness.inject(&refusing(Value::is_u64)).await;
    harness.wait_until_fresh(Duration::ZERO).await;
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    let integers = || harness.node.polls() - harness.node.hex_count_calls();
    let before = integers();
    harness.wait_for_attempt(0, "ok", assert_fresh).await;
    assert_eq!(integers(), before);
    harness.check_outcomes(&["ok"]).await;
    harness.finish().await;
}

/// Checks that a permanent jump of the head is accepted at the third poll, in both directions.
async fn permanent_jump(run: TestRun) {
    const BLOCKS: u64 = 1_000_000;
    let harness = Harness::start(&run, &ChainSettings::default(), &[]).await;
    let is_ahead = async || {
        let read = harness.read().await;
        assert_fresh(&read);
        read.unwrap().newest > harness.model.head() + BLOCKS / 2
    };
    harness.enter_phase("steady state");
    harness.wait_until_fresh(Duration::ZERO).await;
    let ahead =
        Fault::result(|result| *result = chain_model::history(newest_of(result) + BLOCKS, 1));
    harness.inject(&ahead).await;
    harness.wait_until("ahead", async || is_ahead().await).await;
    assert_eq!(harness.count(0, "head_ahead").await, 3);
    harness.clear_faults("recovery").await;
    harness.wait_until("back", async || !is_ahead().await).await;
    harness.wait_until_fresh(Duration::ZERO).await;
    assert_eq!(harness.count(0, "head_behind").await, 3);
    assert_eq!(harness.finish().await.matches("suspicious reply confirmed").count(), 2);
}

/// Checks that the second URL provides the data while the first is unreachable.
async fn unreachable(run: TestRun, urls: Urls) {
    let settings = ChainSettings { urls, ..ChainSettings::default() };
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

/// Checks that dead pooled connections cost one attempt.
async fn dead_pool(run: TestRun) {
    let fault = Fault::everywhere(Kind::DeadPool);
    let harness = Harness::start(&run, &ChainSettings::default(), &[&fault]).await;
    harness.enter_phase("start");
    harness.wait_until_fresh(Duration::ZERO).await;
    harness.recover("recovery after the start").await;
    harness.enter_phase("steady state");
    let connections = harness.proxies[0].connection_count();
    harness.inject(&fault).await;
    harness.wait_for_attempt(0, "timeout", assert_fresh).await;
    harness.check_stays_fresh().await;
    assert!(harness.proxies[0].connection_count() > connections);
    harness.clear_faults("recovery").await;
    harness.check_stays_fresh().await;
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

async fn clock_steps(run: TestRun) {
    let clock = WallClock::new(&format!("faults-{}", run.number));
    let settings =
        ChainSettings { variables: clock.environment(), leaps: true, ..ChainSettings::default() };
    let refused = Fault::everywhere(Kind::Refuse);
    let harness = Harness::start(&run, &settings, &[&refused]).await;
    harness.enter_phase("start");
    for offset in ["-1h", "+1h"] {
        clock.step(offset);
        harness.wait_for_attempt(0, "unreachable", assert_no_data).await;
    }
    harness.recover("recovery after the start").await;

    harness.enter_phase("steady state");
    for (offset, seconds, leaps) in
        [("-1h", -3600, 0), ("+1h", 3600, 1), ("+0", 0, 0), ("+1d", 86_400, 1)]
    {
        let expected = harness.leaps() + leaps;
        clock.step(offset);
        harness
            .wait_until("the step", async || {
                let read = harness.read().await.unwrap();
                assert!(read.age <= 1);
                // What was read before a step forward is stale until the next poll. A step back changes nothing.
                assert!(leaps == 1 || !read.is_stale, "{read:?} after {offset}");
                let is_over = harness.leaps() == expected && !read.is_stale;
                is_over && (wall_clock_offset(&harness).await - seconds).abs() <= 5
            })
            .await;
        harness.check_stays_fresh().await;
    }
    // Steps back do not change the age of data.
    for offset in ["+1h", "-1h"] {
        harness.inject(&refused).await;
        harness.wait_for_attempt(0, "unreachable", |_| {}).await;
        clock.step(offset);
        harness.check_expiry().await;
        harness.recover("recovery").await;
    }
    harness.finish().await;
}

/// Checks that client requests during an outage cause no upstream calls.
async fn stampede(run: TestRun) {
    const CLIENTS: usize = 300;
    const REQUESTS: usize = 5;
    let fault = Fault::fixed(503, "down").for_all_calls();
    let harness = Harness::start(&run, &ChainSettings::default(), &[&fault]).await;
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
        let polls = whole_blocks(started.elapsed(), BLOCK) + 2;
        assert!(calls as u64 <= polls, "{calls} calls in the time of {polls} polls");
        harness.recover(recovery).await;
    }
    harness.finish().await;
}

/// Returns a fault that repeats the first result of the node.
fn frozen_head() -> Fault {
    let first = OnceLock::new();
    Fault::result(move |result| {
        let newest = *first.get_or_init(|| newest_of(result));
        *result = chain_model::history(newest, 1);
    })
}

async fn one_of_two_heads_stalled(run: TestRun) {
    let variables = vec![("GAS_CHAINS__A__STALL_AFTER", "3s".to_owned())];
    let settings = ChainSettings { urls: Urls::Two, variables, ..ChainSettings::default() };
    let harness = Harness::start(&run, &settings, &[&frozen_head()]).await;
    for [phase, recovery] in PHASES {
        harness.enter_phase(phase);
        // At the start the head may have stalled before the first look.
        let mut before = 0;
        if phase == "steady state" {
            harness.wait_for_attempt(0, "ok", assert_fresh).await;
            before = harness.count(0, "head_stalled").await;
            harness.inject(&frozen_head()).await;
        }
        harness
            .wait_until("a poll of the second URL", async || {
                if let Ok(served) = harness.read().await {
                    assert!(!served.is_stale, "{served:?}");
                }
                harness.count(0, "head_stalled").await > before
            })
            .await;
        harness.check_stays_fresh().await;
        harness.recover(recovery).await;
    }
    harness.finish().await;
}
