#!/usr/bin/env bash
# What 4,000 clients that hold their connections do to good requests, and when each of them is gone.
# Fails when the 99th percentile of good requests reaches 50 ms, or when a connection outlives its
# deadline by more than a second. Takes a minute once everything is built.

cd "$(dirname "$0")/.."
. benches/common.sh

need curl "apt-get install curl"
need timeout "apt-get install coreutils"
need_files 8192

cargo build --release --quiet
bench=$(cargo bench --no-run --bench slow_clients --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*slow_clients[^"]*\)".*/\1/p')

start_service
trap stop_service EXIT
timeout 100 "$bench" "${url#http://}"
