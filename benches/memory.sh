#!/usr/bin/env bash
# Resident memory of the service with two chains after 100,000 requests on 64 connections.

cd "$(dirname "$0")/.."
. benches/common.sh
target=100000

need wrk "apt-get install wrk"
need curl "apt-get install curl"

build_service
start_service
trap stop_service EXIT

resident() { awk '/^VmRSS/ { printf "%.1f MiB", $2 / 1024 }' "/proc/$service/status"; }

echo "at the start: $(resident)"
served=0
while [ "$served" -lt $target ]; do
    output=$(wrk -t2 -c64 -d1s "$url/v1/ethereum/gas-suggestion")
    ! grep -q 'Non-2xx' <<<"$output" || { echo "$output" >&2; exit 1; }
    served=$((served + $(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' <<<"$output")))
done
echo "after $served requests: $(resident)"
