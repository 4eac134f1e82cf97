//! Replays the corpora of the fuzz targets.

use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::fixtures;
use crate::targets;

/// Runs `target` on every file of its corpus and fails with the names of all that panic.
fn replay(name: &str, target: fn(&[u8])) {
    let directory = fixtures::path(&format!("fuzz/corpus/{name}"));
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no corpus");
    let mut failed = Vec::new();
    for path in paths {
        let data = std::fs::read(&path).unwrap();
        if catch_unwind(|| target(&data)).is_err() {
            failed.push(path.strip_prefix(&directory).unwrap().display().to_string());
        }
    }
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

#[test]
fn corpus_replies_are_priced_or_rejected() {
    replay("reply", targets::reply);
}

#[test]
fn corpus_envelopes_yield_their_own_result_or_none() {
    replay("envelope", targets::envelope);
}

#[test]
fn corpus_configurations_are_valid_or_rejected_without_secrets() {
    replay("config", targets::config);
}

#[test]
fn corpus_calls_are_answered_in_order() {
    replay("call", targets::call);
}

#[test]
fn corpus_requests_get_a_response_or_a_problem() {
    replay("request", targets::request);
}
