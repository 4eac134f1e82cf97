#!/usr/bin/env bash
# Tests the service against its OpenAPI document with at least 20,000 generated requests. Runs the conformance test of
# the suite with more cases, and with a random seed unless SEED is given.
#
#     tests/conformance.sh [SEED]
#
# Takes about ten minutes. Needs the tools that tests/run.sh installs.

set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 1 ]; then
    echo "usage: tests/conformance.sh [SEED]" >&2
    exit 2
fi
seed=${1:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "seed $seed"
export CONFORMANCE_SEED=$seed CONFORMANCE_EXAMPLES=400 CONFORMANCE_MIN_CASES=20000
exec cargo test --locked --test system conformance:: -- --nocapture
