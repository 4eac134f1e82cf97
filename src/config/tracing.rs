//! The `[tracing]` section.

use serde::{Deserialize, Serialize};

use super::mistakes::SectionMistakes;
use super::secret_url::{UpstreamUrl, optional};

/// Export of spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tracing {
    /// Base URL of the OpenTelemetry collector, which receives OTLP over HTTP at `/v1/traces`; `None`, written `""`: no
    /// tracing.
    #[serde(with = "optional")]
    pub otlp_endpoint: Option<UpstreamUrl>,
    /// Share of traces started here that are sent. For a trace that a client started, the client's sampling decision
    /// applies.
    pub sample_ratio: f64,
}

impl Default for Tracing {
    fn default() -> Self {
        Self { otlp_endpoint: None, sample_ratio: 1.0 }
    }
}

impl Tracing {
    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        if let Some(Err(allowed)) = self.otlp_endpoint.as_ref().map(UpstreamUrl::check_base_url) {
            mistakes.reject("otlp_endpoint", allowed);
        }
        let has_user = |url: &UpstreamUrl| {
            !url.expose().username().is_empty() || url.expose().password().is_some()
        };
        if self.otlp_endpoint.as_ref().is_some_and(has_user) {
            let allowed = "must not contain a user; set a key in OTEL_EXPORTER_OTLP_HEADERS";
            mistakes.reject("otlp_endpoint", allowed);
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            mistakes.reject("sample_ratio", "must be from 0 to 1");
        }
    }
}
