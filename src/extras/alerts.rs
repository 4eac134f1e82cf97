//! Webhooks that tell when gas becomes cheap or dear.
//!
//! A task for each alert looks at what is published. A stale price changes nothing. Another task sends: it repeats a failed
//! request for ten minutes, unless the state has changed meanwhile. With Redis one replica sends each change.

mod delivery;
mod message;
mod metrics;
mod rule;
mod section;
mod watcher;

use std::sync::Arc;

use anyhow::Context;

use crate::assembly::{Assembly, Extra, SharedStates};
use crate::observe::http_client;
use delivery::Delivery;
use metrics::AlertMetrics;
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
        // The configuration has checked the key, and that there is one limit.
        let (Some(chain), Some(limit)) = (chain.cloned(), alert.limit()) else { continue };
        let (delivery, outbox) =
            Delivery::new(&alert, client.clone(), metrics.webhooks(&alert.chain));
        assembly.add_task(async { match delivery.run().await {} });
        let watcher = Watcher::new(chain, alert, limit, outbox, prices.clone(), shared.clone());
        assembly.add_task(async { match watcher.run().await {} });
    }
    Ok(())
}
