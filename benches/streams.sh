#!/usr/bin/env bash
# The time until the subscribers of one chain have a new value, and the memory that they take: see streams.py.
# Usage: benches/streams.sh [subscribers] [values]

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3"
need_files $((${1:-10000} + 1000))
build_service
exec python3 benches/streams.py target/release/gas-suggestion "${1:-10000}" "${2:-30}"
