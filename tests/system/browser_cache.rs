//! What the cache of a browser does with responses that a page polls.

use std::fs;

use serde_json::json;

use crate::programs;

#[tokio::test]
async fn a_page_that_polls_with_plain_fetch_is_never_more_than_one_block_behind() {
    let folder = std::env::temp_dir().join(format!("gas-suggestion-cache-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut command = programs::node_js(&["playwright-core"]);
    command.args(["--test-reporter", "spec"]).arg(programs::script_path("browser-cache.mjs"));
    command.arg(
        json!({ "binary": env!("CARGO_BIN_EXE_gas-suggestion"), "folder": folder }).to_string(),
    );
    println!("{}", programs::expect_success(command).await);
    fs::remove_dir_all(&folder).unwrap();
}
