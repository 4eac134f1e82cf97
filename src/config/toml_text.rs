//! A configuration file as text: its values, and the line of each key.

use std::collections::HashMap;
use std::ops::Range;

use figment::Provider;
use figment::providers::{Format, Toml};
use figment::value::Dict;
use toml_edit::{ImDocument, Item, Value};

use super::error::{ConfigError, redact_message};

/// A parsed file.
#[derive(Debug, Default)]
pub(crate) struct TomlText {
    pub(crate) values: Dict,
    /// Line of each key and of each element of an array, by path.
    lines: HashMap<Vec<String>, usize>,
}

impl TomlText {
    /// Parses `text`; errors call it `name`.
    ///
    /// # Errors
    ///
    /// Fails by line and column if it is not TOML. The parser's own message quotes the line, which may contain a URL with
    /// a key.
    pub(crate) fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let invalid = |start: usize, message: &str| {
            let before = text.get(..start).unwrap_or_default();
            let column =
                before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()).saturating_add(1);
            let line = before.matches('\n').count().saturating_add(1);
            ConfigError::without_key(format!(
                "{name} is not valid TOML: {} at line {line}, column {column}",
                redact_message(message.lines().next().unwrap_or("syntax error")),
            ))
        };
        let document = ImDocument::parse(text)
            .map_err(|error| invalid(error.span().map_or(0, |span| span.start), error.message()))?;
        let values = Toml::string(text).data().map_err(|error| invalid(0, &error.to_string()))?;
        let mut found = Lines { text, path: Vec::new(), by_path: HashMap::new() };
        found.add_table(document.as_table());
        Ok(Self { values: values.into_values().next().unwrap_or_default(), lines: found.by_path })
    }

    /// Returns the line of `path`, or of the nearest table above it that is in the file.
    pub(crate) fn line(&self, path: &[String]) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return Some(*line);
            }
            (_, path) = path.split_last()?;
        }
    }
}

struct Lines<'a> {
    text: &'a str,
    path: Vec<String>,
    by_path: HashMap<Vec<String>, usize>,
}

impl Lines<'_> {
    fn add_table(&mut self, table: &toml_edit::Table) {
        for (name, item) in table {
            let span = table.key(name).and_then(toml_edit::Key::span);
            self.path.push(name.to_owned());
            self.add(span);
            match item {
                Item::Table(table) => self.add_table(table),
                Item::Value(value) => self.add_elements(value),
                Item::ArrayOfTables(tables) => {
                    for (index, table) in tables.iter().enumerate() {
                        self.path.push(index.to_string());
                        self.add(table.span());
                        self.add_table(table);
                        self.path.pop();
                    }
                }
                Item::None => {}
            }
            self.path.pop();
        }
    }

    /// Adds what is inside of an array or an inline table.
    fn add_elements(&mut self, value: &Value) {
        let inner: Vec<(String, &Value, Option<Range<usize>>)> = match value {
            Value::Array(array) => {
                let elements = array.iter().enumerate();
                elements.map(|(index, value)| (index.to_string(), value, value.span())).collect()
            }
            Value::InlineTable(table) => {
                let key_span = |name| table.key(name).and_then(toml_edit::Key::span);
                table.iter().map(|(name, value)| (name.into(), value, key_span(name))).collect()
            }
            _ => Vec::new(),
        };
        for (name, value, span) in inner {
            self.path.push(name);
            self.add(span);
            self.add_elements(value);
            self.path.pop();
        }
    }

    fn add(&mut self, span: Option<Range<usize>>) {
        let before = span.and_then(|span| self.text.get(..span.start));
        if let Some(before) = before {
            let line = before.matches('\n').count().saturating_add(1);
            self.by_path.insert(self.path.clone(), line);
        }
    }
}
