//! Amounts in gwei, for people.

use super::amount::with_point;

/// Formats wei in gwei with four digits.
#[must_use]
pub fn rounded_gwei(wei: u128) -> String {
    const DIGITS: u32 = 4;
    rounded(wei, DIGITS)
}

/// Formats wei in gwei with three digits, and an amount below 0.001 gwei in wei. Includes the unit.
pub(crate) fn rounded_price(wei: u128) -> String {
    const DIGITS: u32 = 3;
    const LEAST_GWEI: u128 = 1_000_000;
    if wei < LEAST_GWEI {
        return format!("{wei} wei");
    }
    format!("{} gwei", rounded(wei, DIGITS))
}

/// Formats wei in gwei with so many digits.
fn rounded(wei: u128, digits: u32) -> String {
    let surplus = wei.checked_ilog10().unwrap_or_default().saturating_sub(digits.saturating_sub(1));
    let unit = 10_u128.saturating_pow(surplus);
    let nearest = wei.saturating_add(unit / 2) / unit * unit;
    with_point(&nearest.to_string(), 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    #[test]
    fn amounts_have_four_digits() {
        for (wei, rounded) in [
            (0, "0"),
            (1, "0.000000001"),
            (9999, "0.000009999"),
            (12_345, "0.00001235"),
            (12_344, "0.00001234"),
            (99_995, "0.0001"),
            (GWEI, "1"),
            (7_558_738_771, "7.559"),
            (123_456 * GWEI, "123500"),
            (10_u128.pow(20), "100000000000"),
            (u128::MAX, "340200000000000000000000000000"),
        ] {
            assert_eq!(rounded_gwei(wei), rounded, "{wei}");
        }
    }

    #[test]
    fn a_price_has_three_digits_and_a_unit() {
        for (wei, expected) in [
            (0, "0 wei"),
            (1, "1 wei"),
            (999_999, "999999 wei"),
            (1_000_000, "0.001 gwei"),
            (1_234_567, "0.00123 gwei"),
            (999_500_000, "1 gwei"),
            (3_405_000_000, "3.41 gwei"),
            (3_404_999_999, "3.4 gwei"),
            (21_990_000_000, "22 gwei"),
            (123_456_000_000_000, "123000 gwei"),
        ] {
            assert_eq!(rounded_price(wei), expected, "{wei}");
        }
    }
}
