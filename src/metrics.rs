//! Metrics of one server. All names are declared in `names`.
//!
//! There is no global recorder: each [`Metrics`] belongs to one server, so two servers in one process have separate
//! counts.

mod names;
mod replicas;
mod upstreams;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram, with_local_recorder,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use names::AmountNames;

/// All metrics of one server. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    recorder: PrometheusRecorder,
    process: metrics_process::Collector,
    /// Callbacks that set gauges at scrape time.
    scrape_callbacks: RwLock<Vec<ScrapeCallback>>,
}

type ScrapeCallback = Box<dyn Fn() + Send + Sync>;

/// An amount that may be unknown, in wei and in gwei.
#[derive(Debug, Clone)]
pub(crate) struct AmountGauge([Gauge; 2]);

/// Gauges of a closed set, one of which is 1 while the others are 0.
#[derive(Debug, Clone)]
pub(crate) struct StateSet<const COUNT: usize>([Gauge; COUNT]);

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
    /// Interval at which [`upkeep`](Self::upkeep) must be called.
    pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

    /// Creates metrics without values.
    #[must_use]
    pub fn new() -> Self {
        let recorder = build_recorder();
        let process = metrics_process::Collector::default();
        with_local_recorder(&recorder, || {
            process.describe();
            for (name, text) in names::COUNTERS {
                describe_counter!(name, Unit::Count, text);
            }
            for (name, text) in names::GAUGES {
                describe_gauge!(name, Unit::Count, text);
            }
            for (name, text, _) in names::HISTOGRAMS {
                describe_histogram!(name, Unit::Seconds, text);
            }
            gauge!(names::BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1);
        });
        Self { inner: Arc::new(Inner { recorder, process, scrape_callbacks: RwLock::default() }) }
    }

    /// Returns all metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        for read in
            self.inner.scrape_callbacks.read().unwrap_or_else(PoisonError::into_inner).iter()
        {
            read();
        }
        self.with_recorder(|| self.inner.process.collect());
        self.inner.recorder.handle().render()
    }

    /// Moves recorded measurements into histogram buckets. Each pending one takes 8 bytes, so call this every
    /// [`UPKEEP_INTERVAL`](Self::UPKEEP_INTERVAL), scraped or not.
    pub fn upkeep(&self) {
        self.inner.recorder.handle().run_upkeep();
    }

    /// Registers a callback that sets gauges on each scrape.
    pub(crate) fn on_scrape(&self, update: impl Fn() + Send + Sync + 'static) {
        let callbacks = &self.inner.scrape_callbacks;
        callbacks.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(update));
    }

    /// Counter of requests with this response, and duration of the route's requests.
    pub(crate) fn http_requests(
        &self,
        listener: &'static str,
        route: SharedString,
        method: &Method,
        status: StatusCode,
    ) -> (Counter, Histogram) {
        let method = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        // Only an upstream can return a status without a standard reason.
        let status: SharedString = match status.canonical_reason() {
            Some(_) => status.as_u16().to_string().into(),
            None => "other".into(),
        };
        self.with_recorder(|| {
            let requests = counter!(
                names::HTTP_REQUESTS,
                "listener" => listener, "route" => route.clone(), "method" => method, "status" => status
            );
            let duration =
                histogram!(names::HTTP_DURATION, "listener" => listener, "route" => route);
            (requests, duration)
        })
    }

    /// Counter of the chain's suggestion responses with this freshness.
    pub(crate) fn suggestion_responses(&self, chain: &str, freshness: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::SUGGESTION_RESPONSES, "chain" => chain.to_owned(), "freshness" => freshness),
        )
    }

    /// State of the chain's data.
    pub(crate) fn chain_status<const COUNT: usize>(
        &self,
        chain: &str,
        statuses: [&'static str; COUNT],
    ) -> StateSet<COUNT> {
        let gauge =
            |status| gauge!(names::CHAIN_STATUS, "chain" => chain.to_owned(), "status" => status);
        self.with_recorder(|| StateSet(statuses.map(gauge)))
    }

    /// Number of the chain's newest block.
    pub(crate) fn newest_block(&self, chain: &str) -> Gauge {
        self.chain_gauge(names::NEWEST_BLOCK, chain)
    }

    /// Age of the chain's data in seconds.
    pub(crate) fn data_age(&self, chain: &str) -> Gauge {
        self.chain_gauge(names::DATA_AGE, chain)
    }

    /// Time since the chain's head changed, in seconds.
    pub(crate) fn head_age(&self, chain: &str) -> Gauge {
        self.chain_gauge(names::HEAD_AGE, chain)
    }

    /// Sets the configured block time and maximum age of the chain, in seconds.
    pub(crate) fn set_configured(&self, chain: &str, block_time: Duration, max_age: Duration) {
        self.chain_gauge(names::BLOCK_TIME, chain).set(block_time);
        self.chain_gauge(names::MAX_AGE, chain).set(max_age);
    }

    /// Base fee of the chain's newest block.
    pub(crate) fn base_fee(&self, chain: &str) -> AmountGauge {
        self.amount_gauge(names::BASE_FEE, &[("chain", chain)])
    }

    /// Base fee of the chain's next block.
    pub(crate) fn next_base_fee(&self, chain: &str) -> AmountGauge {
        self.amount_gauge(names::NEXT_BASE_FEE, &[("chain", chain)])
    }

    /// Suggested base fee of the chain.
    pub(crate) fn suggested_base_fee(&self, chain: &str) -> AmountGauge {
        self.amount_gauge(names::SUGGESTED_BASE_FEE, &[("chain", chain)])
    }

    /// Tip and max fee of one tier of the chain's suggestion.
    pub(crate) fn tier_fees(&self, chain: &str, tier: &str) -> [AmountGauge; 2] {
        let labels = [("chain", chain), ("tier", tier)];
        [names::MAX_PRIORITY_FEE, names::MAX_FEE].map(|amount| self.amount_gauge(amount, &labels))
    }

    /// Counter of the chain's polls with this outcome.
    pub(crate) fn polls(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::POLLS, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// Duration of the chain's polls.
    pub(crate) fn poll_duration(&self, chain: &str) -> Histogram {
        self.with_recorder(|| histogram!(names::POLL_DURATION, "chain" => chain.to_owned()))
    }

    /// Counter of published heads of the chain that are lower than the previous one.
    pub(crate) fn head_regressions(&self, chain: &str) -> Counter {
        self.with_recorder(|| counter!(names::HEAD_REGRESSIONS, "chain" => chain.to_owned()))
    }

    /// Counter of the chain's reads with this outcome.
    pub(crate) fn reads(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::READS, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// Counter of requests forwarded to this upstream, with this outcome.
    pub(crate) fn proxied_requests(
        &self,
        upstream: &'static str,
        outcome: &'static str,
    ) -> Counter {
        self.with_recorder(
            || counter!(names::PROXIED_REQUESTS, "upstream" => upstream, "outcome" => outcome),
        )
    }

    /// Counter of delegation look-ups with this outcome.
    pub(crate) fn delegation_lookups(&self, outcome: &'static str) -> Counter {
        self.with_recorder(|| counter!(names::DELEGATION_LOOKUPS, "outcome" => outcome))
    }

    /// Counter of connections with this outcome: `accepted`, or the reason of the refusal.
    pub(crate) fn connections(&self, listener: &'static str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::CONNECTIONS, "listener" => listener, "outcome" => outcome),
        )
    }

    /// Counter of connections that missed this deadline.
    pub(crate) fn connection_timeouts(
        &self,
        listener: &'static str,
        deadline: &'static str,
    ) -> Counter {
        self.with_recorder(
            || counter!(names::CONNECTION_TIMEOUTS, "listener" => listener, "deadline" => deadline),
        )
    }

    /// Counter of requests rejected with 429.
    pub(crate) fn rate_limited(&self) -> Counter {
        self.with_recorder(|| counter!(names::RATE_LIMITED))
    }

    /// Number of open streams.
    pub(crate) fn streams(&self) -> Gauge {
        self.with_recorder(|| gauge!(names::STREAMS))
    }

    /// Counter of streams rejected because of a limit.
    pub(crate) fn streams_refused(&self) -> Counter {
        self.with_recorder(|| counter!(names::STREAMS_REFUSED))
    }

    /// Counter of events sent to streams.
    pub(crate) fn stream_events(&self) -> Counter {
        self.with_recorder(|| counter!(names::STREAM_EVENTS))
    }

    /// Counter of rendered charts.
    pub(crate) fn charts_rendered(&self) -> Counter {
        self.with_recorder(|| counter!(names::CHARTS_RENDERED))
    }

    /// Registers the counters of dropped log lines and spans.
    pub(crate) fn register_drop_counters(&self, lines: fn() -> u64, spans: fn() -> u64) {
        let (dropped_lines, dropped_spans) =
            self.with_recorder(|| (counter!(names::LINES_DROPPED), counter!(names::SPANS_DROPPED)));
        self.on_scrape(move || {
            dropped_lines.absolute(lines());
            dropped_spans.absolute(spans());
        });
    }

    /// Registers gauges of a cache: its number of entries and their bytes.
    pub(crate) fn register_cache(
        &self,
        cache: &'static str,
        measure: impl Fn() -> [u64; 2] + Send + Sync + 'static,
    ) {
        let gauges = [names::CACHE_ENTRIES, names::CACHE_BYTES];
        let gauges = self.with_recorder(|| gauges.map(|name| gauge!(name, "cache" => cache)));
        self.on_scrape(move || {
            for (gauge, value) in gauges.iter().zip(measure()) {
                gauge.set(to_f64(value));
            }
        });
    }

    fn chain_gauge(&self, name: &'static str, chain: &str) -> Gauge {
        self.with_recorder(|| gauge!(name, "chain" => chain.to_owned()))
    }

    fn amount_gauge(&self, names: AmountNames, labels: &[(&'static str, &str)]) -> AmountGauge {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.with_recorder(|| AmountGauge(names.map(|name| gauge!(name, &labels))))
    }

    fn with_recorder<T>(&self, register: impl FnOnce() -> T) -> T {
        with_local_recorder(&self.inner.recorder, register)
    }
}

impl AmountGauge {
    /// Sets both gauges; `None` (unknown) sets NaN.
    pub(crate) fn set(&self, amount: Option<u128>) {
        const WEI_PER_GWEI: f64 = 1e9;
        let wei = amount.map_or(f64::NAN, to_f64);
        for (gauge, amount) in self.0.iter().zip([wei, wei / WEI_PER_GWEI]) {
            gauge.set(amount);
        }
    }
}

impl<const COUNT: usize> StateSet<COUNT> {
    /// Sets the gauge with this index to 1 and the others to 0.
    pub(crate) fn set(&self, active: usize) {
        for (index, gauge) in self.0.iter().enumerate() {
            gauge.set(u32::from(index == active));
        }
    }
}

fn build_recorder() -> PrometheusRecorder {
    let builder =
        names::HISTOGRAMS.iter().fold(PrometheusBuilder::new(), |builder, &(name, _, buckets)| {
            let builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), buckets);
            builder.expect("there are buckets")
        });
    builder.build_recorder()
}

/// Converts an integer to the nearest `f64`.
pub(crate) fn to_f64(integer: impl fmt::Display) -> f64 {
    // There is no lossy conversion trait for integers of this size; parsing rounds to the nearest.
    integer.to_string().parse().unwrap_or(f64::NAN)
}
