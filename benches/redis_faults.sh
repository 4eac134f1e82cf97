#!/usr/bin/env bash
# The 99th percentile of the latency of GET /v1/{chain}/gas-suggestion on a replica while Redis is paused and while
# it is gone, against the same while it is well, in interleaved runs. Usage: benches/redis_faults.sh [rounds [seconds]]
#
# Two replicas share one chain; one of them is asked over 16 connections, without a pause. Fails when a request
# fails, or when what a run was for was not so: the replica shares, or polls alone. Takes a minute and a half per
# round once everything is built, of which the half is waiting for the replicas to share again.
#
# Absolute figures drift with the machine, and percentiles more than others; the ratios are the result. What the
# machine does to them alone, the last column shows: well once more.

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
seconds=${2:-8}

need wrk "apt-get install wrk"
need curl "apt-get install curl"
need redis-server "apt-get install redis-server"
need redis-cli "apt-get install redis-tools"

cargo build --release --quiet
reads_binary=$(executable reads)

directory=$(mktemp -d)
started=()
redis=
end() {
    for process in "${started[@]}" ${service:-} $redis; do
        kill -KILL "$process" && wait "$process" || true
    done 2>/dev/null
    rm -r "$directory"
}
trap end EXIT

cli() {
    redis-cli -p "$port" "$@"
}

start_redis() { # on `port`, or on one that is free
    local deadline=$((SECONDS + 20))
    until [ "$(cli INFO server 2>/dev/null | tr -d '\r' | sed -n 's/^process_id://p')" = "${redis:-none}" ]; do
        [ $SECONDS -lt $deadline ] || { echo "redis-server did not start" >&2; exit 1; }
        if [ -z "$redis" ] || ! kill -0 "$redis" 2>/dev/null; then
            port=${port:-$((20000 + RANDOM % 8000))}
            redis-server --port "$port" --bind 127.0.0.1 --save "" --dir "$directory" >"$directory/redis" &
            redis=$!
            disown
            sleep 0.2
            # Somebody else may have it.
            kill -0 "$redis" 2>/dev/null || port=
        fi
        sleep 0.05
    done
}

kill_redis() {
    kill -KILL "$redis"
    while kill -0 "$redis" 2>/dev/null; do sleep 0.01; done
    redis=
}

"$reads_binary" node >"$directory/node" &
started+=($!)
until node=$(grep . "$directory/node"); do sleep 0.05; done
port=
start_redis
cat >"$directory/chains.toml" <<TOML
[log]
filter = "info,gas_suggestion::requests=warn"

[redis]
url = "redis://127.0.0.1:$port"

[chains.ronin]
chain_id = 2020
block_time = "2s"
rpc_urls = ["http://$node"]
TOML
start_service --config "$directory/chains.toml"
started+=("$service")
start_service --config "$directory/chains.toml"
started+=("$service")

# Of the service's counters.
count() { # name with labels
    curl -sSf -m 5 "$admin/metrics" | awk -v name="$1" '$1 == name { count = $2 } END { print count + 0 }'
}
turns() { # outcomes
    local outcome sum=0
    for outcome; do
        sum=$((sum + $(count "gas_suggestion_turns_total{chain=\"ronin\",outcome=\"$outcome\"}")))
    done
    echo $sum
}

wait_until_shared() {
    local deadline=$((SECONDS + 20)) before
    before=$(turns claimed left)
    until [ "$(count gas_suggestion_redis_up)" = 1 ] && [ "$(turns claimed left)" -gt $((before + 1)) ]; do
        [ $SECONDS -lt $deadline ] || { echo "the replicas do not share" >&2; exit 1; }
        sleep 0.2
    done
}

run() { # what the turns have to be meanwhile; prints the 99th percentile in µs
    local output before
    before=$(turns "$@")
    output=$(wrk -t2 -c16 -d"${seconds}s" --latency "$url/v1/ronin/gas-suggestion")
    if grep -Eq 'Non-2xx|Socket errors' <<<"$output"; then
        echo "$output" >&2
        exit 1
    fi
    # A turn each two seconds, but one that is waited for in vain.
    if [ $(($(turns "$@") - before)) -lt $((seconds / 2 - 2)) ]; then
        echo "not enough turns were: $*" >&2
        exit 1
    fi
    awk '$1 == "99%" {
        match($2, /[a-z]+$/)
        unit = substr($2, RSTART)
        print ($2 + 0) * (unit == "s" ? 1e6 : unit == "ms" ? 1e3 : 1)
    }' <<<"$output"
}

ratio() { # of the first to the second
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'
}

wait_until_shared
run claimed left >/dev/null
echo "99th percentile in µs, and its ratio to that of the same round with Redis well"
echo "round     well   paused  ratio     gone  ratio     well again  ratio"
of_paused=() of_gone=() of_well=()
for round in $(seq "$rounds"); do
    well=$(run claimed left)
    # A second more than it is measured, so that the run ends within it.
    cli CLIENT PAUSE $(((seconds + 1) * 1000)) ALL >/dev/null
    paused=$(run alone)
    wait_until_shared
    kill_redis
    gone=$(run alone)
    start_redis
    wait_until_shared
    again=$(run claimed left)
    of_paused+=("$(ratio "$paused" "$well")")
    of_gone+=("$(ratio "$gone" "$well")")
    of_well+=("$(ratio "$again" "$well")")
    printf '%5d  %7.0f  %7.0f  %s  %7.0f  %s  %13.0f  %s\n' "$round" \
        "$well" "$paused" "${of_paused[-1]}" "$gone" "${of_gone[-1]}" "$again" "${of_well[-1]}"
done
printf 'paused:     '
print_median "${of_paused[@]}"
printf 'gone:       '
print_median "${of_gone[@]}"
printf 'well again: '
print_median "${of_well[@]}"
