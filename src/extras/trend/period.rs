//! The periods that a fee trend shows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DAYS_IN_MEMORY, HOUR, HOURS_PER_DAY, MINUTE, TEN_MINUTES};

/// Period of a fee trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
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
    /// Thirty days in steps of six hours.
    #[serde(rename = "30d")]
    Month,
    /// 365 days.
    #[serde(rename = "1y")]
    Year,
}

impl Period {
    /// Periods whose buckets are in memory. Those of longer ones are made up of hours in the database.
    pub(crate) const IN_MEMORY: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Name as a parameter.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "1y",
        }
    }

    /// Days that it spans, at least one.
    pub(crate) fn days(self) -> u32 {
        self.seconds().div_ceil(HOURS_PER_DAY * HOUR)
    }

    /// Width of a bucket in seconds.
    #[must_use]
    pub(crate) fn bucket_seconds(self) -> u32 {
        match self {
            Self::Hour => MINUTE,
            Self::Day => TEN_MINUTES,
            Self::Week => HOUR,
            Self::Month => 6 * HOUR,
            Self::Year => HOURS_PER_DAY * HOUR,
        }
    }

    /// Length in seconds.
    pub(super) fn seconds(self) -> u32 {
        match self {
            Self::Hour => HOUR,
            Self::Day => HOURS_PER_DAY * HOUR,
            Self::Week => DAYS_IN_MEMORY * HOURS_PER_DAY * HOUR,
            Self::Month => 30 * HOURS_PER_DAY * HOUR,
            Self::Year => 365 * HOURS_PER_DAY * HOUR,
        }
    }

    /// Returns the start of the first bucket of the period that ends with the bucket of `now`.
    pub(super) fn first_start(self, now: u32) -> u32 {
        let newest = now - now % self.bucket_seconds();
        newest.saturating_sub(self.seconds().saturating_sub(self.bucket_seconds()))
    }
}
