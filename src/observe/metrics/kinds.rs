//! Kinds of metrics that the library does not have as the service needs them.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use enum_map::{Enum, EnumMap};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Upper bounds of the buckets of request durations, in seconds.
pub(crate) const REQUEST_BOUNDS: [f64; 17] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Returns a counter for each value of a closed label, so that each exists from the start.
pub(crate) fn counters<V, L>(
    family: &Family<L, Counter>,
    labels: impl Fn(&'static str) -> L,
) -> EnumMap<V, Counter>
where
    V: Enum + Into<&'static str>,
    L: Clone + Eq + Hash,
{
    EnumMap::from_fn(|value: V| family.get_or_create_owned(&labels(value.into())))
}

/// Counter whose name has the suffix `_total`, as the Prometheus text format requires. The library's counter writes
/// `OpenMetrics`, where the name has no suffix and the sample has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(prometheus_client::metrics::counter::Counter);

impl Counter {
    /// Adds 1.
    pub(crate) fn increment(&self) {
        self.0.inc();
    }

    /// Raises the counter to a total that is counted elsewhere.
    pub(crate) fn advance_to(&self, total: u64) {
        self.0.inc_by(total.saturating_sub(self.0.get()));
    }

    /// Current value.
    #[cfg(test)]
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Histogram of request durations. Every request on every serving thread records in it, so it has no lock: a thread that
/// the system interrupts while it holds one would stop the others. The library's histogram has a mutex.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestDurations(Arc<DurationCounts>);

#[derive(Debug, Default)]
struct DurationCounts {
    /// Number of durations up to each of `REQUEST_BOUNDS` and above the previous one. The last counts all longer ones.
    buckets: [AtomicU64; REQUEST_BOUNDS.len() + 1],
    total_nanoseconds: AtomicU64,
}

impl RequestDurations {
    /// Counts a request that took `elapsed`.
    pub(crate) fn record(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let index = REQUEST_BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = self.0.buckets.get(index.unwrap_or(REQUEST_BOUNDS.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.total_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl TypedMetric for RequestDurations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for RequestDurations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counts = self.0.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        // The library writes this last bound as `+Inf`, which Prometheus needs for quantiles.
        let bounds = REQUEST_BOUNDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(counts).collect();
        let total = Duration::from_nanos(self.0.total_nanoseconds.load(Ordering::Relaxed));
        let count = counts.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(total.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Gauge that writes a whole number without a fraction.
#[derive(Debug, Clone, Default)]
pub(crate) struct FloatGauge(Gauge<f64, AtomicU64>);

impl FloatGauge {
    pub(crate) fn set(&self, value: f64) {
        self.0.set(value);
    }
}

impl TypedMetric for FloatGauge {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for FloatGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let value = self.0.get();
        match value.to_string().parse::<i64>() {
            Ok(whole) => encoder.encode_gauge(&whole),
            Err(_) => encoder.encode_gauge(&value),
        }
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Converts an integer to the nearest `f64`.
pub(crate) fn to_f64(integer: impl fmt::Display) -> f64 {
    // There is no lossy conversion trait for integers of this size; parsing rounds to the nearest.
    integer.to_string().parse().unwrap_or(f64::NAN)
}
