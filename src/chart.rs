//! A chain's recent fees as an SVG image, pure: blocks and a suggestion in, a picture out.
//!
//! Above, in gwei per gas: the base fee and the tips of each block, and the max fees to pay now. Below, how
//! full the blocks were. Coordinates are whole numbers, in quarters of a pixel; amounts are mapped onto them
//! as wei in `u128`.

mod axes;
mod palette;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

use serde_json::Number;

use crate::book::Excerpt;
use crate::fees::{Block, GasUsedRatio, PricingType, Rewards, Suggestion};
use axes::{Blocks, Gwei, Share, about_gwei};

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
const FAMILY: &str = "system-ui, sans-serif";

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
        let mut drawn = String::new();
        {
            let root = SVGBackend::with_string(&mut drawn, size.into()).into_drawing_area();
            self.draw_on(&root)?;
            root.present()?;
        }
        let (_, content) = drawn.split_once('>').unwrap_or_default();
        Ok([self.head().as_str(), content].concat())
    }

    /// The beginning of the document, up to the first thing drawn.
    fn head(&self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title facts\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"facts\">{}</desc>\n<style>{}</style>",
            WIDTH * UNITS,
            HEIGHT * UNITS,
            escaped(&self.title()),
            escaped(&self.facts()),
            palette::style(),
        )
    }

    fn draw_on(&self, root: &Area<'_>) -> Drawn {
        const TOP: i32 = 84;
        const BETWEEN: i32 = 314;
        root.fill(&palette::GROUND)?;
        let lines = self.lines();
        let scale = Gwei::up_to(self.highest(&lines));
        let labels = scale.longest_label().max("100 %".len());
        let left = 20 + 7 * i32::try_from(labels).unwrap_or_default();
        let labels = self.max_fees().map(|fee| fee.label());
        let longest = labels.iter().map(String::len).max();
        let right = 20 + 9 * i32::try_from(longest.unwrap_or_default()).unwrap_or_default();
        let end = WIDTH - right;

        write(root, &self.heading(), (16, 14), &bold(&text(TEXT + 2, palette::TEXT)), HPos::Left)?;
        draw_legend(root, &lines, left, &scale)?;
        let unit = text(TEXT - 1, palette::MUTED);
        write(root, "gwei", (left - 10, TOP - 22), &unit, HPos::Right)?;

        let width = units(end);
        let fees = root.clone().shrink((0, units(TOP)), (width, units(BETWEEN - TOP - 14)));
        let gas = root.clone().shrink((0, units(BETWEEN)), (width, units(HEIGHT - BETWEEN - 4)));

        let mut panel = panel(&fees, left, 0, self.blocks(), scale.clone())?;
        grid(&mut panel, scale.count(), &|wei| axes::gwei(*wei), false)?;
        for line in &lines {
            draw_line(&panel, line, &scale)?;
        }
        self.draw_max_fees(root, &panel, &scale)?;

        let mut panel = self::panel(&gas, left, 26, self.blocks(), Share)?;
        grid(&mut panel, 3, &|share| format!("{:.0} %", share * 100.0), true)?;
        self.draw_gas(&panel)?;
        write(root, self.what_to_pay(), (end + 10, TOP - 22), &unit, HPos::Left)?;
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

    /// What stands above the chart.
    fn heading(&self) -> String {
        const LONGEST_NAME: usize = 40;
        let mut name: String = self.chain_name.chars().take(LONGEST_NAME).collect();
        if name.len() < self.chain_name.len() {
            name.push('…');
        }
        self.heading_of(&name)
    }

    fn title(&self) -> String {
        self.heading_of(self.chain_name)
    }

    fn heading_of(&self, name: &str) -> String {
        let blocks = self.blocks();
        let stale = if self.is_stale { ", stale" } else { "" };
        format!("{name}, blocks {} to {}{stale}", blocks.first(), blocks.last())
    }

    /// The picture in words.
    fn facts(&self) -> String {
        let lines = self.lines();
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

/// The names of the lines with their newest amounts.
fn draw_legend(root: &Area<'_>, lines: &[Line], left: i32, scale: &Gwei) -> Drawn {
    const Y: i32 = 42;
    let mut x = left;
    for line in lines {
        let (y, style) = (units(Y + 6), stroke(line.colour, 2));
        root.draw(&PathElement::new([(units(x), y), (units(x + 18), y)], style))?;
        let newest = line.amounts.last().copied().flatten();
        let newest = newest.map(|amount| format!(": {}", about_gwei(amount)));
        let is_cut = line.amounts.iter().flatten().any(|amount| *amount > scale.top());
        let cut = if is_cut { " (peaks off the scale)" } else { "" };
        let label = format!("{}{}{cut}", line.name, newest.unwrap_or_default());
        write(root, &label, (x + 24, Y), &text(TEXT, palette::TEXT), HPos::Left)?;
        x += 24 + 7 * i32::try_from(label.len()).unwrap_or_default() + 18;
    }
    Ok(())
}

fn grid<Y>(
    panel: &mut Panel<'_, '_, Y>,
    labels: usize,
    format: &dyn Fn(&Y::ValueType) -> String,
    has_numbers: bool,
) -> Drawn
where
    Y: plotters::coord::ranged1d::Ranged + plotters::coord::ranged1d::ValueFormatter<Y::ValueType>,
{
    let mut mesh = panel.configure_mesh();
    mesh.disable_x_mesh()
        .max_light_lines(0)
        .bold_line_style(stroke(palette::GRID, 1))
        .axis_style(stroke(palette::GRID, 1))
        .label_style(text(TEXT - 1, palette::MUTED))
        .set_all_tick_mark_size(units(5))
        .y_labels(labels)
        .y_label_formatter(format);
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

fn write(area: &Area<'_>, words: &str, at: (i32, i32), style: &TextStyle<'_>, side: HPos) -> Drawn {
    let style = style.pos(Pos::new(side, VPos::Top));
    area.draw_text(words, &style, (units(at.0), units(at.1)))
}

fn units(pixels: i32) -> i32 {
    pixels * UNITS
}

fn text(pixels: i32, colour: RGBColor) -> TextStyle<'static> {
    // The library divides by this.
    const OF_FONT_SIZE: f64 = 1.24;
    (FAMILY, f64::from(units(pixels)) * OF_FONT_SIZE).into_font().color(&colour)
}

/// `style` in bold.
fn bold(style: &TextStyle<'static>) -> TextStyle<'static> {
    TextStyle { font: style.font.style(FontStyle::Bold), ..style.clone() }
}

fn stroke(colour: RGBColor, pixels: i32) -> ShapeStyle {
    colour.stroke_width(u32::try_from(units(pixels)).unwrap_or_default())
}

/// `text` as it stands between the tags of a document, which some characters may not.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
