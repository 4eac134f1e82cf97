//! docs/pricing.md and docs/pricing-tables.md show the output of their commands.

use super::{AUGUST, run};
use crate::deployment::text;
use crate::integrations::blocks;
use crate::process::File;

const PAGE: &str = "docs/pricing.md";
const TABLES: &str = "docs/pricing-tables.md";

/// Runs a command of a page. Its paths are relative to the repository root, in which tests run.
fn run_command(command: &str) -> String {
    let arguments = command.trim().strip_prefix("gas-suggestion backtest ").unwrap();
    run(&arguments.split(' ').collect::<Vec<_>>())
}

#[test]
fn pricing_tables_match_the_output_of_their_commands() {
    let blocks = blocks(TABLES);
    let mut checked = 0;
    for (index, table) in blocks.iter().enumerate().filter(|(_, block)| block.language == "text") {
        let command = &blocks[index - 1];
        assert_eq!((&command.language, &command.heading), (&"sh".to_owned(), &table.heading));
        assert_eq!(run_command(&command.text), table.text, "{}", command.text);
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn results_on_the_pricing_page_match_its_command() {
    let blocks = blocks(PAGE);
    let command = blocks.iter().find(|block| block.language == "sh").unwrap();
    let output = run_command(&command.text);
    let rows = rows_below(PAGE, "| Estimator | Ethereum: incl. % |");
    assert_eq!(rows.len(), 8);
    for row in &rows {
        let (name, expected) = row.split_first().unwrap();
        let lines = output.lines().filter_map(|line| line.strip_prefix(name.as_str()));
        let found = lines.flat_map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            [cells[0].to_owned(), cells[10].to_owned()]
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn pricing_tables_list_every_estimator() {
    let page = text(TABLES);
    let pricing = gas_suggestion::fees::Pricing::default();
    for estimator in gas_suggestion::extras::backtest::all_estimators(&pricing).iter().skip(6) {
        let (system, _) = estimator.name.split_once(',').unwrap_or((&estimator.name, ""));
        let row = format!("| {system} |");
        assert!(page.contains(&row), "{row:?}");
    }
}

/// Returns the cells of the page's table with this heading.
fn rows_below(page: &str, heading: &str) -> Vec<Vec<String>> {
    let page = text(page);
    let (_, rows) = page.split_once(heading).unwrap();
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().into()).collect();
    rows.map(cells).collect()
}

#[test]
fn window_and_factor_scores_match_the_page() {
    let rows = rows_below(TABLES, "| `window_blocks` | `base_fee_multiplier` |");
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
        let table = run(&["--config", config.path(), AUGUST]);
        let scores = table.lines().find_map(|line| line.strip_prefix("configured, medium"));
        let found: Vec<_> = scores.unwrap().split_whitespace().collect();
        assert_eq!([&found[3], &found[4], &found[14]], [soon, later, multiple], "{row:?}");
    }
}
