//! The fees of a transaction that replaces a pending one.

use crate::fees::Tier;

/// Returns the least fees that nodes accept in place of the `pending` transaction, and that the market asks: the
/// `suggested` ones or more. `next_base_fee` is in wei. `None`: an amount exceeds 128 bits.
///
/// Nodes want a rise of a tenth of both fees: geth rounds the new fee down (`core/txpool/legacypool/list.go`, `Add`),
/// reth rounds it up, and an equal fee is no replacement. The rise here satisfies both.
pub(super) fn replacement(pending: Tier, suggested: Tier, next_base_fee: u128) -> Option<Tier> {
    let tip = raised(pending.max_priority_fee_per_gas)?.max(suggested.max_priority_fee_per_gas);
    let max_fee = raised(pending.max_fee_per_gas)?.max(suggested.max_fee_per_gas);
    let max_fee = max_fee.max(tip.checked_add(next_base_fee)?);
    Some(Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee })
}

/// Like [`replacement`], for a transaction with one gas price, which counts as both fees.
pub(super) fn gas_price_replacement(
    pending: u128,
    suggested: Tier,
    next_base_fee: u128,
) -> Option<Tier> {
    let price = |price| Tier { max_priority_fee_per_gas: price, max_fee_per_gas: price };
    let market_price = suggested.max_priority_fee_per_gas.checked_add(next_base_fee)?;
    replacement(price(pending), price(market_price), 0)
}

/// Returns the amount and a tenth of it, rounded up, at least one more.
fn raised(amount: u128) -> Option<u128> {
    amount.checked_add(amount.div_ceil(10).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tier(max_priority_fee_per_gas: u128, max_fee_per_gas: u128) -> Tier {
        Tier { max_priority_fee_per_gas, max_fee_per_gas }
    }

    #[test]
    fn both_fees_rise_by_a_tenth_or_to_the_suggestion() {
        let market = tier(20, 60);
        assert_eq!(replacement(tier(100, 300), market, 15), Some(tier(110, 330)));
        assert_eq!(replacement(tier(101, 301), market, 15), Some(tier(112, 332)));
        assert_eq!(replacement(tier(5, 9), market, 15), Some(tier(20, 60)));
        // The tip is paid besides the base fee.
        assert_eq!(replacement(tier(100, 101), market, 15), Some(tier(110, 125)));
        assert_eq!(replacement(tier(0, 0), tier(0, 0), 0), Some(tier(1, 1)));
        assert_eq!(replacement(tier(1, u128::MAX), market, 15), None);
        assert_eq!(gas_price_replacement(100, market, 15), Some(tier(110, 110)));
        // A gas price is paid in full, so it is not the suggestion's max fee.
        assert_eq!(gas_price_replacement(1, market, 15), Some(tier(35, 35)));
        assert_eq!(gas_price_replacement(u128::MAX, market, 15), None);
    }

    /// Applies geth's rule: both fees are higher than before, and not below 110 % rounded down.
    fn geth_accepts(old: Tier, new: Tier) -> bool {
        let is_enough = |old: u128, new: u128| new > old && new >= old * 110 / 100;
        is_enough(old.max_fee_per_gas, new.max_fee_per_gas)
            && is_enough(old.max_priority_fee_per_gas, new.max_priority_fee_per_gas)
    }

    /// Applies reth's rule (`ValidPoolTransaction::is_underpriced`): neither fee is below 110 % rounded up. A tip of 0
    /// is not compared.
    fn reth_accepts(old: Tier, new: Tier) -> bool {
        let is_enough = |old: u128, new: u128| new >= (old * 110).div_ceil(100);
        let (old_tip, new_tip) = (old.max_priority_fee_per_gas, new.max_priority_fee_per_gas);
        is_enough(old.max_fee_per_gas, new.max_fee_per_gas)
            && (old_tip == 0 || new_tip == 0 || is_enough(old_tip, new_tip))
    }

    #[test]
    fn one_wei_less_of_either_fee_is_refused_by_geth_or_reth() {
        let free = tier(0, 0);
        let amounts = || (0..=120).chain(10_u128.pow(11)..=10_u128.pow(11) + 20);
        for max_fee in amounts() {
            for tip in amounts().filter(|tip| *tip <= max_fee) {
                let old = tier(tip, max_fee);
                let new = replacement(old, free, 0).unwrap();
                assert!(geth_accepts(old, new) && reth_accepts(old, new), "{old:?} {new:?}");
                let (new_tip, new_max_fee) = (new.max_priority_fee_per_gas, new.max_fee_per_gas);
                for less in [tier(new_tip - 1, new_max_fee), tier(new_tip, new_max_fee - 1)] {
                    let accepted = [geth_accepts(old, less), reth_accepts(old, less)];
                    assert_ne!(accepted, [true, true], "{old:?} {less:?}");
                }
            }
            // A gas price counts as both fees.
            let new = gas_price_replacement(max_fee, free, 0).unwrap();
            let price = new.max_fee_per_gas;
            let (old, less) = (tier(max_fee, max_fee), tier(price - 1, price - 1));
            assert!(geth_accepts(old, new) && reth_accepts(old, new));
            assert!(!geth_accepts(old, less) || !reth_accepts(old, less), "{old:?} {less:?}");
        }
    }

    proptest! {
        #[test]
        fn geth_and_reth_accept_every_replacement(
            pending_tip in 0..u128::from(u64::MAX),
            above in 0..u128::from(u64::MAX),
            suggested_tip in 0..u128::from(u64::MAX),
            suggested_above in 0..u128::from(u64::MAX),
            next in 0..u128::from(u64::MAX),
        ) {
            let pending = tier(pending_tip, pending_tip + above);
            let suggested = tier(suggested_tip, suggested_tip + suggested_above);
            let new = replacement(pending, suggested, next).unwrap();
            prop_assert!(geth_accepts(pending, new) && reth_accepts(pending, new));
            prop_assert!(new.max_priority_fee_per_gas >= suggested_tip);
            prop_assert!(new.max_fee_per_gas >= new.max_priority_fee_per_gas + next);
            prop_assert!(new.max_fee_per_gas >= suggested.max_fee_per_gas);
        }
    }
}
