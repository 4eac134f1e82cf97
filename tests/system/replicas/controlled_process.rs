//! A child process that a test starts, kills, freezes and starts again.

use std::process::Child;
use std::sync::Mutex;

use crate::process::ChildProcess;

/// The running process, if any. Dropping this kills it.
#[derive(Debug, Default)]
pub(crate) struct ControlledProcess(Mutex<Option<ChildProcess>>);

impl ControlledProcess {
    /// Takes over a started process. Panics if another one is running.
    pub(crate) fn set(&self, process: Child) {
        let before = self.0.lock().unwrap().replace(ChildProcess(process));
        assert!(before.is_none(), "the process is still running");
    }

    pub(crate) fn kill(&self) {
        let process = self.0.lock().unwrap().take();
        drop(process.expect("the process is not running"));
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
        process.as_mut().is_some_and(|process| process.0.try_wait().unwrap().is_some())
    }

    fn signal(&self, signal: &str) {
        self.0.lock().unwrap().as_ref().expect("the process is not running").signal(signal);
    }
}
