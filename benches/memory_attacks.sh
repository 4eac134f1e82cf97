#!/usr/bin/env bash
# Attacks on the memory of the release build, in a memory cgroup of 512 MiB with the shipped limits: from 20 loopback
# addresses, one kind after the other and then all together, while a client on another address asks for a suggestion
# every 20 ms. Needs root, for the cgroup.
# Usage: memory_attacks.sh [seconds per attack, 60] [most seconds until memory is back, 60] [attack ...]

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3"
need_files 16384

build_service
exec python3 benches/memory_attacks.py "${1:-60}" "${2:-60}" "${@:3}"
