//! Windows along recordings in every format: the documents equal the suggestion, as their readers understand it.

use std::time::{Duration, Instant};

use gas_suggestion::extras::demo::DemoRecording;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::formats::{self, Blocknative, EstimatedPrice, Etherscan, MetaMask, Rrelayer};
use crate::fixtures::{self, wei};
use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;

/// Blocks of the first window.
const WINDOW: usize = 20;

/// Blocks from one head to the next.
const STEP: usize = 10;

/// Every how many blocks the counts are compared with `/inclusion`.
const COUNTED_EVERY: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn every_document_equals_the_suggestion_along_recordings() {
    tokio::join!(
        replay("src/extras/demo/recordings/ethereum.json.gz"),
        replay("src/extras/demo/recordings/base.json.gz"),
        replay("tests/fixtures/recordings/polygon.json.gz"),
    );
}

/// Moves a node over the whole recording, and checks all documents at each head.
async fn replay(path: &str) {
    let recording = fixtures::recording(path);
    let count = recording.gas_used_ratio.len();
    let history = fixtures::recorded_history(&recording, count, &[60.0]);
    let node = MockNode::start(7, Reply::mined(&history, WINDOW)).await;
    let more = "block_time = \"10ms\"\njson_rpc = true\nanswer_fee_methods = true\n\
                pricing.base_fee_change_denominator = 8\npricing.check_base_fees = false";
    let started_at = Instant::now();
    let service = TestServer::start(&node.chain("a", more)).await;
    for mined in (WINDOW..=count).step_by(STEP) {
        node.set_reply(Reply::mined(&history, mined));
        let head = Head::read(&service, started_at, &recording, mined).await;
        assert!(head.prices.is_sorted(), "{}: {:?}", head.number, head.prices);
        head.check().await;
    }
    assert_eq!(count - WINDOW + 1, 1005);
    assert_eq!(service.get("/v1/a/fees").await.status, 200);
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
    low: [u128; 2],
    medium: [u128; 2],
    high: [u128; 2],
    /// Prices of one number of low, medium and high.
    prices: [u128; 3],
}

/// Converts gwei as text, exactly.
fn gwei(text: &str) -> u128 {
    formats::wei(text).unwrap()
}

impl<'a> Head<'a> {
    async fn read(
        service: &'a TestServer,
        started_at: Instant,
        recording: &DemoRecording,
        mined: usize,
    ) -> Self {
        let number = recording.oldest_block + mined as u64 - 1;
        let market = service.wait_for_block("/v1/a/fee-market", number).await.json();
        let suggestion = &market["suggestion"];
        let fees =
            |tier: &Value| [wei(&tier["max_priority_fee_per_gas"]), wei(&tier["max_fee_per_gas"])];
        let next_base_fee = wei(&market["next_base_fee_per_gas"]);
        // The blocks come faster than in steps of 5 s, so what they have risen by depends on the clock.
        let prices: Value = service.get("/networks/7/gasPrices").await.json();
        let prices = ["SafeGasPrice", "ProposeGasPrice", "FastGasPrice"]
            .map(|name| gwei(prices[name].as_str().unwrap()));
        // Before the rises of 20 steps of 5 s are known, the bound is at most twice the next base fee. No rise was higher than
        // that from the lowest base fee to the highest one.
        let base_fees = recording.base_fee_per_gas[..mined].iter().copied();
        let (lowest, highest) = (base_fees.clone().min().unwrap(), base_fees.max().unwrap());
        let highest = (next_base_fee * u128::from(highest)).div_ceil(lowest.into());
        let are_rises_known = started_at.elapsed() >= Duration::from_secs(20 * 5);
        let highest = if are_rises_known { highest } else { 0 }.max(2 * next_base_fee);
        for (name, price) in ["low", "medium", "high"].into_iter().zip(prices) {
            let expected = wei(&market["expected_price_per_gas"][name]);
            assert!(
                (expected..=expected.max(highest)).contains(&price),
                "{number} {name}: {market}"
            );
        }
        Self {
            service,
            number,
            is_counted: mined.is_multiple_of(COUNTED_EVERY),
            newest_base_fee: recording.base_fee_per_gas[mined - 1].into(),
            newest_ratios: recording.gas_used_ratio[mined - 5..mined].to_vec(),
            base_fee_per_gas: wei(&suggestion["base_fee_per_gas"]),
            next_base_fee,
            low: fees(&market["low"]),
            medium: fees(&suggestion["medium"]),
            high: fees(&suggestion["high"]),
            prices,
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

    async fn parsed<T: DeserializeOwned>(&self, path: &str) -> T {
        formats::parse(&self.document(path).await).unwrap()
    }

    async fn check(&self) {
        self.check_metamask().await;
        self.check_etherscan().await;
        self.check_safe().await;
        self.check_blocknative().await;
        self.check_rrelayer().await;
        self.check_polygon().await;
        self.check_flat().await;
    }

    async fn check_metamask(&self) {
        let fees: MetaMask = self.parsed("/networks/7/suggestedGasFees").await;
        let tiers = [self.low, self.medium, self.high];
        assert_eq!([fees.low.fees(), fees.medium.fees(), fees.high.fees()], tiers);
        assert!(tiers.is_sorted(), "{}: {tiers:?}", self.number);
        assert_eq!(fees.estimated_base_fee.0, self.next_base_fee);
        assert!((0.0..=1.0).contains(&fees.network_congestion));
        for range in [
            &fees.latest_priority_fee_range,
            &fees.historical_priority_fee_range,
            &fees.historical_base_fee_range,
        ] {
            assert!(range.len() == 2 && range.is_sorted(), "{}: {range:?}", self.number);
        }
        let base_fees = fees.historical_base_fee_range[0].0..=fees.historical_base_fee_range[1].0;
        assert!(base_fees.contains(&self.newest_base_fee), "{base_fees:?}");
        let levels = [fees.low, fees.medium, fees.high];
        assert!(levels.iter().all(|level| {
            0 < level.min_wait_time_estimate
                && level.min_wait_time_estimate <= level.max_wait_time_estimate
        }));
        let longest = levels.map(|level| level.max_wait_time_estimate);
        assert!(longest.is_sorted_by(|a, b| a >= b), "{longest:?}");
    }

    async fn check_etherscan(&self) {
        let path = "/api?module=gastracker&action=gasoracle&chainid=7";
        let oracle = self.parsed::<Etherscan>(path).await.result;
        assert_eq!(oracle.prices(), self.prices);
        let (block, base_fee) = (oracle.last_block, oracle.suggest_base_fee.0);
        assert_eq!((block, base_fee), (self.number, self.next_base_fee));
        assert_eq!(oracle.gas_used_ratio, self.newest_ratios);
        let result = async |action: &str| {
            self.parsed::<Value>(&format!("/api?module=proxy&action={action}")).await["result"]
                .take()
        };
        let hex = |amount: u128| json!(format!("{amount:#x}"));
        assert_eq!(result("eth_gasPrice").await, hex(self.prices[1]));
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}"#;
        let answer = self.service.post("/rpc/a", call).await.json();
        assert_eq!(answer["result"], hex(self.prices[1]));
        let block = result("eth_getBlockByNumber&tag=latest").await;
        let expected = json!({ "number": hex(self.number.into()), "baseFeePerGas": hex(self.newest_base_fee) });
        assert_eq!(block, expected);
    }

    async fn check_safe(&self) {
        let oracle = self.parsed::<Etherscan>("/compat/safe/7").await.result;
        assert_eq!(oracle.safe_fees(), Some(self.high));
        let max_fees = [self.low[1], self.medium[1], self.high[1]];
        assert_eq!((oracle.prices(), oracle.suggest_base_fee.0), (max_fees, self.base_fee_per_gas));
    }

    async fn check_blocknative(&self) {
        let Blocknative { block_prices: [block], .. } =
            self.parsed("/gasprices/blockprices?chainid=7").await;
        assert_eq!(u64::from(block.block_number), self.number + 1);
        assert_eq!(block.base_fee_per_gas.0, self.next_base_fee);
        let levels = block.levels().unwrap();
        assert!(levels.is_sorted_by(|a, b| a.confidence >= b.confidence), "{levels:?}");
        let fees = self.service.get("/v1/a/fees").await;
        if fees.status == 200 {
            self.check_levels(&block.estimated_prices, &fees.json());
            return;
        }
        let expected =
            [self.high, self.medium, self.low].into_iter().zip(self.prices.into_iter().rev());
        for (level, ([tip, max_fee], price)) in levels.into_iter().zip(expected) {
            let sent = [level.price.0, level.max_priority_fee_per_gas.0, level.max_fee_per_gas.0];
            assert_eq!(sent, [price, tip, max_fee]);
            if self.is_counted {
                let path = format!(
                    "/v1/a/inclusion?max_fee_per_gas={max_fee}&max_priority_fee_per_gas={tip}"
                );
                let counted = self.service.get(&path).await.json();
                let [enough, of] = ["enough_in", "of"].map(|name| counted[name].as_u64().unwrap());
                let confidence = (100 * enough / of).clamp(1, 99);
                assert_eq!(u64::from(level.confidence), confidence, "{counted}");
            }
        }
    }

    /// Checks the levels of a chain with 200 known blocks, whose fees for horizons are `fees`.
    fn check_levels(&self, levels: &[EstimatedPrice], fees: &Value) {
        let confidences: Vec<_> = levels.iter().map(|level| level.confidence).collect();
        assert_eq!(confidences, [99, 95, 90, 80, 70]);
        let tips: Vec<_> = levels.iter().map(|level| level.max_priority_fee_per_gas.0).collect();
        assert!(tips.is_sorted_by(|one, next| one >= next), "{tips:?}");
        let cells = fees["cells"].as_array().unwrap();
        let of_cells =
            [3, 2, 1].map(|column: usize| wei(&cells[column]["max_priority_fee_per_gas"]));
        assert_eq!([tips[0], tips[1], tips[3]], of_cells);
        for level in levels {
            let tip = level.max_priority_fee_per_gas.0;
            let tier =
                [self.low, self.medium, self.high].into_iter().find(|[known, _]| *known == tip);
            let max_fee = tier.map_or(2 * self.next_base_fee + tip, |[_, max_fee]| max_fee);
            assert_eq!(level.max_fee_per_gas.0, max_fee, "{tip}");
            let own = (self.next_base_fee + tip).min(max_fee);
            assert!((own..=own.max(self.prices[2])).contains(&level.price.0), "{tip}");
        }
    }

    async fn check_rrelayer(&self) {
        let fees: Rrelayer = self.parsed("/compat/rrelayer/7").await;
        let levels = [fees.slow, fees.medium, fees.fast].map(|level| level.fees());
        assert_eq!(levels, [self.low, self.medium, self.high]);
        let tip = self.high[0] * 12 / 10;
        assert_eq!(fees.super_fast.fees(), [tip, self.base_fee_per_gas + tip]);
    }

    async fn check_polygon(&self) {
        let body = self.document("/compat/polygon/7/v2").await;
        let sent: Vec<_> = numbers(&body).collect();
        let fees: Vec<_> = sent[..7].iter().map(|text| gwei(text)).collect();
        let expected = [self.low, self.medium, self.high].concat();
        assert_eq!((&fees[..6], fees[6]), (&expected[..], self.next_base_fee), "{body}");
        assert_eq!(sent.last().unwrap(), &self.number.to_string());
    }

    async fn check_flat(&self) {
        let body = self.document("/compat/flat/7").await;
        let sent: Vec<_> = numbers(&body).map(gwei).collect();
        let [slow, standard, fast] = self.prices;
        assert_eq!(sent, [slow, standard, standard, fast, fast], "{body}");
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
