//! The fewest faults that break a promise, as a story.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::process;
use crate::world::Outcome;

/// Removes faults as long as the first broken promise stays broken.
pub fn shrink(plan: Plan, outcome: Outcome) -> (Plan, Outcome) {
    let promise = outcome.violations[0].promise.clone();
    let (mut plan, mut outcome) = (plan, outcome);
    let mut index = 0;
    while index < plan.faults.len() {
        let mut faults = plan.faults.clone();
        faults.remove(index);
        let fewer = plan.with(faults);
        let tried = process::run(&fewer, false);
        if tried.violations.iter().any(|violation| violation.promise == promise) {
            (plan, outcome) = (fewer, tried);
        } else {
            index += 1;
        }
    }
    let outcome = if outcome.lines.is_empty() { process::run(&plan, true) } else { outcome };
    (plan, outcome)
}

/// Returns what a person needs to understand the first violation.
pub fn tell(plan: &Plan, outcome: &Outcome) -> String {
    let mut story = String::new();
    let Some(violation) = outcome.violations.first() else {
        let _ = writeln!(story, "seed {}: no promise is broken", plan.seed);
        return story;
    };
    let _ = writeln!(story, "\nseed {}: {} is not kept", plan.seed, violation.promise);
    let redis = if plan.has_redis { "share polls through Redis" } else { "poll for themselves" };
    let file = if plan.keeps_history { ", with a history file" } else { "" };
    let _ = writeln!(story, "  {} replicas {redis}{file}", plan.replicas);
    for (index, chain) in plan.chains.iter().enumerate() {
        let _ = writeln!(
            story,
            "  chain {index}: a block in {:?}, {} nodes, agreement {}",
            chain.block_time, chain.nodes, chain.agreement
        );
    }
    for fault in &plan.faults {
        let _ = writeln!(story, "  {fault}");
    }
    for violation in outcome.violations.iter().take(3) {
        let at = violation.at.as_secs_f64();
        let _ = writeln!(story, "  {at:8.2} s  BROKEN: {}: {}", violation.promise, violation.text);
    }
    let before = |line: &&String| {
        let seconds = line.split_whitespace().next().and_then(|it| it.parse::<f64>().ok());
        seconds.is_some_and(|at| at <= violation.at.as_secs_f64() + 0.001)
    };
    let lines: Vec<_> = outcome.lines.iter().filter(before).collect();
    let _ = writeln!(story, "  The last things before:");
    for line in &lines[lines.len().saturating_sub(12)..] {
        let _ = writeln!(story, "  {line}");
    }
    story
}
