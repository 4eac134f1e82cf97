#!/usr/bin/env bash
# Holds the dependencies against deny.toml (versions, licences, sources) and against the database of
# known vulnerabilities, and lists those of the release build in target/sbom.cdx.json.
#
# Needs cargo-deny and Node.js. With --offline nothing is fetched: known vulnerabilities are not looked
# up then.

set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "tests/supply-chain.sh: $1" >&2
    exit 1
}

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

# An exception that nothing needs any more is an error too.
cargo deny --locked "${offline[@]}" check -D unmatched-skip -D unnecessary-skip bans licenses sources

# What only a test is built with may come in several versions, but not from anywhere nor under any licence.
cargo deny --locked --manifest-path tests/alloy/Cargo.toml --config deny.toml "${offline[@]}" check \
    -A license-not-encountered licenses sources

mkdir -p target
node tests/sbom.mjs target/sbom.cdx.json

if [ "${#offline[@]}" -gt 0 ]; then
    echo "advisories NOT CHECKED: --offline was given"
elif database=$(cargo deny --locked fetch db 2>&1); then
    cargo deny --locked check advisories
else
    echo "$database" >&2
    fail "advisories NOT CHECKED: the database of vulnerabilities could not be had (--offline does without)"
fi
