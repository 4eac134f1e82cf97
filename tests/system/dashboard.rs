//! The dashboard: its resources, and its behaviour in Chromium.

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

#[tokio::test]
async fn page_and_resources_are_served_below_any_base_path() {
    for base in ["", "/public", "/proxy/public"] {
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        let parts = pages::check_page_and_resources(&service, &format!("{base}/")).await;
        let names = "amounts cards chain copy costs details dom favicon format heatmap history live notify overview \
                     page points price-chart score snippets sorting sparkline spend state store style tiers trend \
                     uplot/uPlot.esm uplot/uPlot.min view";
        let modules = names.split(' ').map(|name| {
            let kind = if ["style", "uplot/uPlot.min"].contains(&name) { "css" } else { "js" };
            format!("/dashboard/{name}.{kind}")
        });
        let files = ["/".to_owned(), "/base.css".to_owned()].into_iter().chain(modules);
        let mut expected: Vec<_> =
            files.map(|file| (format!("{base}{file}"), policy("'self' data:"))).collect();
        expected.sort();
        assert_eq!(parts, expected);
    }
}

#[tokio::test]
async fn base_path_redirects_to_the_page_and_the_root_is_404() {
    for base in ["/public", "/proxy/public"] {
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        pages::check_redirect(&service, base, "public/", &format!("{base}/")).await;
        for path in ["/", "/proxy", "/dashboard/page.js", &format!("{base}//")] {
            let response = service.get(path).await;
            response.assert_problem(404, "not_found");
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
async fn icon_and_component_are_served_to_pages_of_any_origin() {
    let service = TestServer::start(CHAINS).await;
    for (path, kind, start) in [
        ("/favicon.svg", "image/svg+xml", "<svg"),
        ("/gas-suggestion.js", "text/javascript; charset=utf-8", "// <gas-suggestion"),
    ] {
        let origin = [("origin", "https://dapp.example")];
        let response = service.send(Method::GET, path, &origin).await;
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), kind);
        assert_eq!(response.header("access-control-allow-origin"), "*");
        assert!(response.body.starts_with(start), "{path}");
    }
}

#[test]
fn vendored_chart_library_matches_the_published_package() {
    let folder = fixtures::path("src/extras/pages/dashboard/uplot");
    let published = fixtures::path("tests/node/node_modules/uplot");
    assert!(published.exists(), "no {}: run tests/run.sh", published.display());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    for (name, source) in [
        ("LICENSE", "LICENSE"),
        ("uPlot.esm.js", "dist/uPlot.esm.js"),
        ("uPlot.min.css", "dist/uPlot.min.css"),
    ] {
        assert!(
            fs::read(folder.join(name)).unwrap() == fs::read(published.join(source)).unwrap(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn dashboard_is_right_fast_and_accessible_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "listen": format!("127.0.0.1:{}", free_port()),
        "shots": target.join("dashboard/shots"),
    });
    let mut command = programs::node_js(&["playwright-core", "axe-core"]);
    command.arg(programs::script_path("dashboard.mjs")).arg(harness.to_string());
    println!("{}", programs::expect_success(command).await);
}
