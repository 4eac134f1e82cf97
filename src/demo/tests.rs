use std::collections::BTreeSet;

use super::*;

fn replay(block_time: Duration) -> Replay {
    let (_, bytes) = RECORDINGS[1];
    Replay::start(Recording::from_gzip(bytes).unwrap(), Pace { block_time, jitter: 0 })
}

/// A block time that no test outlives.
const STANDING: Duration = Duration::from_hours(1);

fn number(hex: &Value) -> u64 {
    u64::from_str_radix(hex.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn every_recorded_chain_has_a_configuration_and_the_other_way_round() {
    let chains = chains((Ipv4Addr::LOCALHOST, 8545).into(), Duration::from_secs(2)).unwrap();
    let configured: BTreeSet<_> =
        chains.iter().map(|chain| (chain.key.as_str(), chain.chain_id)).collect();
    let recorded: BTreeSet<_> = RECORDINGS
        .iter()
        .map(|(key, bytes)| (*key, Recording::from_gzip(bytes).unwrap().chain_id))
        .collect();
    assert_eq!(configured, recorded);
    for chain in &chains {
        let expected = format!("http://127.0.0.1:8545/{}", chain.key);
        assert_eq!(chain.rpc_urls[0].expose().as_str(), expected);
    }
}

#[test]
fn every_block_time_that_the_flag_takes_makes_a_usable_chain() {
    for block_time in [Duration::from_millis(10), Duration::from_secs(2), STANDING] {
        for chain in chains((Ipv4Addr::LOCALHOST, 1).into(), block_time).unwrap() {
            assert!(chain.max_age > chain.stale_after());
            assert_eq!(chain.stall_after(), Some(block_time * 10));
        }
    }
}

#[test]
fn the_chain_starts_with_a_whole_window_of_recorded_values() {
    let chain = replay(STANDING);
    let answer =
        chain.answer("eth_feeHistory", &[json!("0x14"), json!("latest"), json!([60])]).unwrap();
    assert_eq!(number(&answer["oldestBlock"]), chain.recording().oldest_block);
    assert_eq!(answer["baseFeePerGas"].as_array().unwrap().len(), 21);
    assert_eq!(answer["reward"].as_array().unwrap().len(), 20);
    assert_eq!(answer["gasUsedRatio"].as_array().unwrap().len(), 20);
    let column = chain.recording().column(60.0).unwrap();
    for (index, row) in answer["reward"].as_array().unwrap().iter().enumerate() {
        assert_eq!(number(&row[0]), chain.recording().reward[index][column]);
        let base_fee = &answer["baseFeePerGas"][index];
        assert_eq!(number(base_fee), chain.recording().base_fee_per_gas[index]);
    }
}

#[test]
fn the_head_moves_one_block_per_block_time_and_the_recording_repeats_under_new_numbers() {
    let chain = replay(Duration::from_micros(10));
    let (mut last, blocks) = (0, u64::try_from(chain.recording().blocks()).unwrap());
    let past_the_end = chain.recording().oldest_block + 2 * blocks;
    while last < past_the_end {
        let head = number(&chain.answer("eth_blockNumber", &[]).unwrap());
        assert!(head >= last);
        last = head;
    }
    let base_fee = |number: u64| {
        let tag = json!(format!("{number:#x}"));
        chain.answer("eth_getBlockByNumber", &[tag, json!(false)]).unwrap()["baseFeePerGas"].clone()
    };
    let some = chain.recording().oldest_block + 5;
    assert_eq!(base_fee(some), base_fee(some + blocks));
    assert_ne!(base_fee(some), base_fee(some + 1));
    // The window at the seam has the last blocks and the first.
    let seam = json!(format!("{:#x}", chain.recording().oldest_block + blocks));
    let answer = chain.answer("eth_feeHistory", &[json!(2), seam, json!([])]).unwrap();
    let recorded = &chain.recording().base_fee_per_gas;
    let expected = [recorded[recorded.len() - 2], recorded[0], recorded[1]];
    let found: Vec<_> = answer["baseFeePerGas"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(found, expected);
    assert!(answer.get("reward").is_none());
}

#[test]
fn a_block_has_the_members_that_are_known_and_a_block_to_come_is_null() {
    let chain = replay(STANDING);
    let latest = chain.answer("eth_getBlockByNumber", &[json!("latest"), json!(false)]).unwrap();
    assert_eq!(number(&latest["number"]), chain.recording().oldest_block + 19);
    assert_eq!(number(&latest["baseFeePerGas"]), chain.recording().base_fee_per_gas[19]);
    let earliest = chain.answer("eth_getBlockByNumber", &[json!("earliest")]).unwrap();
    assert_eq!(number(&latest["timestamp"]) - number(&earliest["timestamp"]), 19 * 3600);
    let to_come = json!(format!("{:#x}", chain.recording().oldest_block + 20));
    assert_eq!(chain.answer("eth_getBlockByNumber", &[to_come]), Ok(Value::Null));
}

#[test]
fn what_was_not_recorded_is_refused() {
    let chain = replay(STANDING);
    let code = |method: &str, params: Value| {
        chain.answer(method, params.as_array().unwrap()).unwrap_err().0
    };
    assert_eq!(code("eth_feeHistory", json!(["0x14", "latest", [61]])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x0", "latest", [60]])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x14", "newest", [60]])), -32602);
    assert_eq!(code("eth_feeHistory", json!([])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x1", "0xffffffff", [60]])), -32000);
    assert_eq!(code("eth_getBalance", json!([])), -32601);
}

#[test]
fn blocks_come_at_their_own_moments_around_the_regular_ones_and_in_their_order() {
    let block_time = Duration::from_secs(1);
    let micros = Duration::from_micros;
    for jitter in [0, 20, 40] {
        let pace = Pace { block_time, jitter };
        let most = block_time * u32::from(jitter) / 100;
        let mut offsets = BTreeSet::new();
        let mut at = Duration::ZERO;
        for block in 1..=200_u32 {
            // The first moment at which it is there.
            while pace.blocks(at) < u64::from(block) {
                at += micros(500);
            }
            assert_eq!(pace.blocks(at), u64::from(block), "{jitter} {at:?}");
            let regular = block_time * block;
            assert!(at + most >= regular && at <= regular + most + micros(500), "{jitter} {at:?}");
            offsets.insert((at + most).checked_sub(regular).unwrap());
        }
        assert_eq!(offsets.len() > 100, jitter > 0, "{jitter}: {}", offsets.len());
        assert!(*offsets.last().unwrap() >= *offsets.first().unwrap() + most * 3 / 2, "{jitter}");
    }
}
