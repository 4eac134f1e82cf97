//! The `[chains.*]` sections: which networks are polled, where, how often, and how long an answer
//! stays good.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::pricing::Pricing;
use super::rpc::RpcMethod;
use super::units;
use super::upstream_url::{UpstreamUrl, WebSocketUrl};

/// One network. `chain_id` and `rpc_urls` have no default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The key in the configuration, which is the `{chain}` of the routes.
    #[serde(skip)]
    pub key: String,
    /// `chain_name` in answers; `None`: the key.
    name: Option<String>,
    /// The EIP-155 chain id that every RPC URL must answer.
    pub chain_id: u64,
    /// The time between two blocks, as often as which the chain is polled at least.
    #[serde(default = "default_block_time", deserialize_with = "units::duration")]
    pub block_time: Duration,
    /// The time between two flashblocks; `None`: the chain has none.
    #[serde(default, deserialize_with = "units::optional_duration")]
    pub flashblock_time: Option<Duration>,
    /// The RPC nodes, in order of preference.
    pub rpc_urls: Vec<UpstreamUrl>,
    /// WebSockets of nodes that say when there is a new block, in order of preference.
    #[serde(default)]
    pub ws_urls: Vec<WebSocketUrl>,
    /// In any block time there are never more polls, except of other upstreams after a failure.
    #[serde(default = "default_max_polls_per_block")]
    pub max_polls_per_block: NonZeroUsize,
    /// The methods that `/rpc/{chain}` allows; `None`: the usual ones.
    pub rpc_methods: Option<Vec<RpcMethod>>,
    /// Data older than this is not served.
    #[serde(default = "default_max_age", deserialize_with = "units::duration")]
    pub max_age: Duration,
    /// `None`: ten block times; `"0s"`: never.
    #[serde(default, deserialize_with = "units::optional_duration")]
    stall_after: Option<Duration>,
    /// How many blocks are remembered for `/fee-history`.
    #[serde(default = "default_history_blocks")]
    pub history_blocks: NonZeroUsize,
    /// The constants of the fee rules.
    #[serde(default)]
    pub pricing: Pricing,
}

/// The network's full block time (network document, section 8).
fn default_block_time() -> Duration {
    Duration::from_secs(2)
}

fn default_max_age() -> Duration {
    Duration::from_secs(30)
}

fn default_max_polls_per_block() -> NonZeroUsize {
    NonZeroUsize::new(3).expect("3 is not 0")
}

fn default_history_blocks() -> NonZeroUsize {
    NonZeroUsize::new(1024).expect("1024 is not 0")
}

impl Chain {
    /// The least age at which data may count as stale or unservable, however short the blocks.
    const MIN_STALE_AFTER: Duration = Duration::from_secs(2);
    /// Largest window of one call: geth cuts a fee history at 1024 blocks.
    const MAX_WINDOW_BLOCKS: usize = 1024;
    const MAX_HISTORY_BLOCKS: usize = 65_536;
    const MAX_POLLS_PER_BLOCK: usize = 10;
    /// They are JSON numbers in answers, and most readers keep no larger ones apart.
    const CHAIN_IDS: std::ops::RangeInclusive<u64> = 1..=9_007_199_254_740_991;
    const BLOCK_TIMES: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_hours(1);

    /// The name in answers.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    /// How long the head may stand still before the data is labelled stale; `None`: for ever.
    #[must_use]
    pub fn stall_after(&self) -> Option<Duration> {
        let after = self.stall_after.unwrap_or(self.block_time.saturating_mul(10));
        (!after.is_zero()).then_some(after)
    }

    /// The age above which data is labelled stale: two block times, never less than 2 s.
    #[must_use]
    pub fn stale_after(&self) -> Duration {
        self.block_time.saturating_mul(2).max(Self::MIN_STALE_AFTER)
    }

    /// The first impossible value as its key below `chains.<key>` and what is allowed.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let reject = |key, allowed: String| Err((key, allowed));
        // None of them can stand in an SVG document.
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
        if self.stall_after().is_some_and(|after| after < self.block_time) {
            let least = humantime::format_duration(self.block_time);
            return reject("stall_after", format!("must be 0s (never) or at least {least}"));
        }
        if self.max_polls_per_block.get() > Self::MAX_POLLS_PER_BLOCK {
            let most = Self::MAX_POLLS_PER_BLOCK;
            return reject("max_polls_per_block", format!("must be from 1 to {most}"));
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
        if !self.pricing.has_enough_percentiles() {
            let allowed = "must have two values with strategy = \"adaptive\", such as [10, 60]";
            return reject("pricing.reward_percentiles", allowed.into());
        }
        Ok(())
    }
}
