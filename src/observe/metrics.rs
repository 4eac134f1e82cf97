//! Metrics of one server. Their names contain their units. Label values come from closed sets or from the
//! configuration.
//!
//! There is no global registry: each [`Metrics`] belongs to one server, so two servers in one process have separate
//! counts.

mod kinds;
mod process;

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use axum::http::Extensions;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use kinds::DURATION_BOUNDS;
pub(crate) use kinds::{
    Counter, Durations, FloatGauge, RequestCounter, chain_counters, counters, to_f64,
};
use process::ProcessCollector;

type ScrapeCallback = Box<dyn Fn(&Metrics) + Send + Sync>;

/// All metrics of one server. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    scrape_callbacks: Arc<Mutex<Vec<ScrapeCallback>>>,
    sets: Arc<Mutex<Extensions>>,
    heart: HeartMetrics,
}

impl Deref for Metrics {
    type Target = HeartMetrics;

    fn deref(&self) -> &HeartMetrics {
        &self.heart
    }
}

/// Declares label sets. A field is a label.
macro_rules! labels {
    ($($name:ident { $($label:ident: $value:ty),+ })+) => {
        $(
            #[derive(Debug, Clone, PartialEq, Eq, Hash, prometheus_client::encoding::EncodeLabelSet)]
            pub(crate) struct $name { $(pub(crate) $label: $value,)+ }
        )+
    };
}

pub(crate) use labels;

/// Metrics that belong together. A server has each set once.
pub(crate) trait MetricSet: Clone + Send + Sync + 'static {
    /// Creates the metrics and registers them.
    fn register(registry: &mut Registry) -> Self;
}

/// Declares a [`MetricSet`]. A field is named like its metric, and its documentation is the metric's help text.
macro_rules! metric_set {
    (
        $(#[doc = $about:literal])+
        $vis:vis $set:ident { $($(#[doc = $help:literal])+ $name:ident: $metric:ty,)+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        $vis struct $set {
            $(pub(crate) $name: $metric,)+
        }

        impl $crate::observe::metrics::MetricSet for $set {
            fn register(registry: &mut ::prometheus_client::registry::Registry) -> Self {
                $(
                    let $name = <$metric>::default();
                    let name = concat!("gas_suggestion_", stringify!($name));
                    registry.register(name, concat!($($help),+).trim(), $name.clone());
                )+
                Self { $($name,)+ }
            }
        }
    };
}

pub(crate) use metric_set;

metric_set! {
    /// Metrics of the heart.
    pub HeartMetrics {
        /// HTTP requests by listener, route, method and response status
        http_requests_total: Family<RequestLabels, RequestCounter>,
        /// Time from a request's headers to its response headers
        http_request_duration_seconds: Family<RouteLabels, Durations>,
        /// Responses of the suggestion route by freshness: fresh, stalled (recent data, but the chain's head has not
        /// moved for stall_after), old_block (a node that syncs or lags), old (data older than two block times), unavailable
        /// (503)
        suggestion_responses_total: Family<FreshnessLabels, RequestCounter>,
        /// 1 for the current state of the chain's data: fresh, stale or unavailable
        chain_status: Family<StatusLabels, FloatGauge>,
        /// Number of the newest published block
        chain_newest_block: Family<ChainLabels, FloatGauge>,
        /// Time since the last accepted reply, also if the data is too old to be served
        chain_data_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Time since the number of the newest block changed
        chain_head_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Age of the newest block by its own time, if its header was read
        chain_block_age_seconds: Family<ChainLabels, FloatGauge>,
        /// The configured block_time
        chain_block_time_seconds: Family<ChainLabels, FloatGauge>,
        /// The configured max_age: older data is not served
        chain_max_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Base fee of the newest block in wei
        base_fee_wei: Family<ChainLabels, FloatGauge>,
        /// Base fee of the newest block in gwei
        base_fee_gwei: Family<ChainLabels, FloatGauge>,
        /// Base fee of the next block in wei, if the upstream reports it
        next_base_fee_wei: Family<ChainLabels, FloatGauge>,
        /// Base fee of the next block in gwei, if the upstream reports it
        next_base_fee_gwei: Family<ChainLabels, FloatGauge>,
        /// base_fee_per_gas of the suggestion in wei
        suggested_base_fee_wei: Family<ChainLabels, FloatGauge>,
        /// base_fee_per_gas of the suggestion in gwei
        suggested_base_fee_gwei: Family<ChainLabels, FloatGauge>,
        /// Price of a transaction of a tier in the next block, in gwei: its base fee and the tip, or the gas price
        price_gwei: Family<TierLabels, FloatGauge>,
        /// max_priority_fee_per_gas of a tier in wei
        max_priority_fee_wei: Family<TierLabels, FloatGauge>,
        /// max_priority_fee_per_gas of a tier in gwei
        max_priority_fee_gwei: Family<TierLabels, FloatGauge>,
        /// max_fee_per_gas of a tier in wei
        max_fee_wei: Family<TierLabels, FloatGauge>,
        /// max_fee_per_gas of a tier in gwei
        max_fee_gwei: Family<TierLabels, FloatGauge>,
        /// 1 while a configured floor is more than ten times what the market pays
        floor_above_market: Family<FloorLabels, FloatGauge>,
        /// Published newest blocks that are lower than the previous one
        head_regressions_total: Family<ChainLabels, Counter>,
        /// Comparisons of an upstream with the one in use by outcome: agrees, disagrees, or failed
        upstream_comparisons_total: Family<AttemptLabels, Counter>,
        /// 1 while an upstream lastingly disagrees with the one in use about the same blocks
        upstreams_disagree: Family<ChainLabels, Gauge>,
        /// Polls of a chain with `agreement` in which upstreams disagreed
        upstream_disagreements_total: Family<ChainLabels, Counter>,
        /// Blocks of the fee history whose reward is more than a thousand times the median
        outlying_reward_blocks: Family<ChainLabels, Gauge>,
        /// Readings of rewards that polls do not request by outcome: ok, or failed
        reward_readings_total: Family<ChainOutcomeLabels, Counter>,
        /// Polls of a chain by outcome: ok, or failed if no upstream returned a usable reply
        polls_total: Family<ChainOutcomeLabels, Counter>,
        /// Duration of a poll of a chain, over all upstreams tried
        poll_duration_seconds: Family<ChainLabels, Durations>,
        /// Polls of an upstream by its index in rpc_urls and by outcome
        upstream_attempts_total: Family<AttemptLabels, Counter>,
        /// 1 for the upstream, by its index in rpc_urls, whose reply was published last
        upstream_in_use: Family<UpstreamLabels, Gauge>,
        /// 1 for the state of an upstream: healthy, degraded (polled after others) or excluded
        upstream_state: Family<StateLabels, FloatGauge>,
        /// 1 while an upstream is excluded because it served another chain
        upstream_wrong_chain: Family<UpstreamLabels, FloatGauge>,
        /// Reads sent to an upstream by its index in rpc_urls and by outcome
        upstream_reads_total: Family<AttemptLabels, Counter>,
        /// New blocks announced by a WebSocket of ws_urls
        new_heads_total: Family<ChainLabels, Counter>,
        /// 1 while a WebSocket of ws_urls announces new blocks
        new_heads_up: Family<ChainLabels, Gauge>,
        /// Connections by outcome: accepted, or refused and why
        connections_total: Family<ListenerOutcomeLabels, Counter>,
        /// Connections closed because they missed a deadline, by deadline
        connection_timeouts_total: Family<DeadlineLabels, Counter>,
        /// Connections closed so that others can be served: connection_limit (a client with fewer connections needed one) or
        /// memory (the memory budget was exhausted)
        connections_shed_total: Family<ListenerReasonLabels, Counter>,
        /// Requests rejected with 429 because their client exceeded its rate limit
        requests_rate_limited_total: Counter,
        /// Open streams
        streams: Gauge,
        /// Streams rejected because of a limit
        streams_refused_total: Counter,
        /// Events sent to streams
        stream_events_total: Counter,
        /// Number of entries in a cache
        cache_entries: Family<CacheLabels, FloatGauge>,
        /// Memory used by the entries of a cache
        cache_bytes: Family<CacheLabels, FloatGauge>,
    }
}

labels! {
    RequestLabels { listener: &'static str, route: String, method: &'static str, status: String }
    RouteLabels { listener: &'static str, route: String }
    FreshnessLabels { chain: String, freshness: &'static str }
    ChainLabels { chain: String }
    ChainOutcomeLabels { chain: String, outcome: &'static str }
    AttemptLabels { chain: String, upstream: usize, outcome: &'static str }
    UpstreamLabels { chain: String, upstream: usize }
    StatusLabels { chain: String, status: &'static str }
    TierLabels { chain: String, tier: &'static str }
    FloorLabels { chain: String, floor: &'static str }
    StateLabels { chain: String, upstream: usize, state: &'static str }
    CacheLabels { cache: &'static str }
    ListenerOutcomeLabels { listener: &'static str, outcome: &'static str }
    ListenerReasonLabels { listener: &'static str, reason: &'static str }
    DeadlineLabels { listener: &'static str, deadline: &'static str }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics without values.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let heart = HeartMetrics::register(&mut registry);
        let registry = Arc::new(Mutex::new(registry));
        Self { registry, scrape_callbacks: Arc::default(), sets: Arc::default(), heart }
    }

    /// Returns all metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        for update in self.scrape_callbacks.lock().iter() {
            update(self);
        }
        let mut text = String::new();
        if encode_registry(&mut text, &self.registry.lock()).is_err() {
            tracing::error!("cannot write the metrics");
        }
        // The encoder writes 1 as `1.0`. In a bound Prometheus 2 would store another series than for `1`.
        let text = text.replace(".0\n", "\n");
        let bounds = DURATION_BOUNDS.iter().filter(|bound| bound.fract() == 0.0);
        bounds.fold(text, |text, bound| {
            text.replace(&format!("{{le=\"{bound:?}\""), &format!("{{le=\"{bound}\""))
        })
    }

    /// Returns the metrics of another room. They are registered at the first call.
    pub(crate) fn set<T: MetricSet>(&self) -> T {
        let mut sets = self.sets.lock();
        if let Some(set) = sets.get::<T>() {
            return set.clone();
        }
        let set = T::register(&mut self.registry.lock());
        sets.insert(set.clone());
        set
    }

    /// Registers a callback that sets gauges on each scrape.
    pub(crate) fn on_scrape(&self, update: impl Fn(&Self) + Send + Sync + 'static) {
        self.scrape_callbacks.lock().push(Box::new(update));
    }

    /// Registers gauges of a cache: its number of entries and their bytes.
    pub(crate) fn register_cache(
        &self,
        cache: &'static str,
        measure: impl Fn() -> [u64; 2] + Send + Sync + 'static,
    ) {
        self.on_scrape(move |metrics| {
            for (gauge, value) in
                [&metrics.cache_entries, &metrics.cache_bytes].iter().zip(measure())
            {
                gauge.get_or_create(&CacheLabels { cache }).set(to_f64(value));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn text_format_has_counter_suffixes_and_plain_whole_numbers() {
        let metrics = Metrics::new();
        let labels = ChainLabels { chain: "a".to_owned() };
        metrics.head_regressions_total.get_or_create(&labels).increment();
        metrics.poll_duration_seconds.get_or_create(&labels).record(Duration::from_millis(1500));
        let route = RouteLabels { listener: "public", route: "/".to_owned() };
        let durations = metrics.http_request_duration_seconds.get_or_create_owned(&route);
        durations.record(Duration::from_millis(1));
        durations.record(Duration::from_secs(31));
        metrics.base_fee_wei.get_or_create(&labels).set(3e9);
        metrics.base_fee_gwei.get_or_create(&labels).set(f64::NAN);
        metrics.chain_max_age_seconds.get_or_create(&labels).set(0.5);
        metrics.register_cache("reads", || [7, 700]);

        let text = metrics.render();
        for line in [
            "# TYPE gas_suggestion_head_regressions_total counter",
            "gas_suggestion_head_regressions_total{chain=\"a\"} 1",
            "gas_suggestion_poll_duration_seconds_bucket{le=\"1\",chain=\"a\"} 0",
            "gas_suggestion_poll_duration_seconds_bucket{le=\"2.5\",chain=\"a\"} 1",
            "# TYPE gas_suggestion_http_request_duration_seconds histogram",
            "gas_suggestion_http_request_duration_seconds_sum{listener=\"public\",route=\"/\"} 31.001",
            "gas_suggestion_http_request_duration_seconds_count{listener=\"public\",route=\"/\"} 2",
            "gas_suggestion_http_request_duration_seconds_bucket{le=\"0.0005\",listener=\"public\",route=\"/\"} 0",
            "gas_suggestion_http_request_duration_seconds_bucket{le=\"0.001\",listener=\"public\",route=\"/\"} 1",
            "gas_suggestion_http_request_duration_seconds_bucket{le=\"30\",listener=\"public\",route=\"/\"} 1",
            "gas_suggestion_http_request_duration_seconds_bucket{le=\"+Inf\",listener=\"public\",route=\"/\"} 2",
            "gas_suggestion_base_fee_wei{chain=\"a\"} 3000000000",
            "gas_suggestion_base_fee_gwei{chain=\"a\"} NaN",
            "gas_suggestion_chain_max_age_seconds{chain=\"a\"} 0.5",
            "gas_suggestion_cache_bytes{cache=\"reads\"} 700",
            "gas_suggestion_streams 0",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_set_of_another_room_is_registered_once() {
        metric_set! {
            /// Metrics of another room.
            pub(crate) Others {
                /// Requests by outcome
                others_total: Counter,
            }
        }
        let metrics = Metrics::new();
        metrics.set::<Others>().others_total.increment();
        metrics.set::<Others>().others_total.increment();
        assert!(metrics.render().contains("\ngas_suggestion_others_total 2\n"));
    }
}
