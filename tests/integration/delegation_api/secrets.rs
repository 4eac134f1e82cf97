//! Keys, which nobody is told but the API, whatever it makes of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::fault_list::{broken, errors, late, no_answers, odd_answers};
use super::{HOT, VAULT, check};
use crate::exchange::{exchange, get};
use crate::logged::{Process, tells_none_of};
use crate::raw;
use crate::read_node::{ReadNode, Say};
use crate::upstream::{Upstream, answer, answering};

const CONFIGURED: &str = "canary-Configured/Key+1";
const CALLERS: &str = "canary-callers-key";

/// As they are, and in base64.
const SECRETS: [&str; 2] = ["canary", "y2fuyxj5"];

/// Whoever has sent a key may be told what the API says of it.
const OWN_ECHO: &str = "a caller's own key";

fn config(api: &str, node: &str, source: &str, key: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         drain_delay = \"0s\"\nshutdown_grace = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\n\
         [log]\nfilter = \"trace\"\nformat = \"json\"\n\
         [delegation]\nsource = \"{source}\"\n{key}timeout = \"200ms\"\ncache_ttl = \"0s\"\n\
         api_url = \"http://canary-user:canary-password@{api}/canary-Path/canary\"\n\
         [chains.a]\nchain_id = 2020\nrpc_urls = [{node:?}]\nblock_time = \"1h\"\nmax_age = \"1day\"\n"
    )
}

/// Answers that say a key: in every status, as a value, as a name, in a list, in headers, in plain text.
fn echoes(key: &str) -> Vec<Vec<u8>> {
    let escaped = key.chars().map(|one| format!("\\u{:04x}", u32::from(one)));
    let escaped = escaped.collect::<Vec<_>>().concat();
    let encoded = STANDARD.encode(key);
    let percent = key.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let mut echoes = Vec::new();
    for said in [key, &key.to_uppercase(), &escaped, &encoded, &percent, &key.replace('/', "\\/")] {
        for status in
            ["200 OK", "400 Bad", "401 No", "404 None", "429 Slow", "500 Oops", "503 Busy"]
        {
            for body in [
                format!("{{\"error\":\"the key {said} is wrong\"}}"),
                format!("{{\"{said}\":[\"{said}\"]}}"),
                format!("[{{\"type\":\"ALL\",\"from\":\"{VAULT}\",\"to\":\"{said}\"}}]"),
                format!("\"{said}\""),
                said.to_owned(),
                format!("<p>{said}</p>"),
            ] {
                echoes.push(answer(status, "Content-Type: application/json\r\n", body));
            }
            let headers = format!(
                "Retry-After: {key}\r\nX-Echo: {key}\r\nContent-Type: {key}\r\nETag: \"{key}\"\r\n\
                 Warning: 199 - \"{key}\"\r\nSet-Cookie: a={key}\r\nLocation: /{key}\r\n\
                 Cache-Control: max-age={key}\r\nContent-Encoding: {key}\r\n"
            );
            echoes.push(answer(status, &headers, "{}"));
            let headers = headers.split_once("Content-Encoding").unwrap().0.to_owned();
            echoes.push(answer(status, &headers, "{}"));
        }
    }
    echoes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_told_by_the_service() {
    let node = ReadNode::start(Say::Result(super::TRUE.into())).await;
    let mine = format!("X-API-KEY: {CALLERS}\r\n");
    for (source, has_key) in [("api", true), ("api", false), ("api-then-chain", true)] {
        let upstream = Upstream::start(Vec::new()).await;
        let key = if has_key { format!("api_key = \"{CONFIGURED}\"\n") } else { String::new() };
        let place = upstream.address().to_string();
        let name = format!("delegation-{source}-{has_key}");
        let process = Process::start(&name, &config(&place, &node.url(), source, &key));
        let [address, admin] = process.addresses;
        let mut told = 0;
        let mut ask = async |what: &str, path: &str, headers: &str| {
            let (answer, _) = exchange(address, raw::get(path, headers).as_bytes()).await;
            told += 1;
            let answer = answer.unwrap();
            if what != OWN_ECHO {
                tells_none_of(&SECRETS, what, &answer.told());
            }
            answer
        };
        // They are used.
        upstream.play(answering(answer("200 OK", "", "true")));
        assert_eq!(ask("an answer", &check(1), "").await.text(), "true");
        let request = upstream.request(0).await;
        assert!(request.first.starts_with("GET /canary-Path/canary/registry/v2/check/all?to="));
        assert_eq!(request.header("x-api-key"), if has_key { CONFIGURED } else { "" });
        let user = "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk";
        assert_eq!(request.header("authorization"), user);
        assert_eq!(ask("an answer", &check(1), &mine).await.text(), "true");
        assert_eq!(upstream.request(1).await.header("x-api-key"), CALLERS);
        let paths = [check(2), format!("/registry/v2/{HOT}")];
        for echo in echoes(CONFIGURED).into_iter().filter(|_| has_key) {
            upstream.play(answering(echo));
            for path in &paths {
                ask("an echo", path, "").await;
                ask("an echo", path, &mine).await;
            }
        }
        for echo in echoes(CALLERS) {
            upstream.play(answering(echo));
            for path in &paths {
                ask(OWN_ECHO, path, &mine).await;
            }
            upstream.play(answering(answer("200 OK", "", "[]")));
            for path in &paths {
                ask("an answer to another", path, "").await;
            }
        }
        // An API that was late is let be, so that comes last.
        let faults = [broken(), no_answers("http://127.0.0.1:1"), errors(), odd_answers(), late()];
        for fault in faults.concat() {
            upstream.play(fault.script);
            ask(&fault.name, &fault.question.path(1), &mine).await;
            ask(&fault.name, &fault.question.path(1), "").await;
            upstream.open(2);
        }
        for path in [check(3), check(3).replace("0x", "0y"), "/registry/v2/x".into()] {
            ask("a refusal", &path, &format!("{mine}{mine}")).await;
            ask("a refusal", &path, &mine).await;
        }
        drop(upstream);
        for headers in ["", &mine] {
            ask("nobody there", &check(4), headers).await;
        }
        assert!(told > 300, "{told}");
        let metrics = exchange(admin, get("/metrics").as_bytes()).await.0.unwrap();
        assert!(metrics.text().contains("gas_suggestion_delegation_lookups_total"));
        tells_none_of(&SECRETS, "/metrics", &metrics.told());
        let output = process.end();
        assert!(output.contains("TRACE"), "the log tells less than it could");
        tells_none_of(&SECRETS, "the log", &output);
    }
}
