use std::collections::BTreeSet;

use super::*;

fn replay(block_time: Duration) -> Replay {
    let (_, bytes) = RECORDINGS[1];
    Replay::start_now(
        DemoRecording::from_gzip(bytes).unwrap(),
        BlockTiming { block_time, jitter: 0 },
    )
}

/// Longer than any test runs.
const LONG_BLOCK_TIME: Duration = Duration::from_hours(1);

fn parse_number(hex: &Value) -> u64 {
    u64::from_str_radix(hex.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn every_allowed_block_time_gives_a_valid_chain() {
    for block_time in [Duration::from_millis(10), Duration::from_secs(2), LONG_BLOCK_TIME] {
        for chain in chain_configs((Ipv4Addr::LOCALHOST, 1).into(), block_time, &[]).unwrap().chains
        {
            assert!(chain.max_age > chain.stale_after(block_time));
            assert_eq!(
                chain.stall_after(block_time),
                Some((block_time * 10).max(Duration::from_secs(10)))
            );
        }
    }
}

#[test]
fn head_advances_and_the_recording_repeats_with_new_numbers() {
    let chain = replay(Duration::from_micros(10));
    let (mut last, blocks) = (0, u64::try_from(chain.recording().blocks()).unwrap());
    let past_the_end = chain.recording().oldest_block + 2 * blocks;
    while last < past_the_end {
        let head = parse_number(&chain.call("eth_blockNumber", &[]).unwrap());
        assert!(head >= last);
        last = head;
    }
    let base_fee = |number: u64| {
        let tag = json!(format!("{number:#x}"));
        chain.call("eth_getBlockByNumber", &[tag, json!(false)]).unwrap()["baseFeePerGas"].clone()
    };
    let some = chain.recording().oldest_block + 5;
    assert_eq!(base_fee(some), base_fee(some + blocks));
    assert_ne!(base_fee(some), base_fee(some + 1));
    // The window at the seam contains the last and the first blocks.
    let seam = json!(format!("{:#x}", chain.recording().oldest_block + blocks));
    let reply = chain.call("eth_feeHistory", &[json!(2), seam, json!([])]).unwrap();
    let recorded = &chain.recording().base_fee_per_gas;
    let expected = [recorded[recorded.len() - 2], recorded[0], recorded[1]];
    let found: Vec<_> =
        reply["baseFeePerGas"].as_array().unwrap().iter().map(parse_number).collect();
    assert_eq!(found, expected);
    assert!(reply.get("reward").is_none());
}

#[test]
fn block_has_the_recorded_members_and_a_future_block_is_null() {
    let chain = replay(LONG_BLOCK_TIME);
    let latest = chain.call("eth_getBlockByNumber", &[json!("latest"), json!(false)]).unwrap();
    assert_eq!(parse_number(&latest["number"]), chain.recording().oldest_block + 19);
    assert_eq!(parse_number(&latest["baseFeePerGas"]), chain.recording().base_fee_per_gas[19]);
    let earliest = chain.call("eth_getBlockByNumber", &[json!("earliest")]).unwrap();
    let past = 43 * u64::try_from(chain.recording().blocks()).unwrap();
    assert_eq!(parse_number(&earliest["number"]), chain.recording().oldest_block - past);
    assert_eq!(parse_number(&earliest["baseFeePerGas"]), chain.recording().base_fee_per_gas[0]);
    assert_eq!(
        parse_number(&latest["timestamp"]) - parse_number(&earliest["timestamp"]),
        (past + 19) * 3600
    );
    let future_block = json!(format!("{:#x}", chain.recording().oldest_block + 20));
    assert_eq!(chain.call("eth_getBlockByNumber", &[future_block]), Ok(Value::Null));
}

#[test]
fn unrecorded_data_is_rejected() {
    let chain = replay(LONG_BLOCK_TIME);
    let code =
        |method: &str, params: Value| chain.call(method, params.as_array().unwrap()).unwrap_err().0;
    assert_eq!(code("eth_feeHistory", json!(["0x14", "latest", [61]])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x0", "latest", [60]])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x14", "newest", [60]])), -32602);
    assert_eq!(code("eth_feeHistory", json!([])), -32602);
    assert_eq!(code("eth_feeHistory", json!(["0x1", "0xffffffff", [60]])), -32000);
    assert_eq!(code("eth_getBalance", json!([])), -32000);
}

#[test]
fn jittered_blocks_arrive_in_order_around_their_regular_times() {
    let block_time = Duration::from_secs(1);
    let micros = Duration::from_micros;
    for jitter in [0, 20, 40] {
        let timing = BlockTiming { block_time, jitter };
        let max_jitter = block_time * u32::from(jitter) / 100;
        let mut offsets = BTreeSet::new();
        let mut elapsed = Duration::ZERO;
        for block in 1..=200_u32 {
            // First moment at which it exists.
            while timing.blocks_by(elapsed) < u64::from(block) {
                elapsed += micros(500);
            }
            assert_eq!(timing.blocks_by(elapsed), u64::from(block), "{jitter} {elapsed:?}");
            let regular_at = block_time * block;
            assert!(
                elapsed + max_jitter >= regular_at
                    && elapsed <= regular_at + max_jitter + micros(500),
                "{jitter} {elapsed:?}"
            );
            offsets.insert((elapsed + max_jitter).checked_sub(regular_at).unwrap());
        }
        assert_eq!(offsets.len() > 100, jitter > 0, "{jitter}: {}", offsets.len());
        assert!(
            *offsets.last().unwrap() >= *offsets.first().unwrap() + max_jitter * 3 / 2,
            "{jitter}"
        );
    }
}
