//! Age and cache lifetime of a response, as headers.
//!
//! A browser gives out a copy within `stale-while-revalidate` without a word, so `Cache-Control` lets it keep a response
//! until the next block is due and no longer. Shared caches may bridge a restart of the service with an older copy
//! (`CDN-Cache-Control`, RFC 9213).

use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use httpdate::HttpDate;
use serde::Serialize;

use super::render_cache::json_bytes;
use crate::fees::plausibility::Doubt;
use crate::http::headers::{CDN_CACHE_CONTROL, X_ACCEL_EXPIRES, X_DOUBT, X_NEWEST_BLOCK, X_STALE};
use crate::store::etag;
use crate::store::{ServableSnapshot, StoredChain};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Capacity for headers, including those of the layers: with fewer places a map has to grow.
pub(super) const MAX_HEADERS: usize = 16;

/// Shortest lifetime of a copy in nginx, which may serve it for a second and a half longer: its clock has whole seconds, and
/// the last one counts.
const HALF_SECOND: Duration = Duration::from_millis(500);

/// Age of a response's data and its lifetime in caches. All times are in whole seconds, rounded down, so that no cache
/// keeps a response too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freshness {
    /// Since the accepted reply.
    age: u64,
    /// From now until the next block is expected, or until the data becomes stale or too old to serve. It is 1 from
    /// [`HALF_SECOND`] on.
    for_nginx: u64,
    /// From the accepted reply until the same moment, as caches count that subtract `Age` (RFC 9111, section 4.2).
    max_age: u64,
    /// From the accepted reply until the data is too old to serve.
    limit: u64,
    is_stale: bool,
    last_modified: SystemTime,
}

impl Freshness {
    pub(crate) fn from_snapshot(chain: &StoredChain, current: &ServableSnapshot) -> Self {
        let config = chain.config();
        let lifetime = lifetime(chain, current);
        let age = current.age.as_secs();
        Self {
            age,
            for_nginx: lifetime.as_secs().max((lifetime >= HALF_SECOND).into()),
            max_age: age.saturating_add(lifetime.as_secs()),
            limit: config.max_age.as_secs(),
            is_stale: current.is_stale(),
            last_modified: current.snapshot.block.last_modified,
        }
    }

    /// Returns how long the snapshot keeps this freshness, unless another one is published: until its age or its lifetime
    /// has another number of whole seconds, or it is stale or too old.
    pub(crate) fn unchanged_for(chain: &StoredChain, current: &ServableSnapshot) -> Duration {
        const SECOND: Duration = Duration::from_secs(1);
        let part = |time: Duration| Duration::from_nanos(time.subsec_nanos().into());
        let remaining = lifetime(chain, current);
        let until_shorter = match remaining.checked_sub(HALF_SECOND) {
            // A lifetime of 0 seconds stays one.
            None => SECOND,
            Some(until_half) if remaining < SECOND => until_half,
            Some(_) => part(remaining),
        };
        let until_older = SECOND.saturating_sub(part(current.age));
        let until_too_old = chain.config().max_age.saturating_sub(current.age);
        // A stale snapshot stays stale.
        let until_stale = if current.is_stale() { Duration::MAX } else { current.fresh_for };
        until_shorter.min(until_older).min(until_too_old).min(until_stale)
    }

    /// Returns the freshness of a response that contains both values: the age of the older one, and the lifetime of the
    /// one that expires first.
    fn combine(self, other: Self) -> Self {
        Self {
            age: self.age.max(other.age),
            for_nginx: self.for_nginx.min(other.for_nginx),
            max_age: self.max_age.min(other.max_age),
            limit: self.limit.min(other.limit),
            is_stale: self.is_stale || other.is_stale,
            last_modified: self.last_modified.min(other.last_modified),
        }
    }

    /// Writes the headers of age and lifetime, and `X-Stale` and `X-Doubt` if they apply.
    pub(crate) fn write_headers(self, headers: &mut HeaderMap, doubts: &[Doubt]) {
        headers.reserve(MAX_HEADERS);
        let fresh = format!("public, max-age={}", self.max_age);
        let bridged = self.limit.saturating_sub(self.max_age);
        let for_shared_caches =
            format!("{fresh}, stale-while-revalidate={bridged}, stale-if-error={bridged}");
        headers.insert(header::CACHE_CONTROL, header_value(fresh));
        headers.insert(CDN_CACHE_CONTROL, header_value(for_shared_caches));
        // nginx does not subtract `Age`, and takes this header, which it does not pass on, for the time from now.
        headers.insert(X_ACCEL_EXPIRES, self.for_nginx.into());
        self.write_data_headers(headers, doubts);
    }

    fn write_data_headers(self, headers: &mut HeaderMap, doubts: &[Doubt]) {
        headers.insert(header::AGE, self.age.into());
        write_last_modified(headers, self.last_modified);
        self.write_stale_header(headers);
        if !doubts.is_empty() {
            let names: Vec<_> = doubts.iter().map(|doubt| doubt.name()).collect();
            headers.insert(X_DOUBT, header_value(names.join(",")));
        }
    }

    /// Writes `X-Stale` if the data is stale.
    pub(crate) fn write_stale_header(self, headers: &mut HeaderMap) {
        if self.is_stale {
            headers.insert(X_STALE, HeaderValue::from_static("true"));
        }
    }
}

/// Writes `Last-Modified`, which is never later than `Date`: the clock may have been put back since the block was read.
pub(crate) fn write_last_modified(headers: &mut HeaderMap, time: SystemTime) {
    let date = HttpDate::from(time.min(SystemTime::now())).to_string();
    headers.insert(header::LAST_MODIFIED, header_value(date));
}

/// Formats a time with milliseconds.
pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Converts a text of letters, digits and punctuation.
fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("letters, digits and punctuation are a header value")
}

/// Adds the headers of freshness to a list of these chains. An empty list must not be stored.
pub(crate) fn list_response<'a>(
    available: impl Iterator<Item = (&'a StoredChain, &'a ServableSnapshot)>,
    response: impl IntoResponse,
) -> Response {
    let mut response = response.into_response();
    let headers = response.headers_mut();
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
    response
}

/// Adds `X-Newest-Block` and the headers of freshness to a response that was made from `current` alone. A response that has
/// `Cache-Control` keeps it.
pub(crate) fn snapshot_response(
    chain: &StoredChain,
    current: &ServableSnapshot,
    response: impl IntoResponse,
) -> Response {
    let mut response = response.into_response();
    let headers = response.headers_mut();
    headers.insert(X_NEWEST_BLOCK, current.snapshot.newest_block.into());
    let freshness = Freshness::from_snapshot(chain, current);
    if headers.contains_key(header::CACHE_CONTROL) {
        freshness.write_data_headers(headers, &current.snapshot.doubts);
    } else {
        freshness.write_headers(headers, &current.snapshot.doubts);
    }
    response
}

/// Builds the response with this JSON and its entity tag.
pub(crate) fn tagged_json(json: Bytes) -> Response {
    let headers = [(header::CONTENT_TYPE, JSON), (header::ETAG, etag::for_body(&json))];
    (headers, json).into_response()
}

/// Builds the response with `body` as JSON that caches have to validate at each use.
pub(crate) fn revalidated_json(body: &impl Serialize) -> Response {
    let no_cache = [(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    (no_cache, tagged_json(json_bytes(body))).into_response()
}

/// Returns how long a copy of the snapshot may be kept.
fn lifetime(chain: &StoredChain, current: &ServableSnapshot) -> Duration {
    let config = chain.config();
    let until_next_block = current.snapshot.block_time.saturating_sub(current.head_age);
    let until_too_old = config.max_age.saturating_sub(current.age);
    // A copy without `X-Stale` must not outlive the moment from which the service sends it.
    let until_stale = if current.is_stale() { until_next_block } else { current.fresh_for };
    until_next_block.min(until_too_old).min(until_stale)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::fees::{HeadReading, HeaderTime};
    use crate::store::tests::{publish, reply, store_with_chain};
    use crate::store::{Accepted, StaleReason};

    /// Second of the newest block in `Last-Modified`, since 1970.
    const BLOCK_SECOND: u64 = 1_700_000_000;
    const BLOCK_DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

    /// Returns a chain with blocks every 12 s, and a snapshot with a block of this second and these doubts.
    fn chain(second: u64, doubts: &[Doubt]) -> (StoredChain, ServableSnapshot) {
        let keys = "block_time = \"12s\"\nmax_age = \"60500ms\"\nmax_block_age = \"0s\"";
        let (_, chain, mut publisher) = store_with_chain(keys);
        let (history, market) = reply(&chain.config().pricing, 3, 1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let head = HeadReading::Header(HeaderTime::new(3, second, Instant::now(), now));
        let doubts = doubts.to_vec();
        publisher.publish(Accepted { head, doubts, ..Accepted::now(&history, market) });
        let current = chain.servable_snapshot().unwrap();
        (chain, current)
    }

    /// Returns the snapshot with these ages, in milliseconds.
    fn aged(current: &ServableSnapshot, age: u64, head_age: u64) -> ServableSnapshot {
        ServableSnapshot {
            age: Duration::from_millis(age),
            head_age: Duration::from_millis(head_age),
            stale_reason: None,
            fresh_for: Duration::from_mins(1),
            ..current.clone()
        }
    }

    fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
        headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns `Age`, `Cache-Control`, `CDN-Cache-Control` and `X-Accel-Expires`.
    fn lifetimes(headers: &HeaderMap) -> [&str; 4] {
        ["age", "cache-control", "cdn-cache-control", "x-accel-expires"]
            .map(|name| text(headers, name))
    }

    #[test]
    fn lifetimes_count_from_the_reply_and_end_at_the_next_block() {
        let (chain, current) = chain(BLOCK_SECOND, &[]);
        let headers =
            |current: &ServableSnapshot| snapshot_response(&chain, current, ()).headers().clone();
        let shared = |fresh: u64, bridged: u64| {
            format!(
                "public, max-age={fresh}, stale-while-revalidate={bridged}, stale-if-error={bridged}"
            )
        };
        for (age, head_age, lifetime) in [
            (0, 0, ("0", 12, "12")),
            (7_400, 7_400, ("7", 11, "4")),
            (7_400, 8_000, ("7", 11, "4")),
            (11_500, 11_500, ("11", 11, "1")),
            (11_501, 11_501, ("11", 11, "0")),
            // A block that is late was confirmed a moment ago.
            (200, 15_000, ("0", 0, "0")),
            (11_900, 11_900, ("11", 11, "0")),
            (30_000, 30_000, ("30", 30, "0")),
            (60_400, 60_400, ("60", 60, "0")),
        ] {
            let headers = headers(&aged(&current, age, head_age));
            let (age, max_age, remaining) = lifetime;
            let cache_control = format!("public, max-age={max_age}");
            let expected = [age, &cache_control, &shared(max_age, 60 - max_age), remaining];
            assert_eq!(lifetimes(&headers), expected);
            assert_eq!(text(&headers, "last-modified"), BLOCK_DATE);
            assert_eq!(text(&headers, "x-newest-block"), "3");
            assert_eq!([text(&headers, "x-stale"), text(&headers, "x-doubt")], ["", ""]);
        }
        // A copy without the label ends when the label begins.
        let soon =
            ServableSnapshot { fresh_for: Duration::from_millis(1500), ..aged(&current, 0, 0) };
        assert_eq!(lifetimes(&headers(&soon))[1], "public, max-age=1");
        let stale = ServableSnapshot {
            stale_reason: Some(StaleReason::OldBlock),
            fresh_for: Duration::ZERO,
            ..aged(&current, 0, 2000)
        };
        let headers = headers(&stale);
        assert_eq!(lifetimes(&headers)[1], "public, max-age=10");
        assert_eq!(text(&headers, "x-stale"), "true");
    }

    #[test]
    fn lifetimes_follow_a_chain_that_is_faster_than_configured() {
        for (block_time, expected) in [(2_000, "2"), (600, "1"), (450, "0")] {
            let (_, chain, mut publisher) = store_with_chain("block_time = \"12s\"");
            let block_time = Duration::from_millis(block_time);
            for blocks in [0, 1000, 2000, 3000] {
                let (history, market) = reply(&chain.config().pricing, 100 + blocks, 1);
                let since = Duration::from_secs(1000) + block_time * u32::try_from(blocks).unwrap();
                let header = HeaderTime::new(100 + blocks, since.as_secs(), Instant::now(), since);
                let head = HeadReading::Header(header);
                publisher.publish(Accepted { head, ..Accepted::now(&history, market) });
            }
            let current = aged(&chain.servable_snapshot().unwrap(), 0, 0);
            let response = snapshot_response(&chain, &current, ());
            assert_eq!(text(response.headers(), "x-accel-expires"), expected, "{block_time:?}");
        }
    }

    #[test]
    fn a_response_that_is_not_stored_has_no_lifetime() {
        let (chain, current) = chain(BLOCK_SECOND, &[Doubt::RewardLeap]);
        let no_store = [(header::CACHE_CONTROL, "no-store")];
        let response = snapshot_response(&chain, &aged(&current, 3000, 3000), no_store);
        let headers = response.headers();
        assert_eq!(lifetimes(headers), ["3", "no-store", "", ""]);
        assert_eq!(text(headers, "last-modified"), BLOCK_DATE);
        assert_eq!(text(headers, "x-doubt"), "reward_leap");
    }

    #[test]
    fn a_list_is_as_old_as_its_oldest_and_lives_as_long_as_its_shortest() {
        use Doubt::{BaseFeeLeap, Disagreement, HeadLeap};
        let (old_chain, old) = chain(BLOCK_SECOND, &[HeadLeap, BaseFeeLeap]);
        let (new_chain, new) = chain(BLOCK_SECOND + 60, &[Disagreement, HeadLeap]);
        let old = ServableSnapshot {
            stale_reason: Some(StaleReason::OldData),
            ..aged(&old, 9_000, 9_000)
        };
        let new = aged(&new, 0, 8_000);
        for members in
            [[(&old_chain, &old), (&new_chain, &new)], [(&new_chain, &new), (&old_chain, &old)]]
        {
            let headers = list_response(members.into_iter(), ()).headers().clone();
            let shared = "public, max-age=4, stale-while-revalidate=56, stale-if-error=56";
            assert_eq!(lifetimes(&headers), ["9", "public, max-age=4", shared, "3"]);
            assert_eq!(text(&headers, "last-modified"), BLOCK_DATE);
            assert_eq!(text(&headers, "x-stale"), "true");
            assert_eq!(text(&headers, "x-doubt"), "base_fee_leap,head_leap,disagreement");
        }
        let response = list_response([(&new_chain, &new)].into_iter(), ());
        assert_eq!(text(response.headers(), "x-stale"), "");
        let response = list_response(std::iter::empty(), ());
        assert_eq!(lifetimes(response.headers()), ["", "no-store", "", ""]);
    }

    /// A snapshot at another time.
    fn later(current: &ServableSnapshot, by: Duration) -> ServableSnapshot {
        ServableSnapshot {
            age: current.age + by,
            head_age: current.head_age + by,
            fresh_for: current.fresh_for.saturating_sub(by),
            ..current.clone()
        }
    }

    proptest! {
        #[test]
        fn a_freshness_stays_for_as_long_as_it_says_and_no_longer(
            age in 0_u64..9_000, head_age in 0_u64..9_000, fresh_for in 0_u64..9_000, share in 0.0..1.0_f64,
        ) {
            let times = "block_time = \"3s\"\nmax_age = \"8s\"";
            let (_, chain, mut publisher) = store_with_chain(times);
            publish(&mut publisher, 100, 1);
            let chain = &chain;
            let current = ServableSnapshot {
                age: Duration::from_millis(age),
                head_age: Duration::from_millis(head_age),
                fresh_for: Duration::from_millis(fresh_for),
                stale_reason: (fresh_for < 1_000).then_some(StaleReason::OldData),
                ..chain.servable_snapshot().unwrap()
            };
            let unchanged = Freshness::unchanged_for(chain, &current);
            let at = |by| Freshness::from_snapshot(chain, &later(&current, by));
            if unchanged > Duration::ZERO {
                prop_assert_eq!(at(unchanged.mul_f64(share)), at(Duration::ZERO));
            }
            let is_over = !current.is_stale() && unchanged >= current.fresh_for
                || current.age + unchanged >= chain.config().max_age;
            let end = unchanged + Duration::from_millis(1);
            prop_assert!(is_over || at(end) != at(Duration::ZERO), "{:?}", unchanged);
        }
    }
}
