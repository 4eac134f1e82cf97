//! Prices that extras compare the expected medium price with.

use std::fmt::Debug;

use crate::fees::amount::parse_digits;
use crate::store::StoredChain;

/// Prices of the last day, which an extra may know.
pub(crate) trait DayPrices: Debug + Send + Sync {
    /// Returns the price that so many percent of the day's ten-minute medians do not exceed, in wei; `None`: less than an
    /// hour is known.
    fn percentile(&self, chain: &StoredChain, percent: usize) -> Option<u128>;
}

/// A price to compare the expected medium price with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriceLimit {
    Wei(u128),
    /// Percentile of the last day.
    Percentile(usize),
}

impl PriceLimit {
    /// Parses `p1` to `p99`, and other texts as `parse_amount` does.
    pub(crate) fn parse(text: &str, parse_amount: impl Fn(&str) -> Option<u128>) -> Option<Self> {
        match text.strip_prefix('p') {
            Some(percent) if !percent.starts_with('0') => {
                let percent = parse_digits(percent).filter(|percent| (1..100).contains(percent));
                percent.map(Self::Percentile)
            }
            Some(_) => None,
            None => parse_amount(text).map(Self::Wei),
        }
    }

    /// Returns the price in wei; `None`: less than an hour of the chain's prices is known.
    pub(crate) fn wei(self, chain: &StoredChain, prices: Option<&dyn DayPrices>) -> Option<u128> {
        match self {
            Self::Wei(wei) => Some(wei),
            Self::Percentile(percent) => prices?.percentile(chain, percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_amount_or_a_percentile() {
        for (text, expected) in [
            ("0", Some(PriceLimit::Wei(0))),
            ("21000000000", Some(PriceLimit::Wei(21_000_000_000))),
            ("p1", Some(PriceLimit::Percentile(1))),
            ("p99", Some(PriceLimit::Percentile(99))),
        ] {
            assert_eq!(PriceLimit::parse(text, parse_digits), expected, "{text}");
        }
        for text in
            ["", "p", "p0", "p100", "p05", "p-1", "P20", "p2.5", "-1", "+1", "1e9", "0x1", " 1"]
        {
            assert_eq!(PriceLimit::parse(text, parse_digits), None, "{text}");
        }
        assert_eq!(PriceLimit::parse(&format!("{}0", u128::MAX), parse_digits), None);
    }
}
