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

    use rustix::process::{Resource, getrlimit};

    // `USER_HZ`, which is 100 on every architecture of Linux that Rust's standard library supports.
    const TICKS_PER_SECOND: u64 = 100;

    let stat = fs::read_to_string("/proc/self/stat").ok();
    // The name of the program, in brackets, may have spaces. The next field is the third.
    let fields: Option<Vec<&str>> =
        stat.as_ref().and_then(|stat| Some(stat.rsplit_once(')')?.1.split(' ').collect()));
    let field = |number: usize| fields.as_ref()?.get(number - 2)?.parse::<u64>().ok();
    let ticks = |ticks: u64| ticks / TICKS_PER_SECOND;
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    // No limit is written as 0.
    let limit = |resource| Some(getrlimit(resource).current.unwrap_or_default());
    let cpu = field(14).zip(field(15)).map(|(user, system)| ticks(user + system));
    let started_at = line("/proc/stat", "btime").zip(field(22));
    let started_at = started_at.map(|(boot, start)| boot + ticks(start));
    let fds = fs::read_dir("/proc/self/fd").ok().and_then(|fds| fds.count().try_into().ok());
    let resident = line("/proc/self/status", "VmRSS:").map(|kibibytes| kibibytes * 1024);
    [
        ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu),
        ("process_open_fds", "Number of open file descriptors.", fds),
        ("process_max_fds", "Maximum number of open file descriptors.", limit(Resource::Nofile)),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", field(23)),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            limit(Resource::As),
        ),
        ("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started_at,
        ),
        ("process_threads", "Number of OS threads in the process.", field(20)),
    ]
}

#[cfg(not(target_os = "linux"))]
fn system_metrics() -> impl IntoIterator<Item = Sample> {
    []
}
