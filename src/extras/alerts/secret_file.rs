//! Secrets in files of their own.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// A secret in a file of its own. It is read with the configuration, which shows the path alone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FromFile<T> {
    path: PathBuf,
    pub(super) value: T,
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
