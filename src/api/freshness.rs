//! How old an answer is and how long it may be kept, as headers.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::book::{Chain, Reading};

pub(super) const X_NEWEST_BLOCK: HeaderName = HeaderName::from_static("x-newest-block");
pub(super) const X_STALE: HeaderName = HeaderName::from_static("x-stale");

/// The age of an answer's data and what follows from it for caches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freshness {
    age: Duration,
    /// Until the next block is expected.
    fresh_for: Duration,
    /// Until the data would no longer be served.
    usable_for: Duration,
    is_stale: bool,
}

impl Freshness {
    pub(super) fn of(chain: &Chain, reading: &Reading) -> Self {
        let config = chain.config();
        Self {
            age: reading.age,
            fresh_for: config.block_time.saturating_sub(reading.head_age),
            usable_for: config.max_age.saturating_sub(reading.age),
            is_stale: reading.is_stale,
        }
    }

    /// That of an answer made from two.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            age: self.age.max(other.age),
            fresh_for: self.fresh_for.min(other.fresh_for),
            usable_for: self.usable_for.min(other.usable_for),
            is_stale: self.is_stale || other.is_stale,
        }
    }

    pub(super) fn write_headers(self, headers: &mut HeaderMap) {
        // Whole seconds, each rounded down, so that no cache keeps an answer too long. A cache
        // that counts `Age` against `max-age` keeps it for less.
        let fresh = self.fresh_for.min(self.usable_for).as_secs();
        let usable = self.usable_for.as_secs().saturating_sub(fresh);
        let (mut first, mut second) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (fresh, usable) = (first.format(fresh), second.format(usable));
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
        headers.insert(header::AGE, self.age.as_secs().into());
        if self.is_stale {
            headers.insert(X_STALE, HeaderValue::from_static("true"));
        }
    }
}
