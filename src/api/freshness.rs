//! Age and cache lifetime of a response, as headers.
//!
//! A browser gives out a copy within `stale-while-revalidate` without a word, so `Cache-Control` lets it keep a response
//! until the next block is due and no longer. Shared caches may bridge a restart of the service with an older copy
//! (`CDN-Cache-Control`, RFC 9213).

use std::time::SystemTime;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use httpdate::HttpDate;
use serde::Serialize;

use crate::etag;
use crate::fees::plausibility::Doubt;
use crate::store::{ServableSnapshot, StoredChain};

pub(super) const X_NEWEST_BLOCK: HeaderName = HeaderName::from_static("x-newest-block");
pub(super) const X_STALE: HeaderName = HeaderName::from_static("x-stale");
pub(super) const X_DOUBT: HeaderName = HeaderName::from_static("x-doubt");
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");
const X_ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// Age of a response's data and its lifetime in caches. All times are in whole seconds, rounded down, so that no cache
/// keeps a response too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Freshness {
    /// Since the accepted reply.
    age: u64,
    /// From now until the next block is expected, or until the data becomes stale or too old to serve.
    remaining: u64,
    /// From the accepted reply until the same moment, as caches count that subtract `Age` (RFC 9111, section 4.2).
    max_age: u64,
    /// From the accepted reply until the data is too old to serve.
    limit: u64,
    is_stale: bool,
    last_modified: SystemTime,
}

impl Freshness {
    pub(super) fn from_snapshot(chain: &StoredChain, current: &ServableSnapshot) -> Self {
        let config = chain.config();
        let until_next_block = config.block_time.saturating_sub(current.head_age);
        let until_too_old = config.max_age.saturating_sub(current.age);
        // A copy without `X-Stale` must not outlive the moment from which the service sends it.
        let until_stale =
            if current.is_stale() { until_next_block } else { current.fresh_for };
        let remaining = until_next_block.min(until_too_old).min(until_stale).as_secs();
        let age = current.age.as_secs();
        Self {
            age,
            remaining,
            max_age: age.saturating_add(remaining),
            limit: config.max_age.as_secs(),
            is_stale: current.is_stale(),
            last_modified: current.snapshot.block.last_modified(),
        }
    }

    /// Returns the freshness of a response that contains both values: the age of the older one, and the lifetime of the
    /// one that expires first.
    fn combine(self, other: Self) -> Self {
        Self {
            age: self.age.max(other.age),
            remaining: self.remaining.min(other.remaining),
            max_age: self.max_age.min(other.max_age),
            limit: self.limit.min(other.limit),
            is_stale: self.is_stale || other.is_stale,
            last_modified: self.last_modified.min(other.last_modified),
        }
    }

    /// Writes the headers of age and lifetime, and `X-Stale` and `X-Doubt` if they apply.
    pub(super) fn write_headers(self, headers: &mut HeaderMap, doubts: &[Doubt]) {
        let fresh = format!("public, max-age={}", self.max_age);
        let bridged = self.limit.saturating_sub(self.max_age);
        let for_shared_caches =
            format!("{fresh}, stale-while-revalidate={bridged}, stale-if-error={bridged}");
        headers.insert(header::CACHE_CONTROL, header_value(fresh));
        headers.insert(CDN_CACHE_CONTROL, header_value(for_shared_caches));
        // nginx does not subtract `Age`, and takes this header, which it does not pass on, for the time from now.
        headers.insert(X_ACCEL_EXPIRES, self.remaining.into());
        self.write_data_headers(headers, doubts);
    }

    /// Writes the headers of a response that no cache may store.
    pub(super) fn write_uncached_headers(self, headers: &mut HeaderMap, doubts: &[Doubt]) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        self.write_data_headers(headers, doubts);
    }

    fn write_data_headers(self, headers: &mut HeaderMap, doubts: &[Doubt]) {
        headers.insert(header::AGE, self.age.into());
        // The clock may have been put back since the block was read.
        let last_modified = self.last_modified.min(SystemTime::now());
        let last_modified = HttpDate::from(last_modified).to_string();
        headers.insert(header::LAST_MODIFIED, header_value(last_modified));
        self.write_stale_header(headers);
        if !doubts.is_empty() {
            let names: Vec<_> = doubts.iter().map(|doubt| doubt.name()).collect();
            headers.insert(X_DOUBT, header_value(names.join(",")));
        }
    }

    /// Writes `X-Stale` if the data is stale.
    pub(super) fn write_stale_header(self, headers: &mut HeaderMap) {
        if self.is_stale {
            headers.insert(X_STALE, HeaderValue::from_static("true"));
        }
    }
}

/// Converts a text of letters, digits and punctuation.
fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("letters, digits and punctuation are a header value")
}

/// Writes the headers of a list of these chains. An empty list must not be stored.
pub(super) fn write_list_headers<'a>(
    headers: &mut HeaderMap,
    available: impl Iterator<Item = (&'a StoredChain, &'a ServableSnapshot)>,
) {
    let mut doubts = Vec::new();
    let freshness = available.map(|(chain, current)| {
        doubts.extend_from_slice(&current.snapshot.doubts);
        Freshness::from_snapshot(chain, current)
    });
    match freshness.reduce(Freshness::combine) {
        Some(freshness) => {
            doubts.sort_unstable();
            doubts.dedup();
            freshness.write_headers(headers, &doubts);
        }
        None => {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
}

/// Writes `X-Newest-Block` and the headers of the freshness of a response from `current` alone.
pub(super) fn write_snapshot_headers(
    headers: &mut HeaderMap,
    chain: &StoredChain,
    current: &ServableSnapshot,
) {
    headers.insert(X_NEWEST_BLOCK, current.snapshot.newest_block.into());
    let freshness = Freshness::from_snapshot(chain, current);
    freshness.write_headers(headers, &current.snapshot.doubts);
}

/// Like [`write_snapshot_headers`], for a response that no cache may store.
pub(super) fn write_uncached_snapshot_headers(
    headers: &mut HeaderMap,
    chain: &StoredChain,
    current: &ServableSnapshot,
) {
    headers.insert(X_NEWEST_BLOCK, current.snapshot.newest_block.into());
    let freshness = Freshness::from_snapshot(chain, current);
    freshness.write_uncached_headers(headers, &current.snapshot.doubts);
}

/// Builds the response with `body` as JSON that caches have to validate at each use.
pub(super) fn revalidated_json(body: &impl Serialize) -> Response {
    let json = serde_json::to_vec(body).expect("a struct of strings serialises");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, etag::for_body(&json)),
    ];
    (headers, Body::from(json)).into_response()
}
