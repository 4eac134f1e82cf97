//! The command with all that it writes.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::command::{File, command};
use crate::raw::PATIENCE;

/// The command as it runs, with all of its log in a file: no pipe could take as much.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: File,
    /// That of clients and that of the operator.
    pub(crate) addresses: [std::net::SocketAddr; 2],
    _config: File,
}

impl Process {
    /// Starts with this configuration, in files with `name`, which is of this process alone. It has to
    /// log in JSON.
    pub(crate) fn start(name: &str, config: &str) -> Self {
        let (config, log) = (File::new(name, config), File::new(&format!("{name}-log"), ""));
        let mut command = command(&["--config", config.path()], &[]);
        let to_log = std::fs::File::create(log.path()).unwrap();
        let child = command.stdout(Stdio::piped()).stderr(to_log).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let addresses = loop {
            let text = log.text();
            let is_it = |line: &&str| line.contains("\"listening\"") && line.ends_with('\n');
            if let Some(line) = text.split_inclusive('\n').find(is_it) {
                let entry: serde_json::Value = serde_json::from_str(line).unwrap();
                break ["address", "admin"]
                    .map(|key| entry[key].as_str().unwrap().parse().unwrap());
            }
            assert!(Instant::now() < deadline, "it does not listen: {text}");
            std::thread::yield_now();
        };
        Self { child, log, addresses, _config: config }
    }

    /// The most resident memory that it ever had, in bytes.
    pub(crate) fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Ends it and gives all that it wrote.
    pub(crate) fn end(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        output + &self.log.text()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fails where `text`, which is `what`, has any of the `secrets`, which are in lower case.
pub(crate) fn tells_none_of(secrets: &[&str], what: &str, text: &str) {
    let lower = text.to_lowercase();
    for secret in secrets {
        let Some(at) = lower.find(*secret) else { continue };
        let from = lower[..at].rfind('\n').map_or(0, |end| end + 1);
        let line: String = lower[from..].chars().take(600).collect();
        panic!("{what} tells a secret: {line}");
    }
}
