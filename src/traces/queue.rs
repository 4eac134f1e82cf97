//! Bounded queue of spans that counts dropped spans.
//!
//! The SDK's own bound drops spans without counting them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use crate::log_on_change::LogOnChange;

/// Spans waiting for export. Further ones are dropped.
const MAX_QUEUED_SPANS: usize = 2048;
const MAX_BATCH_SPANS: usize = 512;
/// Delay until an incomplete batch is exported.
const BATCH_DELAY: Duration = Duration::from_secs(1);

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Number of spans that this process has dropped.
pub(super) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Creates a processor that exports spans in batches.
pub(super) fn batch_processor<E: SpanExporter + 'static>(
    exporter: E,
) -> impl SpanProcessor + 'static {
    let queued = Arc::<AtomicUsize>::default();
    // The builder's default would read environment variables without validation.
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED_SPANS)
        .with_max_export_batch_size(MAX_BATCH_SPANS)
        .with_scheduled_delay(BATCH_DELAY)
        .build();
    let exporter = CountingExporter { exporter, queued: Arc::clone(&queued) };
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    BoundedProcessor { batches, queued, drop_log: LogOnChange::default() }
}

#[derive(Debug)]
struct BoundedProcessor {
    batches: BatchSpanProcessor,
    queued: Arc<AtomicUsize>,
    drop_log: LogOnChange,
}

/// An exporter that counts the spans which leave the queue.
#[derive(Debug)]
struct CountingExporter<E> {
    exporter: E,
    queued: Arc<AtomicUsize>,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queued.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED_SPANS {
            self.batches.on_end(span);
            return;
        }
        self.queued.fetch_sub(1, Ordering::Relaxed);
        DROPPED.fetch_add(1, Ordering::Relaxed);
        // Logged once, because it comes and goes with the load.
        let reason = "queue_full";
        if self.drop_log.changed_to(Err(reason)) {
            tracing::warn!(reason, "spans dropped");
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let outcome = self.exporter.export(batch).await;
        self.queued.fetch_sub(count, Ordering::Relaxed);
        if outcome.is_err() {
            DROPPED.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
