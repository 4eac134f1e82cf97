#!/usr/bin/env bash
# POST /rpc/{chain}: reads from memory per second against an empty hyper service that answers a POST with
# the same body, on 64 keep-alive connections, and what the service adds to the latency of a node where
# it has to ask it. All runs are interleaved. Usage: benches/reads.sh [rounds]
#
# Fails unless the median added latency is under 1 ms, and when the service's own counters say that what
# was measured is something else. Takes less than two minutes once everything is built.
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

cargo build --release --quiet
empty_binary=$(executable empty_hyper)
reads_binary=$(executable reads)

keep_house

start_listener "$reads_binary" node
node=$address
start_listener "$anvil_binary" --port 0 --chain-id 31337 --block-time 2
anvil=$address
cat >"$directory/chains.toml" <<TOML
[chains.ronin]
chain_id = 2020
block_time = "2s"
rpc_urls = ["http://$node"]

[chains.anvil]
chain_id = 31337
block_time = "2s"
rpc_urls = ["http://$anvil"]
TOML
start_service --config "$directory/chains.toml"
started+=("$service")

call='{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x00000000000000000000000000000000000000aa","latest"]}'
start_listener "$empty_binary" "$(curl -sSf -m 5 --json "$call" "$url/rpc/ronin")"
empty=$address
empty_process=${started[-1]}

# Of the service's counters.
count() { # name with labels
    curl -sSf -m 5 "$admin/metrics" | awk -v name="$1" '$1 == name { count = $2 } END { print count + 0 }'
}
reused() { count "gas_suggestion_reads_total{chain=\"$1\",outcome=\"reused\"}"; }
answered() { count "gas_suggestion_reads_total{chain=\"$1\",outcome=\"answered\"}"; }
asked() { count "gas_suggestion_upstream_reads_total{chain=\"$1\",upstream=\"0\",outcome=\"ok\"}"; }

# What the others on the machine do shows in the rates, but little in the processor time.
spent() { # process; in seconds
    awk -v hertz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hertz }' "/proc/$1/stat"
}

run() { # URL, process behind it; prints requests a second, their number, processor time of each in µs
    local output spent_before
    spent_before=$(spent "$2")
    output=$(wrk -t2 -c64 -d${seconds}s -s benches/post.lua "$1" -- "$call")
    ! grep -Eq 'Non-2xx|Socket errors' <<<"$output" || { echo "$output" >&2; exit 1; }
    awk -v spent="$(spent "$2")" -v before="$spent_before" '
        /^Requests\/sec:/ { rate = $2 }
        / requests in / { count = $1 }
        END { printf "%s %s %.1f\n", rate, count, (spent - before) / count * 1e6 }' <<<"$output"
}

run "$url/rpc/ronin" "$service" >/dev/null
run "http://$empty/" "$empty_process" >/dev/null
echo "reads from memory a second, and processor time of each (µs)"
echo "round  service  empty-hyper  ratio  service  empty-hyper"
ratios=()
requests=0
reused_before=$(reused ronin)
asked_before=$(asked ronin)
for round in $(seq "$rounds"); do
    measured=$(run "$url/rpc/ronin" "$service")
    read -r ours ours_count ours_spent <<<"$measured"
    measured=$(run "http://$empty/" "$empty_process")
    read -r theirs _ theirs_spent <<<"$measured"
    requests=$((requests + ours_count))
    ratios+=("$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')")
    printf '%5d  %7.0f  %11.0f  %s  %7s  %11s\n' \
        "$round" "$ours" "$theirs" "${ratios[-1]}" "$ours_spent" "$theirs_spent"
done
print_median "${ratios[@]}"
from_memory=$(($(reused ronin) - reused_before))
calls=$(($(asked ronin) - asked_before))
echo "of $requests reads $from_memory were answered from memory; the node was asked $calls times"
is_well=true
# Those that come while the answer for a new block is under way wait for it. One or two calls a block,
# and as many for answers that came to their end before.
if [ $((from_memory * 100)) -lt $((requests * 99)) ] || [ "$calls" -gt $((rounds * seconds * 4)) ]; then
    echo "NOT from memory"
    is_well=false
fi

compare() { # chain, its node, what the node is
    printf '\nreads that nobody has asked before, of %s and of the service before it, by turns\n' "$3"
    local new=$(((rounds + 1) * pairs)) reused_before answered_before asked_before
    reused_before=$(reused "$1")
    answered_before=$(answered "$1")
    asked_before=$(asked "$1")
    timeout $((rounds * 5 + 5)) "$reads_binary" compare "$2" "${url#http://}/rpc/$1" "$rounds" "$pairs" || is_well=false
    if [ $(($(answered "$1") - answered_before)) = $new ] && [ $(($(asked "$1") - asked_before)) = $new ] &&
        [ "$(reused "$1")" = "$reused_before" ]; then
        echo "each of $new reads was asked of the node"
    else
        echo "NOT each of $new reads was asked of the node"
        is_well=false
    fi
}
compare ronin "$node" "a node that answers at once"
compare anvil "$anvil" anvil

$is_well
