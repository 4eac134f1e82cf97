#!/usr/bin/env bash
# Requests per second of GET /v1/{chain}/gas-suggestion against an empty hyper service on the same
# machine, in interleaved runs with 64 keep-alive connections. Usage: benches/serving.sh [rounds]
#
# Absolute figures drift with the machine; the ratio is the result.

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
seconds=5

need wrk "apt-get install wrk"
need curl "apt-get install curl"

cargo build --release --quiet
empty_binary=$(cargo bench --no-run --bench empty_hyper --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*empty_hyper[^"]*\)".*/\1/p')

start_service
coproc EMPTY { exec "$empty_binary"; }
empty=$EMPTY_PID
trap 'stop_service; kill $empty 2>/dev/null' EXIT
read -r empty_address <&"${EMPTY[0]}"

run() {
    wrk -t2 -c64 -d${seconds}s "$1" | sed -n 's/^Requests\/sec: *//p'
}

run "$url/v1/ethereum/gas-suggestion" >/dev/null
run "http://$empty_address/" >/dev/null
printf 'round  service  empty-hyper  ratio\n'
ratios=()
for round in $(seq "$rounds"); do
    ours=$(run "$url/v1/ethereum/gas-suggestion")
    theirs=$(run "http://$empty_address/")
    ratios+=("$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')")
    printf '%5d  %7.0f  %11.0f  %s\n' "$round" "$ours" "$theirs" "${ratios[-1]}"
done
print_median "${ratios[@]}"
