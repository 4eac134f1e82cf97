//! Averages and medians as the systems compute them.

/// Returns the average, rounded down; `None` without amounts.
pub(crate) fn mean(amounts: &[u128]) -> Option<u128> {
    sum(amounts)?.checked_div(count(amounts))
}

/// Returns the average, rounded half to even; `None` without amounts.
pub(crate) fn mean_rounded_to_even(amounts: &[u128]) -> Option<u128> {
    let (sum, count) = (sum(amounts)?, count(amounts));
    let (whole, rest) = (sum.checked_div(count)?, sum.checked_rem(count)?);
    let rounds_up = match rest.checked_mul(2)?.cmp(&count) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => !whole.is_multiple_of(2),
        std::cmp::Ordering::Greater => true,
    };
    whole.checked_add(u128::from(rounds_up))
}

/// Returns the median; of two middle amounts their average, rounded down.
pub(crate) fn median(amounts: &[u128]) -> Option<u128> {
    let (lower, upper) = (lower_median(amounts)?, upper_median(amounts)?);
    Some(lower.midpoint(upper))
}

/// Returns the median; of two middle amounts the lower.
pub(crate) fn lower_median(amounts: &[u128]) -> Option<u128> {
    sorted(amounts).get(amounts.len().checked_sub(1)? / 2).copied()
}

/// Returns the median; of two middle amounts the upper.
pub(crate) fn upper_median(amounts: &[u128]) -> Option<u128> {
    sorted(amounts).get(amounts.len() / 2).copied()
}

/// Returns the amounts above 0.
pub(crate) fn nonzero(mut amounts: Vec<u128>) -> Vec<u128> {
    amounts.retain(|amount| *amount > 0);
    amounts
}

/// Returns the amounts in ascending order.
pub(crate) fn sorted(amounts: &[u128]) -> Vec<u128> {
    let mut sorted = amounts.to_vec();
    sorted.sort_unstable();
    sorted
}

fn sum(amounts: &[u128]) -> Option<u128> {
    amounts.iter().try_fold(0_u128, |sum, amount| sum.checked_add(*amount))
}

fn count(amounts: &[u128]) -> u128 {
    u128::try_from(amounts.len()).unwrap_or(u128::MAX)
}
