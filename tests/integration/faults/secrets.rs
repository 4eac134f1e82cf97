//! What the commands tell of secrets that they read but do not use.

use std::net::TcpListener;

use crate::command::{File, output};

const SECRET: &str = "canary";

/// A configuration that is full of secrets.
fn config(more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         [log]\nfilter = \"trace\"\n\
         [delegation]\napi_key = \"canary-delegation\"\n\
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
    let told = stdout + &stderr;
    assert!(!told.to_lowercase().contains(SECRET), "{told}");
    (code, told)
}

#[test]
fn no_command_tells_a_secret() {
    let (code, told) = run(&["check-config"], &config(""), &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("a (id 7, 1 RPC URL)") && told.contains("ws_urls"), "{told}");

    // Secrets under keys and in places that are wrong.
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
        let (code, told) = run(&["serve"], &config(&more), &[]);
        assert_eq!(code, Some(2), "{more}: {told}");
        assert!(told.starts_with("error: "), "{told}");
    }
    let variables = [("GAS_CHAINS__A__RPC_URLS", "[\"canary://canary\"]")];
    assert_eq!(run(&["check-config"], &config(""), &variables).0, Some(2));
}

#[test]
fn a_start_that_fails_tells_no_secret() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for format in ["text", "json"] {
        let variables = [("GAS_SERVER__LISTEN", address.as_str()), ("GAS_LOG__FORMAT", format)];
        let (code, told) = run(&["serve"], &config(""), &variables);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("cannot listen on"), "{told}");
    }
}
