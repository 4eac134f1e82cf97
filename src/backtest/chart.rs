//! A report as an SVG image: for each estimator, how often it was included and how often it still covered the base fee.

use super::Report;
use super::measures::{Score, Share};
use crate::chart::palette::{self, Colour};
use crate::chart::{Svg, TextStyle, truncated};

const WIDTH: i32 = 800;
const MARGIN: i32 = 16;
/// Above the first row.
const ROWS_TOP: i32 = 64;
const ROW_HEIGHT: i32 = 32;
const BAR_HEIGHT: i32 = 12;
/// Left edge of the bars, and the length of a bar of 100 %.
const BARS_LEFT: i32 = 250;
const FULL_BAR_LENGTH: i32 = 480;

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
    name: "included in the next block",
    colour: palette::BASE_FEE,
    share: |score| score.included_next,
};
const COVERS_SOON: Bar = Bar {
    name: "covers the base fee after 5 blocks",
    colour: palette::BASE_FEE,
    share: |score| score.covers_soon,
};
const COVERS_LATER: Bar = Bar {
    name: "covers the base fee after 25 blocks",
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
        x += FULL_BAR_LENGTH / 2;
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
        row_top += ROW_HEIGHT;
    }
    svg.finish()
}

/// Describes the chart as text.
fn description(report: &Report<'_>, bars: &[Bar]) -> String {
    let sentences = report.scores.iter().map(|score| {
        let shares = bars.iter().filter_map(|bar| {
            let share = (bar.share)(score)?;
            Some(format!("{} {}", bar.name, percent(share)))
        });
        format!("{}: {}.", score.name, shares.collect::<Vec<_>>().join(", "))
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
