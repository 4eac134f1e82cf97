//! The OpenAPI page: its resources, and its behaviour in Chromium.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::http_client;
use crate::pages;
use crate::programs;
use crate::test_server::TestServer;

/// Swagger UI writes styles into the page, and displays images of responses from `blob:` URLs.
const SWAGGER_UI_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const CHAINS: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";

#[tokio::test]
async fn page_and_resources_are_served_below_any_base_path() {
    for base in ["", "/proxy/public"] {
        let service = TestServer::with_server(&format!("base_path = \"{base}\""), CHAINS).await;
        let parts = pages::check_page_and_resources(&service, &format!("{base}/docs")).await;
        let expected = [
            "/docs",
            "/docs/initializer.js",
            "/docs/style.css",
            "/docs/swagger-ui-bundle.js",
            "/docs/swagger-ui.css",
        ];
        let expected = expected.map(|file| (format!("{base}{file}"), SWAGGER_UI_POLICY.to_owned()));
        assert_eq!(parts, expected);
        pages::check_redirect(
            &service,
            &format!("{base}/docs/"),
            "../docs",
            &format!("{base}/docs"),
        )
        .await;
    }
}

#[tokio::test]
async fn resources_are_compressed_for_clients_that_accept_gzip() {
    let service = TestServer::start(CHAINS).await;
    let client = http_client::new();
    let get = async |encoding: &str| {
        let request = client.get(service.url("/docs/swagger-ui-bundle.js"));
        request.header("accept-encoding", encoding).send().await.unwrap()
    };
    let plain = get("identity").await;
    assert_eq!(plain.headers().get("content-encoding"), None);
    let tag = plain.headers()["etag"].clone();
    let plain = plain.bytes().await.unwrap();
    assert!(plain.len() > 1_000_000, "{}", plain.len());
    for (encoding, is_compressed) in [
        ("gzip", true),
        ("deflate, GZIP;q=0.5, br", true),
        ("gzip;q=0", false),
        ("identity", false),
    ] {
        let response = get(encoding).await;
        assert_eq!(response.headers()["vary"], "accept-encoding");
        // The forms have other bytes.
        assert_eq!(response.headers()["etag"] != tag, is_compressed, "{encoding}");
        let coding = response.headers().get("content-encoding").cloned();
        let mut bytes = response.bytes().await.unwrap().to_vec();
        if is_compressed {
            assert_eq!(coding.unwrap(), "gzip", "{encoding}");
            let mut decoded = vec![];
            GzDecoder::new(&*bytes).read_to_end(&mut decoded).unwrap();
            bytes = decoded;
        } else {
            assert_eq!(coding, None, "{encoding}");
        }
        assert!(bytes == plain, "{encoding}");
    }
}

#[tokio::test]
async fn operations_can_be_read_and_tried_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "shots": target.join("docs"),
    });
    let mut command = programs::node_js(&["playwright-core"]);
    command.arg(programs::script_path("docs.mjs")).arg(harness.to_string());
    println!("{}", programs::expect_success(command).await);
}
