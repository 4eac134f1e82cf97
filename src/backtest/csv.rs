//! Base fees as comma-separated values with a line of names.
//!
//! Read are `number`, `base_fee_per_gas_wei`, and how full the blocks were: `gas_used` with `gas_limit`, or a column
//! whose name begins with `gas_used_ratio`. Other columns may be there. Values in quotes are not read.

use super::recording::{Block, Recording};
use super::unusable::Unusable;

const NUMBER: &str = "number";
const BASE_FEE: &str = "base_fee_per_gas_wei";
const GAS_USED: &str = "gas_used";
const GAS_LIMIT: &str = "gas_limit";
const RATIO: &str = "gas_used_ratio";

/// Where the columns are.
struct Columns {
    count: usize,
    number: usize,
    base_fee: usize,
    fullness: Option<Fullness>,
}

enum Fullness {
    Ratio(usize),
    UsedAndLimit(usize, usize),
}

/// Reads the text of the file `name`.
pub(super) fn read(text: &str, name: String) -> Result<Recording, Unusable> {
    let mut lines = text.lines().zip(1_usize..);
    let (header, _) = lines.next().unwrap_or_default();
    let columns = Columns::of(header)?;
    let mut blocks = Vec::new();
    let mut numbers: Option<(u64, u64)> = None;
    for (line, place) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let cells: Vec<_> = line.split(',').map(str::trim).collect();
        if cells.len() != columns.count {
            let problem = format!("has {} values for {} columns", cells.len(), columns.count);
            return Err(Unusable::at(format!("line {place}"), problem));
        }
        let cell = |index: usize| cells.get(index).copied().unwrap_or_default();
        let number = whole(cell(columns.number), place, NUMBER)?;
        numbers = match numbers {
            None => Some((number, number)),
            Some((first, last)) if last.checked_add(1) == Some(number) => Some((first, number)),
            Some((_, last)) => {
                let problem = format!("block {number} does not follow block {last}");
                return Err(Unusable::at(format!("line {place}"), problem));
            }
        };
        blocks.push(Block {
            base_fee: whole(cell(columns.base_fee), place, BASE_FEE)?,
            gas_used_ratio: columns.ratio(cell, place)?,
            rewards: None,
        });
    }
    let (oldest_block, _) = numbers.ok_or_else(|| Unusable::at("line 2", "no block"))?;
    Ok(Recording { name, oldest_block, percentiles: Vec::new(), blocks })
}

impl Columns {
    fn of(header: &str) -> Result<Self, Unusable> {
        let names: Vec<_> = header.split(',').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|found| *found == name);
        let needed = |name: &str| {
            place(name).ok_or_else(|| Unusable::at("line 1", format!("no column {name}")))
        };
        let ratio = names.iter().position(|name| name.starts_with(RATIO)).map(Fullness::Ratio);
        let used = place(GAS_USED).zip(place(GAS_LIMIT));
        let used = used.map(|(used, limit)| Fullness::UsedAndLimit(used, limit));
        Ok(Self {
            count: names.len(),
            number: needed(NUMBER)?,
            base_fee: needed(BASE_FEE)?,
            fullness: ratio.or(used),
        })
    }

    fn ratio<'a>(
        &self,
        cell: impl Fn(usize) -> &'a str,
        place: usize,
    ) -> Result<Option<f64>, Unusable> {
        let number = |index: usize, name: &str| match cell(index) {
            // Not known of this block, which no ratio comes of.
            "" => Ok(f64::NAN),
            text => text.parse::<f64>().map_err(|_| unexpected(text, place, name, "a number")),
        };
        let ratio = match self.fullness {
            None => return Ok(None),
            Some(Fullness::Ratio(index)) => number(index, RATIO)?,
            Some(Fullness::UsedAndLimit(used, limit)) => {
                number(used, GAS_USED)? / number(limit, GAS_LIMIT)?
            }
        };
        Ok(Some(ratio).filter(|ratio| (0.0..=1.0).contains(ratio)))
    }
}

fn whole<T: std::str::FromStr>(text: &str, place: usize, name: &str) -> Result<T, Unusable> {
    // `parse` would take a sign.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_number { text.parse().ok() } else { None };
    parsed.ok_or_else(|| unexpected(text, place, name, "a whole number that fits"))
}

fn unexpected(found: &str, place: usize, name: &str, expected: &str) -> Unusable {
    const SHOWN: usize = 40;
    let found: String = found.chars().take(SHOWN).collect();
    let problem = format!("found {found:?}, expected {expected}");
    Unusable::at(format!("line {place}, {name}"), problem)
}
