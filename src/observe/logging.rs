//! Logs, to standard error.
//!
//! A thread writes them from a bounded queue. If the output blocks and the queue is full, lines are dropped and
//! counted: a full pipe does not block the service.

use std::convert::Infallible;
use std::io::{BufWriter, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

use super::traces;
use super::traces::SpanLayer;
use crate::config::{Log, LogFormat};

/// Capacity of the queue in lines: about 2 MiB, and at most 8 MiB if every path has the maximum length.
const MAX_QUEUED_LINES: usize = 8 * 1024;

/// Lines dropped because the queue was full or a write failed.
static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);

/// Waits until all lines are written when dropped, for a second at most.
#[derive(Debug)]
#[must_use]
pub struct LogGuard {
    queue: Queue,
    /// Closed when the last line was written.
    written: Receiver<Infallible>,
}

/// Where lines wait for the thread that writes them. `None` ends it.
#[derive(Debug, Clone)]
struct Queue(Sender<Option<Vec<u8>>>);

/// Sets up logging for the process until the returned guard is dropped, and the export of spans by `spans`. Call it
/// once, before anything is logged.
///
/// # Errors
///
/// Fails if logging is set up already.
pub fn init(config: &Log, spans: Option<SpanLayer>) -> Result<LogGuard, TryInitError> {
    // The configuration check has validated the filter.
    let filter = config.directives().unwrap_or_default();
    // At `debug` this library logs the hosts that it connects to. No part of a URL may be logged.
    let filter = filter.with_target("hyper_util", LevelFilter::INFO);
    // Exported spans are not for log lines; without an exporter they cost nothing.
    let filter = filter.with_target(traces::TARGET, LevelFilter::OFF);
    let (sender, queued) = bounded(MAX_QUEUED_LINES);
    let (end, written) = bounded(0);
    thread::spawn(move || write_lines(&queued, end));
    let guard = LogGuard { queue: Queue(sender), written };
    let queue = guard.queue.clone();
    let lines = fmt::layer().with_writer(move || queue.clone());
    let lines = match config.format {
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&stderr());
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
    DROPPED_LINES.load(Ordering::Relaxed)
}

/// Writes lines until `None`. Those that arrive together are one write.
fn write_lines(queued: &Receiver<Option<Vec<u8>>>, _end: Sender<Infallible>) {
    let mut output = BufWriter::new(stderr());
    while let Ok(Some(line)) = queued.recv() {
        let mut written = output.write_all(&line);
        if queued.is_empty() {
            written = written.and(output.flush());
        }
        if written.is_err() {
            DROPPED_LINES.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Write for Queue {
    // Each write is one line.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.0.try_send(Some(line.to_vec())).is_err() {
            DROPPED_LINES.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        if self.queue.0.send_deadline(None, deadline).is_ok() {
            let _ended = self.written.recv_deadline(deadline);
        }
    }
}
