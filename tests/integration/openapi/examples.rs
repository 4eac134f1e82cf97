//! The examples of the document, held against what the service answers.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::fake_node::{self, FakeNode};
use crate::raw::{Connection, get};
use crate::registry::{self, Registry};
use crate::service::{Answer, Service};

/// What the operation at `path` answers in the example.
fn example(document: &Value, verb: &str, path: &str) -> Value {
    let content = &document["paths"][path][verb]["responses"]["200"]["content"];
    let content = content.as_object().unwrap_or_else(|| panic!("no content at {path}"));
    let example = content.values().next().unwrap()["example"].clone();
    assert!(!example.is_null(), "no example at {path}");
    example
}

/// The body that the operation at `path` is asked with in the example.
fn asked(document: &Value, path: &str) -> Value {
    let body =
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"].clone();
    assert!(!body["example"].is_null(), "no example at {path}");
    body["example"].clone()
}

/// A service that reads the blocks of the examples, with `pricing`.
async fn start(pricing: &str) -> (FakeNode, Service) {
    let mut history = fake_node::fee_history(43_447_700, 1, 20);
    let mut ratios = [0.25; 20];
    ratios[19] = 0.5;
    history["gasUsedRatio"] = json!(ratios);
    let has_high = pricing.contains("60, 100");
    if has_high {
        history["reward"] = json!(vec![vec!["0x4a817c800", "0x59682f000"]; 20]);
    }
    let percentiles = if has_high { json!([60, 100]) } else { json!([60]) };
    let answer = fake_node::Answer::Result(history);
    let node = FakeNode::with_percentiles(2020, percentiles, answer).await;
    let chain = format!(
        "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nstall_after = \"0s\"\n\
         [chains.ronin.pricing]\n{pricing}\n",
        node.url()
    );
    let service = Service::start(&chain).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    (node, service)
}

#[tokio::test]
async fn what_is_said_of_fees_is_what_the_service_answers_of_such_blocks() {
    for pricing in ["", "reward_percentiles = [60, 100]\npriority_fee_floor = \"1 gwei\""] {
        let (_node, service) = start(pricing).await;
        let document = service.get("/openapi.json").await.json();
        for (path, asked) in [
            ("/v1/{chain}/gas-suggestion", "/v1/ronin/gas-suggestion"),
            ("/v1/gas-suggestions", "/v1/gas-suggestions"),
            ("/v1/{chain}/fee-market", "/v1/2020/fee-market"),
            ("/v1/{chain}/fee-history", "/v1/ronin/fee-history?blocks=2"),
            ("/v1/chains", "/v1/chains"),
            ("/livez", "/livez"),
            ("/readyz", "/readyz"),
        ] {
            let mut expected = example(&document, "get", path);
            let answer = service.get(asked).await.json();
            if let Some(observed_at) = expected.get_mut("observed_at") {
                // As long as any other, and of another moment.
                assert_eq!(
                    observed_at.as_str().unwrap().len(),
                    answer["observed_at"].as_str().unwrap().len()
                );
                *observed_at = answer["observed_at"].clone();
            }
            assert_eq!(answer, expected, "{path}");
        }
        for (path, asked) in [
            ("/v1/{chain}/gas-suggestion/stream", "/v1/ronin/gas-suggestion/stream"),
            ("/v1/gas-suggestions/stream", "/v1/gas-suggestions/stream"),
        ] {
            let event = example(&document, "get", path);
            let text = |name: &str| format!("{name}: {}\n", event[name].as_str().unwrap());
            let expected = ["event", "id", "data"].map(text).concat();
            let mut connection = Connection::open(service.address()).await;
            connection.send(get(asked, "")).await;
            let told = connection.bytes_until(b"}}\n\n", 1).await;
            let told = String::from_utf8(told).unwrap();
            assert!(told.contains(&expected), "{expected} in {told}");
        }
    }
}

#[tokio::test]
async fn what_is_said_of_problems_is_what_the_service_answers() {
    let nobody = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
    let service = Service::start(&format!("[delegation]\nsource = \"chain\"\n{nobody}")).await;
    let document = service.get("/openapi.json").await.json();
    let examples = document["components"]["examples"].as_object().unwrap();
    let long = format!("/{}", "a".repeat(9000));
    let (get, post) = (Method::GET, Method::POST);
    for (code, method, path, headers) in [
        ("unknown_chain", &get, "/v1/none/fee-market", &[][..]),
        ("not_found", &get, "/none", &[]),
        ("no_data", &get, "/v1/ronin/gas-suggestion", &[]),
        ("method_not_allowed", &post, "/v1/chains", &[]),
        ("invalid_parameter", &get, "/registry/v2/check/all", &[]),
        ("uri_too_long", &get, long.as_str(), &[]),
        ("not_ready", &get, "/readyz", &[]),
    ] {
        let answer: Answer = service.send(method.clone(), path, headers).await;
        let mut expected = examples[code]["value"].clone();
        expected["request_id"] = json!(answer.header("x-request-id"));
        assert_eq!(answer.json(), expected, "{path}");
        assert_eq!(json!(answer.status), expected["status"], "{path}");
    }
}

#[tokio::test]
async fn what_is_said_of_a_chain_is_what_the_service_answers_of_one() {
    let registry = Registry::start().await;
    let document = registry.service.get("/openapi.json").await.json();
    let call = asked(&document, "/rpc/{chain}");
    let answer = registry::post(&registry.service, "/rpc/ronin", &call).await;
    assert_eq!(answer.json(), example(&document, "post", "/rpc/{chain}"));

    let path = "/v1/{chain}/delegations/transactions";
    let (request, expected) = (asked(&document, path), example(&document, "post", path));
    let mut transaction = registry.transaction(&request).await;
    for of_the_moment in ["gas", "maxFeePerGas", "maxPriorityFeePerGas"] {
        assert!(transaction[of_the_moment].is_string(), "{transaction}");
        transaction[of_the_moment] = expected[of_the_moment].clone();
    }
    assert_eq!(transaction, expected);

    registry.give(&request).await;
    let (from, to) = (request["from"].as_str().unwrap(), request["to"].as_str().unwrap());
    let url = registry.service.url(&format!("/registry/v2/{from}"));
    let listed: Value = Client::new().get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(listed, example(&document, "get", "/registry/v2/{address}"));
    let check = format!("/registry/v2/check/all?from={from}&to={to}");
    let allowed = registry.service.get(&check).await.json();
    assert_eq!(allowed, example(&document, "get", "/registry/v2/check/all"));
}
