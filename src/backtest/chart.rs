//! A report as an SVG image: for each estimator, how often it was included, how often it still covered the base fee, and
//! how much it overpaid. Without the last, an absurdly high tip would look perfect.

use super::Report;
use super::measures::{Score, Share};
use crate::chart::palette::{self, Colour};
use crate::chart::{Svg, TextStyle, rounded_gwei, truncated};

const WIDTH: i32 = 800;
const MARGIN: i32 = 16;
/// Above the first row.
const ROWS_TOP: i32 = 64;
const ROW_HEIGHT: i32 = 32;
const BAR_HEIGHT: i32 = 12;
/// Left edge of the bars, and the length of a bar of 100 %.
const BARS_LEFT: i32 = 250;
const FULL_BAR_LENGTH: i32 = 230;
/// Distance of the second legend from the first.
const SECOND_LEGEND: i32 = 125;
/// Left edge of the overpayment bars, and the length of the longest.
const OVERPAID_LEFT: i32 = 550;
const LONGEST_OVERPAID: i32 = 160;

const PLAIN: TextStyle =
    TextStyle { size: 12, colour: palette::TEXT, anchor: "start", weight: "normal" };
const BAR_LABEL: TextStyle = TextStyle { colour: palette::MUTED_TEXT, ..PLAIN };

/// One bar of each row.
struct Bar {
    name: &'static str,
    colour: Colour,
    share: fn(&Score) -> Option<Share>,
}

const INCLUDED: Bar = Bar {
    name: "in the next block",
    colour: palette::BASE_FEE,
    share: |score| score.included_next,
};
const COVERS_SOON: Bar =
    Bar { name: "covers base fee +5", colour: palette::BASE_FEE, share: |score| score.covers_soon };
const COVERS_LATER: Bar = Bar {
    name: "covers base fee +25",
    colour: palette::MEDIUM,
    share: |score| score.covers_horizon,
};

pub(super) fn render(report: &Report<'_>) -> String {
    let first = if report.recording.has_tips() { INCLUDED } else { COVERS_SOON };
    let bars = [first, COVERS_LATER];
    let rows = i32::try_from(report.scores.len()).unwrap_or_default();
    let height = ROWS_TOP.saturating_add(rows.saturating_mul(ROW_HEIGHT)).saturating_add(MARGIN);
    let title = report.title();
    let mut svg = Svg::new((WIDTH, height), 1, &title, &description(report, &bars));
    let heading = truncated(&title, PLAIN.size, WIDTH - 2 * MARGIN);
    svg.text(&heading, (MARGIN, 22), PLAIN);
    let mut x = BARS_LEFT;
    for bar in &bars {
        svg.rect((x, 36), (12, 12), bar.colour);
        svg.text(bar.name, (x + 18, 46), PLAIN);
        x += SECOND_LEGEND;
    }
    let scale = report.recording.has_tips().then(|| OverpaidScale::new(&report.scores));
    if scale.is_some() {
        svg.rect((OVERPAID_LEFT, 36), (12, 12), palette::HIGH);
        svg.text("overpaid, median in gwei (log scale)", (OVERPAID_LEFT + 18, 46), PLAIN);
    }
    let mut row_top = ROWS_TOP;
    for score in &report.scores {
        svg.text(&score.name, (MARGIN, row_top + BAR_HEIGHT + 4), PLAIN);
        for (bar, y) in bars.iter().zip([row_top, row_top + BAR_HEIGHT + 1]) {
            let share = (bar.share)(score);
            let length = share.map(|share| permille(share) * FULL_BAR_LENGTH / 1000);
            if let Some(length) = length {
                svg.rect((BARS_LEFT, y), (length, BAR_HEIGHT), bar.colour);
            }
            let label = share.map_or_else(|| "–".into(), percent);
            let label_x = BARS_LEFT + length.unwrap_or_default() + 6;
            svg.text(&label, (label_x, y + BAR_HEIGHT - 2), BAR_LABEL);
        }
        if let Some(scale) = &scale {
            let length = score.overpaid_p50.map_or(0, |wei| scale.length(wei));
            if length > 0 {
                svg.rect((OVERPAID_LEFT, row_top), (length, 2 * BAR_HEIGHT + 1), palette::HIGH);
            }
            let label = score.overpaid_p50.map_or("–".into(), rounded_gwei);
            let label_y = row_top + BAR_HEIGHT + 4;
            svg.text(&label, (OVERPAID_LEFT + length + 6, label_y), BAR_LABEL);
        }
        row_top += ROW_HEIGHT;
    }
    svg.finish()
}

/// Logarithmic scale from the smallest overpayment that is not 0 to the largest.
struct OverpaidScale {
    least: u64,
    most: u64,
}

impl OverpaidScale {
    fn new(scores: &[Score]) -> Self {
        let amounts = || scores.iter().filter_map(|score| score.overpaid_p50);
        let logs = || amounts().filter(|wei| *wei > 0).map(milli_log2);
        // A factor of two below the smallest, so that its bar is visible.
        let least = logs().min().unwrap_or_default().saturating_sub(1000);
        Self { least, most: logs().max().unwrap_or_default() }
    }

    /// Returns the length of a bar; 0 for the amount 0.
    fn length(&self, wei: u128) -> i32 {
        if wei == 0 {
            return 0;
        }
        let longest = u64::try_from(LONGEST_OVERPAID).unwrap_or_default();
        let above = milli_log2(wei).saturating_sub(self.least);
        let length = above * longest / self.most.saturating_sub(self.least).max(1);
        i32::try_from(length).unwrap_or(LONGEST_OVERPAID)
    }
}

/// Returns the logarithm of a positive number to the base of 2, in thousandths, exact at powers of 2 and linear between
/// them.
fn milli_log2(number: u128) -> u64 {
    const FRACTION_BITS: u32 = 10;
    let whole = number.checked_ilog2().unwrap_or_default();
    // The bits below the highest one.
    let fraction = match whole.checked_sub(FRACTION_BITS) {
        Some(surplus) => (number >> surplus) & 0x3ff,
        None => (number << (FRACTION_BITS - whole)) & 0x3ff,
    };
    u64::from(whole) * 1000 + u64::try_from(fraction * 1000 / 1024).unwrap_or_default()
}

/// Describes the chart as text.
fn description(report: &Report<'_>, bars: &[Bar]) -> String {
    let sentences = report.scores.iter().map(|score| {
        let shares = bars.iter().filter_map(|bar| {
            let share = (bar.share)(score)?;
            Some(format!("{} {}", bar.name, percent(share)))
        });
        let overpaid = score.overpaid_p50.map(|wei| format!("overpaid {} gwei", rounded_gwei(wei)));
        let facts = shares.chain(overpaid).collect::<Vec<_>>().join(", ");
        format!("{}: {facts}.", score.name)
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn percent(share: Share) -> String {
    format!("{:.1} %", share.value() * 100.0)
}

/// Converts to thousandths, rounded down.
fn permille(share: Share) -> i32 {
    let scaled = u64::from(share.hits) * 1000;
    i32::try_from(scaled / u64::from(share.total.max(1))).unwrap_or_default()
}
