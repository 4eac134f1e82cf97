//! Prices of coins in dollars, from price feed contracts.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use alloy_primitives::hex;
use enum_map::EnumMap;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::chain_keys::{CostKeys, UsdFeed};
use super::confirmed::{Confirmed, Reading, is_near};
use super::dollars::CoinPrice;
use super::metrics::FeedOutcome;
use super::reader::{CONFIRM_AFTER, call};
use crate::extras::reads::{ReadNodes, abi};
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::Counter;
use crate::store::{ChainStore, PerChain, StoredChain};

/// Longest time between two reads.
const INTERVAL: Duration = Duration::from_mins(1);

const NO_FEED: ReadError = ReadError::Invalid("is not a price feed");

/// Prices of the coins of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct UsdPrices(PerChain<Coin>);

#[derive(Debug)]
struct Coin {
    /// `None`: none is read.
    feed: Option<UsdFeed>,
    /// `None`: the contract says no price.
    price: Mutex<Confirmed<Option<UsdPrice>>>,
}

/// Price of a coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsdPrice {
    pub(crate) price: CoinPrice,
    /// Time at which the contract was written.
    updated_at: SystemTime,
    /// The pair, the contract and its chain, for display.
    source: Arc<str>,
}

impl UsdPrice {
    /// Returns the price of a coin that is a dollar, as of now.
    fn one_dollar() -> Option<Self> {
        let price = CoinPrice::new(1, 0)?;
        Some(Self { price, updated_at: SystemTime::now(), source: "par".into() })
    }
}

impl Reading for UsdPrice {
    /// The price moves by at most a factor of 3, and the contract was not written earlier: a node that lags does not bring an
    /// older price back.
    fn follows(&self, earlier: &Self) -> bool {
        is_near(self.price.0, earlier.price.0) && self.updated_at >= earlier.updated_at
    }
}

impl UsdPrices {
    pub(super) fn new(store: &ChainStore, keys: &CostKeys) -> Self {
        Self(PerChain::new(store, |chain| {
            let par = keys.is_dollar(chain.config()).then(UsdPrice::one_dollar);
            let feed = keys.usd_feed(chain.config()).cloned();
            Coin { feed, price: Mutex::new(Confirmed::new(par)) }
        }))
    }

    /// Returns true if a price of the chain's coin is read.
    pub(super) fn has_feed(&self, chain: &StoredChain) -> bool {
        self.0.get(chain).feed.is_some()
    }

    /// Records what the feed said; `None`: nothing that is a price. Returns true if it should be read again soon.
    fn record(&self, chain: &StoredChain, read: Option<UsdPrice>) -> bool {
        self.0.get(chain).price.lock().record(read)
    }

    /// Returns the price of a chain's coin; `None`: it has no feed, or the feed's answer is too old.
    pub(crate) fn current(&self, chain: &StoredChain) -> Option<UsdPrice> {
        let Coin { feed, price } = self.0.get(chain);
        let known = price.lock().get()?.clone()?;
        let is_current =
            |feed: &UsdFeed| is_current(known.updated_at, feed.heartbeat, SystemTime::now());
        feed.as_ref().is_none_or(is_current).then_some(known)
    }

    /// Returns the time since the contract was written; `None`: no price was read.
    pub(super) fn age(&self, chain: &StoredChain) -> Option<Duration> {
        let known = self.0.get(chain).price.lock();
        Some(known.get()?.as_ref()?.updated_at.elapsed().unwrap_or_default())
    }
}

/// Returns true if an answer of this time is not older than its heartbeat and a tenth, because a feed is written a little
/// after its heartbeat. One from far ahead is none: it would never become old.
fn is_current(updated_at: SystemTime, heartbeat: Duration, now: SystemTime) -> bool {
    match now.duration_since(updated_at) {
        Ok(age) => age <= heartbeat.saturating_add(heartbeat / 10),
        Err(ahead) => ahead.duration() <= INTERVAL,
    }
}

/// Reader of the feed of one chain's coin.
#[derive(Debug)]
pub(super) struct FeedReader {
    /// The chain whose coin has a price.
    pub(super) chain: StoredChain,
    pub(super) feed: UsdFeed,
    /// The chain that has the contract, and its nodes.
    pub(super) at: (StoredChain, Arc<ReadNodes>),
    pub(super) prices: UsdPrices,
    pub(super) counters: EnumMap<FeedOutcome, Counter>,
    pub(super) log: LogOnChange,
}

/// Why there is no new price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadError {
    /// No node answered.
    Failed,
    /// The contract is not a feed of the pair, or its answer is no price.
    Invalid(&'static str),
}

impl FeedReader {
    /// Reads for ever, from the first data of the feed's chain on. Dropping the future ends a pending call.
    pub(super) async fn run(self) -> Infallible {
        self.log.changed_to(Ok(()));
        self.at.0.first_data().await;
        let mut is_of_pair = false;
        loop {
            let started = Instant::now();
            let read = self.read(&mut is_of_pair).await;
            // A feed that is written more often would be too old before the next read.
            let interval = INTERVAL.min(self.feed.heartbeat);
            let wait = if self.record(read) { CONFIRM_AFTER } else { interval };
            tokio::time::sleep_until(started + wait).await;
        }
    }

    /// Records a read. Returns true if the next one should come soon.
    fn record(&self, read: Result<UsdPrice, ReadError>) -> bool {
        let (chain, feed) = (self.chain.config().key.as_str(), address(&self.feed));
        match read {
            Ok(price) => {
                self.counters[FeedOutcome::Ok].increment();
                if self.log.changed_to(Ok(())) {
                    tracing::info!(chain, feed, "the price in dollars is read again");
                }
                self.prices.record(&self.chain, Some(price))
            }
            Err(ReadError::Failed) => {
                self.counters[FeedOutcome::Failed].increment();
                if self.log.changed_to(Err("failed")) {
                    tracing::info!(chain, feed, "cannot read the price in dollars");
                }
                false
            }
            Err(ReadError::Invalid(reason)) => {
                self.counters[FeedOutcome::Invalid].increment();
                if self.log.changed_to(Err(reason)) {
                    let message = "there is no price in dollars: the contract of usd_feed";
                    tracing::warn!(chain, feed, pair = self.feed.pair, "{message} {reason}");
                }
                self.prices.record(&self.chain, None)
            }
        }
    }

    /// Reads the price with its decimals, and the pair unless it was read.
    async fn read(&self, is_of_pair: &mut bool) -> Result<UsdPrice, ReadError> {
        if !*is_of_pair {
            let returned = self.call_contract("description()").await?;
            let pair = abi::text(&returned).ok_or(NO_FEED)?;
            if pair.trim() != self.feed.pair.trim() {
                return Err(ReadError::Invalid("is that of another pair"));
            }
            *is_of_pair = true;
        }
        let returned = self.call_contract("decimals()").await?;
        let decimals = abi::number(&returned, 0).and_then(|number| number.try_into().ok());
        let decimals = decimals.ok_or(NO_FEED)?;
        let round = self.call_contract("latestRoundData()").await?;
        // The second word of five is the answer, the fourth the time.
        let [answer, updated_at] = [32, 96].map(|at| abi::number(&round, at));
        let (answer, updated_at) = answer.zip(updated_at).ok_or(NO_FEED)?;
        // A negative answer is larger than any price.
        let answer = u128::try_from(answer).ok();
        let price = answer.and_then(|answer| CoinPrice::new(answer, decimals));
        let price = price.ok_or(ReadError::Invalid("does not say a price"))?;
        let written = u64::try_from(updated_at).ok().map(Duration::from_secs);
        let updated_at = written.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        let updated_at = updated_at.ok_or(ReadError::Invalid("does not say a time"))?;
        if !is_current(updated_at, self.feed.heartbeat, SystemTime::now()) {
            return Err(ReadError::Invalid("was not written within its heartbeat"));
        }
        let at = &self.at.0.config().key;
        let source = format!("{} at {} on {at}", self.feed.pair, address(&self.feed)).into();
        Ok(UsdPrice { price, updated_at, source })
    }

    /// Calls the contract. Returns what it returned.
    async fn call_contract(&self, signature: &str) -> Result<Vec<u8>, ReadError> {
        let data = hex::encode_prefixed(abi::call(signature, &[]));
        let params = json!([{ "to": address(&self.feed), "data": data }, "latest"]);
        let text: Option<String> = call(&self.at.1, "eth_call", params).await.ok().flatten();
        text.and_then(|text| hex::decode(text).ok()).ok_or(ReadError::Failed)
    }
}

/// Returns the address of the contract in lower case, as nodes write it.
fn address(feed: &UsdFeed) -> String {
    format!("{:#x}", feed.address)
}

/// Price of a coin in dollars.
#[derive(Serialize, ToSchema)]
pub(super) struct UsdPerCoin {
    /// Decimal number, with all digits of the feed.
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    price: String,
    /// Time at which the feed's contract was written; with `par` that of the service's start.
    #[schema(format = DateTime)]
    observed_at: String,
    /// The pair, the address of the contract, and the chain that has it; `par`: the coin is a dollar.
    source: String,
}

impl UsdPerCoin {
    pub(super) fn new(price: &UsdPrice) -> Self {
        Self {
            price: price.price.exact(),
            observed_at: humantime::format_rfc3339_seconds(price.updated_at).to_string(),
            source: price.source.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_current_for_its_heartbeat_and_a_tenth() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let heartbeat = Duration::from_secs(1000);
        let is_current_at = |time: u64| {
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
            is_current(written, heartbeat, now)
        };
        assert!(is_current_at(1_000_000) && is_current_at(998_900) && is_current_at(1_000_060));
        assert!(!is_current_at(998_899) && !is_current_at(1_000_061) && !is_current_at(0));
    }
}
