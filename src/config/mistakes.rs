//! Collects the mistakes of a configuration, so that one start tells all of them, but for missing keys and values of a wrong
//! type or form: of those it tells one in each section and in each chain.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use figment::error::Kind;
use figment::value::{Dict, Value};
use serde::de::DeserializeOwned;

use super::error::{ConfigError, ConfigErrors, describe, redact_key};
use super::keys::CHAINS;
use super::layers::Layers;
use super::value_tree::Origin;

/// Mistakes found so far, with their places.
#[derive(Debug)]
pub(crate) struct Mistakes<'a> {
    layers: &'a Layers,
    found: Vec<Mistake>,
}

#[derive(Debug)]
struct Mistake {
    path: Vec<String>,
    origin: Origin,
    problem: String,
}

/// Mistakes of one section.
#[derive(Debug)]
pub(crate) struct SectionMistakes<'a, 'b> {
    all: &'a mut Mistakes<'b>,
    section: Vec<String>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn new(layers: &'a Layers) -> Self {
        Self { layers, found: Vec::new() }
    }

    /// Returns all values but those under unknown keys, which are reported.
    pub(super) fn known_values(&mut self) -> Dict {
        let mut values = self.layers.values();
        self.drop_unknown_keys(&mut values, &mut Vec::new());
        values
    }

    fn drop_unknown_keys(&mut self, table: &mut Dict, path: &mut Vec<String>) {
        let allowed = self.layers.known.allowed(path);
        table.retain(|key, value| {
            path.push(key.clone());
            let is_known = allowed.is_empty() || allowed.contains(&key.as_str());
            if let (true, Value::Dict(_, table)) = (is_known, value) {
                self.drop_unknown_keys(table, path);
            } else if !is_known && self.layers.is_configured(path) {
                // A preset may have keys of features that are not built in.
                self.add_unknown(path, &allowed);
            }
            path.pop();
            is_known
        });
    }

    /// Converts a section. One that is absent or that cannot be converted has its defaults.
    pub(super) fn read<T: DeserializeOwned + Default>(
        &mut self,
        values: &Dict,
        section: &str,
    ) -> T {
        let value = values.get(section);
        value.and_then(|value| self.convert(value, &[section])).unwrap_or_default()
    }

    /// Converts the values at `path`. Reports the first that cannot be converted.
    pub(super) fn convert<T: DeserializeOwned>(
        &mut self,
        value: &Value,
        path: &[&str],
    ) -> Option<T> {
        let error = match value.deserialize() {
            Ok(converted) => return Some(converted),
            Err(error) => error,
        };
        let mut path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
        path.extend(error.path);
        match error.kind {
            Kind::UnknownField(name, allowed) => {
                // The path of such an error may end at the table.
                if path.last() != Some(&name) {
                    path.push(name);
                }
                self.add_unknown(&path, allowed);
            }
            Kind::MissingField(name) => {
                let would_add_chain = matches!(self.layers.origin(&path), Origin::Variable(_))
                    && matches!(path.as_slice(), [section, _] if section == CHAINS);
                path.push(name.into_owned());
                self.add(&path, if would_add_chain {
                    "required, but not set: no such chain is configured, so the variable would add one"
                } else {
                    "required, but not set"
                });
            }
            kind => self.add(&path, describe(&kind)),
        }
        None
    }

    /// Returns the mistakes of the section, or of the table, at `path`.
    pub(super) fn section(&mut self, path: &[&str]) -> SectionMistakes<'_, 'a> {
        let section = path.iter().map(|&part| part.to_owned()).collect();
        SectionMistakes { all: self, section }
    }

    fn add_unknown(&mut self, path: &[String], allowed: &[&str]) {
        let variable = match self.layers.origin(path) {
            Origin::Variable(name) => Some(name.as_str()),
            _ => None,
        };
        self.add(path, self.layers.known.describe_unknown(path, allowed, variable));
    }

    /// Reports a mistake, unless one is known there.
    fn add(&mut self, path: &[String], problem: impl Into<String>) {
        if !self.is_reported(path) {
            let origin = self.layers.origin(path).clone();
            self.found.push(Mistake { path: path.to_vec(), origin, problem: problem.into() });
        }
    }

    /// Returns true if a mistake is known at `path`, below or above it.
    fn is_reported(&self, path: &[String]) -> bool {
        self.found.iter().any(|known| known.path.starts_with(path) || path.starts_with(&known.path))
    }

    /// Returns the mistakes in the order of the file, then those of variables by name; `Ok` if there are none.
    pub(super) fn finish(mut self) -> Result<(), ConfigErrors> {
        self.found.sort_by(|one, other| one.origin.cmp(&other.origin));
        let sections = self.layers.known.sections();
        let file = self.layers.file.as_deref();
        let errors = self.found.into_iter().map(|Mistake { path, origin, problem }| ConfigError {
            key: redact_key(&path, &sections),
            problem,
            origin: match origin {
                Origin::File(line) => {
                    file.map(|file| format!("in {}, line {line}", file.display()))
                }
                Origin::Variable(name) => Some(format!("from the environment variable {name}")),
                Origin::Argument(name) => Some(format!("from the argument {name}")),
                Origin::Preset(_) | Origin::BuiltIn => None,
            },
        });
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }
}

impl<'b> SectionMistakes<'_, 'b> {
    /// Reports a value that is wrong by itself. `key` is below the section; an empty one is the section itself.
    pub(crate) fn reject(&mut self, key: &str, problem: impl Into<String>) {
        self.all.add(&self.path(key), problem);
    }

    /// Reports a value unless it is allowed.
    pub(crate) fn require(&mut self, key: &str, is_allowed: bool, allowed: &str) {
        if !is_allowed {
            self.reject(key, allowed);
        }
    }

    /// Reports a number outside of a range.
    pub(crate) fn require_range<N: Copy + Display + PartialOrd>(
        &mut self,
        key: &str,
        number: N,
        range: RangeInclusive<N>,
    ) {
        if !range.contains(&number) {
            self.reject(key, format!("must be from {} to {}", range.start(), range.end()));
        }
    }

    /// Returns the mistakes of a table below the section.
    pub(crate) fn table(&mut self, name: &str) -> SectionMistakes<'_, 'b> {
        let mut section = self.section.clone();
        section.push(name.to_owned());
        SectionMistakes { all: self.all, section }
    }

    /// Reports a value that does not fit the values of `others`. A mistake in one of those hides this one, which may be
    /// its consequence.
    pub(crate) fn reject_with(&mut self, key: &str, others: &[&str], problem: impl Into<String>) {
        if !others.iter().any(|other| self.all.is_reported(&self.path(other))) {
            self.reject(key, problem);
        }
    }

    /// Checks a time-out of requests.
    pub(crate) fn check_timeout(&mut self, key: &str, timeout: Duration) {
        const MAX: Duration = Duration::from_hours(1);
        let is_allowed = !timeout.is_zero() && timeout <= MAX;
        self.require(key, is_allowed, "must be above 0s and at most 1h");
    }

    /// Checks a number of concurrent requests or of calls in one.
    pub(crate) fn check_count(&mut self, key: &str, count: NonZeroUsize) {
        self.require_range(key, count.get(), 1..=65_536);
    }

    /// Returns true if the file, a variable or an argument sets this key.
    pub(crate) fn is_configured(&self, key: &str) -> bool {
        self.all.layers.is_configured(&self.path(key))
    }

    fn path(&self, key: &str) -> Vec<String> {
        let key = key.split('.').filter(|part| !part.is_empty()).map(str::to_owned);
        self.section.iter().cloned().chain(key).collect()
    }
}
