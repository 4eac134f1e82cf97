//! Notes for reading a table: missing data.

use super::estimators::Estimator;
use super::measures::{Evaluator, FULL_GAS_USED_RATIO, REALISED_PERCENTILE, Score};

/// Notes on these scores.
pub(crate) fn for_report(
    evaluator: &Evaluator<'_>,
    estimators: &[Estimator],
    landing_percentile: f64,
    scores: &[Score],
) -> Vec<String> {
    let (recording, heads) = (evaluator.recording(), evaluator.count_heads());
    let mut notes = Vec::new();
    if !evaluator.shows_next_base_fee() {
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
    if evaluator.is_short() {
        for estimator in
            estimators.iter().filter(|estimator| estimator.min_window < estimator.window)
        {
            notes.push(format!(
                "{}: quotes from fewer than {} blocks at first, because the recording is short.",
                estimator.name, estimator.window
            ));
        }
    }
    let judged = [(landing_percentile, "required tips"), (REALISED_PERCENTILE, "realised tips")];
    let judged = judged.map(|(percentile, name)| (name.to_owned(), vec![percentile]));
    let quoted =
        estimators.iter().map(|estimator| (estimator.name.clone(), estimator.percentiles.clone()));
    for (name, percentiles) in judged.into_iter().chain(quoted) {
        for wanted in percentiles {
            if recording.reward_column(wanted).is_none() {
                notes
                    .push(format!("{name}: unknown, because percentile {wanted} is not recorded."));
            }
        }
    }
    let without = recording.blocks.iter().filter(|block| block.rewards.is_none()).count();
    if without > 0 {
        notes.push(format!(
            "{without} blocks have no rewards and are excluded from the tip measures."
        ));
    }
    for score in scores.iter().filter(|score| score.quotes > 0) {
        let missing = heads.saturating_sub(usize::try_from(score.quotes).unwrap_or(heads));
        if missing > 0 {
            notes.push(format!("{}: no quote at {missing} of {heads} blocks.", score.name));
        }
    }
    if recording.percentiles.first().is_some_and(|lowest| *lowest <= 0.0) {
        notes.push(
            "geth: its oracle samples the three lowest tips of each block; here the lowest one replaces all three."
                .into(),
        );
    }
    notes
}
