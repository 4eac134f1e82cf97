//! Looks at the price of an alert's chain.

use std::convert::Infallible;
use std::sync::Arc;

use super::delivery::Outbox;
use super::message::AlertMessage;
use super::rule::{AlertRule, AlertState};
use super::section::{Alert, Side};
use crate::assembly::{DayPrices, PriceLimit, SharedStates};
use crate::fees::Wei;
use crate::observe::clock;
use crate::store::{ServableSnapshot, StoredChain};

/// Watcher of one alert.
#[derive(Debug)]
pub(super) struct Watcher {
    chain: StoredChain,
    alert: Alert,
    side: Side,
    limit: PriceLimit,
    outbox: Outbox,
    prices: Option<Arc<dyn DayPrices>>,
    /// States that replicas share; `None`: this process tells alone.
    shared: Option<Arc<dyn SharedStates>>,
}

impl Watcher {
    pub(super) fn new(
        chain: StoredChain,
        alert: Alert,
        (side, limit): (Side, PriceLimit),
        outbox: Outbox,
        prices: Option<Arc<dyn DayPrices>>,
        shared: Option<Arc<dyn SharedStates>>,
    ) -> Self {
        Self { chain, alert, side, limit, outbox, prices, shared }
    }

    /// Watches for ever.
    pub(super) async fn run(self) -> Infallible {
        let mut rule = AlertRule::new(self.side, self.alert.repeat);
        let mut changes = self.chain.subscribe();
        loop {
            changes.mark_unchanged();
            if let Ok(current) = self.chain.servable_snapshot()
                && !current.is_stale()
                && let Some(limit) = self.limit()
            {
                let price = current.snapshot.market.expected_price();
                if let Some(state) = rule.look(price, limit, clock::now()) {
                    self.tell(state, limit, &current).await;
                }
            }
            // The sender lives as long as the chain.
            let _ = changes.changed().await;
        }
    }

    fn limit(&self) -> Option<u128> {
        self.limit.wei(&self.chain, self.prices.as_deref())
    }

    /// Hands the message over, unless another replica tells it.
    async fn tell(&self, state: AlertState, limit: u128, current: &ServableSnapshot) {
        let snapshot = &current.snapshot;
        if let Some(shared) = &self.shared {
            let name = self.alert.fingerprint();
            // Each replica looks a little later than the one that told last.
            let repeat = match state {
                AlertState::Reached => self.alert.repeat / 10 * 9,
                AlertState::Over => std::time::Duration::MAX,
            };
            let block = snapshot.newest_block;
            let is_first = shared.enter(&name, state.name(), block, repeat).await;
            if is_first == Some(false) {
                return;
            }
        }
        let config = self.chain.config();
        self.outbox.send(AlertMessage {
            chain: config.key.clone(),
            chain_name: config.name().to_owned(),
            state,
            limit: Wei(limit),
            price_per_gas: Wei(snapshot.market.expected_price()),
            newest_block: snapshot.newest_block,
            observed_at: humantime::format_rfc3339_millis(snapshot.observed_time).to_string(),
            side: self.side,
        });
    }
}
