//! The `[compat]` section.

use std::sync::LazyLock;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::FORMATS;
use crate::config::section::Section;
use crate::config::{SectionKind, TableKeys};

/// Formats of other gas services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compat {
    /// The formats whose routes exist.
    formats: Vec<FormatName>,
}

impl Default for Compat {
    fn default() -> Self {
        Self { formats: vec![FormatName(ALL)] }
    }
}

impl Section for Compat {}

impl Compat {
    pub(super) const SECTION: SectionKind =
        SectionKind::new::<Self>(TableKeys { lists: &["formats"], ..TableKeys::table("compat") });

    /// Returns true if the routes of this format exist.
    pub(super) fn has(&self, format: &str) -> bool {
        self.formats.iter().any(|FormatName(name)| *name == ALL || *name == format)
    }
}

/// Name of all formats.
const ALL: &str = "all";

/// Names that the key takes.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| [ALL].into_iter().chain(FORMATS.iter().map(|format| format.name)).collect());

/// Name of a format, or [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct FormatName(&'static str);

impl<'de> Deserialize<'de> for FormatName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let name = String::deserialize(input)?;
        let known = NAMES.iter().find(|known| **known == name);
        known.map(|known| Self(known)).ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
    }
}
