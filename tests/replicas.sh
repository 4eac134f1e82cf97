#!/usr/bin/env bash
# Eight replicas that share over Redis, of which each second one is killed or frozen, for five minutes: the test of
# that kind with more time, on a release build, and with another seed each time unless one is given.
#
#     tests/replicas.sh [SECONDS [SEED]]
#
# It prints what it counted: calls to the nodes per block, how far behind and by how many blocks at once what was
# served went on. It needs what tests/run.sh installs.

set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 2 ]; then
    echo "usage: tests/replicas.sh [SECONDS [SEED]]" >&2
    exit 2
fi
export REPLICAS_SECONDS=${1:-300}
export REPLICAS_SEED=${2:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
exec cargo test --release --locked --test integration replicas::chaos:: -- --nocapture
