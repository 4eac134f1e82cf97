#!/usr/bin/env bash
# 99th percentile of the latency of GET /v1/{chain}/gas-suggestion on a replica while Redis is paused or down, compared
# with a healthy Redis, in interleaved runs. Usage: benches/redis_faults.sh [rounds [seconds]]
#
# Two replicas share one chain; one of them is loaded over 16 connections. Fails if a request fails, or if the replica
# is not in the state that the run measures (sharing, or polling standalone). Takes a minute and a half per round once
# everything is built; half of that is waiting for the replicas to share again.
#
# Absolute figures drift with the machine, so the ratios are the result. The last column repeats the run with a healthy
# Redis and shows the noise.

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
seconds=${2:-8}

need wrk "apt-get install wrk"
need curl "apt-get install curl"
need redis-server "apt-get install redis-server"
need redis-cli "apt-get install redis-tools"

build_service
reads_binary=$(build_bench reads)

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

start_redis() { # on `port`, or on a free port
    local deadline=$((SECONDS + 20))
    until [ "$(cli INFO server 2>/dev/null | tr -d '\r' | sed -n 's/^process_id://p')" = "${redis:-none}" ]; do
        [ $SECONDS -lt $deadline ] || { echo "redis-server did not start" >&2; exit 1; }
        if [ -z "$redis" ] || ! kill -0 "$redis" 2>/dev/null; then
            port=${port:-$((20000 + RANDOM % 8000))}
            redis-server --port "$port" --bind 127.0.0.1 --save "" --dir "$directory" >"$directory/redis" &
            redis=$!
            disown
            sleep 0.2
            # The port may be in use.
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

# Prints a counter of the service.
count() { # name with labels
    curl -sSf -m 5 "$admin/metrics" | awk -v name="$1" '$1 == name { count = $2 } END { print count + 0 }'
}
poll_slots() { # outcomes
    local outcome sum=0
    for outcome; do
        sum=$((sum + $(count "gas_suggestion_poll_slots_total{chain=\"ronin\",outcome=\"$outcome\"}")))
    done
    echo $sum
}

wait_until_shared() {
    local deadline=$((SECONDS + 20)) before
    before=$(poll_slots claimed yielded)
    until [ "$(count gas_suggestion_redis_up)" = 1 ] && [ "$(poll_slots claimed yielded)" -gt $((before + 1)) ]; do
        [ $SECONDS -lt $deadline ] || { echo "the replicas do not share" >&2; exit 1; }
        sleep 0.2
    done
}

run() { # expected outcomes of poll slots; prints the 99th percentile in µs
    local output before
    before=$(poll_slots "$@")
    output=$(wrk -t2 -c16 -d"${seconds}s" --latency "$url/v1/ronin/gas-suggestion")
    if grep -Eq 'Non-2xx|Socket errors' <<<"$output"; then
        echo "$output" >&2
        exit 1
    fi
    # There is one slot per 2 s. Up to two may be missing.
    if [ $(($(poll_slots "$@") - before)) -lt $((seconds / 2 - 2)) ]; then
        echo "too few poll slots with outcome: $*" >&2
        exit 1
    fi
    awk '$1 == "99%" {
        match($2, /[a-z]+$/)
        unit = substr($2, RSTART)
        print ($2 + 0) * (unit == "s" ? 1e6 : unit == "ms" ? 1e3 : 1)
    }' <<<"$output"
}

ratio() { # first, second
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'
}

wait_until_shared
run claimed yielded >/dev/null
echo "99th percentile in µs, and its ratio to the run with a healthy Redis in the same round"
echo "round  healthy   paused  ratio     down  ratio  healthy again  ratio"
paused_ratios=() down_ratios=() healthy_ratios=()
for round in $(seq "$rounds"); do
    healthy=$(run claimed yielded)
    # Pause for 1 s longer than the run.
    cli CLIENT PAUSE $(((seconds + 1) * 1000)) ALL >/dev/null
    paused=$(run standalone)
    wait_until_shared
    kill_redis
    down=$(run standalone)
    start_redis
    wait_until_shared
    again=$(run claimed yielded)
    paused_ratios+=("$(ratio "$paused" "$healthy")")
    down_ratios+=("$(ratio "$down" "$healthy")")
    healthy_ratios+=("$(ratio "$again" "$healthy")")
    printf '%5d  %7.0f  %7.0f  %s  %7.0f  %s  %13.0f  %s\n' "$round" \
        "$healthy" "$paused" "${paused_ratios[-1]}" "$down" "${down_ratios[-1]}" "$again" "${healthy_ratios[-1]}"
done
printf 'paused:     '
print_median "${paused_ratios[@]}"
printf 'down:       '
print_median "${down_ratios[@]}"
printf 'healthy again: '
print_median "${healthy_ratios[@]}"
