//! Text on a chart. Its width is estimated, because the viewer chooses the font.

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, RGBColor, TextStyle};

use super::{Canvas, RenderResult, to_units};

const FONT_FAMILY: &str = "system-ui, sans-serif";

/// Draws `text` with its upper edge at this position, aligned to this side.
pub(super) fn draw_text(
    area: &Canvas<'_>,
    text: &str,
    position: (i32, i32),
    style: &TextStyle<'_>,
    side: HPos,
) -> RenderResult {
    let style = style.pos(Pos::new(side, VPos::Top));
    area.draw_text(text, &style, (to_units(position.0), to_units(position.1)))
}

/// Style of text with this height in pixels.
pub(super) fn text_style(pixels: i32, colour: RGBColor) -> TextStyle<'static> {
    // The library divides by this.
    const FONT_SIZE_FACTOR: f64 = 1.24;
    (FONT_FAMILY, f64::from(to_units(pixels)) * FONT_SIZE_FACTOR).into_font().color(&colour)
}

/// `style` in bold.
pub(super) fn bold(style: &TextStyle<'static>) -> TextStyle<'static> {
    TextStyle { font: style.font.style(FontStyle::Bold), ..style.clone() }
}

/// Estimates the width of `text` in pixels for most fonts.
pub(super) fn text_width(text: &str, pixels: i32) -> i32 {
    text.chars().map(|character| char_width(character, pixels)).sum()
}

fn char_width(character: char, pixels: i32) -> i32 {
    let is_narrow = character.is_ascii() && !character.is_ascii_uppercase();
    if is_narrow { pixels * 11 / 20 + 1 } else { pixels }
}

/// Returns as much of `text` as fits.
pub(crate) fn truncated(text: &str, pixels: i32, max_width: i32) -> String {
    if text_width(text, pixels) <= max_width {
        return text.into();
    }
    let mut remaining = max_width - pixels;
    let fits = |character: &char| {
        remaining -= char_width(*character, pixels);
        remaining >= 0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Escapes characters that XML text must not contain.
pub(crate) fn escape_xml(text: &str) -> String {
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
