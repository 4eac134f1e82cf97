//! Tests that secrets in the upstream URL do not appear in responses, metrics, logs and errors.

use super::faults::faults;
use super::{Message, MockUpstream, Step, exchange, get, healthy, post, post_chunked};
use crate::logged_process::{LoggedProcess, assert_no_secrets};
use crate::test_server::wait_until;

/// In lower case: the secret itself, the Basic credentials, and base64 of `canary`.
const SECRETS: [&str; 3] = ["canary", "y2fuyxj5lxvzzxi6y2fuyxj5lxbhc3n3b3jk", "y2fuyxj5"];

fn config(host: &str) -> String {
    format!(
        "[server]\nshutdown_grace = \"0s\"\n[limits]\nrequests_per_second_per_client = 0\n\
         body_timeout = \"100ms\"\n[log]\nfilter = \"trace\"\n[verification]\n\
         url = \"http://canary-user:canary-password@{host}/canary-Path/canary\"\ntimeout = \"200ms\"\n\
         max_body = \"64 KiB\"\n[chains.a]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:1/\"]\n"
    )
}

fn assert_clean(what: &str, text: &str) {
    assert_no_secrets(&SECRETS, what, text);
}

#[tokio::test]
async fn upstream_url_secret_is_sent_to_the_upstream_only() {
    let upstream = MockUpstream::start(healthy()).await;
    let config = config(&upstream.address().to_string());
    let process = LoggedProcess::start("verification", &config);
    let [address, admin] = process.addresses;
    let send = async |name: &str, request: Vec<u8>| {
        let (message, _) = exchange(address, &request).await;
        assert_clean(name, &message.as_ref().map(Message::searchable_text).unwrap_or_default());
        message
    };
    wait_until("a response within the timeout", async || {
        let response = send("a response", get("/verification/chains", "").into()).await;
        response.is_some_and(|response| response.text() == "{\"result\":[]}")
    })
    .await;
    // The upstream receives the secret.
    let request = upstream.request(0).await;
    assert_eq!(request.start_line, "GET /canary-Path/canary/chains HTTP/1.1");
    assert_eq!(request.header("authorization"), "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk");
    let mut responses = 0;
    for fault in faults().into_values().flatten() {
        upstream.set_script(fault.script);
        let request = get("/verification/v2/verify/x", "");
        responses += usize::from(send(&fault.name, request.into()).await.is_some());
        upstream.release(1);
    }
    assert!(responses > 50, "{responses}");
    // The service itself rejects these requests.
    upstream.set_script(vec![Step::ReadRequest]);
    for request in [
        get("/verification/v2/../x", "").into_bytes(),
        get("/verification/chains?a='b'", "").into_bytes(),
        get("/verificationv2/x", "").into_bytes(),
        b"PUT /verification HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"OPTIONS /verification HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n".to_vec(),
        post("/verification", "", &vec![b'x'; 70_000]),
        post_chunked("/verification", "", b"5\r\n12345\r\n"),
        post_chunked("/verification", "", b"zz\r\n"),
        post("/verification", "", b"{}"),
    ] {
        assert!(send("a refusal", request).await.is_some());
    }
    drop(upstream);
    let response = send("unreachable", get("/verification/chains", "").into()).await.unwrap();
    assert_eq!(response.status(), 502);
    let metrics = exchange(admin, get("/metrics", "").as_bytes()).await.0.unwrap();
    assert!(metrics.text().contains("gas_suggestion_proxied_requests_total"));
    assert_clean("/metrics", &metrics.searchable_text());
    let output = process.stop();
    assert!(output.contains("TRACE"), "the log level is not trace: {output}");
    assert_clean("the log", &output);
}
