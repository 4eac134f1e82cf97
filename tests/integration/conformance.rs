//! The service held against its own OpenAPI document by schemathesis: what it generates is answered as the
//! document says.
//!
//! `tests/conformance.sh` runs the same with more cases and another seed each time.

use serde_json::{Value, json};

use crate::fixtures;
use crate::openapi::world::World;
use crate::programs;

/// The same for all changes, so that what fails is the change.
const SEED: &str = "20261120";
/// For each operation in each phase that generates.
const EXAMPLES: &str = "40";
const LEAST_CASES: &str = "3000";

/// A variable of the environment, or what counts without it.
fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

#[tokio::test]
async fn whatever_is_generated_from_the_document_is_answered_as_it_says() {
    let world = World::start().await;
    let reports = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    std::fs::create_dir_all(&reports).unwrap();
    let [file, report] = ["openapi.json", "report.json"].map(|name| reports.join(name));
    let document = world.service.get("/openapi.json").await;
    std::fs::write(&file, &document.body).unwrap();
    let (seed, examples) =
        (variable("CONFORMANCE_SEED", SEED), variable("CONFORMANCE_EXAMPLES", EXAMPLES));
    let least: u64 = variable("CONFORMANCE_LEAST", LEAST_CASES).parse().unwrap();
    let mut command = programs::of_python("schemathesis");
    command.arg("--config-file").arg(fixtures::path("tests/python/schemathesis.toml"));
    // From a file: the operation that it has the document from would be left out.
    command.args(["--no-color", "run", "--url", &world.service.url("/")]).arg(&file);
    command.args(["--checks", "all", "--phases", "examples,coverage,fuzzing,stateful"]);
    command.args(["--mode", "all", "--continue-on-failure", "--generation-database", "none"]);
    // More than one worker meets a fault of CPython 3.11, whose parser counts the recursion of all threads
    // together.
    command.args(["--seed", &seed, "--max-examples", &examples]);
    command.args(["--report", "json", "--report-json-path"]).arg(&report);
    command.env("SCHEMATHESIS_HOOKS", "formats").env("PYTHONPATH", fixtures::path("tests/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(std::env::temp_dir());
    println!("{}", programs::success(command).await);
    let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    // A run that was cut short, or left something out, ends well too.
    let document = document.json();
    let paths = document["paths"].as_object().unwrap();
    let count: usize = paths.values().map(|item| item.as_object().unwrap().len()).sum();
    let operations = ["total", "selected", "tested"].map(|what| &report["operations"][what]);
    assert_eq!(operations, [&json!(count); 3]);
    for phase in ["examples", "coverage", "fuzzing", "stateful"] {
        assert_eq!(report["phases"][phase]["status"], "success", "{phase}");
    }
    let cases = report["test_cases"]["generated"].as_u64().unwrap();
    assert!(cases >= least, "{cases} cases are fewer than {least}");
    println!("{cases} cases of {count} operations, each answered as the document says");
}
