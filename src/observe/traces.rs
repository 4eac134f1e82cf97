//! Spans of requests, polls and calls, sent by OTLP to an OpenTelemetry collector where one is configured.
//!
//! Without an endpoint there are no spans, and the cost is reading a flag. Names and attributes are those of
//! OpenTelemetry's semantic conventions for HTTP (stable) and JSON-RPC (in development), and some of our own below
//! `gas_suggestion.`. No attribute has an upstream's URL. A client's `traceparent` is continued; upstreams receive no
//! trace headers. A layer of `tracing` exports the spans with the target `gas_suggestion::spans` and no others. The log
//! leaves them out, so that span attributes do not become fields of log lines.

mod otlp_client;

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Status, TraceContextExt, TraceId, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanExporter as _,
};
use tracing::{Instrument, error_span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry};

use super::http_client::check_service;
use super::redaction;
use crate::config::{self, UpstreamUrl};
use otlp_client::OtlpHttpClient;

/// Target of exported spans.
pub(crate) const TARGET: &str = "gas_suggestion::spans";

/// Layer that exports spans.
pub type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Export of this process's spans.
#[derive(Debug)]
#[must_use]
pub struct TraceExport(Option<SdkTracerProvider>);

/// Sets up tracing as `config` says. Call it once, in a runtime that outlives the returned value. The standard
/// variables `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` apply. Spans are exported
/// once the returned layer is in the log's subscriber; `None`: tracing is off.
///
/// # Errors
///
/// Fails if the HTTP client cannot be set up, or if the endpoint is unusable.
pub fn init(config: &config::Tracing) -> anyhow::Result<(TraceExport, Option<SpanLayer>)> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok((TraceExport(None), None)) };
    let exporter = exporter(endpoint)?;
    let resource = Resource::builder();
    let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => resource,
        None => resource.with_service_name(env!("CARGO_PKG_NAME")),
    };
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(batch_processor(exporter))
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
            config.sample_ratio,
        ))))
        .with_resource(resource.with_attribute(version).build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(env!("CARGO_PKG_NAME")))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO));
    Ok((TraceExport(Some(provider)), Some(layer.boxed())))
}

fn exporter(endpoint: &UpstreamUrl) -> anyhow::Result<SpanExporter> {
    let base = endpoint.expose().as_str().trim_end_matches('/');
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(OtlpHttpClient::new().context("cannot set up the HTTP client")?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{base}/v1/traces"))
        .build();
    // The error's text may contain the URL.
    exporter.map_err(|_| anyhow::anyhow!("tracing.otlp_endpoint cannot be used"))
}

/// Sends the collector an export without spans.
///
/// # Errors
///
/// Returns the reason why the collector cannot be used.
pub(crate) async fn check_collector(endpoint: &UpstreamUrl) -> Result<String, String> {
    let exporter = exporter(endpoint).map_err(|error| format!("{error:#}"))?;
    match exporter.export(Vec::new()).await {
        Ok(()) => Ok("takes spans".to_owned()),
        Err(error) => {
            // The exporter does not say why a server cannot be reached.
            let (upstream, url) = (config::Upstream::default(), endpoint.expose().to_string());
            check_service(&upstream, url, HeaderMap::new()).await?;
            Err(redaction::Redactor::new(endpoint.secrets()).redact_text(&error.to_string()))
        }
    }
}

/// Creates a processor that exports spans in batches and drops spans while its queue is full.
fn batch_processor(exporter: SpanExporter) -> BatchSpanProcessor {
    const MAX_QUEUED_SPANS: usize = 2048;
    const MAX_BATCH_SPANS: usize = 512;
    /// Delay until an incomplete batch is exported.
    const BATCH_DELAY: Duration = Duration::from_secs(1);
    // Explicit limits override environment variables, which the builder reads without validation.
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED_SPANS)
        .with_max_export_batch_size(MAX_BATCH_SPANS)
        .with_scheduled_delay(BATCH_DELAY);
    BatchSpanProcessor::builder(exporter).with_batch_config(limits.build()).build()
}

impl TraceExport {
    /// Exports pending spans until `stop_by`, at least for as long as a collector nearby needs, and at most for 3 s.
    pub async fn shutdown(self, stop_by: Option<Instant>) {
        const MIN_TIME: Duration = Duration::from_millis(100);
        const MAX_TIME: Duration = Duration::from_secs(3);
        if let Some(provider) = self.0 {
            let left = stop_by.map(|by| by.saturating_duration_since(Instant::now()));
            let timeout = left.unwrap_or(MAX_TIME).clamp(MIN_TIME, MAX_TIME);
            let sent = move || provider.shutdown_with_timeout(timeout);
            // A failed export has been logged already.
            let _ = tokio::task::spawn_blocking(sent).await;
        }
    }
}

/// A span, which ends when this is dropped. Does nothing while tracing is off.
#[derive(Debug)]
pub(crate) struct Span {
    span: tracing::Span,
    /// True if the outcome is recorded.
    has_outcome: bool,
}

impl From<tracing::Span> for Span {
    fn from(span: tracing::Span) -> Self {
        Self { span, has_outcome: false }
    }
}

impl Span {
    /// Starts the span of a client's request, within the client's trace if it has one.
    pub(crate) fn for_request<B>(request: &Request<B>) -> Self {
        let method = || known_method(request.method());
        let span = info_span!(
            target: TARGET,
            parent: None,
            "request",
            otel.name = method().unwrap_or("HTTP"),
            otel.kind = "server",
            http.request.method = method().unwrap_or("_OTHER"),
            http.request.method_original = method().is_none().then(|| request.method().as_str()),
            url.path = &*redaction::without_path_key(request.uri().path()),
            url.scheme = "http",
        );
        if !span.is_disabled() {
            // Fails only on a span that has started or that no layer exports.
            let _ = span.set_parent(parent_context(request.headers()));
        }
        span.into()
    }

    /// Starts the span of a poll of this chain.
    pub(crate) fn for_poll(chain: &str) -> Self {
        info_span!(target: TARGET, parent: None, "poll", gas_suggestion.chain = chain).into()
    }

    /// Starts the span of a JSON-RPC call to the node at this index, as a child of the current span.
    pub(crate) fn for_rpc_call(method: &str, chain_id: u64, upstream: usize) -> Self {
        info_span!(
            target: TARGET,
            "rpc",
            otel.name = method,
            otel.kind = "client",
            rpc.system.name = "jsonrpc",
            jsonrpc.protocol.version = "2.0",
            rpc.method = method,
            gas_suggestion.chain_id = to_i64(chain_id),
            gas_suggestion.upstream = to_i64(upstream),
        )
        .into()
    }

    /// Starts the span of a request to the upstream with this name, as a child of the current span.
    pub(crate) fn for_upstream_request(method: &Method, upstream: &'static str) -> Self {
        let method = || known_method(method).unwrap_or("_OTHER");
        info_span!(
            target: TARGET,
            "upstream",
            otel.name = method(),
            otel.kind = "client",
            http.request.method = method(),
            gas_suggestion.upstream = upstream,
        )
        .into()
    }

    /// Id of the span's trace.
    pub(crate) fn trace_id(&self) -> Option<TraceId> {
        let trace_id = || self.span.context().span().span_context().trace_id();
        // A log filter can enable the span without an exporter. Then it has no id.
        (!self.span.is_disabled()).then(trace_id).filter(|id| *id != TraceId::INVALID)
    }

    /// Runs `future` inside this span: child spans and log lines carry its trace id.
    pub(crate) fn instrument<F: Future>(
        &self,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        // At the highest level, so that every log line has it.
        let log_span = self.trace_id().map(|id| error_span!("trace", trace_id = %id));
        future
            .instrument(log_span.unwrap_or_else(tracing::Span::none))
            .instrument(self.span.clone())
    }

    /// Records the response to a request and the matched route, if any.
    pub(crate) fn record_response(
        &mut self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
    ) {
        if self.span.is_disabled() {
            return;
        }
        if let Some(route) = route {
            let name = format!("{} {route}", known_method(method).unwrap_or("HTTP"));
            // `tracing` cannot rename a span that has started.
            self.span.context().span().update_name(name);
            self.span.set_attribute("http.route", route.to_owned());
        }
        // Client errors are not errors of the server (semantic conventions, HTTP spans).
        self.record_http_status(status, status.is_server_error());
    }

    /// Records the status of an upstream's response.
    pub(crate) fn record_status(&mut self, status: StatusCode) {
        self.record_http_status(status, status.is_client_error() || status.is_server_error());
    }

    fn record_http_status(&mut self, status: StatusCode, is_error: bool) {
        self.span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
        if is_error {
            self.record_failure(status.as_str());
        } else {
            self.has_outcome = true;
        }
    }

    /// Records a success.
    pub(crate) fn record_success(&mut self) {
        self.has_outcome = true;
    }

    /// Records a failure with a reason from a closed list.
    pub(crate) fn record_failure(&mut self, reason: &str) {
        self.has_outcome = true;
        if self.span.is_disabled() {
            return;
        }
        self.span.set_attribute("error.type", reason.to_owned());
        self.span.set_status(Status::error(reason.to_owned()));
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if !self.has_outcome {
            // Dropped before an outcome: the client disconnected or a deadline passed.
            self.record_failure("cancelled");
        }
    }
}

/// Returns the trace context of a request's headers (W3C Trace Context).
fn parent_context(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers))
}

/// Returns the method if the semantic conventions know it.
fn known_method(method: &Method) -> Option<&'static str> {
    const KNOWN: [&str; 9] =
        ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
    KNOWN.into_iter().find(|known| *known == method.as_str())
}

/// Converts to OpenTelemetry's integers, which are signed; all values here fit.
fn to_i64(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
