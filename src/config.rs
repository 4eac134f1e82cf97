//! The configuration: built-in defaults, overridden by a file, overridden by `GAS_…` variables. It is read once and
//! checked completely before anything is opened.

pub(crate) mod address;
pub(crate) mod chain;
mod chain_checks;
pub(crate) mod error;
pub(crate) mod layers;
pub(crate) mod mistakes;
pub(crate) mod nearest;
pub(crate) mod node_url;
pub(crate) mod origin;
pub(crate) mod presets;
pub(crate) mod print;
pub(crate) mod secret;
pub(crate) mod secret_url;
pub(crate) mod section;
pub(crate) mod server;
pub(crate) mod toml_text;
pub(crate) mod tracing;
pub(crate) mod units;
pub(crate) mod upstream;
pub(crate) mod variables;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

pub(crate) use chain::parse_hex_chain_id;
pub use chain::{Chain, ChainParameters};
pub use error::{ConfigError, ConfigErrors};
pub use layers::Overrides;
pub use node_url::NodeUrl;
pub use secret_url::{UpstreamUrl, WebSocketScheme};
pub use section::SectionKind;
pub use server::{Cors, Limits, Log, LogFormat, MemoryLimit, Server, Threads};
pub use tracing::Tracing;
pub use upstream::{ForwardProxy, ProxyUrl, Upstream};
pub use variables::FILE_VARIABLE;

use layers::Layers;
use mistakes::Mistakes;
use section::{AnySection, Needs, Section};

use crate::fees::Strategy;

pub(crate) const CHAINS: &str = "chains";

/// A complete, checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Listeners and shutdown.
    pub server: Server,
    /// Limits per client.
    pub limits: Limits,
    /// Way of requests to nodes and other upstreams.
    pub upstream: Upstream,
    /// Web pages that may read responses.
    pub cors: Cors,
    /// Log filter and format.
    pub log: Log,
    /// Export of spans.
    pub tracing: Tracing,
    /// Chains, in ascending order of chain id; never empty.
    pub chains: Vec<Chain>,
    /// Notes for the operator, as sentences: keys and variables without effect, and assumptions about chains.
    pub notes: Vec<String>,
    /// Where the chains come from, for people: a file, or what stands for it. `None`: they are built in.
    pub(crate) origin: Option<String>,
    /// True if the chains are recorded: their prices are not current, and nothing of them is shared or kept.
    pub(crate) has_recorded_chains: bool,
    /// Sections of other rooms, those of the chains' tables too.
    pub(crate) sections: Vec<Box<dyn AnySection>>,
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
    upstream: Upstream,
    #[serde(default)]
    cors: Cors,
    #[serde(default)]
    log: Log,
    #[serde(default)]
    tracing: Tracing,
    #[serde(default)]
    chains: BTreeMap<String, Chain>,
}

impl Sections {
    /// Returns the configuration with `chains` instead of those of the sections, and with those of other rooms.
    fn into_config(self, chains: Vec<Chain>, others: Vec<Box<dyn AnySection>>) -> Config {
        Config {
            server: self.server,
            limits: self.limits,
            upstream: self.upstream,
            cors: self.cors,
            log: self.log,
            tracing: self.tracing,
            chains,
            notes: Vec::new(),
            origin: None,
            has_recorded_chains: false,
            sections: others,
        }
    }
}

impl Config {
    /// Reads the built-in configuration, `file` if given, the environment, and `overrides`. `kinds` are the sections of
    /// other rooms.
    ///
    /// # Errors
    ///
    /// Returns every key that is unknown, malformed or invalid, with its origin.
    pub fn load(
        file: Option<&Path>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<Self, ConfigErrors> {
        Self::from_layers(&Layers::load(file, std::env::vars_os(), overrides, kinds)?)
    }

    /// Returns the effective configuration as TOML, with the origin of each value as a comment. Secrets are shown as `…`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn print(
        file: Option<&Path>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<String, ConfigErrors> {
        let layers = Layers::load(file, std::env::vars_os(), overrides, kinds)?;
        Ok(print::to_toml(&Self::from_layers(&layers)?, &layers))
    }

    /// Reads `text` as the only layer, but for the presets of its chains.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str, kinds: &[SectionKind]) -> Result<Self, ConfigErrors> {
        Self::from_layers(&Layers::from_toml(text, kinds)?)
    }

    /// Reads the `[upstream]` section alone, for calls to nodes at `urls` that decide about the rest.
    ///
    /// # Errors
    ///
    /// Fails if a layer cannot be read, the file has chains of its own, or the section is invalid.
    pub(crate) fn upstream(
        file: Option<&Path>,
        urls: &[UpstreamUrl],
        kinds: &[SectionKind],
    ) -> Result<Upstream, ConfigErrors> {
        // The chain ids are not known yet.
        let overrides = Overrides { chains: vec![(0, urls.to_vec())], ..Overrides::default() };
        let layers = Layers::load(file, std::env::vars_os(), &overrides, kinds)?;
        let mut mistakes = Mistakes::new(&layers);
        let upstream = mistakes.convert_section(&mut layers.values(), "upstream");
        mistakes.finish()?;
        Ok(upstream.unwrap_or_default())
    }

    /// Returns a section of another room. It has its defaults if it was not read.
    pub(crate) fn section<T: Section>(&self) -> T {
        let mut all = self.sections.iter().map(|section| section.to_any());
        all.find_map(<dyn Any>::downcast_ref).cloned().unwrap_or_default()
    }

    /// Where the chains come from, for people.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.origin.as_deref().unwrap_or("built-in")
    }

    /// Looks at the files that the sections name. Returns notes, as sentences.
    ///
    /// # Errors
    ///
    /// Returns sentences about the files that the service cannot use, each with its key.
    pub(crate) fn check_files(&self) -> Result<Vec<String>, Vec<String>> {
        let (mut notes, mut mistakes) = (Vec::new(), Vec::new());
        for section in &self.sections {
            match section.check_files() {
                Ok(note) => notes.extend(note),
                Err((key, problem)) => {
                    mistakes.push(format!("{}.{key}: {problem}", section.name()));
                }
            }
        }
        if mistakes.is_empty() { Ok(notes) } else { Err(mistakes) }
    }

    /// Returns what the features take of the process.
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.sections.iter().map(|section| section.needs(&self.chains));
        needs.fold(Needs::default(), Needs::and)
    }

    pub(crate) fn from_layers(layers: &Layers) -> Result<Self, ConfigErrors> {
        let mut mistakes = Mistakes::new(layers);
        let Some((mut sections, others)) = mistakes.convert_all() else {
            mistakes.finish()?;
            return Err(ConfigError::without_key("the configuration cannot be read").into());
        };
        sections.server.check(&mut mistakes.section(&["server"]));
        sections.cors.check(&mut mistakes.section(&["cors"]));
        sections.log.check(&mut mistakes.section(&["log"]));
        sections.tracing.check(&mut mistakes.section(&["tracing"]));
        let (of_chains, tables): (Vec<_>, Vec<_>) =
            others.iter().partition(|section| section.name() == CHAINS);
        for section in tables {
            section.check(&mut mistakes.section(&[section.name()]));
        }
        let chains = check_chains(std::mem::take(&mut sections.chains), &mut mistakes);
        // A mistake in the key of a chain hides those in its table.
        for section in of_chains {
            section.check(&mut mistakes.section(&[CHAINS]));
        }
        for section in &others {
            section.check_chains(&chains, &mut mistakes.section(&[section.name()]));
        }
        mistakes.finish()?;
        let of_sections = others.iter().flat_map(|section| section.notes(&chains, layers));
        let assumptions = chains.iter().filter_map(|chain| chain.assumptions(layers));
        let notes = layers.notes.iter().cloned().chain(of_sections).chain(assumptions).collect();
        Ok(Self {
            notes,
            origin: layers.file().map(|file| file.display().to_string()),
            ..sections.into_config(chains, others)
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
        // A list that belongs to the network's rule chooses it, unless the operator names another strategy.
        if !section.is_configured("pricing.strategy")
            && chain.pricing.percentiles_mistake().is_some()
        {
            chain.pricing.strategy = Strategy::Network;
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
