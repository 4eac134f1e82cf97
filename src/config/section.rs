//! Sections of the configuration that belong to other rooms.
//!
//! `config` reads and checks them together with its own, and knows nothing of their keys. [`Config::section`] returns
//! one by its type.
//!
//! [`Config::section`]: super::Config::section

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use figment::value::Dict;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml_edit::Item;

use super::chain::Chain;
use super::keys::{TableKeys, keys_of};
use super::layers::Layers;
use super::mistakes::{Mistakes, SectionMistakes};
use super::toml_output;
use super::upstream::Upstream;

/// A section: a table of the configuration with defaults for all keys, or some keys in the table of each chain.
pub(crate) trait Section: Any + Debug + Send + Sync {
    /// Reports all values that are not allowed.
    fn check(&self, _mistakes: &mut SectionMistakes) {}

    /// Reports all values that do not fit the configured chains.
    fn check_chains(&self, _chains: &[Chain], _mistakes: &mut SectionMistakes) {}

    /// Returns notes for the operator, as sentences.
    fn notes(&self, _chains: &[Chain], _layers: &Layers) -> Vec<String> {
        Vec::new()
    }

    /// Returns what the feature takes of the process.
    fn needs(&self, _chains: &[Chain]) -> Needs {
        Needs::default()
    }

    /// Looks at the files that the section names. Returns a note for the operator, as a sentence.
    ///
    /// # Errors
    ///
    /// Returns a key, and a sentence about its file, if the service cannot use it.
    fn check_files(&self) -> Result<Option<String>, (&'static str, String)> {
        Ok(None)
    }

    /// Returns the key that names a service, and what a call to it finds; `None`: no service is named.
    fn check_service<'a>(&'a self, _upstream: &'a Upstream) -> Option<(&'static str, Finding<'a>)> {
        None
    }
}

/// Result of a call to a service: words for the operator, or the reason why the service cannot be used.
pub(crate) type Finding<'a> = BoxFuture<'a, Result<String, String>>;

/// Resources of the process that a feature takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Bytes that it may hold besides the clients' budget.
    pub(crate) bytes: usize,
    /// Connections to services that are not nodes.
    pub(crate) connections: usize,
    /// Connections to each URL of a node.
    pub(crate) node_connections: usize,
}

impl Needs {
    /// Returns the sum of both. Each URL of a node has one set of connections for all features.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            connections: self.connections.saturating_add(other.connections),
            node_connections: self.node_connections.max(other.node_connections),
        }
    }
}

/// How a section is read and shown.
#[derive(Debug, Clone, Copy)]
pub struct SectionKind {
    pub(crate) keys: TableKeys,
    /// Converts the section. One that is absent, or that cannot be converted, has its defaults.
    pub(super) read: fn(&Dict, &mut Mistakes<'_>, &'static str) -> ConfiguredSection,
}

impl SectionKind {
    /// Describes a section that is converted to `T`. For keys of chains, that is a map of structs by the key of the chain,
    /// which ignore other keys.
    pub(crate) const fn new<T>(keys: TableKeys) -> Self
    where
        T: Section + Default + DeserializeOwned + Serialize,
    {
        Self {
            keys: TableKeys { struct_keys: keys_of::<T>, ..keys },
            read: |values, mistakes, name| {
                let section: T = mistakes.read(values, name);
                let item = toml_output::to_item(&section);
                ConfiguredSection { name, item, values: Arc::new(section) }
            },
        }
    }

    /// Returns the name of the table, or `chains`.
    pub(crate) fn name(&self) -> &'static str {
        self.keys.section()
    }
}

/// A section as it is configured.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredSection {
    /// Name of the table, or `chains`.
    pub(crate) name: &'static str,
    /// The values as TOML; `None`: there are none.
    pub(super) item: Option<Item>,
    pub(super) values: Arc<dyn Section>,
}

impl ConfiguredSection {
    /// Returns the values, if they have this type.
    pub(super) fn get<T: Section>(&self) -> Option<&T> {
        let values: &dyn Any = self.values.as_ref();
        values.downcast_ref()
    }
}

#[cfg(test)]
const ANY_CHAIN: &str = "[chains.any]\nchain_id = 9\nrpc_urls = [\"http://localhost:8545\"]\n";

/// Returns the section of the built-in configuration.
#[cfg(test)]
pub(crate) fn built_in<T: Section + Clone + Default>(kind: SectionKind) -> T {
    let built_in: toml_edit::DocumentMut =
        include_str!("../../config/default.toml").parse().unwrap();
    let mut only = toml_edit::DocumentMut::new();
    only.insert(kind.name(), built_in[kind.name()].clone());
    let text = format!("{only}{ANY_CHAIN}");
    super::Config::from_toml(&text, &[kind]).unwrap().section()
}
