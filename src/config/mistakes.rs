//! Collects every mistake of a configuration, so that one start tells all of them.

use std::num::NonZeroUsize;
use std::time::Duration;

use figment::error::Kind;
use figment::value::Value;
use serde::de::DeserializeOwned;

use super::error::{ConfigError, ConfigErrors, describe, is_public_key, redact_key};
use super::layers::{Layers, Origin};
use super::nearest::nearest;
use super::section::AnySection;
use super::variables::{variable_key, variable_name};
use super::{CHAINS, Sections, print};

/// Mistakes found so far, with their places.
#[derive(Debug)]
pub(crate) struct Mistakes<'a> {
    layers: &'a Layers,
    found: Vec<Mistake>,
    /// Elements that were taken out of arrays: the array and the index in the configuration.
    removed_elements: Vec<(Vec<String>, usize)>,
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
    /// More are not shown. Each costs a pass over the values.
    const MAX: usize = 100;

    pub(crate) fn new(layers: &'a Layers) -> Self {
        Self { layers, found: Vec::new(), removed_elements: Vec::new() }
    }

    /// Converts the values of the own sections, and those of the sections of other rooms. `None`: a mistake cannot be taken
    /// out, or there are too many.
    pub(super) fn convert_all(&mut self) -> Option<(Sections, Vec<Box<dyn AnySection>>)> {
        let mut values = self.layers.values();
        let kinds = &self.layers.kinds;
        let others: Vec<_> = kinds.iter().map(|kind| kind.take_from(&mut values)).collect();
        let own = self.convert::<Sections>(&mut values, None)?;
        let others = kinds.iter().zip(others);
        let others = others.map(|(kind, mut values)| (kind.convert)(self, &mut values));
        Some((own, others.collect::<Option<_>>()?))
    }

    /// Converts the table `name` of the values; one that is absent has its defaults.
    pub(super) fn convert_section<T: DeserializeOwned + Default>(
        &mut self,
        values: &mut Value,
        name: &str,
    ) -> Option<T> {
        if values.find_ref(name).is_none() {
            return Some(T::default());
        }
        match self.convert(values, Some(name)) {
            // The whole table was taken out.
            None if values.find_ref(name).is_none() => Some(T::default()),
            converted => converted,
        }
    }

    /// Converts all values, or those of a table. Takes out each value that cannot be converted, reports it, and goes on
    /// without it. `None`: a mistake cannot be taken out, or there are too many.
    fn convert<T: DeserializeOwned>(
        &mut self,
        values: &mut Value,
        table: Option<&str>,
    ) -> Option<T> {
        while self.found.len() < Self::MAX {
            let part = match table {
                Some(name) => values.find_ref(name)?,
                None => &*values,
            };
            let error = match part.deserialize::<T>() {
                Ok(converted) => return Some(converted),
                Err(error) => error,
            };
            let table = table.map(str::to_owned);
            let mut path: Vec<String> = table.into_iter().chain(error.path.clone()).collect();
            // For an unknown or a missing key, figment's path ends at the table.
            match &error.kind {
                Kind::UnknownField(name, _) if path.last() != Some(name) => path.push(name.clone()),
                Kind::MissingField(name) => path.push(name.to_string()),
                _ => {}
            }
            let original = self.original_path(&path);
            let problem = match &error.kind {
                // A preset has keys of features that may not be built in.
                Kind::UnknownField(..) if self.layers.is_built_in(&original) => None,
                Kind::UnknownField(_, allowed) => Some(self.describe_unknown(&original, allowed)),
                Kind::MissingField(_) => Some(self.describe_missing(&original)),
                kind => Some(describe(kind)),
            };
            if let Some(problem) = problem {
                self.add(&original, problem);
            }
            let is_repaired = match error.kind {
                Kind::MissingField(_) => {
                    insert_placeholder(values, &path) || self.remove(values, path)
                }
                _ => self.remove(values, path),
            };
            if !is_repaired {
                return None;
            }
        }
        None
    }

    /// Returns the mistakes of the section, or of the table, at `path`.
    pub(crate) fn section(&mut self, path: &[&str]) -> SectionMistakes<'_, 'a> {
        let section = path.iter().map(|part| (*part).to_owned()).collect();
        SectionMistakes { all: self, section }
    }

    /// Reports a mistake, unless one is known there.
    pub(crate) fn add(&mut self, path: &[String], problem: impl Into<String>) {
        if !self.is_reported(path) {
            let origin = self.layers.origin(path);
            self.found.push(Mistake { path: path.to_vec(), origin, problem: problem.into() });
        }
    }

    /// Returns true if a mistake is known at `path`, below or above it.
    fn is_reported(&self, path: &[String]) -> bool {
        self.found.iter().any(|known| known.path.starts_with(path) || path.starts_with(&known.path))
    }

    /// Returns the mistakes in the order of the file, then those of variables by name; `Ok` if there are none.
    pub(crate) fn finish(mut self) -> Result<(), ConfigErrors> {
        self.found.sort_by(|one, other| one.origin.cmp(&other.origin));
        let (file, kinds) = (self.layers.file(), &self.layers.kinds);
        let errors = self.found.into_iter().map(|Mistake { path, origin, problem }| ConfigError {
            key: redact_key(&path, kinds),
            problem,
            origin: match origin {
                Origin::File(line) => file.map(|file| match line {
                    Some(line) => format!("in {}, line {line}", file.display()),
                    None => format!("in {}", file.display()),
                }),
                Origin::Variable(name) => Some(format!("from the environment variable {name}")),
                Origin::Argument(name) => Some(format!("from the argument {name}")),
                Origin::Preset(_) | Origin::BuiltIn => None,
            },
        });
        let errors: Vec<_> = errors.chain(self.layers.errors.iter().cloned()).collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }

    fn describe_unknown(&self, path: &[String], allowed: &[&str]) -> String {
        let Some((name, table)) = path.split_last() else { return "unknown key".into() };
        let known = print::known_keys(&self.layers.kinds);
        let origin = self.layers.origin(path);
        let spell = |key: String| match origin {
            Origin::Variable(_) => variable_name(&key),
            _ => format!("`{key}`"),
        };
        let is_public = is_public_key(name);
        let others = self.layers.kinds.iter().flat_map(|kind| match table {
            [] if kind.chain_keys.is_empty() => std::slice::from_ref(&kind.name),
            [section, _] if section == CHAINS => kind.chain_keys,
            _ => &[],
        });
        let allowed: Vec<&str> = allowed.iter().chain(others).copied().collect();
        let near = nearest(name, allowed.iter().copied()).filter(|_| is_public);
        let sibling = near.map(|near| match &origin {
            // The key of the variable, with one part replaced.
            Origin::Variable(variable) => {
                let mut parts: Vec<_> = variable_key(variable).collect();
                if let Some(part) = parts.get_mut(table.len()) {
                    near.clone_into(part);
                }
                parts.join(".")
            }
            _ => near.to_owned(),
        });
        // The key may exist in another section.
        let elsewhere = || {
            let moved = known.iter().find(|key| key.rsplit('.').next() == Some(name))?;
            let is_in_chain = table.first().is_some_and(|section| section == CHAINS);
            Some(match (table.get(1), moved.strip_prefix("chains.x.")) {
                (Some(chain), Some(key)) if is_in_chain && is_public_key(chain) => {
                    format!("{CHAINS}.{chain}.{key}")
                }
                (_, Some(key)) => format!("{CHAINS}.NAME.{key}"),
                (_, None) => moved.clone(),
            })
        };
        let meant = sibling.or_else(elsewhere).map(spell);
        let allowed = match allowed.as_slice() {
            [] => String::new(),
            allowed => format!("; allowed: {}", allowed.join(", ")),
        };
        match meant {
            Some(meant) => format!(
                "unknown key; did you mean {meant}?{}",
                allowed.replacen("; allowed", " Allowed", 1)
            ),
            None => format!("unknown key{allowed}"),
        }
    }

    fn describe_missing(&self, path: &[String]) -> String {
        let parent = path.split_last().map_or(path, |(_, table)| table);
        match self.layers.origin(parent) {
            Origin::Variable(_) if matches!(parent, [section, _] if section == CHAINS) => {
                "required, but not set: no such chain is configured, so the variable would add one"
                    .into()
            }
            _ => "required, but not set".into(),
        }
    }

    /// Returns the path in the configuration of a path in the values that are left.
    fn original_path(&self, path: &[String]) -> Vec<String> {
        let mut original: Vec<String> = Vec::new();
        for part in path {
            let removed = self.removed_elements.iter().filter(|(array, _)| *array == original);
            let mut removed: Vec<usize> = removed.map(|(_, index)| *index).collect();
            removed.sort_unstable();
            let part = match part.parse::<usize>() {
                Ok(index) if !removed.is_empty() => {
                    let shift = |index: usize, gone: &usize| index + usize::from(*gone <= index);
                    removed.iter().fold(index, shift).to_string()
                }
                _ => part.clone(),
            };
            original.push(part);
        }
        original
    }

    /// Takes the value at `path` out, or the nearest one above it.
    fn remove(&mut self, values: &mut Value, mut path: Vec<String>) -> bool {
        while let Some((last, table)) = path.split_last() {
            let original = self.original_path(&path);
            match find_mut(values, table) {
                Some(Value::Dict(_, dict)) if dict.contains_key(last) => {
                    dict.remove(last);
                    return true;
                }
                Some(Value::Array(_, elements)) => {
                    if let Ok(index) = last.parse::<usize>()
                        && index < elements.len()
                    {
                        elements.remove(index);
                        if let Some((index, array)) = original.split_last() {
                            let index = index.parse().unwrap_or_default();
                            self.removed_elements.push((array.to_vec(), index));
                        }
                        return true;
                    }
                }
                _ => {}
            }
            path.pop();
        }
        false
    }
}

impl<'b> SectionMistakes<'_, 'b> {
    /// Reports a value that is wrong by itself. `key` is below the section.
    pub(crate) fn reject(&mut self, key: &str, problem: impl Into<String>) {
        self.all.add(&self.path(key), problem);
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
        if timeout.is_zero() || timeout > MAX {
            self.reject(key, "must be above 0s and at most 1h");
        }
    }

    /// Checks a number of concurrent requests or of calls in one.
    pub(crate) fn check_count(&mut self, key: &str, count: NonZeroUsize) {
        const MAX: usize = 65_536;
        if count.get() > MAX {
            self.reject(key, "must be from 1 to 65536");
        }
    }

    /// Returns true if the file, a variable or an argument sets this key.
    pub(crate) fn is_configured(&self, key: &str) -> bool {
        self.all.layers.is_configured(&self.path(key))
    }

    fn path(&self, key: &str) -> Vec<String> {
        let key = key.split('.').map(str::to_owned);
        self.section.iter().cloned().chain(key).collect()
    }
}

fn find_mut<'a>(values: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(values, |value, part| match value {
        Value::Dict(_, dict) => dict.get_mut(part),
        Value::Array(_, elements) => elements.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Gives a required key a value, so that the conversion goes on. The missing key is reported already.
fn insert_placeholder(values: &mut Value, path: &[String]) -> bool {
    let Some((name, table)) = path.split_last() else { return false };
    let placeholder = match name.as_str() {
        "chain_id" => Value::from(0_u64),
        "rpc_urls" => Vec::<Value>::new().into(),
        _ => return false,
    };
    match find_mut(values, table) {
        Some(Value::Dict(_, dict)) => dict.insert(name.clone(), placeholder).is_none(),
        _ => false,
    }
}
