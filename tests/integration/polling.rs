//! What the service makes of its nodes' answers.

use std::sync::Arc;
use std::time::Duration;

use axum::{Json, Router};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::service::Service;

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// A chain that is polled every 50 ms.
fn quick(key: &str, chain_id: u64, node: &FakeNode) -> String {
    format!(
        "[chains.{key}]\nchain_id = {chain_id}\nrpc_urls = [\"{}\"]\nblock_time = \"50ms\"\n\
         stall_after = \"0s\"\n",
        node.url()
    )
}

fn body(base_fee: u64, medium: u64, high: u64) -> String {
    let gwei = |amount: u64| format!("{amount}000000000");
    format!(
        "{{\"chain_name\":\"a\",\"type\":\"eip-1559\",\"base_fee_per_gas\":\"{}\",\
         \"medium\":{{\"max_priority_fee_per_gas\":\"{}\",\"max_fee_per_gas\":\"{}\"}},\
         \"high\":{{\"max_priority_fee_per_gas\":\"{}\",\"max_fee_per_gas\":\"{}\"}}}}",
        gwei(base_fee),
        gwei(medium),
        gwei(base_fee + medium),
        gwei(high),
        gwei(base_fee + high),
    )
}

#[tokio::test]
async fn serves_what_the_rules_make_of_the_fee_history() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    let answer = service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    assert_eq!(answer.body, body(6, 40, 48));
    assert_eq!(answer.header("x-newest-block"), "1000");

    node.say(Answer::Result(fee_history(1001, 4, 30)));
    let moved = |answer: &crate::service::Answer| answer.header("x-newest-block") == "1001";
    assert_eq!(service.wait_for(SUGGESTION, moved).await.body, body(8, 30, 36));
}

#[tokio::test]
async fn two_percentiles_are_asked_for_and_decide_both_tips() {
    let wei = |gwei: u64| format!("{:#x}", gwei * 1_000_000_000);
    let mut history = fee_history(1000, 3, 40);
    history["reward"] = json!(vec![[wei(40), wei(90)]; 20]);
    let node = FakeNode::with_percentiles(7, json!([60, 100]), Answer::Result(history)).await;
    let chain = quick("a", 7, &node) + "pricing.reward_percentiles = [60, 100]\n";
    let service = Service::start(&chain).await;
    let answer = service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    assert_eq!(answer.body, body(6, 40, 90));
}

#[tokio::test]
async fn a_failed_poll_keeps_the_last_good_value_and_the_next_good_one_replaces_it() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;

    let bad_member = |member: &str, value: Value| {
        let mut history = fee_history(1000, 99, 99);
        history[member] = value;
        Answer::Result(history)
    };
    let result = fee_history(2000, 99, 99).to_string();
    let giant =
        format!("{{\"id\":{{id}},\"pad\":\"{}\",\"result\":{result}}}", " ".repeat(300_000));
    let failures = [
        Answer::Error(-32000),
        Answer::Error(-32005),
        Answer::Raw(200, String::new()),
        Answer::Raw(200, "<html>maintenance</html>".into()),
        Answer::Raw(502, "<html>bad gateway</html>".into()),
        Answer::Raw(302, String::new()),
        Answer::Raw(200, format!("{{\"id\":{{id}},\"result\":{result}")),
        Answer::Raw(200, format!("{{\"id\":0,\"result\":{result}}}")),
        Answer::Raw(200, format!("{{\"id\":{{id}},\"result\":{result},\"error\":{{\"code\":1}}}}")),
        Answer::Raw(200, giant),
        Answer::Result(Value::Null),
        bad_member("baseFeePerGas", json!([])),
        bad_member("baseFeePerGas", json!([null, "0x1"])),
        bad_member("baseFeePerGas", json!(vec!["0xffffffffffffffffffffffffffffffff"; 21])),
        bad_member("oldestBlock", json!("0x")),
    ];
    for failure in failures {
        node.say(failure.clone());
        // When the next but one call comes, the answer to the next is known to have been refused.
        let asked = node.calls("eth_feeHistory");
        let kept =
            service.wait_for(SUGGESTION, |_| node.calls("eth_feeHistory") >= asked + 2).await;
        assert_eq!(
            (kept.status, kept.body.as_str()),
            (200, body(6, 40, 48).as_str()),
            "{failure:?}"
        );
        assert_eq!(kept.header("x-newest-block"), "1000");
    }
    node.say(Answer::Result(fee_history(1001, 4, 30)));
    service.wait_for(SUGGESTION, |answer| answer.body == body(8, 30, 36)).await;
}

#[tokio::test]
async fn a_node_that_never_answers_neither_ends_the_polling_nor_delays_another_chain() {
    let silent = FakeNode::start(7, Answer::Silence).await;
    let well = FakeNode::start(8, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&(quick("a", 7, &silent) + &quick("b", 8, &well))).await;
    service.wait_for("/v1/b/gas-suggestion", |answer| answer.status == 200).await;
    service.wait_for(SUGGESTION, |_| silent.calls("eth_feeHistory") >= 2).await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    assert_eq!(service.get("/v1/b/gas-suggestion").await.header("x-stale"), "");
    silent.say(Answer::Result(fee_history(1000, 3, 40)));
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
}

#[tokio::test]
async fn a_result_counts_whatever_the_status_and_in_spite_of_a_bare_nan() {
    let mut history = fee_history(1000, 3, 40);
    history["gasUsedRatio"][19] = json!("bare");
    let envelope = json!({ "jsonrpc": "2.0", "id": 0, "result": history }).to_string();
    let envelope = envelope.replace("\"bare\"", "NaN").replace("\"id\":0", "\"id\":{id}");
    let node = FakeNode::start(7, Answer::Raw(500, envelope)).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    let market = service.wait_for("/v1/a/fee-market", |answer| answer.status == 200).await.json();
    assert_eq!(market["gas_used_ratio"], json!({ "latest": null, "average": 0.5 }));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inner = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let node = FakeNode::start(7, Answer::Redirect(inner.url())).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    service.wait_for(SUGGESTION, |_| node.calls("eth_feeHistory") >= 3).await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    assert_eq!(inner.calls("eth_feeHistory"), 0);
}

#[tokio::test]
async fn a_node_that_wants_an_integer_count_is_asked_so_from_then_on() {
    let node = FakeNode::start(7, Answer::IntegerCountOnly(fee_history(1000, 3, 40))).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    // The first poll took two calls. If one were refused again, the count would be a quantity.
    let calls = node.calls("eth_feeHistory");
    service.wait_for(SUGGESTION, |_| node.calls("eth_feeHistory") >= calls + 3).await;
    assert_eq!(node.count_of_quantities(), 1);
    assert_eq!(node.calls("eth_chainId"), 1);
}

#[tokio::test]
async fn missing_rewards_fall_to_the_floor_and_are_marked() {
    let mut history = fee_history(1000, 3, 40);
    history["reward"] = Value::Null;
    let node = FakeNode::start(7, Answer::Result(history)).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    let market = service.wait_for("/v1/a/fee-market", |answer| answer.status == 200).await.json();
    assert_eq!(market["average_reward_per_gas"], json!([null]));
    assert_eq!(market["floors_applied"], json!({ "base_fee": false, "priority_fee": true }));
    assert_eq!(service.get(SUGGESTION).await.body, body(6, 20, 24));
}

#[tokio::test]
async fn without_a_floor_missing_rewards_are_never_a_tip_of_zero() {
    let mut history = fee_history(1000, 3, 40);
    history["reward"] = Value::Null;
    let node = FakeNode::start(7, Answer::Result(history)).await;
    let chain = quick("a", 7, &node) + "pricing.priority_fee_floor = \"0 wei\"\n";
    let service = Service::start(&chain).await;
    service.wait_for(SUGGESTION, |_| node.calls("eth_feeHistory") >= 3).await;
    let answer = service.get(SUGGESTION).await;
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("no_data")));
}

#[tokio::test]
async fn a_base_fee_of_zero_is_one_gas_price() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 0, 40))).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    let answer = service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    assert_eq!(
        answer.body,
        body(0, 40, 48)
            .replace("eip-1559", "legacy")
            .replace("\"base_fee_per_gas\":\"0000000000\"", "\"base_fee_per_gas\":\"0\"",)
    );
}

#[tokio::test]
async fn ten_thousand_requests_cause_no_call() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    // One poll at the start, the next in an hour.
    let chain = quick("a", 7, &node).replace("50ms", "1h") + "max_age = \"3h\"\n";
    let service = Service::start(&chain).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;

    let client = reqwest::Client::new();
    let url = service.url(SUGGESTION);
    let workers: Vec<_> = (0..50)
        .map(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move {
                for _ in 0..200 {
                    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!((node.calls("eth_chainId"), node.calls("eth_feeHistory")), (1, 1));
}

#[tokio::test]
async fn a_service_without_a_readable_chain_runs_and_says_so() {
    let node = FakeNode::start(7, Answer::Error(-32000)).await;
    let service = Service::start(&quick("a", 7, &node)).await;
    service.wait_for("/readyz", |_| node.calls("eth_feeHistory") >= 2).await;
    assert_eq!(service.get("/livez").await.status, 200);
    for (answer, code) in [
        (service.get("/readyz").await, "not_ready"),
        (service.admin("/readyz").await, "not_ready"),
        (service.get(SUGGESTION).await, "no_data"),
        (service.get("/v1/a/fee-market").await, "no_data"),
        (service.get("/v1/a/fee-history").await, "no_data"),
    ] {
        assert_eq!((answer.status, &answer.json()["code"]), (503, &json!(code)));
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("retry-after"), if code == "no_data" { "1" } else { "" });
    }
    assert_eq!(service.get("/v1/gas-suggestions").await.body, "[]");
    node.say(Answer::Result(fee_history(1000, 3, 40)));
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    assert_eq!(service.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_standing_head_is_labelled_and_served() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let chain = quick("a", 7, &node).replace("stall_after = \"0s\"", "stall_after = \"200ms\"");
    let service = Service::start(&chain).await;
    let stale = service.wait_for(SUGGESTION, |answer| answer.header("x-stale") == "true").await;
    assert_eq!((stale.status, stale.header("age")), (200, "0"));
    assert_eq!(service.get("/v1/chains").await.json()[0]["status"], "stale");
    assert_eq!(service.get("/v1/a/fee-market").await.json()["stale"], true);
    assert_eq!(service.get("/v1/gas-suggestions").await.header("x-stale"), "true");
    assert_eq!(service.send(Method::HEAD, SUGGESTION, &[]).await.header("x-stale"), "true");

    node.say(Answer::Result(fee_history(1001, 3, 40)));
    let moved = service.wait_for(SUGGESTION, |answer| answer.header("x-newest-block") == "1001");
    assert_eq!(moved.await.header("x-stale"), "");
}

#[tokio::test]
async fn a_failed_poll_is_made_up_for_within_seconds_however_slow_the_chain_is() {
    let node = FakeNode::start(7, Answer::Error(-32000)).await;
    let service = Service::start(&format!(
        "[chains.a]\nchain_id = 7\nblock_time = \"10m\"\nmax_age = \"40m\"\nrpc_urls = [\"{}\"]\n",
        node.url()
    ))
    .await;
    service.wait_admin("/metrics", |answer| answer.body.contains("outcome=\"node_error\"")).await;
    node.say(Answer::Result(fee_history(1000, 3, 40)));
    service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    // A good one is followed by the next after a block time. What must not happen needs time not to.
    let polls = node.calls("eth_feeHistory");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(node.calls("eth_feeHistory"), polls);
}

/// A node that proves its chain only once it was asked for the fee history, too.
#[tokio::test]
async fn the_first_poll_waits_for_one_answer_and_not_for_one_after_the_other() {
    let asked = Arc::new(tokio::sync::Semaphore::new(0));
    let answer = move |Json(call): Json<Value>| {
        let asked = Arc::clone(&asked);
        async move {
            let result = if call["method"] == "eth_chainId" {
                let _asked = asked.acquire().await.unwrap();
                json!("0x7")
            } else {
                asked.add_permits(1);
                fee_history(1000, 3, 40)
            };
            Json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(answer);
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let chain = format!(
        "[chains.a]\nchain_id = 7\nrpc_urls = [\"{node}\"]\nblock_time = \"1m\"\nmax_age = \"3m\"\n"
    );
    let service = Service::start(&chain).await;
    service.wait_for(SUGGESTION, |answer| answer.status == 200).await;
    assert_eq!(service.count("gas_suggestion_polls_total{chain=\"a\",outcome=\"ok\"}").await, 1);
    task.abort();
}
