//! A secret in the upstream's URL, which nobody is told, whatever happens.

use gas_suggestion::config::Config;

use super::fault_list::faults;
use super::{exchange, get, post, post_chunked, well};
use crate::logged::{Process, tells_none_of};
use crate::message::Message;
use crate::raw::free_port;
use crate::upstream::{Step, Upstream};

/// What must not be told: as it is, as it stands in a header, and as others may write it.
const SECRETS: [&str; 3] = ["canary", "y2fuyxj5lxvzzxi6y2fuyxj5lxbhc3n3b3jk", "y2fuyxj5"];

fn config(place: &str, more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         drain_delay = \"0s\"\nshutdown_grace = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\nbody_timeout = \"100ms\"\n\
         [log]\nfilter = \"trace\"\nformat = \"json\"\n\
         [verification]\nurl = \"http://canary-user:canary-password@{place}/canary-Path/canary\"\n\
         timeout = \"200ms\"\nmax_body = \"64 KiB\"\n{more}\n\
         [chains.a]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:1/\"]\n"
    )
}

fn is_clean(what: &str, text: &str) {
    tells_none_of(&SECRETS, what, text);
}

#[tokio::test]
async fn a_secret_in_the_upstreams_url_is_told_to_the_upstream_alone() {
    let upstream = Upstream::start(well()).await;
    let process = Process::start("verification", &config(&upstream.address().to_string(), ""));
    let [address, admin] = process.addresses;
    let ask = async |name: &str, request: Vec<u8>| {
        let (message, _) = exchange(address, &request).await;
        is_clean(name, &message.as_ref().map(Message::told).unwrap_or_default());
        message
    };
    let answer = ask("an answer", get("/verification/chains").into()).await.unwrap();
    assert_eq!(answer.text(), "{\"result\":[]}");
    // It is one, and it is used.
    let request = upstream.request(0).await;
    assert_eq!(request.first, "GET /canary-Path/canary/chains HTTP/1.1");
    assert_eq!(request.header("authorization"), "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk");
    let mut told = 0;
    for fault in faults() {
        upstream.play(fault.script);
        told +=
            usize::from(ask(fault.name, get("/verification/v2/verify/x").into()).await.is_some());
        upstream.open(1);
    }
    assert!(told > 50, "{told}");
    // What the service itself has against a request.
    upstream.play(vec![Step::Request]);
    for request in [
        get("/verification/v2/../x").into_bytes(),
        get("/verification/chains?a='b'").into_bytes(),
        get("/verificationv2/x").into_bytes(),
        b"PUT /verification HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"OPTIONS /verification HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n".to_vec(),
        post("/verification", "", &vec![b'x'; 70_000]),
        post_chunked("/verification", "", b"5\r\n12345\r\n"),
        post_chunked("/verification", "", b"zz\r\n"),
        post("/verification", "", b"{}"),
    ] {
        assert!(ask("a refusal", request).await.is_some());
    }
    drop(upstream);
    assert_eq!(
        ask("nobody there", get("/verification/chains").into()).await.unwrap().status(),
        502
    );
    let metrics = exchange(admin, get("/metrics").as_bytes()).await.0.unwrap();
    assert!(metrics.text().contains("gas_suggestion_proxied_requests_total"));
    is_clean("/metrics", &metrics.told());
    let output = process.end();
    assert!(output.contains("TRACE"), "the log tells less than it could: {output}");
    is_clean("the log", &output);
}

#[test]
fn a_configuration_with_a_secret_url_prints_without_it() {
    let place = format!("127.0.0.1:{}", free_port());
    let parsed = Config::from_toml(&config(&place, "")).unwrap();
    is_clean("Debug", &format!("{parsed:?} {parsed:#?}"));
    for more in ["timeout2 = \"1s\"", "max_in_flight = 0", "max_in_flight = \"canary\""] {
        let error = Config::from_toml(&config(&place, more)).unwrap_err();
        is_clean("an error", &format!("{error:?} {error}").replace("found \"canary\"", ""));
    }
    for query in ["?canary", "#canary"] {
        let text = config(&place, "").replace("/canary\"", &format!("/canary{query}\""));
        let error = Config::from_toml(&text).unwrap_err();
        is_clean("an error", &format!("{error:?} {error}"));
    }
}
