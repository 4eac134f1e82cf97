//! The page of the OpenAPI document: what it is made of, and what people see of it in Chromium.

use std::path::Path;

use serde_json::json;

use crate::pages::{self, policy};
use crate::programs;
use crate::service::Service;

const CHAINS: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

#[tokio::test]
async fn the_page_and_all_that_it_loads_are_served_below_any_base_path() {
    for base in ["", "/proxy/public"] {
        let service = Service::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        let parts = pages::all_parts(&service, &format!("{base}/docs")).await;
        let scripts = ["attempt", "document", "element", "operation", "page", "schema"];
        let scripts = scripts.map(|name| format!("/docs/{name}.js"));
        let files = ["/base.css", "/docs"].map(str::to_owned).into_iter().chain(scripts);
        let files = files.chain(["/docs/style.css".to_owned()]);
        let expected = files.map(|file| (format!("{base}{file}"), policy("'self' data:")));
        assert_eq!(parts, expected.collect::<Vec<_>>());
        pages::leads(&service, &format!("{base}/docs/"), "../docs", &format!("{base}/docs")).await;
    }
}

#[tokio::test]
async fn types_requests_and_groups_are_told_as_the_document_has_them() {
    programs::node_test("docs.test.mjs", &[]).await;
}

#[tokio::test]
async fn people_read_and_try_the_document_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let world = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "shots": target.join("docs"),
    });
    let mut command = programs::node(&["playwright-core"]);
    command.arg(programs::script("docs.mjs")).arg(world.to_string());
    println!("{}", programs::success(command).await);
}
