//! The `gas-suggestion` command.

use std::process::ExitCode;

/// Gives memory back to the system after a flood of clients, which the system's allocator does not.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gas_suggestion::cli::run()
}
