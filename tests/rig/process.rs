//! The `gas-suggestion` command as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::http_client;
use crate::test_server::{self, Response};

/// A temporary configuration file. Removed when dropped.
#[derive(Debug)]
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{}-{count}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Reads the current content.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.0).unwrap()).into_owned()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A temporary folder. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder. `name` must be unique within the test process.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds the command without the `GAS_…` variables of the test's own environment.
pub(crate) fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gas-suggestion"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GAS_")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied());
    command
}

/// Wraps `command` so that it can open at most `limit` files.
pub(crate) fn with_open_files(command: &Command, limit: usize) -> Command {
    in_shell(&format!("ulimit -n {limit}"), command)
}

/// Wraps `command` so that it does not ignore SIGHUP, which it would under `nohup`.
pub(crate) fn with_default_hangup(command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP");
    become_command(env, command)
}

/// Wraps `command` so that a shell runs `preparation` before, and then becomes the program.
pub(crate) fn in_shell(preparation: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{preparation} && exec \"$0\" \"$@\""));
    become_command(shell, command)
}

/// Appends the program, arguments and variables of `command` to `outer`, which becomes it.
fn become_command(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

pub(crate) fn output(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(arguments, variables).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A child process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess(pub(crate) Child);

impl ChildProcess {
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Returns a size of the process from `/proc`, such as `VmRSS`.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let mut sizes =
            status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        sizes.next().unwrap().trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `gas-suggestion` process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: ChildProcess,
    /// The unread rest of the log.
    pub(crate) log: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// Free ports, a log for programs, and no calls but polls and readings of asks.
pub(crate) const FREE_PORTS: [(&str, &str); 4] = [
    ("GAS_SERVER__LISTEN", "127.0.0.1:0"),
    ("GAS_SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
    ("GAS_LOG__FORMAT", "json"),
    ("GAS_HISTORY__REFILL", "false"),
];

impl Process {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = command(arguments, &FREE_PORTS);
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Spawns `command`, which has to log in JSON, and waits until it listens.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let [address, admin] = loop {
            let mut line = String::new();
            let read = log.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the process ended before it listened");
            // Before the log, `--rpc-url` says in plain words what it waits for.
            if line.starts_with("waiting for the chain id ") {
                continue;
            }
            let entry: Value = serde_json::from_str(&line).unwrap();
            if entry["message"] == "listening" {
                break ["address", "admin"]
                    .map(|key| entry[key].as_str().unwrap().parse().unwrap());
            }
        };
        Self { child: ChildProcess(child), log, address, admin }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        let url = format!("http://{}{path}", self.address);
        Response::read(http_client::new().get(url).send().await.unwrap()).await
    }

    /// Repeats a GET request until the status is 200.
    pub(crate) async fn wait_for_ok(&self, path: &str) -> Response {
        self.wait_for(path, |response| response.status == 200).await
    }

    pub(crate) async fn wait_for(&self, path: &str, check: impl Fn(&Response) -> bool) -> Response {
        let url = format!("http://{}{path}", self.address);
        test_server::wait_for(&http_client::new(), &url, check).await
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        self.child.memory_kib("VmRSS")
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.child.signal(signal);
    }

    /// Sends `signal` and returns the exit code and the rest of the log.
    pub(crate) fn stop_with(self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the exit and returns the exit code and the rest of the log.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.0.wait().unwrap().code(), rest)
    }
}
