//! Scores of all estimators on one recording, as a table and as JSON.

use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use gas_suggestion::fees::Wei;
use gas_suggestion::fees::gwei::rounded_gwei;
use indicatif::HumanCount;
use serde::Serialize;

use crate::estimators::Estimator;
use crate::horizon::{self, HorizonScore};
use crate::measures::{
    Evaluator, FULL_GAS_USED_RATIO, HORIZON_BLOCKS, REALISED_PERCENTILE, SOON_BLOCKS, Score,
};
use crate::recording::Recording;

/// Scores of all estimators on one recording. JSON has amounts as decimal strings in wei, shares from 0 to 1, and unknown
/// values as null.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    name: &'a str,
    oldest_block: u64,
    newest_block: u64,
    /// Number of heads at which estimators quoted.
    pub quotes: usize,
    pub has_tips: bool,
    seconds_of_5_blocks: Option<f64>,
    seconds_of_25_blocks: Option<f64>,
    /// Notes for reading the scores.
    pub notes: Vec<String>,
    pub estimators: Vec<Score>,
    /// Grades of the fees for horizons and probabilities; `None`: they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Vec<HorizonScore>>,
}

/// Serialises all reports as one document.
pub fn document(reports: &[Report<'_>], landing_percentile: f64) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        landing_percentile: f64,
        recordings: &'a [Report<'a>],
    }
    serde_json::to_string_pretty(&Document { landing_percentile, recordings: reports })
}

impl<'a> Report<'a> {
    /// Replays the recording, and grades the fees for horizons and probabilities at the same heads if `with_horizon` is
    /// set. Calls `advance` once per estimator.
    ///
    /// # Errors
    ///
    /// Fails if the recording is too short.
    pub fn new(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
        block_time: Option<Duration>,
        with_horizon: bool,
        advance: impl Fn(),
    ) -> anyhow::Result<Self> {
        let evaluator = Evaluator::new(recording, estimators, landing_percentile)?;
        let score = |estimator: &Estimator| {
            advance();
            evaluator.score(estimator)
        };
        let scores: Vec<Score> = estimators.iter().map(score).collect();
        let seconds = |blocks: usize| Some(block_time?.as_secs_f64() * blocks as f64);
        Ok(Self {
            name: &recording.name,
            oldest_block: recording.oldest_block,
            newest_block: recording.oldest_block + recording.blocks.len() as u64 - 1,
            quotes: evaluator.heads.clone().count(),
            has_tips: recording.has_tips(),
            seconds_of_5_blocks: seconds(SOON_BLOCKS),
            seconds_of_25_blocks: seconds(HORIZON_BLOCKS),
            notes: notes(&evaluator, estimators, landing_percentile, &scores),
            estimators: scores,
            horizon: with_horizon.then(|| horizon::scores(&evaluator)),
        })
    }

    /// Describes the replayed blocks.
    pub fn title(&self) -> String {
        let Self { name, oldest_block, newest_block, quotes, .. } = self;
        let count = newest_block - oldest_block + 1;
        format!("{name}: blocks {oldest_block} to {newest_block} ({count}), {quotes} quotes each")
    }

    /// Formats the report as a table with notes and a verdict.
    pub fn text(&self) -> String {
        let mut parts = vec![self.title(), self.table()];
        parts.extend(self.horizon.as_deref().map(horizon_table));
        let legend = "Amounts in gwei. – means unknown or not computable.";
        parts.push([&[legend.into()], self.notes.as_slice()].concat().join("\n"));
        let verdict = ["medium", "high"].into_iter().filter_map(|tier| self.verdict(tier));
        parts.push(verdict.collect::<Vec<_>>().join("\n"));
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    fn table(&self) -> String {
        let time = |seconds: Option<f64>| {
            let time = seconds.map(Duration::from_secs_f64);
            time.map_or(String::new(), |time| format!(" ({time:?})"))
        };
        let (soon, later) = (time(self.seconds_of_5_blocks), time(self.seconds_of_25_blocks));
        let columns: [Column<'_, Score>; 16] = [
            ("\nestimator", |score| score.name.clone()),
            ("next\nincl. %", |score| percent(score.included_next)),
            (&format!("in 5{soon}\nincl. %"), |score| percent(score.included_within_5)),
            ("full\nhit %", |score| percent(score.full_blocks_hit)),
            (&format!("base fee\n+5{soon} %"), |score| percent(score.covers_after_5)),
            (&format!("base fee\n+25{later} %"), |score| percent(score.covers_after_25)),
            ("tip gap\np50", |score| gwei(score.tip_gap_p50)),
            ("tip gap\np99", |score| gwei(score.tip_gap_p99)),
            ("tip ≥\np50 %", |score| percent(score.tip_covered)),
            ("overpaid\np50", |score| gwei(score.overpaid_p50)),
            ("overpaid\np95", |score| gwei(score.overpaid_p95)),
            ("overpaid\nmean", |score| gwei(score.overpaid_mean)),
            ("price /\nfair p50", |score| multiple(score.price_over_fair_p50)),
            ("price /\nfair p95", |score| multiple(score.price_over_fair_p95)),
            ("pinball\nloss", |score| gwei(score.pinball_loss)),
            ("max fee /\nbase fee", |score| multiple(score.max_fee_over_base_fee_p50)),
        ];
        table(&columns, &self.estimators)
    }

    /// Compares a tier of the configured pricing with the same tier of the network rule without floors, in a sentence.
    fn verdict(&self, tier: &str) -> Option<String> {
        let score = |pricing: &str| {
            let name = format!("{pricing}, {tier}");
            self.estimators.iter().find(|score| score.name == name)
        };
        let configured = score("configured")?;
        let Some(included) = configured.included_next else {
            let covered = configured.covers_after_25? * 100.0;
            return Some(format!(
                "Verdict: configured {tier} covers the base fee after 25 blocks in {covered:.1} % of all cases."
            ));
        };
        let next = format!(
            "Verdict: configured {tier} gets into the next block in {:.1} % of all cases",
            included * 100.0
        );
        let Some(overpaid) = configured.overpaid_p50 else { return Some(format!("{next}.")) };
        let market = score("network rule without floors").and_then(|score| score.overpaid_p50);
        let compared = market.and_then(|market| comparison(overpaid, market));
        let compared = compared
            .map_or(String::new(), |text| format!(", {text} the network rule without floors"));
        Some(format!("{next} and overpays {} gwei (median){compared}.", rounded_gwei(overpaid.0)))
    }
}

fn horizon_table(scores: &[HorizonScore]) -> String {
    let columns: [Column<'_, HorizonScore>; 10] = [
        ("within", |score| score.within.to_string()),
        ("probability", |score| format!("{:.2}", score.probability)),
        ("kept %", |score| percent(Some(score.kept))),
        ("upper %", |score| percent(Some(score.upper))),
        ("", |score| (if score.passes { "pass" } else { "MISS" }).into()),
        ("quotes", |score| score.quotes.to_string()),
        ("independent", |score| format!("{:.0}", score.independent)),
        ("tip mean", |score| gwei(score.tip_mean)),
        ("overpaid mean", |score| gwei(score.overpaid_mean)),
        ("max fee / base fee", |score| multiple(score.max_fee_over_base_fee_p50)),
    ];
    table(&columns, scores)
}

/// Heading of a column, and the text of its cells.
type Column<'a, T> = (&'a str, fn(&T) -> String);

/// Aligns the first column to the left, the others to the right.
fn table<T>(columns: &[Column<'_, T>], rows: &[T]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.add_row(columns.iter().map(|(heading, _)| *heading));
    table.add_rows(rows.iter().map(|row| columns.iter().map(|(_, text)| text(row))));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
        column.set_cell_alignment(if index == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    table.trim_fmt()
}

/// Formats a value; `None`: it is unknown.
fn known<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or("–".into(), format)
}

fn percent(share: Option<f64>) -> String {
    known(share, |share| format!("{:.2}", share * 100.0))
}

fn gwei(amount: Option<Wei>) -> String {
    known(amount, |Wei(amount)| rounded_gwei(amount))
}

fn multiple(ratio: Option<f64>) -> String {
    known(ratio, |ratio| format!("{ratio:.3}"))
}

/// Returns how much more `overpaid` is than `market`, rounded; `None` if the latter is 0.
fn comparison(Wei(overpaid): Wei, Wei(market): Wei) -> Option<String> {
    let tenths = overpaid.checked_mul(10)?.checked_add(market / 2)?.checked_div(market)?;
    Some(match tenths {
        10 => "as much as".into(),
        100.. => format!("{} times as much as", HumanCount(u64::try_from(tenths / 10).ok()?)),
        _ => format!("{}.{} times as much as", tenths / 10, tenths % 10),
    })
}

/// Notes for reading the scores: missing data.
fn notes(
    evaluator: &Evaluator<'_>,
    estimators: &[Estimator],
    landing_percentile: f64,
    scores: &[Score],
) -> Vec<String> {
    let (recording, heads) = (evaluator.recording, evaluator.heads.clone().count());
    let mut notes = Vec::new();
    if !evaluator.shows_next_base_fee {
        notes.push(
            "Base fees do not follow from the blocks before them: estimators that use the next base fee get the newest one."
                .into(),
        );
    }
    if !recording.has_tips() {
        notes.push(
            "No tips are recorded: max fees are computed and scored without them; all other measures are empty.".into(),
        );
        return notes;
    }
    notes.push(format!(
        "A block requires its reward at percentile {landing_percentile} as tip; without one it is not judged. Of the judged \
         next blocks, {} are at least {:.0} % full.",
        evaluator.count_full_blocks(),
        FULL_GAS_USED_RATIO * 100.0
    ));
    let shortened =
        estimators.iter().filter(|one| evaluator.is_short && one.min_window < one.window);
    notes.extend(shortened.map(|Estimator { name, window, .. }| {
        format!("{name}: quotes from fewer than {window} blocks at first, because the recording is short.")
    }));
    let judged = [("required tips", landing_percentile), ("realised tips", REALISED_PERCENTILE)];
    let quoted = estimators.iter().flat_map(|estimator| {
        estimator.percentiles.iter().map(|percentile| (estimator.name.as_str(), *percentile))
    });
    let wanted = judged.into_iter().chain(quoted);
    let missing = wanted.filter(|(_, percentile)| recording.reward_column(*percentile).is_none());
    notes.extend(missing.map(|(name, percentile)| {
        format!("{name}: unknown, because percentile {percentile} is not recorded.")
    }));
    let without = recording.blocks.iter().filter(|block| block.rewards.is_none()).count();
    if without > 0 {
        notes.push(format!(
            "{without} blocks have no rewards and are excluded from the tip measures."
        ));
    }
    let partial = scores.iter().filter(|score| (1..heads).contains(&score.quotes));
    notes.extend(partial.map(|score| {
        format!("{}: no quote at {} of {heads} blocks.", score.name, heads - score.quotes)
    }));
    if recording.percentiles[0] <= 0.0 {
        notes.push(
            "geth: its oracle samples the three lowest tips of each block; here the lowest one replaces all three."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overpayment_is_compared_in_tenths_or_whole_multiples() {
        let compared = |overpaid, market| comparison(Wei(overpaid), Wei(market)).unwrap();
        assert_eq!(compared(7, 7), "as much as");
        assert_eq!(compared(5, 10), "0.5 times as much as");
        assert_eq!(compared(99, 10), "9.9 times as much as");
        assert_eq!(compared(20_000_000_000, 1_300_000), "15,384 times as much as");
        assert_eq!(comparison(Wei(5), Wei(0)), None);
    }
}
