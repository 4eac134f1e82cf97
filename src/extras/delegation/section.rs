//! The `[delegation]` section.

use std::num::NonZeroUsize;
use std::time::Duration;

use alloy_primitives::{Address, address};
use axum::http::{HeaderMap, HeaderValue};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::api_client::X_API_KEY;
use crate::config::address as address_text;
use crate::config::layers::Layers;
use crate::config::mistakes::SectionMistakes;
use crate::config::secret::Secret;
use crate::config::secret_url::{MIN_KEY_LENGTH, UpstreamUrl, encoded_variants, optional};
use crate::config::section::{Finding, Needs, Section};
use crate::config::{Chain, SectionKind, TableKeys, Upstream};
use crate::observe::http_client;

/// Look-ups of delegations (delegate.xyz).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DelegationSection {
    /// Source of look-ups.
    pub source: DelegationSource,
    /// Base URL of the REST API, which has `/registry/v2/…`.
    pub api_url: UpstreamUrl,
    /// `X-API-KEY` for requests whose client sends none; `None`, also written `""`: no key, and the public rate limit
    /// applies.
    #[serde(deserialize_with = "optional::deserialize")]
    pub api_key: Option<Secret>,
    /// Time from the start of a request to the API to the last byte of the response.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Time for which a response of the API is cached; `0s`: not at all.
    #[serde(with = "humantime_serde")]
    pub cache_ttl: Duration,
    /// Concurrent requests to the API. Further ones are refused, or answered by the chain, at once.
    pub max_in_flight: NonZeroUsize,
    /// The registry contract, on every chain.
    #[serde(with = "address_text")]
    pub registry_address: Address,
}

/// Source of delegation look-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DelegationSource {
    /// The REST API.
    Api,
    /// The registry contract.
    Chain,
    /// The REST API, with the registry contract as fallback.
    ApiThenChain,
    /// No source: the routes do not exist.
    Off,
}

impl Default for DelegationSection {
    fn default() -> Self {
        Self {
            source: DelegationSource::Off,
            api_url: "https://api.delegate.xyz".parse().expect("a URL"),
            api_key: None,
            timeout: Duration::from_secs(5),
            cache_ttl: Duration::from_secs(5),
            max_in_flight: NonZeroUsize::new(128).expect("not 0"),
            registry_address: address!("0x00000000000000447e69651d841bD8D104Bed493"),
        }
    }
}

impl DelegationSection {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys {
        texts: &["api_key"],
        network_keys: &["source"],
        ..TableKeys::table("delegation")
    });
    const MAX_CACHE_TTL: Duration = Duration::from_hours(1);

    /// Secrets for the redactor.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets = self.api_url.secrets();
        secrets.extend(self.encoded_key_variants(MIN_KEY_LENGTH));
        secrets
    }

    /// Returns the key in the encodings in which it may appear, if it has at least `min_length` characters.
    pub(crate) fn encoded_key_variants(&self, min_length: usize) -> Vec<String> {
        let key = self.api_key.iter().map(Secret::expose);
        key.filter(|key| key.len() >= min_length).flat_map(encoded_variants).collect()
    }

    /// Returns the key as a header that is not logged; `None`: there is none, or it is not ASCII without spaces.
    pub(crate) fn key_header(&self) -> Option<HeaderValue> {
        let text = self.api_key.as_ref()?.expose();
        let is_key = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut header = HeaderValue::from_str(text).ok().filter(|_| is_key)?;
        header.set_sensitive(true);
        Some(header)
    }
}

impl Section for DelegationSection {
    fn check(&self, mistakes: &mut SectionMistakes) {
        if let Err(allowed) = self.api_url.check_base_url() {
            mistakes.reject("api_url", allowed);
        }
        if self.api_key.is_some() && self.key_header().is_none() {
            let allowed = "expected a key of ASCII characters without spaces (not shown)";
            mistakes.reject("api_key", allowed);
        }
        mistakes.check_timeout("timeout", self.timeout);
        if self.cache_ttl > Self::MAX_CACHE_TTL {
            mistakes.reject("cache_ttl", "must be at most 1h");
        }
        mistakes.check_count("max_in_flight", self.max_in_flight);
        if self.registry_address.is_zero() {
            mistakes.reject("registry_address", "must not be the zero address");
        }
    }

    /// Notes keys that have no effect, because look-ups are off.
    fn notes(&self, _: &[Chain], layers: &Layers) -> Vec<String> {
        let is_set = |key: &str| layers.is_configured(&["delegation", key]);
        let keys = ["api_url", "api_key", "registry_address"].into_iter().find(|key| is_set(key));
        let is_off = self.source == DelegationSource::Off && !is_set("source");
        let note = |key| {
            format!("delegation.{key} has no effect: set delegation.source to switch look-ups on")
        };
        keys.filter(|_| is_off).map(note).into_iter().collect()
    }

    /// Asks for the delegations of an address that has none.
    fn check_service<'a>(&'a self, upstream: &'a Upstream) -> Option<(&'static str, Finding<'a>)> {
        if !matches!(self.source, DelegationSource::Api | DelegationSource::ApiThenChain) {
            return None;
        }
        let finding = async {
            let base = self.api_url.expose().as_str().trim_end_matches('/');
            let url = format!("{base}/registry/v2/{}", Address::ZERO);
            let key = self.key_header().map(|key| (X_API_KEY, key));
            http_client::check_service(upstream, url, HeaderMap::from_iter(key)).await
        };
        Some(("api_url", finding.boxed()))
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
    fn the_built_in_values_are_the_defaults_but_for_the_source() {
        let built_in = section::built_in::<DelegationSection>(DelegationSection::SECTION);
        assert_eq!(built_in.source, DelegationSource::Api);
        let without_source = DelegationSection { source: DelegationSource::Off, ..built_in };
        assert_eq!(without_source, DelegationSection::default());
    }
}
