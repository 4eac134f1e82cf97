#!/usr/bin/env bash
# Faults of the history's database: kills while it is opened and written, a disk that fills up, a second instance, and files
# that cannot be used. Needs root, for the small disk.
# Usage: history_faults.sh [kills, 200]

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3"
need mount "apt-get install mount"

build_service
exec python3 benches/history_faults.py target/release/gas-suggestion benches/recorded_node.py "${1:-200}"
