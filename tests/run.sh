#!/usr/bin/env bash
# Installs missing tools, then runs every check that a change has to pass, or some parts of them.
# Usage: tests/run.sh [PART …]    default: lint unit worlds system
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

[ "$#" -gt 0 ] || set -- lint unit worlds system
for part in "$@"; do
    [[ " lint unit worlds system " == *" $part "* ]] || fail "there is no part $part: lint, unit, worlds, system"
done
is_whole=false has_system=false
[ "$*" != "lint unit worlds system" ] || is_whole=true
[[ " $* " != *" system "* ]] || has_system=true
for tool in cargo rustfmt cargo-clippy; do
    command -v "$tool" >/dev/null || fail "$tool is missing. Install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or later with rustfmt and clippy."
done

install_package python3 python3
if $has_system && [ "$(uname -sm)" != "Linux x86_64" ]; then
    if [ -z "${ANVIL:-}" ] || [ -z "${CAST:-}" ] || [ -z "${FORGE:-}" ]; then
        fail "anvil, cast or forge for $(uname -sm) is missing. Install Foundry and set ANVIL, CAST and FORGE to the paths of its anvil, cast and forge."
    fi
    if [ -z "${HARDHAT_3:-}" ] || [ -z "${NODE_22:-}" ]; then
        fail "Hardhat 3 for $(uname -sm) is missing. Install hardhat and its plugin as in tests/node/hardhat-3 in a folder of their own, and set HARDHAT_3 to its path and NODE_22 to that of a node 22 or later."
    fi
fi
# Installs exactly the packages of the lock files, without their install scripts. npm skips Foundry if there is no build
# for this machine.
install_node_packages() { # folder
    npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund
}
install_python_packages() {
    [ -x target/python/bin/pip ] || python3 -m venv target/python
    target/python/bin/pip install --quiet --disable-pip-version-check --requirement tests/python/requirements.txt
}
# The tests start their own nginx and Redis on free ports. They do not use servers that already run.
PATH=$PATH:/usr/sbin
needed=(npm:npm nginx:nginx redis-server:redis-server redis-cli:redis-tools openssl:openssl faketime:faketime
    promtool:prometheus docker-compose:docker-compose)
# CHROMIUM is the path of a browser to use instead of Debian's.
[ -n "${CHROMIUM:-}" ] || needed+=(chromium-headless-shell:chromium-headless-shell)
# Debian has venv in a package without a command, so the check imports it.
python3 -c 'import ensurepip, venv' 2>/dev/null || needed+=("venv of Python:python3-venv")
! $has_system || find_missing "${needed[@]}"
install_tools() {
    install_missing
    local folders=(tests/node tests/node/bundler tests/node/hardhat-2 clients/js) installs=()
    [ -n "${HARDHAT_3:-}" ] || folders+=(tests/node/hardhat-3)
    for folder in "${folders[@]}"; do
        install_node_packages "$folder" &
        installs+=($!)
    done
    install_python_packages
    for install in "${installs[@]}"; do
        wait "$install"
    done
}
# Process groups of their own, which end as a whole if a check fails.
background=()
trap 'for group in "${background[@]}"; do kill -- -"$group" 2>/dev/null || true; done' EXIT
if $has_system; then
    step "tools and packages, beside what needs none of them"
    mkdir -p target
    set -m
    install_tools </dev/null >target/tools.log 2>&1 &
    set +m
    tools=$!
    background+=("$tools")
fi

# A clean clone builds faster without what later builds and debuggers need.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false
# The tests start some hundred services. This is for the crate alone: see Cargo.toml. Overflows still panic. Unit tests keep the
# crate's other debug assertions. Those, and optimisation across parts of a crate, cost more than a minute elsewhere.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_LTO=off
export CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false CARGO_PROFILE_DEV_OVERFLOW_CHECKS=true

export RUST_BACKTRACE=0
# Clippy compiles the crates of each workspace, so that their builds for tests are their lints too.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
backtest=(--locked --manifest-path backtest/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}")

text() {
    check python3 tests/words.py --self-test
    check python3 tests/words.py
    check cargo fmt --check
    check cargo fmt --manifest-path backtest/Cargo.toml --check
}
code() {
    check python3 tests/notices.py
    if $is_whole; then
        # Those that no test builds.
        check cargo build --locked --bench '*'
    else
        check cargo check --locked --all-targets
        # All targets do not include those with `test = false`.
        check cargo check --locked --test system
        check cargo check "${backtest[@]}" --all-targets
    fi
}
worlds() {
    check sim/run.sh 60
    check cargo test "${backtest[@]}"
}
# Tests run without Cargo, which may be building something else.
declare -A programs
build() { # arguments of `cargo test`
    step cargo test --no-run "$*"
    local messages path name
    messages=$(cargo test --locked --no-run --message-format json-render-diagnostics "$@")
    while read -r path; do
        name=${path##*/}
        programs[${name%-*}]=$path
    done < <(sed -n 's/.*"test":true},"features".*"executable":"\([^"]*\)".*/\1/p' <<<"$messages")
}
run_tests() { # number of threads, program, its arguments
    step "$2 ${*:3}"
    RUST_TEST_THREADS=$1 "${programs[$2]}" "${@:3}"
}
unit() {
    run_tests 8 gas_suggestion
    run_tests 8 integration
}
system() {
    step "the tools are here"
    wait "$tools" || fail "$(cat target/tools.log)"
    check target/python/bin/python tests/workflows.py --self-test
    check target/python/bin/python tests/workflows.py
    # Tests that depend on time have a run of their own, not beside browsers. The chaos of replicas and one of three versions
    # of Hardhat are weekly.
    run_tests 3 system --skip replicas:: --skip verification_clients::hardhat_2
    run_tests 3 system replicas:: --skip replicas::chaos::
}

computing=() tests=() targets=()
for part in "$@"; do
    case $part in
        lint)
            text
            computing+=(code)
            ;;
        worlds) computing+=(worlds) ;;
        unit)
            # Unit tests start no services.
            CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=true build --lib
            targets+=(--test integration) tests+=(unit)
            ;;
        system) targets+=(--test system) tests+=(system) ;;
    esac
done
[ "${#targets[@]}" = 0 ] || build "${targets[@]}"
compute() {
    for part in "${computing[@]}"; do
        "$part"
    done
}
# Tests wait most of the time. What computes gets the processors when they leave them idle.
if [ "${#tests[@]}" -gt 0 ] && [ "${#computing[@]}" -gt 0 ]; then
    step "${computing[*]}, beside the following"
    mkdir -p target
    set -m
    {
        ! command -v chrt >/dev/null || chrt --idle --pid 0 "$BASHPID"
        compute
    } </dev/null >target/computing.log 2>&1 &
    set +m
    background+=($!)
    for part in "${tests[@]}"; do
        "$part"
    done
    step "the end of ${computing[*]}"
    wait "${background[-1]}" && failed=false || failed=true
    cat target/computing.log
    ! $failed || fail "one of these failed: ${computing[*]}"
else
    compute
    for part in "${tests[@]}"; do
        "$part"
    done
fi
step "done"
