//! A child process that a test starts, kills, freezes and starts again.

use std::process::{Child, Command};
use std::sync::Mutex;

/// The running process, if any. Dropping this kills it.
#[derive(Debug, Default)]
pub(crate) struct ControlledProcess(Mutex<Option<Child>>);

impl ControlledProcess {
    /// Takes over a started process. Panics if another one is running.
    pub(crate) fn set(&self, process: Child) {
        let before = self.0.lock().unwrap().replace(process);
        assert!(before.is_none(), "the process is still running");
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        let mut process = self.0.lock().unwrap().take().expect("the process is not running");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Suspends the process (SIGSTOP) until [`thaw`](Self::thaw).
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Returns true if the process has exited by itself.
    pub(crate) fn has_exited(&self) -> bool {
        let mut process = self.0.lock().unwrap();
        process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_some())
    }

    /// Kills the process if it runs.
    pub(crate) fn kill_if_running(&self) {
        if let Some(mut process) = self.0.lock().unwrap().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn signal(&self, signal: &str) {
        let id =
            self.0.lock().unwrap().as_ref().expect("the process is not running").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for ControlledProcess {
    fn drop(&mut self) {
        self.kill_if_running();
    }
}
