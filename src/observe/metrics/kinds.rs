//! Kinds of metrics that the library does not have as the service needs them.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use enum_map::{Enum, EnumMap};
use parking_lot::Mutex;
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

/// Counts of the same thing. Threads that count millions of times have places of their own, because processors that write
/// to the same cache line delay each other.
#[derive(Debug, Default)]
struct Counts<T> {
    all: Arc<Places<T>>,
    /// `None`: the shared place.
    own: Option<Arc<Place<T>>>,
}

#[derive(Debug, Default)]
struct Places<T> {
    shared: T,
    of_threads: Mutex<Vec<Arc<Place<T>>>>,
}

/// Alone in its cache lines; processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place<T>(T);

impl<T> Clone for Counts<T> {
    fn clone(&self) -> Self {
        Self { all: Arc::clone(&self.all), own: self.own.clone() }
    }
}

impl<T: Default> Counts<T> {
    /// Returns the same counts with a place of its own. Places stay until the counts are dropped.
    fn for_thread(&self) -> Self {
        let own = Arc::<Place<T>>::default();
        self.all.of_threads.lock().push(Arc::clone(&own));
        Self { all: Arc::clone(&self.all), own: Some(own) }
    }

    /// Returns where to count.
    fn place(&self) -> &T {
        self.own.as_ref().map_or(&self.all.shared, |own| &own.0)
    }

    /// Adds what all places have.
    fn sum(&self, value: impl Fn(&T) -> u64) -> u64 {
        let of_threads = self.all.of_threads.lock();
        let places = of_threads.iter().map(|place| &place.0);
        std::iter::once(&self.all.shared).chain(places).map(value).fold(0, u64::wrapping_add)
    }
}

/// Counter whose name has the suffix `_total`, as the Prometheus text format requires. The library's counter writes
/// `OpenMetrics`, where the name has no suffix and the sample has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(Counts<AtomicU64>);

impl Counter {
    /// Returns the same counter for a thread that counts very often.
    pub(crate) fn for_thread(&self) -> Self {
        Self(self.0.for_thread())
    }

    /// Adds 1.
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub(crate) fn add(&self, count: u64) {
        self.0.place().fetch_add(count, Ordering::Relaxed);
    }

    /// Current value.
    pub(crate) fn get(&self) -> u64 {
        self.0.sum(load)
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

/// Histogram of request durations. Every request on every serving thread records in it, so it has no lock: a thread that
/// the system interrupts while it holds one would stop the others. The library's histogram has a mutex.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestDurations(Counts<DurationCounts>);

#[derive(Debug, Default)]
struct DurationCounts {
    /// Number of durations up to each of `REQUEST_BOUNDS` and above the previous one. The last counts all longer ones.
    buckets: [AtomicU64; REQUEST_BOUNDS.len() + 1],
    total_nanoseconds: AtomicU64,
}

impl RequestDurations {
    /// Returns the same histogram for a thread that counts very often.
    pub(crate) fn for_thread(&self) -> Self {
        Self(self.0.for_thread())
    }

    /// Counts a request that took `elapsed`.
    pub(crate) fn record(&self, elapsed: Duration) {
        let counts = self.0.place();
        let seconds = elapsed.as_secs_f64();
        let index = REQUEST_BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = counts.buckets.get(index.unwrap_or(REQUEST_BOUNDS.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        counts.total_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl TypedMetric for RequestDurations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for RequestDurations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // The library writes this last bound as `+Inf`, which Prometheus needs for quantiles.
        let bounds = REQUEST_BOUNDS.into_iter().chain([f64::INFINITY]).enumerate();
        let count_of = |index: usize| {
            let bucket = |counts: &DurationCounts| counts.buckets.get(index).map(load);
            self.0.sum(|counts| bucket(counts).unwrap_or_default())
        };
        let buckets: Vec<_> = bounds.map(|(index, bound)| (bound, count_of(index))).collect();
        let total = self.0.sum(|counts| load(&counts.total_nanoseconds));
        let total = Duration::from_nanos(total);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_has_what_all_its_threads_counted() {
        let counter = Counter::default();
        let [one, other] = [counter.for_thread(), counter.for_thread()];
        for (times, place) in [(1, &counter), (2, &one), (4, &other), (8, &one.clone())] {
            for _ in 0..times {
                place.increment();
            }
        }
        assert_eq!([&counter, &one, &other].map(Counter::get), [15; 3]);
        one.add(5);
        assert_eq!(counter.get(), 20);
    }
}
