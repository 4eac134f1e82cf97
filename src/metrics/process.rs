//! Metrics of the whole process, read at scrape time.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::encode_gauge;
use crate::{logging, traces};

#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode_gauge(
            &mut encoder,
            "gas_suggestion_build_info",
            "1 for the running version",
            [([("version", env!("CARGO_PKG_VERSION"))], 1)],
        )?;
        let dropped = [
            (
                "gas_suggestion_log_lines_dropped_total",
                "Log lines dropped because the buffer was full or a write failed",
                MetricType::Counter,
                Some(logging::dropped_lines()),
            ),
            (
                "gas_suggestion_spans_dropped_total",
                "Spans dropped because the queue was full or the export failed",
                MetricType::Counter,
                Some(traces::dropped_spans()),
            ),
        ];
        for (name, help, metric_type, value) in dropped.into_iter().chain(system_metrics()) {
            let Some(value) = value else { continue };
            encoder.encode_descriptor(name, help, None, metric_type)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// Name, help text, type and value of a metric. `None`: the system does not provide the value.
type Sample = (&'static str, &'static str, MetricType, Option<u64>);

#[cfg(target_os = "linux")]
fn system_metrics() -> impl Iterator<Item = Sample> {
    use procfs::WithCurrentSystemInfo as _;
    use procfs::process::{LimitValue, Process};

    let process = Process::myself().ok();
    let stat = process.as_ref().and_then(|process| process.stat().ok());
    let stat = stat.as_ref();
    let limits = process.as_ref().and_then(|process| process.limits().ok());
    // No limit is written as 0.
    let limit = |limit| if let LimitValue::Value(limit) = limit { limit } else { 0 };
    let seconds = |ticks: u64| ticks.checked_div(procfs::ticks_per_second());
    let start_time =
        stat.and_then(|stat| Some(procfs::boot_time_secs().ok()? + seconds(stat.starttime)?));
    let open_fds = process.as_ref().and_then(|process| process.fd_count().ok());
    [
        (
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            MetricType::Counter,
            stat.and_then(|stat| seconds(stat.utime + stat.stime)),
        ),
        (
            "process_open_fds",
            "Number of open file descriptors.",
            MetricType::Gauge,
            open_fds.and_then(|count| count.try_into().ok()),
        ),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            MetricType::Gauge,
            limits.as_ref().map(|limits| limit(limits.max_open_files.soft_limit)),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            MetricType::Gauge,
            stat.map(|stat| stat.vsize),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            MetricType::Gauge,
            limits.as_ref().map(|limits| limit(limits.max_address_space.soft_limit)),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            MetricType::Gauge,
            stat.map(|stat| stat.rss_bytes().get()),
        ),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            MetricType::Gauge,
            start_time,
        ),
        (
            "process_threads",
            "Number of OS threads in the process.",
            MetricType::Gauge,
            stat.and_then(|stat| stat.num_threads.try_into().ok()),
        ),
    ]
    .into_iter()
}

#[cfg(not(target_os = "linux"))]
fn system_metrics() -> impl Iterator<Item = Sample> {
    std::iter::empty()
}
