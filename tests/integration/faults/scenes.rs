//! The faults that need a course of their own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use super::rig::{MAX_AGE, Rig, SLACK, SUGGESTION, Setup, Stage, Suggestion, Urls};
use super::truth::{self, Window, newest_of, whole};
use super::{Case, Refused, SECOND, fixed, play_refused};
use crate::fault_proxy::{Fault, Reply, Scope};
use crate::wall_clock::WallClock;

const FEE_HISTORY: &str = "eth_feeHistory";

pub(super) fn cases() -> Vec<Case> {
    vec![
        // The longest comes first.
        Case::own(23, "429 for a day", |stage, setup| {
            Box::pin(rate_limited_for_a_day(stage, setup))
        }),
        Case::own(15, "integer counts alone", |stage, setup| {
            Box::pin(integer_counts(stage, setup))
        }),
        Case::own(17, "every other reply lags", |stage, setup| {
            Box::pin(leaves_the_course(stage, setup, "head_behind", |call| call % 2 * -3))
        }),
        Case::own(17, "a reset", |stage, setup| Box::pin(moves_for_good(stage, setup, -10_000))),
        Case::own(17, "a reset that two URLs tell of", |stage, setup| {
            Box::pin(reset_of_two(stage, setup))
        }),
        Case::own(17, "lower heads that leap about", |stage, setup| {
            Box::pin(leaps_about(stage, setup, "head_behind", -1000))
        }),
        Case::own(18, "every fourth reply is far ahead", |stage, setup| {
            Box::pin(leaves_the_course(stage, setup, "head_ahead", |call| {
                if call % 4 == 3 { 1_000_000 } else { 0 }
            }))
        }),
        Case::own(18, "far ahead for good", |stage, setup| {
            Box::pin(moves_for_good(stage, setup, 1_000_000))
        }),
        Case::own(18, "higher heads that leap about", |stage, setup| {
            Box::pin(leaps_about(stage, setup, "head_ahead", 1_000_000))
        }),
        Case::own(20, "beyond head, and there is a second URL", |stage, setup| {
            Box::pin(beyond_head(stage, setup))
        }),
        Case::own(28, "a host that is in no DNS", |stage, setup| {
            Box::pin(after_an_unreachable(stage, Setup { urls: Urls::AfterNoHost, ..setup }))
        }),
        Case::own(28, "https at a plain port", |stage, setup| {
            Box::pin(after_an_unreachable(stage, Setup { urls: Urls::AfterPlainPort, ..setup }))
        }),
        Case::own(28, "pooled connections that are dead", |stage, setup| {
            Box::pin(dead_pool(stage, setup))
        }),
        Case::own(31, "a silent subscription", |stage, setup| {
            Box::pin(silent_subscription(stage, setup))
        }),
        Case::own(32, "a chain five times as fast", |stage, setup| Box::pin(fast(stage, setup))),
        Case::own(32, "a chain a fifth as fast", |stage, setup| Box::pin(slow(stage, setup))),
        Case::own(33, "a wall clock that steps", |stage, setup| {
            Box::pin(clock_steps(stage, setup))
        }),
        Case::own(34, "hundreds of clients", |stage, setup| Box::pin(stampede(stage, setup))),
        Case::own(35, "a redirect for good", |stage, setup| Box::pin(redirect(stage, setup, 301))),
        Case::own(35, "a redirect of the call", |stage, setup| {
            Box::pin(redirect(stage, setup, 307))
        }),
        Case::own(37, "a head that stands", |stage, setup| Box::pin(head_stands(stage, setup))),
        Case::own(37, "a head that stands, and there is a second URL", |stage, setup| {
            Box::pin(one_head_of_two_stands(stage, setup))
        }),
    ]
}

async fn rate_limited_for_a_day(stage: Stage, setup: Setup) {
    let most = Duration::from_mins(1);
    let rig = Rig::start(&stage, setup, &[]).await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.phase("steady state");
    let calls = rig.proxies[0].times(FEE_HISTORY).len();
    let fault = Fault::rewrite(|_, _| Reply::new(429, "").with("retry-after", "86400"));
    rig.break_with(&fault, Scope::FeeHistory).await;
    rig.rises(0, "rate_limited", |_| {}).await;
    let last = rig.read().await.served.unwrap();
    rig.wears_out(&last).await;

    rig.phase("recovery");
    rig.lift().await;
    let mut ticks = tokio::time::interval(SECOND / 4);
    let refused = rig.proxies[0].times(FEE_HISTORY)[calls];
    while rig.proxies[0].times(FEE_HISTORY).len() < calls + 2 {
        assert!(refused.elapsed() < most * 11 / 10 + SLACK, "not asked again");
        ticks.tick().await;
    }
    let pause = rig.proxies[0].times(FEE_HISTORY)[calls + 1] - refused;
    assert!(pause >= most, "asked again after {pause:?}");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.end().await;
}

async fn integer_counts(stage: Stage, setup: Setup) {
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
    let rig = Rig::start(&stage, setup, &[(quantities.clone(), Scope::FeeHistory)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        rig.break_with(&quantities, Scope::FeeHistory).await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        rig.rises(0, "ok", Suggestion::is_fresh).await;
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    // What was learned at the start is remembered.
    assert_eq!(rig.proxies[0].quantities(), 1);

    rig.phase("steady state, with another node that takes no integers");
    rig.break_with(&refusing(serde_json::Value::is_u64), Scope::FeeHistory).await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.rises(0, "ok", Suggestion::is_fresh).await;
    let integers = || rig.proxies[0].times(FEE_HISTORY).len() - rig.proxies[0].quantities();
    let before = integers();
    rig.rises(0, "ok", Suggestion::is_fresh).await;
    assert_eq!(integers(), before);
    rig.has_only_counted(&["ok"]).await;
    rig.end().await;
}

/// The truth of a window that ends this many blocks further.
fn moved(result: &mut serde_json::Value, blocks: i64) {
    *result = truth::history(newest_of(result).checked_add_signed(blocks).unwrap(), 1);
}

/// A fault that moves the head of each call by what `shift` makes of the calls before.
fn shifting(shift: fn(i64) -> i64) -> Fault {
    let calls = AtomicI64::new(0);
    Fault::result(move |result| moved(result, shift(calls.fetch_add(1, Ordering::Relaxed))))
}

/// Single heads that are off are never served.
async fn leaves_the_course(
    stage: Stage,
    setup: Setup,
    reason: &'static str,
    shift: fn(i64) -> i64,
) {
    let rig = Rig::start(&stage, setup, &[(shifting(shift), Scope::FeeHistory)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        let first = rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        rig.break_with(&shifting(shift), Scope::FeeHistory).await;
        let newest = Mutex::new(first.newest);
        for _ in 0..4 {
            rig.rises(0, reason, |read| {
                read.is_fresh();
                let served = read.served.as_ref().unwrap();
                let mut newest = newest.lock().unwrap();
                assert!((*newest..=rig.truth.head()).contains(&served.newest), "{served:?}");
                *newest = served.newest;
            })
            .await;
        }
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.has_only_counted(&["ok", reason]).await;
    rig.end().await;
}

/// A chain that went elsewhere is followed from the third poll on, there and back.
async fn moves_for_good(stage: Stage, setup: Setup, blocks: i64) {
    let fault = Fault::result(move |result| moved(result, blocks));
    let (there, back) =
        if blocks < 0 { ("head_behind", "head_ahead") } else { ("head_ahead", "head_behind") };
    let is_elsewhere = |rig: &Rig, read: &Suggestion| {
        let newest = read.served.as_ref().map_or(0, |served| served.newest);
        newest.abs_diff(rig.truth.head()) > blocks.unsigned_abs() / 2 && newest > 0
    };
    let rig = Rig::start(&stage, setup, &[(fault.clone(), Scope::FeeHistory)]).await;
    rig.phase("start");
    rig.until("elsewhere", async || is_elsewhere(&rig, &rig.read().await)).await;
    assert_eq!(rig.count(0, there).await + rig.count(0, back).await, 0);

    for phase in ["recovery after the start", "recovery"] {
        let before = rig.count(0, back).await;
        rig.phase(phase);
        rig.lift().await;
        let is_back = async || !is_elsewhere(&rig, &rig.read().await);
        rig.until("back", is_back).await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        assert_eq!(rig.count(0, back).await, before + 3);
        if phase == "recovery" {
            break;
        }

        rig.phase("steady state");
        rig.break_with(&fault, Scope::FeeHistory).await;
        rig.until("elsewhere", async || {
            let read = rig.read().await;
            read.is_fresh();
            is_elsewhere(&rig, &read)
        })
        .await;
        assert_eq!(rig.count(0, there).await, 3);
    }
    let log = rig.end().await;
    assert_eq!(log.matches("an unexpected newest block is confirmed").count(), 3);
}

/// When a second URL says the same the chain is followed at once.
async fn reset_of_two(stage: Stage, setup: Setup) {
    let setup = Setup { urls: Urls::Two, ..setup };
    let fault = Fault::result(move |result| moved(result, -10_000));
    let rig = Rig::start(&stage, setup, &[]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.phase("steady state");
    for proxy in &rig.proxies {
        proxy.switch(fault.clone(), Scope::FeeHistory).await;
    }
    rig.until("the lower head", async || {
        rig.read().await.served.unwrap().newest < rig.truth.head() - 5000
    })
    .await;
    // The proxies are not switched at one time, so one poll may have met one of each.
    let behind = [rig.count(0, "head_behind").await, rig.count(1, "head_behind").await];
    assert!(behind[0] <= 2 && behind[1] == 1, "{behind:?}");
    rig.phase("recovery");
    rig.lift().await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.end().await;
}

/// Claims of which none goes on where the last one was are never believed.
async fn leaps_about(stage: Stage, setup: Setup, reason: &'static str, step: i64) {
    let calls = AtomicI64::new(0);
    let fault = Fault::result(move |result| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        moved(result, step * (call % 50 + 1));
    });
    let rig = Rig::start(&stage, setup, &[]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.phase("steady state");
    rig.break_with(&fault, Scope::FeeHistory).await;
    rig.rises(0, reason, Suggestion::is_fresh).await;
    let last = rig.read().await.served.unwrap();
    rig.wears_out(&last).await;
    rig.phase("recovery");
    rig.lift().await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.has_only_counted(&["ok", reason]).await;
    rig.end().await;
}

/// A node that is a block late is asked first in every poll.
async fn beyond_head(stage: Stage, setup: Setup) {
    let fault = super::error(-32000, "request beyond head block");
    let setup = Setup { urls: Urls::Two, ..setup };
    let rig = Rig::start(&stage, setup.clone(), &[(fault.clone(), Scope::FeeHistory)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        rig.break_with(&fault, Scope::FeeHistory).await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        let before = [rig.count(0, "beyond_head").await, rig.count(1, "ok").await];
        rig.serves_on(&setup).await;
        let after = [rig.count(0, "beyond_head").await, rig.count(1, "ok").await];
        let [first, second] = [after[0] - before[0], after[1] - before[1]];
        let counts = rig.counts().await;
        assert!(first >= 3 && first.abs_diff(second) <= 2, "from {before:?} to {counts:?}");
        rig.phase("recovery");
        rig.lift().await;
        rig.rises(0, "ok", Suggestion::is_fresh).await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.end().await;
}

/// The first URL leads nowhere, the second serves as long as it can.
async fn after_an_unreachable(stage: Stage, setup: Setup) {
    let nobody = || (Fault::Refuse, Scope::All);
    let rig = Rig::start(&stage, setup.clone(), &[nobody(), nobody()]).await;
    rig.phase("start");
    let faulty = if setup.urls == Urls::AfterPlainPort { &rig.proxies[..1] } else { &[] };
    for proxy in faulty {
        proxy.switch(Fault::Pass, Scope::All).await;
    }
    for upstream in [0, 1] {
        rig.rises(upstream, "unreachable", Suggestion::is_no_data).await;
    }
    for phase in ["recovery after the start", "recovery"] {
        rig.phase(phase);
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        rig.serves_on(&setup).await;
        if phase == "recovery" {
            break;
        }
        rig.phase("steady state");
        rig.proxies.last().unwrap().switch(Fault::Refuse, Scope::All).await;
        rig.rises(1, "unreachable", |_| {}).await;
        let last = rig.read().await.served.unwrap();
        rig.wears_out(&last).await;
    }
    assert_eq!(rig.count(0, "ok").await, 0);
    rig.end().await;
}

/// What a dead connection costs is one attempt.
async fn dead_pool(stage: Stage, setup: Setup) {
    let rig = Rig::start(&stage, setup.clone(), &[(Fault::DeadPool, Scope::All)]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.lift().await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.phase("steady state");
    let connections = rig.proxies[0].connections();
    rig.break_with(&Fault::DeadPool, Scope::All).await;
    rig.rises(0, "timeout", Suggestion::is_fresh).await;
    rig.serves_on(&setup).await;
    assert!(rig.proxies[0].connections() > connections);
    rig.phase("recovery");
    rig.lift().await;
    rig.serves_on(&setup).await;
    rig.has_only_counted(&["ok"]).await;
    rig.end().await;
}

/// Nobody waits for what is announced over a WebSocket.
async fn silent_subscription(stage: Stage, setup: Setup) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = silent.local_addr().unwrap();
    let more = format!("ws_urls = [\"ws://{address}/canary-path?key=canary-query\"]");
    let setup = Setup { more, ..setup };
    let rig = Rig::start(&stage, setup.clone(), &[]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    rig.phase("steady state");
    rig.serves_on(&setup).await;
    let (connection, _) = silent.accept().expect("it was tried");
    drop((connection, silent));
    rig.phase("recovery");
    rig.serves_on(&setup).await;
    rig.has_only_counted(&["ok"]).await;
    assert!(rig.end().await.contains("new blocks are not announced"));
}

/// A chain with five blocks in the configured time of one, from the start and all of a sudden.
async fn fast(stage: Stage, setup: Setup) {
    let block = Duration::from_millis(250);
    let started = OnceLock::new();
    let faster = Fault::result(move |result| {
        let elapsed = started.get_or_init(Instant::now).elapsed();
        // Four further blocks for each.
        moved(result, whole(elapsed, block / 4).cast_signed());
    });
    for (phase, real_block) in [("start", block / 5), ("steady state", block)] {
        let setup = Setup { block, real_block: Some(real_block), ..setup.clone() };
        let rig = Rig::start(&stage, setup.clone(), &[]).await;
        rig.phase(phase);
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
        if real_block == block {
            rig.break_with(&faster, Scope::FeeHistory).await;
        }
        for _ in 0..3 {
            rig.serves_on(&setup).await;
        }
        rig.has_only_counted(&["ok"]).await;
        rig.end().await;
    }
}

/// A chain with one block in the configured time of five is polled in vain, and is not stale.
async fn slow(stage: Stage, setup: Setup) {
    let real_block = Some(setup.block * 5);
    let more = "stall_after = \"1s\"".into();
    let setup = Setup { real_block, more, ..setup };
    let rig = Rig::start(&stage, setup.clone(), &[]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, setup.block).await;
    rig.phase("steady state");
    for _ in 0..4 {
        rig.serves_on(&setup).await;
    }
    rig.has_only_counted(&["ok"]).await;
    rig.end().await;
}

/// How far the clock is off that the service tells people, in seconds.
async fn clock_error(rig: &Rig) -> i64 {
    let market = rig.process.get("/v1/a/fee-market").await.json();
    let observed = humantime::parse_rfc3339(market["observed_at"].as_str().unwrap()).unwrap();
    match observed.duration_since(SystemTime::now()) {
        Ok(ahead) => ahead.as_secs().cast_signed(),
        Err(behind) => -behind.duration().as_secs().cast_signed(),
    }
}

async fn clock_steps(stage: Stage, setup: Setup) {
    let clock = WallClock::new(&format!("faults-{}", stage.number));
    let setup = Setup { variables: clock.variables(), ..setup };
    let nobody = (Fault::Refuse, Scope::All);
    let rig = Rig::start(&stage, setup.clone(), &[nobody]).await;
    rig.phase("start");
    for offset in ["-1h", "+1h"] {
        clock.step(offset);
        rig.rises(0, "unreachable", Suggestion::is_no_data).await;
    }
    rig.phase("recovery after the start");
    rig.lift().await;
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;

    rig.phase("steady state");
    for (offset, seconds) in [("-1h", -3600), ("+1h", 3600), ("+0", 0), ("+1d", 86_400)] {
        clock.step(offset);
        rig.until("the step", async || {
            let read = rig.read().await;
            read.is_fresh();
            assert!(read.served.unwrap().age <= 1);
            (clock_error(&rig).await - seconds).abs() <= 5
        })
        .await;
        rig.serves_on(&setup).await;
    }
    // Nothing gets old, or young again, by a step.
    for offset in ["+1h", "-1h"] {
        rig.break_with(&Fault::Refuse, Scope::All).await;
        rig.rises(0, "unreachable", |_| {}).await;
        clock.step(offset);
        let last = rig.read().await.served.unwrap();
        rig.wears_out(&last).await;
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.end().await;
}

/// Clients that find nothing cause no call.
async fn stampede(stage: Stage, setup: Setup) {
    const CLIENTS: usize = 300;
    const REQUESTS: usize = 5;
    let fault = fixed(503, "down");
    let rig = Rig::start(&stage, setup.clone(), &[(fault.clone(), Scope::All)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        rig.break_with(&fault, Scope::All).await;
        rig.rises(0, "http_status", |_| {}).await;
        let (started, before) = (Instant::now(), rig.proxies[0].calls());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (client, url) = (rig.process.client().clone(), rig.process.url(SUGGESTION));
                tokio::spawn(async move {
                    for _ in 0..REQUESTS {
                        let status = client.get(&url).send().await.unwrap().status();
                        assert!([200, 503].contains(&status.as_u16()), "{status}");
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        rig.rises(0, "http_status", |_| {}).await;
        let calls = rig.proxies[0].calls() - before;
        let polls = whole(started.elapsed(), setup.block) + 2;
        assert!(calls as u64 <= polls, "{calls} calls in the time of {polls} polls");
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.end().await;
}

/// Where a redirect leads is never seen.
async fn redirect(stage: Stage, setup: Setup, status: u16) {
    let inner = TcpListener::bind("127.0.0.1:0").unwrap();
    inner.set_nonblocking(true).unwrap();
    let location = format!("http://{}/canary-inner", inner.local_addr().unwrap());
    let fault = Fault::rewrite(move |_, _| Reply::new(status, "").with("location", &*location));
    let refused = Refused {
        reason: "http_status",
        fault,
        scope: Scope::All,
        onset: None,
        gap: None,
        rest: Duration::ZERO,
    };
    play_refused(&stage, setup, &refused).await;
    assert_eq!(inner.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// A fault that says for ever what the node said first.
fn frozen() -> Fault {
    let first = OnceLock::new();
    Fault::result(move |result| {
        let newest = *first.get_or_init(|| newest_of(result));
        *result = truth::history(newest, 1);
    })
}

/// It is labelled from `stall_after` on, and served for ever.
async fn head_stands(stage: Stage, setup: Setup) {
    let setup = Setup { more: "stall_after = \"1s\"".into(), ..setup };
    let rig = Rig::start(&stage, setup, &[(frozen(), Scope::FeeHistory)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        rig.until("served", async || rig.read().await.served.is_ok()).await;
        let at_first = rig.read().await.served.unwrap();
        assert!(!at_first.is_stale, "{at_first:?}");
        if phase == "steady state" {
            rig.break_with(&frozen(), Scope::FeeHistory).await;
        }
        let started = Instant::now();
        rig.until("labelled", async || rig.read().await.served.unwrap().is_stale).await;
        let took = started.elapsed();
        assert!(took <= SECOND + SLACK, "labelled after {took:?}");
        let standing = rig.read().await.served.unwrap();
        rig.is_told_as("stale", standing.newest.into()).await;
        let until = Instant::now() + MAX_AGE;
        rig.until("longer than data may be old", async || {
            let served = rig.read().await.served.unwrap();
            assert!(served.is_stale && served.age <= 1, "{served:?}");
            assert_eq!(served.newest, standing.newest);
            Instant::now() >= until
        })
        .await;
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.has_only_counted(&["ok", "head_ahead"]).await;
    rig.end().await;
}

async fn one_head_of_two_stands(stage: Stage, setup: Setup) {
    let setup = Setup { urls: Urls::Two, more: "stall_after = \"3s\"".into(), ..setup };
    let rig = Rig::start(&stage, setup.clone(), &[(frozen(), Scope::FeeHistory)]).await;
    for phase in ["start", "steady state"] {
        rig.phase(phase);
        if phase == "steady state" {
            rig.rises(0, "ok", Suggestion::is_fresh).await;
            rig.break_with(&frozen(), Scope::FeeHistory).await;
        }
        let before = rig.count(0, "head_stands").await;
        rig.until("the second URL is asked", async || {
            if let Ok(served) = rig.read().await.served {
                assert!(!served.is_stale, "{served:?}");
            }
            rig.count(0, "head_stands").await > before
        })
        .await;
        rig.serves_on(&setup).await;
        rig.phase("recovery");
        rig.lift().await;
        rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    }
    rig.end().await;
}
