//! The `[chains.*]` sections: which chains are polled, at which nodes, how often, and how long data may be served.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::node_url::NodeUrl;
use super::presets;
use super::secret_url::{UpstreamUrl, WebSocketScheme};
use crate::fees::{Pricing, Strategy};

/// One chain. `chain_id` and `rpc_urls` have no default; a preset of the chain id may have others for the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Key in the configuration, which is the `{chain}` of the routes.
    #[serde(skip)]
    pub key: String,
    /// `chain_name` in responses; `None`: the key.
    pub(super) name: Option<String>,
    /// The EIP-155 chain id that every node must return.
    pub chain_id: u64,
    /// Symbol of the coin that pays for gas, such as `ETH`; `None`: unknown.
    pub currency: Option<String>,
    /// Preset that the chain's defaults come from: a name such as "Base"; `None`: no preset has this chain id.
    #[serde(skip)]
    pub preset: Option<&'static str>,
    /// Time between two blocks until it is measured.
    #[serde(default = "default_block_time", with = "humantime_serde")]
    pub block_time: Duration,
    /// True if the operator has set `block_time`. Polls are never further apart then.
    #[serde(skip)]
    pub(crate) is_block_time_set: bool,
    /// Shortest time between two polls.
    #[serde(default = "default_min_poll_interval", with = "humantime_serde")]
    pub min_poll_interval: Duration,
    /// Time between two flashblocks; `None`, also written `"0s"`: the chain has none.
    #[serde(default, with = "humantime_serde")]
    pub flashblock_time: Option<Duration>,
    /// RPC URLs of nodes, in order of preference.
    pub rpc_urls: Vec<NodeUrl>,
    /// Number of upstreams that each poll calls, of which most must agree; 1: the first that works.
    #[serde(default = "default_agreement")]
    pub agreement: NonZeroUsize,
    /// URLs of nodes for clients' reads, in order of preference; empty: `rpc_urls`.
    #[serde(default)]
    pub read_urls: Vec<NodeUrl>,
    /// Calls of clients' reads to each upstream in any minute; 0: no limit; `None`: it depends on the URL.
    #[serde(default)]
    pub reads_per_minute: Option<u32>,
    /// WebSocket URLs of nodes that announce new blocks, in order of preference.
    #[serde(default)]
    pub ws_urls: Vec<NodeUrl<WebSocketScheme>>,
    /// Maximum number of polls per block time, not counting those after a failure.
    #[serde(default = "default_max_polls_per_block")]
    pub max_polls_per_block: NonZeroUsize,
    /// Data older than this is not served. Default: 30 s, or five block times if that is longer.
    #[serde(default, with = "humantime_serde")]
    pub max_age: Duration,
    /// Longest time for a node's reply to a poll; `None`: a third of `max_age`.
    #[serde(default, with = "humantime_serde")]
    pub(super) poll_timeout: Option<Duration>,
    /// Time without a new head after which data is stale; `None`: ten block times, at least 10 s; `"0s"`: never.
    #[serde(default, with = "humantime_serde")]
    stall_after: Option<Duration>,
    /// Age of the newest block above which data is stale; `None`: the longer of `stall_after` and a minute; `"0s"`: never.
    #[serde(default, with = "humantime_serde")]
    max_block_age: Option<Duration>,
    /// Number of recent blocks that are kept for `/fee-history`.
    #[serde(default = "default_history_blocks")]
    pub history_blocks: NonZeroUsize,
    /// Has no effect. Older files have it: the headers are read for the age of blocks, and tell the parameters too.
    #[serde(default, skip_serializing)]
    chain_parameters: IgnoredAny,
    /// Constants of the fee rules.
    #[serde(default = "Pricing::for_any_chain")]
    pub pricing: Pricing,
}

/// Block time of the network (network document, section 8).
fn default_block_time() -> Duration {
    Duration::from_secs(2)
}

fn default_min_poll_interval() -> Duration {
    Duration::from_millis(200)
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

/// Parses a chain id of `0x` and hex digits.
pub(crate) fn parse_hex_chain_id(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    // `from_str_radix` would accept a sign.
    let are_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    are_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

impl Chain {
    /// Lower bound of `stale_after`. `max_age` must exceed it.
    pub(super) const MIN_STALE_AFTER: Duration = Duration::from_secs(2);
    /// Default of `reads_per_minute` for a provider's URL.
    const READS_PER_MINUTE: u32 = 600;

    /// Name in responses.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    /// Returns true if the chain has more than a genesis block: it has a preset that is not that of local chains.
    #[must_use]
    pub(crate) fn has_long_history(&self) -> bool {
        const LOCAL: [u64; 3] = [1337, 13_370, 31_337];
        self.preset.is_some() && !LOCAL.contains(&self.chain_id)
    }

    /// All URLs of nodes: `rpc_urls`, then those that are only in `read_urls`, each once.
    #[must_use]
    pub fn upstream_urls(&self) -> Vec<&NodeUrl> {
        let mut urls: Vec<_> = self.rpc_urls.iter().collect();
        for url in &self.read_urls {
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        urls
    }

    /// Number of blocks after which the rewards at the graded percentiles are read; `None`: they are not. On a chain that
    /// makes more blocks in 5 s at this `block_time`, it is the number of those.
    #[must_use]
    pub fn reading_interval(&self, block_time: Duration) -> Option<NonZeroU64> {
        const LEAST_TIME: Duration = Duration::from_secs(5);
        let configured = NonZeroU64::new(self.pricing.ask_interval)?;
        let in_least_time = LEAST_TIME.as_nanos() / block_time.as_nanos().max(1);
        let in_least_time = u64::try_from(in_least_time).ok().and_then(NonZeroU64::new);
        Some(in_least_time.map_or(configured, |least| configured.max(least)))
    }

    /// Time without a new head after which the data is labelled stale; `None`: never. By default it is ten block times, the
    /// configured ones or those of this measured `block_time` if that is longer.
    #[must_use]
    pub fn stall_after(&self, block_time: Duration) -> Option<Duration> {
        const LEAST: Duration = Duration::from_secs(10);
        let ten_blocks = self.block_time.max(block_time).saturating_mul(10);
        let least = self.min_poll_interval.saturating_mul(5).max(LEAST);
        let after = self.stall_after.unwrap_or(ten_blocks.max(least));
        (!after.is_zero()).then_some(after)
    }

    /// Age of the newest block, by its own time, above which the data is labelled stale; `None`: never. By default it
    /// follows `stall_after` at this measured `block_time`.
    #[must_use]
    pub fn max_block_age(&self, block_time: Duration) -> Option<Duration> {
        const LEAST: Duration = Duration::from_mins(1);
        let stall_after = self.stall_after(block_time);
        let by_default = || stall_after.map_or(Duration::ZERO, |after| after.max(LEAST));
        let age = self.max_block_age.unwrap_or_else(by_default);
        (!age.is_zero()).then_some(age)
    }

    /// Longest time for a node's reply to a poll.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        self.poll_timeout.unwrap_or_else(|| {
            let third = self.max_age / 3;
            // In a configuration, whole milliseconds are easier to read.
            third.saturating_sub(Duration::from_nanos(u64::from(third.subsec_nanos() % 1_000_000)))
        })
    }

    /// Age above which data is labelled stale: two block times at this measured one, or two poll intervals if that is
    /// longer, at least 2 s.
    #[must_use]
    pub fn stale_after(&self, block_time: Duration) -> Duration {
        let interval = block_time.max(self.min_poll_interval);
        interval.saturating_mul(2).max(Self::MIN_STALE_AFTER)
    }

    /// Returns the chain with all values that follow from others.
    pub(crate) fn with_all_values(&self) -> Self {
        Self {
            name: Some(self.name().to_owned()),
            poll_timeout: Some(self.poll_timeout()),
            stall_after: Some(self.stall_after(self.block_time).unwrap_or_default()),
            max_block_age: Some(self.max_block_age(self.block_time).unwrap_or_default()),
            pricing: Pricing {
                reward_percentiles: Some(self.pricing.percentiles()),
                ..self.pricing
            },
            ..self.clone()
        }
    }

    /// Sets the key, and the values that depend on it, on other values, and on which keys the operator has set.
    pub(super) fn complete(&mut self, key: String, is_configured: impl Fn(&str) -> bool) {
        const MIN_MAX_AGE: Duration = Duration::from_secs(30);
        const MAX_MAX_AGE: Duration = Duration::from_mins(5);
        const MAX_AGE_BLOCKS: u32 = 5;
        self.key = key;
        self.is_block_time_set = is_configured("block_time");
        self.flashblock_time = self.flashblock_time.filter(|time| !time.is_zero());
        self.preset = presets::find(self.chain_id).map(|preset| preset.name.as_str());
        if self.max_age.is_zero() {
            let least = self.stale_after(self.block_time).saturating_mul(5) / 4;
            let blocks = self.block_time.saturating_mul(MAX_AGE_BLOCKS);
            self.max_age = blocks.clamp(MIN_MAX_AGE, MAX_MAX_AGE).max(least);
        }
        let pricing = &mut self.pricing;
        // A list that belongs to the network's rule chooses it, unless the operator names another strategy.
        if !is_configured("pricing.strategy") && pricing.percentiles_mistake().is_some() {
            pricing.strategy = Strategy::Network;
        }
    }

    /// Returns how many calls clients may cause at this URL in any minute; `None`: no limit, by default for an own node.
    /// Providers count polls and reads together, so without a limit reads could use up what polls need.
    pub(crate) fn reads_per_minute_of(&self, url: &UpstreamUrl) -> Option<NonZeroU32> {
        let default = if url.is_private() { 0 } else { Self::READS_PER_MINUTE };
        NonZeroU32::new(self.reads_per_minute.unwrap_or(default))
    }
}
