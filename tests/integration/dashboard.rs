//! The dashboard: what it is made of, and what people see of it in Chromium.

use std::path::Path;

use serde_json::json;

use crate::pages::{self, policy};
use crate::programs;
use crate::raw::free_port;
use crate::service::Service;

const CHAINS: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

#[tokio::test]
async fn the_page_and_all_that_it_loads_are_served_below_any_base_path() {
    for base in ["", "/public", "/proxy/public"] {
        let service = Service::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        let parts = pages::all_parts(&service, &format!("{base}/")).await;
        let files = ["/", "/base.css", "/dashboard/card.js", "/dashboard/copy.js"];
        let files = files.into_iter().chain(["/dashboard/live.js", "/dashboard/page.js"]);
        let files = files.chain(["/dashboard/state.js", "/dashboard/style.css"]);
        let files = files.chain(["/dashboard/words.js"]);
        let expected = files.map(|file| (format!("{base}{file}"), policy("'self' data:")));
        assert_eq!(parts, expected.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_base_path_leads_to_the_page_below_it_and_leaves_the_root_alone() {
    for base in ["/public", "/proxy/public"] {
        let service = Service::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        pages::leads(&service, base, "public/", &format!("{base}/")).await;
        for path in ["/", "/proxy", "/dashboard/page.js", &format!("{base}//")] {
            let answer = service.get(path).await;
            assert_eq!(
                (answer.status, &answer.json()["code"]),
                (404, &"not_found".into()),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn amounts_ages_and_states_are_told_exactly() {
    programs::node_test("dashboard.test.mjs", &[]).await;
}

#[tokio::test]
async fn people_watch_prices_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let world = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "listen": format!("127.0.0.1:{}", free_port()),
        "shots": target.join("dashboard"),
    });
    let mut command = programs::node(&["playwright-core"]);
    command.arg(programs::script("dashboard.mjs")).arg(world.to_string());
    println!("{}", programs::success(command).await);
}
