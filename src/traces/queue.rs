//! Bounds the spans that are on their way, and counts those that are lost.
//!
//! The SDK has a bound of its own, which says nothing when it is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use crate::news::News;

/// Spans that wait to be sent; more are lost.
const MAX_WAITING: usize = 2048;
const MAX_BATCH: usize = 512;
/// Between two batches, where there are not enough for one.
const DELAY: Duration = Duration::from_secs(1);

static LOST: AtomicU64 = AtomicU64::new(0);

/// How many spans of this process were lost so far.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Sends spans with `exporter`, many at a time.
pub(super) fn to<E: SpanExporter + 'static>(exporter: E) -> impl SpanProcessor + 'static {
    let waiting = Arc::<AtomicUsize>::default();
    // By itself it would believe variables, which nobody checks.
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_WAITING)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let exporter = Counted { exporter, waiting: Arc::clone(&waiting) };
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    Queue { batches, waiting, news: News::default() }
}

#[derive(Debug)]
struct Queue {
    batches: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    news: News,
}

/// An exporter that says when spans do not wait any more.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            self.batches.on_end(span);
            return;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        LOST.fetch_add(1, Ordering::Relaxed);
        // Once: it comes and goes with the load.
        let reason = "no_place";
        if self.news.is(Err(reason)) {
            tracing::warn!(reason, "spans are lost");
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

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let outcome = self.exporter.export(batch).await;
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        if outcome.is_err() {
            LOST.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
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
