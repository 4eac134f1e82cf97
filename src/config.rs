//! The configuration: built-in defaults, overridden by a file, overridden by `GAS_…` variables. It is read once and
//! checked completely before anything is opened.

pub(crate) mod address;
pub(crate) mod chain;
mod chain_checks;
mod chains;
mod error;
mod keys;
pub(crate) mod layers;
pub(crate) mod mistakes;
pub(crate) mod nearest;
pub(crate) mod node_url;
pub(crate) mod origin;
mod presets;
pub(crate) mod secret;
pub(crate) mod secret_url;
pub(crate) mod section;
mod server;
mod toml_output;
mod toml_text;
mod tracing;
pub(crate) mod units;
pub(crate) mod upstream;
pub(crate) mod value_tree;
mod variables;

use std::ffi::OsString;
use std::path::Path;

use figment::value::Value;
use serde::Serialize;
use toml_edit::DocumentMut;

pub use chain::Chain;
pub(crate) use chain::parse_hex_chain_id;
pub use error::{ConfigError, ConfigErrors};
pub(crate) use keys::{CHAINS, TableKeys};
pub use layers::Overrides;
pub(crate) use layers::{CHAIN_ARGUMENT, URL_VARIABLE};
pub use node_url::NodeUrl;
pub(crate) use presets::public_endpoints;
pub use secret_url::{UpstreamUrl, WebSocketScheme};
pub use section::SectionKind;
pub use server::{Cors, Limits, Log, LogFormat, MemoryLimit, Server, Threads};
pub use tracing::Tracing;
pub use upstream::{ForwardProxy, Upstream};
pub use variables::FILE_VARIABLE;

use keys::{CHAIN_TABLE, KnownKeys};
use layers::Layers;
use mistakes::Mistakes;
use section::{ConfiguredSection, Finding, Needs, Section};

use crate::fees::Pricing;

/// A complete, checked configuration.
#[derive(Debug, Clone, Serialize)]
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
    #[serde(serialize_with = "chains::serialize")]
    pub chains: Vec<Chain>,
    /// Notes for the operator, as sentences: keys and variables without effect, and assumptions about chains.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Where the chains come from, for people: a file, or what stands for it.
    #[serde(skip)]
    pub(crate) origin: String,
    /// True if the chains are recorded: their prices are not current, and nothing of them is shared or kept.
    #[serde(skip)]
    pub(crate) has_recorded_chains: bool,
    /// Sections of other rooms, those of the chains' tables too.
    #[serde(skip)]
    pub(crate) sections: Vec<ConfiguredSection>,
}

/// Keys of the own sections.
const OWN_KEYS: [TableKeys; 8] = [
    TableKeys {
        lists: &["trusted_proxies", "admin_hosts"],
        ..TableKeys::for_struct::<Server>("server")
    },
    TableKeys::for_struct::<Limits>("limits"),
    TableKeys::for_struct::<Upstream>("upstream"),
    TableKeys { lists: &["allowed_origins"], ..TableKeys::for_struct::<Cors>("cors") },
    TableKeys::for_struct::<Log>("log"),
    TableKeys::for_struct::<Tracing>("tracing"),
    TableKeys {
        lists: &["rpc_urls", "read_urls", "ws_urls"],
        texts: &["name", "currency"],
        ..TableKeys::for_struct::<Chain>(CHAIN_TABLE)
    },
    TableKeys {
        lists: &["reward_percentiles"],
        ..TableKeys::for_struct::<Pricing>("chains.NAME.pricing")
    },
];

pub(crate) fn known_keys(kinds: &[SectionKind]) -> KnownKeys {
    KnownKeys(OWN_KEYS.into_iter().chain(kinds.iter().map(|kind| kind.keys)).collect())
}

/// Reads the built-in configuration, `file` if given, the environment, and `overrides`.
pub(crate) fn read_layers(
    file: Option<&Path>,
    environment: impl Iterator<Item = (OsString, OsString)>,
    overrides: &Overrides,
    kinds: &[SectionKind],
) -> Result<Layers, ConfigErrors> {
    Layers::load(file, environment, overrides, known_keys(kinds))
}

impl Config {
    /// Reads the built-in configuration, `file` if given, the environment, and `overrides`. `kinds` are the sections of
    /// other rooms.
    ///
    /// # Errors
    ///
    /// Returns every key that is unknown or invalid, with its origin; of missing keys and values of a wrong type or form the
    /// first in each section and in each chain.
    pub fn load(
        file: Option<&Path>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<Self, ConfigErrors> {
        Self::from_layers(&read_layers(file, std::env::vars_os(), overrides, kinds)?, kinds)
    }

    /// As [`load`](Self::load). Also returns the effective configuration as TOML, with the origin of each value as a
    /// comment. Secrets are shown as `…`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub(crate) fn load_and_print(
        file: Option<&Path>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<(Self, String), ConfigErrors> {
        let layers = read_layers(file, std::env::vars_os(), overrides, kinds)?;
        let config = Self::from_layers(&layers, kinds)?;
        let text = toml_output::with_origins(config.to_document(), &config.notes, &layers);
        Ok((config, text))
    }

    /// Reads `text` as the only layer, but for the presets of its chains.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str, kinds: &[SectionKind]) -> Result<Self, ConfigErrors> {
        Self::from_layers(&Layers::from_toml(text, known_keys(kinds))?, kinds)
    }

    /// Reads the `[upstream]` section alone, for calls to the nodes of `overrides` that decide about the rest.
    ///
    /// # Errors
    ///
    /// Fails if a layer cannot be read, the file has chains of its own, or the section is invalid.
    pub(crate) fn upstream(
        file: Option<&Path>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<Upstream, ConfigErrors> {
        let layers = read_layers(file, std::env::vars_os(), overrides, kinds)?;
        let mut mistakes = Mistakes::new(&layers);
        let upstream = mistakes.read(&layers.values(), "upstream");
        mistakes.finish()?;
        Ok(upstream)
    }

    /// Reads and checks the merged layers.
    pub(crate) fn from_layers(
        layers: &Layers,
        kinds: &[SectionKind],
    ) -> Result<Self, ConfigErrors> {
        let mut mistakes = Mistakes::new(layers);
        let values = mistakes.known_values();
        let file = layers.file.as_ref().map(|file| file.display().to_string());
        let mut config = Self {
            server: mistakes.read(&values, "server"),
            limits: mistakes.read(&values, "limits"),
            upstream: mistakes.read(&values, "upstream"),
            cors: mistakes.read(&values, "cors"),
            log: mistakes.read(&values, "log"),
            tracing: mistakes.read(&values, "tracing"),
            chains: chains::read(&values, &mut mistakes),
            sections: kinds
                .iter()
                .map(|kind| (kind.read)(&values, &mut mistakes, kind.name()))
                .collect(),
            notes: layers.notes.clone(),
            origin: file.unwrap_or_else(|| "built-in".into()),
            has_recorded_chains: false,
        };
        config.server.check(&mut mistakes.section(&["server"]));
        config.cors.check(&mut mistakes.section(&["cors"]));
        config.log.check(&mut mistakes.section(&["log"]));
        config.tracing.check(&mut mistakes.section(&["tracing"]));
        for ConfiguredSection { name, values, .. } in &config.sections {
            values.check(&mut mistakes.section(&[*name]));
        }
        // Where a chain cannot be read, what does not fit the others may fit that one.
        let chains = values.get(CHAINS).and_then(Value::as_dict);
        if chains.is_some_and(|chains| chains.len() == config.chains.len()) {
            for ConfiguredSection { name, values, .. } in &config.sections {
                values.check_chains(&config.chains, &mut mistakes.section(&[*name]));
            }
        }
        mistakes.finish()?;
        for section in &config.sections {
            config.notes.extend(section.values.notes(&config.chains, layers));
        }
        config.notes.extend(config.chains.iter().filter_map(|chain| chain.assumptions(layers)));
        Ok(config)
    }

    /// Returns all values, those of extras too. Secrets are hidden.
    fn to_document(&self) -> DocumentMut {
        let own = toml_output::to_item(self).and_then(|item| item.into_table().ok());
        let mut document = DocumentMut::from(own.unwrap_or_default());
        for ConfiguredSection { name, item, .. } in &self.sections {
            if let Some(item) = item {
                toml_output::add(&mut document, name, item.clone());
            }
        }
        document
    }

    /// Returns a section of another room. It has its defaults if it was not read.
    pub(crate) fn section<T: Section + Clone + Default>(&self) -> T {
        self.sections.iter().find_map(ConfiguredSection::get::<T>).cloned().unwrap_or_default()
    }

    /// Looks at the files that the sections name. Returns notes, as sentences.
    ///
    /// # Errors
    ///
    /// Returns sentences about the files that the service cannot use, each with its key.
    pub(crate) fn check_files(&self) -> Result<Vec<String>, Vec<String>> {
        let (mut notes, mut mistakes) = (Vec::new(), Vec::new());
        for section in &self.sections {
            match section.values.check_files() {
                Ok(note) => notes.extend(note),
                Err((key, problem)) => {
                    mistakes.push(format!("{}.{key}: {problem}", section.name));
                }
            }
        }
        if mistakes.is_empty() { Ok(notes) } else { Err(mistakes) }
    }

    /// Returns checks of the services that the sections name, each with its key.
    pub(crate) fn service_checks(&self) -> impl Iterator<Item = (String, Finding<'_>)> {
        self.sections.iter().filter_map(|section| {
            let (key, finding) = section.values.check_service(&self.upstream)?;
            Some((format!("{}.{key}", section.name), finding))
        })
    }

    /// Returns what the features take of the process.
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.sections.iter().map(|section| section.values.needs(&self.chains));
        needs.fold(Needs::default(), Needs::and)
    }
}

#[cfg(test)]
pub(crate) mod tests;
