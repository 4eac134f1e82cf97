//! Clients' own keys that the API has refused. They are not sent again for a while, because the API may count requests
//! with such keys against this server's address.

use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::store::etag;

/// The keys that were refused last. Their number is bounded, and only their hashes are kept.
#[derive(Debug)]
pub(crate) struct RefusedKeys {
    /// When each may be sent again.
    by_hash: Cache<[u8; 32], Instant>,
}

impl RefusedKeys {
    pub(crate) const REFUSED_FOR: Duration = Duration::from_mins(1);
    const MAX_KEYS: u64 = 10_000;

    pub(crate) fn new() -> Self {
        let by_hash = Cache::builder()
            .max_capacity(Self::MAX_KEYS)
            // The default policy would refuse new entries to a full cache.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(Self::REFUSED_FOR)
            .build();
        Self { by_hash }
    }

    /// Records that the API refused `key`.
    pub(crate) fn record(&self, key: &HeaderValue, now: Instant) {
        self.by_hash.insert(hash(key), now + Self::REFUSED_FOR);
    }

    /// Checks that the API has not lately refused `key`.
    ///
    /// # Errors
    ///
    /// Returns the time until the key may be sent again.
    pub(crate) fn check(&self, key: &HeaderValue, now: Instant) -> Result<(), Duration> {
        let usable_at = self.by_hash.get(&hash(key)).filter(|usable_at| *usable_at > now);
        usable_at.map_or(Ok(()), |usable_at| Err(usable_at - now))
    }
}

fn hash(key: &HeaderValue) -> [u8; 32] {
    etag::sha256(key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_refused_keys_is_bounded_and_the_newest_one_is_kept() {
        let (keys, now) = (RefusedKeys::new(), Instant::now());
        let key = |number: u64| HeaderValue::from(number);
        for number in 0..2 * RefusedKeys::MAX_KEYS {
            keys.record(&key(number), now);
        }
        keys.by_hash.run_pending_tasks();
        assert_eq!(keys.by_hash.entry_count(), RefusedKeys::MAX_KEYS);
        assert_eq!(keys.check(&key(0), now), Ok(()));
        assert!(keys.check(&key(2 * RefusedKeys::MAX_KEYS - 1), now).is_err());
    }
}
