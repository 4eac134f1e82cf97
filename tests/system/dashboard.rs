//! The pages and their resources, and the dashboard and the OpenAPI page in Chromium.

use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::json;

use crate::fixtures;
use crate::pages::{self, policy};
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;

const CHAINS: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

/// Files of the dashboard.
const DASHBOARD: &str = "/ /base.css /dashboard/page.js /dashboard/style.css /dashboard/uplot/uPlot.esm.js \
    /dashboard/uplot/uPlot.min.css";

/// Files of the OpenAPI page.
const DOCS: &str = "/base.css /dashboard/dom.js /docs /docs/page.js /docs/style.css";

/// Files of the form that verifies contracts.
const VERIFY: &str = "/base.css /verify /verify/files.js /verify/noble/_u64.js /verify/noble/sha3.js \
     /verify/noble/utils.js /verify/page.js /verify/style.css /verify/submit.js";

#[tokio::test]
async fn pages_are_served_below_any_base_path_and_nowhere_else() {
    let own = policy("'self' data:");
    for base in ["", "/public", "/proxy/public"] {
        let chains = format!("[verification]\nurl = \"http://127.0.0.1:9\"\n{CHAINS}");
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), &chains).await;
        for (page, files) in [("/", DASHBOARD), ("/docs", DOCS), ("/verify", VERIFY)] {
            let path = format!("{base}{page}");
            let parts = pages::check_page_and_resources(&service, &path).await;
            let files = files.split(' ').map(|file| (format!("{base}{file}"), own.clone()));
            let mut expected: Vec<_> = files.collect();
            expected.sort();
            assert_eq!(parts, expected);
            if page != "/" {
                let location = format!("..{page}");
                pages::check_redirect(&service, &format!("{path}/"), &location, &path).await;
            }
        }
        if !base.is_empty() {
            pages::check_redirect(&service, base, "public/", &format!("{base}/")).await;
            for path in ["/", "/proxy", "/dashboard/page.js", &format!("{base}//")] {
                service.get(path).await.assert_problem(404, "not_found");
            }
        }
    }
}

#[test]
fn vendored_files_match_the_published_packages() {
    let uplot = [
        ("LICENSE", "LICENSE"),
        ("uPlot.esm.js", "dist/uPlot.esm.js"),
        ("uPlot.min.css", "dist/uPlot.min.css"),
    ];
    let noble = ["LICENSE", "_u64.js", "sha3.js", "utils.js"].map(|name| (name, name));
    for (folder, package, files) in [
        ("src/extras/pages/dashboard/uplot", "uplot", uplot.as_slice()),
        ("src/extras/verification/verify/noble", "@noble/hashes", &noble),
    ] {
        let folder = fixtures::path(folder);
        let published = fixtures::path("tests/node/node_modules").join(package);
        assert!(published.exists(), "no {}: run tests/run.sh", published.display());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), files.len());
        for (name, source) in files {
            let [ours, theirs] = [folder.join(name), published.join(source)].map(fs::read);
            assert!(ours.unwrap() == theirs.unwrap(), "{package}: {name}");
        }
    }
}

#[tokio::test]
async fn amounts_ages_and_states_are_formatted_exactly() {
    for name in ["dashboard.test.mjs", "dashboard-state.test.mjs", "dashboard-costs.test.mjs"] {
        programs::node_test(name, &[]).await;
    }
}

#[tokio::test]
async fn icon_is_served_to_pages_of_any_origin() {
    let service = TestServer::start(CHAINS).await;
    let origin = [("origin", "https://dapp.example")];
    let response = service.send(Method::GET, "/favicon.svg", &origin).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), "image/svg+xml");
    assert_eq!(response.header("access-control-allow-origin"), "*");
    assert!(response.body.starts_with("<svg"));
}

#[tokio::test]
async fn dashboard_is_right_fast_and_accessible_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "listen": format!("127.0.0.1:{}", free_port()),
        "shots": target.join("dashboard/shots"),
    });
    programs::run_script("dashboard.mjs", &["playwright-core", "axe-core"], &harness).await;
}

#[tokio::test]
async fn operations_can_be_read_and_tried_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "shots": target.join("docs"),
    });
    programs::run_script("docs.mjs", &["playwright-core", "axe-core"], &harness).await;
}
