//! Readers of event streams from the registries, through a restart of the service.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::programs;

#[tokio::test]
async fn readers_of_events_get_prices_and_nothing_else_through_a_restart() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stream-readers");
    fs::create_dir_all(&folder).unwrap();
    let settings = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "folder": folder,
        "python": programs::python_tool("python").get_program().to_str(),
    });
    let packages = [
        "@microsoft/fetch-event-source",
        "event-source-polyfill",
        "eventsource",
        "reconnecting-eventsource",
    ];
    let mut command = programs::node_js(&packages);
    command.arg(programs::script_path("stream-readers.mjs")).arg(settings.to_string());
    println!("{}", programs::expect_success(command).await);
}
