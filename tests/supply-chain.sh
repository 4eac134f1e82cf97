#!/usr/bin/env bash
# Checks the dependencies against deny.toml (versions, licences, sources) and against the database of known
# vulnerabilities. Writes the dependencies of the release build to target/sbom.cdx.json.
#
# Needs cargo-deny and Node.js. With --offline the script fetches nothing and skips the vulnerability check.

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

offline=()
case "$*" in
"") ;;
--offline)
    offline=(--offline)
    export CARGO_NET_OFFLINE=true
    ;;
*) fail "usage: tests/supply-chain.sh [--offline]" ;;
esac

cargo deny --version >/dev/null 2>&1 ||
    fail "cargo-deny is missing. Install it: cargo install --locked cargo-deny"
command -v node >/dev/null || fail "node is missing. Install Node.js 18 or later."

# Unused exceptions in deny.toml are errors too.
cargo deny --locked "${offline[@]}" check -D unmatched-skip -D unnecessary-skip bans licenses sources

# Dependencies of programs beside the service may have several versions; their licences and sources are still checked.
for program in backtest backtest/alloy clients/rust; do
    cargo deny --locked --manifest-path "$program/Cargo.toml" --config deny.toml "${offline[@]}" check \
        -A license-not-encountered licenses sources
done

mkdir -p target
node tests/sbom.mjs target/sbom.cdx.json

if [ "${#offline[@]}" -gt 0 ]; then
    echo "advisories NOT CHECKED: --offline was given"
elif database=$(cargo deny --locked fetch db 2>&1); then
    cargo deny --locked check advisories
else
    echo "$database" >&2
    fail "advisories NOT CHECKED: the database of vulnerabilities could not be fetched (use --offline to skip it)"
fi
