//! The names of what is in Redis.
//!
//! All have the version in front, so that another one shares nothing with this. Replicas that ask nodes for
//! something else, or in another rhythm, share nothing either: a configuration can be rolled out in steps.

use std::sync::Arc;

use crate::config;
use crate::upstream::ChainUpstreams;

/// Keys of one chain. The part in braces keeps them on one node of a cluster.
#[derive(Debug)]
pub(super) struct RedisKeys {
    pub(super) fee_history: String,
    /// With the slot behind it.
    pub(super) claim_prefix: String,
    pub(super) channel: String,
    /// By the upstream's place.
    pub(super) upstreams: Vec<UpstreamKeys>,
}

#[derive(Debug)]
pub(super) struct UpstreamKeys {
    /// Fingerprint of the upstream.
    pub(super) fingerprint: String,
    /// It has asked to be left alone while this is there.
    pub(super) cool_down: String,
    /// It need not prove which chain it serves while this is there.
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
            pricing.percentiles().as_slice().iter().map(ToString::to_string).collect();
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
            // Messages know no databases.
            channel: format!("{prefix}:news:{database}"),
            upstreams: upstreams
                .all()
                .iter()
                .map(|node| upstream_keys(node.fingerprint()))
                .collect(),
        }
    }
}
