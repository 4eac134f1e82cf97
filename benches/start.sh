#!/usr/bin/env bash
# Startup time of the service and the cost of 200 chains: see start.py.
# Usage: benches/start.sh [starts] [seconds to measure 200 chains] [seconds per block]

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3"
need_files 2000
build_service
exec python3 benches/start.py target/release/gas-suggestion benches/recorded_node.py "${1:-21}" "${2:-60}" "${3:-2}"
