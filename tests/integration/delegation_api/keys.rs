//! Keys: the configured one, a caller's own, and none.

use tokio::task::JoinSet;

use super::{Stage, VAULT, check, check_at_api, source};
use crate::delegate_api::DelegateApi;
use crate::exchange::exchange;
use crate::message::Message;
use crate::raw::{Connection, get};

const MINE: &str = "X-API-KEY: mine\r\n";

/// The keys that it was sent; "none" where it was sent none.
fn keys(api: &DelegateApi) -> Vec<String> {
    let key = |key: Option<String>| key.unwrap_or_else(|| "none".into());
    api.asked().into_iter().map(|asked| key(asked.key)).collect()
}

/// Asks for 60 look-ups of which none is like another, 20 at a time.
async fn sixty(stage: &Stage, headers: &'static str) -> Vec<Message> {
    let service = stage.service.address();
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            let mut answers = Vec::new();
            for round in 0..3 {
                let request = get(&check(1000 + client * 10 + round), headers);
                answers.push(exchange(service, request.as_bytes()).await.0.unwrap());
            }
            answers
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

#[tokio::test]
async fn the_configured_key_is_sent_and_there_is_no_limit_then() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "api_key = \"ours\"").await;
    for answer in sixty(&stage, "").await {
        assert_eq!((answer.status(), source(&answer)), (200, "api"), "{answer:#?}");
    }
    assert_eq!(keys(&api), ["ours"; 60]);
    // What is known by then is used again.
    assert_eq!(stage.get(&check(1000)).await.status(), 200);
    assert_eq!(api.count(), 60);
}

#[tokio::test]
async fn no_key_is_sent_where_there_is_none() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "api_key = \"\"").await;
    for headers in ["", "X-API-KEY:\r\n", "X-API-KEY:   \r\n", "X-API-KEY:\r\nX-API-KEY:\r\n"] {
        let answer = stage.get_with(&check(api.count()), headers).await;
        assert_eq!((answer.status(), answer.header("age")), (200, "0"), "{headers:?}");
    }
    // An empty one counts as none for everything else too.
    assert_eq!(stage.get_with(&check(0), "X-API-KEY:\r\n").await.status(), 200);
    assert_eq!(keys(&api), ["none"; 4]);
}

#[tokio::test]
async fn a_callers_key_goes_on_in_the_place_of_the_configured_one() {
    let api = DelegateApi::start().await;
    for more in ["api_key = \"ours\"", ""] {
        let stage = Stage::before(&api.url(), "api", more).await;
        let path = format!("/registry/v2/{VAULT}");
        for name in ["X-API-KEY", "x-api-key", "X-Api-Key"] {
            let answer = stage.get_with(&path, &format!("{name}: mine-{name}\r\n")).await;
            assert_eq!((answer.status(), source(&answer)), (200, "api"));
            assert_eq!(keys(&api).last(), Some(&format!("mine-{name}")));
        }
        let answer = stage.get_with(&path, "X-API-KEY:\r\nX-API-KEY: other\r\n").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(keys(&api).last().unwrap(), "other");
        assert_eq!(stage.get(&path).await.status(), 200);
        let configured = if more.is_empty() { "none" } else { "ours" };
        assert_eq!(keys(&api).last().unwrap(), configured);
    }
    assert_eq!(api.count(), 10);
}

#[tokio::test]
async fn what_else_a_caller_sends_does_not_go_on() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    let headers = "Cookie: a=b\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\n\
        Forwarded: for=192.0.2.1\r\nOrigin: http://a.example\r\nReferer: http://a.example/\r\n\
        User-Agent: somebody\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\n\
        If-None-Match: *\r\nContent-Type: text/plain\r\nX-Request-Id: a\r\nTraceparent: 00-1\r\n\
        Connection: x-api-key\r\nX-API-KEY: mine\r\n";
    let answer = stage.get_with(&check(1), headers).await;
    assert_eq!((answer.status(), answer.text()), (200, "false"));
    assert_eq!(keys(&api), ["mine"]);
}

#[tokio::test]
async fn two_keys_are_none() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api-then-chain", "api_key = \"ours\"").await;
    for headers in ["X-API-KEY: a\r\nX-API-KEY: b\r\n", "X-API-KEY: a\r\nx-api-key: a\r\n"] {
        for path in [check(1), format!("/registry/v2/{VAULT}")] {
            let answer = stage.get_with(&path, headers).await;
            assert_eq!(answer.outcome(), (400, "invalid_parameter".into()));
            assert_eq!(answer.problem()["detail"], "`X-API-KEY` must be given once");
        }
    }
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn a_callers_key_does_not_use_the_budget_of_those_without() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    for answer in sixty(&stage, MINE).await {
        assert_eq!(answer.status(), 200, "{answer:#?}");
    }
    assert_eq!(keys(&api), ["mine"; 60]);
    for number in 0..25 {
        assert_eq!(stage.get(&check(number)).await.status(), 200);
    }
    assert_eq!(stage.get(&check(25)).await.outcome(), (429, "rate_limited".into()));
    assert_eq!(stage.get_with(&check(25), MINE).await.status(), 200);
    // That a key's own limit is reached says nothing of the others.
    api.say_with("check/all", 429, &[("retry-after", "60")], "{\"error\":\"of this key\"}");
    let answer = stage.get_with(&check(26), MINE).await;
    assert_eq!((answer.status(), answer.header("retry-after")), (429, "60"));
    api.say("check/all", "true");
    assert_eq!(stage.get_with(&check(26), "X-API-KEY: other\r\n").await.status(), 200);
    let answer = stage.get(&check(27)).await;
    assert!(answer.header("retry-after").parse::<u64>().unwrap() <= 10, "{answer:#?}");
}

#[tokio::test]
async fn what_is_answered_to_a_callers_key_is_that_callers_alone() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"1h\"").await;
    let ask = async |headers: &str| {
        let answer = stage.get_with(&check(1), headers).await;
        assert_eq!(answer.header("vary"), "x-api-key");
        let lifetime = answer.header("cache-control").to_owned();
        (answer.text().to_owned(), answer.has("age"), lifetime)
    };
    let kept = (true, "public, max-age=3600".to_owned());
    let not_kept = (false, "no-store".to_owned());
    let expected = |text: &str, (has_age, lifetime): &(bool, String)| {
        (text.to_owned(), *has_age, lifetime.clone())
    };
    // Neither is it kept,
    api.say("check/all", "true");
    assert_eq!(ask(MINE).await, expected("true", &not_kept));
    api.say("check/all", "false");
    assert_eq!(ask("").await, expected("false", &kept));
    // nor is it what was kept.
    api.say("check/all", "true");
    assert_eq!(ask(MINE).await, expected("true", &not_kept));
    assert_eq!(ask(MINE).await, expected("true", &not_kept));
    assert_eq!(ask("").await, expected("false", &kept));
    assert_eq!(keys(&api), ["mine", "none", "mine", "mine"]);
}

#[tokio::test]
async fn look_ups_with_keys_of_their_own_share_no_request() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.hold("check/all");
    let mut connections = Vec::new();
    for (number, headers) in ["", MINE, MINE, "X-API-KEY: other\r\n", ""].into_iter().enumerate() {
        let mut connection = Connection::open(stage.service.address()).await;
        connection.send(get(&check(1), headers)).await;
        connections.push(connection);
        // The last one waits for what the first one has asked for.
        api.wait_for((number + 1).min(4)).await;
    }
    api.release();
    for connection in &mut connections {
        assert_eq!(connection.next().await.unwrap().unwrap().status, 200);
    }
    assert_eq!(keys(&api), ["none", "mine", "mine", "other"]);
    assert_eq!(api.last(), check_at_api(1));
}
