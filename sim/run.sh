#!/usr/bin/env bash
# Runs the service in simulated worlds: sim/run.sh [SEEDS [FIRST]]. Each processor has its share of the seeds, and prints its
# own summary. Fails if a promise is broken. It needs a C compiler, for Lua. PROFILE=release builds for minutes, and runs four
# times as many seeds in the same time.

set -euo pipefail
cd "$(dirname "$0")"
seeds=${1:-300}
first=${2:-1}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(cd .. && pwd)/target}
export CARGO_TARGET_DIR
profile=${PROFILE:-debug}
cargo build --locked --profile "${profile/debug/dev}"
binary=$CARGO_TARGET_DIR/$profile/gas-suggestion-sim
logs=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null || true; rm -rf "$logs"' EXIT
count=$(nproc)
pids=()
for ((job = 0; job < count; job++)); do
    from=$((first + seeds * job / count))
    share=$((first + seeds * (job + 1) / count - from))
    "$binary" --from "$from" --seeds "$share" --share "$job" "$count" >"$logs/$job" &
    pids+=($!)
done
"$binary" --year
failed=0
for ((job = 0; job < count; job++)); do
    wait "${pids[$job]}" || failed=1
    cat "$logs/$job"
done
exit "$failed"
