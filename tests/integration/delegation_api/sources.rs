//! Who is asked at all.

use super::{CONTRACT, HOT, NO_DELEGATIONS, Stage, VAULT, check, source};
use crate::delegate_api::DelegateApi;
use crate::exchange::post;
use crate::read_node::Say;

fn routes() -> Vec<String> {
    let ends = format!("from={VAULT}&to={HOT}&contract={CONTRACT}&tokenId=1");
    let scopes = ["all", "contract", "erc721", "erc20", "erc1155"];
    scopes.map(|scope| format!("/registry/v2/check/{scope}?{ends}")).into()
}

#[tokio::test]
async fn nobody_is_asked_where_look_ups_are_switched_off() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "off", "api_key = \"ours\"").await;
    let body = format!("{{\"from\":\"{VAULT}\",\"to\":\"{HOT}\",\"action\":\"delegate_all\"}}");
    let mut requests: Vec<Vec<u8>> = Vec::new();
    for path in
        routes().into_iter().chain([format!("/registry/v2/{VAULT}"), "/registry/v2/x".into()])
    {
        requests.push(crate::raw::get(&path, "X-API-KEY: mine\r\n").into_bytes());
        requests.push(post(&path, "", b"{}"));
    }
    for chain in ["2020", "a-chain", "none"] {
        let path = format!("/v1/{chain}/delegations/transactions");
        requests.push(post(&path, "", body.as_bytes()));
        requests.push(crate::exchange::get(&path).into_bytes());
    }
    for request in requests {
        let answer = stage.ask(&request).await;
        let first = String::from_utf8_lossy(&request).lines().next().unwrap().to_owned();
        assert_eq!(answer.outcome(), (404, "not_found".into()), "{first}");
        assert!(!answer.has("x-delegation-source"));
    }
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn the_api_is_never_asked_where_the_chain_is_the_source() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "chain", "api_key = \"ours\"").await;
    for headers in ["", "X-API-KEY: mine\r\n"] {
        for path in routes() {
            let answer = stage.get_with(&path, headers).await;
            let expected =
                if path.contains("/erc20") || path.contains("1155?") { "\"1\"" } else { "true" };
            assert_eq!((answer.status(), answer.text()), (200, expected), "{path}");
            assert_eq!(source(&answer), "chain");
        }
    }
    stage.node.say(Say::Result(NO_DELEGATIONS.into()));
    let answer = stage.get_with(&format!("/registry/v2/{VAULT}"), "X-API-KEY: mine\r\n").await;
    assert_eq!((answer.status(), answer.text(), source(&answer)), (200, "[]", "chain"));
    stage.node.say(Say::Raw(500, String::new()));
    let answer = stage.get_with(&check(1), "X-API-KEY: mine\r\n").await;
    assert_eq!(answer.outcome(), (502, "upstream_unreachable".into()));
    assert_eq!(api.count(), 0);
}

#[tokio::test]
async fn pending_state_is_the_chains_to_tell() {
    for source_ in ["api", "api-then-chain"] {
        let api = DelegateApi::start().await;
        let stage = Stage::before(&api.url(), source_, "").await;
        for headers in ["", "X-API-KEY: mine\r\n"] {
            let answer = stage.get_with(&format!("{}&block=pending", check(1)), headers).await;
            assert_eq!((answer.status(), answer.text(), source(&answer)), (200, "true", "chain"));
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        assert_eq!(api.count(), 0);
        assert!(stage.node.reads().iter().all(|read| read.params.ends_with(",\"pending\"]")));
        let answer = stage.get(&format!("{}&block=latest", check(1))).await;
        assert_eq!((answer.text(), source(&answer), api.count()), ("false", "api", 1));
        assert!(stage.other.reads().is_empty());
    }
}
