//! Colours of a chart in light and dark mode.
//!
//! The light colours are attributes of the shapes, so every viewer shows them. A style sheet overrides them with the
//! dark colours if the viewer prefers dark mode.

use plotters::style::RGBColor;

pub(crate) const BACKGROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const TEXT: RGBColor = RGBColor(0x16, 0x19, 0x1f);
pub(crate) const MUTED_TEXT: RGBColor = RGBColor(0x59, 0x60, 0x6d);
pub(crate) const GRID: RGBColor = RGBColor(0xe0, 0xe4, 0xea);
pub(crate) const BASE_FEE: RGBColor = RGBColor(0x1f, 0x5f, 0xd6);
pub(crate) const FIRST_TIP: RGBColor = RGBColor(0x14, 0x80, 0x3c);
pub(crate) const SECOND_TIP: RGBColor = RGBColor(0x7a, 0x3f, 0xc4);
pub(crate) const MEDIUM: RGBColor = RGBColor(0xa6, 0x54, 0x0a);
pub(crate) const HIGH: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
pub(crate) const GAS_USED: RGBColor = RGBColor(0x8a, 0x96, 0xaa);

const DARK_VARIANTS: [(RGBColor, RGBColor); 10] = [
    (BACKGROUND, RGBColor(0x19, 0x1d, 0x25)),
    (TEXT, RGBColor(0xe8, 0xea, 0xf0)),
    (MUTED_TEXT, RGBColor(0xa2, 0xa9, 0xb6)),
    (GRID, RGBColor(0x34, 0x3a, 0x46)),
    (BASE_FEE, RGBColor(0x83, 0xad, 0xff)),
    (FIRST_TIP, RGBColor(0x72, 0xd6, 0x9b)),
    (SECOND_TIP, RGBColor(0xc7, 0xa3, 0xff)),
    (MEDIUM, RGBColor(0xf2, 0xb3, 0x6b)),
    (HIGH, RGBColor(0xff, 0x9a, 0x92)),
    (GAS_USED, RGBColor(0x66, 0x72, 0x8a)),
];

/// Returns the style sheet of every chart.
pub(crate) fn stylesheet() -> String {
    let dark: String =
        DARK_VARIANTS.iter().map(|(light, dark)| dark_rules(*light, *dark)).collect();
    let dashed = [MEDIUM, HIGH].map(|colour| format!("[stroke=\"{}\"]", to_hex(colour))).join(",");
    format!("{dashed}{{stroke-dasharray:20 12}}@media(prefers-color-scheme:dark){{{dark}}}")
}

fn dark_rules(light: RGBColor, dark: RGBColor) -> String {
    let (light, dark) = (to_hex(light), to_hex(dark));
    format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
}

/// Formats a colour like the drawing library.
pub(crate) fn to_hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
