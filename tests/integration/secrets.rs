//! Secrets in the configuration never appear in the output of the commands.

use std::net::TcpListener;

use crate::process::{File, output};

const SECRET: &str = "canary";

/// Returns a configuration with secrets in many keys.
fn config(more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         [log]\nfilter = \"trace\"\n\
         [delegation]\nsource = \"api\"\napi_key = \"canary-delegation\"\n\
         [redis]\nurl = \"redis://:canary-password@localhost\"\n\
         [chains.a]\nchain_id = 7\n\
         ws_urls = [\"wss://node.example/canary-path\"]\n\
         rpc_urls = [\"https://canary-user:canary-password@node.example/canary?key=canary\"]\n\
         {more}"
    )
}

fn run(arguments: &[&str], text: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let file = File::new("secrets", text);
    let arguments = [arguments, &["--config", file.path()]].concat();
    let (code, stdout, stderr) = output(&arguments, variables);
    let output_text = stdout + &stderr;
    assert!(!output_text.to_lowercase().contains(SECRET), "{output_text}");
    (code, output_text)
}

#[test]
fn commands_never_print_secrets() {
    let (code, output_text) = run(&["check-config"], &config(""), &[]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(
        output_text.contains("a (id 7, no preset, 1 RPC URL)") && output_text.contains("ws_urls"),
        "{output_text}"
    );

    // Secrets in invalid values and under wrong keys.
    let url = "https://canary-user:canary-password@node.example/canary-path";
    for more in [
        format!("rpc_url = \"{url}\"\n"),
        format!("block_time = \"{url}\"\n"),
        format!("max_age = [\"{url}\"]\n"),
        format!("name = \"{url}\n"),
        format!("[chains.b]\nchain_id = 8\nrpc_urls = [\"{url}\", \"ftp://canary.example\"]\n"),
        format!("[chains.b]\nchain_id = 8\nrpc_urls = \"{url}\"\n"),
        format!("[chains.b]\nchain_id = \"{url}\"\nrpc_urls = [\"{url}\"]\n"),
        format!("[chains.b]\nchain_id = 7\nrpc_urls = [\"{url}\"]\n"),
        format!("[\"{url}\"]\nkey = 1\n"),
        format!("[cors]\nallowed_origins = [\"{url}\"]\n"),
    ] {
        let (code, output_text) = run(&["serve"], &config(&more), &[]);
        assert_eq!(code, Some(2), "{more}: {output_text}");
        assert!(output_text.starts_with("error: "), "{output_text}");
    }
    let variables = [("GAS_CHAINS__A__RPC_URLS", "[\"canary://canary\"]")];
    assert_eq!(run(&["check-config"], &config(""), &variables).0, Some(2));
}

#[test]
fn failed_start_prints_no_secret() {
    let used_port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used_port.local_addr().unwrap().to_string();
    for format in ["text", "json"] {
        let variables = [("GAS_SERVER__LISTEN", address.as_str()), ("GAS_LOG__FORMAT", format)];
        let (code, output_text) = run(&["serve"], &config(""), &variables);
        assert_eq!(code, Some(1), "{output_text}");
        assert!(output_text.contains("cannot listen on"), "{output_text}");
    }
}
