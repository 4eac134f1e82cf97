#!/usr/bin/env bash
# Installs missing tools, then runs every check of the project.
#
# Needs a Rust toolchain with rustfmt and clippy. As root on Debian it installs the other tools: Node.js with npm,
# Python with venv, nginx, Redis, openssl, faketime, Chromium, Prometheus and docker-compose. It fails if a tool is
# missing and cannot be installed; no check is skipped.

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

check() {
    step "$*"
    "$@"
}

for tool in cargo rustfmt cargo-clippy; do
    command -v "$tool" >/dev/null || fail "$tool is missing. Install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or later with rustfmt and clippy."
done

install_package npm npm
# The tests start their own nginx and Redis on free ports. They do not use servers that already run.
PATH=$PATH:/usr/sbin
install_package nginx nginx
install_package redis-server redis-server
install_package redis-cli redis-tools
install_package openssl openssl
install_package faketime faketime
install_package promtool prometheus
install_package docker-compose docker-compose
# CHROMIUM is the path of a browser to use instead of Debian's.
[ -n "${CHROMIUM:-}" ] || install_package chromium-headless-shell chromium-headless-shell

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    if [ -z "${ANVIL:-}" ] || [ -z "${CAST:-}" ] || [ -z "${FORGE:-}" ]; then
        fail "anvil, cast or forge for $(uname -sm) is missing. Install Foundry and set ANVIL, CAST and FORGE to the paths of its anvil, cast and forge."
    fi
    if [ -z "${HARDHAT_3:-}" ] || [ -z "${NODE_22:-}" ]; then
        fail "Hardhat 3 for $(uname -sm) is missing. Install hardhat and its plugin as in tests/node/hardhat-3 in a folder of their own, and set HARDHAT_3 to its path and NODE_22 to that of a node 22 or later."
    fi
fi
# Installs exactly the packages of the lock files, without their install scripts. npm skips Foundry if there is no build
# for this machine.
install_packages() { # folder
    npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund
}
install_python_packages() {
    [ -x target/python/bin/pip ] || python3 -m venv target/python
    target/python/bin/pip install --quiet --disable-pip-version-check --requirement tests/python/requirements.txt
}

# Debian has venv in a separate package without a command, so the check imports it.
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "Python's venv is missing. Install it (Debian: apt-get install python3-venv), or run this as root on Debian."
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
fi
folders=(tests/node tests/node/bundler tests/node/hardhat-2 clients/js)
[ -n "${HARDHAT_3:-}" ] || folders+=(tests/node/hardhat-3)
step "packages of ${folders[*]}, and tests/python/requirements.txt"
# Stops those that still run when a check fails.
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT
installs=()
for folder in "${folders[@]}"; do
    install_packages "$folder" &
    installs+=($!)
done
install_python_packages &
installs+=($!)

# A clean clone builds faster without what later builds and debuggers need.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false
# The tests start some hundred services. This is for the crate alone: see Cargo.toml. Overflows still panic. Unit tests keep the
# crate's other debug assertions. Those, and optimisation across parts of a crate, cost more than a minute elsewhere.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_LTO=off
export CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false CARGO_PROFILE_DEV_OVERFLOW_CHECKS=true
export RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings"

check python3 tests/words.py --self-test
check python3 tests/words.py
check python3 tests/notices.py
check cargo fmt --check
check cargo clippy --locked --all-targets -- -D warnings
# All targets do not include those with `test = false`.
check cargo clippy --locked --test system -- -D warnings
check cargo doc --locked --no-deps --document-private-items
# The packages are needed from here on.
for install in "${installs[@]}"; do
    wait "$install"
done
check target/python/bin/python tests/workflows.py --self-test
check target/python/bin/python tests/workflows.py
export RUST_BACKTRACE=0
run_tests() { # number of threads, arguments of `cargo test`
    local threads=$1
    shift
    step cargo test "$*"
    RUST_TEST_THREADS=$threads cargo test --locked --no-fail-fast "$@"
}
# Unit tests start no services.
CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=true run_tests 8 --lib
run_tests 8 --test integration
check sim/run.sh 200
backtest=(--locked --manifest-path backtest/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}")
check cargo fmt --manifest-path backtest/Cargo.toml --check
check cargo clippy "${backtest[@]}" --all-targets -- -D warnings
check cargo test "${backtest[@]}"
# Tests that depend on time have a run of their own, not beside compilers and browsers.
run_tests 3 --test system -- --skip replicas:: --skip delegation_api::
run_tests 3 --test system -- replicas:: --skip delegation_api::
run_tests 2 --test system -- delegation_api::
check tests/site.sh
