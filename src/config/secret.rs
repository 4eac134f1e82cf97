//! Texts that must not be printed.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use axum::http::HeaderValue;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// A text that must not be printed: its `Debug` is blank. It is trimmed, because files of secrets end with a line end.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Returns the text, for the code that uses it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the text as a header that is not logged; `None`: it is empty, or not ASCII without spaces.
    pub(crate) fn to_header(&self) -> Option<HeaderValue> {
        let Self(text) = self;
        let is_key = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut header = HeaderValue::from_str(text).ok().filter(|_| is_key)?;
        header.set_sensitive(true);
        Some(header)
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
