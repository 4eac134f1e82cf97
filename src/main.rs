//! The `gas-suggestion` command.

use std::process::ExitCode;

/// Gives memory back to the system after a flood of clients, which the system's allocator does not.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    gas_suggestion::cli::run()
}
