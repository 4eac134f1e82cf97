//! The dashboard: its resources, and its behaviour in Chromium.

use std::path::Path;

use serde_json::json;

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
        let files = ["/", "/base.css", "/dashboard/card.js", "/dashboard/copy.js"];
        let files = files.into_iter().chain(["/dashboard/format.js", "/dashboard/live.js"]);
        let files = files.chain(["/dashboard/page.js", "/dashboard/state.js"]);
        let files = files.chain(["/dashboard/style.css"]);
        let expected = files.map(|file| (format!("{base}{file}"), policy("'self' data:")));
        assert_eq!(parts, expected.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn base_path_redirects_to_the_page_and_the_root_is_404() {
    for base in ["/public", "/proxy/public"] {
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        pages::check_redirect(&service, base, "public/", &format!("{base}/")).await;
        for path in ["/", "/proxy", "/dashboard/page.js", &format!("{base}//")] {
            let response = service.get(path).await;
            assert_eq!(
                (response.status, &response.json()["code"]),
                (404, &"not_found".into()),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn amounts_ages_and_states_are_formatted_exactly() {
    programs::node_test("dashboard.test.mjs", &[]).await;
}

#[tokio::test]
async fn dashboard_shows_live_prices_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "listen": format!("127.0.0.1:{}", free_port()),
        "shots": target.join("dashboard"),
    });
    let mut command = programs::node_js(&["playwright-core"]);
    command.arg(programs::script_path("dashboard.mjs")).arg(harness.to_string());
    println!("{}", programs::expect_success(command).await);
}
