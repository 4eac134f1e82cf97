//! `GAS_…` environment variables. Those with `__`, which separates the levels of a key, belong to this program. Others,
//! such as `GAS_PRICE`, belong to other programs.

use std::ffi::OsString;

use figment::value::Value;

use super::error::ConfigError;
use super::keys::{CHAINS, KnownKeys, PREFIX, variable_key, variable_name};
use super::layers::URL_VARIABLE;
use super::nearest::nearest;
use super::toml_text;
use super::value_tree::{Origin, ValueTree};

/// Variable that names the file if no argument does. A container's health check then reads the same file.
pub const FILE_VARIABLE: &str = "GAS_CONFIG";

/// Returns the values of the variables, and sentences about those without effect that look like a slip. An empty value is as
/// if absent. No shell can export a name with a dash, so `GAS_CHAINS__RONIN_TESTNET__…` sets `ronin-testnet` if `chains` has
/// that key.
///
/// # Errors
///
/// Fails if a value is not UTF-8.
pub(super) fn read(
    environment: impl Iterator<Item = (OsString, OsString)>,
    chains: &[String],
    known: &KnownKeys,
) -> Result<(ValueTree, Vec<String>), ConfigError> {
    let (mut values, mut hints) = (ValueTree::empty(), Vec::new());
    let mut variables: Vec<(String, OsString)> = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .filter(|(_, value)| value.to_str().is_none_or(|text| !text.trim().is_empty()))
        .collect();
    variables.sort();
    for (name, value) in variables {
        let mut path = variable_key(&name);
        if path.len() == 1 {
            hints.extend(hint(&name, known));
            continue;
        }
        if let [section, chain, ..] = path.as_mut_slice()
            && section == CHAINS
            && !chains.contains(chain)
            && let Some(dashed) = chains.iter().find(|key| key.replace('-', "_") == *chain)
        {
            chain.clone_from(dashed);
        }
        let text = value.into_string();
        let text = text.map_err(|_| ConfigError::without_key(format!("{name}: must be UTF-8")))?;
        let value = parse(&path, &text, known);
        values.merge(ValueTree::at(&path, value, &Origin::Variable(name)));
    }
    Ok((values, hints))
}

/// Returns the value of a variable: of a list by its elements, else as in TOML, else as text.
fn parse(path: &[String], text: &str, known: &KnownKeys) -> Value {
    if known.is_among(path, |table| table.texts) {
        return text.trim_matches('"').into();
    }
    let is_list = known.is_among(path, |table| table.lists);
    let text = text.trim();
    let elements = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => Some(text),
    };
    match (parse_toml(text), elements) {
        (array @ Value::Array(..), _) => array,
        (table @ Value::Dict(..), _) if is_list => vec![table].into(),
        (_, Some(elements)) if is_list => {
            let elements = elements.split(',').map(str::trim).filter(|element| !element.is_empty());
            elements.map(parse_toml).collect::<Vec<_>>().into()
        }
        (value, _) => value,
    }
}

/// Numbers may also be written as TOML does not, such as `.5`. A hexadecimal number is an address.
fn parse_toml(text: &str) -> Value {
    if text.starts_with("0x") {
        return text.into();
    }
    let whole = || text.parse::<i64>().ok().map(Value::from);
    let fraction = || text.parse::<f64>().ok().filter(|_| text.contains('.')).map(Value::from);
    toml_text::parse_value(text).or_else(whole).or_else(fraction).unwrap_or_else(|| text.into())
}

/// Returns a sentence if the variable names a section, or differs from one of ours only by its underscores, or nearly so.
fn hint(name: &str, known: &KnownKeys) -> Option<String> {
    let key = name.strip_prefix(PREFIX)?.to_lowercase();
    let sections = known.sections();
    if sections.contains(&key.as_str()) {
        return Some(format!(
            "{name} has no effect: a variable sets one key of a section, such as GAS_SERVER__LISTEN"
        ));
    }
    let section = key.split('_').next()?;
    if !sections.contains(&section) || [FILE_VARIABLE, URL_VARIABLE].contains(&name) {
        return None;
    }
    // Any key of a chain may have any chain's name.
    if section == CHAINS {
        return Some(format!(
            "{name} has no effect: levels of a key are separated by two underscores, as in GAS_CHAINS__RONIN__RPC_URLS"
        ));
    }
    let names: Vec<String> = known.all().iter().map(|key| variable_name(key)).collect();
    let meant = nearest(name, names.iter().map(String::as_str))?;
    Some(format!("{name} has no effect; did you mean {meant}?"))
}
