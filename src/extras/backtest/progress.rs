//! Progress of a long run on the last line of a terminal.

use std::io::{self, IsTerminal, Write};

/// A progress bar. Writes nothing if stderr is not a terminal. Dropping it removes the line.
#[derive(Debug)]
pub struct Progress {
    done: usize,
    total: usize,
    is_terminal: bool,
}

impl Progress {
    /// Creates a bar with this number of steps.
    #[must_use]
    pub fn new(steps: usize) -> Self {
        let progress = Self { done: 0, total: steps, is_terminal: io::stderr().is_terminal() };
        progress.draw();
        progress
    }

    /// Advances by one step.
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// Advances by this many steps.
    pub fn advance_by(&mut self, steps: usize) {
        self.done = self.done.saturating_add(steps).min(self.total);
        self.draw();
    }

    fn draw(&self) {
        if self.is_terminal {
            write_line(&self.render());
        }
    }

    fn render(&self) -> String {
        const WIDTH: usize = 40;
        let filled = self.done.saturating_mul(WIDTH).checked_div(self.total).unwrap_or_default();
        let (filled, rest) = ("█".repeat(filled), "░".repeat(WIDTH.saturating_sub(filled)));
        format!("{filled}{rest} {} of {}", self.done, self.total)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            write_line("");
        }
    }
}

/// Replaces the line on stderr. A closed stderr is not an error.
fn write_line(line: &str) {
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "\r\x1b[2K{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_length_is_proportional_to_progress() {
        let render = |done, total| Progress { done, total, is_terminal: false }.render();
        assert_eq!(render(0, 4), format!("{} 0 of 4", "░".repeat(40)));
        assert_eq!(render(1, 4), format!("{}{} 1 of 4", "█".repeat(10), "░".repeat(30)));
        assert_eq!(render(4, 4), format!("{} 4 of 4", "█".repeat(40)));
        assert_eq!(render(0, 0), format!("{} 0 of 0", "░".repeat(40)));
    }
}
