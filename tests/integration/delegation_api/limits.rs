//! Look-ups that are the same, and an API that says that it is asked too often.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{HOT, Stage, VAULT, check, source};
use crate::delegate_api::DelegateApi;
use crate::raw::{Connection, get};

/// Asks for each path on a connection of its own, and holds the answers back until all are asked for.
async fn at_a_time(stage: &Stage, api: &DelegateApi, paths: &[String]) -> Vec<(u16, String)> {
    let before = api.count();
    let mut asking = JoinSet::new();
    let mut connections = Vec::new();
    for path in paths {
        let mut connection = Connection::open(stage.service.address()).await;
        // The service has accepted it.
        assert_eq!(connection.ask(get("/livez", "")).await.status, 200);
        connection.send(get(path, "")).await;
        connections.push(connection);
    }
    api.wait_for(before + 1).await;
    // Whatever was there before these has been read by then.
    for _ in 0..5 {
        assert_eq!(stage.get("/livez").await.status(), 200);
    }
    api.release();
    for (number, mut connection) in connections.into_iter().enumerate() {
        asking.spawn(async move {
            let answer = connection.next().await.unwrap().unwrap();
            (number, answer.status, answer.body)
        });
    }
    let mut answers = asking.join_all().await;
    answers.sort_unstable();
    answers.into_iter().map(|(_, status, body)| (status, body)).collect()
}

#[tokio::test]
async fn look_ups_for_the_same_at_a_time_are_one_request() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"0s\"").await;
    api.say("check/all", "true");
    api.hold("check/all");
    let [upper, lower] = [HOT.to_owned(), HOT.to_lowercase()];
    let paths: Vec<_> = (0..20)
        .map(|number| {
            let to = if number % 2 == 0 { &upper } else { &lower };
            format!("/registry/v2/check/all?to={to}&from={VAULT}")
        })
        .collect();
    assert_eq!(at_a_time(&stage, &api, &paths).await, vec![(200, "true".to_owned()); 20]);
    assert_eq!((api.count(), stage.count("api").await), (1, 1));
    assert_eq!(stage.count("shared").await, 19);
}

#[tokio::test]
async fn both_directions_of_a_list_at_a_time_are_one_request() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"0s\"").await;
    let to = format!("{{\"from\":\"{HOT}\",\"to\":\"{VAULT}\"}}");
    let from = format!("{{\"from\":\"{VAULT}\",\"to\":\"{HOT}\"}}");
    api.say(VAULT, format!("[{to},{from}]"));
    api.hold(VAULT);
    let paths = ["", "?direction=incoming", "?direction=outgoing", "?direction=incoming&a=b"];
    let paths = paths.map(|query| format!("/registry/v2/{VAULT}{query}"));
    let (to, from) = (format!("[{to}]"), format!("[{from}]"));
    let both = format!("[{},{}]", to.trim_matches(['[', ']']), from.trim_matches(['[', ']']));
    assert_eq!(
        at_a_time(&stage, &api, &paths).await,
        [both, to.clone(), from, to].map(|body| (200, body))
    );
    assert_eq!(api.count(), 1);
}

#[tokio::test]
async fn a_failure_is_told_to_all_that_asked_for_the_same_at_a_time() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.say_with("check/all", 500, &[], "{\"error\":\"no\"}");
    api.hold("check/all");
    let paths = vec![check(1); 10];
    let expected = vec![(500, "{\"error\":\"no\"}".to_owned()); 10];
    assert_eq!(at_a_time(&stage, &api, &paths).await, expected);
    assert_eq!(api.count(), 1);
}

#[tokio::test]
async fn an_api_that_is_asked_too_often_is_not_asked_again_before_it_says() {
    for (source_, code) in [("api", 429), ("api-then-chain", 200)] {
        let api = DelegateApi::start().await;
        let stage = Stage::before(&api.url(), source_, "").await;
        let said = "{\"error\":\"Too many requests\", \"limit\":25}";
        api.say_with("check/all", 429, &[("retry-after", "2")], said);
        let asked = Instant::now();
        let answer = stage.get(&check(1)).await;
        assert_eq!(answer.status(), code);
        if source_ == "api" {
            assert_eq!((answer.text(), source(&answer)), (said, "api"));
            assert_eq!(answer.header("retry-after"), "2");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        api.say("check/all", "false");
        let closed = Instant::now() + Duration::from_secs(2);
        let mut refusals = 0;
        let answer = loop {
            let answer = stage.get(&check(2 + refusals)).await;
            if source(&answer) == "api" {
                break answer;
            }
            if source_ == "api" {
                assert_eq!(answer.outcome(), (429, "rate_limited".into()));
                let wait = Duration::from_secs(answer.header("retry-after").parse().unwrap());
                assert!(
                    Instant::now() + wait + Duration::from_millis(250)
                        >= asked + Duration::from_secs(2)
                );
                assert!(wait <= Duration::from_secs(2));
            } else {
                assert_eq!((answer.status(), source(&answer)), (200, "chain"));
            }
            assert_eq!(api.count(), 1);
            refusals += 1;
            assert!(Instant::now() < closed + Duration::from_secs(5), "it is never asked again");
        };
        assert_eq!((answer.status(), answer.text()), (200, "false"));
        assert!(refusals > 0);
        let asked = api.asked();
        let between = asked[1].at.duration_since(asked[0].at);
        assert!(between >= Duration::from_millis(1990), "{between:?}");
    }
}

#[tokio::test]
async fn an_api_that_does_not_say_when_to_come_back_is_let_be_for_a_window() {
    for (status, headers, said) in [
        (429, &[][..], "{\"error\":\"Too many requests\"}"),
        (429, &[("content-type", "text/html")][..], "<h1>429</h1>"),
        (429, &[("retry-after", "in a while")][..], "{}"),
    ] {
        let api = DelegateApi::start().await;
        let stage = Stage::before(&api.url(), "api", "").await;
        api.say_with("check/all", status, headers, said);
        let answer = stage.get(&check(1)).await;
        if said.starts_with('<') {
            assert_eq!(answer.outcome(), (502, "upstream_invalid".into()));
        } else {
            assert_eq!((answer.status(), answer.text()), (429, said));
            assert_eq!(answer.header("retry-after"), "10");
        }
        let answer = stage.get(&check(2)).await;
        assert_eq!(answer.outcome(), (429, "rate_limited".into()));
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((9..=10).contains(&wait), "{wait}");
        assert_eq!(api.count(), 1);
    }
}

#[tokio::test]
async fn a_request_goes_on_when_whoever_asked_first_leaves() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.say("check/all", "true");
    api.hold("check/all");
    let mut first = Connection::open(stage.service.address()).await;
    first.send(get(&check(1), "")).await;
    api.wait_for(1).await;
    let mut second = Connection::open(stage.service.address()).await;
    assert_eq!(second.ask(get("/livez", "")).await.status, 200);
    second.send(get(&check(1), "")).await;
    drop(first);
    // Whatever came of that has come by then.
    for _ in 0..20 {
        assert_eq!(stage.get("/livez").await.status(), 200);
    }
    api.release();
    let answer = second.next().await.unwrap().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "true"));
    assert_eq!(api.count(), 1);
    // Nobody is left to wait for this one, but the next one to ask.
    api.hold("check/all");
    let mut only = Connection::open(stage.service.address()).await;
    only.send(get(&check(2), "")).await;
    api.wait_for(2).await;
    drop(only);
    api.release();
    assert_eq!(stage.get(&check(2)).await.text(), "true");
    assert_eq!(api.count(), 2);
}

#[tokio::test]
async fn nobody_waits_for_longer_than_one_request_takes_whoever_leaves() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "timeout = \"1s\"").await;
    api.hold("check/all");
    let mut leaving = Connection::open(stage.service.address()).await;
    leaving.send(get(&check(1), "")).await;
    api.wait_for(1).await;
    let began = Instant::now();
    let path = check(1);
    let patient = stage.get(&path);
    let leave = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        drop(leaving);
    };
    let (answer, ()) = tokio::join!(patient, leave);
    assert_eq!(answer.outcome(), (504, "upstream_timeout".into()));
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(api.count(), 1);
    api.release();
}

#[tokio::test]
async fn what_is_kept_is_used_while_the_api_is_let_be_and_does_not_try_it() {
    let api = DelegateApi::start().await;
    let more = "timeout = \"500ms\"\ncache_ttl = \"1h\"";
    let stage = Stage::before(&api.url(), "api-then-chain", more).await;
    api.say("check/all", "false");
    assert_eq!(source(&stage.get(&check(1)).await), "api");
    api.hold("check/all");
    let answer = stage.get(&check(2)).await;
    assert_eq!((source(&answer), answer.text()), ("chain", "true"));
    api.release();
    // Until it is tried again.
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut number = 3;
    loop {
        let kept = stage.get(&check(1)).await;
        assert_eq!((source(&kept), kept.text()), ("api", "false"));
        let answer = stage.get(&check(number)).await;
        if source(&answer) == "api" {
            break;
        }
        assert_eq!(answer.text(), "true");
        assert!(Instant::now() < deadline, "it is never tried again");
        number += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let asked = api.asked();
    let pause = asked[2].at.duration_since(asked[1].at);
    assert!(pause >= Duration::from_secs(10), "{pause:?}");
    assert!(pause < Duration::from_secs(13), "{pause:?}");
}
