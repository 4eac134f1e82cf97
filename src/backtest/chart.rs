//! A report as an SVG image: for each estimator, how often it was included and how often it still covered the base fee.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::Report;
use super::measures::{Score, Share};
use crate::chart::{escape_xml, palette, truncated};

const WIDTH: u32 = 800;
const MARGIN: u32 = 16;
/// The height of a line of text.
const TEXT_HEIGHT: i32 = 12;
/// Width of a line of text in pixels.
const MAX_TEXT_WIDTH: i32 = 768;
/// Above the first row.
const ROWS_TOP: u32 = 64;
const ROW_HEIGHT: u32 = 32;
const BAR_HEIGHT: u32 = 12;
/// Left edge of the bars, and the length of a bar of 100 %.
const BARS_LEFT: u32 = 250;
const FULL_BAR_LENGTH: u32 = 480;

/// One bar of each row.
struct Bar {
    name: &'static str,
    colour: RGBColor,
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
    let rows = u32::try_from(report.scores.len()).unwrap_or_default();
    let height = ROWS_TOP.saturating_add(rows.saturating_mul(ROW_HEIGHT)).saturating_add(MARGIN);
    let title = escape_xml(&report.title());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title facts\" \
         font-family=\"system-ui, sans-serif\" font-size=\"{TEXT_HEIGHT}\">\n<title id=\"title\">{title}</title>\n\
         <desc id=\"facts\">{}</desc>\n<style>{}</style>\n",
        escape_xml(&description(report, &bars)),
        palette::stylesheet(),
    );
    write_rect(&mut svg, (0, 0), (WIDTH, height), palette::BACKGROUND);
    let heading = truncated(&report.title(), TEXT_HEIGHT, MAX_TEXT_WIDTH);
    write_text(&mut svg, &heading, (MARGIN, 22), palette::TEXT);
    let mut x = BARS_LEFT;
    for bar in &bars {
        write_rect(&mut svg, (x, 36), (12, 12), bar.colour);
        write_text(&mut svg, bar.name, (x + 18, 46), palette::TEXT);
        x += FULL_BAR_LENGTH / 2;
    }
    for (score, y) in
        report.scores.iter().zip((ROWS_TOP..).step_by(usize::try_from(ROW_HEIGHT).unwrap_or(1)))
    {
        write_text(&mut svg, &score.name, (MARGIN, y + BAR_HEIGHT + 4), palette::TEXT);
        for (bar, y) in bars.iter().zip([y, y + BAR_HEIGHT + 1]) {
            match (bar.share)(score) {
                Some(share) => {
                    let length = permille(share) * FULL_BAR_LENGTH / 1000;
                    write_rect(&mut svg, (BARS_LEFT, y), (length, BAR_HEIGHT), bar.colour);
                    let label = percent(share);
                    write_text(
                        &mut svg,
                        &label,
                        (BARS_LEFT + length + 6, y + BAR_HEIGHT - 2),
                        palette::MUTED_TEXT,
                    );
                }
                None => write_text(
                    &mut svg,
                    "–",
                    (BARS_LEFT + 6, y + BAR_HEIGHT - 2),
                    palette::MUTED_TEXT,
                ),
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
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
fn permille(share: Share) -> u32 {
    let scaled = u64::from(share.hits) * 1000;
    u32::try_from(scaled / u64::from(share.total.max(1))).unwrap_or_default()
}

fn write_rect(svg: &mut String, (x, y): (u32, u32), (width, height): (u32, u32), colour: RGBColor) {
    let colour = palette::to_hex(colour);
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
}

fn write_text(svg: &mut String, content: &str, (x, y): (u32, u32), colour: RGBColor) {
    let (words, colour) = (escape_xml(content), palette::to_hex(colour));
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{words}</text>");
}
