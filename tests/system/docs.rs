//! The OpenAPI page: its resources, and its behaviour in Chromium.

use std::path::Path;

use serde_json::json;

use crate::pages::{self, policy};
use crate::programs;
use crate::test_server::TestServer;

const CHAINS: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

#[tokio::test]
async fn page_and_resources_are_served_below_any_base_path() {
    for base in ["", "/proxy/public"] {
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        let parts = pages::check_page_and_resources(&service, &format!("{base}/docs")).await;
        let scripts = ["document", "element", "operation", "page", "request", "schema"];
        let scripts = scripts.map(|name| format!("/docs/{name}.js"));
        let files = ["/base.css", "/docs"].map(str::to_owned).into_iter().chain(scripts);
        let files = files.chain(["/docs/style.css".to_owned()]);
        let expected = files.map(|file| (format!("{base}{file}"), policy("'self' data:")));
        assert_eq!(parts, expected.collect::<Vec<_>>());
        pages::check_redirect(
            &service,
            &format!("{base}/docs/"),
            "../docs",
            &format!("{base}/docs"),
        )
        .await;
    }
}

#[tokio::test]
async fn types_requests_and_groups_match_the_document() {
    programs::node_test("docs.test.mjs", &[]).await;
}

#[tokio::test]
async fn operations_can_be_read_and_tried_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "shots": target.join("docs"),
    });
    let mut command = programs::node_js(&["playwright-core"]);
    command.arg(programs::script_path("docs.mjs")).arg(harness.to_string());
    println!("{}", programs::expect_success(command).await);
}
