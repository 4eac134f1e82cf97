//! The service as a process whose complete output a test can read.

use std::io::Read;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Instant;

use crate::process::{ChildProcess, FREE_PORTS, File, command};
use crate::raw_client::TIMEOUT;

/// A running command whose log goes to a file, because a pipe could fill up. Killed when dropped.
#[derive(Debug)]
pub(crate) struct LoggedProcess {
    child: ChildProcess,
    log: File,
    /// Public and admin address.
    pub(crate) addresses: [SocketAddr; 2],
    _config: File,
}

impl LoggedProcess {
    /// Starts the service with this configuration, on free ports and with JSON logs. `name` must be unique in the test
    /// process.
    pub(crate) fn start(name: &str, config: &str) -> Self {
        let variables = [&FREE_PORTS[..3], &[("GAS_SERVER__DRAIN_DELAY", "0s")]].concat();
        Self::with_variables(name, config, &variables)
    }

    /// Like [`start`](Self::start), with these variables alone.
    pub(crate) fn with_variables(name: &str, config: &str, variables: &[(&str, &str)]) -> Self {
        Self::with_arguments(name, config, &[], variables)
    }

    /// Like [`with_variables`](Self::with_variables), with these arguments before that of the file.
    pub(crate) fn with_arguments(
        name: &str,
        config: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let (config, log) = (File::new(name, config), File::new(&format!("{name}-log"), ""));
        let mut command = command(&[arguments, &["--config", config.path()]].concat(), variables);
        let to_log = std::fs::File::create(log.path()).unwrap();
        let child = ChildProcess(command.stdout(Stdio::piped()).stderr(to_log).spawn().unwrap());
        let nowhere = SocketAddr::from(([0; 4], 0));
        let mut process = Self { child, log, addresses: [nowhere; 2], _config: config };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let text = process.log();
            let is_listening = |line: &&str| line.contains("listening") && line.ends_with('\n');
            let line = text.split_inclusive('\n').find(is_listening).unwrap_or_default();
            if let [public, admin, ..] = addresses(line)[..] {
                process.addresses = [public, admin];
                return process;
            }
            assert!(Instant::now() < deadline, "the service does not listen: {text}");
            std::thread::yield_now();
        }
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Returns the peak of resident memory in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.child.memory_kib("VmHWM") * 1024
    }

    /// Stops the process with SIGTERM and returns its standard output and log.
    pub(crate) fn stop(mut self) -> String {
        self.child.signal("-TERM");
        assert!(self.child.0.wait().unwrap().success());
        let mut output = String::new();
        self.child.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        output + &self.log.text()
    }
}

/// Returns the socket addresses in a line.
fn addresses(line: &str) -> Vec<SocketAddr> {
    let is_part = |character: char| character.is_ascii_digit() || ".:".contains(character);
    let words = line.split(|character| !is_part(character));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Fails if `text`, described by `what`, contains one of the `secrets`, which are in lower case.
pub(crate) fn assert_no_secrets(secrets: &[&str], what: &str, text: &str) {
    let lower = text.to_lowercase();
    for secret in secrets {
        let Some(at) = lower.find(*secret) else { continue };
        let from = lower[..at].rfind('\n').map_or(0, |end| end + 1);
        let line: String = lower[from..].chars().take(600).collect();
        panic!("{what} contains a secret: {line}");
    }
}
