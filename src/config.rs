//! The configuration: built-in defaults, overridden by a file, overridden by `GAS_…` variables. It is read once and
//! checked completely before anything is opened.

pub(crate) mod chain;
pub(crate) mod error;
pub(crate) mod layers;
pub(crate) mod mistakes;
pub(crate) mod presets;
pub(crate) mod pricing;
pub(crate) mod print;
pub(crate) mod server;
pub(crate) mod toml_text;
pub(crate) mod tracing;
pub(crate) mod units;
pub(crate) mod upstream_url;
pub(crate) mod variables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

pub use crate::extras::compat::section::{Compat, FormatName};
pub use crate::extras::delegation::section::{ApiKey, Delegation, DelegationSource};
pub use crate::extras::replicas::section::{Redis, RedisUrl};
pub use crate::extras::rpc::section::{Rpc, RpcMethod};
pub use crate::extras::score::section::Score;
pub use crate::extras::trend::section::History;
pub use crate::extras::verification::section::Verification;
pub(crate) use chain::parse_hex_chain_id;
pub use chain::{Chain, ChainParameters};
pub use error::{ConfigError, ConfigErrors};
pub use layers::Overrides;
pub use server::{Cors, Limits, Log, LogFormat, MemoryLimit, Server, Threads};
pub use tracing::Tracing;
pub use upstream_url::{UpstreamUrl, WebSocketUrl};
pub(crate) use variables::FILE_VARIABLE;

use layers::Layers;
use mistakes::Mistakes;

const CHAINS: &str = "chains";

/// A complete, checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Listeners and shutdown.
    pub server: Server,
    /// Limits per client.
    pub limits: Limits,
    /// Web pages that may read responses.
    pub cors: Cors,
    /// Log filter and format.
    pub log: Log,
    /// Export of spans.
    pub tracing: Tracing,
    /// Limits of JSON-RPC requests.
    pub rpc: Rpc,
    /// Contract verification.
    pub verification: Verification,
    /// Delegation look-ups.
    pub delegation: Delegation,
    /// Redis that replicas share.
    pub redis: Redis,
    /// Grading of the quotes that were served.
    pub score: Score,
    /// Formats of other gas services.
    pub compat: Compat,
    /// Memory of prices.
    pub history: History,
    /// Chains, in ascending order of chain id; never empty.
    pub chains: Vec<Chain>,
    /// Notes for the operator, as sentences: keys and variables without effect, and assumptions about chains.
    pub notes: Vec<String>,
    /// The configuration file, if one was read.
    pub file: Option<PathBuf>,
    /// True in `gas-suggestion demo`, whose chains are recorded.
    pub is_demo: bool,
}

/// Merged content of all layers, before checks that involve several keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    server: Server,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    cors: Cors,
    #[serde(default)]
    log: Log,
    #[serde(default)]
    tracing: Tracing,
    #[serde(default)]
    rpc: Rpc,
    #[serde(default)]
    chains: BTreeMap<String, Chain>,
    #[serde(default)]
    verification: Verification,
    #[serde(default)]
    delegation: Delegation,
    #[serde(default)]
    redis: Redis,
    #[serde(default)]
    score: Score,
    #[serde(default)]
    compat: Compat,
    #[serde(default)]
    history: History,
}

impl Sections {
    /// Returns the configuration with `chains` instead of those of the sections.
    fn into_config(self, chains: Vec<Chain>) -> Config {
        Config {
            server: self.server,
            limits: self.limits,
            cors: self.cors,
            log: self.log,
            tracing: self.tracing,
            rpc: self.rpc,
            verification: self.verification,
            delegation: self.delegation,
            redis: self.redis,
            score: self.score,
            compat: self.compat,
            history: self.history,
            chains,
            notes: Vec::new(),
            file: None,
            is_demo: false,
        }
    }
}

impl Config {
    /// Reads the built-in configuration, `file` if given, the environment, and `overrides`.
    ///
    /// # Errors
    ///
    /// Returns every key that is unknown, malformed or invalid, with its origin.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigErrors> {
        Self::from_layers(&Layers::load(file, std::env::vars_os(), overrides)?)
    }

    /// Returns the effective configuration as TOML, with the origin of each value as a comment. Secrets are shown as `…`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn print(file: Option<&Path>, overrides: &Overrides) -> Result<String, ConfigErrors> {
        let layers = Layers::load(file, std::env::vars_os(), overrides)?;
        Ok(print::to_toml(&Self::from_layers(&layers)?, &layers))
    }

    /// Reads `text` as the only layer, but for the presets of its chains.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str) -> Result<Self, ConfigErrors> {
        Self::from_layers(&Layers::from_toml(text)?)
    }

    /// Returns all keys, those of a chain below `chains.x`.
    fn known_keys() -> &'static [String] {
        static KEYS: LazyLock<Vec<String>> = LazyLock::new(print::known_keys);
        &KEYS
    }

    fn from_layers(layers: &Layers) -> Result<Self, ConfigErrors> {
        let mut mistakes = Mistakes::new(layers);
        let Some(mut sections) = mistakes.convert::<Sections>() else {
            mistakes.finish()?;
            return Err(ConfigError::without_key("the configuration cannot be read").into());
        };
        sections.server.check(&mut mistakes.section(&["server"]));
        sections.cors.check(&mut mistakes.section(&["cors"]));
        sections.log.check(&mut mistakes.section(&["log"]));
        sections.tracing.check(&mut mistakes.section(&["tracing"]));
        sections.rpc.check(&mut mistakes.section(&["rpc"]));
        sections.verification.check(&mut mistakes.section(&["verification"]));
        sections.delegation.check(&mut mistakes.section(&["delegation"]));
        sections.history.check(&mut mistakes.section(&["history"]));
        let mut chains = check_chains(std::mem::take(&mut sections.chains), &mut mistakes);
        for chain in &mut chains {
            chain.pricing.further_percentiles = sections.score.percentiles;
            chain.formats = sections.compat.formats();
            chain.history_days = sections.history.days;
        }
        mistakes.finish()?;
        let is_shared = sections.redis.url.is_some();
        let ignored_sockets = chains.iter().filter(|chain| is_shared && !chain.ws_urls.is_empty());
        let ignored_keys = ignored_sockets.map(|chain| {
            let key = &chain.key;
            format!(
                "{CHAINS}.{key}.ws_urls has no effect: with redis.url, replicas share their polls"
            )
        });
        let ignored_answers = chains.iter().filter_map(Chain::note_on_fee_methods);
        let unused_api = sections.delegation.note_without_source(layers);
        let assumptions = chains.iter().filter_map(|chain| chain.assumptions(layers));
        let notes = layers
            .notes
            .iter()
            .cloned()
            .chain(ignored_keys)
            .chain(ignored_answers)
            .chain(unused_api)
            .chain(assumptions)
            .collect();
        Ok(Self {
            notes,
            file: layers.file().map(Path::to_path_buf),
            ..sections.into_config(chains)
        })
    }
}

/// Checks all chains, and returns them in ascending order of chain id.
fn check_chains(sections: BTreeMap<String, Chain>, mistakes: &mut Mistakes) -> Vec<Chain> {
    let mut by_id: BTreeMap<u64, Chain> = BTreeMap::new();
    if sections.is_empty() {
        mistakes.add(&[CHAINS.to_owned()], "must name at least one chain");
    }
    for (key, mut chain) in sections {
        if !is_chain_key(&key) {
            let allowed = "a chain key may contain a-z, 0-9, - and _, and must contain a letter";
            mistakes.add(&[CHAINS.to_owned(), key.clone()], allowed);
        } else if parse_hex_chain_id(&key).is_some() {
            // In a path the key would stand for the chain with this id.
            let problem = "a chain key must not be `0x` and hex digits, which are a chain id";
            mistakes.add(&[CHAINS.to_owned(), key.clone()], problem);
        }
        chain.set_key(key);
        let mut section = mistakes.section(&[CHAINS, &chain.key]);
        let [full_block, empty_block] =
            ["pricing.base_fee_change_denominator", "pricing.empty_block_denominator"]
                .map(|denominator| section.is_configured(denominator));
        chain.pricing.is_denominator_explicit = full_block;
        chain.pricing.is_empty_block_denominator_explicit = empty_block;
        if full_block && !empty_block {
            // The preset's value belongs to the preset's other denominator.
            chain.pricing.empty_block_denominator = None;
        }
        chain.check(&mut section);
        let id = chain.chain_id;
        let Some(other) = by_id.get(&id) else {
            by_id.insert(id, chain);
            continue;
        };
        // The one that is set by the file or a variable is the mistake.
        let is_configured = section.is_configured("chain_id");
        let [wrong, right] = if is_configured { [&chain, other] } else { [other, &chain] };
        let problem = format!("chain id {id} is already used by {CHAINS}.{}", right.key);
        mistakes.section(&[CHAINS, &wrong.key]).reject("chain_id", problem);
    }
    by_id.into_values().collect()
}

/// Returns true if the key has only `a-z 0-9 - _` and at least one letter: upper case cannot come from the environment,
/// and digits alone could be a chain id.
fn is_chain_key(key: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    key.bytes().all(allowed) && key.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests;
