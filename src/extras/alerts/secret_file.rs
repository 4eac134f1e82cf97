//! Secrets in files of their own.

use std::path::PathBuf;
use std::str::FromStr;
use std::{fmt, fs};

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
        /// Longer than a secret.
        const MAX_BYTES: u64 = 65_536;
        let path = PathBuf::deserialize(input)?;
        let refused = |reason| D::Error::custom(format!("cannot read the file: {reason}"));
        let metadata = fs::metadata(&path).map_err(|error| refused(error.to_string()))?;
        // A pipe or a device may never end.
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(refused("expected a file of at most 64 KiB".into()));
        }
        let text = fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
        let value = text.parse().map_err(D::Error::custom)?;
        Ok(Self { path, value })
    }
}

impl<T> Serialize for FromFile<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(out)
    }
}
