//! Features that a key of the configuration switches off: their paths are 404 with the key that switches them on, and
//! the API description does not have them.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use crate::test_server::TestServer;

/// A part of the configuration, the same part without its feature, the key that a response names, and a path.
const SWITCHES: [[&str; 4]; 4] = [
    ["formats = [\"all\"]", "formats = []", "compat.formats", "/compat/safe/{chain_id}"],
    ["json_rpc = true", "json_rpc = false", "chains.a.json_rpc", "/rpc/{chain}"],
    ["source = \"chain\"", "source = \"off\"", "delegation.source", "/registry/v2/{address}"],
    ["url = \"http://127.0.0.1:9\"", "url = \"\"", "verification.url", "/verify"],
];

const ALL_ON: &str = "[compat]\nformats = [\"all\"]\n[delegation]\nsource = \"chain\"\n\
    [verification]\nurl = \"http://127.0.0.1:9\"\n\
    [chains.a]\nchain_id = 7\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9/node\"]\n";

/// Returns the method of each path of the API description.
async fn described(service: &TestServer) -> BTreeMap<String, Method> {
    let document: Value = service.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap().iter();
    let method = |item: &Value| if item["get"].is_null() { Method::POST } else { Method::GET };
    paths.map(|(path, item)| (path.clone(), method(item))).collect()
}

/// Replaces the parameters of a path by values.
fn filled(template: &str) -> String {
    let segment = |segment: &str| match segment {
        "{chain}" | "{chain_id}" | "{chainId}" => "7".to_owned(),
        "{address}" => format!("0x{}", "1".repeat(40)),
        plain if !plain.starts_with('{') => plain.to_owned(),
        _ => "key".to_owned(),
    };
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_paths_of_a_feature_that_is_off_name_the_key_that_switches_it_on() {
    let all = described(&TestServer::with_server("", ALL_ON).await).await;
    for [on, off, key, path] in SWITCHES {
        let service = TestServer::with_server("", &ALL_ON.replace(on, off)).await;
        let left = described(&service).await;
        let mut gone = all.clone();
        gone.retain(|path, _| !left.contains_key(path));
        assert!(gone.contains_key(path), "{key}: {:?}", gone.keys());
        assert_eq!(left.len() + gone.len(), all.len(), "{key}");
        for (path, method) in gone {
            let response = service.send(method, &filled(&path), &[]).await;
            response.assert_problem(404, "not_found");
            let problem = response.json();
            assert!(problem["detail"].as_str().unwrap().contains(key), "{path}: {problem}");
        }
    }
}
