//! What docs/pricing.md shows is what its commands print.

use super::{AUGUST, printed};
use crate::command::File;
use crate::integrations::blocks;

const PAGE: &str = "docs/pricing.md";

#[test]
fn each_table_of_the_page_is_what_the_command_above_it_prints() {
    let blocks = blocks(PAGE);
    let mut checked = 0;
    for (index, table) in blocks.iter().enumerate().filter(|(_, block)| block.language == "text") {
        let command = &blocks[index - 1];
        assert_eq!((&command.language, &command.heading), (&"sh".to_owned(), &table.heading));
        let arguments = command.text.trim().strip_prefix("gas-suggestion backtest ").unwrap();
        let arguments: Vec<_> = arguments.split(' ').collect();
        // Tests run in the folder that the page's paths are below.
        assert_eq!(printed(&arguments), table.text, "{}", command.text);
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn every_estimator_is_on_the_page() {
    let page = String::from_utf8(crate::fixtures::read(PAGE)).unwrap();
    let pricing = gas_suggestion::config::Pricing::default();
    for estimator in gas_suggestion::backtest::all(&pricing).iter().skip(4) {
        let (system, _) = estimator.name.split_once(',').unwrap_or((&estimator.name, ""));
        let row = format!("| {system} |");
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn what_other_windows_and_factors_come_to_is_as_the_page_says() {
    let page = String::from_utf8(crate::fixtures::read(PAGE)).unwrap();
    let (_, rows) = page.split_once("| `window_blocks` | `base_fee_multiplier` |").unwrap();
    let rows: Vec<_> = rows.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 7);
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [window, factor, soon, later, multiple] = cells[..] else { panic!("{row}") };
        let config = File::new(
            "factors",
            &format!(
                "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.a.pricing]\n\
                 window_blocks = {window}\nbase_fee_multiplier = {factor}\n\
                 base_fee_floor = \"0 wei\"\n"
            ),
        );
        let table = printed(&["--config", config.path(), AUGUST]);
        let configured = table.lines().find(|line| line.starts_with("configured, medium"));
        let found: Vec<_> = configured.unwrap().split_whitespace().collect();
        assert_eq!([found[4], found[5], found[11]], [soon, later, multiple], "{row}");
    }
}
