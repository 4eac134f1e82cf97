//! A mock OpenTelemetry collector that records spans.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use alloy_primitives::hex;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message;
use tokio::task::JoinHandle;

use crate::test_server::{serve, wait_until};

/// A collector on a free loopback port. Stopped when dropped.
#[derive(Debug)]
pub(crate) struct MockCollector {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    pub(crate) requests: usize,
    pub(crate) spans: Vec<Span>,
    violations: Vec<String>,
    /// Attributes of the resource, the same for all spans.
    pub(crate) resource: BTreeMap<String, String>,
}

/// A received span. Ids are hex.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    /// 1: internal, 2: server, 3: client.
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for a root span.
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Status message of a span with error status.
    pub(crate) error: Option<String>,
}

impl MockCollector {
    pub(crate) async fn start() -> Self {
        let received = Arc::<Mutex<Received>>::default();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&received));
        let (address, task) = serve(app).await;
        Self { address, received, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }

    /// Waits for a span that satisfies `as_expected`.
    pub(crate) async fn wait_for(&self, as_expected: impl Fn(&Span) -> bool) -> Span {
        let find = || self.received().spans.into_iter().find(|span| as_expected(span));
        wait_until("a span arrives", async || find().is_some()).await;
        find().unwrap()
    }
}

impl Drop for MockCollector {
    fn drop(&mut self) {
        self.task.abort();
        let violations = &self.received.lock().unwrap().violations;
        assert!(violations.is_empty() || std::thread::panicking(), "{violations:#?}");
    }
}

async fn receive(State(received): State<Arc<Mutex<Received>>>, request: Request) -> StatusCode {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut received = received.lock().unwrap();
    received.requests += 1;
    let is_export = parts.method == Method::POST
        && parts.uri == "/v1/traces"
        && parts.headers.get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let export = ExportTraceServiceRequest::decode(body);
    let (true, Ok(export)) = (is_export, export) else {
        received.violations.push(format!("{parts:?}"));
        return StatusCode::BAD_REQUEST;
    };
    for resource_spans in export.resource_spans {
        received.resource = texts(&resource_spans.resource.unwrap().attributes);
        let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
        received.spans.extend(spans.map(|span| {
            assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
            let status = span.status.filter(|status| status.code == 2);
            Span {
                name: span.name,
                kind: span.kind,
                trace: hex::encode(&span.trace_id),
                id: hex::encode(&span.span_id),
                parent: hex::encode(&span.parent_span_id),
                attributes: texts(&span.attributes),
                error: status.map(|status| status.message),
            }
        }));
    }
    StatusCode::OK
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let text = match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
            any_value::Value::StringValue(text) => text.clone(),
            any_value::Value::IntValue(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key.clone(), text)
    };
    attributes.iter().map(text).collect()
}
