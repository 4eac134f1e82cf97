//! The `[verification]` section.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::mistakes::SectionMistakes;
use crate::config::units;
use crate::config::upstream_url::{UpstreamUrl, optional};

/// Source code verification of contracts (Sourcify), and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verification {
    /// Base URL of the verification service; `None`, written `""`: none.
    #[serde(with = "optional")]
    pub url: Option<UpstreamUrl>,
    /// Time from a request's headers to the last byte of the response. Includes the compilation.
    #[serde(with = "units::duration")]
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
    const MAX_BODY: usize = 1024 * 1024 * 1024;
    const MAX_IN_FLIGHT: usize = 65_536;
    const MAX_TIMEOUT: Duration = Duration::from_hours(1);

    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        if let Some(Err(allowed)) = self.url.as_ref().map(UpstreamUrl::check_base_url) {
            mistakes.reject("url", allowed);
        }
        if self.timeout.is_zero() || self.timeout > Self::MAX_TIMEOUT {
            mistakes.reject("timeout", "must be above 0s and at most 1h");
        }
        if !(1..=Self::MAX_BODY).contains(&self.max_body) {
            mistakes.reject("max_body", "must be from 1 B to 1024 MiB");
        }
        if self.max_in_flight.get() > Self::MAX_IN_FLIGHT {
            mistakes.reject("max_in_flight", "must be from 1 to 65536");
        }
    }
}
