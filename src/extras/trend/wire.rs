//! JSON form of a level.

use serde::Serialize;
use utoipa::ToSchema;

/// Where a price stands among those of the last 24 hours.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Below the 25th percentile, and at least 5 % below the median.
    Low,
    /// Neither low nor high.
    Normal,
    /// Above the 75th percentile, and at least 5 % above the median.
    High,
}

impl From<super::Level> for Level {
    fn from(level: super::Level) -> Self {
        match level {
            super::Level::Low => Self::Low,
            super::Level::Normal => Self::Normal,
            super::Level::High => Self::High,
        }
    }
}
