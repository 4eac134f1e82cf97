//! Metrics of the whole process, read at scrape time.

use std::{fmt, iter};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType::{Counter, Gauge};

use crate::observe::logging;

#[derive(Debug)]
pub(crate) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encoder
            .encode_descriptor(
                "gas_suggestion_build_info",
                "1 for the running version",
                None,
                Gauge,
            )?
            .encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?
            .encode_gauge(&1)?;
        let dropped_lines: Sample = (
            "gas_suggestion_log_lines_dropped_total",
            "Log lines dropped because the buffer was full or a write failed",
            Some(logging::dropped_lines()),
        );
        for (name, help, value) in iter::once(dropped_lines).chain(system_metrics()) {
            let Some(value) = value else { continue };
            let metric_type = if name.ends_with("_total") { Counter } else { Gauge };
            encoder.encode_descriptor(name, help, None, metric_type)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// Name, help text and value of a metric. `None`: the system does not provide the value.
type Sample = (&'static str, &'static str, Option<u64>);

#[cfg(target_os = "linux")]
fn system_metrics() -> impl IntoIterator<Item = Sample> {
    use std::fs;

    use procfs_core::FromRead as _;
    use procfs_core::process::{Limit, LimitValue, Limits, Stat, Status};

    // `USER_HZ`, which is 100 on every architecture of Linux that Rust's standard library supports.
    const TICKS_PER_SECOND: u64 = 100;

    let stat = Stat::from_file("/proc/self/stat").ok();
    let stat = stat.as_ref();
    let status = Status::from_file("/proc/self/status").ok();
    let limits = Limits::from_file("/proc/self/limits").ok();
    // No limit is written as 0.
    let limit =
        |limit: Limit| if let LimitValue::Value(value) = limit.soft_limit { value } else { 0 };
    let max_fds = limits.as_ref().map(|limits| limit(limits.max_open_files));
    let max_memory = limits.as_ref().map(|limits| limit(limits.max_address_space));
    let cpu = stat.map(|stat| (stat.utime + stat.stime) / TICKS_PER_SECOND);
    let system = fs::read_to_string("/proc/stat").ok();
    let booted_at = system.and_then(|stat| {
        stat.lines().find_map(|line| line.strip_prefix("btime "))?.parse::<u64>().ok()
    });
    let started_at =
        stat.zip(booted_at).map(|(stat, boot)| boot + stat.starttime / TICKS_PER_SECOND);
    let fds = fs::read_dir("/proc/self/fd").ok().and_then(|fds| fds.count().try_into().ok());
    let memory = stat.map(|stat| stat.vsize);
    let resident = status.and_then(|status| Some(status.vmrss? * 1024));
    let threads = stat.and_then(|stat| stat.num_threads.try_into().ok());
    [
        ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu),
        ("process_open_fds", "Number of open file descriptors.", fds),
        ("process_max_fds", "Maximum number of open file descriptors.", max_fds),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", memory),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            max_memory,
        ),
        ("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started_at,
        ),
        ("process_threads", "Number of OS threads in the process.", threads),
    ]
}

#[cfg(not(target_os = "linux"))]
fn system_metrics() -> impl IntoIterator<Item = Sample> {
    []
}
