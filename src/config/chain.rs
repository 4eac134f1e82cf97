//! The `[chains.*]` sections: which chains are polled, at which nodes, how often, and how long data may be served.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::pricing::PricingSection;
use super::rpc::RpcMethod;
use super::units;
use super::upstream_url::{UpstreamUrl, WebSocketUrl};
use crate::fees::Pricing;

/// One chain. `chain_id` and `rpc_urls` have no default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Key in the configuration, which is the `{chain}` of the routes.
    #[serde(skip)]
    pub key: String,
    /// `chain_name` in responses; `None`: the key.
    name: Option<String>,
    /// The EIP-155 chain id that every node must return.
    pub chain_id: u64,
    /// Symbol of the coin that pays for gas, such as `ETH`; `None`: unknown.
    pub currency: Option<String>,
    /// Preset that the chain's defaults come from: a name such as "Base"; `None`: no preset has this chain id.
    #[serde(skip)]
    pub preset: Option<&'static str>,
    /// Time between two blocks.
    #[serde(default = "default_block_time", deserialize_with = "units::duration")]
    pub block_time: Duration,
    /// Time between two flashblocks; `None`: the chain has none.
    #[serde(default, deserialize_with = "units::optional_duration")]
    pub flashblock_time: Option<Duration>,
    /// RPC URLs of nodes, in order of preference.
    pub rpc_urls: Vec<UpstreamUrl>,
    /// Number of upstreams that each poll calls, of which most must agree; 1: the first that works.
    #[serde(default = "default_agreement")]
    pub agreement: NonZeroUsize,
    /// URLs of nodes for clients' reads, in order of preference; empty: `rpc_urls`.
    #[serde(default)]
    pub read_urls: Vec<UpstreamUrl>,
    /// Calls of clients' reads to each upstream in any minute; 0: no limit.
    #[serde(default)]
    pub reads_per_minute: u32,
    /// WebSocket URLs of nodes that announce new blocks, in order of preference.
    #[serde(default)]
    pub ws_urls: Vec<WebSocketUrl>,
    /// Maximum number of polls per block time, not counting those after a failure.
    #[serde(default = "default_max_polls_per_block")]
    pub max_polls_per_block: NonZeroUsize,
    /// True if `/rpc/{chain}` exists.
    #[serde(default)]
    pub json_rpc: bool,
    /// Methods that `/rpc/{chain}` allows; `None`: the default list.
    pub rpc_methods: Option<Vec<RpcMethod>>,
    /// Data older than this is not served.
    #[serde(default = "default_max_age", deserialize_with = "units::duration")]
    pub max_age: Duration,
    /// Longest time for a node's reply to a poll; `None`: a third of `max_age`.
    #[serde(default, deserialize_with = "units::optional_duration")]
    poll_timeout: Option<Duration>,
    /// Time without a new head after which data is stale; `None`: ten block times; `"0s"`: never.
    #[serde(default, deserialize_with = "units::optional_duration")]
    stall_after: Option<Duration>,
    /// Number of recent blocks that are kept for `/fee-history`.
    #[serde(default = "default_history_blocks")]
    pub history_blocks: NonZeroUsize,
    /// Constants of the fee rules.
    #[serde(default, deserialize_with = "PricingSection::deserialize")]
    pub pricing: Pricing,
}

/// Block time of the network (network document, section 8).
fn default_block_time() -> Duration {
    Duration::from_secs(2)
}

fn default_max_age() -> Duration {
    Duration::from_secs(30)
}

fn default_max_polls_per_block() -> NonZeroUsize {
    NonZeroUsize::new(3).expect("3 is not 0")
}

fn default_agreement() -> NonZeroUsize {
    NonZeroUsize::MIN
}

fn default_history_blocks() -> NonZeroUsize {
    NonZeroUsize::new(1024).expect("1024 is not 0")
}

impl Chain {
    /// Lower bound of `stale_after`. `max_age` must exceed it.
    const MIN_STALE_AFTER: Duration = Duration::from_secs(2);
    /// Largest window of one call: geth limits a fee history to 1,024 blocks.
    const MAX_WINDOW_BLOCKS: usize = 1024;
    const MAX_HISTORY_BLOCKS: usize = 65_536;
    const MAX_READS_PER_MINUTE: u32 = 1_000_000;
    const MAX_POLLS_PER_BLOCK: usize = 10;
    /// Chain ids are JSON numbers in responses, and most JSON parsers round larger ones.
    const CHAIN_IDS: std::ops::RangeInclusive<u64> = 1..=9_007_199_254_740_991;
    const BLOCK_TIMES: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_hours(1);

    /// Name in responses.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    /// All URLs of nodes: `rpc_urls`, then those that are only in `read_urls`, each once.
    #[must_use]
    pub fn upstream_urls(&self) -> Vec<&UpstreamUrl> {
        let mut urls: Vec<_> = self.rpc_urls.iter().collect();
        for url in &self.read_urls {
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        urls
    }

    /// Time without a new head after which the data is labelled stale; `None`: never.
    #[must_use]
    pub fn stall_after(&self) -> Option<Duration> {
        let after = self.stall_after.unwrap_or(self.block_time.saturating_mul(10));
        (!after.is_zero()).then_some(after)
    }

    /// Longest time for a node's reply to a poll.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        self.poll_timeout.unwrap_or(self.max_age / 3)
    }

    /// Age above which data is labelled stale: two block times, at least 2 s.
    #[must_use]
    pub fn stale_after(&self) -> Duration {
        self.block_time.saturating_mul(2).max(Self::MIN_STALE_AFTER)
    }

    /// Returns the first invalid value as its key below `chains.<key>`, with the allowed values.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let reject = |key, allowed: String| Err((key, allowed));
        // An SVG document cannot contain these.
        let is_forbidden = |character: char| {
            character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}')
        };
        if self
            .name
            .as_deref()
            .is_some_and(|name| name.trim().is_empty() || name.contains(is_forbidden))
        {
            return reject("name", "must not contain control characters".into());
        }
        if !Self::CHAIN_IDS.contains(&self.chain_id) {
            return reject("chain_id", "must be from 1 to 9007199254740991".into());
        }
        if self.rpc_urls.is_empty() {
            return reject("rpc_urls", "must name at least one http:// or https:// URL".into());
        }
        if self.agreement.get() > self.rpc_urls.len() {
            let most = self.rpc_urls.len();
            return reject(
                "agreement",
                format!("must be from 1 to {most}, the number of rpc_urls"),
            );
        }
        if !Self::BLOCK_TIMES.contains(&self.block_time) {
            return reject("block_time", "must be from 10ms to 1h".into());
        }
        if self.flashblock_time.is_some_and(|time| time.is_zero() || time > self.block_time) {
            let most = humantime::format_duration(self.block_time);
            return reject("flashblock_time", format!("must be above 0s and at most {most}"));
        }
        if self.max_age <= self.stale_after() {
            let least = humantime::format_duration(self.stale_after());
            return reject(
                "max_age",
                format!("must be longer than {least} (two block times, and 2s)"),
            );
        }
        if self.poll_timeout.is_some_and(|timeout| timeout.is_zero() || timeout > self.max_age) {
            let most = humantime::format_duration(self.max_age);
            return reject(
                "poll_timeout",
                format!("must be above 0s and at most {most} (max_age)"),
            );
        }
        if self.stall_after().is_some_and(|after| after < self.block_time) {
            let least = humantime::format_duration(self.block_time);
            return reject("stall_after", format!("must be 0s (never) or at least {least}"));
        }
        if self.max_polls_per_block.get() > Self::MAX_POLLS_PER_BLOCK {
            let most = Self::MAX_POLLS_PER_BLOCK;
            return reject("max_polls_per_block", format!("must be from 1 to {most}"));
        }
        if self.reads_per_minute > Self::MAX_READS_PER_MINUTE {
            let most = Self::MAX_READS_PER_MINUTE;
            return reject("reads_per_minute", format!("must be from 0 to {most}"));
        }
        if self.history_blocks.get() > Self::MAX_HISTORY_BLOCKS {
            return reject(
                "history_blocks",
                format!("must be from 1 to {}", Self::MAX_HISTORY_BLOCKS),
            );
        }
        if self.pricing.window_blocks.get() > Self::MAX_WINDOW_BLOCKS {
            return reject(
                "pricing.window_blocks",
                format!("must be from 1 to {}", Self::MAX_WINDOW_BLOCKS),
            );
        }
        let highest_floor = self.pricing.high_multiplier.apply(self.pricing.priority_fee_floor);
        let highest_floor = highest_floor.unwrap_or(self.pricing.priority_fee_floor);
        for (key, floor, most) in [
            ("pricing.max_base_fee", self.pricing.base_fee_floor, self.pricing.max_base_fee),
            ("pricing.max_priority_fee", highest_floor, self.pricing.max_priority_fee),
        ] {
            if most < floor {
                return reject(key, format!("must be at least {floor} wei, from the floor"));
            }
        }
        if !self.pricing.has_enough_percentiles() {
            let allowed = "must have two values with strategy = \"adaptive\", such as [10, 60]";
            return reject("pricing.reward_percentiles", allowed.into());
        }
        Ok(())
    }
}
