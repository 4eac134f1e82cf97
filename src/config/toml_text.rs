//! Reads TOML, with the line of each key and of each element of an array.

use std::ops::Range;

use toml_edit::{ImDocument, Item, Key, Table, TableLike, Value};

use super::error::{ConfigError, is_public_key, redact_message};
use super::value_tree::{Content, Origin, ValueTree};

/// Reads `text`; errors call it `name`.
///
/// # Errors
///
/// Fails by line and column if it is not TOML. The parser's own message quotes the line, which may contain a URL with a
/// key.
pub(super) fn parse(text: &str, name: &str) -> Result<ValueTree, ConfigError> {
    let document = ImDocument::parse(text).map_err(|error| {
        let before = text_before(text, error.span());
        let line = line_after(before);
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        let message = error.message().lines().next().unwrap_or("syntax error");
        let message = redact_message(message);
        let reason = match (first_header(text, line), lacks_quotes(text, line)) {
            (Some((table, first)), _) => {
                format!("table {table} is there twice, at line {first} and at line {line}")
            }
            (None, true) => {
                format!("{message} at line {line}, column {column}; a text must have quotes: \"…\"")
            }
            (None, false) => format!("{message} at line {line}, column {column}"),
        };
        ConfigError::without_key(format!("{name} is not valid TOML: {reason}"))
    })?;
    Ok(read_table(text, document.as_table(), Origin::BuiltIn))
}

/// Returns the value that the text of a variable is in TOML, if it is one.
pub(super) fn parse_value(text: &str) -> Option<figment::value::Value> {
    let value = text.parse().ok()?;
    Some(read_value(text, &value, Origin::BuiltIn).to_value())
}

/// Returns the table that is defined at this line and at one above, and the number of that line.
fn first_header(text: &str, line: usize) -> Option<(String, usize)> {
    let header = |line: &str| {
        let inner = line.split('#').next()?.trim().strip_prefix('[')?.strip_suffix(']')?;
        let table = inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        Some(table.unwrap_or(inner).split('.').map(str::trim).collect::<Vec<_>>().join("."))
    };
    let table = header(text.lines().nth(line.checked_sub(1)?)?)?;
    let first = text.lines().position(|line| header(line).is_some_and(|other| other == table))? + 1;
    let shown =
        if table.split('.').all(is_public_key) { format!("`{table}`") } else { "…".into() };
    (first < line).then_some((shown, first))
}

/// Returns true if a value at this line is a text without quotes, or with those of a word processor.
fn lacks_quotes(text: &str, line: usize) -> bool {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let value = line.split_once('=').map(|(_, value)| value.trim_start_matches([' ', '[']));
    value.is_some_and(|value| {
        value.starts_with(|first: char| first.is_alphanumeric() || "“”„‘’«»".contains(first))
    })
}

fn read_table(text: &str, table: &dyn TableLike, origin: Origin) -> ValueTree {
    let entries = table.iter().map(|(name, item)| {
        let origin = line_of(text, table.key(name).and_then(Key::span));
        (name.to_owned(), read_item(text, item, origin))
    });
    ValueTree { origin, content: Content::Table(entries.collect()) }
}

fn read_item(text: &str, item: &Item, origin: Origin) -> ValueTree {
    match item {
        Item::Value(value) => read_value(text, value, origin),
        Item::Table(table) => read_table(text, table, origin),
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter();
            let tables = tables.map(|table| read_table(text, table, line_of(text, table.span())));
            ValueTree { origin, content: Content::Array(tables.collect()) }
        }
        // No key of a parsed document is without a value.
        Item::None => read_table(text, &Table::new(), origin),
    }
}

fn read_value(text: &str, value: &Value, origin: Origin) -> ValueTree {
    let content = match value {
        Value::InlineTable(table) => return read_table(text, table, origin),
        Value::Array(elements) => {
            let elements = elements.iter();
            let elements =
                elements.map(|value| read_value(text, value, line_of(text, value.span())));
            Content::Array(elements.collect())
        }
        Value::String(text) => Content::Plain(text.value().as_str().into()),
        Value::Integer(number) => Content::Plain((*number.value()).into()),
        Value::Float(number) => Content::Plain((*number.value()).into()),
        Value::Boolean(value) => Content::Plain((*value.value()).into()),
        Value::Datetime(time) => Content::Plain(time.value().to_string().into()),
    };
    ValueTree { origin, content }
}

fn line_of(text: &str, span: Option<Range<usize>>) -> Origin {
    Origin::File(line_after(text_before(text, span)))
}

fn text_before(text: &str, span: Option<Range<usize>>) -> &str {
    span.and_then(|span| text.get(..span.start)).unwrap_or_default()
}

fn line_after(before: &str) -> usize {
    before.matches('\n').count() + 1
}
