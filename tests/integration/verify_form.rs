//! The form at `/verify`: what it is made of, and what people see of it in Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::anvil::Anvil;
use crate::fixtures;
use crate::pages::{self, policy};
use crate::programs;
use crate::service::Service;
use crate::verifier::Verifier;

/// What the scripts for the form import.
const PACKAGES: &[&str] = &["@noble/hashes", "ethers", "playwright-core"];

#[tokio::test]
async fn files_are_told_apart_and_held_against_each_other_in_the_page() {
    programs::node_test("files.test.mjs", PACKAGES).await;
}

#[tokio::test]
async fn every_answer_of_a_verification_service_has_its_outcome_in_the_page() {
    programs::node_test("submit.test.mjs", PACKAGES).await;
}

#[test]
fn the_hash_function_is_as_its_authors_publish_it() {
    let folder = fixtures::path("src/pages/verify/noble");
    let names: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let published = fixtures::path("tests/node/node_modules/@noble/hashes");
    assert!(published.exists(), "no {}: run tests/run.sh", published.display());
    for name in names {
        let read = |folder: &Path| fs::read(folder.join(&name)).unwrap();
        assert!(read(&folder) == read(&published), "{}", name.display());
    }
}

const NO_NODES: [&str; 2] = ["http://127.0.0.1:9"; 2];

#[tokio::test]
async fn the_page_and_all_that_it_loads_are_served_below_any_base_path() {
    for base in ["", "/proxy/public"] {
        let more = format!("base_path = \"{base}\"");
        let service = Service::with_server(&more, &with("http://127.0.0.1:9", NO_NODES)).await;
        let parts = pages::all_parts(&service, &format!("{base}/verify")).await;
        let files = ["", "/files.js", "/noble/_u64.js", "/noble/sha3.js", "/noble/utils.js"];
        let files = files.into_iter().chain(["/page.js", "/style.css", "/submit.js"]);
        let own = files.map(|file| (format!("{base}/verify{file}"), policy("data:")));
        let palette = (format!("{base}/base.css"), policy("'self' data:"));
        assert_eq!(parts, [palette].into_iter().chain(own).collect::<Vec<_>>());
        pages::leads(&service, &format!("{base}/verify/"), "../verify", &format!("{base}/verify"))
            .await;
    }
}

#[tokio::test]
async fn without_a_verification_service_there_is_no_page() {
    let service = Service::start(&with("", NO_NODES)).await;
    for path in ["/verify", "/verify/", "/verify/page.js"] {
        let answer = service.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
}

/// The configuration of a service with this upstream and, as Ronin and Saigon, nodes at these URLs.
fn with(verification: &str, nodes: [&str; 2]) -> String {
    let [ronin, saigon] = nodes;
    format!(
        "[verification]\nurl = \"{verification}\"\n\
         [chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{ronin}\"]\nblock_time = \"2s\"\n\
         [chains.saigon]\nchain_id = 202601\nrpc_urls = [\"{saigon}\"]\nblock_time = \"2s\"\n"
    )
}

#[tokio::test]
async fn people_verify_contracts_in_chromium() {
    let nodes = [Anvil::of_chain(2020, 0, &[]), Anvil::of_chain(202_601, 0, &[])];
    let [ronin, saigon] = nodes.each_ref().map(Anvil::url);
    let upstream = |more: &[&str]| Verifier::start(&[(2020, &ronin), (202_601, &saigon)], more);
    let verifiers = [
        upstream(&["--job-ms", "0", "--job-polls", "1"]),
        upstream(&["--generation", "v1"]),
        upstream(&["--job-ms", "2000000000"]),
    ];
    let [both, first, slow] = verifiers.each_ref().map(Verifier::url);
    let service = async |more: &str, url: &str| {
        Service::with_server(more, &with(url, [&ronin, &saigon])).await
    };
    let plain = service("", &both).await;
    let below = service("base_path = \"/proxy/public\"", &both).await;
    let first = service("", &first).await;
    let slow = service("", &slow).await;
    let down = service("", "http://127.0.0.1:9").await;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let world = json!({
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
    let mut command = programs::node(PACKAGES);
    command.arg(programs::script("verify-form.mjs")).arg(world.to_string());
    println!("{}", programs::success(command).await);
    for verifier in &verifiers {
        for asked in verifier.received().await {
            assert_eq!(asked["violations"], json!([]), "{asked:#}");
        }
    }
}
