//! A report as plain aligned text.

use super::Report;
use super::measures::{HORIZON_BLOCKS, SOON_BLOCKS, Score, Share};
use crate::fees::gwei::rounded_gwei;

/// Returns the column headings, in two lines.
fn headings(report: &Report<'_>) -> [Vec<String>; 2] {
    let horizon = |blocks: usize, unit: &str| {
        let time = report.time_of_blocks(blocks);
        let time = time.map_or(String::new(), |time| format!(" ({time:?})"));
        format!("{blocks}{time}{unit}")
    };
    let in_soon = format!("in {}", horizon(SOON_BLOCKS, ""));
    let after = |blocks| format!("+{}", horizon(blocks, " %"));
    let (soon, later) = (after(SOON_BLOCKS), after(HORIZON_BLOCKS));
    let columns: [(&str, &str); 16] = [
        ("", "estimator"),
        ("next", "incl. %"),
        (&in_soon, "incl. %"),
        ("full", "hit %"),
        ("base fee", &soon),
        ("base fee", &later),
        ("tip gap", "p50"),
        ("tip gap", "p99"),
        ("tip ≥", "p50 %"),
        ("overpaid", "p50"),
        ("overpaid", "p95"),
        ("overpaid", "mean"),
        ("price /", "fair p50"),
        ("price /", "fair p95"),
        ("pinball", "loss"),
        ("max fee /", "base fee"),
    ];
    [columns.map(|(first, _)| first.into()).into(), columns.map(|(_, second)| second.into()).into()]
}

/// Shown for an unknown value.
pub(crate) const UNKNOWN: &str = "–";

pub(crate) fn render(report: &Report<'_>) -> String {
    let mut rows = Vec::from(headings(report));
    rows.extend(report.scores.iter().map(cells));
    let mut lines = vec![report.title(), String::new()];
    lines.extend(align_columns(&rows));
    lines.push(String::new());
    if let Some(horizon) = &report.horizon {
        lines.extend(horizon.lines());
        lines.push(String::new());
    }
    lines.push("Amounts in gwei. – means unknown or not computable.".into());
    lines.extend(report.notes.iter().cloned());
    let verdict = super::verdict::lines(report);
    if !verdict.is_empty() {
        lines.push(String::new());
        lines.extend(verdict);
    }
    lines.join("\n")
}

fn cells(score: &Score) -> Vec<String> {
    let percent = |share: Option<Share>| {
        share.map_or(UNKNOWN.into(), |share| format!("{:.2}", share.value() * 100.0))
    };
    let gwei = |wei: Option<u128>| wei.map_or(UNKNOWN.into(), rounded_gwei);
    let multiple = |permille: Option<u128>| permille.map_or(UNKNOWN.into(), multiple);
    vec![
        score.name.clone(),
        percent(score.included_next),
        percent(score.included_soon),
        percent(score.full_blocks_hit),
        percent(score.covers_soon),
        percent(score.covers_horizon),
        gwei(score.tip_gap_p50),
        gwei(score.tip_gap_p99),
        percent(score.tip_covered),
        gwei(score.overpaid_p50),
        gwei(score.overpaid_p95),
        gwei(score.overpaid_mean),
        multiple(score.price_over_fair_p50),
        multiple(score.price_over_fair_p95),
        gwei(score.pinball_loss),
        multiple(score.max_fee_permille),
    ]
}

/// Formats thousandths.
pub(crate) fn multiple(permille: u128) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

/// Aligns the first column to the left, the others to the right.
pub(super) fn align_columns(rows: &[Vec<String>]) -> Vec<String> {
    const GAP: usize = 2;
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = match index {
                0 => format!("{cell:<width$}"),
                _ => format!("{:GAP$}{cell:>width$}", ""),
            };
            line.push_str(&cell);
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
