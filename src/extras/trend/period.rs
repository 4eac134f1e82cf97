//! The periods that a fee trend shows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DAY, HOUR, MAX_DAYS, MINUTE, TEN_MINUTES};

/// Period of a fee trend.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[schema(as = ShownPeriod)]
pub(crate) enum Period {
    /// One hour in minutes.
    #[serde(rename = "1h")]
    Hour,
    /// A day in steps of ten minutes.
    #[serde(rename = "24h")]
    Day,
    /// A week in hours.
    #[serde(rename = "7d")]
    Week,
}

impl Period {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Width of a bucket in seconds.
    #[must_use]
    pub(crate) fn bucket_seconds(self) -> u32 {
        match self {
            Self::Hour => MINUTE,
            Self::Day => TEN_MINUTES,
            Self::Week => HOUR,
        }
    }

    /// Length in seconds.
    pub(super) fn seconds(self) -> u32 {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => MAX_DAYS * DAY,
        }
    }

    /// Returns the start of the first bucket of the period that ends with the bucket of `now`.
    pub(super) fn first_start(self, now: u32) -> u32 {
        let newest = now - now % self.bucket_seconds();
        newest.saturating_sub(self.seconds().saturating_sub(self.bucket_seconds()))
    }
}
