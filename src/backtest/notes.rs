//! Notes for reading a table: missing data and substitutions.

use super::estimators::Estimator;
use super::measures::{REALISED_PERCENTILE, Score};
use super::recording::{Recording, nearest_percentile};

/// Notes on these scores.
pub(super) fn for_report(
    recording: &Recording,
    estimators: &[Estimator],
    landing_percentile: f64,
    heads: usize,
    scores: &[Score],
) -> Vec<String> {
    if !recording.has_tips() {
        return vec![
            "No tips are recorded: max fees are computed and scored without them; all other measures are empty.".into(),
        ];
    }
    let mut notes = vec![format!(
        "A tip lands when it is not below the reward at percentile {landing_percentile} of the block."
    )];
    let recorded = &recording.percentiles;
    let judged = [(landing_percentile, "what landed"), (REALISED_PERCENTILE, "realised tips")];
    let judged = judged.map(|(percentile, name)| (name.to_owned(), vec![percentile]));
    let quoted =
        estimators.iter().map(|estimator| (estimator.name.clone(), estimator.percentiles.clone()));
    for (name, percentiles) in judged.into_iter().chain(quoted) {
        for wanted in percentiles {
            match nearest_percentile(recorded, wanted) {
                None => notes
                    .push(format!("{name}: unknown, because percentile {wanted} is not recorded.")),
                Some((_, found)) if (found - wanted).abs() > 0.0 => notes.push(format!(
                    "{name}: uses percentile {found} instead of {wanted}, which is not recorded."
                )),
                Some(_) => {}
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
    if recorded.first().is_some_and(|lowest| *lowest <= 0.0) {
        notes.push(
            "geth: its oracle samples the three lowest tips of each block; here the lowest one replaces all three."
                .into(),
        );
    }
    notes
}
