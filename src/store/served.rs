//! The moka cache of what may be served. An expired snapshot leaves it by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::sync::Cache;

use super::Snapshot;

/// Newest snapshots by chain id. Cheap to clone.
pub(super) type ServedSnapshots = Cache<u64, Arc<Snapshot>>;

/// Creates an empty cache.
pub(super) fn new_cache() -> ServedSnapshots {
    Cache::builder().expire_after(MaxAge).build()
}

struct MaxAge;

impl Expiry<u64, Arc<Snapshot>> for MaxAge {
    fn expire_after_create(&self, _: &u64, new: &Arc<Snapshot>, _: Instant) -> Option<Duration> {
        Some(new.max_age.saturating_sub(new.age()))
    }

    // By default an update keeps the deadline of the replaced value.
    fn expire_after_update(
        &self,
        chain_id: &u64,
        new: &Arc<Snapshot>,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(chain_id, new, now)
    }
}
