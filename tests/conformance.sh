#!/usr/bin/env bash
# Holds the service against its own OpenAPI document with at least 20,000 generated requests: the test of that
# name with more cases, and with another seed each time unless one is given.
#
#     tests/conformance.sh [SEED]
#
# It takes about ten minutes, and needs what tests/run.sh installs.

set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 1 ]; then
    echo "usage: tests/conformance.sh [SEED]" >&2
    exit 2
fi
seed=${1:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "seed $seed"
export CONFORMANCE_SEED=$seed CONFORMANCE_EXAMPLES=400 CONFORMANCE_LEAST=20000
exec cargo test --locked --test integration conformance:: -- --nocapture
