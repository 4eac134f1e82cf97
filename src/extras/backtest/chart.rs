//! A report as an SVG image: each estimator as a point, by what it overpaid and how often the next block would have
//! included it. A line joins the estimators that no other one beats in both.

mod labels;
mod scales;

use super::Report;
use super::measures::{Score, Share};
use crate::extras::svg::palette;
use crate::extras::svg::palette::Colour;
use crate::extras::svg::{Svg, TextStyle, truncated};
use crate::fees::gwei::rounded_gwei;
use labels::{Label, LabelText, Obstacle, Rect};
use scales::{CostScale, ShareScale};

const WIDTH: i32 = 960;
const HEIGHT: i32 = 660;
const MARGIN: i32 = 16;
/// The area of the points.
const PLOT: Rect = Rect { left: 64, top: 88, right: WIDTH - 24, bottom: HEIGHT - 84 };
/// The area of the labels.
const LABELS: Rect = Rect { left: PLOT.left - 4, right: WIDTH - 8, ..PLOT };
const DOT_RADIUS: i32 = 4;
/// Points that are closer than this are drawn as one.
const MERGE_DISTANCE: i32 = 3;

const PLAIN: TextStyle =
    TextStyle { size: 12, colour: palette::TEXT, anchor: "start", weight: "normal" };
const HEADING: TextStyle = TextStyle { size: 14, weight: "bold", ..PLAIN };
const MUTED: TextStyle = TextStyle { colour: palette::MUTED_TEXT, ..PLAIN };
const X_TICK: TextStyle = TextStyle { anchor: "middle", ..MUTED };
const Y_TICK: TextStyle = TextStyle { anchor: "end", ..MUTED };

/// Measures of the two axes.
struct Axes {
    share: fn(&Score) -> Option<Share>,
    share_name: &'static str,
    /// In wei, or in thousandths.
    cost: fn(&Score) -> Option<u128>,
    cost_name: &'static str,
    /// Amount of the unit of the labels.
    unit: u128,
}

const INCLUSION: Axes = Axes {
    share: |score| score.included_next,
    share_name: "included in the next block",
    cost: |score| score.overpaid_p50,
    cost_name: "overpaid in gwei, median (log scale)",
    unit: 1_000_000_000,
};

/// For recordings without tips.
const COVERAGE: Axes = Axes {
    share: |score| score.covers_horizon,
    share_name: "covers the base fee after 25 blocks",
    cost: |score| score.max_fee_permille,
    cost_name: "max fee / base fee, median (log scale)",
    unit: 1000,
};

/// Estimators at one place of the chart.
struct Point<'a> {
    x: i32,
    y: i32,
    scores: Vec<&'a Score>,
    is_on_frontier: bool,
}

pub(crate) fn render(report: &Report<'_>) -> String {
    let axes = if report.recording.has_tips() { &INCLUSION } else { &COVERAGE };
    let title = report.title();
    let mut svg = Svg::new((WIDTH, HEIGHT), 1, &title, &description(report, axes));
    svg.text(&truncated(&title, HEADING.size, WIDTH - 2 * MARGIN), (MARGIN, 26), HEADING);
    let advice = "Higher is better, further left is cheaper. No other estimator does as well for less than those on the line.";
    svg.text(advice, (MARGIN, 46), MUTED);
    let known = || report.scores.iter().filter_map(|score| values(score, axes));
    let shares = ShareScale::covering(known().map(|(share, _)| share));
    let costs = CostScale::covering(&known().map(|(_, cost)| cost), axes.unit);
    draw_axes(&mut svg, axes, &shares, &costs);

    let points = points(report, axes, &shares, &costs);
    let frontier = frontier_line(&points);
    let dots = points.iter().map(|point| Obstacle {
        area: Rect::around((point.x, point.y), DOT_RADIUS + 1),
        crossing_cost: labels::DOT_COST,
    });
    let segments = frontier.windows(2).filter_map(|ends| match ends {
        [from, to] => {
            let area = Rect::between(*from, *to);
            Some(Obstacle { area, crossing_cost: labels::LINE_COST })
        }
        _ => None,
    });
    let texts: Vec<_> = points.iter().map(label_text).collect();
    let labels = labels::place(&texts, &dots.chain(segments).collect::<Vec<_>>(), LABELS);
    for leader in labels.iter().filter_map(|label| label.leader) {
        svg.line(&leader, 1, palette::GAS_USED);
    }
    svg.line(&frontier, 1, palette::MUTED_TEXT);
    for label in &labels {
        let Rect { left, top, right, bottom } = label.area;
        svg.rect((left, top), (right - left, bottom - top), palette::BACKGROUND);
    }
    for point in &points {
        let colour = dot_colour(point).unwrap_or(palette::GAS_USED);
        svg.dot((point.x, point.y), DOT_RADIUS, colour);
    }
    for label in &labels {
        draw_label(&mut svg, label);
    }
    let missing = report.scores.iter().filter(|score| values(score, axes).is_none());
    let missing: Vec<_> = missing.map(|score| short_name(&score.name)).collect();
    if !missing.is_empty() {
        let note = format!(
            "Not shown, because they have no max fee or are never included: {}",
            missing.join("; ")
        );
        let note = truncated(&note, MUTED.size, WIDTH - 2 * MARGIN);
        svg.text(&note, (MARGIN, HEIGHT - 14), MUTED);
    }
    svg.finish()
}

/// Returns the share and the cost of an estimator, if it has both.
fn values(score: &Score, axes: &Axes) -> Option<(Share, u128)> {
    (axes.share)(score).zip((axes.cost)(score))
}

/// Returns the points from left to right. Estimators at the same place are one point.
fn points<'a>(
    report: &'a Report<'_>,
    axes: &Axes,
    shares: &ShareScale,
    costs: &CostScale,
) -> Vec<Point<'a>> {
    let known: Vec<_> = report
        .scores
        .iter()
        .filter_map(|score| values(score, axes).map(|values| (score, values)))
        .collect();
    let mut points: Vec<Point<'a>> = Vec::new();
    for (score, (share, cost)) in &known {
        let (x, y) = (costs.x(*cost, PLOT), shares.y(*share, PLOT));
        let is_beaten = known.iter().any(|(_, (other_share, other_cost))| {
            let is_as_good = other_share.cmp_value(*share).is_ge() && other_cost <= cost;
            is_as_good && (other_share.cmp_value(*share).is_gt() || other_cost < cost)
        });
        let is_near = |point: &&mut Point<'_>| {
            point.x.abs_diff(x).max(point.y.abs_diff(y)) <= MERGE_DISTANCE.unsigned_abs()
        };
        if let Some(point) = points.iter_mut().find(is_near) {
            point.scores.push(score);
            point.is_on_frontier |= !is_beaten;
        } else {
            points.push(Point { x, y, scores: vec![score], is_on_frontier: !is_beaten });
        }
    }
    points.sort_by_key(|point| (point.x, point.y));
    points
}

/// Returns the corners of a stair from one point of the frontier to the next.
fn frontier_line(points: &[Point<'_>]) -> Vec<(i32, i32)> {
    let mut line: Vec<(i32, i32)> = Vec::new();
    for point in points.iter().filter(|point| point.is_on_frontier) {
        if let Some((_, y)) = line.last().copied() {
            line.push((point.x, y));
        }
        line.push((point.x, point.y));
    }
    line
}

fn draw_axes(svg: &mut Svg, axes: &Axes, shares: &ShareScale, costs: &CostScale) {
    for (share, label) in shares.ticks() {
        let y = shares.y(share, PLOT);
        svg.line(&[(PLOT.left, y), (PLOT.right, y)], 1, palette::GRID);
        svg.text(&label, (PLOT.left - 8, y + 4), Y_TICK);
    }
    for (cost, label) in costs.ticks() {
        let x = costs.x(cost, PLOT);
        svg.line(&[(x, PLOT.top), (x, PLOT.bottom)], 1, palette::GRID);
        svg.text(&label, (x, PLOT.bottom + 18), X_TICK);
    }
    svg.text(axes.share_name, (MARGIN, PLOT.top - 14), PLAIN);
    let x_name = TextStyle { anchor: "end", ..PLAIN };
    svg.text(axes.cost_name, (PLOT.right, PLOT.bottom + 38), x_name);
}

fn draw_label(svg: &mut Svg, label: &Label<'_>) {
    let text = label.text;
    let weight = if text.is_bold { "bold" } else { "normal" };
    let mut baseline = label.area.top + labels::TEXT_SIZE - 1;
    for line in &text.lines {
        let colour = own_colour(line).unwrap_or(palette::TEXT);
        let anchor = label.anchor.name;
        let style = TextStyle { size: labels::TEXT_SIZE, colour, anchor, weight };
        svg.text(line, (label.anchor.x, baseline), style);
        baseline += labels::LINE_HEIGHT;
    }
}

/// Returns the colour of the service's own rules; `None` for those of other systems.
fn own_colour(name: &str) -> Option<Colour> {
    let colours = [
        ("configured", palette::HIGH),
        ("calibrated", palette::FIRST_TIP),
        ("network rule", palette::BASE_FEE),
    ];
    colours.into_iter().find(|(own, _)| name.starts_with(own)).map(|(_, colour)| colour)
}

fn dot_colour(point: &Point<'_>) -> Option<Colour> {
    point.scores.iter().find_map(|score| own_colour(&score.name))
}

/// Returns a line for each system at this point, with its tiers. Those on the frontier are bold.
fn label_text(point: &Point<'_>) -> LabelText {
    let mut systems: Vec<(String, String)> = Vec::new();
    for score in &point.scores {
        let name = short_name(&score.name);
        let (system, tier) = name.split_once(", ").unwrap_or((&name, ""));
        match systems.iter_mut().find(|(found, _)| found == system) {
            Some((_, tiers)) => *tiers = format!("{tiers} / {tier}"),
            None => systems.push((system.into(), tier.into())),
        }
    }
    let line = |(system, tiers): (String, String)| {
        if tiers.is_empty() { system } else { format!("{system}, {tiers}") }
    };
    let lines = systems.into_iter().map(line).collect();
    LabelText { point: (point.x, point.y), lines, is_bold: point.is_on_frontier }
}

fn short_name(name: &str) -> String {
    name.replace(" without floors", "").replace(" FeeHistory p60", "")
}

/// Describes the chart as text.
fn description(report: &Report<'_>, axes: &Axes) -> String {
    let sentences = report.scores.iter().filter_map(|score| {
        let share = (axes.share)(score)?;
        let cost = (axes.cost)(score).map(|cost| {
            if axes.unit == INCLUSION.unit {
                format!(", overpaid {} gwei", rounded_gwei(cost))
            } else {
                format!(", max fee / base fee {}.{:03}", cost / 1000, cost % 1000)
            }
        });
        let share = format!("{} {:.1} %", axes.share_name, share.value() * 100.0);
        Some(format!("{}: {share}{}.", score.name, cost.unwrap_or_default()))
    });
    sentences.collect::<Vec<_>>().join(" ")
}
