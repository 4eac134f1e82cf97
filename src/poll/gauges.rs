//! Gauges of chains and upstreams, read from the store at scrape time, so that ages grow although no data arrives.
//!
//! A value that may not be served is not exported: its gauge is NaN.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::metrics::family::Family;

use crate::fees::{Market, TierName};
use crate::nodes::ChainUpstreams;
use crate::nodes::circuit_breaker::Availability;
use crate::observe::clock;
use crate::observe::metrics::{
    ChainLabels, FloatGauge, FloorLabels, Metrics, StateLabels, StatusLabels, TierLabels,
    UpstreamLabels, to_f64,
};
use crate::store::{ChainStore, StoredChain};

/// Registers gauges for the chains of `store` and for their `upstreams`, which are in the same order.
pub(crate) fn register(store: &ChainStore, upstreams: &[Arc<ChainUpstreams>], metrics: &Metrics) {
    for (chain, upstreams) in store.chains().iter().zip(upstreams) {
        let (chain, upstreams) = (chain.clone(), Arc::clone(upstreams));
        metrics.on_scrape(move |metrics| {
            update_chain(metrics, &chain);
            update_upstreams(metrics, &chain.config().key, &upstreams);
        });
    }
}

fn update_chain(metrics: &Metrics, chain: &StoredChain) {
    let config = chain.config();
    let labels = ChainLabels { chain: config.key.clone() };
    let set = |gauge: &Family<_, FloatGauge>, value: Option<f64>| {
        gauge.get_or_create(&labels).set(value.unwrap_or(f64::NAN));
    };
    let age = |instant: Instant| clock::elapsed(instant).as_secs_f64();
    let timestamps = chain.timestamps();
    set(&metrics.chain_data_age_seconds, timestamps.map(|seen| age(seen.observed_at)));
    set(&metrics.chain_head_age_seconds, timestamps.map(|seen| age(seen.head_changed_at)));
    let newest = chain.newest_snapshot();
    let block_age = newest.and_then(|newest| newest.block.age(clock::now()));
    set(&metrics.chain_block_age_seconds, block_age.map(|age| age.as_secs_f64()));
    set(&metrics.chain_newest_block, chain.newest_block().map(to_f64));
    set(&metrics.chain_block_time_seconds, Some(chain.block_time().as_secs_f64()));
    set(&metrics.chain_max_age_seconds, Some(config.max_age.as_secs_f64()));

    let current = chain.snapshot_with_blocks(1).ok();
    let is_stale = current.as_ref().map(|(reading, _)| reading.is_stale());
    for (status, state) in [("fresh", Some(false)), ("stale", Some(true)), ("unavailable", None)] {
        let labels = StatusLabels { chain: config.key.clone(), status };
        metrics.chain_status.get_or_create(&labels).set(f64::from(is_stale == state));
    }
    let newest = current.as_ref().and_then(|(_, window)| window.blocks.last());
    let market = current.as_ref().map(|(reading, _)| &reading.snapshot.market);
    let suggestion = market.map(|market| &market.suggestion);
    set_amount(
        [&metrics.base_fee_wei, &metrics.base_fee_gwei],
        &labels,
        newest.map(|block| block.base_fee),
    );
    set_amount(
        [&metrics.next_base_fee_wei, &metrics.next_base_fee_gwei],
        &labels,
        market.and_then(|market| market.next_base_fee),
    );
    set_amount(
        [&metrics.suggested_base_fee_wei, &metrics.suggested_base_fee_gwei],
        &labels,
        suggestion.map(|suggestion| suggestion.base_fee_per_gas),
    );
    let floors = market.map(|market| market.floors_above_market);
    for (floor, is_above) in [
        ("base_fee", floors.map(|floors| floors.base_fee)),
        ("priority_fee", floors.map(|floors| floors.priority_fee)),
    ] {
        let labels = FloorLabels { chain: config.key.clone(), floor };
        metrics.floor_above_market.get_or_create(&labels).set(is_above.map_or(f64::NAN, f64::from));
    }
    update_tiers(metrics, &config.key, market);
}

/// Sets the gauges of what is paid and of what is suggested; `None` (unknown) sets NaN.
fn update_tiers(metrics: &Metrics, chain: &str, market: Option<&Market>) {
    let labels = |tier| TierLabels { chain: chain.to_owned(), tier };
    let tiers = market.map(|market| market.suggestion.tiers);
    let prices =
        market.map(|it| it.suggestion.tiers.map(|tier| tier.price_at(it.newest_known_base_fee)));
    for (tier, price) in [
        ("low", prices.map(|prices| prices.low)),
        ("medium", prices.map(|prices| prices.medium)),
        ("high", prices.map(|prices| prices.high)),
    ] {
        metrics.price_gwei.get_or_create(&labels(tier)).set(gwei(price));
    }
    for tier in TierName::SUGGESTED {
        let (fees, labels) = (tiers.map(|tiers| tiers[tier]), labels(tier.as_str()));
        let tips = [&metrics.max_priority_fee_wei, &metrics.max_priority_fee_gwei];
        set_amount(tips, &labels, fees.map(|fees| fees.max_priority_fee_per_gas));
        let max_fees = [&metrics.max_fee_wei, &metrics.max_fee_gwei];
        set_amount(max_fees, &labels, fees.map(|fees| fees.max_fee_per_gas));
    }
}

/// Sets the gauges of an amount in wei and in gwei; `None` (unknown) sets NaN.
fn set_amount<L: Clone + Eq + Hash>(
    gauges: [&Family<L, FloatGauge>; 2],
    labels: &L,
    amount: Option<u128>,
) {
    let wei = amount.map_or(f64::NAN, to_f64);
    for (gauge, amount) in gauges.into_iter().zip([wei, gwei(amount)]) {
        gauge.get_or_create(labels).set(amount);
    }
}

/// Returns the amount in gwei, rounded; NaN if it is unknown.
fn gwei(amount: Option<u128>) -> f64 {
    const WEI_PER_GWEI: f64 = 1e9;
    amount.map_or(f64::NAN, to_f64) / WEI_PER_GWEI
}

fn update_upstreams(metrics: &Metrics, chain: &str, upstreams: &ChainUpstreams) {
    const AVAILABILITIES: [(&str, Availability); 3] = [
        ("healthy", Availability::Healthy),
        ("degraded", Availability::Degraded),
        ("excluded", Availability::Excluded),
    ];
    let now = clock::now();
    for (upstream, node) in upstreams.polled().iter().enumerate() {
        let current = node.availability(now);
        for (state, availability) in AVAILABILITIES {
            let labels = StateLabels { chain: chain.to_owned(), upstream, state };
            let is_current = current == availability;
            metrics.upstream_state.get_or_create(&labels).set(f64::from(is_current));
        }
        let labels = UpstreamLabels { chain: chain.to_owned(), upstream };
        let is_excluded = f64::from(node.serves_another_chain(now));
        metrics.upstream_wrong_chain.get_or_create(&labels).set(is_excluded);
    }
}
