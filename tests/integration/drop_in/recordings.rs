//! Every window of a recording in every format: the documents equal the suggestion, as their readers understand it.

use std::sync::Arc;

use alloy_primitives::utils::parse_units;
use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};

use super::consumers::{
    ThreeLevels, blockbook, foundry, komodo, rrelayer, safe, status, tokenbridge,
};
use crate::fixtures::{self, wei};
use crate::mock_node::{MockNode, Reply};
use crate::single_prices::expected_bound;
use crate::test_server::TestServer;

/// Blocks of the first window.
pub(super) const WINDOW: usize = 20;

/// Every how many heads the counts are compared with `/inclusion`.
const COUNTED_EVERY: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn ethereum() {
    replay(recording("src/extras/demo/recordings/ethereum.json.gz")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn base() {
    replay(recording("src/extras/demo/recordings/base.json.gz")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polygon() {
    replay(recording("tests/fixtures/recordings/polygon.json.gz")).await;
}

fn recording(path: &str) -> DemoRecording {
    DemoRecording::from_gzip(&fixtures::read(path)).unwrap()
}

/// Moves a node over the whole recording, block by block, and checks all documents at each head.
async fn replay(recording: DemoRecording) {
    let count = recording.gas_used_ratio.len();
    let history = fixtures::recorded_history(&recording, count, &[60.0]);
    let node =
        MockNode::start(7, Reply::Newest(Arc::new(fixtures::window(&history, WINDOW, WINDOW))))
            .await;
    let service = TestServer::start(&node.chain(
        "a",
        "block_time = \"10ms\"\n\
         pricing.base_fee_change_denominator = 8\npricing.check_base_fees = false",
    ))
    .await;
    for mined in WINDOW..=count {
        node.set_reply(Reply::Newest(Arc::new(fixtures::window(&history, mined, WINDOW))));
        let head = Head::read(&service, &recording, mined).await;
        assert!(head.prices.is_sorted(), "{}: {:?}", head.number, head.prices);
        head.check().await;
    }
    assert_eq!(count - WINDOW + 1, 1005);
}

/// The service at one head, and what it served there.
struct Head<'a> {
    service: &'a TestServer,
    number: u64,
    /// True if the counts are compared.
    is_counted: bool,
    newest_base_fee: u128,
    newest_ratios: Vec<f64>,
    base_fee_per_gas: u128,
    next_base_fee: u128,
    /// Tip and max fee.
    medium: [u128; 2],
    high: [u128; 2],
    /// Prices of one number of low, medium and high.
    prices: [u128; 3],
}

/// Converts gwei as text, exactly.
fn gwei(text: &str) -> u128 {
    parse_units(text, "gwei").unwrap().get_absolute().to()
}

impl<'a> Head<'a> {
    async fn read(service: &'a TestServer, recording: &DemoRecording, mined: usize) -> Self {
        let number = recording.oldest_block + mined as u64 - 1;
        let text = number.to_string();
        let response = service.wait_for("/v1/a/fee-market", |response| {
            response.status == 200 && response.headers["x-newest-block"] == text.as_str()
        });
        let market = response.await.json();
        let suggestion = &market["suggestion"];
        let tier = |name: &str| {
            let tier = &suggestion[name];
            [wei(&tier["max_priority_fee_per_gas"]), wei(&tier["max_fee_per_gas"])]
        };
        let next_base_fee = wei(&market["next_base_fee_per_gas"]);
        let known = &recording.base_fee_per_gas[..mined];
        let bound = |blocks| expected_bound(known, next_base_fee, blocks, 8);
        let (soon, later) = (bound(2), bound(5).max(bound(2)));
        let price =
            |(name, bound): (&str, u128)| wei(&market["expected_price_per_gas"][name]).max(bound);
        Self {
            service,
            number,
            is_counted: mined.is_multiple_of(COUNTED_EVERY),
            newest_base_fee: recording.base_fee_per_gas[mined - 1].into(),
            newest_ratios: recording.gas_used_ratio[mined - 5..mined].to_vec(),
            base_fee_per_gas: wei(&suggestion["base_fee_per_gas"]),
            next_base_fee,
            medium: tier("medium"),
            high: tier("high"),
            prices: [("low", soon), ("medium", soon), ("high", later)].map(price),
        }
    }

    /// Returns the document at this path, whose numbers are free of noise.
    async fn document(&self, path: &str) -> String {
        let response = self.service.get(path).await;
        assert_eq!(response.status, 200, "{path} at {}: {}", self.number, response.body);
        assert_eq!(response.header("x-newest-block"), self.number.to_string(), "{path}");
        let (exact, _) =
            response.body.split_once("\"gasUsedRatio\"").unwrap_or((&response.body, ""));
        for number in numbers(exact) {
            let places = number.split_once('.').map_or(0, |(_, places)| places.len());
            assert!(places <= 9 && !number.contains('-'), "{path} at {}: {number}", self.number);
        }
        response.body
    }

    async fn check(&self) {
        let low = self.check_metamask().await;
        self.check_etherscan().await;
        self.check_safe(low).await;
        self.check_blocknative(low).await;
        self.check_rrelayer(low).await;
        self.check_polygon(low).await;
        self.check_flat().await;
    }

    /// Checks the levels with this tolerance in wei below the exact amounts. Returns low's tip and max fee.
    fn check_levels(&self, levels: &ThreeLevels, tolerance: u128) -> [u128; 2] {
        let read = [levels.low, levels.medium, levels.high]
            .map(|level| [level.max_priority_fee_per_gas, level.max_fee_per_gas]);
        for (read, sent) in [(read[1], self.medium), (read[2], self.high)] {
            for (read, sent) in read.into_iter().zip(sent) {
                assert!(read <= sent && sent - read <= tolerance, "{}: {read} {sent}", self.number);
            }
        }
        let base_fee = levels.base_fee_per_gas;
        assert!(base_fee <= self.next_base_fee && self.next_base_fee - base_fee <= tolerance);
        assert!(read.is_sorted(), "{}: {read:?}", self.number);
        read[0]
    }

    /// Returns low's tip and max fee.
    async fn check_metamask(&self) -> [u128; 2] {
        let body = self.document("/networks/7/suggestedGasFees").await;
        let low = self.check_levels(&status::parse(&body).unwrap(), 1);
        let exact = komodo::parse_infura(&body).unwrap();
        let low_exact = self.check_levels(&exact.levels, 0);
        assert!(low.into_iter().zip(low_exact).all(|(read, sent)| sent - read <= 1));
        // Blockbook reads decimals as floats and drops what is below a wei.
        let fees = blockbook::parse(&body).unwrap();
        self.check_levels(&fees.levels, 1);
        assert!((0.0..=1.0).contains(&fees.network_congestion));
        for range in [
            &fees.latest_priority_fee_range,
            &fees.historical_priority_fee_range,
            &fees.historical_base_fee_range,
        ] {
            assert!(range.len() == 2 && range.is_sorted(), "{}: {range:?}", self.number);
        }
        let [low_base_fee, high_base_fee] = fees.historical_base_fee_range[..] else { panic!() };
        assert!(low_base_fee <= self.newest_base_fee && self.newest_base_fee - 1 <= high_base_fee);
        let waits = [exact.levels.low, exact.levels.medium, exact.levels.high]
            .map(|level| level.wait.unwrap());
        assert!(waits.iter().all(|(shortest, longest)| 0 < *shortest && shortest <= longest));
        assert!(waits.map(|(_, longest)| std::cmp::Reverse(longest)).is_sorted(), "{waits:?}");

        let prices: Value =
            serde_json::from_str(&self.document("/networks/7/gasPrices").await).unwrap();
        let names = ["SafeGasPrice", "ProposeGasPrice", "FastGasPrice"];
        assert_eq!(names.map(|name| gwei(prices[name].as_str().unwrap())), self.prices);
        low_exact
    }

    async fn check_etherscan(&self) {
        let body = self.document("/api?module=gastracker&action=gasoracle&chainid=7").await;
        let oracle = foundry::parse(&body).unwrap();
        let prices = [oracle.safe_gas_price, oracle.propose_gas_price, oracle.fast_gas_price];
        assert_eq!(prices, self.prices);
        assert!(prices.is_sorted());
        assert_eq!(
            (oracle.last_block, oracle.suggested_base_fee),
            (self.number, self.next_base_fee)
        );
        assert_eq!(oracle.gas_used_ratio, self.newest_ratios);
        let result = async |action: &str| {
            let body = self.document(&format!("/api?module=proxy&action={action}")).await;
            serde_json::from_str::<Value>(&body).unwrap()["result"].take()
        };
        let hex = |amount: u128| json!(format!("{amount:#x}"));
        assert_eq!(result("eth_gasPrice").await, hex(self.prices[1]));
        let block = result("eth_getBlockByNumber&tag=latest").await;
        let expected = json!({ "number": hex(self.number.into()), "baseFeePerGas": hex(self.newest_base_fee) });
        assert_eq!(block, expected);
    }

    async fn check_safe(&self, low: [u128; 2]) {
        let body = self.document("/compat/safe/7").await;
        let price = safe::parse(&body, "FastGasPrice", "1000000000").unwrap();
        let [max_priority_fee_per_gas, max_fee_per_gas] = self.high;
        let expected =
            safe::EstimatedGasPrice::Eip1559 { max_fee_per_gas, max_priority_fee_per_gas };
        assert_eq!(price, expected);
        let oracle = foundry::parse(&body).unwrap();
        let max_fees = [low[1], self.medium[1], self.high[1]];
        let prices = [oracle.safe_gas_price, oracle.propose_gas_price, oracle.fast_gas_price];
        assert_eq!((prices, oracle.suggested_base_fee), (max_fees, self.base_fee_per_gas));
    }

    async fn check_blocknative(&self, low: [u128; 2]) {
        let body = self.document("/gasprices/blockprices?chainid=7").await;
        // Komodo reads numbers through floats.
        self.check_levels(&komodo::parse_blocknative(&body).unwrap(), 1);
        let json: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json["blockPrices"][0]["blockNumber"], self.number + 1);
        let levels = json["blockPrices"][0]["estimatedPrices"].as_array().unwrap();
        let confidences: Vec<_> =
            levels.iter().map(|level| level["confidence"].as_u64().unwrap()).collect();
        assert!(confidences.is_sorted_by(|a, b| a >= b), "{confidences:?}");
        let expected = [self.high, self.medium, low].into_iter().zip(self.prices.into_iter().rev());
        let (_, text) = body.split_once("\"estimatedPrices\":").unwrap();
        let (text, _) = text.split_once(']').unwrap();
        let sent: Vec<_> = numbers(text).collect();
        for ((level, confidence), ([tip, max_fee], price)) in
            sent.chunks(4).zip(&confidences).zip(expected)
        {
            assert_eq!(level[0], confidence.to_string());
            assert_eq!(
                level[1..].iter().map(|text| gwei(text)).collect::<Vec<_>>(),
                [price, tip, max_fee]
            );
            if self.is_counted {
                let path = format!(
                    "/v1/a/inclusion?max_fee_per_gas={max_fee}&max_priority_fee_per_gas={tip}"
                );
                let counted = self.service.get(&path).await.json();
                let [enough, of] = ["enough_in", "of"].map(|name| counted[name].as_u64().unwrap());
                assert_eq!(*confidence, (100 * enough / of).clamp(1, 99), "{counted}");
            }
        }
    }

    async fn check_rrelayer(&self, low: [u128; 2]) {
        let fees = rrelayer::parse(&self.document("/compat/rrelayer/7").await).unwrap();
        let [slow, medium, fast, super_fast] = [fees.slow, fees.medium, fees.fast, fees.super_fast]
            .map(|level| [level.max_priority_fee_per_gas, level.max_fee_per_gas]);
        assert_eq!([slow, medium, fast], [low, self.medium, self.high]);
        let tip = self.high[0] * 12 / 10;
        assert_eq!(super_fast, [tip, self.base_fee_per_gas + tip]);
    }

    async fn check_polygon(&self, low: [u128; 2]) {
        let body = self.document("/compat/polygon/7/v2").await;
        let sent: Vec<_> = numbers(&body).collect();
        let fees: Vec<_> = sent[..7].iter().map(|text| gwei(text)).collect();
        let expected = [low, self.medium, self.high].concat();
        assert_eq!((&fees[..6], fees[6]), (&expected[..], self.next_base_fee), "{body}");
        assert_eq!(sent.last().unwrap(), &self.number.to_string());
    }

    async fn check_flat(&self) {
        let body = self.document("/compat/flat/7").await;
        let sent: Vec<_> = numbers(&body).map(gwei).collect();
        let [slow, standard, fast] = self.prices;
        assert_eq!(sent, [slow, standard, standard, fast, fast], "{body}");
        // Its reader rounds to two places of a gwei, and rejects what rounds to nothing.
        let hundredth = 10_000_000;
        if let Ok(read) = tokenbridge::parse(&body, "fast", 1.0, None) {
            assert!(read.abs_diff(fast) <= hundredth / 2, "{read} {fast}");
        } else {
            assert!(fast < hundredth, "{body}");
        }
    }
}

/// Returns the numbers of a JSON text, also those in strings of digits, in order.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
    let tokens = json.split([',', ':', '{', '}', '[', ']', '"']);
    tokens.filter(move |token| {
        token.starts_with(|first: char| first.is_ascii_digit() || first == '-')
            && token.chars().all(is_part)
    })
}
