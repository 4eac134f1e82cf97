//! docs/pricing.md shows the output of its commands.

use super::{AUGUST, run};
use crate::integrations::blocks;
use crate::process::File;

const PAGE: &str = "docs/pricing.md";

#[test]
fn pricing_page_tables_match_the_output_of_their_commands() {
    let blocks = blocks(PAGE);
    let mut checked = 0;
    for (index, table) in blocks.iter().enumerate().filter(|(_, block)| block.language == "text") {
        let command = &blocks[index - 1];
        assert_eq!((&command.language, &command.heading), (&"sh".to_owned(), &table.heading));
        let arguments = command.text.trim().strip_prefix("gas-suggestion backtest ").unwrap();
        let arguments: Vec<_> = arguments.split(' ').collect();
        // Paths on the page are relative to the repository root, in which tests run.
        assert_eq!(run(&arguments), table.text, "{}", command.text);
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn pricing_page_lists_every_estimator() {
    let page = String::from_utf8(crate::fixtures::read(PAGE)).unwrap();
    let pricing = gas_suggestion::fees::Pricing::default();
    for estimator in gas_suggestion::backtest::all_estimators(&pricing).iter().skip(6) {
        let (system, _) = estimator.name.split_once(',').unwrap_or((&estimator.name, ""));
        let row = format!("| {system} |");
        assert!(page.contains(&row), "{row:?}");
    }
}

/// Returns the cells of the page's table with this heading.
fn rows_below(heading: &str) -> Vec<Vec<String>> {
    let page = String::from_utf8(crate::fixtures::read(PAGE)).unwrap();
    let (_, rows) = page.split_once(heading).unwrap();
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().into()).collect();
    rows.map(cells).collect()
}

/// Returns the cells after the name in the row `name` of the table that `arguments` print.
fn scores_row(arguments: &[&str], name: &str) -> Vec<String> {
    let table = run(arguments);
    let row = table.lines().find_map(|line| line.strip_prefix(name));
    let row = row.unwrap_or_else(|| panic!("no {name} in {table}"));
    row.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn adaptive_scores_match_the_page_and_halve_overpayment() {
    let rows = rows_below("| Recording | `--landing-percentile` |");
    assert_eq!(rows.len(), 9);
    for row in &rows {
        let cells: Vec<_> = row.iter().map(String::as_str).collect();
        let [recording, landing, included, also_included, paid, also_paid] = cells[..] else {
            panic!("{row:?}")
        };
        let file = match recording {
            "Ethereum" => "src/demo/recordings/ethereum.json.gz",
            "Base" => "src/demo/recordings/base.json.gz",
            _ => "tests/fixtures/recordings/polygon.json.gz",
        };
        let arguments = ["--landing-percentile", landing, file];
        let network = scores_row(&arguments, "network rule without floors, medium");
        let adaptive = scores_row(&arguments, "adaptive without floors, medium");
        assert_eq!(
            [&network[0], &adaptive[0], &network[7], &adaptive[7]],
            [included, also_included, paid, also_paid]
        );
        if landing == "0" {
            let number = |text: &String| text.parse::<f64>().unwrap();
            // Inclusion in the next block, and coverage of the base fee after 25.
            assert!(number(&adaptive[0]) >= number(&network[0]), "{row:?}");
            assert!(number(&adaptive[3]) >= number(&network[3]), "{row:?}");
            assert!(number(&adaptive[7]) <= number(&network[7]) / 2.0, "{row:?}");
        }
    }
}

#[test]
fn window_and_factor_scores_match_the_page() {
    let rows = rows_below("| `window_blocks` | `base_fee_multiplier` |");
    assert_eq!(rows.len(), 7);
    for row in &rows {
        let [window, factor, soon, later, multiple] = row.as_slice() else { panic!("{row:?}") };
        let config = File::new(
            "factors",
            &format!(
                "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.a.pricing]\n\
                 window_blocks = {window}\nbase_fee_multiplier = {factor}\n\
                 base_fee_floor = \"0 wei\"\n"
            ),
        );
        let found = scores_row(&["--config", config.path(), AUGUST], "configured, medium");
        assert_eq!([&found[2], &found[3], &found[9]], [soon, later, multiple], "{row:?}");
    }
}
