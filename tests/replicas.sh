#!/usr/bin/env bash
# Runs eight replicas with Redis for five minutes and kills or freezes about one per second. This is the chaos test of
# the suite with more time, on a release build, and with a random seed unless SEED is given.
#
#     tests/replicas.sh [SECONDS [SEED]]
#
# Prints the calls to the nodes per block, the lag of the served blocks, and the largest step between them. Needs the
# tools that tests/run.sh installs.

set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 2 ]; then
    echo "usage: tests/replicas.sh [SECONDS [SEED]]" >&2
    exit 2
fi
export REPLICAS_SECONDS=${1:-300}
export REPLICAS_SEED=${2:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
exec cargo test --release --locked --test system replicas::chaos:: -- --nocapture
