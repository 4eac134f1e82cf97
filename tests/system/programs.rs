//! External programs that tests run: Node.js scripts in `tests/node`, Python tools and cast.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::anvil::foundry;
use crate::fixtures;
use crate::process::ChildProcess;

/// Starts a server and waits until it prints its address. Returns its port too.
pub(crate) fn start_server(mut command: Command) -> (ChildProcess, u16) {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut process = ChildProcess(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once("127.0.0.1:")?;
        rest.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok()
    });
    // The server would block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (process, port.unwrap_or_else(|| panic!("{command:?} prints no address")))
}

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

/// Like [`expect_success`], for output in JSON.
pub(crate) async fn expect_json(command: Command) -> Value {
    serde_json::from_str(&expect_success(command).await).unwrap()
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

/// Runs the script `name` in `tests/node`, which imports these `packages`, with `settings`. Returns its output.
pub(crate) async fn run_script(name: &str, packages: &[&str], settings: &Value) -> String {
    let mut command = node_js(packages);
    command.args(["--test-reporter", "spec"]).arg(script_path(name)).arg(settings.to_string());
    let output = expect_success(command).await;
    println!("{output}");
    output
}

/// Returns the path of the file `name` in `tests/node`.
pub(crate) fn script_path(name: &str) -> PathBuf {
    fixtures::path("tests/node").join(name)
}

/// Returns the folder of Hardhat 3.
pub(crate) fn hardhat_3() -> PathBuf {
    let named = std::env::var_os("HARDHAT_3").map(PathBuf::from);
    named.unwrap_or_else(|| fixtures::path("tests/node/hardhat-3"))
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

/// Writes a certificate, `{name}.crt`, and its key, `{name}.key`, into a folder, with these further arguments of openssl.
/// `openssl` is the command, which may begin with faketime.
pub(crate) fn certify(folder: &Path, name: &str, openssl: &[&str], arguments: &str) {
    let common = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {name}.key -out {name}.crt"
    );
    let mut command = Command::new(openssl[0]);
    command.args(&openssl[1..]).args(common.split(' ')).args(arguments.split_whitespace());
    let output = command.current_dir(folder).output();
    let output = output.expect("openssl and faketime are needed (Debian: apt-get install both)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns an environment variable or its default.
pub(crate) fn variable_or(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Returns a folder with this name that stays after the tests.
pub(crate) fn kept_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
