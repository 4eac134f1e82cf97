//! Writes values as TOML, for `check-config --print`: each with its origin, without secrets.

use std::fmt::Write;

use serde::Serialize;
use toml_edit::ser::ValueSerializer;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::layers::Layers;
use super::value_tree::Origin;

/// Returns `document` as text, with notes before it. Comments name the origins of the values, which `layers` knows.
pub(super) fn with_origins(mut document: DocumentMut, notes: &[String], layers: &Layers) -> String {
    annotate(&mut document, &mut Vec::new(), layers);
    let mut text = String::from("# The effective configuration. `…` hides what may be secret.\n");
    for note in notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# Note: {note}");
    }
    text.push('\n');
    text.push_str(document.to_string().trim_start());
    text
}

/// Returns a table, or a list of tables, under headers; `None` if the list is empty.
pub(super) fn to_item(values: &impl Serialize) -> Option<Item> {
    // Every section has texts, numbers, arrays and tables alone.
    match values.serialize(ValueSerializer::new()).ok()? {
        Value::Array(tables) if tables.is_empty() => None,
        Value::Array(tables) => {
            let tables = tables.into_iter().map(with_headers);
            let tables = tables.filter_map(|table| table.into_table().ok());
            Some(Item::ArrayOfTables(tables.collect()))
        }
        value => Some(with_headers(value)),
    }
}

/// Writes each inner table below a header of its own.
fn with_headers(value: Value) -> Item {
    let Value::InlineTable(inline) = value else { return Item::Value(value) };
    let mut table = inline.into_table();
    table.set_implicit(true);
    for (_, item) in table.iter_mut() {
        if let Ok(value) = std::mem::take(item).into_value() {
            *item = with_headers(value);
        }
    }
    Item::Table(table)
}

/// Adds a table, or its keys to those of one that is there.
pub(super) fn add(table: &mut Table, name: &str, item: Item) {
    match (table.get_mut(name), item) {
        (Some(Item::Table(known)), Item::Table(more)) => {
            for (key, item) in more {
                add(known, &key, item);
            }
        }
        (_, item) => drop(table.insert(name, item)),
    }
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
                let origin = describe_origin(path, layers);
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

fn describe_origin(path: &[String], layers: &Layers) -> String {
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
        Origin::File(line) => format!("{}, line {line}", layers.file_name()),
        Origin::Variable(name) => name.clone(),
        Origin::Argument(name) => (*name).into(),
        Origin::Preset(name) => format!("preset {name}"),
        Origin::BuiltIn => "default".into(),
    }
}
