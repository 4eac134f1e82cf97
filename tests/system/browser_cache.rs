//! Tests of a browser's cache under a page that polls.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::programs;

#[tokio::test]
async fn a_page_that_polls_with_plain_fetch_is_never_more_than_one_block_behind() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser-cache");
    fs::create_dir_all(&folder).unwrap();
    let settings = json!({ "binary": env!("CARGO_BIN_EXE_gas-suggestion"), "folder": folder });
    let mut command = programs::node_js(&["playwright-core"]);
    command.arg(programs::script_path("browser-cache.mjs")).arg(settings.to_string());
    println!("{}", programs::expect_success(command).await);
}
