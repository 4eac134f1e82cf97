#!/usr/bin/env bash
# Line coverage of `cargo test`, without the programs of tests/system. Prints a line per file; the lines themselves are in
# target/llvm-cov/html. Needs cargo-llvm-cov, and the LLVM tools of the compiler's version: rustup's component llvm-tools,
# or Debian's llvm package of that version (llvm-22 for Rust 1.95).

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

cargo llvm-cov --version >/dev/null 2>&1 || fail "cargo-llvm-cov is missing. Install it: cargo install --locked cargo-llvm-cov"
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/*/bin/llvm-cov" >/dev/null; then
    LLVM_COV=${LLVM_COV:-$(command -v "llvm-cov-$version")} || fail "llvm-cov is missing. Install rustup's llvm-tools, or Debian's llvm-$version."
    LLVM_PROFDATA=${LLVM_PROFDATA:-$(command -v "llvm-profdata-$version")}
    export LLVM_COV LLVM_PROFDATA
fi
# Instrumented code is slower, so a test that depends on time may fail. The report does not depend on it.
cargo llvm-cov --locked --html --ignore-run-fail --ignore-filename-regex '(^|/)(tests|fuzz|benches)/|tests\.rs$'
cargo llvm-cov report --ignore-filename-regex '(^|/)(tests|fuzz|benches)/|tests\.rs$'
