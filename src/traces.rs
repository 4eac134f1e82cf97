//! Spans of requests, polls and calls, sent by OTLP to an OpenTelemetry collector where one is configured.
//!
//! Without an endpoint there are no spans, and the cost is reading a flag. Names and attributes are those of
//! OpenTelemetry's semantic conventions for HTTP (stable) and JSON-RPC (in development), and some of our own below
//! `gas_suggestion.`. No attribute has an upstream's URL. A client's `traceparent` is continued; upstreams receive no
//! trace headers. The code uses OpenTelemetry's API rather than a bridge from `tracing`, so that span attributes do not
//! become fields of log lines.

mod otlp_client;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use futures_util::future::Either;
use opentelemetry::context::FutureExt;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, TraceId, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use tracing::Instrument;

use crate::config;
use otlp_client::OtlpHttpClient;

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Export of this process's spans.
#[derive(Debug)]
#[must_use]
pub struct TraceExport(Option<SdkTracerProvider>);

/// Sets up tracing as `config` says. Call it once, in a runtime that outlives the returned value. The standard
/// variables `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` apply.
///
/// # Errors
///
/// Fails if the HTTP client cannot be set up, or if the endpoint is unusable.
pub fn init(config: &config::Tracing) -> anyhow::Result<TraceExport> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(TraceExport(None)) };
    let base = endpoint.expose().as_str().trim_end_matches('/');
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(OtlpHttpClient::new().context("cannot set up the HTTP client")?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{base}/v1/traces"))
        // The error's text may contain the URL.
        .build()
        .map_err(|_| anyhow::anyhow!("tracing.otlp_endpoint cannot be used"))?;
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
    TRACER.get_or_init(|| provider.tracer(env!("CARGO_PKG_NAME")));
    Ok(TraceExport(Some(provider)))
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
    /// Exports pending spans, for a few seconds at most.
    pub async fn shutdown(self) {
        const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
        if let Some(provider) = self.0 {
            let sent = move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
            // A failed export has been logged already.
            let _ = tokio::task::spawn_blocking(sent).await;
        }
    }
}

/// A span, which ends when this is dropped. Does nothing while tracing is off.
#[derive(Debug, Default)]
pub(crate) struct Span {
    context: Option<Context>,
    /// True if the outcome is recorded.
    has_outcome: bool,
}

impl Span {
    /// Starts the span of a client's request, within the client's trace if it has one.
    pub(crate) fn for_request<B>(request: &Request<B>) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::default() };
        let parent = parent_context(request.headers());
        let method = known_method(request.method());
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.unwrap_or("_OTHER")),
            KeyValue::new("url.path", request.uri().path().to_owned()),
            KeyValue::new("url.scheme", "http"),
        ];
        if method.is_none() {
            attributes
                .push(KeyValue::new("http.request.method_original", request.method().to_string()));
        }
        Self::start(tracer, method.unwrap_or("HTTP").into(), SpanKind::Server, attributes, &parent)
    }

    /// Starts the span of a poll of this chain.
    pub(crate) fn for_poll(chain: &str) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::default() };
        let attributes = vec![KeyValue::new("gas_suggestion.chain", chain.to_owned())];
        Self::start(tracer, "poll".into(), SpanKind::Internal, attributes, &Context::new())
    }

    /// Starts the span of a JSON-RPC call to the node at this index, as a child of the current span.
    pub(crate) fn for_rpc_call(method: &str, chain_id: u64, upstream: usize) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::default() };
        let attributes = vec![
            KeyValue::new("rpc.system.name", "jsonrpc"),
            KeyValue::new("jsonrpc.protocol.version", "2.0"),
            KeyValue::new("rpc.method", method.to_owned()),
            number_attribute("gas_suggestion.chain_id", chain_id),
            number_attribute("gas_suggestion.upstream", upstream),
        ];
        let parent = Context::current();
        Self::start(tracer, method.to_owned(), SpanKind::Client, attributes, &parent)
    }

    /// Starts the span of a request to the upstream with this name, as a child of the current span.
    pub(crate) fn for_upstream_request(method: &Method, upstream: &'static str) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::default() };
        let method = known_method(method).unwrap_or("_OTHER");
        let attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("gas_suggestion.upstream", upstream),
        ];
        let parent = Context::current();
        Self::start(tracer, method.to_owned(), SpanKind::Client, attributes, &parent)
    }

    fn start(
        tracer: &SdkTracer,
        name: String,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        parent: &Context,
    ) -> Self {
        let span = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let span = span.start_with_context(tracer, parent);
        Self { context: Some(parent.with_span(span)), has_outcome: false }
    }

    /// Id of the span's trace.
    pub(crate) fn trace_id(&self) -> Option<TraceId> {
        let context = self.context.as_ref()?;
        Some(context.span().span_context().trace_id())
    }

    /// Runs `future` inside this span: child spans and log lines carry its trace id.
    pub(crate) fn instrument<F: Future>(
        &self,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let Some(context) = &self.context else { return Either::Left(future) };
        let id = self.trace_id().unwrap_or(TraceId::INVALID);
        // At the highest level, so that every log line has it.
        let future = future.instrument(tracing::error_span!("trace", trace_id = %id));
        Either::Right(future.with_context(context.clone()))
    }

    /// Records the response to a request and the matched route, if any.
    pub(crate) fn record_response(
        &mut self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
    ) {
        let Some(context) = &self.context else { return };
        let span = context.span();
        if let Some(route) = route {
            span.update_name(format!("{} {route}", known_method(method).unwrap_or("HTTP")));
            span.set_attribute(KeyValue::new("http.route", route.to_owned()));
        }
        span.set_attribute(number_attribute("http.response.status_code", status.as_u16()));
        // Client errors are not errors of the server (semantic conventions, HTTP spans).
        self.record_outcome(status, status.is_server_error());
    }

    /// Records the status of an upstream's response.
    pub(crate) fn record_status(&mut self, status: StatusCode) {
        let Some(context) = &self.context else { return };
        context
            .span()
            .set_attribute(number_attribute("http.response.status_code", status.as_u16()));
        self.record_outcome(status, status.is_client_error() || status.is_server_error());
    }

    fn record_outcome(&mut self, status: StatusCode, is_error: bool) {
        if is_error {
            self.record_failure(&status.as_u16().to_string());
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
        let Some(context) = &self.context else { return };
        let span = context.span();
        span.set_attribute(KeyValue::new("error.type", reason.to_owned()));
        span.set_status(Status::error(reason.to_owned()));
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if !self.has_outcome {
            // Dropped before an outcome: the client disconnected or a deadline passed.
            self.record_failure("cancelled");
        }
        if let Some(context) = &self.context {
            context.span().end();
        }
    }
}

/// Runs `future` within the current span, for a new task.
pub(crate) fn with_current_context<F: Future>(
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    match TRACER.get() {
        Some(_) => Either::Right(future.with_context(Context::current())),
        None => Either::Left(future),
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

/// Creates an integer attribute. OpenTelemetry's integers are signed; all values here fit.
fn number_attribute(name: &'static str, value: impl TryInto<i64>) -> KeyValue {
    KeyValue::new(name, value.try_into().unwrap_or(i64::MAX))
}
