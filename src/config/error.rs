//! Configuration errors: the key, its origin and the allowed values.

use std::fmt;

use figment::error::{Actual, Kind};

use super::keys::CHAINS;

/// Error of an invalid configuration. Its text never contains a value that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Dotted key, such as `chains.ronin.max_age`; empty if no single key is wrong.
    pub key: String,
    /// Found value and allowed values.
    pub problem: String,
    /// Where the value comes from, such as a file or an environment variable.
    pub origin: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.problem)?;
        match &self.origin {
            Some(origin) => write!(out, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// All errors of a configuration, in the order of the file, then those of variables; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&errors.join("\n"))
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl ConfigError {
    /// Error that concerns no single key.
    pub(super) fn without_key(problem: impl Into<String>) -> Self {
        Self { key: String::new(), problem: problem.into(), origin: None }
    }
}

/// Returns true if a part of a key cannot be a secret.
pub(super) fn is_public_key(part: &str) -> bool {
    const MAX_LENGTH: usize = 40;
    is_public(part, MAX_LENGTH)
}

/// Returns a dotted key, with `[0]` for the first element of a list, or only the one of the `sections` that it is in if a part
/// may be a secret: the dots may belong to a URL, whose plain parts may be secret too.
pub(super) fn redact_key(path: &[String], sections: &[&str]) -> String {
    if path.iter().all(|part| !part.contains('.') && is_public_key(part)) {
        let is_chain = |at| at == 1 && path.first().is_some_and(|section| section == CHAINS);
        let part = |(at, part): (usize, &String)| match part.parse::<usize>() {
            Ok(index) if !is_chain(at) => format!("[{index}]"),
            _ => format!(".{part}"),
        };
        let key: String = path.iter().enumerate().map(part).collect();
        return key.trim_start_matches('.').to_owned();
    }
    match path {
        [section, _, ..] if sections.contains(&section.as_str()) => format!("{section}.…"),
        _ => "…".into(),
    }
}

/// Message of the TOML parser, up to the first quoted key that may be a secret.
pub(super) fn redact_message(message: &str) -> &str {
    let (words, quoted) = message.split_once('`').unwrap_or((message, ""));
    let is_plain = quoted.split(['`', '.', ' ']).all(is_public_key);
    if is_plain { message } else { words.trim_end() }
}

/// Returns what is wrong with a value, and what is allowed.
pub(super) fn describe(kind: &Kind) -> String {
    match kind {
        Kind::UnknownVariant(found, allowed) => {
            format!("found {}, expected one of: {}", quote_public(found), allowed.join(", "))
        }
        Kind::InvalidType(Actual::Map, expected) if expected == "a sequence" => {
            "found a table, expected an array, or a list of tables under `[[…]]` in a file".into()
        }
        // A text where none is expected may be anything.
        Kind::InvalidType(Actual::Str(_), expected) => {
            format!("found a string, expected {}", describe_expected(expected))
        }
        // A number where a text is expected may be a secret without its quotes.
        Kind::InvalidType(Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_), expected)
            if !allows_number(expected) =>
        {
            format!("found a number, expected {}", describe_expected(expected))
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("found {}, expected {}", describe_found(found), describe_expected(expected))
        }
        Kind::Message(message) => match message.as_str() {
            "invalid IP address syntax" => format!("expected {NETWORK}"),
            "invalid socket address syntax" => format!("expected {ADDRESS}"),
            "not a JSON number" => "expected a number".into(),
            message => message.into(),
        },
        other => other.to_string(),
    }
}

const NETWORK: &str = "a network such as \"10.0.0.0/8\"";
const ADDRESS: &str = "an address such as \"0.0.0.0:8080\"";

/// Returns true if a text cannot be a secret. A URL under a wrong key must not be shown either.
fn is_public(text: &str, max_length: usize) -> bool {
    text.len() <= max_length && !text.contains(['/', '@', ':', '?'])
}

fn quote_public(text: &str) -> String {
    const MAX_LENGTH: usize = 24;
    if is_public(text, MAX_LENGTH) { format!("{text:?}") } else { "a string".into() }
}

fn describe_found(value: &Actual) -> String {
    match value {
        Actual::Str(text) => quote_public(text),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        Actual::Bool(_) => "a boolean".into(),
        Actual::Seq => "an array".into(),
        Actual::Map => "a table".into(),
        _ => "a value of another type".into(),
    }
}

/// Returns true if a value of this kind is a number, or a text that begins with one.
fn allows_number(expected: &str) -> bool {
    const KINDS: [&str; 9] = [
        "u32",
        "u64",
        "usize",
        "number",
        "a duration",
        "a size",
        "an amount",
        "a factor",
        "socket address",
    ];
    KINDS.iter().any(|kind| expected.contains(kind))
}

/// Translates serde's names of Rust types for readers of a configuration file.
fn describe_expected(expected: &str) -> &str {
    match expected {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "a nonzero u64" | "a nonzero usize" => "a whole number, 1 or more",
        "socket address" => ADDRESS,
        "IPv4 or IPv6 network" => NETWORK,
        "a duration" => "a duration such as \"2s\" or \"250ms\"",
        "a sequence" => "an array such as [\"…\"]",
        "a map" => "a table",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("enum ") => "a name",
        other => other,
    }
}
