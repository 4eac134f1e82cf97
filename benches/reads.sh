#!/usr/bin/env bash
# POST /rpc/{chain}: processor time of cached reads on 64 keep-alive connections, compared with prices. Also the latency that
# the service adds to uncached reads. All runs are interleaved. Usage: benches/reads.sh [rounds]
#
# Fails if a cached read takes more than one and a half times the processor time of a price, if the median added latency is 1
# ms or more, or if the service's counters show that cached reads reached the node or that uncached reads did not. Takes less
# than two minutes once everything is built.
#
# Absolute figures drift with the machine; the ratio and the difference are the results.

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
seconds=5
pairs=1000
anvil_binary=${ANVIL:-tests/node/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil}

need wrk "apt-get install wrk"
need curl "apt-get install curl"
need timeout "apt-get install coreutils"
need "$anvil_binary" "run tests/run.sh, or set ANVIL to the path of Foundry's anvil"

build_service
reads_binary=$(build_bench reads)

create_workspace

start_listener "$reads_binary" node
node=$address
start_listener "$anvil_binary" --port 0 --chain-id 31337 --block-time 2
anvil=$address
cat >"$directory/chains.toml" <<TOML
[chains.ronin]
chain_id = 2020
json_rpc = true
block_time = "2s"
rpc_urls = ["http://$node"]

[chains.anvil]
chain_id = 31337
json_rpc = true
block_time = "2s"
rpc_urls = ["http://$anvil"]
TOML
start_service --config "$directory/chains.toml"
started+=("$service")

call='{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x00000000000000000000000000000000000000aa","latest"]}'

# Prints a counter of the service.
count() { # name with labels
    curl -sSf -m 5 "$admin/metrics" | awk -v name="$1" '$1 == name { count = $2 } END { print count + 0 }'
}
from_cache() { count "gas_suggestion_reads_total{chain=\"$1\",outcome=\"cached\"}"; }
from_node() { count "gas_suggestion_reads_total{chain=\"$1\",outcome=\"ok\"}"; }
forwarded() { count "gas_suggestion_upstream_reads_total{chain=\"$1\",upstream=\"0\",outcome=\"ok\"}"; }

# Processor time depends less on other load than the rates do.
cpu_seconds() { # process
    awk -v hertz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hertz }' "/proc/$1/stat"
}

run() { # path, arguments of wrk; prints the number of requests, and the processor time of each in µs
    local output path=$1 cpu_before
    shift
    cpu_before=$(cpu_seconds "$service")
    output=$(wrk -t2 -c64 -d${seconds}s "$@" "$url$path" -- "$call")
    ! grep -Eq 'Non-2xx|Socket errors' <<<"$output" || { echo "$output" >&2; exit 1; }
    awk -v cpu="$(cpu_seconds "$service")" -v before="$cpu_before" '
        / requests in / { printf "%s %.2f\n", $1, (cpu - before) / $1 * 1e6 }' <<<"$output"
}
read_cached() { run /rpc/ronin -s benches/post.lua; }
read_price() { run /v1/ronin/gas-suggestion; }

read_cached >/dev/null
read_price >/dev/null
echo "processor time of a cached read and of a price (µs)"
ratios=()
requests=0
from_cache_before=$(from_cache ronin)
forwarded_before=$(forwarded ronin)
for round in $(seq "$rounds"); do
    read -r count read_cpu <<<"$(read_cached)"
    read -r _ price_cpu <<<"$(read_price)"
    requests=$((requests + count))
    ratios+=("$(awk -v a="$read_cpu" -v b="$price_cpu" 'BEGIN { printf "%.3f", a / b }')")
    printf '%5d  %7s  %7s  %s\n' "$round" "$read_cpu" "$price_cpu" "${ratios[-1]}"
done
print_median "${ratios[@]}"
cached=$(($(from_cache ronin) - from_cache_before))
calls=$(($(forwarded ronin) - forwarded_before))
echo "$cached of $requests reads came from the cache; the node received $calls calls"
passed=true
printf '%s\n' "${ratios[@]}" | sort -n | awk '{ v[NR] = $1 } END { exit !(v[int((NR + 1) / 2)] <= 1.5) }' || {
    echo "NOT within one and a half times of a price"
    passed=false
}
# Reads that arrive while a call is in flight wait for its result and do not count as cached. The node receives one or
# two calls per block, and as many for results that expire in between.
if [ $((cached * 100)) -lt $((requests * 99)) ] || [ "$calls" -gt $((rounds * seconds * 4)) ]; then
    echo "NOT cached"
    passed=false
fi

compare() { # chain, its node, description of the node
    printf '\nuncached reads, alternately from %s and from the service in front of it\n' "$3"
    local new=$(((rounds + 1) * pairs)) from_cache_before from_node_before forwarded_before
    from_cache_before=$(from_cache "$1")
    from_node_before=$(from_node "$1")
    forwarded_before=$(forwarded "$1")
    timeout $((rounds * 5 + 5)) "$reads_binary" compare "$2" "${url#http://}/rpc/$1" "$rounds" "$pairs" || passed=false
    if [ $(($(from_node "$1") - from_node_before)) = $new ] && [ $(($(forwarded "$1") - forwarded_before)) = $new ] &&
        [ "$(from_cache "$1")" = "$from_cache_before" ]; then
        echo "each of $new reads was forwarded to the node"
    else
        echo "NOT each of $new reads was forwarded to the node"
        passed=false
    fi
}
compare ronin "$node" "a node that responds at once"
compare anvil "$anvil" anvil

$passed
