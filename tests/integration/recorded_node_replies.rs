//! Recorded replies of many kinds of nodes, priced with the network's floors and without.

use std::fmt::Write;

use gas_suggestion::fees::Pricing;
use gas_suggestion::fees::{self, PricingType};
use gas_suggestion::nodes::FeeHistoryRequest;
use serde_json::value::RawValue;

use crate::fixtures;

#[test]
fn every_recorded_reply_has_its_expected_outcome() {
    insta::assert_snapshot!(outcomes(), @r"
    arbitrum-one-430145516.json
      network    eip-1559 at 430145519 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 430145519 over 4: base 40150000, medium 0, high 0
    base-49056461-6pct-first5.json
      network    eip-1559 at 49056465 over 5: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 49056465 over 5: base 10000000, medium 20055, high 24066
    blast-31930382.json
      network    eip-1559 at 31930385 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 31930385 over 4: base 504, medium 0, high 0
    bsc-37160695-short.json
      network    legacy at 37160695 over 1: base 0, medium 20000000000, high 24000000000
      no floors  legacy at 37160695 over 1: base 0, medium 1000000000, high 1200000000
    bsc-95794258.json
      network    legacy at 95794261 over 4: base 0, medium 20000000000, high 24000000000
      no floors  legacy at 95794261 over 4: base 0, medium 50000000, high 60000000
    darwinia-crab-1735063.json
      network    eip-1559 at 1735064 over 2: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 1735064 over 2: base 16, medium 0, high 0
    devnet-2290-geth-int-zero.json
      network    eip-1559 at 2294 over 5: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 2294 over 5: base 14, medium 0, high 0
    ethereum-12966149-london.json
      network    eip-1559 at 12966152 over 4: base 261746007338, medium 45376996330, high 54452395596
      no floors  eip-1559 at 12966152 over 4: base 261746007338, medium 45376996330, high 54452395596
    ethereum-13090575-integers.json
      network    eip-1559 at 13090576 over 2: base 141722567004, medium 20000000000, high 24000000000
      no floors  eip-1559 at 13090576 over 2: base 141722567004, medium 5834629323, high 7001555187
    ethereum-16431276.json
      network    eip-1559 at 16431280 over 5: base 33120137302, medium 20000000000, high 24000000000
      no floors  eip-1559 at 16431280 over 5: base 33120137302, medium 1271935510, high 1526322612
    ethereum-16607861.json
      network    eip-1559 at 16607865 over 5: base 39594868626, medium 20000000000, high 24000000000
      no floors  eip-1559 at 16607865 over 5: base 39594868626, medium 956000000, high 1147200000
    ethereum-17072065.json
      network    eip-1559 at 17072066 over 2: base 73101497846, medium 20000000000, high 24000000000
      no floors  eip-1559 at 17072066 over 2: base 73101497846, medium 100000000, high 120000000
    ethereum-19968486-blob.json
      network    eip-1559 at 19968489 over 4: base 43216890484, medium 20000000000, high 24000000000
      no floors  eip-1559 at 19968489 over 4: base 43216890484, medium 84985781, high 101982937
    ethereum-22367938-blob.json
      network    eip-1559 at 22367941 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 22367941 over 4: base 1850771070, medium 547302910, high 656763492
    fantom-120700241-noextra.json
      network    eip-1559 at 120699988 over 4, next unknown: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 120699988 over 4, next unknown: base 2000000000, medium 15097000, high 18116400
    fantom-long.json
      network    eip-1559 at 63349351 over 20, next unknown: base 29487611192, medium 1161376194404, high 1393651433284
      no floors  eip-1559 at 63349351 over 20, next unknown: base 29487611192, medium 1161376194404, high 1393651433284
    hive-execution-apis-2.json
      network    eip-1559 at 2 over 1: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 2 over 1: base 1535000370, medium 1, high 1
    kava-7253934-null-basefee.json
      network    rejected: `baseFeePerGas` has an element that is not a quantity
      no floors  rejected: `baseFeePerGas` has an element that is not a quantity
    linea-30299218.json
      network    eip-1559 at 30299221 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 30299221 over 4: base 14, medium 41903993, high 50284791
    mantle-89735431.json
      network    eip-1559 at 89735434 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 89735434 over 4: base 40000000, medium 0, high 0
    op-devnet-1-negative-reward.json
      network    eip-1559 at 1 over 1: base 2000000000, medium 20000000000, high 24000000000
      no floors  rejected: no block has a usable reward and the priority fee floor is 0
    polygon-82393988.json
      network    eip-1559 at 82327431 over 4: base 1010409596168, medium 119471540000, high 143365848000
      no floors  eip-1559 at 82327431 over 4: base 1010409596168, medium 119471540000, high 143365848000
    polygon-85664340-noreward.json
      network    eip-1559 at 85664343 over 4: base 199329101006, medium 20000000000, high 24000000000
      no floors  rejected: no block has a usable reward and the priority fee floor is 0
    robinhood-450752.json
      network    eip-1559 at 450755 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 450755 over 4: base 40006000, medium 0, high 0
    sahara-8638410.json
      network    eip-1559 at 8638413 over 4: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 8638413 over 4: base 2000000000, medium 6175000000, high 7410000000
    sepolia-4880264.json
      network    eip-1559 at 4880268 over 5: base 2000000000, medium 20000000000, high 24000000000
      no floors  eip-1559 at 4880268 over 5: base 447170768, medium 11, high 13
    testnet-1095983-blob.json
      network    eip-1559 at 1094963 over 5: base 2103812196, medium 20000000000, high 24000000000
      no floors  eip-1559 at 1094963 over 5: base 2103812196, medium 224758100, high 269709720
    testnet-1095983-lowercase-oldestblock.json
      network    rejected: `oldestBlock` is missing or not a block number
      no floors  rejected: `oldestBlock` is missing or not a block number
    ");
}

fn outcomes() -> String {
    let directory = fixtures::path("tests/fixtures/fee-history-shapes");
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 28);

    let network = fixtures::priced(fixtures::NETWORK_FLOORS).pricing;
    let no_floors = fixtures::priced("").pricing;
    let mut outcomes = String::new();
    for name in names {
        let json = fixtures::read(&format!("tests/fixtures/fee-history-shapes/{name}"));
        let result = RawValue::from_string(String::from_utf8(json).unwrap()).unwrap();
        writeln!(outcomes, "{name}").unwrap();
        writeln!(outcomes, "  network    {}", outcome(&result, &network)).unwrap();
        writeln!(outcomes, "  no floors  {}", outcome(&result, &no_floors)).unwrap();
    }
    outcomes
}

/// Returns the newest block, the window's length, a note if the next base fee is unknown, and the amounts in wei:
/// base fee, then the tips of medium and high.
fn outcome(result: &RawValue, pricing: &Pricing) -> String {
    let history = match FeeHistoryRequest::new(pricing).parse(result) {
        Ok(history) => history,
        Err(malformed) => return format!("rejected: {malformed}"),
    };
    let parameters = fees::ChainParameters::without_header(pricing);
    let suggestion = match fees::price(&history, pricing, &parameters) {
        Ok(market) => market.suggestion,
        Err(rejection) => return format!("rejected: {rejection}"),
    };
    let kind = match suggestion.pricing_type {
        PricingType::Eip1559 => "eip-1559",
        PricingType::Legacy => "legacy",
    };
    format!(
        "{kind} at {} over {}{}: base {}, medium {}, high {}",
        history.newest_block(),
        history.blocks().len(),
        if history.next_base_fee().is_some() { "" } else { ", next unknown" },
        suggestion.base_fee_per_gas,
        suggestion.medium.max_priority_fee_per_gas,
        suggestion.high.max_priority_fee_per_gas,
    )
}
