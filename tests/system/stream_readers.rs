//! Readers of event streams from the registries, through a restart of the service.

use serde_json::json;

use crate::programs;

#[tokio::test]
async fn readers_of_events_get_prices_and_nothing_else_through_a_restart() {
    let folder = programs::kept_folder("stream-readers");
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
    programs::run_script("stream-readers.mjs", &packages, &settings).await;
}
