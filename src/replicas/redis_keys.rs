//! Keys in Redis.
//!
//! All begin with a version, so that incompatible releases share nothing. They contain the settings on which a poll
//! depends, so replicas with other settings share nothing, and a configuration can be rolled out in steps.

use std::sync::Arc;

use crate::config;
use crate::upstream::ChainUpstreams;

/// Keys of one chain. The part in braces is a hash tag, which keeps them on one node of a cluster.
#[derive(Debug)]
pub(super) struct RedisKeys {
    pub(super) fee_history: String,
    /// Followed by a colon and the slot.
    pub(super) claim_prefix: String,
    pub(super) channel: String,
    /// By index of the upstream.
    pub(super) upstreams: Vec<UpstreamKeys>,
}

#[derive(Debug)]
pub(super) struct UpstreamKeys {
    /// Fingerprint of the upstream.
    pub(super) fingerprint: String,
    /// Present while the upstream has asked for a pause.
    pub(super) cool_down: String,
    /// Present while the upstream's chain counts as verified.
    pub(super) chain_verified: String,
}

impl RedisKeys {
    pub(super) fn new(
        chain: &config::Chain,
        upstreams: &Arc<ChainUpstreams>,
        database: u32,
    ) -> Self {
        let pricing = &chain.pricing;
        let percentiles: Vec<_> =
            pricing.percentiles().iter().map(|percentile| percentile.to_string()).collect();
        let prefix = format!(
            "gas:v1:{{{}:{}ms:{}:{}}}",
            chain.chain_id,
            chain.block_time.as_millis(),
            pricing.window_blocks,
            percentiles.join(",")
        );
        let upstream_keys = |fingerprint: String| UpstreamKeys {
            cool_down: format!("{prefix}:cooldown:{fingerprint}"),
            chain_verified: format!("{prefix}:proof:{fingerprint}"),
            fingerprint,
        };
        Self {
            fee_history: format!("{prefix}:value"),
            claim_prefix: format!("{prefix}:claim"),
            // Channels are common to all databases of a server.
            channel: format!("{prefix}:news:{database}"),
            upstreams: upstreams
                .all()
                .iter()
                .map(|node| upstream_keys(node.fingerprint()))
                .collect(),
        }
    }
}
