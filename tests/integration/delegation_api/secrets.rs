//! API keys reach the API only, even if its responses contain them.

use std::cell::Cell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::delegation_service::{HOT, RARELY, TRUE, VAULT, check};
use crate::http_message::get;
use crate::logged_process::{LoggedProcess, assert_no_secrets};
use crate::mock_node::{MockNode, Reply};
use crate::mock_upstream::{MockUpstream, respond_with, response};
use crate::raw_client::exchange;

const CONFIGURED_KEY: &str = "canary-Configured/Key+1";
const CLIENT_KEY: &str = "canary-callers-key";

/// Marker of every secret, plain and in base64; both in lower case.
const SECRETS: [&str; 2] = ["canary", "y2fuyxj5"];

/// Context of requests whose response may contain the key that the client itself sent.
const OWN_ECHO: &str = "the client's own key";

/// Returns responses that contain a key: with every status, as value, name and list member, in headers and as text, and
/// in every spelling. The unit tests of the redactor have further texts.
fn echoes(key: &str) -> Vec<Vec<u8>> {
    let escaped = key.chars().map(|one| format!("\\u{:04x}", u32::from(one)));
    let escaped = escaped.collect::<Vec<_>>().concat();
    let encoded = STANDARD.encode(key);
    let percent = key.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let mut echoes = Vec::new();
    let mut echo = |status: &str, body: &str, spelling: &str| {
        let body = body.replace("KEY", spelling).replace("VAULT", VAULT);
        echoes.push(response(status, "Content-Type: application/json\r\n", body));
    };
    let bodies = [
        "{\"error\":\"the key KEY is wrong\"}",
        "{\"KEY\":[\"KEY\"]}",
        "[{\"type\":\"ALL\",\"from\":\"VAULT\",\"to\":\"KEY\"}]",
        "\"KEY\"",
        "KEY",
        "<p>KEY</p>",
    ];
    let [error, member, ..] = bodies;
    let statuses = ["200 OK", "400 Bad", "401 No", "404 None", "429 Slow", "500 Oops", "503 Busy"];
    for spelling in [&key.to_uppercase(), &escaped, &encoded, &percent, &key.replace('/', "\\/")] {
        echo("200 OK", member, spelling);
        echo("401 No", error, spelling);
    }
    for status in statuses {
        for body in bodies {
            echo(status, body, key);
        }
    }
    for status in statuses {
        let headers = format!(
            "Retry-After: {key}\r\nX-Echo: {key}\r\nContent-Type: {key}\r\nETag: \"{key}\"\r\n\
             Warning: 199 - \"{key}\"\r\nSet-Cookie: a={key}\r\nLocation: /{key}\r\n\
             Cache-Control: max-age={key}\r\n"
        );
        echoes.push(response(status, &headers, "{}"));
        let headers = format!("{headers}Content-Encoding: {key}\r\n");
        echoes.push(response(status, &headers, "{}"));
    }
    echoes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_never_leak() {
    let node = MockNode::for_reads(Reply::RawResult(TRUE.into())).await;
    // A key that the API has refused is not sent again, so each request has one of its own.
    let keys_sent = Cell::new(0);
    let client_header = || {
        keys_sent.set(keys_sent.get() + 1);
        format!("X-API-KEY: {CLIENT_KEY}-{}\r\n", keys_sent.get())
    };
    for (source, has_key) in [("api", false), ("api-then-chain", true)] {
        let upstream = MockUpstream::start(Vec::new()).await;
        let key = if has_key { format!("api_key = \"{CONFIGURED_KEY}\"\n") } else { String::new() };
        let config = format!(
            "[server]\nshutdown_grace = \"0s\"\n[limits]\nrequests_per_second_per_client = 0\n[log]\n\
             filter = \"trace\"\n[delegation]\nsource = \"{source}\"\n{key}timeout = \"5s\"\n\
             cache_ttl = \"0s\"\napi_url = \"http://canary-user:canary-password@{}/canary-Path/canary\"\n\
             [chains.a]\nchain_id = 2020\ndata_fee = \"off\"\nrpc_urls = [{:?}]\n{RARELY}",
            upstream.address(),
            node.url(),
        );
        let process = LoggedProcess::start(&format!("delegation-{source}-{has_key}"), &config);
        let [address, admin] = process.addresses;
        let mut sent = 0;
        let mut send_request = async |context: &str, path: &str, headers: &str| {
            let (response, _) = exchange(address, get(path, headers).as_bytes()).await;
            sent += 1;
            let response = response.unwrap();
            if context != OWN_ECHO {
                assert_no_secrets(&SECRETS, context, &response.searchable_text());
            }
            response
        };
        // The keys reach the API.
        upstream.set_script(respond_with(response("200 OK", "", "true")));
        assert_eq!(send_request("a response", &check(1), "").await.text(), "true");
        let request = upstream.request(0).await;
        let target = "GET /canary-Path/canary/registry/v2/check/all?to=";
        assert!(request.start_line.starts_with(target));
        assert_eq!(request.header("x-api-key"), if has_key { CONFIGURED_KEY } else { "" });
        let user = "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk";
        assert_eq!(request.header("authorization"), user);
        assert_eq!(send_request("a response", &check(1), &client_header()).await.text(), "true");
        assert!(upstream.request(1).await.header("x-api-key").starts_with(CLIENT_KEY));
        let paths = [check(2), format!("/registry/v2/{HOT}")];
        for echo in echoes(CONFIGURED_KEY).into_iter().filter(|_| has_key) {
            upstream.set_script(respond_with(echo));
            for path in &paths {
                send_request("an echo", path, "").await;
                send_request("an echo", path, &client_header()).await;
            }
        }
        for echo in echoes(CLIENT_KEY) {
            upstream.set_script(respond_with(echo));
            for path in &paths {
                send_request(OWN_ECHO, path, &client_header()).await;
            }
            upstream.set_script(respond_with(response("200 OK", "", "[]")));
            for path in &paths {
                send_request("a response to another client", path, "").await;
            }
        }
        for path in [check(3), check(3).replace("0x", "0y"), "/registry/v2/x".into()] {
            send_request("a refusal", &path, &format!("{}{}", client_header(), client_header()))
                .await;
            send_request("a refusal", &path, &client_header()).await;
        }
        drop(upstream);
        for headers in [String::new(), client_header()] {
            send_request("an unreachable API", &check(4), &headers).await;
        }
        assert!(sent > 250, "{sent}");
        let metrics = exchange(admin, get("/metrics", "").as_bytes()).await.0.unwrap();
        assert!(metrics.text().contains("gas_suggestion_delegation_lookups_total"));
        assert_no_secrets(&SECRETS, "/metrics", &metrics.searchable_text());
        let output = process.stop();
        assert!(output.contains("TRACE"), "the log has no trace lines");
        assert_no_secrets(&SECRETS, "the log", &output);
    }
}
