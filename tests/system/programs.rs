//! External programs that tests run: Node.js scripts in `tests/node`, Python tools and cast.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::anvil::foundry;
use crate::fixtures;

/// Runs `command` to its end. Returns true if it succeeded, and its standard output and standard error.
pub(crate) async fn run(mut command: Command) -> (bool, String, String) {
    let name = command.get_program().to_owned();
    command.stdin(Stdio::null());
    // The service under test runs in this process, so this thread must not block.
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", name.display()));
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Runs `command`, which must succeed, and returns its standard output.
pub(crate) async fn expect_success(command: Command) -> String {
    let command_line = format!("{command:?}");
    let (is_success, stdout, stderr) = run(command).await;
    assert!(is_success, "{command_line}\n{stdout}\n{stderr}");
    stdout
}

/// Returns a command for Node.js, after checking that these `packages` of `tests/node` are installed.
pub(crate) fn node_js(packages: &[&str]) -> Command {
    for package in packages {
        let path = fixtures::path("tests/node/node_modules").join(package);
        assert!(path.exists(), "no {package} at {}: run tests/run.sh", path.display());
    }
    let found = Command::new("node").arg("--version").output();
    assert!(found.is_ok(), "no node: install Node.js 20 or later ({found:?})");
    Command::new("node")
}

/// Runs the test file `name` in `tests/node`, which imports these `packages`.
pub(crate) async fn node_test(name: &str, packages: &[&str]) {
    let mut command = node_js(packages);
    command.args(["--test", "--test-reporter", "spec"]).arg(script_path(name));
    println!("{}", expect_success(command).await);
}

/// Returns the path of the file `name` in `tests/node`.
pub(crate) fn script_path(name: &str) -> PathBuf {
    fixtures::path("tests/node").join(name)
}

/// Returns a command for the program `name` from one of the packages in `tests/python/requirements.txt`.
pub(crate) fn python_tool(name: &str) -> Command {
    let path = fixtures::path("target/python/bin").join(name);
    assert!(path.exists(), "no {name} at {}: run tests/run.sh", path.display());
    Command::new(path)
}

/// Returns a command for cast with these arguments.
pub(crate) fn cast(arguments: &[&str]) -> Command {
    let mut command = Command::new(foundry("CAST", "cast"));
    // No settings from this environment or from a Foundry project around it.
    command.env_clear().current_dir(std::env::temp_dir());
    command.args(arguments);
    command
}
