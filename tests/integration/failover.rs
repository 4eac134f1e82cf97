//! Several RPC URLs for one chain.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::service::Service;

fn chain(urls: &[String]) -> String {
    format!("[chains.a]\nchain_id = 7\nrpc_urls = {urls:?}\nblock_time = \"100ms\"\n")
}

/// A URL that refuses connections: the port was free a moment ago.
pub(crate) fn dead_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/rpc", listener.local_addr().unwrap())
}

#[tokio::test]
async fn dead_and_wrong_chain_urls_are_passed_over_within_a_tick() {
    let wrong = FakeNode::start(8, Answer::Result(fee_history(9000, 500, 500))).await;
    let good = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain(&[dead_url(), wrong.url(), good.url()])).await;
    let answer = service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    assert_eq!(answer.header("x-newest-block"), "1000");
    assert_eq!(answer.json()["medium"]["max_fee_per_gas"], "46000000000");
    service.wait_for("/v1/a/gas-suggestion", |_| good.calls("eth_feeHistory") >= 5).await;
    assert_eq!(service.get("/v1/a/gas-suggestion").await.header("x-newest-block"), "1000");
    // The wrong chain's numbers were asked for once, along with its id, and never believed.
    assert_eq!(wrong.calls("eth_feeHistory"), 1);
    assert!(wrong.calls("eth_chainId") >= 1);
}

#[tokio::test]
async fn a_url_whose_numbers_cannot_be_believed_is_passed_over() {
    let mut broken = fee_history(9000, 500, 500);
    broken["baseFeePerGas"] = json!([]);
    let broken = FakeNode::start(7, Answer::Result(broken)).await;
    let good = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain(&[broken.url(), good.url()])).await;
    let answer = service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    assert_eq!(answer.header("x-newest-block"), "1000");
}

#[tokio::test]
async fn urls_that_never_answer_hide_no_good_one_behind_them() {
    for block_time in ["100ms", "2s"] {
        let silent =
            [FakeNode::start(7, Answer::Silence).await, FakeNode::start(7, Answer::Silence).await];
        let good = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
        let urls = [silent[0].url(), silent[1].url(), good.url()];
        let service = Service::start(&chain(&urls).replace("100ms", block_time)).await;
        service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
        // From then on nobody waits for them.
        service.wait_for("/v1/a/gas-suggestion", |_| good.calls("eth_feeHistory") >= 3).await;
        let calls = silent.each_ref().map(|node| node.calls("eth_feeHistory"));
        assert!(calls.iter().all(|calls| (1..=2).contains(calls)), "{calls:?}");
        assert_eq!(service.get("/v1/a/gas-suggestion").await.header("x-stale"), "");
    }
}

#[tokio::test]
async fn a_node_that_answers_one_call_within_the_deadline_but_not_two_is_believed() {
    // The deadline of an attempt is half a second, too short for the first two calls.
    let slow = Answer::Slow(Duration::from_millis(300), fee_history(1000, 3, 40));
    let node = FakeNode::start(7, slow).await;
    let service = Service::start(&chain(&[node.url()])).await;
    service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    assert_eq!(node.calls("eth_chainId"), 1);
}

#[tokio::test]
async fn the_preferred_url_alone_is_asked_while_it_is_well() {
    let first = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let second = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let service = Service::start(&chain(&[first.url(), second.url()])).await;
    service.wait_for("/v1/a/gas-suggestion", |_| first.calls("eth_feeHistory") >= 3).await;
    assert_eq!(second.calls("eth_chainId") + second.calls("eth_feeHistory"), 0);

    first.say(Answer::Error(-32000));
    service.wait_for("/v1/a/gas-suggestion", |_| second.calls("eth_feeHistory") >= 2).await;
    first.say(Answer::Result(fee_history(1001, 3, 40)));
    let moved = |answer: &crate::service::Answer| answer.header("x-newest-block") == "1001";
    service.wait_for("/v1/a/gas-suggestion", moved).await;
}

#[tokio::test]
async fn a_backup_that_lags_does_not_keep_the_preferred_url_out() {
    let preferred = FakeNode::start(7, Answer::Error(-32000)).await;
    let lagging = FakeNode::start(7, Answer::Result(fee_history(1000, 9, 90))).await;
    let service = Service::start(&chain(&[preferred.url(), lagging.url()])).await;
    let newest = |number: &'static str| {
        move |answer: &crate::service::Answer| answer.header("x-newest-block") == number
    };
    service.wait_for("/v1/a/gas-suggestion", newest("1000")).await;
    // Further ahead than the chain can be if the backup were right.
    preferred.say(Answer::Result(fee_history(100_000, 3, 40)));
    service.wait_for("/v1/a/gas-suggestion", newest("100000")).await;
    let asked = lagging.calls("eth_feeHistory");
    service.wait_for("/v1/a/gas-suggestion", |_| preferred.calls("eth_feeHistory") >= 12).await;
    assert!(service.get("/v1/a/gas-suggestion").await.body.contains("\"46000000000\""));
    assert!(lagging.calls("eth_feeHistory") <= asked + 2, "it is asked although it is behind");
}

#[tokio::test]
async fn another_url_at_the_same_head_changes_no_number() {
    let first = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let second = FakeNode::start(7, Answer::Result(fee_history(1000, 9, 90))).await;
    let service = Service::start(&chain(&[first.url(), second.url()])).await;
    service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    // The head stands still, so the second is asked now and then whether it has a newer one.
    let is_asked_twice = |answer: &crate::service::Answer| {
        assert!(answer.body.contains("\"46000000000\""), "{answer:?}");
        second.calls("eth_feeHistory") >= 2
    };
    service.wait_for("/v1/a/gas-suggestion", is_asked_twice).await;
    service.wait_for("/v1/a/gas-suggestion", is_asked_twice).await;
}
