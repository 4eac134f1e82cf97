//! Writer of an SVG document. The caller chooses the unit of coordinates and lengths.

pub(crate) mod palette;

use std::fmt::{Arguments, Write};

use palette::Colour;

/// An SVG document that is being written.
#[derive(Debug)]
pub(crate) struct Svg(String);

/// Look of a text. Its position is the baseline's end that `anchor` names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextStyle {
    pub(crate) size: i32,
    pub(crate) colour: Colour,
    /// `start`, `middle` or `end`.
    pub(crate) anchor: &'static str,
    /// `normal` or `bold`.
    pub(crate) weight: &'static str,
}

impl Svg {
    /// Begins a document with a background. `title` and `description` are for screen readers.
    pub(crate) fn new(
        (width, height): (i32, i32),
        units_per_pixel: i32,
        title: &str,
        description: &str,
    ) -> Self {
        let mut svg = Self(String::new());
        svg.write(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title facts\" \
             font-family=\"system-ui, sans-serif\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"facts\">{}</desc>\n<style>{}</style>",
            width / units_per_pixel,
            height / units_per_pixel,
            escape_xml(title),
            escape_xml(description),
            palette::stylesheet(),
        ));
        svg.rect((0, 0), (width, height), palette::BACKGROUND);
        svg
    }

    /// Writes a filled rectangle.
    pub(crate) fn rect(&mut self, (x, y): (i32, i32), (width, height): (i32, i32), colour: Colour) {
        self.write(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
        ));
    }

    /// Writes a line through `points`.
    pub(crate) fn line(&mut self, points: &[(i32, i32)], width: i32, colour: Colour) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.write(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            points.join(" ")
        ));
    }

    /// Writes a filled circle.
    pub(crate) fn dot(&mut self, (x, y): (i32, i32), radius: i32, colour: Colour) {
        self.write(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>"
        ));
    }

    /// Writes one line of text.
    pub(crate) fn text(&mut self, content: &str, (x, y): (i32, i32), style: TextStyle) {
        let TextStyle { size, colour, anchor, weight } = style;
        self.write(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             font-weight=\"{weight}\" fill=\"{colour}\">{}</text>",
            escape_xml(content)
        ));
    }

    /// Returns the complete document.
    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    fn write(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// Estimates the width of `text` for most fonts. The viewer chooses the font.
pub(crate) fn text_width(text: &str, size: i32) -> i32 {
    text.chars().map(|character| char_width(character, size)).sum()
}

fn char_width(character: char, size: i32) -> i32 {
    let is_narrow = character.is_ascii() && !character.is_ascii_uppercase();
    if is_narrow { size * 3 / 5 } else { size }
}

/// Returns as much of `text` as fits.
pub(crate) fn truncated(text: &str, size: i32, max_width: i32) -> String {
    if text_width(text, size) <= max_width {
        return text.into();
    }
    let mut remaining = max_width - size;
    let fits = |character: &char| {
        remaining -= char_width(*character, size);
        remaining >= 0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

pub(crate) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Maps `value` from 0 to `max` onto the range `start` to `end`.
pub(crate) fn interpolate((start, end): (i32, i32), value: u128, max: u128) -> i32 {
    // With 64 bits the product cannot overflow, and no chart needs more precision.
    let surplus = (u128::BITS - max.leading_zeros()).saturating_sub(64);
    let (value, most) = (value.min(max) >> surplus, (max >> surplus).max(1));
    let length = u128::from(start.abs_diff(end));
    let offset = i32::try_from(value * length / most).unwrap_or(i32::MAX);
    if start <= end { start.saturating_add(offset) } else { start.saturating_sub(offset) }
}
