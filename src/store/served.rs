//! The moka cache of what may be served. An expired snapshot leaves it by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::sync::Cache;

use super::Snapshot;

/// Newest snapshots by chain id. Cheap to clone.
pub(super) type ServedSnapshots = Cache<u64, Served>;

/// A snapshot, and the age up to which it may be served.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) max_age: Duration,
}

/// Creates an empty cache.
pub(super) fn new_cache() -> ServedSnapshots {
    Cache::builder().expire_after(MaxAge).build()
}

struct MaxAge;

impl Expiry<u64, Served> for MaxAge {
    fn expire_after_create(&self, _: &u64, served: &Served, _: Instant) -> Option<Duration> {
        Some(served.max_age.saturating_sub(served.snapshot.age()))
    }

    // By default an update keeps the deadline of the replaced value.
    fn expire_after_update(
        &self,
        chain_id: &u64,
        served: &Served,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(chain_id, served, now)
    }
}
