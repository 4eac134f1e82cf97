//! Invalid parameters are refused without a request to an upstream.

use std::collections::BTreeMap;

use crate::delegation_service::{CONTRACT, HOT, Harness, VAULT};
use crate::fixtures;
use crate::http_message::Message;
use crate::mock_delegate_api::MockDelegateApi;

const SCOPES: [&str; 5] = ["all", "contract", "erc721", "erc20", "erc1155"];

/// Returns invalid addresses, as they appear in a path or query.
fn invalid_addresses() -> Vec<String> {
    let mut invalid: Vec<String> =
        fixtures::json("tests/fixtures/delegation/invalid-addresses.json");
    invalid.push("a".repeat(5000));
    invalid
}

/// Asserts that the request was refused with the name of the parameter.
fn assert_refused(response: &Message, name: &str, request: &str) {
    let request = &request[..request.len().min(300)];
    assert_eq!(response.outcome(), (400, "invalid_parameter".into()), "{request}: {response:#?}");
    let problem = response.problem();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("`{name}`")), "{request}: {detail}");
    assert!(detail.len() < 300, "{request}: {detail}");
    assert!(!response.has_header("x-delegation-source"), "{request}");
}

async fn start() -> (MockDelegateApi, Harness) {
    let (api, harness) = Harness::with_api("api-then-chain", "api_key = \"k\"").await;
    (api, harness)
}

/// Returns the parameters of a check of this scope.
fn parameters<'a>(scope: &str) -> Vec<(&'a str, &'a str)> {
    let mut parameters = vec![("from", VAULT), ("to", HOT)];
    if scope != "all" {
        parameters.push(("contract", CONTRACT));
    }
    if matches!(scope, "erc721" | "erc1155") {
        parameters.push(("tokenId", "7"));
    }
    parameters
}

fn target(scope: &str, parameters: &[(&str, &str)]) -> String {
    let query: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("/registry/v2/check/{scope}?{}", query.join("&"))
}

#[tokio::test]
async fn invalid_addresses_are_refused_in_every_parameter() {
    let (api, harness) = start().await;
    let mut count = 0;
    for invalid in invalid_addresses() {
        let path = format!("/registry/v2/{invalid}?chainId=2020");
        assert_refused(&harness.get(&path).await, "address", &path);
        for scope in SCOPES {
            for name in ["from", "to", "contract"] {
                let mut parameters = parameters(scope);
                let Some(parameter) = parameters.iter_mut().find(|(one, _)| *one == name) else {
                    continue;
                };
                parameter.1 = &invalid;
                let path = target(scope, &parameters);
                assert_refused(&harness.get(&path).await, name, &path);
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn missing_parameters_are_refused_by_name() {
    let (api, harness) = start().await;
    for scope in SCOPES {
        let all = parameters(scope);
        for missing in 0..all.len() {
            let mut some = all.clone();
            let (name, _) = some.remove(missing);
            let path = target(scope, &some);
            let response = harness.get(&path).await;
            assert_refused(&response, name, &path);
            assert_eq!(response.problem()["detail"], format!("`{name}` is required"), "{path}");
            // Names are case-sensitive.
            let upper = name.to_uppercase();
            some.push((&upper, HOT));
            assert_refused(&harness.get(&target(scope, &some)).await, name, &path);
            some.pop();
            some.push((name, ""));
            assert_refused(&harness.get(&target(scope, &some)).await, name, &path);
        }
        let path = format!("/registry/v2/check/{scope}");
        assert_refused(&harness.get(&path).await, "from", &path);
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn invalid_values_are_refused_by_name() {
    let (api, harness) = start().await;
    let mut invalid: BTreeMap<String, Vec<String>> =
        fixtures::json("tests/fixtures/delegation/invalid-values.json");
    for (name, digit) in [("chainId", "9"), ("rights", "a"), ("tokenId", "1")] {
        invalid.get_mut(name).unwrap().push(digit.repeat(1000));
    }
    for (name, values) in &invalid {
        for value in values {
            for scope in SCOPES {
                let mut parameters = parameters(scope);
                match name.as_str() {
                    "direction" => continue,
                    "tokenId" if !parameters.iter().any(|(one, _)| one == name) => continue,
                    "tokenId" => parameters.last_mut().unwrap().1 = value,
                    _ => parameters.push((name, value)),
                }
                let path = target(scope, &parameters);
                assert_refused(&harness.get(&path).await, name, &path);
            }
            if !["rights", "tokenId"].contains(&name.as_str()) {
                let path = format!("/registry/v2/{VAULT}?{name}={value}");
                assert_refused(&harness.get(&path).await, name, &path);
            }
        }
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn duplicate_parameters_are_refused_by_name() {
    let (api, harness) = start().await;
    let common = [("chainId", "2020"), ("rights", "claim"), ("block", "latest")];
    for scope in SCOPES {
        for &(name, value) in parameters(scope).iter().chain(&common) {
            let escaped = format!("%{:02x}{}", name.as_bytes()[0], &name[1..]);
            // The same pair, another value, an empty one, and a percent-encoded name.
            for again in [(name, value), (name, "x"), (name, ""), (escaped.as_str(), value)] {
                let mut parameters = parameters(scope);
                parameters.retain(|(one, _)| *one != name);
                parameters.extend([(name, value), again]);
                let path = target(scope, &parameters);
                let response = harness.get(&path).await;
                assert_refused(&response, name, &path);
                let detail = format!("`{name}` must be given once");
                assert_eq!(response.problem()["detail"], detail, "{path}");
            }
        }
    }
    for (name, value) in [("chainId", "2020"), ("direction", "incoming"), ("block", "latest")] {
        let path = format!("/registry/v2/{VAULT}?{name}={value}&a=b&{name}={value}");
        assert_refused(&harness.get(&path).await, name, &path);
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn non_utf8_targets_are_refused() {
    let (api, harness) = start().await;
    for invalid in [&b"\xff"[..], b"\xc0\xae", b"0x\xed\xa0\x80"] {
        for (before, after) in [
            ("GET /registry/v2/", ""),
            ("GET /registry/v2/check/all?to=", "&from=x"),
            ("GET /registry/v2/check/", "?a"),
        ] {
            let request =
                [before.as_bytes(), invalid, after.as_bytes(), b" HTTP/1.1\r\nHost: a\r\n\r\n"];
            let (status, code) = harness.send(request.concat()).await.outcome();
            assert!(matches!(status, 400 | 404), "{before}: {status}");
            // hyper responds to bytes that no path may contain, without a body.
            assert!(["invalid_parameter", "not_found", ""].contains(&code.as_str()));
        }
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn erc721_check_accepts_the_names_vault_and_delegate() {
    let (api, harness) = start().await;
    api.set_response("check/erc721", "true");
    let all = parameters("erc721");
    assert_eq!(harness.get(&target("erc721", &all)).await.text(), "true");
    let expected = api.last_target();
    let other_names = |name| match name {
        "from" => "vault",
        "to" => "delegate",
        other => other,
    };
    let renamed: Vec<_> = all.iter().map(|(name, value)| (other_names(name), *value)).collect();
    // The second look-up has the same response, from the cache.
    let response = harness.get(&target("erc721", &renamed)).await;
    assert_eq!((response.text(), api.request_count()), ("true", 1));
    let with_key = harness.get_with(&target("erc721", &renamed), "X-API-KEY: mine\r\n").await;
    assert_eq!((with_key.text(), api.last_target()), ("true", expected));
    for name in ["from", "to"] {
        let mut both = all.clone();
        both.push((other_names(name), VAULT));
        let path = target("erc721", &both);
        assert_refused(&harness.get(&path).await, name, &path);
    }
    for scope in ["all", "contract", "erc20", "erc1155"] {
        let some: Vec<_> =
            parameters(scope).into_iter().map(|(name, value)| (other_names(name), value)).collect();
        let path = target(scope, &some);
        assert_refused(&harness.get(&path).await, "from", &path);
    }
    assert_eq!((api.request_count(), harness.reads()), (2, 0));
}
