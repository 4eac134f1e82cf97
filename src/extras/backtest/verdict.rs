//! The verdict at the end of a report: how the configured pricing did, in a line per tier.

use super::Report;
use super::measures::Score;
use crate::fees::gwei::rounded_gwei;

/// Returns one sentence for each tier of the configured pricing.
pub(crate) fn lines(report: &Report<'_>) -> Vec<String> {
    let score = |name: &str, tier| {
        let name = format!("{name}, {tier}");
        report.scores.iter().find(move |score| score.name == name)
    };
    let line = |tier| {
        let configured = score("configured", tier)?;
        sentence(tier, configured, score("network rule without floors", tier))
    };
    ["medium", "high"].into_iter().filter_map(line).collect()
}

/// Compares `configured` with the same tier of the network rule without floors.
fn sentence(tier: &str, configured: &Score, market: Option<&Score>) -> Option<String> {
    let Some(included) = configured.included_next else {
        let covered = configured.covers_horizon?.value() * 100.0;
        return Some(format!(
            "Verdict: configured {tier} covers the base fee after 25 blocks in {covered:.1} % of all cases."
        ));
    };
    let included = included.value() * 100.0;
    let next = format!(
        "Verdict: configured {tier} gets into the next block in {included:.1} % of all cases"
    );
    let Some(overpaid) = configured.overpaid_p50 else { return Some(format!("{next}.")) };
    let compared = market.and_then(|score| score.overpaid_p50);
    let compared = compared.and_then(|market| comparison(overpaid, market));
    let compared =
        compared.map_or(String::new(), |text| format!(", {text} the network rule without floors"));
    Some(format!("{next} and overpays {} gwei (median){compared}.", rounded_gwei(overpaid)))
}

/// Returns how much more `overpaid` is than `market`, rounded; `None` if the latter is 0.
fn comparison(overpaid: u128, market: u128) -> Option<String> {
    let tenths = overpaid.checked_mul(10)?.checked_add(market / 2)?.checked_div(market)?;
    Some(match tenths {
        10 => "as much as".into(),
        100.. => format!("{} times as much as", with_separators(tenths / 10)),
        _ => format!("{}.{} times as much as", tenths / 10, tenths % 10),
    })
}

/// Writes a number with commas between thousands.
fn with_separators(number: u128) -> String {
    let digits = number.to_string();
    let is_group_start = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if is_group_start(index) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overpayment_is_compared_in_tenths_or_whole_multiples() {
        let compared = |overpaid, market| comparison(overpaid, market).unwrap();
        assert_eq!(compared(7, 7), "as much as");
        assert_eq!(compared(5, 10), "0.5 times as much as");
        assert_eq!(compared(99, 10), "9.9 times as much as");
        assert_eq!(compared(20_000_000_000, 1_300_000), "15,384 times as much as");
        assert_eq!(comparison(5, 0), None);
        assert_eq!(with_separators(1_234_567), "1,234,567");
    }
}
