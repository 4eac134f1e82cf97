//! The memory limit of the process, and what follows from it.
//!
//! The limit is shared out once, at the start: a part for the process itself, one for the connections, and one, the
//! [`MemoryBudget`](crate::observe::memory_budget::MemoryBudget), for every byte above that which clients make the service hold.

mod cgroup;

use crate::config::MemoryLimit;

const MIB: usize = 1024 * 1024;

/// The shares of the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryShares {
    /// Bytes that requests, responses, buffers above a connection's base, and caches may hold together.
    pub(crate) budget: usize,
    /// Connections whose base fits.
    pub(crate) max_connections: usize,
}

impl MemoryShares {
    /// Limit where none is configured and no cgroup has one.
    const DEFAULT_LIMIT: usize = 1024 * MIB;

    /// Program, threads, metrics, clients of upstreams, log, and the largest bodies that are being made.
    const PROCESS_BYTES: usize = 32 * MIB;

    /// HTTP clients, counters and snapshots of a chain.
    const CHAIN_BYTES: usize = MIB / 4;

    /// Bytes that every connection may hold without a charge to the budget: its task and two buffers of their first
    /// size, 21 KiB where all of it is in use, the uncharged first bytes of two bodies, and the system's structures of a
    /// socket.
    const CONNECTION_BYTES: usize = 26 * 1024;

    /// Shares out `limit` bytes between the process, this many chains that keep these bytes besides, connections and the
    /// budget.
    pub(crate) fn new(limit: usize, chains: usize, kept_bytes: usize) -> Self {
        let chain_bytes = chains.saturating_mul(Self::CHAIN_BYTES).saturating_add(kept_bytes);
        // An eighth for what the allocator holds and cannot use.
        let reserved = (limit / 8).saturating_add(Self::PROCESS_BYTES).saturating_add(chain_bytes);
        // Many chains may leave nothing. The service then still has to serve, so they count for half of the rest at most.
        let floor = (limit / 8 * 7).saturating_sub(Self::PROCESS_BYTES) / 2;
        let available = limit.saturating_sub(reserved);
        if available < floor {
            tracing::warn!(
                limit,
                chain_bytes,
                "the histories of the chains may exceed the memory limit"
            );
        }
        let available = available.max(floor);
        Self { budget: available / 2, max_connections: available / 2 / Self::CONNECTION_BYTES }
    }
}

impl MemoryLimit {
    /// Returns the limit in bytes: the configured one, the cgroup's, or a default.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Auto => {
                let limit = cgroup::memory_limit().unwrap_or(MemoryShares::DEFAULT_LIMIT);
                if limit < Self::MIN_BYTES {
                    let needed = Self::MIN_BYTES;
                    tracing::warn!(
                        limit,
                        needed,
                        "the memory limit is too low; clients can exhaust it"
                    );
                }
                limit.max(Self::MIN_BYTES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_into_the_limit() {
        for limit in [64 * MIB, 512 * MIB, 1024 * MIB, 64 * 1024 * MIB] {
            let MemoryShares { budget, max_connections } = MemoryShares::new(limit, 0, 0);
            let used = budget + max_connections * MemoryShares::CONNECTION_BYTES;
            assert!(used + MemoryShares::PROCESS_BYTES + limit / 8 <= limit, "{limit}");
            assert!(used > limit / 3, "{limit}");
        }
    }

    #[test]
    fn kept_bytes_reduce_the_shares_by_half_at_most() {
        let budget = |kept| MemoryShares::new(512 * MIB, 1, kept).budget;
        assert!(budget(0) - budget(7 * MIB) >= 7 * MIB / 2 - 1);
        assert_eq!(budget(4096 * MIB), (512 / 8 * 7 - 32) * MIB / 4);
    }
}
