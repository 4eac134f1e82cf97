//! Amounts in dollars. Pure.

use alloy_primitives::U256;

use crate::fees::amount::with_point;

/// Decimals of amounts in wei, and of a [`CoinPrice`].
const DECIMALS: u8 = 18;

/// Price of one coin, in 10⁻¹⁸ dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoinPrice(pub(super) u128);

/// An amount in 10⁻³⁶ dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dollars(U256);

impl CoinPrice {
    /// Creates the price that a feed with so many decimals says. `None`: it is 0, or has more decimals than a coin.
    pub(super) fn new(answer: u128, decimals: u8) -> Option<Self> {
        let missing = DECIMALS.checked_sub(decimals)?;
        answer
            .checked_mul(10_u128.checked_pow(missing.into())?)
            .filter(|price| *price > 0)
            .map(Self)
    }

    /// Returns the price of this amount.
    pub(super) fn dollars(self, wei: u128) -> Dollars {
        // Both factors have at most 128 bits.
        Dollars(U256::from(wei).wrapping_mul(U256::from(self.0)))
    }

    /// Returns the price as a decimal number, with all digits.
    pub(super) fn exact(self) -> String {
        with_point(&self.0.to_string(), DECIMALS.into())
    }
}

impl Dollars {
    const DECIMALS: u8 = 2 * DECIMALS;
    const SIGNIFICANT_DIGITS: usize = 4;

    /// Returns the amount as a decimal number with at most four significant digits, rounded half up.
    pub(super) fn rounded(self) -> String {
        let digits = self.0.to_string();
        let Some(dropped) = digits.len().checked_sub(Self::SIGNIFICANT_DIGITS) else {
            return with_point(&digits, Self::DECIMALS.into());
        };
        let unit = U256::from(10_u8).pow(U256::from(dropped));
        let (first_digits, rest) = self.0.div_rem(unit);
        let is_up = dropped > 0 && rest >= unit / U256::from(2_u8);
        // The product with the unit could exceed 256 bits.
        let rounded = first_digits.saturating_add(U256::from(is_up));
        with_point(&format!("{rounded}{:0<dropped$}", ""), Self::DECIMALS.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_keeps_all_digits_of_its_feed() {
        let exact = |answer, decimals| CoinPrice::new(answer, decimals).map(CoinPrice::exact);
        assert_eq!(exact(301_255_000_000, 8).as_deref(), Some("3012.55"));
        assert_eq!(exact(1, 8).as_deref(), Some("0.00000001"));
        assert_eq!(exact(1, 18).as_deref(), Some("0.000000000000000001"));
        assert_eq!(exact(7, 0).as_deref(), Some("7"));
        assert_eq!((exact(0, 8), exact(1, 19), exact(u128::MAX, 8)), (None, None, None));
    }

    #[test]
    fn an_amount_has_four_digits_rounded_half_up() {
        let price = CoinPrice::new(100_000_000, 8).unwrap();
        for (wei, expected) in [
            (0, "0"),
            (1, "0.000000000000000001"),
            (1_234_400_000_000_000_000, "1.234"),
            (1_234_500_000_000_000_000, "1.235"),
            (999_950_000_000_000_000, "1"),
            (999_949_000_000_000_000, "0.9999"),
            (12_345_000_000_000_000_000_000, "12350"),
            (1_200_000_000_000_000, "0.0012"),
        ] {
            assert_eq!(price.dollars(wei).rounded(), expected, "{wei}");
        }
        let highest = CoinPrice::new(u128::MAX, 18).unwrap();
        assert!(highest.dollars(u128::MAX).rounded().starts_with("1158"));
        assert!(price.dollars(2) < highest.dollars(1));
    }
}
