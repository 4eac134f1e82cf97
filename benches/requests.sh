#!/usr/bin/env bash
# Instructions, cache misses and allocations per GET /v1/{chain}/gas-suggestion, on 64 and on 1,000 keep-alive connections.
# valgrind counts them in a simulated cache, so they are the same on every machine with the same compiler and libraries.
# Prints a Markdown table with a row per binary. Usage: benches/requests.sh [BINARY …]
#
# Without arguments it builds the service with the allocator of glibc, because valgrind does not see the allocations of
# another. Each number is the difference of a run with 11,000 requests to one with 1,000.

cd "$(dirname "$0")/.."
. benches/common.sh

need valgrind "apt-get install valgrind"
need ab "apt-get install apache2-utils"
need curl "apt-get install curl"
need_files 2000

if [ $# = 0 ]; then
    cargo build --release --quiet --no-default-features
    set -- target/release/gas-suggestion
fi
create_workspace
few=1000
many=11000

# Prints what valgrind says of a run.
count() { # binary, connections, requests, arguments of valgrind
    local binary=$1 connections=$2 requests=$3 log process address deadline=$((SECONDS + 60))
    shift 3
    log=$(mktemp -p "$directory")
    GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT=10000000 GAS_LIMITS__REQUEST_BURST_PER_CLIENT=10000000 \
        GAS_HISTORY__REFILL=false GAS_LOG__FORMAT=json GAS_LOG__FILTER="info,gas_suggestion::requests=warn" \
        GAS_SERVER__LISTEN=127.0.0.1:0 GAS_SERVER__ADMIN_LISTEN=127.0.0.1:0 \
        valgrind --log-file="$log.valgrind" "$@" "$binary" demo --block-time 1h >"$log" 2>&1 &
    process=$!
    started+=("$process")
    until address=$(sed -n 's/.*"listening","address":"\([^"]*\)".*/\1/p' "$log") && [ -n "$address" ] &&
        curl -sf "http://$address/v1/ethereum/gas-suggestion" >/dev/null; do
        [ $SECONDS -lt $deadline ] || { cat "$log" >&2; exit 1; }
        sleep 0.1
    done
    ab -q -k -l -c "$connections" -n "$requests" "http://$address/v1/ethereum/gas-suggestion" >"$log.ab" 2>&1
    grep -qx 'Failed requests: *0' "$log.ab" || { cat "$log.ab" >&2; exit 1; }
    kill -TERM "$process"
    wait "$process" || true
    tr -d , <"$log.valgrind"
}

# Prints a number per request: the difference of two runs.
per_request() { # binary, connections, pattern of the line whose first number counts, arguments of valgrind
    local binary=$1 connections=$2 pattern=$3 low high
    shift 3
    low=$(count "$binary" "$connections" $few "$@" | sed -n "s/.*$pattern *\([0-9]*\).*/\1/p" | head -n 1)
    high=$(count "$binary" "$connections" $many "$@" | sed -n "s/.*$pattern *\([0-9]*\).*/\1/p" | head -n 1)
    awk -v low="$low" -v high="$high" -v requests=$((many - few)) 'BEGIN { printf "%.1f", (high - low) / requests }'
}

cache=(--tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null)
printf '| Binary | Connections | Instructions | L1 data misses | Last-level misses | Allocations |\n|---|---|---|---|---|---|\n'
for binary in "$@"; do
    for connections in 64 1000; do
        printf '| %s | %s | %s | %s | %s | %s |\n' "$(basename "$binary")" $connections \
            "$(per_request "$binary" $connections 'I *refs:' "${cache[@]}")" \
            "$(per_request "$binary" $connections 'D1 *misses:' "${cache[@]}")" \
            "$(per_request "$binary" $connections 'LL misses:' "${cache[@]}")" \
            "$(per_request "$binary" $connections 'total heap usage:' --tool=memcheck --leak-check=no)"
    done
done
