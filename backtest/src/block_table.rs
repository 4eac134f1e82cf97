//! Parser of blocks as comma-separated values with a header line.
//!
//! It reads the columns `number`, `base_fee_per_gas_wei`, and the fullness: `gas_used` with `gas_limit`, or a column
//! whose name begins with `gas_used_ratio`. Columns `p0` to `p100` are rewards in wei at that percentile, in ascending order;
//! a block with an empty one has none. Other columns are ignored.

use std::str::FromStr;

use anyhow::{Context, ensure};
use csv::{ReaderBuilder, StringRecord, Trim};

use crate::recording::{RecordedBlock, Recording};

/// Parses the text of a file into a recording without a name.
pub fn parse(text: &str) -> anyhow::Result<Recording> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
    let header = reader.headers()?.clone();
    let position = |name: &str| header.iter().position(|found| found == name);
    let required = |name: &str| position(name).with_context(|| format!("line 1: no column {name}"));
    let (number, base_fee) = (required("number")?, required("base_fee_per_gas_wei")?);
    let ratio = header.iter().position(|name| name.starts_with("gas_used_ratio"));
    let used_and_limit = position("gas_used").zip(position("gas_limit"));
    let rewards = header.iter().enumerate().filter_map(|(index, name)| {
        let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
        (0.0..=100.0).contains(&percentile).then_some((percentile, index))
    });
    let (percentiles, rewards): (Vec<f64>, Vec<usize>) = rewards.unzip();
    let is_sorted = percentiles.is_sorted_by(|one, next| one < next);
    ensure!(is_sorted, "line 1: the percentiles are not in ascending order");

    let mut oldest_block = None;
    let mut blocks = Vec::new();
    for row in reader.records() {
        let row = Row { cells: row?, header: &header };
        let number: u64 = row.cell(number)?;
        let expected = *oldest_block.get_or_insert(number) + blocks.len() as u64;
        ensure!(number == expected, "{}: block {number} is not {expected}", row.line());
        let ratio = match (ratio, used_and_limit) {
            (Some(ratio), _) => row.number(ratio)?,
            (None, Some((used, limit))) => {
                row.number(used)?.zip(row.number(limit)?).map(|(used, limit)| used / limit)
            }
            (None, None) => None,
        };
        let has_rewards = !rewards.is_empty() && rewards.iter().all(|index| !row.is_empty(*index));
        let rewards = rewards.iter().filter(|_| has_rewards).map(|index| row.cell(*index));
        let rewards: Vec<u128> = rewards.collect::<anyhow::Result<_>>()?;
        blocks.push(RecordedBlock {
            base_fee: row.cell(base_fee)?,
            gas_used_ratio: ratio.filter(|ratio| (0.0..=1.0).contains(ratio)),
            rewards: has_rewards.then_some(rewards),
        });
    }
    let oldest_block = oldest_block.context("line 2: no block")?;
    Ok(Recording { name: String::new(), oldest_block, percentiles, blocks })
}

struct Row<'a> {
    cells: StringRecord,
    header: &'a StringRecord,
}

impl Row<'_> {
    fn line(&self) -> String {
        let line = self.cells.position().map_or(0, csv::Position::line);
        format!("line {line}")
    }

    fn is_empty(&self, index: usize) -> bool {
        self.cells[index].is_empty()
    }

    fn cell<T: FromStr>(&self, index: usize) -> anyhow::Result<T> {
        const MAX_SHOWN_CHARS: usize = 40;
        self.cells[index].parse().ok().with_context(|| {
            let found: String = self.cells[index].chars().take(MAX_SHOWN_CHARS).collect();
            let (line, column) = (self.line(), &self.header[index]);
            format!("{line}, {column}: {found:?} is not a number that fits")
        })
    }

    /// Returns a number; `None`: it is unknown for this block.
    fn number(&self, index: usize) -> anyhow::Result<Option<f64>> {
        if self.is_empty(index) { Ok(None) } else { self.cell(index).map(Some) }
    }
}
