//! A value for each tier.

use std::ops::Index;

/// Name of a tier of the public suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum TierName {
    /// For inclusion within the next blocks.
    Medium,
    /// For inclusion in the next block.
    High,
}

impl TierName {
    /// All of them.
    pub const SUGGESTED: [Self; 2] = [Self::Medium, Self::High];

    /// Returns the name in responses and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One value for each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers<T> {
    /// For a transaction that can wait.
    pub low: T,
    /// That of [`TierName::Medium`].
    pub medium: T,
    /// That of [`TierName::High`].
    pub high: T,
}

impl<T> Tiers<T> {
    /// Converts the values, from low to high.
    pub fn map<U>(self, mut convert: impl FnMut(T) -> U) -> Tiers<U> {
        Tiers { low: convert(self.low), medium: convert(self.medium), high: convert(self.high) }
    }

    /// Converts the values, from low to high; `None` if one of them has no result.
    pub fn try_map<U>(self, mut convert: impl FnMut(T) -> Option<U>) -> Option<Tiers<U>> {
        let Self { low, medium, high } = self;
        Some(Tiers { low: convert(low)?, medium: convert(medium)?, high: convert(high)? })
    }

    /// Pairs the values of each tier.
    pub fn zip<U>(self, other: Tiers<U>) -> Tiers<(T, U)> {
        Tiers {
            low: (self.low, other.low),
            medium: (self.medium, other.medium),
            high: (self.high, other.high),
        }
    }

    /// Returns the values from low to high.
    pub fn into_array(self) -> [T; 3] {
        [self.low, self.medium, self.high]
    }
}

impl<T> Index<TierName> for Tiers<T> {
    type Output = T;

    fn index(&self, name: TierName) -> &T {
        match name {
            TierName::Medium => &self.medium,
            TierName::High => &self.high,
        }
    }
}
