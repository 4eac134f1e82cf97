//! Contents of a chart, read from its SVG.

use roxmltree::{Document, Node};

use super::*;
use crate::fees::{RewardPercentiles, Rewards, Tier};

const GWEI: u128 = 1_000_000_000;

fn block(base_fee: u128, medium: Option<u128>) -> Block {
    let rewards = medium.map(|medium| Rewards::new(&[medium, medium.saturating_mul(2)]));
    Block { base_fee, gas_used_ratio: Some(0.5), rewards }
}

fn block_window(newest_block: u64, blocks: Vec<Block>) -> BlockWindow {
    BlockWindow { newest_block, blocks, next_base_fee: None }
}

fn suggestion(pricing_type: PricingType, medium: u128, high: u128) -> Suggestion {
    let tier = |max| Tier { max_priority_fee_per_gas: max, max_fee_per_gas: max };
    let tiers = Tiers { low: tier(medium), medium: tier(medium), high: tier(high) };
    Suggestion { pricing_type, base_fee_per_gas: 0, tiers }
}

/// Draws a chain with these percentiles.
fn render(
    name: &str,
    percentiles: &[u32],
    window: &BlockWindow,
    suggestion: &Suggestion,
) -> String {
    let mut percentiles = percentiles.iter().copied().map(f64::from);
    let own = RewardPercentiles::new(percentiles.next().unwrap(), percentiles.next()).unwrap();
    let pricing = Pricing { reward_percentiles: Some(own), ..Pricing::default() };
    let spec =
        ChartSpec { chain_name: name, pricing: &pricing, window, suggestion, is_stale: false };
    spec.render()
}

fn texts<'a>(document: &'a Document<'_>) -> Vec<&'a str> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text()).collect()
}

fn nodes_of_colour<'a>(document: &'a Document<'a>, colour: Colour) -> Vec<Node<'a, 'a>> {
    let has = |node: &Node<'_, '_>, name| node.attribute(name) == Some(colour);
    document.descendants().filter(|node| has(node, "fill") || has(node, "stroke")).collect()
}

/// Returns the lines of this colour in the plot, without those of the legend above it.
fn series_points(document: &Document<'_>, colour: Colour) -> Vec<Vec<(i32, i32)>> {
    let points = |node: Node<'_, '_>| -> Option<Vec<(i32, i32)>> {
        let pairs = node.attribute("points")?.split_whitespace();
        let point = |pair: &str| {
            let (x, y) = pair.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        Some(pairs.map(point).collect())
    };
    let lines = nodes_of_colour(document, colour).into_iter().filter_map(points);
    lines.filter(|line| line.iter().all(|(_, y)| *y > px(60))).collect()
}

#[test]
fn series_has_one_point_per_block_at_the_height_of_its_amount() {
    let blocks = vec![block(GWEI, None), block(3 * GWEI, None), block(2 * GWEI, None)];
    let svg = render(
        "a",
        &[60],
        &block_window(12, blocks),
        &suggestion(PricingType::Eip1559, 4 * GWEI, 5 * GWEI),
    );
    let document = Document::parse(&svg).unwrap();
    let [line] = series_points(&document, palette::BASE_FEE).try_into().unwrap();
    let [first, second, third] = line.try_into().unwrap();
    // Widths and heights are rounded to quarters of a pixel.
    assert!((first.0 + third.0 - 2 * second.0).abs() <= 1, "{first:?} {second:?} {third:?}");
    // The amounts are 1, 3 and 2, and the max fee is 4.
    let is_close = |height: i32, expected: i32| (height - expected).abs() <= 3;
    let gwei = first.1 - third.1;
    assert!(gwei > 100 && is_close(first.1 - second.1, 2 * gwei), "{first:?} {second:?} {third:?}");
    let [medium] = series_points(&document, palette::MEDIUM).try_into().unwrap();
    assert!(is_close(first.1 - medium[0].1, 3 * gwei), "{medium:?}");
    assert_eq!(medium[0].1, medium[1].1);
}

#[test]
fn text_names_the_blocks_the_series_and_the_prices() {
    let blocks = vec![block(GWEI, Some(2 * GWEI)), block(3 * GWEI / 2, Some(GWEI / 2))];
    let suggested = suggestion(PricingType::Eip1559, 7_558_738_771, 7_769_386_573);
    let svg = render("Ronin", &[60, 100], &block_window(43, blocks), &suggested);
    let document = Document::parse(&svg).unwrap();
    let texts = texts(&document);
    for text in [
        "Ronin",
        "blocks 42 to 43",
        "base fee: 1.5",
        "tip at percentile 60: 0.5",
        "tip at percentile 100: 1",
        "medium 7.559",
        "high 7.769",
        "max fee now",
        "gas used",
        "42",
        "43",
        "0",
        "2",
        "8",
        "50 %",
    ] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    let by_tag = |tag: &str| document.descendants().find(|node| node.has_tag_name(tag)).unwrap();
    assert_eq!(by_tag("title").text(), Some("Ronin, blocks 42 to 43"));
    assert_eq!(
        by_tag("desc").text(),
        Some(
            "base fee: from 1 to 1.5 gwei. tip at percentile 60: from 0.5 to 2 gwei. \
             tip at percentile 100: from 1 to 4 gwei. max fee now: medium 7.559 gwei, high 7.769 gwei. \
             gas used: 50 % of the limit on average."
        )
    );
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    assert_eq!(root.attribute("aria-labelledby"), Some("title facts"));
}

#[test]
fn long_history_is_grouped_and_keeps_peaks_and_gaps() {
    let mut blocks = vec![block(2 * GWEI, Some(GWEI)); 65_536];
    blocks[30_001].base_fee = 4 * GWEI;
    blocks[40_003].base_fee = GWEI;
    blocks[50_000..50_200].iter_mut().for_each(|block| block.rewards = None);
    let suggestion = suggestion(PricingType::Eip1559, 4 * GWEI, 5 * GWEI);
    let svg = render("a", &[60], &block_window(70_000, blocks), &suggestion);
    assert!(svg.len() < 200_000, "{}", svg.len());
    let document = Document::parse(&svg).unwrap();
    let base_fee = series_points(&document, palette::BASE_FEE);
    let [line] = base_fee.as_slice() else { panic!("one line") };
    let heights: std::collections::BTreeSet<_> = line.iter().map(|(_, y)| *y).collect();
    assert_eq!(heights.len(), 3);
    assert_eq!(line.len(), 1024 + 2, "a group of equal amounts has one point");
    assert_eq!(series_points(&document, palette::FIRST_TIP).len(), 2);
}

#[test]
fn long_legend_wraps_to_another_row() {
    let blocks = vec![block(9_700_000, Some(5000 * GWEI)), block(9_800_000, Some(1))];
    let suggested = suggestion(PricingType::Eip1559, 19_400_000, 21_000_000);
    let svg = render("a", &[60, 100], &block_window(100, blocks), &suggested);
    let document = Document::parse(&svg).unwrap();
    let entries = document.descendants().filter(|node| node.has_tag_name("text"));
    let entries: Vec<_> =
        entries.filter(|node| node.text().is_some_and(|text| text.contains(": "))).collect();
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        let x: i32 = entry.attribute("x").unwrap().parse().unwrap();
        assert!(x + text_width(entry.text().unwrap(), TEXT_SIZE) <= WIDTH, "{svg}");
    }
    let rows: Vec<_> = entries.iter().map(|entry| entry.attribute("y").unwrap()).collect();
    assert!(rows[0] == rows[1] && rows[1] != rows[2], "{rows:?}");
}

#[test]
fn price_labels_do_not_overlap() {
    for (medium, high) in [(GWEI, GWEI), (1, 1), (998, 1000), (999 * GWEI, 1000 * GWEI), (0, GWEI)]
    {
        let suggested = suggestion(PricingType::Eip1559, medium, high);
        let svg = render("a", &[60], &block_window(9, vec![block(1, None); 3]), &suggested);
        let document = Document::parse(&svg).unwrap();
        let y = |beginning: &str| {
            let starts_with =
                |node: &Node<'_, '_>| node.text().is_some_and(|text| text.starts_with(beginning));
            let mut texts = document.descendants().filter(|node| node.has_tag_name("text"));
            texts.find(starts_with).unwrap().attribute("y").unwrap().parse::<i32>().unwrap()
        };
        let [above, high, medium] = ["max fee now", "high", "medium"].map(y);
        assert!(high - above >= px(12) && medium - high >= TEXT_SIZE, "{svg}");
    }
}

#[test]
fn legacy_pricing_shows_a_gas_price() {
    let suggested = suggestion(PricingType::Legacy, 20 * GWEI, 24 * GWEI);
    let svg = render("a", &[60], &block_window(9, vec![block(0, None); 3]), &suggested);
    let texts = texts(&Document::parse(&svg).unwrap()).join("\n");
    assert!(texts.contains("gas price now") && !texts.contains("max fee"), "{texts}");
}

#[test]
fn stale_chain_is_labelled() {
    let spec = ChartSpec {
        chain_name: "a",
        pricing: &Pricing::default(),
        window: &block_window(9, vec![block(0, None)]),
        suggestion: &suggestion(PricingType::Eip1559, 1, 1),
        is_stale: true,
    };
    let svg = spec.render();
    assert_eq!(svg.matches("block 9, stale").count(), 2, "{svg}");
}

#[test]
fn series_is_broken_where_a_block_has_no_rewards() {
    let rewards = [Some(1), Some(2), None, Some(3), None, Some(4), Some(5), Some(6)];
    let blocks = rewards.map(|reward| block(GWEI, reward.map(|gwei| gwei * GWEI))).to_vec();
    let suggested = suggestion(PricingType::Eip1559, 8 * GWEI, 9 * GWEI);
    let svg = render("a", &[60], &block_window(100, blocks), &suggested);
    let document = Document::parse(&svg).unwrap();
    let lengths: Vec<_> =
        series_points(&document, palette::FIRST_TIP).iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 3]);
    let dots = nodes_of_colour(&document, palette::FIRST_TIP);
    assert_eq!(dots.iter().filter(|node| node.has_tag_name("circle")).count(), 1);
}

#[test]
fn gas_bar_shows_the_ratio_and_is_absent_when_unknown() {
    let ratios = [Some(0.0), Some(0.25), None, Some(1.0)];
    let blocks =
        ratios.map(|gas_used_ratio| Block { gas_used_ratio, ..block(GWEI, None) }).to_vec();
    let suggested = suggestion(PricingType::Eip1559, GWEI, GWEI);
    let svg = render("a", &[60], &block_window(100, blocks), &suggested);
    let document = Document::parse(&svg).unwrap();
    let bars = nodes_of_colour(&document, palette::GAS_USED);
    let [none, quarter, full] = bars
        .iter()
        .filter(|node| node.has_tag_name("rect"))
        .map(|bar| bar.attribute("height").unwrap().parse::<i32>().unwrap())
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    assert_eq!(none, 0);
    assert!((full - 4 * quarter).abs() <= 2, "{quarter} {full}");
}

#[test]
fn outlier_tip_is_clipped_and_labelled() {
    let blocks = vec![block(GWEI, Some(GWEI)), block(GWEI, Some(5000 * GWEI))];
    let suggested = suggestion(PricingType::Eip1559, 3 * GWEI, 4 * GWEI);
    let svg = render("a", &[60], &block_window(100, blocks), &suggested);
    let document = Document::parse(&svg).unwrap();
    assert!(svg.contains("tip at percentile 60: 5000 (peaks off the scale)"), "{svg}");
    assert!(texts(&document).contains(&"15"), "{svg}");
    assert!(svg.contains("tip at percentile 60: from 1 to 5000 gwei."), "{svg}");
}

#[test]
fn chain_name_is_escaped() {
    let name = "<script>&amp;'\"]]>".repeat(20);
    let suggested = suggestion(PricingType::Eip1559, 1, 1);
    let svg = render(&name, &[60], &block_window(1, vec![block(1, None)]), &suggested);
    let document = Document::parse(&svg).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    assert_eq!(title.text(), Some(format!("{name}, block 1").as_str()));
    assert!(texts(&document)[0].ends_with('…'));
    assert!(!document.descendants().any(|node| node.has_tag_name("script")));
}

#[test]
fn extreme_amounts_and_block_numbers_stay_within_the_image() {
    let amounts = [0, 1, 7, GWEI, 10_u128.pow(30), u128::MAX / 2, u128::MAX];
    for newest in [0, 5, u64::MAX] {
        for highest in amounts {
            for count in [1, 2, 3, 20, 1024] {
                let count = count.min(usize::try_from(newest).unwrap_or(1024).saturating_add(1));
                let blocks = (0..count).map(|index| {
                    let part = highest / u128::try_from(index + 1).unwrap();
                    block(part, Some(highest - part))
                });
                let suggested = suggestion(PricingType::Eip1559, highest / 3, highest);
                let window = block_window(newest, blocks.collect());
                let svg = render("a", &[60, 100], &window, &suggested);
                let document = Document::parse(&svg).unwrap();
                for node in document.descendants() {
                    let pairs = node.attribute("points").unwrap_or_default().split([' ', ',']);
                    let coordinate_names = ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy"];
                    let own = coordinate_names.iter().filter_map(|name| node.attribute(*name));
                    for number in pairs.chain(own).filter(|number| !number.is_empty()) {
                        let number: i32 = number.parse().unwrap();
                        let range = 0..=WIDTH;
                        assert!(range.contains(&number), "{number} at {newest} {highest} {count}");
                    }
                }
            }
        }
    }
}

#[test]
fn axis_ticks_are_at_round_values() {
    for (highest, ticks) in [
        (0, vec![0, 1]),
        (1, vec![0, 1]),
        (5, vec![0, 1, 2, 3, 4, 5]),
        (6, vec![0, 2, 4, 6]),
        (26 * GWEI, vec![0, 5 * GWEI, 10 * GWEI, 15 * GWEI, 20 * GWEI, 25 * GWEI, 30 * GWEI]),
    ] {
        assert_eq!(AmountAxis::covering(highest).ticks().collect::<Vec<_>>(), ticks);
    }
    let block_labels = |last, count| {
        let blocks = BlockAxis::ending_at(last, count);
        blocks.ticks().map(|(_, number)| number).collect::<Vec<_>>()
    };
    assert_eq!(block_labels(0, 1), [0]);
    assert_eq!(block_labels(23_597_812, 20), [23_597_795, 23_597_800, 23_597_805, 23_597_810]);
    assert_eq!(block_labels(1_000_030, 1024), [999_200, 999_400, 999_600, 999_800, 1_000_000]);
    assert_eq!(block_labels(u64::MAX, 3).len(), 3);
}
