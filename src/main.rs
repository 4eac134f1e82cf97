//! The `gas-suggestion` command.

use std::process::ExitCode;

use clap::Parser;
use gas_suggestion::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
