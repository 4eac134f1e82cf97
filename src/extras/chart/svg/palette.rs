//! Colours of a chart in light and dark mode.
//!
//! The light colours are attributes of the shapes, so every viewer shows them. A style sheet overrides them with the
//! dark colours if the viewer prefers dark mode.

/// A colour in the notation of CSS.
pub(crate) type Colour = &'static str;

pub(crate) const BACKGROUND: Colour = "#FFFFFF";
pub(crate) const TEXT: Colour = "#16191F";
pub(crate) const MUTED_TEXT: Colour = "#59606D";
pub(crate) const GRID: Colour = "#E0E4EA";
pub(crate) const BASE_FEE: Colour = "#1F5FD6";
pub(crate) const FIRST_TIP: Colour = "#14803C";
pub(crate) const SECOND_TIP: Colour = "#7A3FC4";
pub(crate) const MEDIUM: Colour = "#A6540A";
pub(crate) const HIGH: Colour = "#B3261E";
pub(crate) const GAS_USED: Colour = "#8A96AA";

const DARK_VARIANTS: [(Colour, Colour); 10] = [
    (BACKGROUND, "#191D25"),
    (TEXT, "#E8EAF0"),
    (MUTED_TEXT, "#A2A9B6"),
    (GRID, "#343A46"),
    (BASE_FEE, "#83ADFF"),
    (FIRST_TIP, "#72D69B"),
    (SECOND_TIP, "#C7A3FF"),
    (MEDIUM, "#F2B36B"),
    (HIGH, "#FF9A92"),
    (GAS_USED, "#66728A"),
];

/// Returns the style sheet of every chart.
pub(crate) fn stylesheet() -> String {
    let dark_rules = |(light, dark)| {
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    let dark: String = DARK_VARIANTS.map(dark_rules).concat();
    format!(
        "[stroke=\"{MEDIUM}\"],[stroke=\"{HIGH}\"]{{stroke-dasharray:20 12}}\
         @media(prefers-color-scheme:dark){{{dark}}}"
    )
}
