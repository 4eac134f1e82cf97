//! Tests of the forwarded paths and their upstream targets.

use super::{Harness, MockUpstream, get, get_and_post, healthy};

const ADDRESS: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/// Path below `/verification`, upstream path, and allowed methods, of each kind of route.
const ROUTES: &[(&str, &str, &str)] = &[
    ("", "/", "POST"),
    ("//verify//", "/verify", "POST"),
    ("/verify/create2", "/verify/create2", "POST"),
    ("/check-by-addresses", "/check-by-addresses", "GET,HEAD"),
    ("/files/tree/any/2020/{A}", "/files/tree/any/2020/{A}", "GET,HEAD"),
    ("//v2///verify/2020/{A}//", "/v2/verify/2020/{A}", "GET,HEAD,POST"),
    ("/v2/verify/0a-b:c.d_e", "/v2/verify/0a-b:c.d_e", "GET,HEAD,POST"),
];

/// Below a base path, which moves them all. Each is below the path of the configured URL.
#[tokio::test]
async fn each_route_maps_to_the_configured_url_for_allowed_methods() {
    let upstream = MockUpstream::start(healthy()).await;
    let harness = Harness::with_upstream(upstream, "base_path = \"/proxy/public\"", "", "").await;
    let mut forwarded = harness.upstream.connection_count();
    for (path, target, allowed) in ROUTES {
        let path = format!("/proxy/public/verification{path}").replace("{A}", ADDRESS);
        let target = format!("/server{target}").replace("{A}", ADDRESS);
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] {
            let request =
                format!("{method} {path}?a=%2C HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            let response = harness.request(request).await;
            if !allowed.split(',').any(|allowed| allowed == method) {
                assert_eq!(response.status(), 405, "{method} {path}: {response:#?}");
                assert_eq!(response.header("allow"), *allowed, "{method} {path}");
                continue;
            }
            assert_eq!(response.status(), 200, "{method} {path}: {response:#?}");
            let request = harness.upstream.request(forwarded).await;
            assert_eq!(request.start_line, format!("{method} {target}?a=%2C HTTP/1.1"), "{path}");
            assert_eq!(request.header("host"), harness.upstream.address().to_string());
            forwarded += 1;
        }
        let preflight = format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\
             Access-Control-Request-Method: POST\r\n\r\n"
        );
        let response = harness.request(preflight).await;
        assert_eq!(response.status(), 200, "{path}: {response:#?}");
        assert_eq!(response.header("access-control-allow-origin"), "*");
    }
    // No preflight is forwarded.
    assert_eq!(harness.request(get("/verification/chains", "")).await.status(), 404);
    // A query that would be encoded anew.
    let path = "/proxy/public/verification/chains?a='b'";
    let refused = harness.request(get(path, "")).await;
    assert_eq!(refused.outcome(), (400, "invalid_parameter".into()));
    assert_eq!(harness.upstream.connection_count(), forwarded);
}

#[tokio::test]
async fn verifier_url_without_its_slash_gets_an_explanatory_404() {
    for base_path in ["", "/proxy/public"] {
        let server = format!("base_path = \"{base_path}\"");
        let upstream = MockUpstream::start(healthy()).await;
        let harness = Harness::with_upstream(upstream, &server, "", "").await;
        for path_without_slash in ["v2/verify/2020/0xA", "check-by-addresses?a=b", "verify"] {
            let path = format!("{base_path}/verification{path_without_slash}");
            for request in get_and_post(&path, &path) {
                let response = harness.request(request).await;
                assert_eq!(response.outcome(), (404, "not_found".into()), "{path}");
                let detail =
                    "missing slash after /verification: the verifier URL must end with one";
                assert_eq!(response.problem()["detail"], detail, "{path}");
            }
        }
        for other in ["/verificatio", "/verification2", "/v1/nothing"] {
            let response = harness.request(get(&format!("{base_path}{other}"), "")).await;
            assert_eq!(response.problem()["detail"], "no such route", "{other}");
        }
        assert_eq!(harness.upstream.connection_count(), 0);
    }
}
