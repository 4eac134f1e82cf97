//! The `[verification]` section.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::http::HeaderMap;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use crate::config::mistakes::SectionMistakes;
use crate::config::secret_url::{UpstreamUrl, optional};
use crate::config::section::{Finding, Needs, Section};
use crate::config::{Chain, SectionKind, TableKeys, Upstream, units};
use crate::observe::http_client;

/// Source code verification of contracts (Sourcify), and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Verification {
    /// Base URL of the verification service; `None`, written `""`: none.
    #[serde(with = "optional")]
    pub url: Option<UpstreamUrl>,
    /// Time from a request's headers to the last byte of the response. Includes the compilation.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Largest request body in bytes.
    #[serde(with = "units::size")]
    pub max_body: usize,
    /// Concurrent requests. Further ones are refused at once.
    pub max_in_flight: NonZeroUsize,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            url: None,
            timeout: Duration::from_mins(3),
            max_body: 32 * 1024 * 1024,
            max_in_flight: NonZeroUsize::new(128).expect("not 0"),
        }
    }
}

impl Verification {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys {
        network_keys: &["url"],
        ..TableKeys::table("verification")
    });
    const MAX_BODY: usize = 1024 * 1024 * 1024;
}

impl Section for Verification {
    fn check(&self, mistakes: &mut SectionMistakes) {
        if let Some(Err(allowed)) = self.url.as_ref().map(UpstreamUrl::check_base_url) {
            mistakes.reject("url", allowed);
        }
        mistakes.check_timeout("timeout", self.timeout);
        if !(1..=Self::MAX_BODY).contains(&self.max_body) {
            mistakes.reject("max_body", "must be from 1 B to 1024 MiB");
        }
        mistakes.check_count("max_in_flight", self.max_in_flight);
    }

    fn check_service<'a>(&'a self, upstream: &'a Upstream) -> Option<(&'static str, Finding<'a>)> {
        let url = self.url.as_ref()?.expose().as_str().trim_end_matches('/');
        let finding = async move {
            http_client::check_service(upstream, format!("{url}/health"), HeaderMap::new()).await
        };
        Some(("url", finding.boxed()))
    }

    fn needs(&self, _: &[Chain]) -> Needs {
        Needs { connections: self.max_in_flight.get(), ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::section;

    #[test]
    fn the_built_in_values_are_the_defaults_but_for_the_url() {
        let built_in = section::built_in::<Verification>(Verification::SECTION);
        let url = built_in.url.clone().unwrap();
        assert_eq!(url.expose().as_str(), "https://sourcify.roninchain.com/server");
        assert_eq!(Verification { url: None, ..built_in }, Verification::default());
    }
}
