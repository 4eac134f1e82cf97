//! Webhooks that tell when gas becomes cheap or dear.
//!
//! A task for each alert looks at what is published. A stale price changes nothing. Another task sends: it repeats a failed
//! request for ten minutes, unless the state has changed meanwhile. The state that was sent last is a shared one: with Redis
//! one replica sends each change, and with a history database a restart repeats none. It is entered before the webhook is sent, so a
//! process that ends while it repeats a request loses that webhook.

mod delivery;
mod message;
mod metrics;
mod rule;
mod secret_file;
mod section;
mod watcher;

use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;

use crate::assembly::{Assembly, Extra, SharedStates};
use crate::observe::http_client;
use crate::observe::metrics::chain_counters;
use delivery::Delivery;
use metrics::AlertMetrics;
use rule::AlertRule;
use section::Alerts;
use watcher::Watcher;

pub(crate) const EXTRA: Extra =
    Extra { name: "alerts", sections: &[Alerts::SECTION], command: None, join };

/// Watches the price of each alert's chain.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let metrics = assembly.metrics.set::<AlertMetrics>();
    let Alerts(alerts) = assembly.config.section();
    if alerts.is_empty() || assembly.config.has_recorded_chains {
        return Ok(());
    }
    let client = http_client::builder(&assembly.config.upstream);
    let client = client.and_then(|client| client.timeout(delivery::TIMEOUT).build());
    let client = client.context("cannot set up the client of webhooks")?;
    let prices = assembly.day_prices.clone();
    let shared: Option<Arc<dyn SharedStates>> = assembly.offers.get().cloned();
    for alert in alerts {
        let chains = assembly.store.chains();
        let chain = chains.iter().find(|chain| chain.config().key == alert.chain);
        // The configuration has checked the key, and that there is one limit and one URL.
        let (Some(chain), Some((side, limit)), Some(url)) =
            (chain.cloned(), alert.limit(), alert.url())
        else {
            continue;
        };
        let (outbox, inbox) = watch::channel(None);
        let delivery = Delivery {
            inbox,
            client: client.clone(),
            url: url.clone(),
            alert: alert.clone(),
            counters: chain_counters(&metrics.webhooks_total, &alert.chain),
        };
        assembly.add_task(async { match delivery.run().await {} });
        let watcher = Watcher {
            chain,
            limit,
            rule: AlertRule::new(side, alert.repeat, alert.pause),
            outbox,
            prices: prices.clone(),
            shared: shared.clone(),
            name: alert.fingerprint(url),
            entry: String::new(),
        };
        assembly.add_task(async { match watcher.run().await {} });
    }
    Ok(())
}
