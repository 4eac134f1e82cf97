#!/usr/bin/env bash
# Latency of good requests beside 4,000 clients that hold their connections, and the lifetime of those connections.
# Fails if the 99th percentile of good requests reaches 50 ms, or if a connection outlives its deadline by more than
# 1 s. Takes two minutes once everything is built.

cd "$(dirname "$0")/.."
. benches/common.sh

need curl "apt-get install curl"
need timeout "apt-get install coreutils"
need_files 8192

build_service
bench=$(build_bench slow_clients)

start_service
trap stop_service EXIT
timeout 200 "$bench" "${url#http://}"
