//! Invariants for arbitrary input bytes: node replies, configuration files, client requests.
//!
//! Each function takes one input and panics if an invariant is violated. The fuzz targets search for such
//! inputs; the integration tests run the functions on the corpus.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use gas_suggestion::api::App;
use gas_suggestion::config::{Chain, Config};
use gas_suggestion::extras::sections;
use gas_suggestion::fees::{
    self, BaseFeeStep, Block, ChainParameters, FeeHistory, Market, Pricing, PricingError,
    PricingType, Rewards, SinglePrices, Suggestion,
};
use gas_suggestion::nodes as upstream;
use gas_suggestion::nodes::FeeHistoryRequest;
use gas_suggestion::server;
use gas_suggestion::store::{Accepted, Publisher};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

/// JSON-RPC id of the call.
const ID: u64 = 7;

fn chain_with(pricing: &str) -> Chain {
    let text = format!(
        "[chains.test]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.test.pricing]\n{pricing}"
    );
    let config = Config::from_toml(&text, &sections()).expect("the pricing can be read");
    config.chains.into_iter().next().expect("a configuration has a chain")
}

/// Fuzzes a node's reply, from parsing to the price.
pub fn reply(data: &[u8]) {
    const PRICINGS: [&str; 6] = [
        "",
        "base_fee_floor = \"0 wei\"\npriority_fee_floor = \"0 wei\"",
        "reward_percentiles = [60, 100]",
        "reward_percentiles = [60, 100]\nbase_fee_floor = \"0 wei\"\npriority_fee_floor = \"0 wei\"",
        "window_blocks = 3\nzero_base_fee = \"eip-1559\"\nhigh_multiplier = 1000",
        "window_blocks = 1\npriority_fee_floor = \"340282366920938463463374607431768211455 wei\"\n\
         max_priority_fee = \"340282366920938463463374607431768211455 wei\"",
    ];
    static ALL: LazyLock<Vec<Pricing>> =
        LazyLock::new(|| PRICINGS.iter().map(|text| chain_with(text).pricing).collect());

    let Ok(result) = upstream::parse_reply(data, 200, ID) else { return };
    for pricing in &*ALL {
        if let Ok(history) = FeeHistoryRequest::new(pricing).parse(&result) {
            check_history(&history, &result, pricing);
            check_price(&history, pricing);
        }
    }
}

/// Checks that each block has the reply's values for its number, and that the newest blocks are kept.
fn check_history(history: &FeeHistory, result: &RawValue, pricing: &Pricing) {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(result.get()).expect("a fee history is an object");
    let column = |name| members.get(name).map(|json| elements(json)).unwrap_or_default();
    let (base_fees, ratios, rows) =
        (column("baseFeePerGas"), column("gasUsedRatio"), column("reward"));

    let blocks = history.blocks().len();
    assert!((1..=pricing.window_blocks.get()).contains(&blocks), "{blocks} blocks");
    let above_oldest = history.newest_block() - history.oldest_block();
    assert_eq!(usize::try_from(above_oldest), Ok(blocks - 1));
    let first = members.get("oldestBlock").and_then(|json| quantity(json));
    let first = first.expect("the first block has a number");
    let skipped = u128::from(history.oldest_block()).checked_sub(first);
    let skipped = skipped.and_then(|count| usize::try_from(count).ok());
    let skipped = skipped.expect("no block lies below the first");
    let mined = skipped + blocks;
    assert!(mined == base_fees.len() || mined + 1 == base_fees.len(), "the newest blocks count");
    let next = base_fees.get(mined).and_then(|json| quantity(json));
    assert_eq!(history.next_base_fee, next);

    for (block, index) in history.blocks().iter().zip(skipped..) {
        assert_eq!(Some(block.base_fee), quantity(base_fees[index]), "block {index}");
        let ratio = ratios.get(index).and_then(|json| json.get().parse::<f64>().ok());
        assert_eq!(block.gas_used_ratio, ratio.filter(|ratio| (0.0..=1.0).contains(ratio)));
        let columns = pricing.percentiles().iter().count();
        let row = rows.get(index).map(|row| elements(row)).unwrap_or_default();
        let row = row.get(..columns).map(|row| row.iter().map(|json| quantity(json)));
        let expected = row.and_then(Iterator::collect::<Option<Vec<_>>>).map(|row| {
            let mut rewards = Rewards::default();
            rewards[..columns].copy_from_slice(&row);
            rewards
        });
        assert_eq!(block.rewards, expected, "block {index}: missing rewards are not counted");
    }
}

fn elements(json: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(json.get()).unwrap_or_default()
}

/// Parses an integer of at most 128 bits: a hexadecimal string or a JSON integer.
fn quantity(json: &RawValue) -> Option<u128> {
    let json = json.get();
    let hex = json.strip_prefix("\"0x").and_then(|rest| rest.strip_suffix('"'));
    let (digits, radix) = hex.map_or((json, 10), |hex| (hex, 16));
    let append = |number: u128, digit: char| {
        number.checked_mul(radix.into())?.checked_add(digit.to_digit(radix)?.into())
    };
    digits.chars().try_fold(0, append).filter(|_| !digits.is_empty())
}

/// Checks a price against the network's rules (section 2.3 of the network document), or the reason for its absence.
fn check_price(history: &FeeHistory, pricing: &Pricing) {
    let blocks = history.blocks();
    let usable: Vec<Rewards> = blocks.iter().filter_map(|block| block.rewards).collect();
    match fees::price(history, &[], pricing, &ChainParameters::from_pricing(pricing)) {
        Ok(market) => {
            check_averages(&market, blocks, pricing);
            check_suggestion(&market, history, pricing);
        }
        Err(PricingError::NoRewards) => {
            assert!(usable.is_empty() && pricing.priority_fee_floor == 1);
        }
        Err(error) => {
            let rewards = usable.iter().flatten().copied();
            let amounts = blocks.iter().map(|block| block.base_fee).chain(rewards);
            let amounts = amounts.chain(history.next_base_fee).chain([pricing.priority_fee_floor]);
            // Smaller amounts stay within it, even summed over 20 blocks and multiplied by 1,000.
            let limit = match error {
                PricingError::AboveMaximum => {
                    pricing.max_base_fee.min(pricing.max_priority_fee) / 1000
                }
                _ => u128::MAX >> 40,
            };
            assert!(amounts.max() > Some(limit), "no amount is near the limit");
        }
    }
}

fn check_averages(market: &Market, blocks: &[Block], pricing: &Pricing) {
    let is_between = |average: u128, amounts: &[u128]| {
        amounts.iter().min() <= Some(&average) && Some(&average) <= amounts.iter().max()
    };
    let base_fees: Vec<u128> = blocks.iter().map(|block| block.base_fee).collect();
    assert!(is_between(market.average_base_fee, &base_fees), "{market:?}");
    let Some(average) = market.average_reward else {
        assert!(blocks.iter().all(|block| block.rewards.is_none()), "{market:?}");
        return;
    };
    let column = |column| blocks.iter().filter_map(move |block| block.reward(column));
    let high = pricing.percentiles().has_high().then_some(1);
    let mediums: Vec<u128> = column(0).collect();
    assert!(is_between(average.medium, &mediums), "{market:?}");
    let highs: Vec<u128> = high.into_iter().flat_map(column).collect();
    assert_eq!(average.high.is_some(), !highs.is_empty());
    assert!(average.high.is_none_or(|high| is_between(high, &highs)), "{market:?}");
    for ratio in [market.gas_used_ratio.latest, market.gas_used_ratio.average] {
        assert!(ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)), "{market:?}");
    }
}

fn check_suggestion(market: &Market, history: &FeeHistory, pricing: &Pricing) {
    let Suggestion { pricing_type, base_fee_per_gas, tiers } = market.suggestion;
    let is_legacy =
        history.newest_known_base_fee() == 0 && pricing.zero_base_fee == PricingType::Legacy;
    assert_eq!(pricing_type == PricingType::Legacy, is_legacy);
    let base_fee = market.average_base_fee.max(pricing.base_fee_floor);
    let base_fee = if is_legacy { Some(0) } else { pricing.base_fee_multiplier.apply(base_fee) };
    assert_eq!(Some(base_fee_per_gas), base_fee);
    for tier in tiers.into_array() {
        let sum = base_fee_per_gas.checked_add(tier.max_priority_fee_per_gas);
        assert_eq!(Some(tier.max_fee_per_gas), sum);
    }

    let floor = pricing.priority_fee_floor;
    let average = market.average_reward.map(|rewards| rewards.medium);
    let tips = tiers.map(|tier| tier.max_priority_fee_per_gas);
    assert_eq!(tips.medium, average.unwrap_or(floor).max(floor));
    assert!(tips.low > 0, "a tip of 0");
    assert!(tips.into_array().is_sorted(), "{market:?}");
    let is_floor = floor > 1 && average.is_none_or(|average| average < floor);
    assert_eq!(market.floors_applied.priority_fee, is_floor);
    let covered = market.covers_full_blocks;
    assert!(covered.medium <= covered.high && covered.high.is_none_or(|most| most <= 100));
    let steps: Vec<_> =
        history.blocks().iter().map(|block| BaseFeeStep::from_base_fee(block.base_fee)).collect();
    let prices = SinglePrices::new(market, &steps, Duration::from_secs(12));
    assert!(prices.tiers.into_array().is_sorted(), "{prices:?}");
    assert!(prices.tiers.low >= market.newest_known_base_fee, "{prices:?}");
    assert!(prices.tiers.medium >= market.expected_price(), "{prices:?}");
}

/// Fuzzes a JSON-RPC response body, and JSON as each of its members.
pub fn envelope(data: &[u8]) {
    const STATUSES: [u16; 12] = [200, 201, 204, 301, 400, 401, 403, 404, 429, 500, 503, 599];
    let result_of_200 = upstream::parse_reply(data, 200, ID).ok();
    for status in STATUSES {
        let result = match upstream::parse_reply(data, status, ID) {
            Ok(result) => result,
            Err(error) => {
                let is_expected = status != 429 || matches!(error, upstream::Error::RateLimited(_));
                assert!(is_expected, "429 gives {error}");
                assert!(result_of_200.is_none(), "{status} refuses a result");
                continue;
            }
        };
        let result_of_200 = result_of_200.as_ref().map(|result| result.get());
        assert_eq!(Some(result.get()), result_of_200, "{status} changes a result");
        check_result(data, &result);
        assert!(upstream::parse_reply(data, status, ID + 1).is_err(), "one response to two calls");
    }
    let Ok(text) = str::from_utf8(data) else { return };
    if serde_json::from_str::<IgnoredAny>(text).is_ok() {
        check_members(text.trim_matches([' ', '\t', '\r', '\n']));
    }
}

/// Checks that an accepted result is JSON and equals the `result` member of the body, or of its only element.
fn check_result(body: &[u8], result: &RawValue) {
    assert!(serde_json::from_str::<IgnoredAny>(result.get()).is_ok(), "{result}");
    assert_ne!(result.get(), "null");
    let body =
        serde_json::from_slice::<[&RawValue; 1]>(body).map_or(body, |[it]| it.get().as_bytes());
    let is_object = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
    assert!(is_object, "a response is an object, or an array of one");
    // The parser also accepts a body with a bare `NaN`, which is not JSON, and reads it as null.
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else { return };
    let member = |name: &str| members.get(name).map(|json| json.get());
    assert!(member("id").is_some_and(is_id));
    assert_eq!(member("result"), Some(result.get()));
    assert!(member("error").is_none_or(|error| error == "null"), "an error is no result");
}

/// Checks `json` as a result, as an error beside a result, and as an id.
fn check_members(json: &str) {
    let read = |body: String| upstream::parse_reply(body.as_bytes(), 200, ID);
    let result = read(format!("{{\"id\":{ID},\"result\":{json}}}")).ok();
    let expected = (json != "null").then_some(json);
    assert_eq!(result.as_ref().map(|result| result.get()), expected);
    let failed = read(format!("{{\"id\":{ID},\"result\":1,\"error\":{json}}}"));
    assert_eq!(failed.is_err(), json != "null", "an error beside a result: {json}");
    let response = read(format!("{{\"id\":{json},\"result\":1}}"));
    assert_eq!(response.is_ok(), is_id(json), "the id {json}");
}

/// Returns true for the id as nodes spell it.
fn is_id(json: &str) -> bool {
    [format!("{ID}"), format!("{ID}.0"), format!("\"{ID}\""), format!("\"{ID}.0\"")]
        .iter()
        .any(|spelled| spelled == json)
}

/// Fuzzes a configuration text in which `@1` and `@2` stand for URLs with a secret.
pub fn config(data: &[u8]) {
    /// Limit of the parsing time, a thousand times that of regular configurations.
    const TIME_LIMIT: Duration = Duration::from_secs(5);
    const SECRET: &str = "CANARY";
    let Ok(text) = str::from_utf8(data) else { return };
    if text.contains(SECRET) {
        return;
    }
    let text = text.replace("@1", "http://h/CANARY").replace(
        "@2",
        "https://CANARY:xCANARY@a.CANARY.b/v2.CANARY.c/CANARY?a.CANARY.b=CANARY&CANARY#CANARY",
    );
    let began = Instant::now();
    let outcome = Config::from_toml(&text, &sections());
    let elapsed = began.elapsed();
    assert!(elapsed < TIME_LIMIT, "took {elapsed:?}");
    match outcome {
        Ok(config) => check_config(&config, SECRET),
        Err(error) => {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(SECRET), "{text}");
        }
    }
}

/// Checks that an accepted configuration is within its documented bounds.
fn check_config(config: &Config, secret: &str) {
    let path = &config.server.base_path;
    assert!(path.is_empty() || (path.starts_with('/') && !path.ends_with('/')), "{path}");
    assert!(!path.contains("//") && Uri::try_from(format!("{path}/livez")).is_ok(), "{path}");
    assert!(config.notes.iter().all(|note| !note.contains(secret)));

    let upstreams = format!("{config:?}");
    assert!(!upstreams.contains(secret));
    assert!(!config.chains.is_empty());
    assert!(config.chains.is_sorted_by(|one, next| one.chain_id < next.chain_id));
    for chain in &config.chains {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        assert!(chain.key.bytes().all(is_plain) && chain.key.parse::<u128>().is_err());
        assert!(chain.chain_id > 0 && !chain.name().trim().is_empty());
        assert!(!chain.rpc_urls.is_empty());
        for url in &chain.rpc_urls {
            assert!(
                matches!(url.url().expose().scheme(), "http" | "https")
                    && url.url().expose().has_host()
            );
        }
        assert!(!format!("{:?}", chain.rpc_urls).contains(secret));

        let hour = Duration::from_hours(1);
        assert!((Duration::from_millis(10)..=hour).contains(&chain.block_time));
        let flashblock = chain.flashblock_time.unwrap_or(chain.block_time);
        assert!(!flashblock.is_zero() && flashblock <= chain.block_time);
        let stale_after = chain.stale_after(chain.block_time);
        assert!(stale_after >= Duration::from_secs(2).max(chain.block_time * 2));
        assert!(chain.max_age > stale_after);
        assert!(chain.stall_after(chain.block_time).is_none_or(|after| after >= chain.block_time));
        assert!(chain.history_blocks.get() <= 65_536);
        check_pricing(&chain.pricing);
    }
}

fn check_pricing(pricing: &Pricing) {
    assert!(pricing.window_blocks.get() <= 1024);
    let percentiles: Vec<f64> = pricing.percentiles().iter().collect();
    assert!(matches!(percentiles.len(), 1 | 2) && percentiles.is_sorted());
    assert!(percentiles.iter().all(|percentile| *percentile > 0.0 && *percentile <= 100.0));
    for multiplier in [pricing.base_fee_multiplier, pricing.high_multiplier] {
        let million = multiplier.apply(1_000_000).expect("a billion fits");
        assert!((1_000_000..=1_000_000_000).contains(&million), "{multiplier:?}");
    }
}

static HARNESS: LazyLock<Harness> = LazyLock::new(Harness::new);

/// Fuzzes a body of the JSON-RPC route of a chain whose only node is unreachable.
pub fn call(data: &[u8]) {
    let response = HARNESS.runtime.block_on(async {
        let request = Request::post("/rpc/ronin").header(header::HOST, "a");
        let request = request.body(Body::from(data.to_vec())).expect("a request");
        let (parts, body) = HARNESS.at_root.respond(request).await.into_parts();
        (parts, axum::body::to_bytes(body, usize::MAX).await.expect("a body from memory is whole"))
    });
    match response.0.status {
        StatusCode::PAYLOAD_TOO_LARGE => assert!(data.len() > 256 * 1024),
        status => check_calls(data, status, &response.1),
    }
}

/// Returns the members of an object as raw JSON, because a number may be too large for `Value`.
fn raw_members(json: &RawValue) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(json.get()).unwrap_or_default()
}

/// Checks that each call has a response, in order and with its id: an error, because no node is reachable, or a result of
/// the service's own.
fn check_calls(request_body: &[u8], status: StatusCode, response: &[u8]) {
    const MAX_BATCH: usize = 100;
    let is_batch = request_body.trim_ascii_start().starts_with(b"[");
    let members: Option<Vec<&RawValue>> = if is_batch {
        serde_json::from_slice(request_body).ok()
    } else {
        serde_json::from_slice(request_body).map(|member| vec![member]).ok()
    };
    let id = |member: &&RawValue| raw_members(member).get("id").map(|id| id.get().to_owned());
    let mut request_ids = members.iter().flatten().map(id).collect::<Vec<_>>().into_iter();
    if status == StatusCode::NO_CONTENT {
        assert!(response.is_empty() && request_ids.len() > 0 && request_ids.all(|id| id.is_none()));
        return;
    }
    assert_eq!(status, StatusCode::OK);
    let response: &RawValue = serde_json::from_slice(response).expect("a response is JSON");
    let responses: Vec<&RawValue> = match (response.get().starts_with('['), &members) {
        (true, Some(members)) => {
            assert!(is_batch && !members.is_empty());
            let responses: Vec<&RawValue> =
                serde_json::from_str(response.get()).expect("the response to a batch is an array");
            assert!((1..=members.len()).contains(&responses.len()));
            responses
        }
        (_, members) => {
            let is_whole = members.as_ref().is_some_and(|members| !is_batch && members.len() == 1);
            assert!(is_whole || raw_members(response)["id"].get() == "null", "{response}");
            vec![response]
        }
    };
    let is_too_long = is_batch && members.as_ref().is_some_and(|members| members.len() > MAX_BATCH);
    for response in responses {
        let response = raw_members(response);
        let id = response["id"].get();
        let is_requested = |call_id: Option<String>| call_id.as_deref() == Some(id);
        assert!(id == "null" || request_ids.any(is_requested), "{response:?}");
        assert_eq!(response["jsonrpc"].get(), "\"2.0\"");
        if let Some(result) = response.get("result").map(|result| result.get()) {
            let is_own = result == "[]" || result.starts_with("\"gas-suggestion/");
            assert!(is_own && response.len() == 3 && !is_too_long, "{response:?}");
            continue;
        }
        let names: Vec<_> = response.keys().collect();
        assert_eq!(names, ["error", "id", "jsonrpc"], "{response:?}");
        let error: Value = serde_json::from_str(response["error"].get()).expect("our own");
        assert!(error["message"].is_string(), "{response:?}");
        let code = error["code"].as_i64().expect("a code");
        assert!([-32700, -32600, -32601, -32602, -32002, -32005].contains(&code), "{response:?}");
        assert_eq!(code == -32700, members.is_none(), "{response:?}");
        assert!(code == -32600 || !is_too_long, "{response:?}");
    }
}

/// Fuzzes a request in HTTP/1.1 syntax: request line, headers, an empty line, body.
pub fn request(data: &[u8]) {
    let harness = &*HARNESS;
    for app in [&harness.at_root, &harness.at_base_path] {
        let Some(request) = read_request(data) else { return };
        let (request_parts, body) = request.into_parts();
        let (parts_to_send, sent_body) = (request_parts.clone(), body.clone());
        let response = harness.runtime.block_on(async {
            let request = Request::from_parts(parts_to_send, Body::from(body));
            let (parts, body) = app.respond(request).await.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await;
            (parts, body.expect("a body from memory is whole"))
        });
        let is_success = response.0.status.is_success();
        if request_parts.method == Method::POST && is_success {
            check_calls(&sent_body, response.0.status, &response.1);
        } else {
            check_response(harness, &request_parts, &response.0, &response.1);
        }
    }
}

/// The public routes at the root and, with stricter CORS, below a base path; one chain has data, one has none.
struct Harness {
    runtime: Runtime,
    at_root: App,
    at_base_path: App,
    published: Vec<u8>,
}

/// Publishes a block. Returns the body of its suggestion.
fn publish_block(publisher: &mut Publisher) -> Vec<u8> {
    let chain = publisher.chain().clone();
    let rewards = Some([7_000_000_000, 0]);
    let block = Block { base_fee: 1_000_000_000, gas_used_ratio: Some(0.5), rewards };
    let history = FeeHistory::new(981, vec![block; 20], Some(1_000_000_000));
    let history = history.expect("there are blocks");
    let pricing = &chain.config().pricing;
    let parameters = ChainParameters::from_pricing(pricing);
    let market = fees::price(&history, &[], pricing, &parameters).expect("they have a price");
    publisher.publish(Accepted::now(&history, market));
    chain.servable_snapshot().expect("it was published").snapshot.body.to_vec()
}

impl Harness {
    const BASE_PATH: &str = "/proxy/public";

    fn new() -> Self {
        let chains = "[chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n\
             block_time = \"1h\"\nmax_age = \"1year\"\n\
             [chains.ill]\nchain_id = 10\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n\
             [verification]\nurl = \"http://127.0.0.1:9/server\"\n\
             [delegation]\napi_url = \"http://127.0.0.1:9\"\n";
        let at_base_path = format!(
            "[server]\nbase_path = \"{}\"\n[cors]\nallowed_origins = [\"https://app.example\"]\n",
            Self::BASE_PATH
        );
        let config = |more: &str| {
            Config::from_toml(&format!("{more}{chains}"), &sections())
                .expect("the configuration can be read")
        };
        let (at_root, at_base_path) = (config(""), config(&at_base_path));
        // The service is shutting down, so that streams end after their first event.
        let stop = tokio_util::sync::CancellationToken::new();
        stop.cancel();
        let mut published = Vec::new();
        let mut app = |config: &Config| {
            let publish = |publishers: &mut [Publisher]| {
                for publisher in publishers {
                    if publisher.chain().config().key == "ronin" {
                        published = publish_block(publisher);
                    }
                }
            };
            server::public_app(config, publish, stop.clone()).expect("TLS is there")
        };
        let (at_root, at_base_path) = (app(&at_root), app(&at_base_path));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { runtime: runtime.expect("a runtime starts"), at_root, at_base_path, published }
    }
}

/// Parses a request; `None` if an HTTP library would reject it.
fn read_request(data: &[u8]) -> Option<Request<Vec<u8>>> {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let mut request = Request::new(Vec::new());
    *request.method_mut() = Method::from_bytes(words.next()?).ok()?;
    *request.uri_mut() = Uri::try_from(words.next()?).ok()?;
    if words.next() == Some(b"HTTP/1.0") {
        *request.version_mut() = Version::HTTP_10;
    }
    let headers = request.headers_mut();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
        headers.try_append(HeaderName::from_bytes(name).ok()?, value).ok()?;
    }
    *request.body_mut() = lines.collect::<Vec<_>>().join(&b'\n');
    Some(request)
}

fn check_response(
    harness: &Harness,
    request_parts: &axum::http::request::Parts,
    response: &axum::http::response::Parts,
    body: &[u8],
) {
    let header = |name: &str| response.headers.get(name).map(HeaderValue::as_bytes);
    let id = header("x-request-id").expect("every response has a request id");
    assert!((1..=64).contains(&id.len()) && id.is_ascii(), "{response:?}");
    assert_eq!(response.headers.get_all("x-request-id").iter().count(), 1, "{response:?}");
    assert!(
        response.headers.contains_key(header::ACCESS_CONTROL_EXPOSE_HEADERS)
            || request_parts.method == Method::OPTIONS
    );
    if response.status.is_client_error() || response.status.is_server_error() {
        return check_problem(response.status, header("content-type"), id, body);
    }
    match response.status {
        StatusCode::NOT_MODIFIED => {
            assert!(request_parts.headers.contains_key(header::IF_NONE_MATCH) && body.is_empty());
            assert!(response.headers.contains_key(header::ETAG));
        }
        StatusCode::OK if request_parts.method == Method::OPTIONS => assert!(body.is_empty()),
        StatusCode::OK if request_parts.method == Method::HEAD => {}
        StatusCode::PERMANENT_REDIRECT => {
            let path = request_parts.uri.path();
            let query = request_parts.uri.query();
            let page = match path.strip_suffix('/').and_then(|path| path.rsplit_once('/')) {
                None => "public/".to_owned(),
                // The pages' own redirects have no query.
                Some((_, page @ ("verify" | "docs"))) => format!("../{page}"),
                Some((_, name)) => {
                    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
                    format!("../{name}{query}")
                }
            };
            assert_eq!((header("location"), body), (Some(page.as_bytes()), b"".as_slice()));
        }
        StatusCode::OK if header("content-security-policy").is_some() => {
            assert_eq!(request_parts.method, Method::GET);
            let path = request_parts.uri.path().trim_start_matches(Harness::BASE_PATH);
            let is_page = ["/", "/base.css", "/verify"].contains(&path);
            let is_part = ["/dashboard/", "/verify/"].iter().any(|folder| path.starts_with(folder));
            assert!(is_page || is_part, "{}", request_parts.uri);
            let content_type = header("content-type").expect("a page has a type");
            let is_html = content_type.starts_with(b"text/html");
            assert_eq!(is_html, body.starts_with(b"<!doctype html>"), "{}", request_parts.uri);
            assert!(response.headers.contains_key(header::ETAG));
        }
        StatusCode::OK if request_parts.uri.path().ends_with("/stream") => {
            assert_eq!(header("content-type"), Some(b"text/event-stream".as_slice()));
            assert!(body.starts_with(b"retry: ") && body.ends_with(b"\n\n"));
            let has_value =
                body.windows(harness.published.len()).any(|part| part == harness.published);
            assert!(
                has_value || request_parts.headers.contains_key("last-event-id"),
                "{}",
                request_parts.uri
            );
        }
        StatusCode::OK if request_parts.uri.path().ends_with("/badge.svg") => {
            assert_eq!(header("content-type"), Some(b"image/svg+xml".as_slice()));
            assert!(body.starts_with(b"<svg ") && body.ends_with(b"</svg>\n"));
            assert!(response.headers.contains_key(header::ETAG));
        }
        StatusCode::OK => {
            assert_eq!(request_parts.method, Method::GET);
            assert_eq!(header("content-type"), Some(b"application/json".as_slice()));
            assert!(response.headers.contains_key(header::CACHE_CONTROL));
            assert!(serde_json::from_slice::<Value>(body).is_ok(), "{}", body.escape_ascii());
            if request_parts.uri.path().ends_with("/gas-suggestion") {
                assert_eq!(body, harness.published, "{}", request_parts.uri);
                assert!(response.headers.contains_key(header::ETAG));
            }
            if request_parts.uri.path().ends_with("/gas-suggestions") {
                assert_eq!(body, [b"[", harness.published.as_slice(), b"]"].concat());
            }
        }
        // No preflight: a health check by the methods of a path.
        StatusCode::NO_CONTENT if request_parts.method == Method::OPTIONS => {
            assert!(header("allow").is_some_and(|allow| allow.ends_with(b",OPTIONS")));
            assert!(body.is_empty());
        }
        status => panic!("{status} for {} {}", request_parts.method, request_parts.uri),
    }
}

/// Returns the documented problem codes of a status.
fn codes(status: StatusCode) -> &'static [&'static str] {
    match status.as_u16() {
        400 => &["bad_request", "invalid_parameter"],
        404 => &["not_found", "unknown_chain"],
        405 => &["method_not_allowed"],
        408 => &["request_timeout"],
        413 => &["payload_too_large"],
        414 => &["uri_too_long"],
        415 => &["unsupported_media_type"],
        429 => &["rate_limited"],
        431 => &["headers_too_large"],
        502 => &["upstream_unreachable"],
        503 => &["no_data", "stale_data", "overloaded", "not_ready"],
        _ => &[],
    }
}

fn check_problem(status: StatusCode, content_type: Option<&[u8]>, id: &[u8], body: &[u8]) {
    assert_eq!(content_type, Some(b"application/problem+json".as_slice()), "{status}");
    let problem: Value = serde_json::from_slice(body).expect("a problem is JSON");
    let names: Vec<_> = problem.as_object().expect("a problem is an object").keys().collect();
    assert_eq!(names, ["code", "detail", "request_id", "status", "title", "type"]);
    assert_eq!(problem["status"], status.as_u16());
    let code = problem["code"].as_str().unwrap_or_default();
    assert!(codes(status).contains(&code), "{status} with {code:?}");
    assert_eq!(problem["request_id"].as_str().map(str::as_bytes), Some(id));
}
