//! Tests of the form at `/verify`: its files, its modules in Node.js, and the page in Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::anvil::Anvil;
use crate::fixtures;
use crate::pages::{self, policy};
use crate::programs;
use crate::test_server::TestServer;
use crate::verifier::Verifier;

/// Packages that the test scripts import.
const PACKAGES: &[&str] = &["@noble/hashes", "ethers", "playwright-core"];

#[tokio::test]
async fn page_recognises_files_and_checks_that_they_match() {
    programs::node_test("files.test.mjs", PACKAGES).await;
}

#[tokio::test]
async fn page_maps_every_verifier_response_to_an_outcome() {
    programs::node_test("submit.test.mjs", PACKAGES).await;
}

#[test]
fn vendored_hash_files_match_the_published_package() {
    let folder = fixtures::path("src/extras/verification/verify/noble");
    let published = fixtures::path("tests/node/node_modules/@noble/hashes");
    assert!(published.exists(), "no {}: run tests/run.sh", published.display());
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let published = fs::read(published.join(file.file_name())).unwrap();
        assert!(fs::read(file.path()).unwrap() == published, "{file:?}");
    }
}

const NO_NODES: [&str; 2] = ["http://127.0.0.1:9"; 2];

#[tokio::test]
async fn page_and_its_files_are_served_below_any_base_path() {
    for base in ["", "/proxy/public"] {
        let server = format!("base_path = \"{base}\"");
        let config = config("http://127.0.0.1:9", NO_NODES);
        let service = TestServer::with_server(&server, &config).await;
        let parts = pages::check_page_and_resources(&service, &format!("{base}/verify")).await;
        let files = ["", "/files.js", "/noble/_u64.js", "/noble/sha3.js", "/noble/utils.js"];
        let files = files.into_iter().chain(["/page.js", "/style.css", "/submit.js"]);
        let own = files.map(|file| (format!("{base}/verify{file}"), policy("'self' data:")));
        let palette = (format!("{base}/base.css"), policy("'self' data:"));
        assert_eq!(parts, [palette].into_iter().chain(own).collect::<Vec<_>>());
        let page = format!("{base}/verify");
        pages::check_redirect(&service, &format!("{page}/"), "../verify", &page).await;
    }
}

#[tokio::test]
async fn page_is_404_without_a_verification_service() {
    let service = TestServer::start(&config("", NO_NODES)).await;
    for path in ["/verify", "/verify/", "/verify/page.js"] {
        let response = service.get(path).await;
        assert_eq!(response.status, 404, "{path}: {}", response.body);
        assert_eq!(response.header("content-type"), "application/problem+json");
    }
}

#[tokio::test]
async fn the_dashboard_links_to_the_form_if_there_is_one() {
    for (verification, has_link) in [("http://127.0.0.1:9", true), ("", false)] {
        let service = TestServer::start(&config(verification, NO_NODES)).await;
        let page = service.get("/").await.body;
        assert_eq!(page.contains("<a href=\"verify\">"), has_link);
        assert_eq!(page.contains("<a href=\"verify\" hidden>"), !has_link);
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
    let nodes = [Anvil::with_chain_id(2020, 0, &[]), Anvil::with_chain_id(202_601, 0, &[])];
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
    let down = service("", "http://127.0.0.1:9").await;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let settings = json!({
        "services": {
            "plain": plain.url(""),
            "below": below.url("/proxy/public"),
            "first": first.url(""),
            "slow": slow.url(""),
            "down": down.url(""),
        },
        "nodes": { "2020": ronin, "202601": saigon },
        "shots": target.join("verify-form"),
    });
    let mut command = programs::node_js(PACKAGES);
    command.arg(programs::script_path("verify-form.mjs")).arg(settings.to_string());
    println!("{}", programs::expect_success(command).await);
    for verifier in &verifiers {
        for request in verifier.received().await {
            assert_eq!(request["violations"], json!([]), "{request:#}");
        }
    }
}
