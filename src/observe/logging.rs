//! Logs, to standard error.
//!
//! A thread writes them from a bounded queue. If the output blocks and the queue is full, lines are dropped and
//! counted: a full pipe does not block the service.

use std::io::{BufWriter, Stderr, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

use super::traces;
use super::traces::SpanLayer;
use crate::config::{Log, LogFormat};

/// Capacity of the queue in lines: about 2 MiB, and at most 8 MiB if every path has the maximum length.
const MAX_QUEUED_LINES: usize = 8 * 1024;

/// Lines dropped because the queue was full.
static QUEUE_OVERFLOWS: OnceLock<ErrorCounter> = OnceLock::new();
/// Lines dropped because a write failed.
static WRITE_FAILURES: AtomicU64 = AtomicU64::new(0);

/// Sets up logging for the process until the returned guard is dropped, and the export of spans by `spans`. Call it
/// once, before anything is logged. The guard then writes pending lines, for about a second if the output blocks.
///
/// # Errors
///
/// Fails if logging is set up already.
pub fn init(config: &Log, spans: Option<SpanLayer>) -> Result<WorkerGuard, TryInitError> {
    // The configuration check has validated the filter.
    let filter = config.directives().unwrap_or_default();
    // At `debug` this library logs the hosts that it connects to. No part of a URL may be logged.
    let filter = filter.with_target("hyper_util", LevelFilter::INFO);
    // Exported spans are not for log lines; without an exporter they cost nothing.
    let filter = filter.with_target(traces::TARGET, LevelFilter::OFF);
    let builder = NonBlockingBuilder::default().buffered_lines_limit(MAX_QUEUED_LINES);
    // The buffer combines lines that arrive together into one write.
    let stderr = BufWriter::new(std::io::stderr());
    let (writer, guard) = builder.finish(CountingWriter { inner: stderr, pending: 0 });
    QUEUE_OVERFLOWS.get_or_init(|| writer.error_counter());
    let lines = fmt::layer().with_writer(writer);
    let lines = match config.format {
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(is_terminal).boxed()
        }
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // With an `Option` as layer, each disabled span would be checked again every time.
    let mut layers = vec![lines.with_filter(filter).boxed()];
    layers.extend(spans);
    tracing_subscriber::registry().with(layers).try_init()?;
    Ok(guard)
}

/// Returns the number of log lines that this process has dropped.
pub(crate) fn dropped_lines() -> u64 {
    let count = QUEUE_OVERFLOWS.get().map_or(0, ErrorCounter::dropped_lines);
    u64::try_from(count).unwrap_or(u64::MAX).saturating_add(WRITE_FAILURES.load(Ordering::Relaxed))
}

/// Writer that counts lines that cannot be written, because the reader has gone or the disk is full.
struct CountingWriter {
    inner: BufWriter<Stderr>,
    /// Lines since the last flush.
    pending: u64,
}

impl Write for CountingWriter {
    // Each write is one line.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.inner.write_all(line).inspect_err(|_| {
            WRITE_FAILURES.fetch_add(1, Ordering::Relaxed);
        })?;
        self.pending = self.pending.saturating_add(1);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.inner.flush().inspect_err(|_| {
            WRITE_FAILURES.fetch_add(pending, Ordering::Relaxed);
        })
    }
}
