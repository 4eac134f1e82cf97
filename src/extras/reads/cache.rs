//! Cache of responses, and how long each is valid.

use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;

use super::NodeResponse;
use crate::config;
use crate::observe::memory_budget::MemoryBudget;

/// Cached responses of all chains. The first caller of a missing entry loads it while others wait.
pub(crate) type ResponseCache = Cache<CacheKey, CachedResponse>;

/// Maximum total size of the cached responses.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Creates an empty cache. Its responses are charged to `memory`, of which it leaves most to requests.
pub(crate) fn new_cache(memory: &MemoryBudget) -> ResponseCache {
    let max_bytes = MAX_BYTES.min(memory.total() / 4);
    Cache::builder()
        .weigher(|_: &CacheKey, entry: &CachedResponse| entry.weight_bytes())
        .max_capacity(u64::try_from(max_bytes).unwrap_or(u64::MAX))
        .expire_after(CacheLifetimeExpiry)
        .build()
}

/// Identity of a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    pub(crate) chain_id: u64,
    /// Version of the head: a client that has seen a block must not get a result from before it. `None`: the result
    /// does not depend on the head.
    pub(crate) head_version: Option<HeadVersion>,
    pub(crate) method: &'static str,
    /// Separate entries, because a call of the service itself must not get a cached response.
    pub(crate) is_clients_call: bool,
    /// Digest of the parameters, so that long ones take no memory.
    pub(crate) params_digest: [u8; 32],
}

/// Newest block seen by the polls, and the number of hints of later ones.
pub(crate) type HeadVersion = (Option<u64>, u64, Option<Instant>);

/// How long a response can be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheLifetime {
    /// Not at all. Callers can only join the call in flight.
    Never,
    /// For at most one flashblock time; not at all on a chain without flashblocks.
    Flashblock,
    /// Until another block is known, at most one block time.
    UntilNextBlock,
    /// For a fixed long time: the result can no longer change.
    Immutable,
}

/// A cached response.
#[derive(Debug, Clone)]
pub(crate) struct CachedResponse {
    pub(crate) response: NodeResponse,
    fresh_until: Instant,
}

impl CachedResponse {
    /// Even immutable results are fetched again after this time.
    const IMMUTABLE_TTL: Duration = Duration::from_mins(10);
    /// Approximate overhead of an entry.
    const ENTRY_OVERHEAD_BYTES: usize = 512;

    /// Creates an entry for the response to a request made at `requested_at`: its content may be as old as that.
    pub(crate) fn new(
        response: NodeResponse,
        requested_at: Instant,
        policy: CacheLifetime,
        chain: &config::Chain,
    ) -> Self {
        let flashblock = chain.flashblock_time.unwrap_or_default();
        let ttl = match (policy, &response) {
            (CacheLifetime::Never, _) => Duration::ZERO,
            // The block or transaction may arrive at any time. Some nodes return an empty list for an unknown block.
            (_, NodeResponse::Result(json)) if json == "null" => Duration::ZERO,
            (CacheLifetime::Immutable, NodeResponse::Result(json)) if json == "[]" => {
                Duration::ZERO
            }
            (CacheLifetime::Immutable, NodeResponse::Result(_)) => Self::IMMUTABLE_TTL,
            (CacheLifetime::UntilNextBlock, NodeResponse::Result(_)) => chain.block_time,
            // An error may not repeat.
            (CacheLifetime::Flashblock, _) | (_, NodeResponse::Error(_)) => flashblock,
        };
        Self { response, fresh_until: requested_at + ttl }
    }

    /// Approximate size in bytes.
    fn weight_bytes(&self) -> u32 {
        let (NodeResponse::Result(json) | NodeResponse::Error(json)) = &self.response;
        u32::try_from(json.len().saturating_add(Self::ENTRY_OVERHEAD_BYTES)).unwrap_or(u32::MAX)
    }

    pub(crate) fn fresh_for(&self, from: Instant) -> Duration {
        self.fresh_until.saturating_duration_since(from)
    }
}

/// Expires an entry when its lifetime is over.
struct CacheLifetimeExpiry;

impl Expiry<CacheKey, CachedResponse> for CacheLifetimeExpiry {
    fn expire_after_create(
        &self,
        _: &CacheKey,
        entry: &CachedResponse,
        created_at: Instant,
    ) -> Option<Duration> {
        Some(entry.fresh_for(created_at))
    }

    fn expire_after_update(
        &self,
        _: &CacheKey,
        entry: &CachedResponse,
        updated_at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.fresh_for(updated_at))
    }
}
