//! A chain's recent fees as an SVG image, pure: blocks and a suggestion in, a picture out.
//!
//! Above, in gwei per gas: the base fee and the tips of each block, and the max fees to pay now. Below, how
//! full the blocks were. Coordinates are whole numbers, in quarters of a pixel; amounts are mapped onto them
//! as wei in `u128`.

mod axes;
mod lettering;
pub(crate) mod palette;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor, ShapeStyle, TRANSPARENT};

use serde_json::Number;

use crate::book::Excerpt;
use crate::fees::{Block, GasUsedRatio, PricingType, Rewards, Suggestion};
pub(crate) use axes::about_gwei;
use axes::{Blocks, Gwei, Share};
use lettering::{bold, text, width, write};
pub(crate) use lettering::{escaped, fitted};

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    /// As people know the chain.
    pub(crate) chain_name: &'a str,
    /// Of the rewards of a block.
    pub(crate) percentiles: &'a [Number],
    /// The blocks.
    pub(crate) excerpt: &'a Excerpt,
    /// What to pay now.
    pub(crate) suggestion: &'a Suggestion,
    /// Whether the data is labelled as stale.
    pub(crate) is_stale: bool,
}

/// The library could not draw.
pub(crate) type Failure = DrawingAreaErrorKind<std::io::Error>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Panel<'b, 'a, Y> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<Blocks, Y>>;
type Drawn = Result<(), Failure>;

/// Of a pixel.
const UNITS: i32 = 4;
const WIDTH: i32 = 800;
const HEIGHT: i32 = 400;

/// The height of a line of text, in pixels.
const TEXT: i32 = 13;

/// A line of one colour with its name and what there is of it per block.
struct Line {
    colour: RGBColor,
    name: String,
    amounts: Vec<Option<u128>>,
}

/// What to pay in a tier, in wei.
struct MaxFee {
    tier: &'static str,
    wei: u128,
    colour: RGBColor,
}

impl MaxFee {
    fn label(&self) -> String {
        format!("{} {}", self.tier, about_gwei(self.wei))
    }
}

impl Picture<'_> {
    /// The picture as an SVG document of its own.
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let size = [WIDTH, HEIGHT].map(|length| u32::try_from(length * UNITS).unwrap_or_default());
        let lines = self.lines();
        let mut drawn = String::new();
        {
            let root = SVGBackend::with_string(&mut drawn, size.into()).into_drawing_area();
            self.draw_on(&root, &lines)?;
            root.present()?;
        }
        let (_, content) = drawn.split_once('>').unwrap_or_default();
        Ok([self.head(&lines).as_str(), content].concat())
    }

    /// The beginning of the document, up to the first thing drawn.
    fn head(&self, lines: &[Line]) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title facts\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"facts\">{}</desc>\n<style>{}</style>",
            WIDTH * UNITS,
            HEIGHT * UNITS,
            escaped(&self.title()),
            escaped(&self.facts(lines)),
            palette::style(),
        )
    }

    fn draw_on(&self, root: &Area<'_>, lines: &[Line]) -> Drawn {
        const BETWEEN: i32 = 314;
        root.fill(&palette::GROUND)?;
        let scale = Gwei::up_to(self.highest(lines));
        let labels = scale.longest_label().max("100 %".len());
        let left = 20 + 7 * i32::try_from(labels).unwrap_or_default();
        let labels = self.max_fees().map(|fee| fee.label());
        let longest = labels.iter().map(String::len).max();
        let right = 20 + 9 * i32::try_from(longest.unwrap_or_default()).unwrap_or_default();
        let end = WIDTH - right;

        self.draw_heading(root)?;
        let top = draw_legend(root, lines, left, &scale)? + 44;
        let unit = text(TEXT - 1, palette::MUTED);
        write(root, "gwei", (left - 10, top - 22), &unit, HPos::Right)?;

        let across = units(end);
        let fees = root.clone().shrink((0, units(top)), (across, units(BETWEEN - top - 14)));
        let gas = root.clone().shrink((0, units(BETWEEN)), (across, units(HEIGHT - BETWEEN - 4)));

        let mut panel = panel(&fees, left, 0, self.blocks(), scale.clone())?;
        grid(&mut panel, false)?;
        for line in lines {
            draw_line(&panel, line, &scale)?;
        }
        self.draw_max_fees(root, &panel, &scale)?;

        let mut panel = self::panel(&gas, left, 26, self.blocks(), Share)?;
        grid(&mut panel, true)?;
        self.draw_gas(&panel)?;
        write(root, self.what_to_pay(), (end + 10, top - 22), &unit, HPos::Left)?;
        write(root, "gas used", (end + 10, BETWEEN), &unit, HPos::Left)
    }

    /// What to pay now, each with its label at the right.
    fn draw_max_fees(&self, root: &Area<'_>, panel: &Panel<'_, '_, Gwei>, scale: &Gwei) -> Drawn {
        const SPACING: i32 = TEXT + 3;
        let end = self.blocks().end();
        let half = TEXT / 2;
        let height = |wei: u128| panel.backend_coord(&(end, wei.min(scale.top()))).1 / UNITS - half;
        let fees = self.max_fees();
        let [medium, high] = fees.each_ref().map(|fee| height(fee.wei));
        // Two labels must not stand upon each other, nor upon what is above them.
        let high = high.min(medium - SPACING).max(height(u128::MAX));
        let medium = medium.max(high + SPACING);
        let right = panel.plotting_area().get_x_axis_pixel_range().end / UNITS;
        for (fee, y) in fees.iter().zip([medium, high]) {
            let line = [0, end].map(|x| (x, fee.wei.min(scale.top())));
            panel.plotting_area().draw(&PathElement::new(line, stroke(fee.colour, 2)))?;
            let style = bold(&text(TEXT, fee.colour));
            write(root, &fee.label(), (right + 10, y), &style, HPos::Left)?;
        }
        Ok(())
    }

    fn draw_gas(&self, panel: &Panel<'_, '_, Share>) -> Drawn {
        let blocks = &self.excerpt.blocks;
        for (position, ratio) in blocks.iter().map(|block| block.gas_used_ratio).enumerate() {
            let Some(ratio) = ratio else { continue };
            let (left, right) = (2 * position, 2 * position + 2);
            let mut bar = Rectangle::new([(left, ratio), (right, 0.0)], palette::GAS.filled());
            let gap =
                if blocks.len() <= 128 { u32::try_from(UNITS).unwrap_or_default() / 2 } else { 0 };
            bar.set_margin(0, 0, gap, gap);
            panel.plotting_area().draw(&bar)?;
        }
        Ok(())
    }

    fn blocks(&self) -> Blocks {
        Blocks::ending_at(self.excerpt.newest_block, self.excerpt.blocks.len())
    }

    fn lines(&self) -> Vec<Line> {
        let blocks = || self.excerpt.blocks.iter();
        let base_fee = Line {
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
            self.percentiles.iter().zip(columns).map(|(percentile, (colour, reward))| Line {
                colour,
                name: format!("tip at percentile {percentile}"),
                amounts: blocks().map(reward).collect(),
            });
        std::iter::once(base_fee).chain(tips).collect()
    }

    /// How high the scale goes: all base fees and max fees are on it, and tips as far as they leave the
    /// others readable.
    fn highest(&self, lines: &[Line]) -> u128 {
        const ROOM_FOR_TIPS: u128 = 3;
        let highest = |line: &Line| line.amounts.iter().flatten().copied().max();
        let max_fees = self.max_fees().into_iter().map(|fee| fee.wei);
        let base_fees = lines.first().and_then(highest);
        let needed = max_fees.chain(base_fees).max().unwrap_or_default();
        let tips = lines.iter().filter_map(highest).max().unwrap_or_default();
        let most = if needed == 0 { u128::MAX } else { needed.saturating_mul(ROOM_FOR_TIPS) };
        needed.max(tips.min(most))
    }

    /// What to pay now, the lower tier first.
    fn max_fees(&self) -> [MaxFee; 2] {
        let Suggestion { medium, high, .. } = self.suggestion;
        [
            MaxFee { tier: "medium", wei: medium.max_fee_per_gas, colour: palette::MEDIUM },
            MaxFee { tier: "high", wei: high.max_fee_per_gas, colour: palette::HIGH },
        ]
    }

    fn what_to_pay(&self) -> &'static str {
        match self.suggestion.pricing_type {
            PricingType::Eip1559 => "max fee now",
            PricingType::Legacy => "gas price now",
        }
    }

    fn draw_heading(&self, root: &Area<'_>) -> Drawn {
        const MARGIN: i32 = 16;
        const GAP: i32 = 24;
        let range = self.range();
        let name_size = TEXT + 2;
        let space = WIDTH - 2 * MARGIN - GAP - width(&range, TEXT);
        // Bold is wider.
        let name = fitted(self.chain_name, name_size, space * 9 / 10);
        let style = bold(&text(name_size, palette::TEXT));
        write(root, &name, (MARGIN, 14), &style, HPos::Left)?;
        let style = text(TEXT, palette::TEXT);
        write(root, &range, (WIDTH - MARGIN, 15), &style, HPos::Right)
    }

    fn title(&self) -> String {
        format!("{}, {}", self.chain_name, self.range())
    }

    /// Which blocks there are, and whether they are stale.
    fn range(&self) -> String {
        let blocks = self.blocks();
        let stale = if self.is_stale { ", stale" } else { "" };
        if blocks.first() == blocks.last() {
            return format!("block {}{stale}", blocks.last());
        }
        format!("blocks {} to {}{stale}", blocks.first(), blocks.last())
    }

    /// The picture in words.
    fn facts(&self, lines: &[Line]) -> String {
        let ranges = lines.iter().filter_map(|line| {
            let known = || line.amounts.iter().flatten();
            let (least, most) = known().min().zip(known().max())?;
            let (least, most) = (about_gwei(*least), about_gwei(*most));
            Some(format!("{}: from {least} to {most} gwei.", line.name))
        });
        let [medium, high] = self.max_fees().map(|fee| fee.label());
        let to_pay = format!("{}: {medium} gwei, {high} gwei.", self.what_to_pay());
        let gas = GasUsedRatio::of(&self.excerpt.blocks)
            .average
            .map(|average| format!("gas used: {:.0} % of the limit on average.", average * 100.0));
        ranges.chain([to_pay]).chain(gas).collect::<Vec<_>>().join(" ")
    }
}

/// A drawing area with axes, and `bottom` pixels below it for labels.
fn panel<'b, 'a, Y>(
    area: &'b Area<'a>,
    left: i32,
    bottom: i32,
    blocks: Blocks,
    scale: Y,
) -> Result<Panel<'b, 'a, Y>, Failure>
where
    Y: plotters::coord::ranged1d::Ranged,
{
    ChartBuilder::on(area)
        .set_label_area_size(LabelAreaPosition::Left, units(left))
        .set_label_area_size(LabelAreaPosition::Bottom, units(bottom))
        .build_cartesian_2d(blocks, scale)
}

/// Writes the names of the lines with their newest amounts, and gives where the last row of them begins.
fn draw_legend(root: &Area<'_>, lines: &[Line], left: i32, scale: &Gwei) -> Result<i32, Failure> {
    const STROKE: i32 = 18;
    const GAP: i32 = 6;
    const ROW: i32 = 18;
    let (mut x, mut y) = (left, 42);
    for line in lines {
        let newest = line.amounts.last().copied().flatten();
        let newest = newest.map(|amount| format!(": {}", about_gwei(amount)));
        let is_cut = line.amounts.iter().flatten().any(|amount| *amount > scale.top());
        let cut = if is_cut { " (peaks off the scale)" } else { "" };
        let label = format!("{}{}{cut}", line.name, newest.unwrap_or_default());
        let length = STROKE + GAP + width(&label, TEXT);
        if x > left && x + length > WIDTH {
            (x, y) = (left, y + ROW);
        }
        let middle = units(y + TEXT / 2);
        let sample = [(units(x), middle), (units(x + STROKE), middle)];
        root.draw(&PathElement::new(sample, stroke(line.colour, 2)))?;
        let style = text(TEXT, palette::TEXT);
        write(root, &label, (x + STROKE + GAP, y), &style, HPos::Left)?;
        x += length + ROW;
    }
    Ok(y)
}

/// Draws the axes, with block numbers or without.
fn grid<Y>(panel: &mut Panel<'_, '_, Y>, has_numbers: bool) -> Drawn
where
    Y: plotters::coord::ranged1d::Ranged + plotters::coord::ranged1d::ValueFormatter<Y::ValueType>,
{
    let mut mesh = panel.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(stroke(palette::GRID, 1))
        .axis_style(stroke(palette::GRID, 1))
        .label_style(text(TEXT - 1, palette::MUTED))
        .set_all_tick_mark_size(units(5));
    if !has_numbers {
        mesh.disable_x_axis();
    }
    mesh.draw()
}

/// Draws what there is of the line: where a block has none, it is broken.
fn draw_line(panel: &Panel<'_, '_, Gwei>, line: &Line, scale: &Gwei) -> Drawn {
    let top = scale.top();
    let point = |(position, amount): (usize, &Option<u128>)| {
        amount.map(|amount| (2 * position + 1, amount.min(top)))
    };
    let points: Vec<_> = line.amounts.iter().enumerate().map(point).collect();
    for run in points.split(Option::is_none) {
        let run: Vec<_> = run.iter().flatten().copied().collect();
        match run.as_slice() {
            [] => {}
            [alone] => {
                let dot = Circle::new(*alone, units(2), line.colour.filled());
                panel.plotting_area().draw(&dot)?;
            }
            _ => panel.plotting_area().draw(&PathElement::new(run, stroke(line.colour, 2)))?,
        }
    }
    Ok(())
}

fn units(pixels: i32) -> i32 {
    pixels * UNITS
}

fn stroke(colour: RGBColor, pixels: i32) -> ShapeStyle {
    colour.stroke_width(u32::try_from(units(pixels)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
