//! A chain's recent fees as an SVG image, and a price as a badge. Rendering is pure: blocks and a suggestion in, a
//! document out.
//!
//! The upper panel shows the base fee, the tips of each block and the current max fees in gwei per gas. The lower panel
//! shows how full the blocks were. Coordinates are integers in quarters of a pixel; amounts are mapped onto them as wei
//! in `u128`.

mod axes;
mod badge;
mod badge_route;
mod routes;
mod svg;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join};
use crate::config::percentile_numbers;
use crate::fees::gwei::{exact_gwei, rounded_gwei};
use crate::fees::{Block, GasUsedRatios, Pricing, PricingType, Suggestion, Tiers};
use crate::observe::metrics::{Counter, metric_set};
use crate::store::BlockWindow;
use axes::{AmountAxis, BlockAxis};
pub(crate) use badge::Badge;
use routes::ChartRenderer;
use svg::palette::{self, Colour};
use svg::{Svg, TextStyle, interpolate, text_width, truncated};

pub(crate) const EXTRA: Extra = Extra::new("chart", Join::Always(join));

metric_set! {
    /// Metrics of charts.
    ChartMetrics {
        /// Charts rendered rather than served from the cache
        charts_rendered_total: Counter,
    }
}

/// Adds the chart of the fee history, and the badge.
fn join(assembly: &mut Assembly) {
    let Assembly { store, memory, metrics, .. } = &*assembly;
    let renderer = ChartRenderer::new(store, memory, metrics);
    let chart = OpenApiRouter::new().routes(routes!(routes::get_chart)).with_state(renderer);
    let badge = OpenApiRouter::new().routes(routes!(badge_route::get_badge));
    let badge = badge.with_state(store.clone());
    assembly.routes.add(chart);
    assembly.routes.mark_costly("/v1/{chain}/fee-history.svg");
    assembly.routes.add(badge);
}

/// Contents of a chart.
#[derive(Debug)]
pub(crate) struct ChartSpec<'a> {
    /// Display name of the chain.
    pub(crate) chain_name: &'a str,
    /// Pricing of the chain, which has the percentiles of a block's rewards.
    pub(crate) pricing: &'a Pricing,
    /// The blocks.
    pub(crate) window: &'a BlockWindow,
    /// Current suggestion.
    pub(crate) suggestion: &'a Suggestion,
    /// True if the data is labelled as stale.
    pub(crate) is_stale: bool,
}

const UNITS_PER_PIXEL: i32 = 4;
const WIDTH: i32 = px(800);
const HEIGHT: i32 = px(400);

/// Vertical positions of the panels. The top of the upper one depends on the legend.
const FEES_BOTTOM: i32 = px(300);
const GAS_TOP: i32 = px(314);
const GAS_BOTTOM: i32 = px(370);

/// Distance between the plot and the labels beside it.
const LABEL_GAP: i32 = px(10);
const TICK_LENGTH: i32 = px(5);
const LINE_WIDTH: i32 = px(2);
const TEXT_SIZE: i32 = px(13);
/// Distance from the middle of a line of text down to its baseline.
const MIDDLE_TO_BASELINE: i32 = px(4);

const PLAIN: TextStyle =
    TextStyle { size: TEXT_SIZE, colour: palette::TEXT, anchor: "start", weight: "normal" };
const AXIS_LABEL: TextStyle =
    TextStyle { size: px(12), colour: palette::MUTED_TEXT, anchor: "end", weight: "normal" };
const PANEL_NAME: TextStyle = TextStyle { anchor: "start", ..AXIS_LABEL };

/// Converts pixels to units of coordinates.
const fn px(pixels: i32) -> i32 {
    pixels * UNITS_PER_PIXEL
}

/// A line with its name, its colour and its value per block.
struct Series {
    colour: Colour,
    name: String,
    amounts: Vec<Option<u128>>,
}

/// Max fee of a tier, in wei.
struct MaxFeeLine {
    tier: &'static str,
    wei: u128,
    colour: Colour,
}

impl MaxFeeLine {
    fn label(&self) -> String {
        format!("{} {}", self.tier, rounded_gwei(self.wei))
    }
}

impl ChartSpec<'_> {
    /// Renders the chart as a standalone SVG document.
    pub(crate) fn render(&self) -> String {
        let series = self.series();
        let (title, description) = (self.title(), self.description(&series));
        let mut svg = Svg::new((WIDTH, HEIGHT), UNITS_PER_PIXEL, &title, &description);
        self.draw_heading(&mut svg);
        let amounts = AmountAxis::covering(self.scale_maximum(&series));
        let left_chars = amounts.longest_label_chars().max("100 %".len());
        let left = px(20 + 7 * i32::try_from(left_chars).unwrap_or_default());
        let right_chars = self.max_fees().iter().map(|fee| fee.label().len()).max();
        let right_chars = i32::try_from(right_chars.unwrap_or_default()).unwrap_or_default();
        let right = WIDTH - px(20 + 9 * right_chars);
        let top = draw_legend(&mut svg, &series, left, amounts.maximum) + px(38);

        let plot = Plot { left, right, top, blocks: self.blocks(), amounts };
        plot.draw_grid(&mut svg);
        for one_series in &series {
            plot.draw_series(&mut svg, one_series);
        }
        plot.draw_max_fees(&mut svg, &self.max_fees());
        plot.draw_gas(&mut svg, &self.window.blocks);
        let names_y = top - px(13);
        svg.text("gwei", (left - LABEL_GAP, names_y), AXIS_LABEL);
        svg.text(self.price_label(), (right + LABEL_GAP, names_y), PANEL_NAME);
        svg.text("gas used", (right + LABEL_GAP, GAS_TOP + px(9)), PANEL_NAME);
        svg.finish()
    }

    fn draw_heading(&self, svg: &mut Svg) {
        const MARGIN: i32 = px(16);
        const GAP: i32 = px(24);
        const BASELINE: i32 = px(25);
        const NAME: TextStyle = TextStyle { size: px(15), weight: "bold", ..PLAIN };
        let range = self.block_range();
        let space = WIDTH - 2 * MARGIN - GAP - text_width(&range, TEXT_SIZE);
        // Bold text is wider.
        let name = truncated(self.chain_name, NAME.size, space * 9 / 10);
        svg.text(&name, (MARGIN, BASELINE), NAME);
        svg.text(&range, (WIDTH - MARGIN, BASELINE), TextStyle { anchor: "end", ..PLAIN });
    }

    fn blocks(&self) -> BlockAxis {
        BlockAxis::ending_at(self.window.newest_block, self.window.blocks.len())
    }

    fn series(&self) -> Vec<Series> {
        let blocks = || self.window.blocks.iter();
        let base_fee = Series {
            colour: palette::BASE_FEE,
            name: "base fee".into(),
            amounts: blocks().map(|block| Some(block.base_fee)).collect(),
        };
        let percentiles = self.pricing.percentiles();
        let columns = percentiles.iter().map(|percentile| self.pricing.column(percentile));
        let numbers = percentile_numbers(percentiles.iter());
        let colours = [palette::FIRST_TIP, palette::SECOND_TIP];
        let tips =
            numbers.iter().zip(columns).zip(colours).map(|((percentile, column), colour)| {
                let reward = |block: &Block| block.reward(column?);
                Series {
                    colour,
                    name: format!("tip at percentile {percentile}"),
                    amounts: blocks().map(reward).collect(),
                }
            });
        std::iter::once(base_fee).chain(tips).collect()
    }

    /// Returns the top of the scale. It covers all base fees and max fees, and tips as far as the rest stays readable.
    fn scale_maximum(&self, series: &[Series]) -> u128 {
        const MAX_TIP_SCALE_FACTOR: u128 = 3;
        let highest = |line: &Series| line.amounts.iter().flatten().copied().max();
        let max_fees = self.max_fees().into_iter().map(|fee| fee.wei);
        let base_fees = series.first().and_then(highest);
        let needed = max_fees.chain(base_fees).max().unwrap_or_default();
        let tips = series.iter().filter_map(highest).max().unwrap_or_default();
        let tip_limit =
            if needed == 0 { u128::MAX } else { needed.saturating_mul(MAX_TIP_SCALE_FACTOR) };
        needed.max(tips.min(tip_limit))
    }

    /// Current max fees, the lower tier first.
    fn max_fees(&self) -> [MaxFeeLine; 2] {
        let Tiers { medium, high, .. } = self.suggestion.tiers;
        [
            MaxFeeLine { tier: "medium", wei: medium.max_fee_per_gas, colour: palette::MEDIUM },
            MaxFeeLine { tier: "high", wei: high.max_fee_per_gas, colour: palette::HIGH },
        ]
    }

    fn price_label(&self) -> &'static str {
        match self.suggestion.pricing_type {
            PricingType::Eip1559 => "max fee now",
            PricingType::Legacy => "gas price now",
        }
    }

    fn title(&self) -> String {
        format!("{}, {}", self.chain_name, self.block_range())
    }

    /// Describes the range of blocks, and whether they are stale.
    fn block_range(&self) -> String {
        let blocks = self.blocks();
        let stale = if self.is_stale { ", stale" } else { "" };
        if blocks.count == 1 {
            return format!("block {}{stale}", blocks.last());
        }
        format!("blocks {} to {}{stale}", blocks.first, blocks.last())
    }

    /// Describes the chart as text.
    fn description(&self, series: &[Series]) -> String {
        let ranges = series.iter().filter_map(|line| {
            let known = || line.amounts.iter().flatten();
            let (min, max) = known().min().zip(known().max())?;
            let (least, most) = (rounded_gwei(*min), rounded_gwei(*max));
            Some(format!("{}: from {least} to {most} gwei.", line.name))
        });
        let [medium, high] = self.max_fees().map(|fee| fee.label());
        let prices = format!("{}: {medium} gwei, {high} gwei.", self.price_label());
        let gas = GasUsedRatios::from_blocks(&self.window.blocks)
            .average
            .map(|average| format!("gas used: {:.0} % of the limit on average.", average * 100.0));
        ranges.chain([prices]).chain(gas).collect::<Vec<_>>().join(" ")
    }
}

/// The two panels, one above the other.
struct Plot {
    left: i32,
    right: i32,
    top: i32,
    blocks: BlockAxis,
    amounts: AmountAxis,
}

impl Plot {
    /// Returns the position that many half blocks from the left edge. The middle of the first block is at 1.
    fn x(&self, half_blocks: usize) -> i32 {
        let to_u128 = |number| u128::try_from(number).unwrap_or(u128::MAX);
        interpolate((self.left, self.right), to_u128(half_blocks), to_u128(2 * self.blocks.count))
    }

    /// Returns the height of an amount in wei. Amounts above the axis are at its top.
    fn y(&self, wei: u128) -> i32 {
        interpolate((FEES_BOTTOM, self.top), wei, self.amounts.maximum)
    }

    fn draw_grid(&self, svg: &mut Svg) {
        const BLOCK_NUMBER: TextStyle = TextStyle { anchor: "middle", ..AXIS_LABEL };
        let amounts = self.amounts.ticks().map(|wei| (self.y(wei), exact_gwei(wei)));
        let ratios = [0, 50, 100].map(|percent| {
            (interpolate((GAS_BOTTOM, GAS_TOP), percent, 100), format!("{percent} %"))
        });
        for (y, label) in amounts.chain(ratios) {
            draw_grid_line(svg, (self.left - TICK_LENGTH, y), (self.right, y));
            let position = (self.left - LABEL_GAP, y + MIDDLE_TO_BASELINE);
            svg.text(&label, position, AXIS_LABEL);
        }
        for (top, bottom) in [(self.top, FEES_BOTTOM), (GAS_TOP, GAS_BOTTOM)] {
            draw_grid_line(svg, (self.left, top), (self.left, bottom));
        }
        for (index, number) in self.blocks.ticks() {
            let x = self.x(2 * index + 1);
            draw_grid_line(svg, (x, GAS_BOTTOM), (x, GAS_BOTTOM + TICK_LENGTH));
            svg.text(&number.to_string(), (x, GAS_BOTTOM + px(19)), BLOCK_NUMBER);
        }
    }

    /// Number of blocks that are drawn as one, because they have less than a pixel together.
    fn group_size(&self) -> usize {
        const MAX_GROUPS: usize = 1024;
        self.blocks.count.div_ceil(MAX_GROUPS).max(1)
    }

    /// Draws a line, with a gap where a block has no value. A group of blocks has its lowest and its highest value.
    fn draw_series(&self, svg: &mut Svg, series: &Series) {
        let point = |(index, wei): (usize, u128)| (self.x(2 * index + 1), self.y(wei));
        let known = |(index, amount): (usize, &Option<u128>)| amount.map(|wei| (index, wei));
        let group_size = self.group_size();
        let groups = series.amounts.chunks(group_size).enumerate().map(|(group, amounts)| {
            let amounts = || (group * group_size..).zip(amounts).filter_map(known);
            let lowest = amounts().min_by_key(|(_, wei)| *wei)?;
            let highest = amounts().max_by_key(|(_, wei)| *wei)?;
            // Of equal values, both may be the same block.
            let highest = if highest.1 == lowest.1 { lowest } else { highest };
            Some([lowest.min(highest), lowest.max(highest)].map(point))
        });
        let points: Vec<_> = groups
            .flat_map(|group| match group {
                Some([first, last]) if first != last => vec![Some(first), Some(last)],
                group => vec![group.map(|[first, _]| first)],
            })
            .collect();
        for run in points.split(Option::is_none) {
            let run: Vec<_> = run.iter().flatten().copied().collect();
            match run.as_slice() {
                [] => {}
                [single] => svg.dot(*single, px(2), series.colour),
                _ => svg.line(&run, LINE_WIDTH, series.colour),
            }
        }
    }

    /// Draws the current max fees, each with its label at the right.
    fn draw_max_fees(&self, svg: &mut Svg, fees: &[MaxFeeLine; 2]) {
        const SPACING: i32 = TEXT_SIZE + px(3);
        let [medium, high] = fees.each_ref().map(|fee| self.y(fee.wei));
        // Labels must not overlap each other or what is above them.
        let high = high.min(medium - SPACING).max(self.top);
        let medium = medium.max(high + SPACING);
        for (fee, label_y) in fees.iter().zip([medium, high]) {
            let y = self.y(fee.wei);
            svg.line(&[(self.left, y), (self.right, y)], LINE_WIDTH, fee.colour);
            let style = TextStyle { colour: fee.colour, weight: "bold", ..PLAIN };
            let position = (self.right + LABEL_GAP, label_y + MIDDLE_TO_BASELINE);
            svg.text(&fee.label(), position, style);
        }
    }

    fn draw_gas(&self, svg: &mut Svg, blocks: &[Block]) {
        // The bars of more blocks are too narrow for a gap.
        let gap = if blocks.len() <= 128 { px(1) } else { 0 };
        let group_size = self.group_size();
        for (group, blocks) in blocks.chunks(group_size).enumerate() {
            let Some(ratio) = GasUsedRatios::from_blocks(blocks).average else { continue };
            let index = group * group_size;
            #[expect(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                reason = "it lies between 0 and the height of the panel"
            )]
            let height = (f64::from(GAS_BOTTOM - GAS_TOP) * ratio.clamp(0.0, 1.0)).round() as i32;
            let (left, right) =
                (self.x(2 * index) + gap / 2, self.x(2 * (index + blocks.len())) - gap / 2);
            svg.rect((left, GAS_BOTTOM - height), (right - left, height), palette::GAS_USED);
        }
    }
}

fn draw_grid_line(svg: &mut Svg, from: (i32, i32), to: (i32, i32)) {
    svg.line(&[from, to], px(1), palette::GRID);
}

/// Writes the names of the lines with their newest amounts. Returns the middle of the last row.
fn draw_legend(svg: &mut Svg, lines: &[Series], left: i32, maximum: u128) -> i32 {
    const SAMPLE_LENGTH: i32 = px(18);
    const GAP: i32 = px(6);
    const ROW_HEIGHT: i32 = px(18);
    let (mut x, mut y) = (left, px(48));
    for line in lines {
        let newest = line.amounts.last().copied().flatten();
        let newest = newest.map(|amount| format!(": {}", rounded_gwei(amount)));
        let is_clipped = line.amounts.iter().flatten().any(|amount| *amount > maximum);
        let clipped = if is_clipped { " (peaks off the scale)" } else { "" };
        let label = format!("{}{}{clipped}", line.name, newest.unwrap_or_default());
        let length = SAMPLE_LENGTH + GAP + text_width(&label, TEXT_SIZE);
        if x > left && x + length > WIDTH {
            (x, y) = (left, y + ROW_HEIGHT);
        }
        svg.line(&[(x, y), (x + SAMPLE_LENGTH, y)], LINE_WIDTH, line.colour);
        svg.text(&label, (x + SAMPLE_LENGTH + GAP, y + MIDDLE_TO_BASELINE), PLAIN);
        x += length + ROW_HEIGHT;
    }
    y
}

#[cfg(test)]
mod tests;
