//! A process that is started, ended and started again, and may be frozen meanwhile.

use std::process::{Child, Command};
use std::sync::Mutex;

/// The process there is, if there is one; it ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Life(Mutex<Option<Child>>);

impl Life {
    /// Begins where none is.
    pub(crate) fn begin(&self, process: Child) {
        let before = self.0.lock().unwrap().replace(process);
        assert!(before.is_none(), "it runs still");
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        let mut process = self.0.lock().unwrap().take().expect("it does not run");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Lets it do nothing until [`thaw`](Self::thaw).
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        let mut process = self.0.lock().unwrap();
        process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_some())
    }

    /// Ends it if it runs.
    pub(crate) fn end(&self) {
        if let Some(mut process) = self.0.lock().unwrap().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.0.lock().unwrap().as_ref().expect("it does not run").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}
