//! Pending state, on a node that mines on command.

use reqwest::Method;
use serde_json::{Value, json};

use crate::registry::{CONTRACT, DELEGATE, Registry, VAULT, assert_problem, kinds, request};

#[tokio::test]
async fn queued_delegations_are_pending_until_mined() {
    let registry = Registry::start_with("source = \"chain\"", &["--no-mining"]).await;
    let list = format!("/registry/v2/{DELEGATE}?direction=incoming&block=");
    let listed_count = async |block| {
        let list: Value =
            serde_json::from_str(&registry.look_up(&format!("{list}{block}")).await).unwrap();
        list.as_array().unwrap().len()
    };
    for (scope, more, request) in kinds() {
        let [given, not_given] = match scope {
            "erc20" => ["\"3\"", "\"0\""],
            "erc1155" => ["\"4\"", "\"0\""],
            _ => ["true", "false"],
        };
        // Asserts the check of this kind and the length of the list, for the pending and for the latest block.
        let assert_is_given = async |pending: bool, latest: bool| {
            for (block, is_given) in [("pending", pending), ("latest", latest)] {
                let checked = registry.check(scope, &format!("{more}&block={block}")).await;
                let expected = (if is_given { given } else { not_given }, usize::from(is_given));
                assert_eq!((&*checked, listed_count(block).await), expected, "{scope} {block}");
            }
        };
        let mine = async |hash: String| {
            registry.node.call("anvil_mine", json!([])).await;
            registry.wait_until_mined(&hash).await;
        };
        assert_is_given(false, false).await;
        let hash = registry.send(&request).await;
        assert_is_given(true, false).await;
        mine(hash).await;
        assert_is_given(true, true).await;
        // `block` defaults to `latest`.
        assert_eq!(registry.check(scope, &more).await, given, "{scope}");

        let mut revocation = request;
        revocation["enable"] = json!(false);
        let hash = registry.send(&revocation).await;
        assert_is_given(false, true).await;
        mine(hash).await;
        assert_is_given(false, false).await;
    }
}

#[tokio::test]
async fn pending_state_is_available_while_the_api_is_down() {
    let api = "source = \"api\"\napi_url = \"http://127.0.0.1:9\"";
    let registry = Registry::start_with(api, &["--no-mining"]).await;
    assert_eq!(registry.check("all", "&block=pending").await, "false");
    registry.send(&request("delegate_all", json!({}))).await;
    assert_eq!(registry.check("all", "&block=pending").await, "true");
    let list = registry.look_up(&format!("/registry/v2/{VAULT}?block=pending")).await;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()[0]["type"], "ALL");
    for path in [
        format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}"),
        format!("/registry/v2/{VAULT}?block=latest"),
    ] {
        let response = registry.service.get(&path).await;
        let detail = "cannot connect to the delegation API";
        assert_problem(&response, 502, "upstream_unreachable", detail);
    }
}

#[tokio::test]
async fn head_has_the_headers_of_get_and_no_body() {
    let registry = Registry::start().await;
    let check = format!("check/erc20?from={VAULT}&to={DELEGATE}&contract={CONTRACT}");
    for path in [check, VAULT.to_owned()] {
        let path = format!("/registry/v2/{path}");
        let got = registry.service.get(&path).await;
        let head = registry.service.send(Method::HEAD, &path, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
        let [got_headers, head_headers] = [&got, &head].map(|response| {
            let mut headers = response.headers.clone();
            for name in ["date", "x-request-id"] {
                headers.remove(name).unwrap();
            }
            headers
        });
        assert_eq!(head_headers, got_headers);
        assert_eq!(head.header("x-delegation-source"), "chain");
        assert_eq!(head.header("content-length"), got.body.len().to_string());
    }
}
