#!/usr/bin/env bash
# Mutation tests of the modules that decide what is published and what is accepted: cargo-mutants changes one operator or
# return value at a time and expects a test to fail. The unit tests run first; survivors are tried again with all of
# `cargo test`. Takes some hours for all modules. Usage: tests/mutants.sh [module …], for example tests/mutants.sh fees store
#
# Survivors are listed in target/mutants/mutants.out/missed.txt. Needs cargo-mutants.

set -euo pipefail
cd "$(dirname "$0")/.."

cargo mutants --version >/dev/null 2>&1 || {
    echo "tests/mutants.sh: cargo-mutants is missing. Install it: cargo install --locked cargo-mutants" >&2
    exit 1
}
[ "$#" -gt 0 ] || set -- fees poll store
files=()
for module in "$@"; do
    [ -f "src/$module.rs" ] || { echo "tests/mutants.sh: there is no src/$module.rs" >&2; exit 1; }
    files+=(--file "src/$module.rs" --file "src/$module/**")
done
run() {
    # Status 2 means survivors, 3 timeouts; both are results.
    cargo mutants --output target/mutants --baseline skip --timeout 300 "${files[@]}" "$@" || [ "$?" -le 3 ]
}
run -- --lib
run --iterate -- --no-fail-fast
