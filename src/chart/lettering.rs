//! Text on a chart, as far as its room can be known: the font is the viewer's.

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, RGBColor, TextStyle};

use super::{Area, Drawn, units};

const FAMILY: &str = "system-ui, sans-serif";

/// Writes `words` with their upper edge, and this side of them, `at` these pixels.
pub(super) fn write(
    area: &Area<'_>,
    words: &str,
    at: (i32, i32),
    style: &TextStyle<'_>,
    side: HPos,
) -> Drawn {
    let style = style.pos(Pos::new(side, VPos::Top));
    area.draw_text(words, &style, (units(at.0), units(at.1)))
}

/// Of this height.
pub(super) fn text(pixels: i32, colour: RGBColor) -> TextStyle<'static> {
    // The library divides by this.
    const OF_FONT_SIZE: f64 = 1.24;
    (FAMILY, f64::from(units(pixels)) * OF_FONT_SIZE).into_font().color(&colour)
}

/// `style` in bold.
pub(super) fn bold(style: &TextStyle<'static>) -> TextStyle<'static> {
    TextStyle { font: style.font.style(FontStyle::Bold), ..style.clone() }
}

/// How many pixels `words` of this height take in most fonts.
pub(super) fn width(words: &str, pixels: i32) -> i32 {
    words.chars().map(|character| width_of(character, pixels)).sum()
}

fn width_of(character: char, pixels: i32) -> i32 {
    let is_narrow = character.is_ascii() && !character.is_ascii_uppercase();
    if is_narrow { pixels * 11 / 20 + 1 } else { pixels }
}

/// As much of `words` as has room.
pub(crate) fn fitted(words: &str, pixels: i32, room: i32) -> String {
    if width(words, pixels) <= room {
        return words.into();
    }
    let mut left = room - pixels;
    let fits = |character: &char| {
        left -= width_of(*character, pixels);
        left >= 0
    };
    words.chars().take_while(fits).chain(['…']).collect()
}

/// `text` as it stands between the tags of a document, which some characters may not.
pub(crate) fn escaped(text: &str) -> String {
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
