//! What the API is asked, and what comes back of its answers.

use std::time::{Duration, Instant};

use alloy_primitives::hex;

use super::{CONTRACT, HOT, Stage, VAULT, address, check, source};
use crate::delegate_api::DelegateApi;
use crate::message::Message;
use crate::raw::PATIENCE;

/// Look-ups behind `/registry/v2/`, and what the API is asked; in braces the addresses, `v`, `h` and `c` in
/// lower case.
const TABLE: &[(&str, &str)] = &[
    ("{V}", "{V}?chainId=2020"),
    ("{v}?chainId=2020", "{V}?chainId=2020"),
    ("{V}?chainId=2021", "{V}?chainId=2021"),
    ("{V}?chainId=02021", "{V}?chainId=2021"),
    ("{V}?direction=incoming&chainId=2021", "{V}?chainId=2021"),
    ("{V}?direction=outgoing&block=latest&other=x&chainId=2020", "{V}?chainId=2020"),
    ("{V}?chain%49d=202%31", "{V}?chainId=2021"),
    ("%30x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed?", "{V}?chainId=2020"),
    ("check/all?from={V}&to={H}", "check/all?to={H}&from={V}&chainId=2020"),
    ("check/all?chainId=2021&to={h}&from={v}", "check/all?to={H}&from={V}&chainId=2021"),
    (
        "check/all?from={V}&to={H}&rights=claim",
        "check/all?to={H}&from={V}&chainId=2020&rights={claim}",
    ),
    (
        "check/all?from={V}&to={H}&rights={claim}",
        "check/all?to={H}&from={V}&chainId=2020&rights={claim}",
    ),
    (
        "check/all?from={V}&to={H}&rights=a+b%26%C3%A4",
        "check/all?to={H}&from={V}&chainId=2020&rights={a b&\u{e4}}",
    ),
    ("check/all?from={V}&to={H}&rights=", "check/all?to={H}&from={V}&chainId=2020"),
    ("check/all?from={V}&to={H}&rights={}", "check/all?to={H}&from={V}&chainId=2020"),
    ("check/all?from={V}&to={H}&contract=x&tokenId=x", "check/all?to={H}&from={V}&chainId=2020"),
    (
        "check/contract?rights=claim&contract={c}&from={v}&to={h}",
        "check/contract?to={H}&from={V}&chainId=2020&contract={C}&rights={claim}",
    ),
    (
        "check/contract?from={V}&to={H}&contract={C}&chainId=2021",
        "check/contract?to={H}&from={V}&chainId=2021&contract={C}",
    ),
    (
        "check/erc721?tokenId=0007&from={V}&to={H}&contract={C}",
        "check/erc721?to={H}&from={V}&chainId=2020&contract={C}&tokenId=7",
    ),
    (
        "check/erc721?tokenId={most}&from={V}&to={H}&contract={C}&rights=claim",
        "check/erc721?to={H}&from={V}&chainId=2020&contract={C}&tokenId={most}&rights={claim}",
    ),
    (
        "check/erc20?from={V}&to={H}&contract={C}&rights=claim",
        "check/erc20?to={H}&from={V}&chainId=2020&contract={C}&rights={claim}",
    ),
    (
        "check/erc1155?from={V}&to={H}&contract={C}&tokenId=0&chainId=2021",
        "check/erc1155?to={H}&from={V}&chainId=2021&contract={C}&tokenId=0",
    ),
];

const MOST: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";

fn filled(template: &str) -> String {
    template
        .replace("{V}", VAULT)
        .replace("{H}", HOT)
        .replace("{C}", CONTRACT)
        .replace("{v}", &VAULT.to_lowercase())
        .replace("{h}", &HOT.to_uppercase().replace("0X", "0x"))
        .replace("{c}", &CONTRACT.to_lowercase())
        .replace("{most}", MOST)
        .replace("{claim}", &bytes32("claim"))
        .replace("{a b&\u{e4}}", &bytes32("a b&\u{e4}"))
        .replace("{}", &bytes32(""))
}

/// Padded on its right.
fn bytes32(text: &str) -> String {
    format!("0x{:0<64}", hex::encode(text))
}

#[tokio::test]
async fn every_look_up_is_asked_for_in_one_way_however_it_is_written() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "api_key = \"k\"\ncache_ttl = \"0s\"").await;
    for (number, (asked, expected)) in TABLE.iter().enumerate() {
        let answer = stage.get(&format!("/registry/v2/{}", filled(asked))).await;
        assert_eq!((answer.status(), source(&answer)), (200, "api"), "{asked}: {answer:#?}");
        assert_eq!((api.last(), api.count()), (filled(expected), number + 1), "{asked}");
    }
    assert_eq!(stage.reads(), 0);
}

#[tokio::test]
async fn the_api_may_be_below_a_path_and_the_service_too() {
    for (prefix, slash, base_path) in
        [("/a/b-c", "", "/proxy/public"), ("/a/b-c", "/", ""), ("", "/", "/proxy")]
    {
        let api = DelegateApi::below(prefix).await;
        let url = format!("{}{slash}", api.url());
        let server = format!("base_path = \"{base_path}\"");
        let stage = Stage::with_server(&server, &url, "api", "").await;
        for path in [check(1), format!("/registry/v2/{VAULT}")] {
            let answer = stage.get(&format!("{base_path}{path}")).await;
            assert_eq!((answer.status(), source(&answer)), (200, "api"), "{prefix}{slash}");
            if !base_path.is_empty() {
                assert_eq!(stage.get(&path).await.outcome(), (404, "not_found".into()));
            }
        }
        assert_eq!(api.count(), 2);
    }
}

#[tokio::test]
async fn what_the_api_says_comes_back_byte_for_byte() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "api_key = \"k\"\ncache_ttl = \"0s\"").await;
    let list = "[ {\"type\":\"ALL\",\"from\":\"x\",\"extra\":{\"b\":1,\"a\":[1.50,1e3]},\n\
        \"amount\":123456789012345678901234567890.0,\"note\":\"\\u00e4\\/\u{e4}\"},\r\n\
        {\"type\":\"ERC9999\",\"type\":\"twice\",\"rights\":null} , {} ]\n";
    let amount = format!("check/erc1155?from={VAULT}&to={HOT}&contract={CONTRACT}&tokenId=1");
    for (path, body) in [
        (VAULT, list),
        (VAULT, "[]"),
        (VAULT, " [\n]\t"),
        ("check/all", "true"),
        ("check/all", " false\n"),
        ("check/contract", "false"),
        ("check/erc721", "true "),
        ("check/erc20", MOST),
        ("check/erc20", "0"),
        ("check/erc20", "1.157920892373162e+77"),
        ("check/erc20", "\"1000\""),
        ("check/erc1155", " 55 "),
        ("check/erc1155", "0.5"),
    ] {
        api.say(path, body);
        let query = amount.split_once('?').unwrap().1;
        let answer = stage.get(&format!("/registry/v2/{path}?{query}")).await;
        assert_eq!((answer.status(), answer.text()), (200, body), "{path}");
        assert_eq!(answer.header("content-length"), body.len().to_string());
    }
}

#[tokio::test]
async fn an_answer_says_whose_it_is_and_how_long_it_is_good_and_nothing_else_of_the_api() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    let theirs = [
        ("set-cookie", "a=b"),
        ("access-control-allow-origin", "https://theirs.example"),
        ("access-control-allow-credentials", "true"),
        ("cache-control", "private, max-age=86400"),
        ("etag", "\"theirs\""),
        ("age", "1000"),
        ("vary", "Cookie"),
        ("server", "theirs"),
        ("location", "http://theirs.example/"),
        ("x-request-id", "theirs"),
        ("x-delegation-source", "theirs"),
    ];
    api.say_with("check/all", 200, &theirs, "true");
    let answer = stage.get(&check(1)).await;
    let names = [
        "access-control-allow-origin",
        "access-control-expose-headers",
        "age",
        "cache-control",
        "content-length",
        "content-type",
        "date",
        "vary",
        "x-content-type-options",
        "x-delegation-source",
        "x-request-id",
    ];
    assert_eq!(answer.names(), names);
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("age", "0"),
        ("cache-control", "public, max-age=5"),
        ("content-type", "application/json"),
        ("vary", "x-api-key"),
        ("x-content-type-options", "nosniff"),
        ("x-delegation-source", "api"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    assert_ne!(answer.header("x-request-id"), "theirs");
    assert!(answer.header("access-control-expose-headers").contains("x-delegation-source"));
}

#[tokio::test]
async fn pages_of_other_origins_see_whose_answer_it_is() {
    let api = DelegateApi::start().await;
    let cors = "[cors]\nallowed_origins = [\"https://app.example\"]\n";
    let stage = Stage::with_server(cors, &api.url(), "api", "").await;
    for (path, status) in [(check(1), 200), (check(1).replace("0x", "0y"), 400)] {
        let answer = stage.get_with(&path, "Origin: https://app.example\r\n").await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.split(',').any(|name| name == "x-delegation-source"), "{exposed}");
        let varies = answer.headers.iter().filter(|(name, _)| name == "vary");
        let varies: Vec<_> = varies.map(|(_, value)| value.as_str()).collect();
        assert!(varies.contains(&"origin"), "{varies:?}");
        assert_eq!(varies.contains(&"x-api-key"), status == 200, "{varies:?}");
    }
    let preflight = format!(
        "OPTIONS {} HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\
         Access-Control-Request-Method: GET\r\n\
         Access-Control-Request-Headers: content-type,x-api-key\r\n\r\n",
        check(1)
    );
    let answer = stage.ask(preflight).await;
    assert_eq!(answer.status(), 200);
    for name in ["content-type", "x-api-key"] {
        let allowed = answer.header("access-control-allow-headers");
        assert!(allowed.split(',').any(|one| one == name), "{allowed}");
    }
    assert_eq!(api.count(), 1);
}

#[tokio::test]
async fn head_is_get_without_the_body_and_other_methods_are_refused() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.say("check/all", "true");
    let ask = async |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        stage.ask(request).await
    };
    for path in [check(1), format!("/registry/v2/{VAULT}")] {
        let (head, get) = (ask("HEAD", &path).await, ask("GET", &path).await);
        assert_eq!((head.status(), head.text()), (200, ""));
        for name in ["content-type", "content-length", "x-delegation-source", "cache-control"] {
            assert_ne!(get.header(name), "", "{name}");
            assert_eq!(head.header(name), get.header(name), "{name}");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE"] {
            let answer = ask(method, &path).await;
            assert_eq!(answer.outcome(), (405, "method_not_allowed".into()), "{method}");
            assert_eq!(answer.header("allow"), "GET,HEAD", "{method}");
        }
    }
    assert_eq!(api.count(), 2);
}

#[tokio::test]
async fn what_is_not_there_is_not_asked_for() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api-then-chain", "").await;
    let query = check(1).split_once('?').unwrap().1.to_owned();
    for path in ["check/erc404", "check/ALL", "check/all/", "check/all/x", "check/", "", "../v2/x"]
    {
        let answer = stage.get(&format!("/registry/v2/{path}?{query}")).await;
        assert_eq!(answer.outcome(), (404, "not_found".into()), "{path}");
    }
    for path in ["/registry/v1/check/all", "/registry/v2", "/registry/check/all", "/v2/check/all"] {
        let answer = stage.get(&format!("{path}?{query}")).await;
        assert_eq!(answer.outcome(), (404, "not_found".into()), "{path}");
    }
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

/// The members of a list that was asked for with this direction.
fn members(answer: &Message) -> Vec<&str> {
    assert_eq!((answer.status(), source(answer)), (200, "api"), "{answer:#?}");
    let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(answer.text()).unwrap();
    list.into_iter().map(serde_json::value::RawValue::get).collect()
}

#[tokio::test]
async fn a_direction_leaves_the_members_that_lead_there_as_they_came() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    let vault = VAULT.to_lowercase();
    let upper = VAULT.to_uppercase();
    let to = format!(
        "{{ \"type\":\"ALL\", \"from\":\"{HOT}\",\n \"to\":\"{VAULT}\", \"amount\":1.50, \"new\":[1e2] }}"
    );
    let to_too = format!("{{\"to\":\"{upper}\",\"from\":\"{HOT}\",\"to2\":\"\\u00e4\"}}");
    let from = format!("{{\"from\":\"{vault}\",\"to\":\"{CONTRACT}\",\"rights\":\"0x00\"}}");
    let both = format!("{{\"from\":\"{VAULT}\",\"to\":\"{vault}\"}}");
    let neither = format!("{{\"from\":\"{HOT}\",\"to\":\"{CONTRACT}\",\"vault\":\"{VAULT}\"}}");
    let list = format!("[{to}, {from} ,{both},{neither},{to_too}]\n");
    api.say(VAULT, list.clone());
    let path = format!("/registry/v2/{VAULT}");
    assert_eq!(stage.get(&path).await.text(), list);
    let incoming = stage.get(&format!("{path}?direction=incoming")).await;
    assert_eq!(members(&incoming), [&to, &both, &to_too]);
    let outgoing = stage.get(&format!("{path}?direction=outgoing")).await;
    assert_eq!(members(&outgoing), [&from, &both]);
    // The API knows no directions: it said all of that at once.
    assert_eq!(api.count(), 1);
    let nobody = address(3);
    api.say(nobody.clone(), list);
    let answer = stage.get(&format!("/registry/v2/{nobody}?direction=incoming")).await;
    assert_eq!(answer.text(), "[]");
}

#[tokio::test]
async fn an_answer_is_used_again_for_as_long_as_configured_and_tells_its_age() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"2s\"").await;
    api.say("check/all", "true");
    let deadline = Instant::now() + PATIENCE;
    let (mut reused, mut oldest) = (0, 0);
    while api.count() < 2 {
        assert!(Instant::now() < deadline, "it is never asked again");
        let answer = stage.get(&check(1)).await;
        let age: u64 = answer.header("age").parse().unwrap();
        oldest = oldest.max(age);
        assert!(age <= 2, "{answer:#?}");
        assert_eq!(answer.header("cache-control"), "public, max-age=2");
        // What it says by now.
        let expected = if api.count() == 1 { "true" } else { "false" };
        assert_eq!(answer.text(), expected);
        reused += 1;
        api.say("check/all", "false");
    }
    let asked = api.asked();
    let between = asked[1].at.duration_since(asked[0].at);
    assert!(between >= Duration::from_millis(1950), "{between:?}");
    assert!(between < Duration::from_secs(4), "{between:?}");
    assert!(oldest >= 1 && reused > 2, "{oldest} {reused}");
    // Another question has another answer.
    assert_eq!(stage.get(&check(2)).await.header("age"), "0");
    assert_eq!(stage.get(&format!("{}&chainId=2021", check(2))).await.header("age"), "0");
    assert_eq!(stage.get(&format!("{}&rights=a", check(2))).await.header("age"), "0");
    assert_eq!(api.count(), 5);
}

#[tokio::test]
async fn nothing_is_used_again_where_that_is_configured() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"0s\"").await;
    for (number, said) in ["true", "false", "true"].into_iter().enumerate() {
        api.say("check/all", said);
        let answer = stage.get(&check(1)).await;
        assert_eq!((answer.text(), answer.header("cache-control")), (said, "no-store"));
        assert!(!answer.has("age"));
        assert_eq!(api.count(), number + 1);
    }
}

#[tokio::test]
async fn an_error_is_not_used_again() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.say_with("check/all", 404, &[], "{\"error\":\"not yet\"}");
    assert_eq!(stage.get(&check(1)).await.status(), 404);
    api.say("check/all", "true");
    assert_eq!(stage.get(&check(1)).await.text(), "true");
    assert_eq!(api.count(), 2);
}

#[tokio::test]
async fn a_list_of_what_leads_nobody_knows_where_is_not_narrowed() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "cache_ttl = \"0s\"").await;
    let path = format!("/registry/v2/{VAULT}");
    for odd in [
        "{}".to_owned(),
        format!("{{\"type\":\"ALL\",\"delegate\":\"{VAULT}\",\"from\":\"{HOT}\"}}"),
        format!("{{\"from\":7,\"to\":\"{VAULT}\"}}"),
        format!("{{\"from\":\"{HOT}\",\"to\":\"somebody\"}}"),
    ] {
        let list = format!("[{odd}]");
        api.say(VAULT, list.clone());
        assert_eq!(stage.get(&path).await.text(), list);
        for direction in ["incoming", "outgoing"] {
            let answer = stage.get(&format!("{path}?direction={direction}")).await;
            assert_eq!(answer.outcome(), (502, "upstream_invalid".into()), "{odd}");
        }
    }
}
