//! The chart of recent fees, as its viewers get it.

use reqwest::Method;
use roxmltree::Document;
use serde_json::{Value, json};

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::service::{self, Service};

const CHART: &str = "/v1/a/fee-history.svg";

fn chain(node: &FakeNode) -> String {
    format!(
        "[chains.a]\nname = \"Chain <A> & co\"\nchain_id = 7\nrpc_urls = [\"{}\"]\n\
         block_time = \"50ms\"\nstall_after = \"0s\"\nhistory_blocks = 30\n",
        node.url()
    )
}

/// 20 blocks up to `newest`, each of another base fee; the rewards of one are not known.
fn history(newest: u64) -> Value {
    let mut history = fee_history(newest, 3, 40);
    let base_fees = (newest - 19..=newest + 1).map(|number| format!("{:#x}", number * 1_000_000));
    history["baseFeePerGas"] = base_fees.collect();
    history["reward"][5] = json!(null);
    history["gasUsedRatio"][6] = json!(null);
    history
}

async fn start(newest: u64) -> (FakeNode, Service) {
    let node = FakeNode::start(7, Answer::Result(history(newest))).await;
    let service = Service::start(&chain(&node)).await;
    service.wait_for(CHART, |answer| answer.status == 200).await;
    (node, service)
}

async fn wait_for_block(service: &Service, block: &str) -> service::Answer {
    service.wait_for(CHART, |answer| answer.header("x-newest-block") == block).await
}

fn title(answer: &service::Answer) -> String {
    let document = Document::parse(&answer.body).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    title.text().unwrap().to_owned()
}

#[tokio::test]
async fn the_chart_shows_the_newest_blocks_as_many_as_are_asked_for() {
    let (node, service) = start(1000).await;
    let answer = service.get(CHART).await;
    assert_eq!(answer.header("content-type"), "image/svg+xml");
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("x-newest-block"), "1000");
    assert!(answer.header("cache-control").starts_with("public, max-age="), "{answer:?}");
    assert!(!answer.header("age").is_empty());
    assert_eq!(title(&answer), "Chain <A> & co, blocks 981 to 1000");
    let document = Document::parse(&answer.body).unwrap();
    let bars = document.descendants().filter(|node| node.attribute("fill") == Some("#8A96AA"));
    assert_eq!(bars.count(), 19, "one block has no ratio");

    node.say(Answer::Result(history(1010)));
    wait_for_block(&service, "1010").await;
    for (query, range, first) in [
        ("", "blocks 991 to 1010", 991),
        ("?blocks=1", "block 1010", 1010),
        ("?blocks=7", "blocks 1004 to 1010", 1004),
        ("?blocks=30", "blocks 981 to 1010", 981),
    ] {
        let answer = service.get(&format!("{CHART}{query}")).await;
        assert_eq!(title(&answer), format!("Chain <A> & co, {range}"));
        // It is about the blocks of the other form.
        let json = service.get(&format!("/v1/7/fee-history{query}")).await.json();
        assert_eq!(json["blocks"][0]["number"], first);
    }
    for query in ["?blocks=0", "?blocks=31", "?blocks=-1", "?blocks=", "?blocks=1&blocks=2"] {
        let answer = service.get(&format!("{CHART}{query}")).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &"invalid_parameter".into()));
    }
}

#[tokio::test]
async fn a_chart_has_a_tag_that_changes_with_what_it_shows() {
    let (node, service) = start(1000).await;
    let first = service.get(CHART).await;
    let tag = first.header("etag");
    let same = service.send(Method::GET, CHART, &[("if-none-match", tag)]).await;
    assert_eq!((same.status, same.body.as_str(), same.header("etag")), (304, "", tag));
    assert_eq!(same.header("x-newest-block"), "1000");
    let head = service.send(Method::HEAD, CHART, &[]).await;
    assert_eq!((head.status, head.body.as_str(), head.header("etag")), (200, "", tag));
    assert_eq!(head.header("content-length"), first.body.len().to_string());
    node.say(Answer::Result(history(1001)));
    wait_for_block(&service, "1001").await;
    let next = service.send(Method::GET, CHART, &[("if-none-match", tag)]).await;
    assert_eq!(next.status, 200);
    assert_ne!(next.header("etag"), tag);
}

#[tokio::test]
async fn a_chart_of_stale_data_says_so_and_one_of_too_old_data_is_refused() {
    let node = FakeNode::start(7, Answer::Error(-32000)).await;
    let service = Service::start(&(chain(&node) + "max_age = \"3s\"\n")).await;
    let answer = service.wait_for(CHART, |answer| answer.body.contains("no_data")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    node.say(Answer::Result(history(1000)));
    let fresh = service.wait_for(CHART, |answer| answer.status == 200).await;
    assert!(!fresh.body.contains("stale"), "{}", fresh.body);
    node.say(Answer::Error(-32000));
    let stale = service.wait_for(CHART, |answer| !answer.header("x-stale").is_empty()).await;
    assert_eq!(title(&stale), "Chain <A> & co, blocks 981 to 1000, stale");
    assert_ne!(stale.header("etag"), fresh.header("etag"));
    service.wait_for(CHART, |answer| answer.body.contains("stale_data")).await;
}
