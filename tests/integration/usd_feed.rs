//! Prices in dollars: what a price feed must say to be believed, and where the price appears.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::fixtures::seconds;
use crate::mock_node::{Call, MockNode, Reply, fee_history};
use crate::test_server::{Response, TestServer};

const ADDRESS: &str = "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419";
/// Selector of `latestRoundData()`.
const LATEST_ROUND_DATA: &str = "0xfeaf968c";
const MINUS_ONE: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

/// Answers of the contract.
#[derive(Debug, Clone)]
struct Feed {
    pair: &'static str,
    decimals: u8,
    answer: &'static str,
    /// Seconds since the contract was written.
    age: i64,
}

const FEED: Feed = Feed { pair: "TOK / USD", decimals: 8, answer: "465ec48c50", age: 10 };

fn words(words: &[String]) -> Reply {
    Reply::Result(json!(format!("0x{}", words.concat())))
}

fn word(hex: &str) -> String {
    format!("{hex:0>64}")
}

/// Starts a node of chain 7 with this contract. The base fee is 3 gwei, the tip 30.
async fn node(feed: Feed) -> MockNode {
    MockNode::scripted(7, move |call: &Call| match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_feeHistory" => Reply::Result(fee_history(1000, 3, 30)),
        "eth_call" => {
            let params = call.params();
            let called = (&params[0]["to"], &params[1]);
            assert_eq!(called, (&json!(ADDRESS.to_lowercase()), &json!("latest")));
            match params[0]["data"].as_str().unwrap() {
                "0x7284e416" => {
                    let text = alloy_primitives::hex::encode(feed.pair);
                    let length = format!("{:x}", feed.pair.len());
                    words(&[word("20"), word(&length), format!("{text:0<64}")])
                }
                "0x313ce567" => words(&[word(&format!("{:x}", feed.decimals))]),
                LATEST_ROUND_DATA => {
                    let written = i64::try_from(seconds()).unwrap() - feed.age;
                    let written = word(&format!("{written:x}"));
                    words(&[word("7"), word(feed.answer), written.clone(), written, word("7")])
                }
                data => panic!("{data}"),
            }
        }
        _ => Reply::Error(-32601),
    })
    .await
}

/// Returns the setting of this feed, which is of the chain itself unless `more` names another one.
fn usd_feed(more: &str) -> String {
    format!(
        "usd_feed = {{ address = \"{ADDRESS}\", pair = \"TOK / USD\", heartbeat = \"1h\"{more} }}\n"
    )
}

async fn start(node: &MockNode) -> TestServer {
    let more = "max_block_age = \"0s\"\nstall_after = \"0s\"\ndata_fee = \"none\"\n\
                pricing.base_fee_floor = \"0 wei\"\npricing.priority_fee_floor = \"0 wei\"\n";
    TestServer::start(&node.chain("a", &(usd_feed("") + more))).await
}

/// Waits until the feed was read twice and said no price.
async fn wait_for_invalid(service: &TestServer) {
    let name = "gas_suggestion_usd_price_reads_total{chain=\"a\",outcome=\"invalid\"}";
    service.wait_for_count(name, 2).await;
}

#[tokio::test]
async fn costs_have_amounts_in_dollars() {
    let node = node(FEED).await;
    let service = start(&node).await;
    let is_known = |page: &Response| page.json()["usd_per_coin"].is_object();
    let market = service.wait_for("/v1/a/fee-market", is_known).await.json();
    let price = &market["usd_per_coin"];
    assert_eq!(price["price"], "3022.3765");
    assert_eq!(price["source"], format!("TOK / USD at {} on a", ADDRESS.to_lowercase()));
    let written = humantime::parse_rfc3339(price["observed_at"].as_str().unwrap()).unwrap();
    assert!(written.elapsed().unwrap().as_secs() >= 10);
    let cost = service.get("/v1/a/cost?gas=21000").await.json();
    // 21,000 gas at 33 gwei are 0.000693 coins, which is 2.0945 dollars.
    assert_eq!(cost["tiers"]["medium"]["expected"], "693000000000000");
    assert_eq!(cost["usd"]["medium"]["expected"], "2.095");
    assert!(cost["usd"]["low"]["max"].is_string() && cost["usd"]["high"]["max"].is_string());
    let cheapest = service.get("/v1/cheapest").await.json();
    assert_eq!((&cheapest[0]["usd"], &cheapest[0]["chain"]), (&json!("2.095"), &json!("a")));
    // The requests caused no call beside the two that agree.
    let calls = node.scripted_calls();
    let is_of_price = |call: &&Call| call.params()[0]["data"] == LATEST_ROUND_DATA;
    assert_eq!(calls.iter().filter(is_of_price).count(), 2);
    let metrics = service.admin("/metrics").await.body;
    assert!(metrics.contains("gas_suggestion_usd_price_age_seconds{chain=\"a\"} 1"), "{metrics}");
    assert!(metrics.contains("gas_suggestion_coin_usd{chain=\"a\"} 3022.3765\n"), "{metrics}");
}

#[tokio::test]
async fn what_is_no_price_of_the_pair_is_not_shown() {
    let feeds = [
        Feed { pair: "TOK / EUR", ..FEED },
        Feed { pair: "", ..FEED },
        Feed { answer: "0", ..FEED },
        Feed { answer: MINUS_ONE, ..FEED },
        Feed { decimals: 19, ..FEED },
        Feed { age: 3960 + 60, ..FEED },
        Feed { age: -600, ..FEED },
    ];
    // Each waits for a second read.
    join_all(feeds.map(async |feed| {
        let node = node(feed.clone()).await;
        let service = start(&node).await;
        wait_for_invalid(&service).await;
        let market = service.get("/v1/a/fee-market").await.json();
        assert_eq!(market["usd_per_coin"], Value::Null, "{feed:?}");
        let cost = service.get("/v1/a/cost?gas=21000").await.json();
        assert_eq!((&cost["usd"], &cost["data_fee_reason"]), (&Value::Null, &Value::Null));
        assert_eq!(service.get("/v1/cheapest").await.json()[0]["usd"], Value::Null);
    }))
    .await;
}

#[tokio::test]
async fn a_coin_that_is_a_dollar_has_a_price_without_a_read() {
    let node = node(FEED).await;
    let service = TestServer::start(&node.chain("a", "usd_feed = \"par\"\n")).await;
    let price = &service.wait_for_ok("/v1/a/fee-market").await.json()["usd_per_coin"];
    assert_eq!((&price["price"], &price["source"]), (&json!("1"), &json!("par")));
    assert!(node.scripted_calls().iter().all(|call| call.method != "eth_call"));
}

#[tokio::test]
async fn dollars_come_before_coins_and_another_chain_may_have_the_contract() {
    let node = node(FEED).await;
    let cheap = MockNode::start(8, Reply::history(1000, 1, 1)).await;
    let dear = MockNode::start(9, Reply::history(1000, 90, 90)).await;
    let feed = usd_feed(", chain = \"a\"");
    let common = "data_fee = \"none\"\npricing.priority_fee_floor = \"0 wei\"\n";
    let chains = [
        node.chain("a", &format!("{common}{feed}")),
        cheap.chain("cheap", common),
        dear.chain("dear", &format!("{common}{feed}")),
    ];
    let service = TestServer::start(&chains.concat()).await;
    let has_all = |response: &Response| {
        let list = response.json();
        let is_listed = |(index, (chain, has_usd)): (usize, (&str, bool))| {
            // Without a price it is null.
            let usd = &list[index]["usd"];
            list[index]["chain"] == chain && usd.is_string() == has_usd && usd.is_null() != has_usd
        };
        [("a", true), ("dear", true), ("cheap", false)].into_iter().enumerate().all(is_listed)
    };
    service.wait_for("/v1/cheapest?gas=21000", has_all).await;
}
