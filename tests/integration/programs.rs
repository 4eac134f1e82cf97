//! The programs that tests run: Node.js with the scripts in `tests/node`, those of Python packages, and cast.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::anvil::foundry;
use crate::fixtures;

/// Runs `command` to its end and gives whether it went well, what it told and what it complained of.
pub(crate) async fn run(mut command: Command) -> (bool, String, String) {
    let name = command.get_program().to_owned();
    command.stdin(Stdio::null());
    // The service that the program asks is in this process and has to go on.
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", name.display()));
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// A run that has to go well; what it told.
pub(crate) async fn success(command: Command) -> String {
    let line = format!("{command:?}");
    let (is_well, told, complaints) = run(command).await;
    assert!(is_well, "{line}\n{told}\n{complaints}");
    told
}

/// Node.js, to which the `packages` of `tests/node` are there.
pub(crate) fn node(packages: &[&str]) -> Command {
    for package in packages {
        let path = fixtures::path("tests/node/node_modules").join(package);
        assert!(path.exists(), "no {package} at {}: run tests/run.sh", path.display());
    }
    let found = Command::new("node").arg("--version").output();
    assert!(found.is_ok(), "no node: install Node.js 20 or later ({found:?})");
    Command::new("node")
}

/// Runs the test file `name` in `tests/node`, which needs these packages.
pub(crate) async fn node_test(name: &str, packages: &[&str]) {
    let mut command = node(packages);
    command.args(["--test", "--test-reporter", "spec"]).arg(script(name));
    println!("{}", success(command).await);
}

/// Where the file `name` in `tests/node` is.
pub(crate) fn script(name: &str) -> PathBuf {
    fixtures::path("tests/node").join(name)
}

/// The program `name` of one of the packages in `tests/python/requirements.txt`.
pub(crate) fn of_python(name: &str) -> Command {
    let path = fixtures::path("target/python/bin").join(name);
    assert!(path.exists(), "no {name} at {}: run tests/run.sh", path.display());
    Command::new(path)
}

/// Cast with these arguments.
pub(crate) fn cast(arguments: &[&str]) -> Command {
    let mut command = Command::new(foundry("CAST", "cast"));
    // Neither settings of this environment nor those of a project around it.
    command.env_clear().current_dir(std::env::temp_dir());
    command.args(arguments);
    command
}
