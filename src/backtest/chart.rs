//! A report as an SVG image: for each estimator, how often it got in and how often it still covered the base fee.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::Report;
use super::measures::{Score, Share};
use crate::chart::{escaped, fitted, palette};

const WIDTH: u32 = 800;
const MARGIN: u32 = 16;
/// The height of a line of text.
const TEXT: i32 = 12;
/// What a line of text may take.
const ROOM: i32 = 768;
/// Above the first row.
const TOP: u32 = 64;
const ROW: u32 = 32;
const BAR: u32 = 12;
/// Where bars begin, and how long one of 100 % is.
const LEFT: u32 = 250;
const LENGTH: u32 = 480;

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

pub(super) fn draw(report: &Report<'_>) -> String {
    let first = if report.recording.has_tips() { INCLUDED } else { COVERS_SOON };
    let bars = [first, COVERS_LATER];
    let rows = u32::try_from(report.scores.len()).unwrap_or_default();
    let height = TOP.saturating_add(rows.saturating_mul(ROW)).saturating_add(MARGIN);
    let title = escaped(&report.title());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title facts\" \
         font-family=\"system-ui, sans-serif\" font-size=\"{TEXT}\">\n<title id=\"title\">{title}</title>\n\
         <desc id=\"facts\">{}</desc>\n<style>{}</style>\n",
        escaped(&facts(report, &bars)),
        palette::style(),
    );
    rect(&mut svg, (0, 0), (WIDTH, height), palette::GROUND);
    let heading = fitted(&report.title(), TEXT, ROOM);
    text(&mut svg, &heading, (MARGIN, 22), palette::TEXT);
    let mut x = LEFT;
    for bar in &bars {
        rect(&mut svg, (x, 36), (12, 12), bar.colour);
        text(&mut svg, bar.name, (x + 18, 46), palette::TEXT);
        x += LENGTH / 2;
    }
    for (score, y) in report.scores.iter().zip((TOP..).step_by(usize::try_from(ROW).unwrap_or(1))) {
        text(&mut svg, &score.name, (MARGIN, y + BAR + 4), palette::TEXT);
        for (bar, y) in bars.iter().zip([y, y + BAR + 1]) {
            match (bar.share)(score) {
                Some(share) => {
                    let length = per_mille(share) * LENGTH / 1000;
                    rect(&mut svg, (LEFT, y), (length, BAR), bar.colour);
                    let label = percent(share);
                    text(&mut svg, &label, (LEFT + length + 6, y + BAR - 2), palette::MUTED);
                }
                None => text(&mut svg, "–", (LEFT + 6, y + BAR - 2), palette::MUTED),
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The picture in words.
fn facts(report: &Report<'_>, bars: &[Bar]) -> String {
    let told = report.scores.iter().map(|score| {
        let shares = bars.iter().filter_map(|bar| {
            let share = (bar.share)(score)?;
            Some(format!("{} {}", bar.name, percent(share)))
        });
        format!("{}: {}.", score.name, shares.collect::<Vec<_>>().join(", "))
    });
    told.collect::<Vec<_>>().join(" ")
}

fn percent(share: Share) -> String {
    format!("{:.1} %", share.value() * 100.0)
}

/// Rounded down.
fn per_mille(share: Share) -> u32 {
    let scaled = u64::from(share.hits) * 1000;
    u32::try_from(scaled / u64::from(share.of.max(1))).unwrap_or_default()
}

fn rect(svg: &mut String, (x, y): (u32, u32), (width, height): (u32, u32), colour: RGBColor) {
    let colour = palette::hex(colour);
    // Nothing can fail that writes to a text.
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
}

fn text(svg: &mut String, words: &str, (x, y): (u32, u32), colour: RGBColor) {
    let (words, colour) = (escaped(words), palette::hex(colour));
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{words}</text>");
}
