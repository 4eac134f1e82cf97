#!/usr/bin/env bash
# Runs what neither `cargo test` nor tests/run.sh runs, because it takes long or needs more tools, and prints the time of each
# part. It goes on after a part that fails, and fails at its end. Usage: tests/weekly.sh [PART …], for example site image
#
# Needs what tests/run.sh installs, cargo-deny, and root on Debian, where the parts install their other tools.

set -uo pipefail
cd "$(dirname "$0")/.."

parts=(doc site supply_chain extras conformance generators replicas clients javascript alloy web3 rust_client packages debian image benches sim)
doc() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items; }
site() { tests/site.sh; }
supply_chain() { tests/supply-chain.sh && npm audit --omit=dev --prefix clients/js; }
extras() { tests/extras.sh; }
conformance() { tests/conformance.sh; }
generators() { tests/generators.sh; }
replicas() { tests/replicas.sh; }
# tests/run.sh has the oldest and the newest API of the verification service.
clients() { cargo test --locked --test system -- verification_clients::hardhat_2; }
# The npm package in other runtimes than that of tests/run.sh.
javascript() {
    local folder=$PWD/target/javascript
    mkdir -p "$folder" && npm install --prefix "$folder" --no-audit --no-fund node@22.23.3 bun@1.4.5 deno@2.9.6 || return
    local bin=$folder/node_modules/.bin
    (cd clients/js && npm ci --ignore-scripts --no-audit --no-fund && npm run build &&
        "$bin/node" --test test/alone.test.mjs test/stream.test.mjs &&
        "$bin/bun" test/smoke.mjs && "$bin/deno" run --allow-all test/smoke.mjs)
}
alloy() { backtest/alloy.sh; }
# The Python client, installed beside each major version of web3.py that it supports.
web3() {
    local version python=target/web3/bin/python
    python3 -m venv target/web3 || return
    for version in 7.16.0 8.0.0; do
        "$python" -m pip install --quiet --disable-pip-version-check pytest==9.2.0 "web3==$version" ./clients/python &&
            "$python" -m pytest -o pythonpath= clients/python || return
    done
}
rust_client() {
    local crate=(--manifest-path clients/rust/Cargo.toml)
    cargo fmt "${crate[@]}" --check &&
        cargo clippy "${crate[@]}" --locked --target-dir target/rust-client --all-targets -- -D warnings &&
        cargo test "${crate[@]}" --locked --target-dir target/rust-client
}
packages() { packaging/build.sh target/packages && tests/packages.sh target/packages; }
debian() { tests/debian.sh "$(echo target/packages/deb/*_"$(dpkg --print-architecture)".deb)"; }
image() { tests/image.sh; }
# Those that have a pass mark.
benches() { benches/start.sh && benches/freshness.sh && benches/quota_attack.sh; }
sim() { PROFILE=release sim/run.sh 10000; }

[ "$#" -gt 0 ] || set -- "${parts[@]}"
for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "tests/weekly.sh: there is no part $part: ${parts[*]}" >&2; exit 1; }
done
failed=()
for part in "$@"; do
    printf '\n== %s\n' "$part"
    since=$SECONDS
    "$part" || failed+=("$part")
    times+=("$part: $((SECONDS - since)) s")
done
printf '%s\n' "" "${times[@]}"
[ "${#failed[@]}" = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
