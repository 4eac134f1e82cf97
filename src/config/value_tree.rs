//! Values with their origins: those of one layer, or those of several merged ones.

use std::collections::BTreeMap;

use figment::value::{Dict, Value};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Line of the configuration file.
    File(usize),
    /// An environment variable.
    Variable(String),
    /// An argument of the command line.
    Argument(&'static str),
    /// Preset of the chain, by name.
    Preset(&'static str),
    /// `config/default.toml`, or code if no layer has the key.
    BuiltIn,
}

/// A value with its origin, or a table or an array of them.
#[derive(Debug, Clone)]
pub(super) struct ValueTree {
    pub(super) origin: Origin,
    pub(super) content: Content,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Table(BTreeMap<String, ValueTree>),
    Array(Vec<ValueTree>),
    /// A text, a number or a boolean.
    Plain(Value),
}

impl ValueTree {
    /// Creates a table without keys.
    pub(super) fn empty() -> Self {
        Self { origin: Origin::BuiltIn, content: Content::Table(BTreeMap::new()) }
    }

    /// Creates a tree whose values all have this origin.
    pub(super) fn new(value: Value, origin: &Origin) -> Self {
        let content = match value {
            Value::Dict(_, table) => Content::Table(
                table.into_iter().map(|(key, value)| (key, Self::new(value, origin))).collect(),
            ),
            Value::Array(_, elements) => {
                Content::Array(elements.into_iter().map(|value| Self::new(value, origin)).collect())
            }
            plain => Content::Plain(plain),
        };
        Self { origin: origin.clone(), content }
    }

    /// Creates a tree with one value at `path`.
    pub(super) fn at(path: &[impl AsRef<str>], value: impl Into<Value>, origin: &Origin) -> Self {
        let nested = path
            .iter()
            .rev()
            .fold(value.into(), |inner, key| Dict::from([(key.as_ref().to_owned(), inner)]).into());
        Self::new(nested, origin)
    }

    /// Merges the values of a layer that wins over those in this tree. A table has the origin that the file gives it, else
    /// that of its first layer, but for presets.
    pub(super) fn merge(&mut self, layer: Self) {
        match (&mut self.content, layer.content) {
            (Content::Table(known), Content::Table(table)) => {
                if matches!(layer.origin, Origin::File(_))
                    || matches!(self.origin, Origin::Preset(_))
                {
                    self.origin = layer.origin;
                }
                for (key, value) in table {
                    match known.get_mut(&key) {
                        Some(known) => known.merge(value),
                        None => drop(known.insert(key, value)),
                    }
                }
            }
            (_, content) => *self = Self { origin: layer.origin, content },
        }
    }

    /// Returns what is at `path`, if anything is.
    pub(super) fn get(&self, path: &[impl AsRef<str>]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| tree.child(key.as_ref()))
    }

    /// Returns what is at `path`, or the nearest table or array above it.
    pub(super) fn nearest(&self, path: &[impl AsRef<str>]) -> &Self {
        match path {
            [key, below @ ..] => {
                self.child(key.as_ref()).map_or(self, |child| child.nearest(below))
            }
            [] => self,
        }
    }

    fn child(&self, key: &str) -> Option<&Self> {
        match &self.content {
            Content::Table(table) => table.get(key),
            Content::Array(elements) => elements.get(key.parse::<usize>().ok()?),
            Content::Plain(_) => None,
        }
    }

    /// Returns the values without their origins.
    pub(super) fn to_value(&self) -> Value {
        match &self.content {
            Content::Table(table) => {
                let values = table.iter().map(|(key, value)| (key.clone(), value.to_value()));
                values.collect::<Dict>().into()
            }
            Content::Array(elements) => {
                elements.iter().map(Self::to_value).collect::<Vec<_>>().into()
            }
            Content::Plain(value) => value.clone(),
        }
    }
}
