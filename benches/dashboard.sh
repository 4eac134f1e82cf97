#!/usr/bin/env bash
# Time until the dashboard shows its first price, and the share of a core that its page needs for forty chains.
# Usage: benches/dashboard.sh [rounds]

cd "$(dirname "$0")/.."
. benches/common.sh

need node "install Node.js 20 or later"
[ -d tests/node/node_modules ] || { echo "no tests/node/node_modules: run npm ci --prefix tests/node" >&2; exit 1; }
build_service
create_workspace
options=$(printf '{"binary":"%s","listen":"127.0.0.1:%s","shots":"%s"}' \
    "$PWD/target/release/gas-suggestion" "$(free_port)" "$directory")
for _ in $(seq "${1:-3}"); do
    for scenario in "first price needs" "forty chains need"; do
        node tests/node/dashboard.mjs "$options" "$scenario" >"$directory/output" ||
            { cat "$directory/output" >&2; exit 1; }
        grep -E '^# (first price|40 chains)' "$directory/output"
    done
done
