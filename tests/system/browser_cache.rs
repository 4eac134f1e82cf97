//! Tests of a browser's cache under a page that polls.

use serde_json::json;

use crate::programs;

#[tokio::test]
async fn a_page_that_polls_with_plain_fetch_is_never_more_than_one_block_behind() {
    let folder = programs::kept_folder("browser-cache");
    let settings = json!({ "binary": env!("CARGO_BIN_EXE_gas-suggestion"), "folder": folder });
    programs::run_script("browser-cache.mjs", &["playwright-core"], &settings).await;
}
