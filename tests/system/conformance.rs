//! Checks the service against its own OpenAPI document with generated requests of schemathesis.
//!
//! `tests/conformance.sh` runs it with more cases and a new seed each time.

use serde_json::{Value, json};

use crate::fixtures;
use crate::openapi::harness::Harness;
use crate::programs::{self, variable_or};

/// Fixed, so that a failure comes from a change of the code.
const SEED: &str = "20261120";
/// Largest number of generated cases per operation and phase.
const EXAMPLES: &str = "12";
const MIN_CASES: &str = "2000";

#[tokio::test]
async fn responses_conform_to_the_openapi_document() {
    let harness = Harness::start().await;
    let reports = programs::kept_folder("conformance");
    let [file, report] = ["openapi.json", "report.json"].map(|name| reports.join(name));
    let mut document = harness.service.get("/openapi.json").await.json();
    // The document is the same for all configurations. Most generated names of chains would be unknown ones.
    let parameters = &mut document["components"]["parameters"];
    for (parameter, values) in [
        ("path.chain", json!(["ronin", "2020"])),
        ("path.chain_id", json!(["2020"])),
        ("query.chainid", json!(["2020"])),
        ("query.chainId", json!([2020])),
        ("query.period", json!(["1h", "24h", "7d"])),
    ] {
        parameters[parameter]["schema"]["enum"] = values;
    }
    parameters["query.blocks"]["schema"]["maximum"] = json!(1024);
    std::fs::write(&file, document.to_string()).unwrap();
    let (seed, examples) =
        (variable_or("CONFORMANCE_SEED", SEED), variable_or("CONFORMANCE_EXAMPLES", EXAMPLES));
    let min_cases: u64 = variable_or("CONFORMANCE_MIN_CASES", MIN_CASES).parse().unwrap();
    let mut command = programs::python_tool("schemathesis");
    command.arg("--config-file").arg(fixtures::path("tests/python/schemathesis.toml"));
    // From a file, because schemathesis leaves out the operation that it loads the document from.
    command.args(["--no-color", "run", "--url", &harness.service.url("/")]).arg(&file);
    command.args(["--checks", "all", "--phases", "examples,coverage,fuzzing,stateful"]);
    // The verification service decides which methods the paths of its second version have, so both are forwarded. The
    // integration tests compare `Allow` of all other paths.
    command.args(["--exclude-checks", "allow_header_conformance"]);
    command.args(["--mode", "all", "--continue-on-failure", "--generation-database", "none"]);
    // One worker only: the parser of CPython 3.11 counts the recursion of all threads together.
    command.args(["--seed", &seed, "--max-examples", &examples]);
    command.args(["--report", "json", "--report-json-path"]).arg(&report);
    command.env("SCHEMATHESIS_HOOKS", "formats").env("PYTHONPATH", fixtures::path("tests/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(std::env::temp_dir());
    println!("{}", programs::expect_success(command).await);
    let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    // A run that stopped early or skipped operations succeeds too, so check its report.
    let paths = document["paths"].as_object().unwrap();
    let count: usize = paths.values().map(|item| item.as_object().unwrap().len()).sum();
    let operations = ["total", "selected", "tested"].map(|what| &report["operations"][what]);
    assert_eq!(operations, [&json!(count); 3]);
    for phase in ["examples", "coverage", "fuzzing", "stateful"] {
        assert_eq!(report["phases"][phase]["status"], "success", "{phase}");
    }
    let cases = report["test_cases"]["generated"].as_u64().unwrap();
    assert!(cases >= min_cases, "{cases} cases are fewer than {min_cases}");
    println!("{cases} cases of {count} operations, each as documented");
}
