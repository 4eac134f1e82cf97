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
fn every_target_takes_every_input_of_its_corpus() {
    replay("reply", targets::reply);
    replay("envelope", targets::envelope);
    replay("config", targets::config);
    replay("call", targets::call);
    replay("request", targets::request);
}
