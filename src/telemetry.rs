//! Logs, to standard error.

use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{Log, LogFormat};

/// Makes `config` the process's logging. To be called once, before anything is logged.
///
/// # Errors
///
/// When the process logs somewhere already.
pub fn init(config: &Log) -> Result<(), TryInitError> {
    // The configuration's check has seen the filter; one that a later change broke logs `info`.
    let filter = config.directives().unwrap_or_default();
    // What it tells below that is whom it connects to, and a URL is nobody's business.
    let filter = match "hyper_util=info".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry.with(lines.with_ansi(is_terminal)).try_init()
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    }
}
