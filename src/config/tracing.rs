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
        let has_user = self.otlp_endpoint.as_ref().is_some_and(UpstreamUrl::has_user);
        let allowed = "must not contain a user; set a key in OTEL_EXPORTER_OTLP_HEADERS";
        mistakes.require("otlp_endpoint", !has_user, allowed);
        mistakes.require_range("sample_ratio", self.sample_ratio, 0.0..=1.0);
    }
}
