//! A report as plain aligned text.

use super::Report;
use super::measures::{Score, Share};
use crate::chart::rounded_gwei;

/// Column headings, in two lines.
const HEADINGS: [(&str, &str); 11] = [
    ("", "estimator"),
    ("next", "incl. %"),
    ("in 5", "incl. %"),
    ("base fee", "+5 %"),
    ("base fee", "+25 %"),
    ("tip gap", "p50"),
    ("tip gap", "p99"),
    ("tip ≥", "p50 %"),
    ("overpaid", "p50"),
    ("overpaid", "p95"),
    ("max fee /", "base fee"),
];

/// Shown for an unknown value.
const UNKNOWN: &str = "–";

pub(super) fn render(report: &Report<'_>) -> String {
    let [mut first_heading_row, mut second_heading_row] = [Vec::new(), Vec::new()];
    for (first, second) in HEADINGS {
        first_heading_row.push(first.to_owned());
        second_heading_row.push(second.to_owned());
    }
    let mut rows = vec![first_heading_row, second_heading_row];
    rows.extend(report.scores.iter().map(cells));
    let mut lines = vec![report.title(), String::new()];
    lines.extend(align_columns(&rows));
    lines.push(String::new());
    lines.push("Tips in gwei. – means unknown or not computable.".into());
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
    let multiple = |number: u128| format!("{}.{:03}", number / 1000, number % 1000);
    vec![
        score.name.clone(),
        percent(score.included_next),
        percent(score.included_soon),
        percent(score.covers_soon),
        percent(score.covers_horizon),
        gwei(score.tip_gap_p50),
        gwei(score.tip_gap_p99),
        percent(score.tip_covered),
        gwei(score.overpaid_p50),
        gwei(score.overpaid_p95),
        score.max_fee_permille.map_or(UNKNOWN.into(), multiple),
    ]
}

/// Aligns the first column to the left, the others to the right.
fn align_columns(rows: &[Vec<String>]) -> Vec<String> {
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
