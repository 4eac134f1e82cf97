//! Which paths are asked upstream, and where.

use super::{Stage, get, well};
use crate::upstream::Upstream;

const ADDRESS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/// Paths below `/verification`, what they are asked as, and what may be asked there.
const TABLE: &[(&str, &str, &str)] = &[
    ("", "/", "POST"),
    ("/", "/", "POST"),
    ("//", "/", "POST"),
    ("/verify", "/verify", "POST"),
    ("/verify/", "/verify", "POST"),
    ("//verify//", "/verify", "POST"),
    ("/verify/create2", "/verify/create2", "POST"),
    ("/verify//create2/", "/verify/create2", "POST"),
    ("/verify/solc-json", "/verify/solc-json", "POST"),
    ("/check-by-addresses", "/check-by-addresses", "GET,HEAD"),
    ("/check-all-by-addresses", "/check-all-by-addresses", "GET,HEAD"),
    ("//check-all-by-addresses", "/check-all-by-addresses", "GET,HEAD"),
    ("/checkByAddresses", "/checkByAddresses", "GET,HEAD"),
    ("/checkAllByAddresses/", "/checkAllByAddresses", "GET,HEAD"),
    ("/chains", "/chains", "GET,HEAD"),
    ("/health", "/health", "GET,HEAD"),
    ("/version", "/version", "GET,HEAD"),
    ("/files/any/2020/{A}", "/files/any/2020/{A}", "GET,HEAD"),
    ("/files/2020/{A}", "/files/2020/{A}", "GET,HEAD"),
    ("/files/tree/any/2020/{A}", "/files/tree/any/2020/{A}", "GET,HEAD"),
    ("/v2/verify/2020/{A}", "/v2/verify/2020/{A}", "GET,HEAD,POST"),
    ("//v2///verify/2020/{A}//", "/v2/verify/2020/{A}", "GET,HEAD,POST"),
    ("/v2/verify/metadata/2020/{A}", "/v2/verify/metadata/2020/{A}", "GET,HEAD,POST"),
    ("/v2/verify/0a-b:c.d_e", "/v2/verify/0a-b:c.d_e", "GET,HEAD,POST"),
    ("/v2/contract/2020/{A}", "/v2/contract/2020/{A}", "GET,HEAD,POST"),
    ("/v2/...", "/v2/...", "GET,HEAD,POST"),
    ("/v2/1/2/3/4/5/6/7/8", "/v2/1/2/3/4/5/6/7/8", "GET,HEAD,POST"),
];

/// Asks every row with every method; what goes on has to go below `prefix`.
async fn holds(stage: &Stage, base_path: &str, prefix: &str) {
    let mut asked = stage.upstream.connections();
    for (path, target, allowed) in TABLE {
        let path = format!("{base_path}/verification{path}").replace("{A}", ADDRESS);
        let target = format!("{prefix}{target}").replace("{A}", ADDRESS);
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] {
            let request =
                format!("{method} {path}?a=%2C HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            let answer = stage.ask(request).await;
            if !allowed.split(',').any(|allowed| allowed == method) {
                assert_eq!(answer.status(), 405, "{method} {path}: {answer:#?}");
                assert_eq!(answer.header("allow"), *allowed, "{method} {path}");
                continue;
            }
            assert_eq!(answer.status(), 200, "{method} {path}: {answer:#?}");
            let request = stage.upstream.request(asked).await;
            assert_eq!(request.first, format!("{method} {target}?a=%2C HTTP/1.1"), "{path}");
            assert_eq!(request.header("host"), stage.upstream.address().to_string());
            asked += 1;
        }
    }
    assert_eq!(stage.upstream.connections(), asked);
}

#[tokio::test]
async fn every_route_is_asked_below_the_configured_url_and_no_other_method_is() {
    holds(&Stage::start(well()).await, "", "/server").await;
}

#[tokio::test]
async fn the_configured_url_may_have_a_slash_at_its_end_and_no_path() {
    for (configured, prefix) in [("/server/", "/server"), ("/", ""), ("", ""), ("/a/b", "/a/b")] {
        let upstream = Upstream::start(well()).await;
        let url = format!("url = \"http://{}{configured}\"", upstream.address());
        let stage = Stage::before(upstream, "", &url, "").await;
        for (number, (path, target)) in
            [("/chains", "/chains"), ("/v2//x/", "/v2/x")].iter().enumerate()
        {
            stage.ask(get(&format!("/verification{path}"))).await;
            let request = stage.upstream.request(number).await;
            assert_eq!(request.first, format!("GET {prefix}{target} HTTP/1.1"), "{configured}");
        }
        for path in ["/verification", "/verification/"] {
            let number = stage.upstream.connections();
            stage.ask(super::post(path, "", b"{}")).await;
            let request = stage.upstream.request(number).await;
            assert_eq!(request.first, format!("POST {prefix}/ HTTP/1.1"), "{configured}");
        }
    }
}

#[tokio::test]
async fn all_of_it_moves_with_the_base_path() {
    let upstream = Upstream::start(well()).await;
    let stage = Stage::before(upstream, "base_path = \"/proxy/public\"", "", "").await;
    holds(&stage, "/proxy/public", "/server").await;
    let asked = stage.upstream.connections();
    assert_eq!(stage.ask(get("/verification/chains")).await.status(), 404);
    assert_eq!(stage.upstream.connections(), asked);
}

#[tokio::test]
async fn a_verifier_url_without_its_slash_is_told_to_whoever_uses_it() {
    for base_path in ["", "/proxy/public"] {
        let server = format!("base_path = \"{base_path}\"");
        let upstream = Upstream::start(well()).await;
        let stage = Stage::before(upstream, &server, "", "").await;
        for glued in [
            "v2/verify/2020/0xA",
            "v2/contract/2020/0xA",
            "check-by-addresses?a=b",
            "checkAllByAddresses",
            "verify",
            "verify/create2",
            "files/any/2020/0xA",
            "chains",
            "health",
            "version",
        ] {
            let path = format!("{base_path}/verification{glued}");
            for request in [get(&path).into_bytes(), super::post(&path, "", b"{}")] {
                let answer = stage.ask(request).await;
                assert_eq!(answer.outcome(), (404, "not_found".into()), "{path}");
                assert_eq!(
                    answer.problem()["detail"],
                    "a slash is missing behind /verification: the verifier URL has to end with one",
                    "{path}"
                );
            }
        }
        for other in ["/verificatio", "/verification2", "/v1/nothing"] {
            let answer = stage.ask(get(&format!("{base_path}{other}"))).await;
            assert_eq!(answer.problem()["detail"], "there is nothing at this path", "{other}");
        }
        assert_eq!(stage.upstream.connections(), 0);
    }
}

#[tokio::test]
async fn without_a_url_there_is_nothing_at_any_of_the_paths() {
    let upstream = Upstream::start(well()).await;
    let stage = Stage::before(upstream, "", "url = \"\"", "").await;
    for (path, ..) in TABLE {
        let path = format!("/verification{path}").replace("{A}", ADDRESS);
        for request in [get(&path).into_bytes(), super::post(&path, "", b"{}")] {
            let answer = stage.ask(request).await;
            assert_eq!(answer.outcome(), (404, "not_found".into()), "{path}");
        }
    }
    assert_eq!(stage.upstream.connections(), 0);
    assert_eq!(stage.ask(get("/v1/chains")).await.status(), 200);
}

#[tokio::test]
async fn a_preflight_is_answered_here_for_every_route() {
    let stage = Stage::start(well()).await;
    for (path, ..) in TABLE {
        let path = format!("/verification{path}").replace("{A}", ADDRESS);
        let answer = stage
            .ask(format!(
                "OPTIONS {path} HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\
                 Access-Control-Request-Method: POST\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.status(), 200, "{path}: {answer:#?}");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
    }
    assert_eq!(stage.upstream.connections(), 0);
}
