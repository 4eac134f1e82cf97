//! Tests of the form at `/verify`: its modules in Node.js, and the page in Chromium.

use std::path::Path;

use serde_json::json;

use crate::anvil::Anvil;
use crate::programs;
use crate::test_server::TestServer;
use crate::verifier::Verifier;

/// Packages that the test scripts import.
const PACKAGES: &[&str] = &["@noble/hashes", "axe-core", "ethers", "playwright-core"];

#[tokio::test]
async fn page_recognises_files_and_checks_that_they_match() {
    programs::node_test("files.test.mjs", PACKAGES).await;
}

#[tokio::test]
async fn page_maps_every_verifier_response_to_an_outcome() {
    programs::node_test("submit.test.mjs", PACKAGES).await;
}

#[tokio::test]
async fn the_form_is_served_and_linked_if_there_is_a_verification_service() {
    for (verification, has_form) in [("http://127.0.0.1:9", true), ("", false)] {
        let service = TestServer::start(&config(verification, ["http://127.0.0.1:9"; 2])).await;
        let page = service.get("/").await.body;
        assert_eq!(page.contains("<a href=\"verify\">"), has_form);
        assert_eq!(page.contains("<a href=\"verify\" hidden>"), !has_form);
        for path in ["/verify", "/verify/", "/verify/page.js"] {
            let response = service.get(path).await;
            if has_form {
                assert_eq!(response.status, 200, "{path}: {}", response.body);
            } else {
                response.assert_problem(404, "not_found");
            }
        }
    }
}

/// Returns a configuration with this verification upstream and the nodes of Ronin and Saigon.
fn config(verification: &str, nodes: [&str; 2]) -> String {
    let [ronin, saigon] = nodes;
    format!(
        "[verification]\nurl = \"{verification}\"\n\
         [chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{ronin}\"]\nblock_time = \"2s\"\n\
         [chains.saigon]\nname = \"saigon\"\nchain_id = 202601\nrpc_urls = [\"{saigon}\"]\nblock_time = \"2s\"\n"
    )
}

#[tokio::test]
async fn users_verify_contracts_in_chromium() {
    let nodes = [Anvil::with_chain_id(2020, &[]), Anvil::with_chain_id(202_601, &[])];
    let [ronin, saigon] = nodes.each_ref().map(Anvil::url);
    let upstream = |more: &[&str]| Verifier::start(&[(2020, &ronin), (202_601, &saigon)], more);
    let verifiers = [
        upstream(&["--job-ms", "0", "--job-polls", "1"]),
        upstream(&["--generation", "v1"]),
        upstream(&["--job-ms", "2000000000"]),
    ];
    let [both, first, slow] = verifiers.each_ref().map(Verifier::url);
    let service = async |more: &str, url: &str| {
        TestServer::with_server(more, &config(url, [&ronin, &saigon])).await
    };
    let plain = service("", &both).await;
    let below = service("base_path = \"/proxy/public\"", &both).await;
    let first = service("", &first).await;
    let slow = service("", &slow).await;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let settings = json!({
        "services": {
            "plain": plain.url(""),
            "below": below.url("/proxy/public"),
            "first": first.url(""),
            "slow": slow.url(""),
        },
        "nodes": { "2020": ronin, "202601": saigon },
        "shots": target.join("verify-form"),
    });
    programs::run_script("verify-form.mjs", PACKAGES, &settings).await;
    for verifier in &verifiers {
        for request in verifier.received().await {
            assert_eq!(request["violations"], json!([]), "{request:#}");
        }
    }
}
