//! A price as a small badge: a label on the left, the value on the right.

/// Colours with enough contrast to white text, on light and dark pages.
const LABEL_COLOUR: &str = "#555555";
const VALUE_COLOUR: &str = "#1F5FD6";
const GREY: &str = "#59606D";

const HEIGHT: u32 = 20;
/// Pixels on both sides of a text.
const PADDING: u32 = 6;
const FONT_SIZE: u32 = 11;

/// Contents of a badge.
#[derive(Debug)]
pub(crate) struct Badge<'a> {
    /// Text of the left part. Empty: there is no left part.
    pub(crate) label: &'a str,
    /// The right part.
    pub(crate) value: BadgeValue,
}

/// Contents of the right part of a badge.
#[derive(Debug)]
pub(crate) enum BadgeValue {
    /// A price.
    Fresh(String),
    /// A price that is labelled as stale.
    Stale(String),
    /// No price.
    None,
}

impl Badge<'_> {
    /// Renders the badge as a standalone SVG document.
    pub(crate) fn render(&self) -> String {
        let (value, note, colour) = match &self.value {
            BadgeValue::Fresh(price) => (price.as_str(), "", VALUE_COLOUR),
            BadgeValue::Stale(price) => (price.as_str(), ", stale", GREY),
            BadgeValue::None => ("no data", "", GREY),
        };
        let [label_text, value_text] = [self.label, value].map(text_width);
        let label_width = if self.label.is_empty() { 0 } else { label_text + 2 * PADDING };
        let value_width = value_text + 2 * PADDING;
        let width = label_width + value_width;
        let separator = if self.label.is_empty() { "" } else { ": " };
        let title = format!("{}{separator}{value}{note}", self.label);
        let text = |content: &str, left: u32, length: u32| {
            if content.is_empty() {
                return String::new();
            }
            let content = escape_xml(content);
            // The length holds whatever font the viewer has.
            format!(
                "<text x=\"{}\" y=\"14\" textLength=\"{length}\">{content}</text>\n",
                left + PADDING
            )
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" aria-labelledby=\"title\" fill=\"#FFFFFF\" \
             font-family=\"Verdana, DejaVu Sans, sans-serif\" font-size=\"{FONT_SIZE}\">\n\
             <title id=\"title\">{}</title>\n\
             <clipPath id=\"corners\"><rect width=\"{width}\" height=\"{HEIGHT}\" rx=\"3\"/></clipPath>\n\
             <g clip-path=\"url(#corners)\">\
             <rect width=\"{label_width}\" height=\"{HEIGHT}\" fill=\"{LABEL_COLOUR}\"/>\
             <rect x=\"{label_width}\" width=\"{value_width}\" height=\"{HEIGHT}\" fill=\"{colour}\"/></g>\n\
             {}{}</svg>\n",
            escape_xml(&title),
            text(self.label, 0, label_text),
            text(value, label_width, value_text),
        )
    }
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Widths of the ASCII characters from the space on in Verdana, in thousandths of the font size.
const CHARACTER_WIDTHS: [u16; 95] = [
    352, 394, 459, 818, 636, 1076, 727, 269, 454, 454, 636, 818, 364, 454, 364,
    454, // space to /
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 454, 454, 818, 818, 818, 545, // 0 to ?
    1000, 684, 686, 698, 771, 632, 575, 775, 751, 421, 455, 693, 557, 843, 748, 787, // @ to O
    603, 787, 695, 684, 616, 732, 684, 989, 685, 615, 685, 454, 454, 454, 818, 636, // P to _
    636, 601, 623, 521, 623, 596, 352, 623, 633, 274, 344, 592, 274, 973, 633, 607, // ` to o
    623, 623, 427, 521, 394, 633, 592, 818, 592, 592, 525, 635, 454, 635, 818, // p to ~
];

/// Returns the width of a text in pixels, rounded up. A character that is not ASCII counts as a square.
fn text_width(text: &str) -> u32 {
    let width = |character: char| {
        let index = u32::from(character).checked_sub(u32::from(' '));
        let index = index.and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| CHARACTER_WIDTHS.get(index)).map_or(1000, |width| u32::from(*width))
    };
    let thousandths: u32 = text.chars().map(width).sum();
    (thousandths * FONT_SIZE).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(label: &str, value: &str, is_stale: bool) -> String {
        let value = value.to_owned();
        let value = if is_stale { BadgeValue::Stale(value) } else { BadgeValue::Fresh(value) };
        Badge { label, value }.render()
    }

    /// A text with its left and right end.
    type Text = (String, u32, u32);

    /// Returns the texts and the filled areas of a badge, each with its left and right end.
    fn parts(svg: &str) -> (Vec<Text>, Vec<(u32, u32)>) {
        let document = roxmltree::Document::parse(svg).unwrap();
        let number = |node: roxmltree::Node<'_, '_>, name: &str| -> u32 {
            node.attribute(name).unwrap_or("0").parse().unwrap()
        };
        let nodes =
            |name: &'static str| document.descendants().filter(move |node| node.has_tag_name(name));
        let texts = nodes("text").map(|node| {
            let left = number(node, "x");
            (node.text().unwrap().to_owned(), left, left + number(node, "textLength"))
        });
        let areas = nodes("rect").filter(|node| node.has_attribute("fill"));
        let areas =
            areas.map(|node| (number(node, "x"), number(node, "x") + number(node, "width")));
        (texts.collect(), areas.collect())
    }

    #[test]
    fn a_badge_has_the_label_and_the_value() {
        let svg = render("gas", "3.41 gwei", false);
        let (texts, areas) = parts(&svg);
        // "gas" takes 623 + 601 + 521 thousandths of 11 pixels.
        assert_eq!(texts[0], ("gas".to_owned(), 6, 26));
        assert_eq!(texts[1], ("3.41 gwei".to_owned(), 38, 38 + 55));
        assert_eq!(areas, [(0, 32), (32, 99)]);
        assert!(svg.contains("width=\"99\" height=\"20\" viewBox=\"0 0 99 20\""), "{svg}");
        assert!(
            svg.contains("<title id=\"title\">gas: 3.41 gwei</title>")
                && svg.contains(VALUE_COLOUR)
        );
        let stale = render("gas", "3.41 gwei", true);
        assert!(stale.contains("3.41 gwei, stale</title>") && !stale.contains(VALUE_COLOUR));
        let (texts, areas) = parts(&render("", "1 wei", false));
        assert_eq!((texts.len(), areas[0]), (1, (0, 0)));
    }

    proptest! {
        #[test]
        fn texts_lie_within_their_areas(label in "\\PC{0,40}", value in "[0-9.]{1,9} gwei") {
            let svg = render(&label, &value, false);
            let (texts, areas) = parts(&svg);
            let shown: Vec<_> = [label, value].into_iter().filter(|text| !text.is_empty()).collect();
            prop_assert_eq!(texts.iter().map(|(text, ..)| text.clone()).collect::<Vec<_>>(), shown);
            let areas = areas.iter().filter(|(left, right)| left < right);
            for ((_, left, right), (start, end)) in texts.iter().zip(areas) {
                prop_assert!(left - start == PADDING && end - right == PADDING);
            }
        }
    }
}
