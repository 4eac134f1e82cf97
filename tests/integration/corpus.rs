//! The inputs that the fuzzers kept: what must hold for any bytes holds for them.

use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::fixtures;
use crate::targets;

/// Runs `target` on every file of its corpus, whatever the others come to, and fails with the names
/// of those that break a rule.
fn replay(name: &str, target: fn(&[u8])) {
    let directory = fixtures::path(&format!("fuzz/corpus/{name}"));
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no corpus");
    let mut broken = Vec::new();
    for path in paths {
        let data = std::fs::read(&path).unwrap();
        if catch_unwind(|| target(&data)).is_err() {
            broken.push(path.strip_prefix(&directory).unwrap().display().to_string());
        }
    }
    assert!(broken.is_empty(), "{name}: {broken:?}");
}

#[test]
fn a_kept_reply_is_priced_by_the_rules_or_refused() {
    replay("reply", targets::reply);
}

#[test]
fn a_kept_envelope_gives_its_own_result_or_none() {
    replay("envelope", targets::envelope);
}

#[test]
fn a_kept_configuration_is_within_its_bounds_or_refused_without_its_secrets() {
    replay("config", targets::config);
}

#[test]
fn a_kept_call_gets_its_answer_in_its_place() {
    replay("call", targets::call);
}

#[test]
fn a_kept_request_gets_its_answer_or_a_problem() {
    replay("request", targets::request);
}
