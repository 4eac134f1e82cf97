//! Texts that must not be printed.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// A text that must not be printed: its `Debug` is blank. It is trimmed, because files of secrets end with a line end.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Returns the text, for the code that uses it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(input)?.trim().to_owned()))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str("…")
    }
}

/// A secret in a file of its own. It is read with the configuration, which shows the path alone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FromFile<T> {
    path: PathBuf,
    pub(crate) value: T,
}

impl<T> fmt::Debug for FromFile<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(out)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for FromFile<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        /// Longer than a secret. A device may never end.
        const MAX_BYTES: u64 = 65_536;
        let (path, mut text) = (PathBuf::deserialize(input)?, String::new());
        let file = File::open(&path);
        let read = file.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.map_err(|error| D::Error::custom(format!("cannot read the file: {error}")))?;
        let value = text.parse().map_err(D::Error::custom)?;
        Ok(Self { path, value })
    }
}

impl<T> Serialize for FromFile<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(out)
    }
}
