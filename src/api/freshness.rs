//! Age and cache lifetime of a response, as headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::store::{ServableSnapshot, StoredChain};

pub(super) const X_NEWEST_BLOCK: HeaderName = HeaderName::from_static("x-newest-block");
pub(super) const X_STALE: HeaderName = HeaderName::from_static("x-stale");

/// Age of a response's data and its lifetime in caches. All values are in whole seconds, rounded down, so that no cache
/// keeps a response too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Freshness {
    age: u64,
    /// Seconds until the next block is expected.
    fresh_for: u64,
    /// Seconds until the data is too old to serve.
    usable_for: u64,
    is_stale: bool,
}

impl Freshness {
    pub(super) fn from_snapshot(chain: &StoredChain, current: &ServableSnapshot) -> Self {
        let config = chain.config();
        Self {
            age: current.age.as_secs(),
            fresh_for: config.block_time.saturating_sub(current.head_age).as_secs(),
            usable_for: config.max_age.saturating_sub(current.age).as_secs(),
            is_stale: current.is_stale(),
        }
    }

    /// Returns the freshness of a response that contains both values.
    pub(super) fn combine(self, other: Self) -> Self {
        Self {
            age: self.age.max(other.age),
            fresh_for: self.fresh_for.min(other.fresh_for),
            usable_for: self.usable_for.min(other.usable_for),
            is_stale: self.is_stale || other.is_stale,
        }
    }

    /// Writes `Cache-Control`, `Age` and, if the data is stale, `X-Stale`. `max-age` is the remaining time. A cache
    /// that also subtracts `Age` (RFC 9111, section 4.2) keeps a response for less time than one that does not.
    pub(super) fn write_headers(self, headers: &mut HeaderMap) {
        let fresh = self.fresh_for.min(self.usable_for);
        let usable = self.usable_for.saturating_sub(fresh);
        let (mut fresh_buffer, mut usable_buffer) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (fresh, usable) = (fresh_buffer.format(fresh), usable_buffer.format(usable));
        let directives = [
            "public, max-age=",
            fresh,
            ", stale-while-revalidate=",
            usable,
            ", stale-if-error=",
            usable,
        ];
        let cache_control = HeaderValue::try_from(directives.concat())
            .expect("letters, digits and punctuation are a header value");
        headers.insert(header::CACHE_CONTROL, cache_control);
        headers.insert(header::AGE, self.age.into());
        self.write_stale_header(headers);
    }

    /// Writes `X-Stale` if the data is stale.
    pub(super) fn write_stale_header(self, headers: &mut HeaderMap) {
        if self.is_stale {
            headers.insert(X_STALE, HeaderValue::from_static("true"));
        }
    }
}

/// Writes the headers of a list of these chains. An empty list must not be stored.
pub(super) fn write_list_headers<'a>(
    headers: &mut HeaderMap,
    available: impl Iterator<Item = (&'a StoredChain, &'a ServableSnapshot)>,
) {
    let freshness = available.map(|(chain, current)| Freshness::from_snapshot(chain, current));
    match freshness.reduce(Freshness::combine) {
        Some(freshness) => freshness.write_headers(headers),
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
    Freshness::from_snapshot(chain, current).write_headers(headers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combined_response_is_as_fresh_as_its_oldest_part() {
        let old = Freshness { age: 9, fresh_for: 0, usable_for: 20, is_stale: true };
        let new = Freshness { age: 1, fresh_for: 2, usable_for: 10, is_stale: false };
        for combined in [old.combine(new), new.combine(old)] {
            let mut headers = HeaderMap::new();
            combined.write_headers(&mut headers);
            assert_eq!(headers["age"], "9");
            assert_eq!(headers["x-stale"], "true");
            let directives = "public, max-age=0, stale-while-revalidate=10, stale-if-error=10";
            assert_eq!(headers["cache-control"], directives);
        }
    }
}
