use std::time::Duration;

use serde_json::{Value, json};

use super::content::DocumentContent;
use super::documents::Document;
use super::*;
use crate::config::Chain;
use crate::config::tests::chain;
use crate::fees::tests::{GWEI, market};
use crate::fees::{BaseFeeStep, Block, EntryBlock, FeeHistory, SinglePrices, Tier, Tiers};
use crate::store::{Accepted, ChainStore, StoredChain};

/// A window with these rewards in gwei, at a base fee of 1 gwei. `None`: the rewards are unknown.
fn blocks(rewards: &[Option<u128>]) -> Vec<Block> {
    let block = |reward: &Option<u128>| Block {
        base_fee: GWEI,
        gas_used_ratio: Some(0.5),
        rewards: reward.map(|gwei| [gwei * GWEI, 0]),
    };
    rewards.iter().map(block).collect()
}

/// Prices the blocks, and returns what `read` returns of the content.
fn with_content<T>(
    chain: &Chain,
    blocks: &[Block],
    next_base_fee: u128,
    read: impl FnOnce(&DocumentContent) -> T,
) -> T {
    let history = FeeHistory::new(100, blocks.to_vec(), Some(next_base_fee)).unwrap();
    let market = market(&history, &chain.pricing);
    let steps: Vec<_> =
        blocks.iter().map(|block| BaseFeeStep::from_base_fee(block.base_fee)).collect();
    let entry = |block: &Block| EntryBlock::new(block, true, block.reward(0), None);
    read(&DocumentContent {
        chain,
        market: &market,
        prices: SinglePrices::new(&market, &steps, Duration::from_secs(12)),
        newest_block: history.newest_block(),
        blocks: blocks.to_vec(),
        entries: blocks.iter().map(entry).collect(),
        next_block: None,
        kept_within: None,
        block_time: Duration::from_millis(1500),
        head_age: Duration::from_millis(250),
    })
}

/// Fees with this tip in wei, and a max fee that leaves room for it.
fn with_tip(tip: u128) -> Tier {
    Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: GWEI + tip }
}

fn longest_wait(content: &DocumentContent, tier: Tier) -> Duration {
    content.longest_waits(Tiers { low: tier, medium: tier, high: tier }).low
}

/// Returns the text of a document, if there is one.
fn body(documents: &Documents, chain: &StoredChain, document: &Document) -> Option<String> {
    let (_, body) = documents.read(chain, document).ok()?;
    Some(String::from_utf8_lossy(&body?).into_owned())
}

fn document(content: &DocumentContent, document: &Document) -> Value {
    serde_json::from_slice(&(document.render)(content).unwrap()).unwrap()
}

#[test]
fn the_longest_wait_follows_the_longest_run_of_refusing_blocks() {
    let rewards = [Some(1), Some(5), Some(5), None, Some(1), Some(9), Some(2)];
    let blocks_longest = |tip: u128| {
        with_content(&chain(""), &blocks(&rewards), GWEI, |content| {
            longest_wait(content, with_tip(tip * GWEI)).as_millis() / 1500
        })
    };
    // Blocks whose rewards are unknown were not seen to accept anything.
    for (tip, expected) in [(0, 8), (1, 4), (2, 4), (4, 4), (5, 2), (9, 2), (100, 2)] {
        assert_eq!(blocks_longest(tip), expected, "{tip}");
    }
    let all_known = with_content(&chain(""), &blocks(&[Some(1); 3]), GWEI, |content| {
        [GWEI, GWEI - 1].map(|tip| longest_wait(content, with_tip(tip)))
    });
    assert_eq!(all_known, [Duration::from_millis(1500), Duration::from_secs(6)]);
}

#[test]
fn a_confidence_is_the_share_of_blocks_that_would_include_the_fees() {
    let rewards = [Some(1), Some(2), Some(3), None];
    with_content(&chain(""), &blocks(&rewards), GWEI, |content| {
        let confidences = [0, 1, 2, 3, 9].map(|tip| content.confidence(with_tip(tip * GWEI)));
        assert_eq!(confidences, [Some(1), Some(33), Some(66), Some(99), Some(99)]);
        // The max fee leaves less than the tip, or does not cover the base fee.
        let with_max_fee = |max_fee_per_gas| {
            let fees = Tier { max_fee_per_gas, ..with_tip(9 * GWEI) };
            (content.confidence(fees), longest_wait(content, fees).as_millis() / 1500)
        };
        assert_eq!(with_max_fee(3 * GWEI), (Some(66), 3));
        assert_eq!(with_max_fee(GWEI - 1), (Some(1), 5));
    });
    let floor = "pricing.priority_fee_floor = \"1 gwei\"";
    with_content(&chain(floor), &blocks(&[None; 3]), GWEI, |content| {
        assert_eq!(content.confidence(with_tip(GWEI)), None);
        assert!((blocknative::PRICES.render)(content).is_none());
    });
}

#[test]
fn metamask_gets_times_in_milliseconds_and_rrelayer_in_seconds_rounded_up() {
    with_content(&chain(""), &blocks(&[Some(2); 20]), GWEI, |content| {
        let fees = document(content, &metamask::FEES);
        let expected = json!({
            "suggestedMaxPriorityFeePerGas": "2", "suggestedMaxFeePerGas": "4",
            "minWaitTimeEstimate": 1500, "maxWaitTimeEstimate": 1500,
        });
        assert_eq!(fees["medium"], expected);
        let speed = json!({
            "suggestedMaxPriorityFeePerGas": "2.88", "suggestedMaxFeePerGas": "4.88",
            "minWaitTimeEstimate": 2, "maxWaitTimeEstimate": 2,
        });
        assert_eq!(document(content, &rrelayer::FEES)["superFast"], speed);
        // A reader takes whole seconds.
        assert_eq!(document(content, &polygon::FEES)["blockTime"].to_string(), "2");
        assert_eq!(document(content, &blocknative::PRICES)["msSinceLastBlock"], 250);
    });
}

#[test]
fn trends_compare_the_newest_rewards_with_all() {
    let trend = |rewards: &[Option<u128>]| {
        with_content(&chain(""), &blocks(rewards), GWEI, |content| {
            document(content, &metamask::FEES)["priorityFeeTrend"].clone()
        })
    };
    let mut rewards = vec![Some(10); 20];
    assert_eq!(trend(&rewards), "level");
    rewards[15..].fill(Some(12));
    assert_eq!(trend(&rewards), "up");
    rewards[15..].fill(Some(8));
    assert_eq!(trend(&rewards), "down");
    assert_eq!(trend(&[Some(10)]), "level");
}

#[test]
fn a_price_of_one_number_covers_a_base_fee_above_the_max_fee() {
    // The average doubles to 2 gwei, and the next block already costs 5: after 2 and 5 full blocks 1.125 times as much.
    let two_lines = chain("pricing.base_fee_change_denominator = 8");
    with_content(&two_lines, &blocks(&[Some(2); 20]), 5 * GWEI, |content| {
        let prices = document(content, &metamask::PRICES);
        let expected = json!({
            "SafeGasPrice": "6.328125", "ProposeGasPrice": "6.328125", "FastGasPrice": "9.010162354",
        });
        assert_eq!(prices, expected);
        let gas_price = document(content, &etherscan::GAS_PRICE);
        assert_eq!(gas_price["result"], format!("{:#x}", 6_328_125_000_u64));
        let flat = document(content, &flat::PRICES);
        for (speed, price) in
            [("slow", "6.328125"), ("average", "6.328125"), ("fast", "9.010162354")]
        {
            assert_eq!(flat[speed].to_string(), price, "{speed}");
        }
        let levels = document(content, &blocknative::PRICES);
        let level = &levels["blockPrices"][0]["estimatedPrices"][0];
        assert_eq!(
            (level["price"].to_string(), levels["maxPrice"].to_string()),
            ("9.010162354".to_owned(), "9.010162354".to_owned())
        );
        // The max fee stays that of the tier.
        assert_eq!(level["maxFeePerGas"].to_string(), "4.4");
    });
}

#[test]
fn a_legacy_chain_has_its_gas_price_everywhere() {
    let mut window = blocks(&[Some(3); 20]);
    for block in &mut window {
        block.base_fee = 0;
    }
    with_content(&chain(""), &window, 0, |content| {
        let fees = document(content, &metamask::FEES);
        assert_eq!(fees["medium"]["suggestedMaxFeePerGas"], "3");
        assert_eq!(fees["estimatedBaseFee"], "0");
        assert_eq!(document(content, &metamask::PRICES)["ProposeGasPrice"], "3");
        let gas_price = document(content, &etherscan::GAS_PRICE)["result"].clone();
        assert_eq!(gas_price, format!("{:#x}", 3 * GWEI));
        assert_eq!(document(content, &safe::ORACLE)["result"]["suggestBaseFee"], "0");
        assert_eq!(document(content, &flat::PRICES)["standard"], 3);
    });
}

#[test]
fn unknown_ratios_are_left_out() {
    let mut window = blocks(&[Some(3); 7]);
    (window[0].gas_used_ratio, window[1].gas_used_ratio) = (Some(0.1), Some(0.2));
    window[3].gas_used_ratio = None;
    window[6].gas_used_ratio = Some(0.0);
    let ratios = |window: &[Block]| {
        with_content(&chain(""), window, GWEI, |content| {
            document(content, &etherscan::ORACLE)["result"]["gasUsedRatio"].take()
        })
    };
    assert_eq!(ratios(&window), "0.2,0.5,0.5,0.5,0");
    for block in &mut window {
        block.gas_used_ratio = None;
    }
    assert_eq!(ratios(&window), "");
}

#[test]
fn ranges_are_of_base_fees_and_of_the_rewards_of_the_medium_tip() {
    let block = |base_fee: u128, gas_used_ratio, reward: u128| Block {
        base_fee: base_fee * GWEI,
        gas_used_ratio: Some(gas_used_ratio),
        rewards: Some([reward * GWEI, 0]),
    };
    let silent = Block { rewards: None, ..block(5, 0.5, 0) };
    let empty = block(100, 0.0, 90);
    let blocks = [block(9, 0.5, 40), silent, empty];
    with_content(&chain(""), &blocks, 9 * GWEI, |content| {
        let fees = document(content, &metamask::FEES);
        assert_eq!(fees["historicalBaseFeeRange"], json!(["5", "100"]));
        assert_eq!(fees["historicalPriorityFeeRange"], json!(["40", "40"]));
        assert_eq!(fees["networkCongestion"], 0.3333);
    });
    // Only the newest 20 are recent.
    let blocks = [vec![block(9, 0.5, 40)], vec![block(9, 0.5, 30); 20]].concat();
    with_content(&chain(""), &blocks, 9 * GWEI, |content| {
        let fees = document(content, &metamask::FEES);
        assert_eq!(fees["historicalPriorityFeeRange"], json!(["30", "40"]));
        assert_eq!(fees["latestPriorityFeeRange"], json!(["30", "30"]));
    });
    let floor = "pricing.priority_fee_floor = \"1 gwei\"";
    with_content(&chain(floor), &[silent], 9 * GWEI, |content| {
        let fees = document(content, &metamask::FEES);
        assert_eq!(fees["historicalPriorityFeeRange"], json!([]));
    });
}

#[test]
fn a_wait_is_the_fewest_blocks_within_which_the_tier_was_kept() {
    // Blocks ask for 10 gwei and for 4 in turn: medium has a tip of 7, high one of 14.
    let more = "pricing.strategy = \"network\"\npricing.high_multiplier = 2\n";
    let (store, mut publishers) = ChainStore::new(&[chain(more)]);
    let documents = Documents::new(&store, None);
    let chain = &store.chains()[0];
    publishers[0].observe(Arc::clone(documents.kept.get(chain)));
    let mut publish = |newest: u64| {
        let block = |number: u64| Block {
            base_fee: GWEI,
            gas_used_ratio: Some(0.5),
            rewards: Some([(4 + u128::from(number % 2) * 6) * GWEI, 0]),
        };
        let history =
            FeeHistory::new(newest - 19, (newest - 19..=newest).map(block).collect(), None);
        let history = history.unwrap();
        let market = market(&history, &chain.config().pricing);
        publishers[0].publish(Accepted::now(&history, market));
        chain.read_together(|blocks| documents.kept.get(chain).kept_within(blocks))
    };
    // 25 blocks after each of 20 heads.
    for newest in 100..144 {
        assert_eq!(publish(newest), None, "{newest}");
    }
    let expected = Tiers { low: 2, medium: 2, high: 1 };
    assert_eq!(publish(144), Some(expected));
    let fees: Value =
        serde_json::from_str(&body(&documents, chain, &metamask::FEES).unwrap()).unwrap();
    let waits = ["low", "medium", "high"].map(|tier| fees[tier]["maxWaitTimeEstimate"].clone());
    let block_time = fees["low"]["minWaitTimeEstimate"].as_u64().unwrap();
    assert_eq!(waits, [2 * block_time, 2 * block_time, block_time]);
}
