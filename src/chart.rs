//! A chain's recent fees as an SVG image. Pure: blocks and a suggestion in, a document out.
//!
//! The upper panel shows the base fee, the tips of each block and the current max fees in gwei per gas. The lower panel
//! shows how full the blocks were. Coordinates are integers in quarters of a pixel; amounts are mapped onto them as wei
//! in `u128`. plotters draws the SVG: it needs no fonts, and its axes may have values of any type.

mod axes;
pub(crate) mod palette;
mod text;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor, ShapeStyle, TRANSPARENT};

use serde_json::Number;

use crate::fees::{Block, GasUsedRatios, PricingType, Rewards, Suggestion};
use crate::store::BlockWindow;
pub(crate) use axes::rounded_gwei;
use axes::{AmountAxis, BlockAxis, RatioAxis};
use text::{bold, draw_text, text_style, text_width};
pub(crate) use text::{escape_xml, truncated};

/// Contents of a chart.
#[derive(Debug)]
pub(crate) struct ChartSpec<'a> {
    /// Display name of the chain.
    pub(crate) chain_name: &'a str,
    /// Percentiles of a block's rewards.
    pub(crate) percentiles: &'a [Number],
    /// The blocks.
    pub(crate) window: &'a BlockWindow,
    /// Current suggestion.
    pub(crate) suggestion: &'a Suggestion,
    /// True if the data is labelled as stale.
    pub(crate) is_stale: bool,
}

/// Error of the drawing library.
pub(crate) type RenderError = DrawingAreaErrorKind<std::io::Error>;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Panel<'b, 'a, Y> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<BlockAxis, Y>>;
type RenderResult = Result<(), RenderError>;

/// Drawing units per pixel.
const UNITS_PER_PIXEL: i32 = 4;
const WIDTH: i32 = 800;
const HEIGHT: i32 = 400;

/// Height of a line of text in pixels.
const TEXT_HEIGHT: i32 = 13;

/// A line with its name, its colour and its value per block.
struct Series {
    colour: RGBColor,
    name: String,
    amounts: Vec<Option<u128>>,
}

/// Max fee of a tier, in wei.
struct MaxFeeLine {
    tier: &'static str,
    wei: u128,
    colour: RGBColor,
}

impl MaxFeeLine {
    fn label(&self) -> String {
        format!("{} {}", self.tier, rounded_gwei(self.wei))
    }
}

impl ChartSpec<'_> {
    /// Renders the chart as a standalone SVG document.
    pub(crate) fn render(&self) -> Result<String, RenderError> {
        let size = [WIDTH, HEIGHT]
            .map(|length| u32::try_from(length * UNITS_PER_PIXEL).unwrap_or_default());
        let series = self.series();
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size.into()).into_drawing_area();
            self.draw_onto(&root, &series)?;
            root.present()?;
        }
        let (_, content) = svg.split_once('>').unwrap_or_default();
        Ok([self.svg_header(&series).as_str(), content].concat())
    }

    /// Returns the beginning of the document, up to the first shape.
    fn svg_header(&self, series: &[Series]) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title facts\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"facts\">{}</desc>\n<style>{}</style>",
            WIDTH * UNITS_PER_PIXEL,
            HEIGHT * UNITS_PER_PIXEL,
            escape_xml(&self.title()),
            escape_xml(&self.description(series)),
            palette::stylesheet(),
        )
    }

    fn draw_onto(&self, root: &Canvas<'_>, series: &[Series]) -> RenderResult {
        const GAS_PANEL_TOP: i32 = 314;
        root.fill(&palette::BACKGROUND)?;
        let scale = AmountAxis::covering(self.scale_maximum(series));
        let axis_label_chars = scale.longest_label_chars().max("100 %".len());
        let left = 20 + 7 * i32::try_from(axis_label_chars).unwrap_or_default();
        let fee_labels = self.max_fees().map(|fee| fee.label());
        let longest = fee_labels.iter().map(String::len).max();
        let right = 20 + 9 * i32::try_from(longest.unwrap_or_default()).unwrap_or_default();
        let right_edge = WIDTH - right;

        self.draw_heading(root)?;
        let top = draw_legend(root, series, left, &scale)? + 44;
        let unit = text_style(TEXT_HEIGHT - 1, palette::MUTED_TEXT);
        draw_text(root, "gwei", (left - 10, top - 22), &unit, HPos::Right)?;

        let plot_width = to_units(right_edge);
        let fee_area = root
            .clone()
            .shrink((0, to_units(top)), (plot_width, to_units(GAS_PANEL_TOP - top - 14)));
        let gas_area = root.clone().shrink(
            (0, to_units(GAS_PANEL_TOP)),
            (plot_width, to_units(HEIGHT - GAS_PANEL_TOP - 4)),
        );

        let mut panel = build_panel(&fee_area, left, 0, self.blocks(), scale.clone())?;
        draw_grid(&mut panel, false)?;
        for one_series in series {
            draw_series(&panel, one_series, &scale)?;
        }
        self.draw_max_fees(root, &panel, &scale)?;

        let mut panel = self::build_panel(&gas_area, left, 26, self.blocks(), RatioAxis)?;
        draw_grid(&mut panel, true)?;
        self.draw_gas(&panel)?;
        draw_text(root, self.price_label(), (right_edge + 10, top - 22), &unit, HPos::Left)?;
        draw_text(root, "gas used", (right_edge + 10, GAS_PANEL_TOP), &unit, HPos::Left)
    }

    /// Draws the current max fees, each with its label at the right.
    fn draw_max_fees(
        &self,
        root: &Canvas<'_>,
        panel: &Panel<'_, '_, AmountAxis>,
        scale: &AmountAxis,
    ) -> RenderResult {
        const SPACING: i32 = TEXT_HEIGHT + 3;
        let last_position = self.blocks().right_edge();
        let half_text = TEXT_HEIGHT / 2;
        let label_y = |wei: u128| {
            panel.backend_coord(&(last_position, wei.min(scale.maximum()))).1 / UNITS_PER_PIXEL
                - half_text
        };
        let fees = self.max_fees();
        let [medium, high] = fees.each_ref().map(|fee| label_y(fee.wei));
        // Labels must not overlap each other or what is above them.
        let high = high.min(medium - SPACING).max(label_y(u128::MAX));
        let medium = medium.max(high + SPACING);
        let right = panel.plotting_area().get_x_axis_pixel_range().end / UNITS_PER_PIXEL;
        for (fee, y) in fees.iter().zip([medium, high]) {
            let line = [0, last_position].map(|x| (x, fee.wei.min(scale.maximum())));
            panel.plotting_area().draw(&PathElement::new(line, stroke(fee.colour, 2)))?;
            let style = bold(&text_style(TEXT_HEIGHT, fee.colour));
            draw_text(root, &fee.label(), (right + 10, y), &style, HPos::Left)?;
        }
        Ok(())
    }

    fn draw_gas(&self, panel: &Panel<'_, '_, RatioAxis>) -> RenderResult {
        let blocks = &self.window.blocks;
        for (position, ratio) in blocks.iter().map(|block| block.gas_used_ratio).enumerate() {
            let Some(ratio) = ratio else { continue };
            let (left, right) = (2 * position, 2 * position + 2);
            let mut bar = Rectangle::new([(left, ratio), (right, 0.0)], palette::GAS_USED.filled());
            let gap = if blocks.len() <= 128 {
                u32::try_from(UNITS_PER_PIXEL).unwrap_or_default() / 2
            } else {
                0
            };
            bar.set_margin(0, 0, gap, gap);
            panel.plotting_area().draw(&bar)?;
        }
        Ok(())
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
        let column = |reward: fn(Rewards) -> Option<u128>| {
            move |block: &Block| block.rewards.and_then(reward)
        };
        let columns = [
            (palette::FIRST_TIP, column(|rewards| Some(rewards.medium))),
            (palette::SECOND_TIP, column(|rewards| rewards.high)),
        ];
        let tips =
            self.percentiles.iter().zip(columns).map(|(percentile, (colour, reward))| Series {
                colour,
                name: format!("tip at percentile {percentile}"),
                amounts: blocks().map(reward).collect(),
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
        let Suggestion { medium, high, .. } = self.suggestion;
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

    fn draw_heading(&self, root: &Canvas<'_>) -> RenderResult {
        const MARGIN: i32 = 16;
        const GAP: i32 = 24;
        let range = self.block_range();
        let name_size = TEXT_HEIGHT + 2;
        let space = WIDTH - 2 * MARGIN - GAP - text_width(&range, TEXT_HEIGHT);
        // Bold text is wider.
        let name = truncated(self.chain_name, name_size, space * 9 / 10);
        let style = bold(&text_style(name_size, palette::TEXT));
        draw_text(root, &name, (MARGIN, 14), &style, HPos::Left)?;
        let style = text_style(TEXT_HEIGHT, palette::TEXT);
        draw_text(root, &range, (WIDTH - MARGIN, 15), &style, HPos::Right)
    }

    fn title(&self) -> String {
        format!("{}, {}", self.chain_name, self.block_range())
    }

    /// Describes the range of blocks, and whether they are stale.
    fn block_range(&self) -> String {
        let blocks = self.blocks();
        let stale = if self.is_stale { ", stale" } else { "" };
        if blocks.first() == blocks.last() {
            return format!("block {}{stale}", blocks.last());
        }
        format!("blocks {} to {}{stale}", blocks.first(), blocks.last())
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

/// A drawing area with axes, and `bottom` pixels below it for labels.
fn build_panel<'b, 'a, Y>(
    area: &'b Canvas<'a>,
    left: i32,
    bottom: i32,
    blocks: BlockAxis,
    scale: Y,
) -> Result<Panel<'b, 'a, Y>, RenderError>
where
    Y: plotters::coord::ranged1d::Ranged,
{
    ChartBuilder::on(area)
        .set_label_area_size(LabelAreaPosition::Left, to_units(left))
        .set_label_area_size(LabelAreaPosition::Bottom, to_units(bottom))
        .build_cartesian_2d(blocks, scale)
}

/// Writes the names of the lines with their newest amounts. Returns the top of the last row in pixels.
fn draw_legend(
    root: &Canvas<'_>,
    lines: &[Series],
    left: i32,
    scale: &AmountAxis,
) -> Result<i32, RenderError> {
    const SAMPLE_LENGTH: i32 = 18;
    const GAP: i32 = 6;
    const ROW_HEIGHT: i32 = 18;
    let (mut x, mut y) = (left, 42);
    for line in lines {
        let newest = line.amounts.last().copied().flatten();
        let newest = newest.map(|amount| format!(": {}", rounded_gwei(amount)));
        let is_clipped = line.amounts.iter().flatten().any(|amount| *amount > scale.maximum());
        let clipped = if is_clipped { " (peaks off the scale)" } else { "" };
        let label = format!("{}{}{clipped}", line.name, newest.unwrap_or_default());
        let length = SAMPLE_LENGTH + GAP + text_width(&label, TEXT_HEIGHT);
        if x > left && x + length > WIDTH {
            (x, y) = (left, y + ROW_HEIGHT);
        }
        let middle = to_units(y + TEXT_HEIGHT / 2);
        let sample = [(to_units(x), middle), (to_units(x + SAMPLE_LENGTH), middle)];
        root.draw(&PathElement::new(sample, stroke(line.colour, 2)))?;
        let style = text_style(TEXT_HEIGHT, palette::TEXT);
        draw_text(root, &label, (x + SAMPLE_LENGTH + GAP, y), &style, HPos::Left)?;
        x += length + ROW_HEIGHT;
    }
    Ok(y)
}

/// Draws the axes, optionally with block numbers.
fn draw_grid<Y>(panel: &mut Panel<'_, '_, Y>, show_block_numbers: bool) -> RenderResult
where
    Y: plotters::coord::ranged1d::Ranged + plotters::coord::ranged1d::ValueFormatter<Y::ValueType>,
{
    let mut mesh = panel.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(stroke(palette::GRID, 1))
        .axis_style(stroke(palette::GRID, 1))
        .label_style(text_style(TEXT_HEIGHT - 1, palette::MUTED_TEXT))
        .set_all_tick_mark_size(to_units(5));
    if !show_block_numbers {
        mesh.disable_x_axis();
    }
    mesh.draw()
}

/// Draws a line, with a gap where a block has no value.
fn draw_series(
    panel: &Panel<'_, '_, AmountAxis>,
    series: &Series,
    scale: &AmountAxis,
) -> RenderResult {
    let top = scale.maximum();
    let point = |(position, amount): (usize, &Option<u128>)| {
        amount.map(|amount| (2 * position + 1, amount.min(top)))
    };
    let points: Vec<_> = series.amounts.iter().enumerate().map(point).collect();
    for run in points.split(Option::is_none) {
        let run: Vec<_> = run.iter().flatten().copied().collect();
        match run.as_slice() {
            [] => {}
            [single] => {
                let dot = Circle::new(*single, to_units(2), series.colour.filled());
                panel.plotting_area().draw(&dot)?;
            }
            _ => panel.plotting_area().draw(&PathElement::new(run, stroke(series.colour, 2)))?,
        }
    }
    Ok(())
}

fn to_units(pixels: i32) -> i32 {
    pixels * UNITS_PER_PIXEL
}

fn stroke(colour: RGBColor, pixels: i32) -> ShapeStyle {
    colour.stroke_width(u32::try_from(to_units(pixels)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
