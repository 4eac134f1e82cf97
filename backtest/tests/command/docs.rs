//! docs/pricing.md and backtest/tables.md show the output of their commands.

use super::{AUGUST, file, run, run_json};

const PAGE: &str = include_str!("../../../docs/pricing.md");
const TABLES: &str = include_str!("../../tables.md");
const COMMAND: &str = "cargo run --manifest-path backtest/Cargo.toml -- ";

/// Returns the output of a command of a page, and the page after it.
fn run_first(page: &'static str) -> Option<(String, &'static str)> {
    let (_, rest) = page.split_once(&format!("```sh\n{COMMAND}"))?;
    let (arguments, rest) = rest.split_once("\n```\n")?;
    Some((run(&arguments.split(' ').collect::<Vec<_>>()), rest))
}

/// Returns the cells of the page's table with this heading.
fn rows_below<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, rows) = page.split_once(heading).unwrap();
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns the cells of the first line of the output that begins with this name.
fn cells<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().split_whitespace().collect()
}

#[test]
fn pricing_tables_match_the_output_of_their_commands() {
    let mut page = TABLES;
    for _ in 0..4 {
        let (output, rest) = run_first(page).unwrap();
        let (_, table) = rest.split_once("```text\n").unwrap();
        let (table, rest) = table.split_once("```\n").unwrap();
        assert_eq!(output, table);
        page = rest;
    }
    let (output, rest) = run_first(page).unwrap();
    assert!(run_first(rest).is_none());
    // Each recording has a table of shares and tips, by number of blocks and probability.
    let outputs: Vec<_> = output.split("quotes each").skip(1).collect();
    assert_eq!(outputs.len(), 3);
    for (recording, output) in
        ["Ethereum, 505", "Base, 600", "Polygon, 600"].into_iter().zip(outputs)
    {
        let (_, page) = rest.split_once(recording).unwrap();
        let rows = rows_below(page, "| Blocks | 50 %");
        assert!(rows.len() > 4 && rows.iter().all(|row| row.len() == 5), "{rows:?}");
        for row in rows {
            for (cell, probability) in row[1..].iter().zip(["0.50", "0.80", "0.95", "0.99"]) {
                let mut lines =
                    output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
                let found =
                    lines.find(|line| line.len() == 10 && line[..2] == [row[0], probability]);
                let found = found.unwrap();
                assert_eq!(*cell, format!("{} · {}", found[2], found[7]), "{recording} {}", row[0]);
            }
        }
    }
}

#[test]
fn results_on_the_pricing_page_match_its_command() {
    let (output, _) = run_first(PAGE).unwrap();
    let recordings: Vec<&str> = output.split("quotes each").skip(1).collect();
    let rows = rows_below(PAGE, "| Estimator | Ethereum: incl. % |");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let found = recordings.iter().map(|output| cells(output, row[0]));
        let found: Vec<&str> = found.flat_map(|cells| [cells[0], cells[10]]).collect();
        assert_eq!(found, row[1..], "{}", row[0]);
    }
}

#[test]
fn pricing_tables_list_every_estimator() {
    let recording = run_json(&[AUGUST]);
    for estimator in recording["estimators"].as_array().unwrap().iter().skip(6) {
        let name = estimator["name"].as_str().unwrap();
        let (system, _) = name.split_once(',').unwrap_or((name, ""));
        assert!(TABLES.contains(&format!("| {system} |")), "{system}");
    }
}

#[test]
fn window_and_factor_scores_match_the_page() {
    let rows = rows_below(TABLES, "| `window_blocks` | `base_fee_multiplier` |");
    assert_eq!(rows.len(), 7);
    for row in rows {
        let config = file(format!(
            "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.a.pricing]\n\
             window_blocks = {}\nbase_fee_multiplier = {}\nbase_fee_floor = \"0 wei\"\n",
            row[0], row[1]
        ));
        let table = run(&["--config", &config, AUGUST]);
        let found = cells(&table, "configured, medium");
        assert_eq!([found[3], found[4], found[14]], row[2..], "{row:?}");
    }
}
