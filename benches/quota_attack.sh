#!/usr/bin/env bash
# Freshness of the suggestion while clients send as many reads as they may to a node with a quota: see quota_attack.py.
# Usage: benches/quota_attack.sh [seconds] [reads per minute]

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3"
build_service
exec python3 benches/quota_attack.py target/release/gas-suggestion "${1:-300}" "${2:-150}"
