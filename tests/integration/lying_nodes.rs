//! Nodes that report a false head, false amounts, or the data of another chain.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, fee_history};
use crate::test_server::{Response, TestServer};

const BLOCK_TIME: Duration = Duration::from_millis(500);
const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// A chain whose blocks follow the clock, but for a pause.
#[derive(Debug, Clone)]
struct Chain(Arc<Mutex<ChainState>>);

#[derive(Debug)]
struct ChainState {
    started: Instant,
    /// Time in which the chain made no block, until the pause ends.
    paused: Duration,
    paused_until: Option<Instant>,
}

impl Chain {
    fn new() -> Self {
        let state =
            ChainState { started: Instant::now(), paused: Duration::ZERO, paused_until: None };
        Self(Arc::new(Mutex::new(state)))
    }

    fn head(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        let now = Instant::now();
        let paused_until = state.paused_until.filter(|until| *until > now);
        state.paused_until = paused_until;
        let paused_for = match paused_until {
            Some(until) => state.paused.saturating_sub(until.saturating_duration_since(now)),
            None => state.paused,
        };
        let elapsed = now.saturating_duration_since(state.started).saturating_sub(paused_for);
        1000 + u64::try_from(elapsed.as_millis() / BLOCK_TIME.as_millis()).unwrap()
    }

    /// Makes no block for this time from now on.
    fn pause(&self, time: Duration) {
        let mut state = self.0.lock().unwrap();
        state.paused = time;
        state.paused_until = Some(Instant::now() + time);
    }

    /// Reply of a node that claims this many blocks more and these base fees.
    fn reply(&self, lead: u64, base_fee_gwei: u64) -> Reply {
        let chain = self.clone();
        Reply::computed(move |_| fee_history(chain.head() + lead, base_fee_gwei, base_fee_gwei))
    }
}

fn config(nodes: &[&MockNode], more: &str) -> String {
    let urls: Vec<_> = nodes.iter().map(|node| node.url()).collect();
    format!("[chains.a]\nchain_id = 7\nrpc_urls = {urls:?}\nblock_time = \"500ms\"\n{more}\n")
}

async fn metrics_of(service: &TestServer) -> String {
    service.admin("/metrics").await.body
}

fn newest(response: &Response) -> u64 {
    response.header("x-newest-block").parse().unwrap()
}

/// Reads the suggestion for a while. Returns an error if it is wrong and not labelled: later than the chain's head, or
/// with the liar's prices.
async fn watch(service: &TestServer, chain: &Chain, time: Duration) -> Result<u64, String> {
    let until = Instant::now() + time;
    let mut last = 0;
    while Instant::now() < until {
        let response = service.get(SUGGESTION).await;
        let head = chain.head();
        if response.status == 200 && response.header("x-stale").is_empty() {
            let base_fee = &response.json()["base_fee_per_gas"];
            if newest(&response) > head || base_fee != "6000000000" {
                return Err(format!("{} at head {head}, base fee {base_fee}", newest(&response)));
            }
            last = newest(&response);
        }
        tokio::time::sleep(BLOCK_TIME / 10).await;
    }
    Ok(last)
}

/// How the honest node gives the liar a chance.
#[derive(Debug, Clone, Copy)]
enum Chance {
    FailedPoll,
    LateBlock,
}

/// Runs a service with honest nodes first and one spare that claims blocks that do not exist.
async fn attack(honest: usize, lead: u64, chance: Chance) {
    let chain = Chain::new();
    let mut nodes = Vec::new();
    for _ in 0..honest {
        nodes.push(MockNode::start(7, chain.reply(0, 3)).await);
    }
    let liar = MockNode::start(7, chain.reply(lead, 3000)).await;
    let urls: Vec<_> = nodes.iter().chain([&liar]).collect();
    let service = TestServer::start(&config(&urls, "")).await;
    service.wait_for_ok(SUGGESTION).await;
    watch(&service, &chain, BLOCK_TIME * 4).await.unwrap();
    match chance {
        Chance::FailedPoll => {
            nodes[0].set_reply(Reply::Error(-32000));
            service.wait_for(SUGGESTION, |_| liar.calls("eth_feeHistory") >= 1).await;
            nodes[0].set_reply(chain.reply(0, 3));
        }
        Chance::LateBlock => {
            chain.pause(BLOCK_TIME * 5);
            service.wait_for(SUGGESTION, |_| liar.calls("eth_feeHistory") >= 1).await;
        }
    }
    let name = format!("{honest} honest, {lead} ahead, {chance:?}");
    let last = watch(&service, &chain, BLOCK_TIME * 20).await;
    let last = last.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    assert!(last + 2 >= chain.head(), "{name}: {last} is not the head {}", chain.head());
}

#[tokio::test]
async fn one_lying_spare_never_takes_the_chain_over() {
    tokio::join!(
        attack(1, 1_000_000, Chance::FailedPoll),
        attack(1, 1_000_000, Chance::LateBlock),
        attack(1, 8, Chance::FailedPoll),
        attack(1, 8, Chance::LateBlock),
        attack(2, 1_000_000, Chance::FailedPoll),
        attack(2, 1_000_000, Chance::LateBlock),
        attack(2, 8, Chance::FailedPoll),
        attack(2, 8, Chance::LateBlock),
    );
}

#[tokio::test]
async fn preferred_url_wins_again_after_a_long_outage() {
    let chain = Chain::new();
    let honest = MockNode::start(7, chain.reply(0, 3)).await;
    let liar = MockNode::start(7, chain.reply(1_000_000, 3000)).await;
    let service = TestServer::start(&config(&[&honest, &liar], "")).await;
    service.wait_for_ok(SUGGESTION).await;
    // Alone for long enough, the spare is believed.
    honest.set_reply(Reply::Error(-32000));
    let is_captured = |response: &Response| response.status == 200 && newest(response) > 1_000_000;
    service.wait_for(SUGGESTION, is_captured).await;
    honest.set_reply(chain.reply(0, 3));
    let returned = Instant::now();
    service.wait_for(SUGGESTION, |response| newest(response) < 1_000_000).await;
    println!("back after {:?}", returned.elapsed());
    let last = watch(&service, &chain, BLOCK_TIME * 20).await.unwrap();
    assert!(last + 2 >= chain.head(), "{last} is not the head");
}

/// A lead that the chain could have is served for a few blocks.
#[tokio::test]
async fn small_lead_of_a_spare_is_corrected_soon() {
    let run = async |lead: u64| {
        let chain = Chain::new();
        let honest = MockNode::start(7, chain.reply(0, 3)).await;
        let liar = MockNode::start(7, chain.reply(lead, 3000)).await;
        let service = TestServer::start(&config(&[&honest, &liar], "")).await;
        service.wait_for_ok(SUGGESTION).await;
        honest.set_reply(Reply::Error(-32000));
        service.wait_for(SUGGESTION, |_| liar.calls("eth_feeHistory") >= 1).await;
        honest.set_reply(chain.reply(0, 3));
        let hiccup_until = chain.head() + 10;
        service.wait_for(SUGGESTION, |_| chain.head() >= hiccup_until).await;
        let last = watch(&service, &chain, BLOCK_TIME * 10).await;
        let last = last.unwrap_or_else(|wrong| panic!("{lead} ahead: {wrong}"));
        assert!(last + 2 >= chain.head(), "{lead} ahead: {last} is not the head");
    };
    tokio::join!(run(1), run(2), run(3), run(4));
}

#[tokio::test]
async fn preferred_url_wins_although_the_spare_was_first() {
    let chain = Chain::new();
    let honest = MockNode::start(7, Reply::Error(-32000)).await;
    let liar = MockNode::start(7, chain.reply(1_000_000, 3000)).await;
    let service = TestServer::start(&config(&[&honest, &liar], "")).await;
    service.wait_for_ok(SUGGESTION).await;
    honest.set_reply(chain.reply(0, 3));
    service.wait_for(SUGGESTION, |response| newest(response) < 1_000_000).await;
    let last = watch(&service, &chain, BLOCK_TIME * 10).await.unwrap();
    assert!(last + 2 >= chain.head(), "{last} is not the head");
}

#[tokio::test]
async fn node_that_becomes_another_chain_is_never_published() {
    for (head, tag) in [(2_000_000, "higher"), (10, "lower"), (0, "equal")] {
        let chain = Chain::new();
        let node = MockNode::start(7, chain.reply(0, 3)).await;
        let service = TestServer::start(&config(&[&node], "")).await;
        service.wait_for_ok(SUGGESTION).await;
        node.set_chain_id(1);
        node.set_reply(match head {
            0 => chain.reply(0, 70),
            10 => Reply::history(100, 70, 70),
            _ => chain.reply(head, 70),
        });
        let is_known = |response: &Response| {
            assert_eq!(response.json()["base_fee_per_gas"], "6000000000", "{tag}");
            response.header("x-stale") == "true"
        };
        service.wait_for(SUGGESTION, is_known).await;
        let metrics = metrics_of(&service).await;
        assert!(metrics.contains("outcome=\"wrong_chain\""), "{tag}: {metrics}");
        assert!(
            metrics.contains("gas_suggestion_upstream_wrong_chain{chain=\"a\",upstream=\"0\"} 1")
        );
    }
}

/// Changes some amounts of a fee history.
fn changed(change: impl Fn(&mut Value) + Send + Sync + 'static, chain: &Chain) -> Reply {
    let chain = chain.clone();
    Reply::computed(move |_| {
        let mut history = fee_history(chain.head(), 3, 3);
        change(&mut history);
        history
    })
}

#[tokio::test]
async fn impossible_amounts_of_one_node_are_never_published() {
    const FACTORS: [u128; 3] = [10, 1_000_000, 1 << 100];
    type Change = fn(&mut Value, Value);
    let changes: [(&str, Change); 3] = [
        ("one block", |history, amount| history["baseFeePerGas"][10] = amount),
        ("all blocks", |history, amount| {
            history["baseFeePerGas"] = json!(vec![amount; 21]);
        }),
        ("the next base fee", |history, amount| history["baseFeePerGas"][20] = amount),
    ];
    let mut runs = tokio::task::JoinSet::new();
    for factor in FACTORS {
        for (name, change) in changes {
            runs.spawn(async move {
                let chain = Chain::new();
                let liar = MockNode::start(7, chain.reply(0, 3)).await;
                let honest = MockNode::start(7, chain.reply(0, 3)).await;
                let service = TestServer::start(&config(&[&liar, &honest], "")).await;
                service.wait_for_ok(SUGGESTION).await;
                let amount = 3_000_000_000_u128.saturating_mul(factor);
                let apply = move |history: &mut Value| {
                    change(history, json!(format!("{amount:#x}")));
                };
                liar.set_reply(changed(apply, &chain));
                service.wait_for(SUGGESTION, |_| honest.calls("eth_feeHistory") >= 1).await;
                let watched = watch(&service, &chain, BLOCK_TIME * 10).await;
                let last = watched.unwrap_or_else(|wrong| panic!("{name} times {factor}: {wrong}"));
                assert!(last + 2 >= chain.head(), "{name} times {factor}: {last} is not the head");
            });
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

#[tokio::test]
async fn base_fee_that_jumps_at_a_fork_is_followed() {
    let chain = Chain::new();
    let nodes = [(); 2].map(|()| chain.reply(0, 3));
    let nodes =
        [MockNode::start(7, nodes[0].clone()).await, MockNode::start(7, nodes[1].clone()).await];
    let alone = TestServer::start(&config(&[&nodes[0]], "")).await;
    let both = TestServer::start(&config(&[&nodes[0], &nodes[1]], "")).await;
    for service in [&alone, &both] {
        service.wait_for_ok(SUGGESTION).await;
    }
    let fork = chain.head() + 2;
    for node in &nodes {
        let chain = chain.clone();
        node.set_reply(Reply::computed(move |_| {
            let head = chain.head();
            let mut history = fee_history(head, 3, 3);
            for (block, base_fee) in
                (head - 19..).zip(history["baseFeePerGas"].as_array_mut().unwrap())
            {
                if block >= fork {
                    *base_fee = json!("0x174876e800");
                }
            }
            history
        }));
    }
    for service in [&alone, &both] {
        let follows = |response: &Response| {
            assert_eq!(response.status, 200, "{response:?}");
            newest(response) > fork && response.header("x-stale").is_empty()
        };
        service.wait_for(SUGGESTION, follows).await;
    }
    let metrics = metrics_of(&alone).await;
    assert!(metrics.contains("outcome=\"base_fee_leap\""), "{metrics}");
}

#[tokio::test]
async fn outlying_rewards_are_published_and_reported() {
    let chain = Chain::new();
    let node = MockNode::start(7, chain.reply(0, 3)).await;
    let service = TestServer::start(&config(&[&node], "")).await;
    service.wait_for_ok(SUGGESTION).await;
    let apply = |history: &mut Value| history["reward"][3] = json!(["0x110d9316ec000"]);
    node.set_reply(changed(apply, &chain));
    service
        .wait_for_admin("/metrics", |response| {
            response.body.contains("gas_suggestion_outlying_reward_blocks{chain=\"a\"} 1")
        })
        .await;
    // An absurd one is rejected.
    let apply =
        |history: &mut Value| history["reward"][3] = json!([format!("{:#x}", 1_u128 << 100)]);
    node.set_reply(changed(apply, &chain));
    service
        .wait_for_admin("/metrics", |response| response.body.contains("outcome=\"above_maximum\""))
        .await;
}

#[tokio::test]
async fn agreement_publishes_what_most_upstreams_confirm() {
    let chain = Chain::new();
    let nodes = [
        MockNode::start(7, chain.reply(0, 3000)).await,
        MockNode::start(7, chain.reply(0, 3)).await,
        MockNode::start(7, chain.reply(1, 3)).await,
    ];
    let urls: Vec<_> = nodes.iter().collect();
    let service = TestServer::start(&config(&urls, "agreement = 3")).await;
    let response = service.wait_for_ok(SUGGESTION).await;
    assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    service
        .wait_for_admin("/metrics", |response| {
            let is_counted = |line: &str| {
                line.starts_with("gas_suggestion_upstream_disagreements_total")
                    && !line.ends_with(" 0")
            };
            response.body.lines().any(is_counted)
        })
        .await;
    // Two that disagree publish nothing.
    let service = TestServer::start(&config(&urls[..2], "agreement = 2")).await;
    service
        .wait_for_admin("/metrics", |response| response.body.contains("outcome=\"disagrees\""))
        .await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    // One more decides.
    let service = TestServer::start(&config(&urls, "agreement = 2")).await;
    service.wait_for_ok(SUGGESTION).await;
    let last = watch(&service, &chain, BLOCK_TIME * 10).await.unwrap();
    assert!(last + 2 >= chain.head(), "{last} is not the head");
    // One that fails is replaced by the next.
    nodes[0].set_reply(Reply::Error(-32000));
    let service = TestServer::start(&config(&urls, "agreement = 2")).await;
    service.wait_for_ok(SUGGESTION).await;
}
