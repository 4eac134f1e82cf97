//! Gauges of chains and upstreams, read from the store at scrape time, so that ages grow although no data arrives.
//!
//! A value that may not be served is not exported: its gauge is NaN.

use std::sync::{Arc, Weak};
use std::time::Instant;

use metrics::Gauge;

use crate::metrics::{AmountGauge, Metrics, StateSet, to_f64};
use crate::store::{ChainStore, StoredChain};
use crate::upstream::{Availability, ChainUpstreams};

/// Registers gauges for the chains of `store` and for their `upstreams`, which are in the same order. They are updated
/// until the upstreams are dropped.
pub(crate) fn register(store: &ChainStore, upstreams: &[Arc<ChainUpstreams>], metrics: &Metrics) {
    for (chain, upstreams) in store.chains().iter().zip(upstreams) {
        let config = chain.config();
        metrics.set_configured(&config.key, config.block_time, config.max_age);
        let chain_gauges = ChainGauges::new(chain, metrics);
        metrics.on_scrape(move || chain_gauges.update());
        let upstream_gauges = UpstreamGauges::new(&config.key, upstreams, metrics);
        metrics.on_scrape(move || upstream_gauges.update());
    }
}

struct ChainGauges {
    chain: StoredChain,
    /// Fresh, stale, unavailable.
    status: StateSet<3>,
    newest_block: Gauge,
    data_age: Gauge,
    head_age: Gauge,
    base_fee: AmountGauge,
    next_base_fee: AmountGauge,
    suggested_base_fee: AmountGauge,
    /// Tip and max fee.
    medium: [AmountGauge; 2],
    high: [AmountGauge; 2],
}

impl ChainGauges {
    fn new(chain: &StoredChain, metrics: &Metrics) -> Self {
        let key = chain.config().key.as_str();
        Self {
            chain: chain.clone(),
            status: metrics.chain_status(key, ["fresh", "stale", "unavailable"]),
            newest_block: metrics.newest_block(key),
            data_age: metrics.data_age(key),
            head_age: metrics.head_age(key),
            base_fee: metrics.base_fee(key),
            next_base_fee: metrics.next_base_fee(key),
            suggested_base_fee: metrics.suggested_base_fee(key),
            medium: metrics.tier_fees(key, "medium"),
            high: metrics.tier_fees(key, "high"),
        }
    }

    fn update(&self) {
        let now = Instant::now();
        let timestamps = self.chain.timestamps();
        let since = |instant| now.saturating_duration_since(instant).as_secs_f64();
        self.data_age.set(timestamps.map_or(f64::NAN, |seen| since(seen.observed_at)));
        self.head_age.set(timestamps.map_or(f64::NAN, |seen| since(seen.head_changed_at)));
        self.newest_block.set(self.chain.newest_block().map_or(f64::NAN, to_f64));

        let current = self.chain.snapshot_with_blocks(1).ok();
        self.status.set(match &current {
            Some((reading, _)) if reading.is_stale => 1,
            Some(_) => 0,
            None => 2,
        });
        let newest = current.as_ref().and_then(|(_, window)| window.blocks.last());
        self.base_fee.set(newest.map(|block| block.base_fee));
        let market = current.as_ref().map(|(reading, _)| &reading.snapshot.market);
        self.next_base_fee.set(market.and_then(|market| market.next_base_fee));
        let suggestion = market.map(|market| &market.suggestion);
        self.suggested_base_fee.set(suggestion.map(|suggestion| suggestion.base_fee_per_gas));
        for ([tip, max_fee], tier) in [
            (&self.medium, suggestion.map(|suggestion| suggestion.medium)),
            (&self.high, suggestion.map(|suggestion| suggestion.high)),
        ] {
            tip.set(tier.map(|tier| tier.max_priority_fee_per_gas));
            max_fee.set(tier.map(|tier| tier.max_fee_per_gas));
        }
    }
}

struct UpstreamGauges {
    /// Weak, because upstreams own the metrics that own this.
    upstreams: Weak<ChainUpstreams>,
    /// By index in `rpc_urls`: healthy, degraded or excluded, and whether it served another chain.
    state_gauges: Vec<(StateSet<3>, Gauge)>,
}

impl UpstreamGauges {
    fn new(chain: &str, upstreams: &Arc<ChainUpstreams>, metrics: &Metrics) -> Self {
        let count = upstreams.statuses(Instant::now()).count();
        let upstream_gauges = |index| {
            let state = metrics.upstream_state(chain, index, ["healthy", "degraded", "excluded"]);
            (state, metrics.upstream_wrong_chain(chain, index))
        };
        Self {
            upstreams: Arc::downgrade(upstreams),
            state_gauges: (0..count).map(upstream_gauges).collect(),
        }
    }

    fn update(&self) {
        let Some(upstreams) = self.upstreams.upgrade() else { return };
        for ((state, wrong_chain), condition) in
            self.state_gauges.iter().zip(upstreams.statuses(Instant::now()))
        {
            state.set(match condition.availability {
                Availability::Healthy => 0,
                Availability::Degraded => 1,
                Availability::Excluded => 2,
            });
            wrong_chain.set(u32::from(condition.serves_another_chain));
        }
    }
}
