//! Looks at the price of an alert's chain.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;

use super::message::AlertMessage;
use super::rule::{AlertRule, Sent};
use crate::assembly::{DayPrices, PriceLimit, SharedStates};
use crate::fees::Wei;
use crate::observe::clock;
use crate::store::{ServableSnapshot, StoredChain};

/// Watcher of one alert.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) chain: StoredChain,
    pub(super) limit: PriceLimit,
    pub(super) rule: AlertRule,
    /// Takes the newest message that is to be sent.
    pub(super) outbox: watch::Sender<Option<AlertMessage>>,
    pub(super) prices: Option<Arc<dyn DayPrices>>,
    /// States that replicas share, or that outlive this process; `None`: there are none.
    pub(super) shared: Option<Arc<dyn SharedStates>>,
    /// Name of the shared state.
    pub(super) name: String,
    /// The shared entry as it was seen last.
    pub(super) entry: String,
}

impl Watcher {
    /// Watches for ever.
    pub(super) async fn run(mut self) -> Infallible {
        let mut changes = self.chain.subscribe();
        self.chain.first_data().await;
        // The state that was sent before the start.
        self.share("").await;
        loop {
            changes.mark_unchanged();
            if let Ok(current) = self.chain.servable_snapshot()
                && !current.is_stale()
                && let Some(limit) = self.limit.wei(&self.chain, self.prices.as_deref())
            {
                self.look(limit, &current).await;
            }
            // The sender lives as long as the chain.
            let _ = changes.changed().await;
        }
    }

    /// Hands a message over if the price calls for one, unless another process sends it.
    async fn look(&mut self, limit: u128, current: &ServableSnapshot) {
        /// Each look but the last may find that another process has sent one.
        const LOOKS: usize = 3;
        let snapshot = &current.snapshot;
        let (price, is_doubted) = (snapshot.market.expected_price(), !snapshot.doubts.is_empty());
        for _ in 0..LOOKS {
            let sent = self.rule.look(price, limit, is_doubted, clock::now());
            let Some(sent) = sent else { return };
            if self.share(&sent.text()).await {
                self.rule.sent = Some(sent);
                let config = self.chain.config();
                let message = AlertMessage {
                    chain: config.key.clone(),
                    chain_name: config.name().to_owned(),
                    state: sent.state,
                    limit: Wei(limit),
                    price_per_gas: Wei(price),
                    newest_block: snapshot.newest_block,
                    observed_at: humantime::format_rfc3339_millis(snapshot.observed_time)
                        .to_string(),
                    doubts: snapshot.doubts.iter().map(|doubt| doubt.name()).collect(),
                    side: self.rule.side,
                };
                self.outbox.send_replace(Some(message));
                return;
            }
        }
    }

    /// Enters the state that is sent next, or only reads the last one if `text` is empty. Returns false if another process
    /// has sent one since, which the rule knows then. Without an answer this process decides alone.
    async fn share(&mut self, text: &str) -> bool {
        let Some(shared) = &self.shared else { return true };
        let Some(state) = shared.replace(&self.name, &self.entry, text).await else { return true };
        // An entry that is gone was not replaced by another process, and one that is older than what was sent while there was
        // no answer says nothing new.
        if let Some(sent) = Sent::parse(state.state(), clock::now().checked_sub(state.age))
            && self.rule.sent.is_none_or(|own| own.at <= sent.at)
        {
            self.rule.sent = Some(sent);
        }
        self.entry = state.entry;
        state.is_own
    }
}
