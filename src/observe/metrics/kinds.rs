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
use thread_local::ThreadLocal;

use super::ChainOutcomeLabels;

/// Upper bounds of the buckets of durations, in seconds.
pub(crate) const DURATION_BOUNDS: [f64; 17] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Returns a counter for each value of a closed label, so that each exists from the start.
pub(crate) fn counters<V, L, C>(
    family: &Family<L, C>,
    labels: impl Fn(&'static str) -> L,
) -> EnumMap<V, C>
where
    V: Enum + Into<&'static str>,
    L: Clone + Eq + Hash,
    C: Clone + Default,
{
    EnumMap::from_fn(|value: V| family.get_or_create_owned(&labels(value.into())))
}

/// Returns the counters of a chain's outcomes.
pub(crate) fn chain_counters<V: Enum + Into<&'static str>>(
    family: &Family<ChainOutcomeLabels, Counter>,
    chain: &str,
) -> EnumMap<V, Counter> {
    counters(family, |outcome| ChainOutcomeLabels { chain: chain.to_owned(), outcome })
}

/// A thread's place of a metric that every request changes, alone in its cache lines: processors that write to the same one
/// delay each other, and fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place<T>(T);

/// Adds what all threads have.
fn sum<T: Send + Sync>(places: &ThreadLocal<Place<T>>, value: impl Fn(&T) -> u64) -> u64 {
    places.iter().map(|place| value(&place.0)).fold(0, u64::wrapping_add)
}

/// Counter whose name has the suffix `_total`, as the Prometheus text format requires. The library's counter writes
/// `OpenMetrics`, where the name has no suffix and the sample has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds 1.
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Current value.
    pub(crate) fn get(&self) -> u64 {
        load(&self.0)
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// A [`Counter`] of requests, with a place for each thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestCounter(Arc<ThreadLocal<Place<AtomicU64>>>);

impl RequestCounter {
    /// Adds 1.
    pub(crate) fn increment(&self) {
        self.0.get_or_default().0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for RequestCounter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for RequestCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&sum(&self.0, load))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Histogram of durations, with a place for each thread. It has no lock: a thread that the system interrupts while it
/// holds one would stop the others. The library's histogram has a mutex.
#[derive(Debug, Clone, Default)]
pub(crate) struct Durations(Arc<ThreadLocal<Place<DurationCounts>>>);

#[derive(Debug, Default)]
struct DurationCounts {
    /// Number of durations up to each of `DURATION_BOUNDS` and above the previous one. The last counts all longer ones.
    buckets: [AtomicU64; DURATION_BOUNDS.len() + 1],
    total_nanoseconds: AtomicU64,
}

impl Durations {
    /// Counts what took `elapsed`.
    pub(crate) fn record(&self, elapsed: Duration) {
        let counts = &self.0.get_or_default().0;
        let seconds = elapsed.as_secs_f64();
        let index = DURATION_BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = counts.buckets.get(index.unwrap_or(DURATION_BOUNDS.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        counts.total_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // The library writes this last bound as `+Inf`, which Prometheus needs for quantiles.
        let bounds = DURATION_BOUNDS.into_iter().chain([f64::INFINITY]).enumerate();
        let buckets: Vec<_> = bounds
            .map(|(index, bound)| {
                let count = sum(&self.0, |counts| counts.buckets.get(index).map_or(0, load));
                (bound, count)
            })
            .collect();
        let total = Duration::from_nanos(sum(&self.0, |counts| load(&counts.total_nanoseconds)));
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(total.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Gauge of a number that may have a fraction.
pub(crate) type FloatGauge = Gauge<f64, AtomicU64>;

/// Converts an integer to the nearest `f64`.
pub(crate) fn to_f64(integer: impl fmt::Display) -> f64 {
    // There is no lossy conversion trait for integers of this size; parsing rounds to the nearest.
    integer.to_string().parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_counter_has_what_all_its_threads_counted() {
        let counter = RequestCounter::default();
        thread::scope(|threads| {
            for times in [1, 2, 4, 8] {
                threads.spawn({
                    let counter = counter.clone();
                    move || (0..times).for_each(|_| counter.increment())
                });
            }
        });
        assert_eq!(sum(&counter.0, load), 15);
        counter.increment();
        assert_eq!(sum(&counter.0, load), 16);
    }
}
