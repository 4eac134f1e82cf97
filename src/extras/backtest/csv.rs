//! Parser of blocks as comma-separated values with a header line.
//!
//! It reads the columns `number`, `base_fee_per_gas_wei`, and the fullness: `gas_used` with `gas_limit`, or a column
//! whose name begins with `gas_used_ratio`. Columns `p0` to `p100` are rewards in wei at that percentile, in ascending order;
//! a block with an empty one has none. Other columns are ignored. Quoted values are not supported.

use super::recording::{RecordedBlock, Recording};
use super::recording_error::RecordingError;
use crate::fees::amount::parse_digits;

const NUMBER: &str = "number";
const BASE_FEE: &str = "base_fee_per_gas_wei";
const GAS_USED: &str = "gas_used";
const GAS_LIMIT: &str = "gas_limit";
const RATIO: &str = "gas_used_ratio";

/// Positions of the columns.
struct Columns {
    count: usize,
    number: usize,
    base_fee: usize,
    fullness: Option<FullnessColumns>,
    /// Percentiles and their positions.
    rewards: Vec<(f64, usize)>,
}

enum FullnessColumns {
    Ratio(usize),
    UsedAndLimit(usize, usize),
}

/// Parses the text of the file `name`.
pub(crate) fn parse(text: &str, name: String) -> Result<Recording, RecordingError> {
    let mut lines = text.lines().zip(1_usize..);
    let (header, _) = lines.next().unwrap_or_default();
    let columns = Columns::from_header(header)?;
    let mut blocks = Vec::new();
    let mut numbers: Option<(u64, u64)> = None;
    for (line, line_number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let cells: Vec<_> = line.split(',').map(str::trim).collect();
        if cells.len() != columns.count {
            let problem = format!("has {} values for {} columns", cells.len(), columns.count);
            return Err(RecordingError::invalid(format!("line {line_number}"), problem));
        }
        let cell = |index: usize| cells.get(index).copied().unwrap_or_default();
        let number = parse_integer(cell(columns.number), line_number, NUMBER)?;
        numbers = match numbers {
            None => Some((number, number)),
            Some((first, last)) if last.checked_add(1) == Some(number) => Some((first, number)),
            Some((_, last)) => {
                let problem = format!("block {number} does not follow block {last}");
                return Err(RecordingError::invalid(format!("line {line_number}"), problem));
            }
        };
        blocks.push(RecordedBlock {
            base_fee: parse_integer(cell(columns.base_fee), line_number, BASE_FEE)?,
            gas_used_ratio: columns.ratio(cell, line_number)?,
            rewards: columns.rewards(cell, line_number)?,
        });
    }
    let (oldest_block, _) = numbers.ok_or_else(|| RecordingError::invalid("line 2", "no block"))?;
    let percentiles = columns.rewards.iter().map(|(percentile, _)| *percentile).collect();
    Ok(Recording { name, oldest_block, percentiles, blocks })
}

impl Columns {
    fn from_header(header: &str) -> Result<Self, RecordingError> {
        let names: Vec<_> = header.split(',').map(str::trim).collect();
        let position = |name: &str| names.iter().position(|found| *found == name);
        let required = |name: &str| {
            position(name)
                .ok_or_else(|| RecordingError::invalid("line 1", format!("no column {name}")))
        };
        let ratio =
            names.iter().position(|name| name.starts_with(RATIO)).map(FullnessColumns::Ratio);
        let used = position(GAS_USED).zip(position(GAS_LIMIT));
        let used = used.map(|(used, limit)| FullnessColumns::UsedAndLimit(used, limit));
        let percentile = |(index, name): (usize, &&str)| {
            let percentile = name.strip_prefix('p')?.parse().ok()?;
            (0.0..=100.0).contains(&percentile).then_some((percentile, index))
        };
        let rewards: Vec<(f64, usize)> = names.iter().enumerate().filter_map(percentile).collect();
        if !rewards.is_sorted_by(|(one, _), (other, _)| one < other) {
            let problem = "the percentiles are not in ascending order";
            return Err(RecordingError::invalid("line 1", problem));
        }
        Ok(Self {
            count: names.len(),
            rewards,
            number: required(NUMBER)?,
            base_fee: required(BASE_FEE)?,
            fullness: ratio.or(used),
        })
    }

    fn ratio<'a>(
        &self,
        cell: impl Fn(usize) -> &'a str,
        line_number: usize,
    ) -> Result<Option<f64>, RecordingError> {
        let number = |index: usize, name: &str| match cell(index) {
            // Unknown for this block, so it has no ratio.
            "" => Ok(f64::NAN),
            text => text
                .parse::<f64>()
                .map_err(|_| unexpected_value(text, line_number, name, "a number")),
        };
        let ratio = match self.fullness {
            None => return Ok(None),
            Some(FullnessColumns::Ratio(index)) => number(index, RATIO)?,
            Some(FullnessColumns::UsedAndLimit(used, limit)) => {
                number(used, GAS_USED)? / number(limit, GAS_LIMIT)?
            }
        };
        Ok(Some(ratio).filter(|ratio| (0.0..=1.0).contains(ratio)))
    }

    fn rewards<'a>(
        &self,
        cell: impl Fn(usize) -> &'a str,
        line_number: usize,
    ) -> Result<Option<Vec<u128>>, RecordingError> {
        if self.rewards.is_empty() || self.rewards.iter().any(|(_, index)| cell(*index).is_empty())
        {
            return Ok(None);
        }
        let reward = |(percentile, index): &(f64, usize)| {
            parse_integer(cell(*index), line_number, &format!("p{percentile}"))
        };
        self.rewards.iter().map(reward).collect::<Result<_, _>>().map(Some)
    }
}

fn parse_integer<T: std::str::FromStr>(
    text: &str,
    line_number: usize,
    name: &str,
) -> Result<T, RecordingError> {
    parse_digits(text)
        .ok_or_else(|| unexpected_value(text, line_number, name, "a whole number that fits"))
}

fn unexpected_value(found: &str, line_number: usize, name: &str, expected: &str) -> RecordingError {
    const MAX_SHOWN_CHARS: usize = 40;
    let found: String = found.chars().take(MAX_SHOWN_CHARS).collect();
    let problem = format!("found {found:?}, expected {expected}");
    RecordingError::invalid(format!("line {line_number}, {name}"), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_percentiles_are_rewards() {
        let text = "number,p10,price,base_fee_per_gas_wei,p99.5\n7,1,x,3,2\n8,,x,4,5\n";
        let recording = parse(text, String::new()).unwrap();
        assert_eq!((recording.oldest_block, recording.percentiles), (7, vec![10.0, 99.5]));
        let rewards: Vec<_> = recording.blocks.into_iter().map(|block| block.rewards).collect();
        assert_eq!(rewards, [Some(vec![1, 2]), None]);
        for (text, expected) in [
            ("number,base_fee_per_gas_wei,p60,p10\n1,2,3,4\n", "not in ascending order"),
            ("number,base_fee_per_gas_wei,p10,p10\n1,2,3,4\n", "not in ascending order"),
            ("number,base_fee_per_gas_wei,p10\n1,2,-3\n", "line 2, p10: found \"-3\""),
        ] {
            let error = parse(text, String::new()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let beyond = parse("number,base_fee_per_gas_wei,p101\n1,2,3\n", String::new()).unwrap();
        assert_eq!(beyond.percentiles, Vec::<f64>::new());
    }
}
