//! Invalid parameters are refused without a request to an upstream.

use super::refusal;
use crate::delegation_service::{CONTRACT, HOT, Harness, VAULT};
use crate::mock_delegate_api::MockDelegateApi;

pub(super) const SCOPES: [&str; 5] = ["all", "contract", "erc721", "erc20", "erc1155"];

async fn start() -> (MockDelegateApi, Harness) {
    Harness::with_api("api-then-chain", "api_key = \"k\"").await
}

impl Harness {
    /// Asserts that a GET of `path` is refused with the name of the parameter. Returns the detail of the problem.
    async fn refuses(&self, name: &str, path: &str) -> String {
        refusal(&self.get(path).await, name, path, 300)
    }
}

/// Returns the parameters of a check of this scope.
pub(super) fn parameters<'a>(scope: &str) -> Vec<(&'a str, &'a str)> {
    let mut parameters = vec![("from", VAULT), ("to", HOT)];
    if scope != "all" {
        parameters.push(("contract", CONTRACT));
    }
    if matches!(scope, "erc721" | "erc1155") {
        parameters.push(("tokenId", "7"));
    }
    parameters
}

pub(super) fn target(scope: &str, parameters: &[(&str, &str)]) -> String {
    let query: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("/registry/v2/check/{scope}?{}", query.join("&"))
}

#[tokio::test]
async fn invalid_values_are_refused_by_name() {
    let (api, harness) = start().await;
    let wrong_checksum = "0x5Aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    // Each value has a unit test; each scope refuses one of each.
    for (scope, name, value) in [
        ("all", "from", wrong_checksum),
        ("contract", "contract", ""),
        ("erc721", "tokenId", "-1"),
        ("erc20", "to", "vitalik.eth"),
        ("erc1155", "chainId", "18446744073709553636"),
        ("all", "rights", "%ff"),
        ("contract", "block", "earliest"),
    ] {
        let mut parameters = parameters(scope);
        parameters.retain(|(one, _)| *one != name);
        parameters.push((name, value));
        harness.refuses(name, &target(scope, &parameters)).await;
    }
    for (name, value) in [("block", "safe"), ("chainId", "1"), ("direction", "both")] {
        harness.refuses(name, &format!("/registry/v2/{VAULT}?{name}={value}")).await;
    }
    let long = "a".repeat(5000);
    for address in ["0x", wrong_checksum, long.as_str()] {
        harness.refuses("address", &format!("/registry/v2/{address}?chainId=2020")).await;
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn missing_parameters_are_refused_by_name() {
    let (api, harness) = start().await;
    for scope in SCOPES {
        for (name, _) in parameters(scope) {
            let mut others = parameters(scope);
            others.retain(|(other, _)| *other != name);
            let path = target(scope, &others);
            let detail = harness.refuses(name, &path).await;
            assert_eq!(detail, format!("`{name}` is required"), "{path}");
        }
    }
    // Names are case-sensitive.
    harness.refuses("from", &format!("/registry/v2/check/all?FROM={HOT}&to={HOT}")).await;
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
    let renamed = |scope| {
        let path = target(scope, &parameters(scope));
        path.replace("from=", "vault=").replace("to=", "delegate=")
    };
    // The second look-up has the same response, from the cache.
    let response = harness.get(&renamed("erc721")).await;
    assert_eq!((response.text(), api.request_count()), ("true", 1));
    let with_key = harness.get_with(&renamed("erc721"), "X-API-KEY: mine\r\n").await;
    assert_eq!((with_key.text(), api.last_target()), ("true", expected));
    for (name, other_name) in [("from", "vault"), ("to", "delegate")] {
        let both = [all.as_slice(), &[(other_name, VAULT)]].concat();
        harness.refuses(name, &target("erc721", &both)).await;
    }
    for scope in ["all", "contract", "erc20", "erc1155"] {
        harness.refuses("from", &renamed(scope)).await;
    }
    assert_eq!((api.request_count(), harness.reads()), (2, 0));
}
