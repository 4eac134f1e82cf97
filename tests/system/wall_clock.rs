//! A fake wall clock for one process.

use std::path::{Path, PathBuf};

/// The wall clock of a process under `libfaketime`, controlled by a file with the offset.
#[derive(Debug)]
pub(crate) struct WallClock(PathBuf);

impl WallClock {
    const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

    /// Creates a clock that shows the real time. `name` must be unique within the test process.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{}-clock-{name}", std::process::id());
        let clock = Self(std::env::temp_dir().join(name));
        clock.step("+0");
        clock
    }

    /// Returns the environment variables that make a process use this clock.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let dirs =
            std::fs::read_dir("/usr/lib").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let library = dirs.map(|dir| dir.join(Self::LIBRARY)).find(|path| path.exists());
        let library = std::env::var_os("FAKETIME_LIBRARY").map(PathBuf::from).or(library);
        let library = library.expect(
            "libfaketime is missing: run tests/run.sh, or install it (Debian: apt-get install \
             faketime), or set FAKETIME_LIBRARY to its path",
        );
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD", text(&library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.0)),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// Sets the offset from the real time, such as `+1h`.
    pub(crate) fn step(&self, offset: &str) {
        // The file is replaced atomically, because the process may read it at any moment.
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(&new, &self.0).unwrap();
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
