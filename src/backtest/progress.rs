//! How far a long run is, on the last line of a terminal.

use std::io::{self, IsTerminal, Write};

/// A bar that grows. Where standard error is no terminal, nothing is written; the line is gone when this is dropped.
#[derive(Debug)]
pub struct Progress {
    done: usize,
    of: usize,
    is_shown: bool,
}

impl Progress {
    /// Of so many steps.
    #[must_use]
    pub fn of(steps: usize) -> Self {
        let progress = Self { done: 0, of: steps, is_shown: io::stderr().is_terminal() };
        progress.show();
        progress
    }

    /// One step more.
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// So many steps more.
    pub fn advance_by(&mut self, steps: usize) {
        self.done = self.done.saturating_add(steps).min(self.of);
        self.show();
    }

    fn show(&self) {
        if self.is_shown {
            write(&self.line());
        }
    }

    fn line(&self) -> String {
        const WIDTH: usize = 40;
        let filled = self.done.saturating_mul(WIDTH).checked_div(self.of).unwrap_or_default();
        let (filled, rest) = ("█".repeat(filled), "░".repeat(WIDTH.saturating_sub(filled)));
        format!("{filled}{rest} {} of {}", self.done, self.of)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write("");
        }
    }
}

/// In place of what the line was. That nobody sees it is no failure.
fn write(line: &str) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        let line = |done, of| Progress { done, of, is_shown: false }.line();
        assert_eq!(line(0, 4), format!("{} 0 of 4", "░".repeat(40)));
        assert_eq!(line(1, 4), format!("{}{} 1 of 4", "█".repeat(10), "░".repeat(30)));
        assert_eq!(line(4, 4), format!("{} 4 of 4", "█".repeat(40)));
        assert_eq!(line(0, 0), format!("{} 0 of 0", "░".repeat(40)));
    }
}
