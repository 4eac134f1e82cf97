//! Requests for transactions that cannot be meant: nobody is asked with them.

use serde_json::{Map, Value, json};

use super::{CONTRACT, HOT, Stage, VAULT};
use crate::delegate_api::DelegateApi;
use crate::exchange::{get, post, post_chunked};
use crate::message::{Message, chunked};
use crate::read_node::Say;

const PATH: &str = "/v1/2020/delegations/transactions";

const MOST: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";

async fn start() -> (DelegateApi, Stage) {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api-then-chain", "api_key = \"k\"").await;
    // Its fees are known: nothing but the request is in the way.
    let ready = |answer: &crate::service::Answer| answer.status == 200;
    stage.service.wait_for("/v1/2020/gas-suggestion", ready).await;
    (api, stage)
}

/// Every action with the members that it needs.
fn requests() -> Vec<Map<String, Value>> {
    let more = [
        ("delegate_all", json!({})),
        ("delegate_contract", json!({ "contract": CONTRACT })),
        ("delegate_erc721", json!({ "contract": CONTRACT, "token_id": "7" })),
        ("delegate_erc20", json!({ "contract": CONTRACT, "amount": "1000" })),
        ("delegate_erc1155", json!({ "contract": CONTRACT, "token_id": "7", "amount": "5" })),
    ];
    let with_more = |(action, more): (&str, Value)| {
        let mut request = json!({ "from": VAULT, "action": action, "to": HOT });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request.as_object().unwrap().clone()
    };
    more.map(with_more).into()
}

fn refused(answer: &Message, name: &str, body: &str) {
    let body = &body[..body.len().min(300)];
    assert_eq!(answer.outcome(), (400, "invalid_parameter".into()), "{body}: {answer:#?}");
    let problem = answer.problem();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("`{name}`")), "{name} in {body}: {detail}");
    assert!(detail.len() < 400, "{body}: {detail}");
}

impl Stage {
    async fn prepare(&self, body: &str) -> Message {
        self.ask(post(PATH, "Content-Type: application/json\r\n", body.as_bytes())).await
    }
}

#[tokio::test]
async fn what_is_right_is_prepared() {
    let (api, stage) = start().await;
    let result = |json: &str| Say::Result(json.into());
    let says = [("eth_getCode", result("\"0x00\"")), ("eth_estimateGas", result("\"0x5208\""))];
    stage.node.say(Say::Each(says.into()));
    for request in requests() {
        let answer = stage.prepare(&Value::from(request).to_string()).await;
        assert_eq!(answer.status(), 200, "{answer:#?}");
    }
    assert_eq!(api.count(), 0);
    assert!(stage.other.reads().is_empty() && stage.reads() > 0);
}

#[tokio::test]
async fn every_member_that_is_needed_is_asked_for_by_its_name() {
    let (api, stage) = start().await;
    for request in requests() {
        for name in request.keys() {
            let mut some = request.clone();
            some.remove(name);
            let body = Value::from(some.clone()).to_string();
            let answer = stage.prepare(&body).await;
            refused(&answer, name, &body);
            assert_eq!(answer.problem()["detail"], format!("`{name}` is required"), "{body}");
            some.insert(name.clone(), Value::Null);
            let body = Value::from(some).to_string();
            refused(&stage.prepare(&body).await, name, &body);
        }
    }
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn members_that_cannot_be_right_are_refused_by_their_name() {
    let (api, stage) = start().await;
    let addresses = || {
        vec![
            json!(""),
            json!("0x"),
            json!(&VAULT[..41]),
            json!(&VAULT[2..]),
            json!(VAULT.replace("5aAe", "5Aae")),
            json!(format!("0xg{}", &VAULT[3..])),
            json!("vitalik.eth"),
            json!(7),
            json!(true),
            json!([VAULT]),
            json!({}),
        ]
    };
    let numbers = || {
        let mut wrong: Vec<_> = ["", "-1", "+1", "0x7", "1.0", "1e3", " 7", "7 ", "\u{661}", "x"]
            .map(|text| json!(text))
            .into();
        let more = [
            json!(format!("{MOST}0")),
            json!(format!("{}6", &MOST[..MOST.len() - 1])),
            json!(-1),
            json!(1.5),
            json!(1e30),
            json!(9_007_199_254_740_992_u64),
            json!(true),
            json!(["1"]),
            json!({}),
        ];
        wrong.extend(more);
        wrong
    };
    let rights = vec![
        json!("0x12"),
        json!("0xclaim"),
        json!("a".repeat(32)),
        json!("a".repeat(1000)),
        json!("\u{e4}".repeat(16)),
        json!("a\u{0}"),
        json!(format!("0x{}", "0".repeat(65))),
        json!(7),
        json!([]),
        json!(false),
    ];
    let flags = vec![json!("true"), json!(1), json!(0), json!(""), json!([true]), json!({})];
    let actions = vec![
        json!(""),
        json!("delegate"),
        json!("Delegate_all"),
        json!("delegate_all "),
        json!("delegateAll"),
        json!("revoke"),
        json!(1),
        json!(["delegate_all"]),
    ];
    let wrong = [
        ("from", addresses()),
        ("to", addresses()),
        ("contract", addresses()),
        ("token_id", numbers()),
        ("amount", numbers()),
        ("rights", rights),
        ("enable", flags),
        ("action", actions),
    ];
    let mut count = 0;
    for request in requests() {
        for (name, values) in &wrong {
            let is_needed = request.contains_key(*name) || matches!(*name, "rights" | "enable");
            for value in values.iter().filter(|_| is_needed) {
                let mut request = request.clone();
                request.insert((*name).to_owned(), value.clone());
                let body = Value::from(request).to_string();
                refused(&stage.prepare(&body).await, name, &body);
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn members_of_no_use_and_unknown_ones_are_refused_by_their_name() {
    let (api, stage) = start().await;
    let of_some = [("contract", json!(CONTRACT)), ("token_id", json!("7")), ("amount", json!("1"))];
    let unknown = ["tokenId", "From", "value", "gas", "chain_id", "data", "", "nonce"];
    for request in requests() {
        for (name, value) in &of_some {
            if request.contains_key(*name) {
                continue;
            }
            let mut request = request.clone();
            request.insert((*name).to_owned(), value.clone());
            let body = Value::from(request).to_string();
            refused(&stage.prepare(&body).await, name, &body);
        }
        for name in unknown {
            let mut request = request.clone();
            request.insert(name.to_owned(), json!("0x0"));
            let body = Value::from(request).to_string();
            refused(&stage.prepare(&body).await, name, &body);
        }
        let body = Value::from(request).to_string();
        for name in ["from", "action", "to"] {
            let twice = body.replacen('{', &format!("{{\"{name}\":\"{VAULT}\","), 1);
            refused(&stage.prepare(&twice).await, name, &twice);
        }
    }
    let body = format!(
        "{{\"from\":\"{VAULT}\",\"action\":\"delegate_erc20\",\"to\":\"{HOT}\",\
         \"contract\":\"{CONTRACT}\",\"amount\":\"0\",\"enable\":true}}"
    );
    refused(&stage.prepare(&body).await, "amount", &body);
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn what_is_no_json_object_is_refused() {
    let (api, stage) = start().await;
    let right = Value::from(requests()[0].clone()).to_string();
    let bodies = [
        String::new(),
        " ".into(),
        "null".into(),
        "true".into(),
        "7".into(),
        "\"delegate_all\"".into(),
        "[]".into(),
        format!("[{right}]"),
        // The members of a request without their names.
        format!("[\"{VAULT}\",\"delegate_all\",\"{HOT}\",null,null,null,null,null]"),
        format!("[\"{VAULT}\",\"delegate_all\",\"{HOT}\"]"),
        "{".into(),
        right[..right.len() - 1].into(),
        format!("{right}}}"),
        format!("{right}{right}"),
        format!("\u{feff}{right}"),
        right.replace('"', "'"),
        right.replace(':', "="),
        "from=0x0&action=delegate_all".into(),
        "<from/>".into(),
        "[".repeat(10_000),
        "{\"from\":".repeat(1000),
    ];
    for body in bodies {
        let answer = stage.prepare(&body).await;
        let body = &body[..body.len().min(300)];
        assert_eq!(answer.outcome(), (400, "invalid_parameter".into()), "{body}: {answer:#?}");
    }
    let answer = stage.ask(post(PATH, "", b"{\"from\":\"\xff\xfe\"}")).await;
    assert_eq!(answer.outcome(), (400, "invalid_parameter".into()));
    assert_eq!((api.count(), stage.reads()), (0, 0));
}

#[tokio::test]
async fn what_is_too_large_compressed_or_of_no_chain_is_refused() {
    let (api, stage) = start().await;
    let right = Value::from(requests()[0].clone()).to_string();
    let large = format!("{right}{}", " ".repeat(16 * 1024));
    for request in
        [post(PATH, "", large.as_bytes()), post_chunked(PATH, "", &chunked(large.as_bytes(), 1000))]
    {
        assert_eq!(stage.ask(request).await.outcome(), (413, "payload_too_large".into()));
    }
    let answer = stage.ask(post(PATH, "Content-Encoding: gzip\r\n", right.as_bytes())).await;
    assert_eq!(answer.outcome(), (415, "unsupported_media_type".into()));
    for chain in ["1", "none", "02020", "-1", "%ff", "0x7e4", "2020%20"] {
        let path = format!("/v1/{chain}/delegations/transactions");
        let answer = stage.ask(post(&path, "", right.as_bytes())).await;
        assert_eq!(answer.outcome(), (404, "unknown_chain".into()), "{chain}");
    }
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        let request = get(PATH).replacen("GET", method, 1);
        let answer = stage.ask(request).await;
        assert_eq!((answer.status(), answer.header("allow")), (405, "POST"), "{method}");
        if method != "HEAD" {
            assert_eq!(answer.outcome(), (405, "method_not_allowed".into()));
        }
    }
    assert_eq!((api.count(), stage.reads()), (0, 0));
}
