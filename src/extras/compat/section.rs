//! The `[compat]` section.

use serde::{Deserialize, Serialize};

use super::{Format, Formats};

/// Formats of other gas services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compat {
    /// The formats whose routes exist.
    pub formats: Vec<FormatName>,
}

impl Default for Compat {
    fn default() -> Self {
        Self { formats: vec![FormatName::All] }
    }
}

impl Compat {
    /// Returns the formats whose routes exist.
    #[must_use]
    pub fn formats(&self) -> Formats {
        let mut formats = Formats::default();
        for name in &self.formats {
            match name.format() {
                Some(format) => formats.insert(format),
                None => formats = Formats::all(),
            }
        }
        formats
    }
}

/// Name of a format, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatName {
    /// All formats.
    All,
    /// [`Format::Metamask`].
    Metamask,
    /// [`Format::Etherscan`].
    Etherscan,
    /// [`Format::Safe`].
    Safe,
    /// [`Format::Blocknative`].
    Blocknative,
    /// [`Format::Rrelayer`].
    Rrelayer,
    /// [`Format::Polygon`].
    Polygon,
    /// [`Format::Flat`].
    Flat,
}

impl FormatName {
    /// Returns the format; `None`: all.
    fn format(self) -> Option<Format> {
        Some(match self {
            Self::All => return None,
            Self::Metamask => Format::Metamask,
            Self::Etherscan => Format::Etherscan,
            Self::Safe => Format::Safe,
            Self::Blocknative => Format::Blocknative,
            Self::Rrelayer => Format::Rrelayer,
            Self::Polygon => Format::Polygon,
            Self::Flat => Format::Flat,
        })
    }
}
