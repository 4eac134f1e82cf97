//! The effective configuration as TOML, for `check-config --print`: each value with its origin, without secrets.

use std::fmt::Write;

use serde::Serialize;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::layers::{Layers, Origin};
use super::mistakes::Mistakes;
use super::{CHAINS, Chain, Config, SectionKind};

/// A chain with every key, from which [`known_keys`] reads the keys. No value of it is used.
const EVERY_KEY: &str = "\
[tracing]\notlp_endpoint = \"http://x\"\n\
[chains.x]\nname = \"x\"\nchain_id = 1\ncurrency = \"X\"\nflashblock_time = \"1s\"\n\
rpc_urls = [\"http://x\"]\nreads_per_minute = 1\npoll_timeout = \"1s\"\nstall_after = \"1m\"\nmax_block_age = \"1m\"\n\
pricing.reward_percentiles = [60]\npricing.base_fee_change_denominator = 8\n\
pricing.empty_block_denominator = 8\n";

/// Returns all keys, those of a chain below `chains.x`.
pub(crate) fn known_keys(kinds: &[SectionKind]) -> Vec<String> {
    // The table of the chain is the last one of the text.
    let mut kinds_by_place: Vec<_> = kinds.iter().collect();
    kinds_by_place.sort_by_key(|kind| kind.chain_keys.is_empty());
    let optional_keys: String = kinds_by_place.iter().map(|kind| kind.optional_keys).collect();
    let Ok(layers) = Layers::from_toml(&format!("{EVERY_KEY}{optional_keys}"), kinds) else {
        return Vec::new();
    };
    let Some((mut sections, others)) = Mistakes::new(&layers).convert_all() else {
        return Vec::new();
    };
    let chains = std::mem::take(&mut sections.chains);
    let with_key = |(key, mut chain): (String, Chain)| {
        chain.set_key(key);
        chain
    };
    let chains = chains.into_iter().map(with_key).collect();
    let document = to_document(&sections.into_config(chains, others));
    let mut keys = Vec::new();
    collect_keys(&document, "", &mut keys);
    keys
}

fn collect_keys(table: &Table, prefix: &str, keys: &mut Vec<String>) {
    for (name, item) in table {
        match item {
            Item::Table(table) => collect_keys(table, &format!("{prefix}{name}."), keys),
            _ => keys.push(format!("{prefix}{name}")),
        }
    }
}

/// Returns `config` as TOML. Comments name the origins, which `layers` knows.
pub(crate) fn to_toml(config: &Config, layers: &Layers) -> String {
    let mut document = to_document(config);
    annotate(&mut document, &mut Vec::new(), layers);
    let mut text = String::from("# The effective configuration. `…` hides what may be secret.\n");
    for note in &config.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# Note: {note}");
    }
    text.push('\n');
    text.push_str(document.to_string().trim_start());
    text
}

fn to_document(config: &Config) -> DocumentMut {
    let mut document = DocumentMut::new();
    for (name, item) in [("server", section(&config.server)), ("limits", section(&config.limits))] {
        document.insert(name, item);
    }
    let others = config.sections.iter().filter_map(|other| Some((other.name(), other.to_item()?)));
    let (of_chains, others): (Vec<_>, Vec<_>) = others.partition(|(name, _)| *name == CHAINS);
    document.extend(others);
    for (name, item) in [
        ("upstream", section(&config.upstream)),
        ("cors", section(&config.cors)),
        ("log", section(&config.log)),
        ("tracing", section(&config.tracing)),
    ] {
        document.insert(name, item);
    }
    let mut chains = Table::new();
    chains.set_implicit(true);
    for chain in &config.chains {
        let mut table = section(&chain.with_all_values());
        let keys = of_chains.iter().filter_map(|(_, chains)| chains.get(&chain.key)?.as_table());
        if let Some(table) = table.as_table_mut() {
            keys.for_each(|keys| table.extend(keys.clone()));
        }
        chains.insert(&chain.key, table);
    }
    document.insert(CHAINS, Item::Table(chains));
    document
}

pub(crate) fn section(values: &impl Serialize) -> Item {
    // Every section is a struct of strings, numbers, arrays of them, and such structs.
    Item::Table(with_tables(toml_edit::ser::to_document(values).unwrap_or_default().into_table()))
}

/// Writes each inner table below a header of its own.
fn with_tables(mut table: Table) -> Table {
    for (_, item) in table.iter_mut() {
        if let Item::Value(Value::InlineTable(inner)) = item {
            *item = Item::Table(with_tables(std::mem::take(inner).into_table()));
        }
    }
    table
}

/// Writes the origin of each value behind it.
fn annotate(table: &mut Table, path: &mut Vec<String>, layers: &Layers) {
    const COMMENT_COLUMN: usize = 44;
    for (key, item) in table.iter_mut() {
        path.push(key.get().to_owned());
        match item {
            Item::Table(table) => annotate(table, path, layers),
            Item::Value(value) => {
                let width = format!("{} = {}", key.get(), value.to_string().trim()).chars().count();
                let padding = COMMENT_COLUMN.saturating_sub(width).max(1);
                let origin = describe(path, layers);
                value.decor_mut().set_suffix(format!("{:padding$}# {origin}", ""));
            }
            Item::ArrayOfTables(tables) => {
                for (index, table) in tables.iter_mut().enumerate() {
                    path.push(index.to_string());
                    annotate(table, path, layers);
                    path.pop();
                }
            }
            Item::None => {}
        }
        path.pop();
    }
}

fn describe(path: &[String], layers: &Layers) -> String {
    if !layers.has(path) {
        return match path.last().map_or("", String::as_str) {
            "name" => "default: the key".into(),
            "max_age" => "default: 30s, or five block times if longer".into(),
            "poll_timeout" => "default: a third of max_age".into(),
            "stall_after" => "default: ten block times".into(),
            "max_block_age" => "default: the longer of stall_after and 1m".into(),
            _ => "default".into(),
        };
    }
    match layers.origin(path) {
        Origin::File(Some(line)) => format!("{}, line {line}", layers.file_name()),
        Origin::File(None) => layers.file_name(),
        Origin::Variable(name) => name,
        Origin::Argument(name) => name.into(),
        Origin::Preset(name) => format!("preset {name}"),
        Origin::BuiltIn => "default".into(),
    }
}
