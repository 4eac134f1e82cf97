//! Detects whether the base fees of a recording follow from the blocks before them, as under EIP-1559.

use crate::recording::RecordedBlock;

/// Share of the base fees that the rule has to explain, in percent.
const MIN_EXPLAINED_PERCENT: usize = 95;

/// Largest error of an explained base fee, in millionths of the base fee before it.
const MAX_ERROR: f64 = 1000.0;

/// Change of the base fee from one block to the next, in millionths, and the fullness of the first.
#[derive(Debug, Clone, Copy)]
struct Change {
    gas_used_ratio: f64,
    millionths: f64,
}

/// Returns true if base fees follow from the blocks before them: one straight line from the gas used ratio of a block to
/// the change of the base fee after it, whatever the chain's denominator and target, explains nearly all changes. The
/// lowest base fee of the recording may be a minimum of the chain, so the line may lead below it.
pub(crate) fn are_predictable(blocks: &[RecordedBlock]) -> bool {
    let lowest = blocks.iter().map(|block| block.base_fee).min().unwrap_or_default();
    let pairs = blocks.iter().zip(blocks.iter().skip(1));
    let (above, at_lowest): (Vec<_>, Vec<_>) = pairs.partition(|(_, next)| next.base_fee > lowest);
    let changes = |pairs: &[(&RecordedBlock, &RecordedBlock)]| -> Vec<Change> {
        pairs.iter().filter_map(|(block, next)| change(block, next.base_fee)).collect()
    };
    let (above_changes, lowest_changes) = (changes(&above), changes(&at_lowest));
    let slope = median(slopes(&above_changes)).unwrap_or_default();
    let rest = |change: &Change| change.millionths - slope * change.gas_used_ratio;
    let offset = median(above_changes.iter().map(rest).collect()).unwrap_or_default();
    let error = |change: &Change| rest(change) - offset;
    let suffices = |explained: usize, all: usize| {
        explained.saturating_mul(100) >= all.saturating_mul(MIN_EXPLAINED_PERCENT)
    };
    let explained = above_changes.iter().filter(|change| error(change).abs() <= MAX_ERROR).count();
    let contradicting = lowest_changes.iter().filter(|change| error(change) < -MAX_ERROR).count();
    let at_lowest = at_lowest.len();
    suffices(explained, above.len()) && suffices(at_lowest.saturating_sub(contradicting), at_lowest)
}

/// Returns the change after `block`; `None` if it is huge or the block's gas used ratio is unknown.
fn change(block: &RecordedBlock, next_base_fee: u128) -> Option<Change> {
    let ratio = next_base_fee.checked_mul(1_000_000)?.checked_div(block.base_fee)?;
    let millionths = f64::from(i32::try_from(ratio).ok()?) - 1e6;
    Some(Change { gas_used_ratio: block.gas_used_ratio?, millionths })
}

/// Returns the slopes of lines from the emptier half of the blocks to the fuller half, each through two blocks.
fn slopes(changes: &[Change]) -> Vec<f64> {
    let mut changes = changes.to_vec();
    changes.sort_by(|one, other| one.gas_used_ratio.total_cmp(&other.gas_used_ratio));
    let (emptier, fuller) = changes.split_at(changes.len() / 2);
    let slopes = emptier.iter().zip(fuller).map(|(one, other)| {
        (other.millionths - one.millionths) / (other.gas_used_ratio - one.gas_used_ratio)
    });
    slopes.filter(|slope| slope.is_finite()).collect()
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns blocks of these fullnesses in percent, whose base fee changes by `rule`.
    fn blocks(
        percents: impl Iterator<Item = u32>,
        rule: impl Fn(u128, u128) -> u128,
    ) -> Vec<RecordedBlock> {
        let mut base_fee = 1_000_000_000;
        let block = |percent: u32| {
            let ratio = f64::from(percent) / 100.0;
            let block = RecordedBlock { base_fee, gas_used_ratio: Some(ratio), rewards: None };
            base_fee = rule(base_fee, percent.into());
            block
        };
        percents.map(block).collect()
    }

    fn fullnesses() -> impl Iterator<Item = u32> {
        (0..300).map(|index| index * 37 % 101)
    }

    #[test]
    fn base_fees_by_the_rule_of_any_denominator_are_predictable() {
        for (denominator, target) in [(8, 50), (50, 33), (250, 50), (64, 65)] {
            let rule = |base_fee: u128, percent: u128| {
                base_fee + base_fee * percent / target / denominator - base_fee / denominator
            };
            assert!(are_predictable(&blocks(fullnesses(), rule)), "{denominator}");
            // A minimum, at which most blocks are.
            let with_minimum = |base_fee, percent| rule(base_fee, percent).max(990_000_000);
            assert!(are_predictable(&blocks(fullnesses(), with_minimum)), "{denominator}");
        }
        assert!(are_predictable(&blocks(fullnesses(), |base_fee, _| base_fee)));
        // Empty blocks only.
        assert!(are_predictable(&blocks((0..90).map(|_| 0), |base_fee, _| base_fee * 7 / 8)));
    }

    #[test]
    fn base_fees_by_another_rule_are_not_predictable() {
        let unrelated = |base_fee: u128, percent: u128| {
            if percent.is_multiple_of(2) { base_fee * 103 / 100 } else { base_fee * 97 / 100 }
        };
        assert!(!are_predictable(&blocks(fullnesses(), unrelated)));
        // A fifth of the blocks break the rule.
        let sometimes = |base_fee: u128, percent: u128| {
            let change = if percent.is_multiple_of(5) { 20 } else { percent };
            base_fee + base_fee * change / 400 - base_fee / 8
        };
        assert!(!are_predictable(&blocks(fullnesses(), sometimes)));
        // Without gas used ratios the base fees cannot be checked.
        let rule =
            |base_fee: u128, percent: u128| base_fee + base_fee * percent / 400 - base_fee / 8;
        let mut unknown = blocks(fullnesses(), rule);
        assert!(are_predictable(&unknown));
        for block in &mut unknown {
            block.gas_used_ratio = None;
        }
        assert!(!are_predictable(&unknown));
    }
}
