//! Pending state, from a node that mines when it is told to.

use reqwest::Method;
use serde_json::{Value, json};

use crate::registry::{CONTRACT, DELEGATE, Registry, VAULT, assert_problem, request};

/// What is answered under pending and under latest.
async fn both(registry: &Registry, scope: &str, more: &str) -> [String; 2] {
    let at = async |block| registry.check(scope, &format!("{more}&block={block}")).await;
    [at("pending").await, at("latest").await]
}

#[tokio::test]
async fn a_queued_delegation_holds_under_pending_and_under_latest_once_it_is_mined() {
    let registry = Registry::with("source = \"chain\"", &["--no-mining"]).await;
    let (of_contract, of_token) =
        (format!("&contract={CONTRACT}"), format!("&contract={CONTRACT}&tokenId=7"));
    let checks = [
        ("all", "", request("delegate_all", json!({})), ["true", "false"]),
        (
            "contract",
            &of_contract,
            request("delegate_contract", json!({ "contract": CONTRACT })),
            ["true", "false"],
        ),
        (
            "erc721",
            &of_token,
            request("delegate_erc721", json!({ "contract": CONTRACT, "token_id": 7 })),
            ["true", "false"],
        ),
        (
            "erc20",
            &of_contract,
            request("delegate_erc20", json!({ "contract": CONTRACT, "amount": 3 })),
            ["\"3\"", "\"0\""],
        ),
        (
            "erc1155",
            &of_token,
            request(
                "delegate_erc1155",
                json!({ "contract": CONTRACT, "token_id": 7, "amount": 4 }),
            ),
            ["\"4\"", "\"0\""],
        ),
    ];
    let list = format!("/registry/v2/{DELEGATE}?direction=incoming&block=");
    let listed = async |block| {
        let list: Value =
            serde_json::from_str(&registry.look_up(&format!("{list}{block}")).await).unwrap();
        list.as_array().unwrap().len()
    };
    for (scope, more, request, [given, not_given]) in checks {
        assert_eq!(both(&registry, scope, more).await, [not_given, not_given], "{scope}");
        let hash = registry.send(&request).await;
        assert_eq!(both(&registry, scope, more).await, [given, not_given], "{scope}");
        assert_eq!([listed("pending").await, listed("latest").await], [1, 0], "{scope}");
        registry.node.call("anvil_mine", json!([])).await;
        registry.wait_until_mined(&hash).await;
        assert_eq!(both(&registry, scope, more).await, [given, given], "{scope}");
        assert_eq!([listed("pending").await, listed("latest").await], [1, 1], "{scope}");
        // What is absent is latest.
        assert_eq!(registry.check(scope, more).await, given, "{scope}");

        let mut back = request;
        back["enable"] = json!(false);
        let hash = registry.send(&back).await;
        assert_eq!(both(&registry, scope, more).await, [not_given, given], "{scope}");
        registry.node.call("anvil_mine", json!([])).await;
        registry.wait_until_mined(&hash).await;
        assert_eq!(both(&registry, scope, more).await, [not_given, not_given], "{scope}");
    }
}

#[tokio::test]
async fn pending_state_is_the_chains_to_tell_when_the_api_is_away() {
    let api = "source = \"api\"\napi_url = \"http://127.0.0.1:9\"";
    let registry = Registry::with(api, &["--no-mining"]).await;
    assert_eq!(registry.check("all", "&block=pending").await, "false");
    registry.send(&request("delegate_all", json!({}))).await;
    assert_eq!(registry.check("all", "&block=pending").await, "true");
    let list = registry.look_up(&format!("/registry/v2/{VAULT}?block=pending")).await;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()[0]["type"], "ALL");
    for path in [
        format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}"),
        format!("/registry/v2/{VAULT}?block=latest"),
    ] {
        let answer = registry.service.get(&path).await;
        let detail = "no connection to the delegation API could be made";
        assert_problem(&answer, 502, "upstream_unreachable", detail);
    }
}

#[tokio::test]
async fn the_chain_answers_in_the_place_of_an_api_that_is_away() {
    let api = "source = \"api-then-chain\"\napi_url = \"http://127.0.0.1:9\"";
    let registry = Registry::with(api, &[]).await;
    assert_eq!(registry.check("all", "").await, "false");
    registry.give(&request("delegate_all", json!({}))).await;
    assert_eq!(registry.check("all", "").await, "true");
    let list = registry.look_up(&format!("/registry/v2/{DELEGATE}")).await;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()[0]["type"], "ALL");
}

#[tokio::test]
async fn a_head_request_has_the_headers_of_the_look_up_and_no_body() {
    let registry = Registry::start().await;
    let check = format!("check/erc20?from={VAULT}&to={DELEGATE}&contract={CONTRACT}");
    for path in [check, VAULT.to_owned()] {
        let path = format!("/registry/v2/{path}");
        let got = registry.service.get(&path).await;
        let head = registry.service.send(Method::HEAD, &path, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
        let [mut got_headers, mut head_headers] = [got.headers, head.headers];
        for headers in [&mut got_headers, &mut head_headers] {
            for name in ["date", "x-request-id"] {
                headers.remove(name).unwrap();
            }
        }
        assert_eq!(head_headers, got_headers);
        assert_eq!(head_headers["x-delegation-source"], "chain");
        assert_eq!(head_headers["content-length"], got.body.len().to_string().as_str());
    }
}
