//! `GAS_…` environment variables. Those with `__`, which separates the levels of a key, belong to this program. Others,
//! such as `GAS_PRICE`, belong to other programs.

use std::ffi::{OsStr, OsString};

use figment::value::{Dict, Value};

use super::SectionKind;
use super::error::ConfigError;
use super::nearest::nearest;

/// Prefix of the variables.
pub(crate) const PREFIX: &str = "GAS_";

/// Variable that names the file if no argument does. A container's health check then reads the same file.
pub const FILE_VARIABLE: &str = "GAS_CONFIG";

const SEPARATOR: &str = "__";

/// One variable that sets a key.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
}

/// Variables of the environment.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// In the order of their names.
    pub(crate) set: Vec<Variable>,
    /// Variables without effect that look like a slip, as sentences.
    pub(crate) hints: Vec<String>,
    pub(crate) errors: Vec<ConfigError>,
}

/// Keys whose value is a list. A variable may have one bare value, or several with commas.
const LISTS: [&str; 7] = [
    "rpc_urls",
    "read_urls",
    "ws_urls",
    "reward_percentiles",
    "trusted_proxies",
    "admin_hosts",
    "allowed_origins",
];

/// Keys whose value is text even if it looks like a number.
const TEXTS: [&str; 2] = ["name", "currency"];

impl Variables {
    /// Reads the variables. An empty value is as if absent. No shell can export a name with a dash, so
    /// `GAS_CHAINS__RONIN_TESTNET__…` sets `ronin-testnet` if `chains` has that key.
    pub(crate) fn read(
        environment: impl Iterator<Item = (OsString, OsString)>,
        chains: &[String],
        kinds: &[SectionKind],
        known_keys: impl Fn() -> Vec<String>,
    ) -> Self {
        let mut found = Self::default();
        let ours = environment.filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX).then_some((name, value))
        });
        let mut ours: Vec<_> = ours.filter(|(_, value)| !is_blank(value)).collect();
        ours.sort();
        for (name, value) in ours {
            let key = name.strip_prefix(PREFIX).unwrap_or_default().to_lowercase();
            if !key.contains(SEPARATOR) {
                found.hints.extend(hint(&name, &key, kinds, &known_keys));
                continue;
            }
            let mut path: Vec<String> = variable_key(&name).collect();
            if let [section, chain, ..] = path.as_mut_slice()
                && section == "chains"
            {
                let exact = chains.iter().find(|known| *known == chain);
                let dashed = || chains.iter().find(|known| known.replace('-', "_") == *chain);
                if let Some(known) = exact.or_else(dashed) {
                    chain.clone_from(known);
                }
            }
            match value.into_string() {
                Ok(text) => {
                    let value = parse(&path, &text, kinds);
                    found.set.push(Variable { name, path, value });
                }
                Err(_) => found.errors.push(ConfigError::for_variable(&name, "must be UTF-8")),
            }
        }
        found
    }
}

fn is_blank(value: &OsStr) -> bool {
    value.to_str().is_some_and(|text| text.trim().is_empty())
}

/// Returns the value of a variable: of a list by its elements, else as in TOML, else as text.
fn parse(path: &[String], text: &str, kinds: &[SectionKind]) -> Value {
    let key = path.last().map_or("", String::as_str);
    let sections =
        || kinds.iter().filter(|kind| path.first().is_some_and(|name| name == kind.name));
    let is_in = |own: &[&str], of_section: fn(&SectionKind) -> &'static [&'static str]| {
        own.contains(&key) || sections().any(|kind| of_section(kind).contains(&key))
    };
    let parsed = || text.parse::<Value>().unwrap_or_else(|never| match never {});
    if is_in(&TEXTS, |kind| kind.texts) {
        return text.trim_matches('"').into();
    }
    let is_list = is_in(&LISTS, |kind| kind.lists);
    if is_list && text.trim_start().starts_with('{') {
        return vec![parsed()].into();
    }
    if is_list && !text.trim_start().starts_with('[') {
        let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
        let elements =
            elements.map(|element| element.parse::<Value>().unwrap_or_else(|never| match never {}));
        return elements.collect::<Vec<_>>().into();
    }
    parsed()
}

/// Returns a sentence if the variable names a section, or differs from one of ours only by its underscores, or nearly so.
fn hint(
    name: &str,
    key: &str,
    kinds: &[SectionKind],
    known_keys: impl Fn() -> Vec<String>,
) -> Option<String> {
    if kinds.iter().any(|kind| kind.name == key && kind.chain_keys.is_empty()) {
        return Some(format!(
            "{name} has no effect: a variable sets one key of a section, such as GAS_HISTORY__DAYS"
        ));
    }
    let section = key.split('_').next()?;
    let known = known_keys();
    let is_section = known.iter().any(|known| known.split('.').next() == Some(section));
    if !is_section || name == FILE_VARIABLE {
        return None;
    }
    // Any key of a chain may have any chain's name.
    if section == "chains" {
        return Some(format!(
            "{name} has no effect: levels of a key are separated by two underscores, as in GAS_CHAINS__RONIN__RPC_URLS"
        ));
    }
    let names: Vec<String> = known.iter().map(|known| variable_name(known)).collect();
    let meant = nearest(name, names.iter().map(String::as_str))?;
    Some(format!("{name} has no effect; did you mean {meant}?"))
}

/// Returns the variable that sets `key`.
pub(crate) fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', SEPARATOR).replace('-', "_").to_uppercase())
}

/// Returns the parts of the key that the variable sets.
pub(crate) fn variable_key(name: &str) -> impl Iterator<Item = String> {
    name.strip_prefix(PREFIX).unwrap_or(name).split(SEPARATOR).map(str::to_lowercase)
}

/// Nests `value` below `path`.
pub(crate) fn nest(path: &[String], value: Value) -> Dict {
    let Some((first, rest)) = path.split_first() else { return Dict::new() };
    let inner = if rest.is_empty() { value } else { nest(rest, value).into() };
    Dict::from([(first.clone(), inner)])
}
