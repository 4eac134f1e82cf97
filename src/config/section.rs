//! Sections of the configuration that belong to other rooms.
//!
//! `config` reads and checks them together with its own, and knows nothing of their keys. [`Config::section`] returns
//! one by its type.
//!
//! [`Config::section`]: super::Config::section

use std::any::Any;
use std::fmt::Debug;

use figment::value::{Dict, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml_edit::Item;

use super::layers::Layers;
use super::mistakes::{Mistakes, SectionMistakes};
use super::print;
use super::{CHAINS, Chain};

/// A section: a table of the configuration with defaults for all keys, or some keys in the table of each chain.
pub(crate) trait Section:
    Any + Clone + Debug + Default + DeserializeOwned + Serialize + Send + Sync
{
    /// Name of the table.
    const NAME: &'static str;
    /// Keys in the table of each chain. If there are any, the section is a map by the key of the chain, and its name is
    /// [`CHAINS`].
    const CHAIN_KEYS: &'static [&'static str] = &[];
    /// A value for each key that may be absent, as TOML; those of a chain without the table's name.
    const OPTIONAL_KEYS: &'static str = "";
    /// Keys whose value is a list.
    const LISTS: &'static [&'static str] = &[];
    /// Keys whose value is text even if it looks like a number.
    const TEXTS: &'static [&'static str] = &[];
    /// Keys whose built-in value belongs to the built-in chains.
    const NETWORK_KEYS: &'static [&'static str] = &[];

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

    /// Returns the section for `check-config --print`; `None`: nothing is configured.
    fn to_item(&self) -> Option<Item> {
        Some(print::section(self))
    }
}

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

/// How a section is read.
#[derive(Debug, Clone, Copy)]
pub struct SectionKind {
    /// Name of the table.
    pub(crate) name: &'static str,
    pub(crate) chain_keys: &'static [&'static str],
    pub(super) optional_keys: &'static str,
    pub(super) lists: &'static [&'static str],
    pub(super) texts: &'static [&'static str],
    pub(super) network_keys: &'static [&'static str],
    /// Converts the table at this path of the values.
    pub(super) convert: fn(&mut Mistakes<'_>, &mut Value) -> Option<Box<dyn AnySection>>,
}

impl SectionKind {
    pub(crate) const fn new<T: Section>() -> Self {
        Self {
            name: T::NAME,
            chain_keys: T::CHAIN_KEYS,
            optional_keys: T::OPTIONAL_KEYS,
            lists: T::LISTS,
            texts: T::TEXTS,
            network_keys: T::NETWORK_KEYS,
            convert: |mistakes, values| {
                Some(Box::new(mistakes.convert_section::<T>(values, T::NAME)?))
            },
        }
    }

    /// Takes the values of the section out of all. Returns them at their path.
    pub(super) fn take_from(&self, values: &mut Value) -> Value {
        let Value::Dict(_, all) = values else { return Dict::new().into() };
        if self.chain_keys.is_empty() {
            return Dict::from_iter(all.remove_entry(self.name)).into();
        }
        let mut chains = Dict::new();
        if let Some(Value::Dict(_, tables)) = all.get_mut(CHAINS) {
            for (chain, table) in tables {
                let Value::Dict(_, table) = table else { continue };
                let keys = self.chain_keys.iter().filter_map(|key| table.remove_entry(*key));
                chains.insert(chain.clone(), keys.collect::<Dict>().into());
            }
        }
        Dict::from([(CHAINS.to_owned(), chains.into())]).into()
    }
}

/// A section of any type.
pub(crate) trait AnySection: Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn check(&self, mistakes: &mut SectionMistakes);
    fn check_chains(&self, chains: &[Chain], mistakes: &mut SectionMistakes);
    fn notes(&self, chains: &[Chain], layers: &Layers) -> Vec<String>;
    fn needs(&self, chains: &[Chain]) -> Needs;
    fn check_files(&self) -> Result<Option<String>, (&'static str, String)>;
    fn to_item(&self) -> Option<Item>;
    fn to_any(&self) -> &dyn Any;
    fn to_box(&self) -> Box<dyn AnySection>;
}

impl<T: Section> AnySection for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn check(&self, mistakes: &mut SectionMistakes) {
        Section::check(self, mistakes);
    }

    fn check_chains(&self, chains: &[Chain], mistakes: &mut SectionMistakes) {
        Section::check_chains(self, chains, mistakes);
    }

    fn notes(&self, chains: &[Chain], layers: &Layers) -> Vec<String> {
        Section::notes(self, chains, layers)
    }

    fn needs(&self, chains: &[Chain]) -> Needs {
        Section::needs(self, chains)
    }

    fn check_files(&self) -> Result<Option<String>, (&'static str, String)> {
        Section::check_files(self)
    }

    fn to_item(&self) -> Option<Item> {
        Section::to_item(self)
    }

    fn to_any(&self) -> &dyn Any {
        self
    }

    fn to_box(&self) -> Box<dyn AnySection> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn AnySection> {
    fn clone(&self) -> Self {
        (**self).to_box()
    }
}

#[cfg(test)]
const ANY_CHAIN: &str = "[chains.any]\nchain_id = 9\nrpc_urls = [\"http://localhost:8545\"]\n";

/// Returns the section of the built-in configuration.
#[cfg(test)]
pub(crate) fn built_in<T: Section>() -> T {
    let built_in: toml_edit::DocumentMut =
        include_str!("../../config/default.toml").parse().unwrap();
    let mut only = toml_edit::DocumentMut::new();
    only.insert(T::NAME, built_in[T::NAME].clone());
    let text = format!("{only}{ANY_CHAIN}");
    super::Config::from_toml(&text, &[SectionKind::new::<T>()]).unwrap().section()
}

/// Returns the error of a text with the section.
#[cfg(test)]
pub(crate) fn error_of<T: Section>(text: &str) -> String {
    let text = format!("{text}\n{ANY_CHAIN}");
    let config = super::Config::from_toml(&text, &[SectionKind::new::<T>()]);
    config.map(|_| ()).expect_err("the section is wrong").to_string()
}
