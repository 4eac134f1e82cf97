//! A picture of share against price, as SVG: each estimator is a point.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

use crate::report::Report;

const FONT: (&str, u32) = ("sans-serif", 12);

/// Colour of other systems.
const OTHERS: RGBColor = RGBColor(128, 128, 128);

/// Shares on the axis.
const SHARES: [f64; 10] = [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0];

struct Point {
    name: String,
    share: f64,
    cost: f64,
}

/// Returns the estimators of which both numbers are known: how often the next block includes a quote, and what it
/// overpays. Without recorded tips: how often it covers the base fee after 25 blocks, and its multiple of the base fee.
fn points(report: &Report<'_>) -> Vec<Point> {
    let gwei = |wei: gas_suggestion::fees::Wei| wei.0 as f64 / 1e9;
    let estimators = report.estimators.iter().map(|score| {
        let (share, cost) = if report.has_tips {
            (score.included_next, score.overpaid_p50.map(gwei))
        } else {
            (score.covers_after_25, score.max_fee_over_base_fee_p50)
        };
        (score.name.replace(" without floors", ""), share, cost)
    });
    let cells = report.horizon.iter().flatten().filter(|cell| report.has_tips && cell.within == 1);
    let cells = cells.map(|cell| {
        let name = format!("fees within 1 block, {:.0} %", cell.probability * 100.0);
        (name, Some(cell.kept), cell.overpaid_p50.map(gwei))
    });
    let points = estimators.chain(cells);
    points
        .filter_map(|(name, share, cost)| Some(Point { name, share: share?, cost: cost? }))
        .collect()
}

impl Point {
    /// Returns true if another point has no lower share for no higher cost.
    fn is_beaten(&self, points: &[Point]) -> bool {
        let beats = |other: &Point| {
            other.share >= self.share
                && other.cost <= self.cost
                && (other.share > self.share || other.cost < self.cost)
        };
        points.iter().any(beats)
    }

    fn color(&self) -> RGBColor {
        let start = self.name.split([',', ' ']).next().unwrap_or_default();
        match start {
            "configured" => RED,
            "calibrated" => GREEN,
            "network" => BLUE,
            "fees" => MAGENTA,
            _ => OTHERS,
        }
    }
}

/// An axis with ticks at these values.
struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        start + (part * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Renders the picture. Shares are placed by how often the misses are halved, so that 95, 99 and 99.9 % are apart, and costs
/// by their logarithm, with a place for 0 at the left.
pub fn render(report: &Report<'_>) -> anyhow::Result<String> {
    let mut points = points(report);
    points.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    let top = (report.quotes as f64).log2() + 1.0;
    let height = |share: f64| if share < 1.0 { -(1.0 - share).log2() } else { top };
    let bottom = points.iter().map(|point| height(point.share)).fold(top, f64::min);
    let logs = points.iter().filter(|point| point.cost > 0.0).map(|point| point.cost.log10());
    let least = logs.clone().fold(0.0, f64::min).floor();
    let most = logs.fold(least + 1.0, f64::max).ceil();
    let place = |cost: f64| if cost > 0.0 { cost.log10() } else { least - 1.0 };
    let at = |point: &Point| (place(point.cost), height(point.share));

    let (share_name, cost_name) = if report.has_tips {
        ("Included in the next block", "Overpaid in gwei, median")
    } else {
        ("Covers the base fee after 25 blocks", "Max fee / base fee, median")
    };
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (1000, 600)).into_drawing_area();
    area.fill(&WHITE)?;
    let decades = (0..=(most - least) as i32 + 1).map(|step| least - 1.0 + f64::from(step));
    let shares = SHARES.into_iter().map(height).filter(|share| *share >= bottom - 0.5);
    let mut chart = ChartBuilder::on(&area)
        .caption(report.title(), FONT)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            Axis { range: least - 1.2..most, ticks: decades.collect() },
            Axis { range: bottom - 0.5..top + 0.5, ticks: shares.collect() },
        )?;
    chart
        .configure_mesh()
        .x_desc(cost_name)
        .y_desc(share_name)
        .x_label_formatter(&|x| if *x < least { "0".into() } else { 10_f64.powf(*x).to_string() })
        .y_label_formatter(&|y| {
            let share = SHARES.iter().find(|share| height(**share).total_cmp(y).is_eq());
            share.map_or(String::new(), |share| format!("{:.1} %", share * 100.0))
        })
        .draw()?;
    // First the service's own, and those that none beats.
    let mut named: Vec<&Point> = points.iter().collect();
    named.sort_by_key(|point| (point.color() == OTHERS, point.is_beaten(&points)));
    // The first ones are drawn last, over the others.
    let dot = |point: &&Point| Circle::new(at(point), 4, point.color().filled());
    chart.draw_series(named.iter().rev().map(dot))?;

    // Names stand beside the points, where there is room.
    let dot = |point: &Point| {
        let (x, y) = chart.backend_coord(&at(point));
        (x - 4, x + 4, y - 6)
    };
    let mut taken: Vec<(i32, i32, i32)> = points.iter().map(dot).collect();
    for point in named {
        let (x, y) = chart.backend_coord(&at(point));
        let width = 5 * point.name.chars().count() as i32;
        let places = [
            (x + 8, y - 6),
            (x - 8 - width, y - 6),
            (x - width / 2, y - 20),
            (x - width / 2, y + 8),
        ];
        let free = places.into_iter().find(|(left, y)| {
            (60..1000 - width).contains(left)
                && taken.iter().all(|(start, end, line)| {
                    left + width < *start || left > end || (line - y).abs() > 12
                })
        });
        if let Some((left, y)) = free {
            area.draw_text(&point.name, &FONT.into_text_style(&area), (left, y))?;
            taken.push((left, left + width, y));
        }
    }
    area.present()?;
    drop((chart, area));
    Ok(svg)
}
