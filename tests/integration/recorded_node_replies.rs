//! Recorded replies of many kinds of nodes, priced with the network's floors and without.

use std::fmt::Write;

use gas_suggestion::fees::Pricing;
use gas_suggestion::fees::{self, PricingType};
use gas_suggestion::nodes::FeeHistoryRequest;
use serde_json::value::RawValue;

use crate::fixtures;

#[test]
fn every_recorded_reply_has_its_expected_outcome() {
    const FOLDER: &str = "tests/fixtures/fee-history-shapes";
    let entries = std::fs::read_dir(fixtures::path(FOLDER)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names.len(), 28);

    let network = fixtures::priced(fixtures::NETWORK_FLOORS).pricing;
    let no_floors = fixtures::priced("").pricing;
    let mut outcomes = String::new();
    for name in names {
        let result: Box<RawValue> = fixtures::json(&format!("{FOLDER}/{name}"));
        writeln!(outcomes, "{name}").unwrap();
        writeln!(outcomes, "  network    {}", outcome(&result, &network)).unwrap();
        writeln!(outcomes, "  no floors  {}", outcome(&result, &no_floors)).unwrap();
    }
    fixtures::assert_snapshot("recorded-node-replies", &outcomes);
}

/// Returns the newest block, the window's length, a note if the next base fee is unknown, and the amounts in wei:
/// base fee, then the tips of medium and high.
fn outcome(result: &RawValue, pricing: &Pricing) -> String {
    let history = match FeeHistoryRequest::new(pricing).parse(result) {
        Ok(history) => history,
        Err(malformed) => return format!("rejected: {malformed}"),
    };
    let parameters = fees::ChainParameters::from_pricing(pricing);
    let suggestion = match fees::price(&history, &[], pricing, &parameters) {
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
        if history.next_base_fee.is_some() { "" } else { ", next unknown" },
        suggestion.base_fee_per_gas,
        suggestion.tiers.medium.max_priority_fee_per_gas,
        suggestion.tiers.high.max_priority_fee_per_gas,
    )
}
