//! The configured source decides which upstreams are called.

use super::parameters::{SCOPES, parameters, target};
use crate::delegation_service::{Harness, NO_DELEGATIONS, VAULT, check, source};
use crate::mock_node::Reply;

#[tokio::test]
async fn chain_source_never_calls_the_api() {
    let (api, harness) = Harness::with_api("chain", "api_key = \"ours\"").await;
    for headers in ["", "X-API-KEY: mine\r\n"] {
        for path in SCOPES.map(|scope| target(scope, &parameters(scope))) {
            let response = harness.get_with(&path, headers).await;
            let is_amount = path.contains("/erc20") || path.contains("1155?");
            let expected = if is_amount { "\"1\"" } else { "true" };
            assert_eq!((response.status(), response.text()), (200, expected), "{path}");
            assert_eq!(source(&response), "chain");
        }
    }
    harness.node.set_read_reply(Reply::RawResult(NO_DELEGATIONS.into()));
    let response = harness.get_with(&format!("/registry/v2/{VAULT}"), "X-API-KEY: mine\r\n").await;
    assert_eq!((response.status(), response.text(), source(&response)), (200, "[]", "chain"));
    harness.node.set_read_reply(Reply::Raw(500, String::new()));
    let response = harness.get_with(&check(1), "X-API-KEY: mine\r\n").await;
    assert_eq!(response.outcome(), (502, "upstream_unreachable".into()));
    assert_eq!(api.request_count(), 0);
}

#[tokio::test]
async fn a_list_over_the_limit_is_refused_however_long_a_reply_the_node_sends() {
    const WORDS_PER_DELEGATION: usize = 7;
    let harness = Harness::with_api("chain", "").await.1;
    let list = |count: usize| {
        let word = |value: usize| format!("{value:064x}");
        // Each delegates everything to another address.
        let delegation = |number| {
            let mut words = vec![word(0); WORDS_PER_DELEGATION];
            (words[0], words[1]) = (word(1), word(1 + number));
            words.concat()
        };
        let delegations: String = (0..count).map(delegation).collect();
        format!("\"0x{}{}{delegations}\"", word(32), word(count))
    };
    let path = format!("/registry/v2/{VAULT}?direction=outgoing");
    harness.node.set_read_reply(Reply::RawResult(list(10_000)));
    let response = harness.get(&path).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().matches("\"ALL\"").count(), 10_000);
    let too_long = format!("\"0x{}\"", "0".repeat(11 * 1024 * 1024));
    let too_large = r#"{"code":-32008,"message":"Response is too big"}"#;
    for (case, reply) in [
        ("10,001", Reply::RawResult(list(10_001))),
        ("longer than a reply may be", Reply::RawResult(too_long)),
        ("an error", Reply::RawError(too_large.into())),
    ] {
        harness.node.set_read_reply(reply);
        let response = harness.get(&path).await;
        assert_eq!(response.outcome(), (502, "too_many_delegations".into()), "{case}");
    }
}

#[tokio::test]
async fn pending_state_is_read_from_the_chain() {
    for configured_source in ["api", "api-then-chain"] {
        let (api, harness) = Harness::with_api(configured_source, "").await;
        for headers in ["", "X-API-KEY: mine\r\n"] {
            let response = harness.get_with(&format!("{}&block=pending", check(1)), headers).await;
            let found = (response.status(), response.text(), source(&response));
            assert_eq!(found, (200, "true", "chain"));
            assert_eq!(response.header("cache-control"), "no-store");
        }
        assert_eq!(api.request_count(), 0);
        assert!(harness.node.reads().iter().all(|read| read.params.ends_with(",\"pending\"]")));
        let response = harness.get(&format!("{}&block=latest", check(1))).await;
        assert_eq!((response.text(), source(&response), api.request_count()), ("false", "api", 1));
        assert!(harness.other.reads().is_empty());
    }
}
