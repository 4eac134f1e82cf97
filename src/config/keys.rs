//! The keys that there are: those of each table, what an unknown one may mean, and how variables are called that set them.

use figment::error::Kind;
use figment::value::{Dict, Value};
use serde::de::DeserializeOwned;

use super::error::is_public_key;
use super::nearest::nearest;

pub(crate) const CHAINS: &str = "chains";

/// Stands for the key of any chain.
const ANY_CHAIN: &str = "NAME";

/// Table of each chain.
pub(super) const CHAIN_TABLE: &str = "chains.NAME";

/// Prefix of the variables.
pub(super) const PREFIX: &str = "GAS_";

/// Separates the levels of a key in the name of a variable.
pub(super) const SEPARATOR: &str = "__";

pub(crate) type Names = &'static [&'static str];

/// Keys of one table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableKeys {
    /// Dotted name of the table.
    pub(crate) table: &'static str,
    /// Returns the keys of the struct that the table is converted to.
    pub(crate) struct_keys: fn() -> Names,
    /// Keys that are read from the tables of all chains, as one map.
    pub(crate) chain_keys: Names,
    /// Keys whose value is a list. A variable may have one bare value, or several with commas.
    pub(crate) lists: Names,
    /// Keys whose value is text even if it looks like a number.
    pub(crate) texts: Names,
    /// Keys whose built-in value belongs to the built-in chains.
    pub(crate) network_keys: Names,
}

/// The keys of all tables.
#[derive(Debug, Clone)]
pub(crate) struct KnownKeys(pub(super) Vec<TableKeys>);

/// Returns the keys of a struct. The error of a key that no table has names them.
pub(super) fn keys_of<T: DeserializeOwned>() -> Names {
    let table = Value::from(Dict::from([(String::new(), Value::from(0))]));
    match table.deserialize::<T>().map_err(|error| error.kind) {
        Err(Kind::UnknownField(_, keys)) => keys,
        _ => &[],
    }
}

impl TableKeys {
    /// Describes a table without keys.
    pub(crate) const fn table(table: &'static str) -> Self {
        Self {
            table,
            struct_keys: || &[],
            chain_keys: &[],
            lists: &[],
            texts: &[],
            network_keys: &[],
        }
    }

    /// Describes a table that is converted to `T`.
    pub(super) const fn for_struct<T: DeserializeOwned>(table: &'static str) -> Self {
        Self { struct_keys: keys_of::<T>, ..Self::table(table) }
    }

    /// Describes keys of the table of each chain.
    pub(crate) const fn in_chains(keys: Names) -> Self {
        Self { chain_keys: keys, ..Self::table(CHAIN_TABLE) }
    }

    fn keys(&self) -> Vec<&'static str> {
        [(self.struct_keys)(), self.chain_keys].concat()
    }

    /// Returns the first part of the table's name.
    pub(super) fn section(&self) -> &'static str {
        self.table.split('.').next().unwrap_or_default()
    }

    fn is_at(&self, path: &[String]) -> bool {
        let parts: Vec<_> = self.table.split('.').collect();
        let mut pairs = parts.iter().zip(path);
        parts.len() == path.len() && pairs.all(|(part, key)| *part == ANY_CHAIN || part == key)
    }
}

impl KnownKeys {
    /// Returns the names of all sections.
    pub(super) fn sections(&self) -> Vec<&'static str> {
        let mut sections = Vec::new();
        for table in &self.0 {
            if !sections.contains(&table.section()) {
                sections.push(table.section());
            }
        }
        sections
    }

    /// Returns the keys that the table at `path` may have; none are returned if it may have any.
    pub(super) fn allowed(&self, path: &[String]) -> Vec<&'static str> {
        if path.is_empty() {
            return self.sections();
        }
        self.0.iter().filter(|table| table.is_at(path)).flat_map(TableKeys::keys).collect()
    }

    /// Returns all dotted keys. Those of a chain are below `chains.NAME`.
    pub(crate) fn all(&self) -> Vec<String> {
        let tables = self
            .0
            .iter()
            .flat_map(|table| table.keys().into_iter().map(|key| format!("{}.{key}", table.table)));
        tables.collect()
    }

    /// Returns true if a key has one of these names in a table of its section.
    pub(super) fn is_among(&self, path: &[String], names: fn(&TableKeys) -> Names) -> bool {
        let (Some(section), Some(key)) = (path.first(), path.last()) else { return false };
        let mut tables = self.0.iter().filter(|table| table.section() == section);
        tables.any(|table| names(table).contains(&key.as_str()))
    }

    /// Describes the unknown key at `path`, in a table that may have the `allowed` ones. `variable` is the one that sets it.
    pub(super) fn describe_unknown(
        &self,
        path: &[String],
        allowed: &[&str],
        variable: Option<&str>,
    ) -> String {
        let Some((name, table)) = path.split_last() else { return "unknown key".into() };
        if name == "max_transaction_gas" {
            return "no chain tells this limit reliably, so the service has none; remove the key"
                .into();
        }
        let near = nearest(name, allowed.iter().copied()).filter(|_| is_public_key(name));
        let near = near.map(|near| match variable {
            // The variable's other levels stay.
            Some(variable) => {
                let mut levels = variable_key(variable);
                if let Some(level) = levels.get_mut(table.len()) {
                    near.clone_into(level);
                }
                levels.join(".")
            }
            None => near.to_owned(),
        });
        let allowed = allowed.join(", ");
        let Some(meant) = near.or_else(|| self.find_elsewhere(name, table)) else {
            return format!("unknown key; allowed: {allowed}");
        };
        let meant = if variable.is_some() { variable_name(&meant) } else { format!("`{meant}`") };
        format!("unknown key; did you mean {meant}? Allowed: {allowed}")
    }

    /// Returns a key with this name in another table, of the same chain if `table` is in one.
    fn find_elsewhere(&self, name: &str, table: &[String]) -> Option<String> {
        let known = self.all();
        let found = known.into_iter().find(|key| key.rsplit('.').next() == Some(name))?;
        match table {
            [section, chain, ..] if section == CHAINS && is_public_key(chain) => {
                Some(found.replace(ANY_CHAIN, chain))
            }
            _ => Some(found),
        }
    }
}

/// Returns the variable that sets `key`.
pub(super) fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', SEPARATOR).replace('-', "_").to_uppercase())
}

/// Returns the levels of the key that the variable sets.
pub(super) fn variable_key(name: &str) -> Vec<String> {
    name.strip_prefix(PREFIX).unwrap_or(name).split(SEPARATOR).map(str::to_lowercase).collect()
}
