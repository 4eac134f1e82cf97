#!/usr/bin/env bash
# Redis load of replicas that share 100 chains with a block every 2 s, measured with 1, 4 and 8 replicas and
# extrapolated linearly to 100. Usage: benches/redis_load.sh [seconds] [replicas...]
#
# Fails unless the replicas together poll each block once. Takes four minutes once everything is built; 100 real
# replicas take 2 GiB and another minute to start.

cd "$(dirname "$0")/.."
. benches/common.sh
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 1 4 8
chains=100

need redis-server "apt-get install redis-server"
need redis-cli "apt-get install redis-tools"
need python3 "apt-get install python3"
need curl "apt-get install curl"

build_service

create_workspace

start_redis() { # on a free port; sets `port`
    local deadline=$((SECONDS + 10)) redis
    until [ $SECONDS -ge $deadline ]; do
        port=$((20000 + RANDOM % 12000))
        redis-server --port $port --bind 127.0.0.1 --save '' --appendonly no --dir "$directory" >"$directory/redis" &
        redis=$!
        sleep 0.3
        if [ "$(redis-cli -p $port info server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')" = $redis ]; then
            started+=($redis)
            return
        fi
    done 2>/dev/null
    cat "$directory/redis" >&2
    echo "redis-server did not start" >&2
    exit 1
}

python3 benches/recorded_node.py >"$directory/node" &
started+=($!)
until node=$(grep . "$directory/node"); do sleep 0.05; done
for chain in $(seq $chains); do
    printf '[chains.c%d]\nchain_id = %d\nrpc_urls = ["http://127.0.0.1:%d/%d"]\n' "$chain" "$chain" "$node" "$chain"
done >"$directory/replica.toml"

admins=()
polls() { # successful polls of all replicas
    for admin in "${admins[@]}"; do
        curl -sSf -m 5 "$admin/metrics"
    done | awk '/^gas_suggestion_polls_total.*"ok"/ { count += $2 } END { print count }'
}

sample() { # polls, time before and after, scripts, their time in µs, publications, bytes in and out, processor time in s
    local began=$EPOCHREALTIME
    printf '%s ' "$(polls)"
    # Reading the metrics of many replicas takes a while, so the counters of Redis have a time of their own.
    printf '%s %s ' "$began" "$EPOCHREALTIME"
    redis-cli -p $port info everything | tr -d '\r' | awk -F'[:,=]' '
        $1 ~ /^cmdstat_(evalsha|publish)$/ { calls[$1] = $3; spent[$1] = $5 }
        $1 == "total_net_input_bytes" { input = $2 }
        $1 == "total_net_output_bytes" { output = $2 }
        $1 ~ /^used_cpu_(user|sys)$/ { cpu += $2 }
        END {
            print calls["cmdstat_evalsha"], spent["cmdstat_evalsha"], calls["cmdstat_publish"], input, output, cpu
        }'
}

print_rates() { # replicas, and per second: scripts, messages, ms in scripts, processor ms, Mbit in, Mbit out
    printf '%8s  %9.0f  %10.0f  %13.1f  %19.1f  %9.2f  %11.2f\n' "$@"
}

echo "per second, over $seconds s, with $chains chains:"
echo "replicas    scripts    messages  ms in scripts  ms of the processor  Mbit in    Mbit out"
rows=()
for replicas in "$@"; do
    start_redis
    admins=()
    first=${#started[@]}
    for _ in $(seq "$replicas"); do
        GAS_REDIS__URL=redis://127.0.0.1:$port start_service --config "$directory/replica.toml"
        started+=("$service")
        admins+=("$admin")
    done
    # Time for the replicas to coordinate.
    sleep 5
    before=$(sample)
    sleep "$seconds"
    after=$(sample)
    row=$(awk -v replicas="$replicas" -v before="$before" -v after="$after" '
        BEGIN {
            split(before, b, " "); split(after, a, " ")
            for (i in a) d[i] = a[i] - b[i]
            polls = d[1] / d[2]
            took = d[3]
            for (i in d) d[i] /= took
            print replicas, d[4], d[6] * replicas, d[5] / 1e3, d[9] * 1e3, d[7] * 8 / 1e6, d[8] * 8 / 1e6, polls
        }')
    read -r -a rates <<<"$row"
    print_rates "${rates[@]:0:7}"
    rows+=("$row")
    awk -v polls="${rates[7]}" -v blocks=$((chains / 2)) 'BEGIN { exit !(polls > 0.95 * blocks && polls < 1.05 * blocks) }' ||
        { echo "NOT once per block: ${rates[7]} polls per second" >&2; exit 1; }
    memory=$(redis-cli -p $port info memory | tr -d '\r' | awk -F: -v replicas="$replicas" '
        { bytes[$1] = $2 }
        END { printf "%.1f MiB are used, %d bytes for each client", bytes["used_memory"] / 2 ^ 20, bytes["mem_clients_normal"] / replicas }')
    value=$(redis-cli -p $port --scan --pattern 'gas:v3:{1:*}:record')
    length=$(redis-cli -p $port strlen "$value")
    usage=$(redis-cli -p $port memory usage "$value")
    for process in $(seq $((${#started[@]} - 1)) -1 $((first - 1))); do
        kill "${started[process]}" && wait "${started[process]}" || true
        unset "started[process]"
    done 2>/dev/null
done
printf '%s\n' "${rows[@]}" | awk '
    { for (i = 2; i <= 7; i++) row[NR, i] = $i; replicas[NR] = $1 }
    END {
        if (NR < 2 || replicas[NR] >= 100) exit
        printf "100"
        for (i = 2; i <= 7; i++)
            printf " %f", row[1, i] + (row[NR, i] - row[1, i]) / (replicas[NR] - replicas[1]) * (100 - replicas[1])
        print ""
    }' >"$directory/extrapolated"
if [ -s "$directory/extrapolated" ]; then
    read -r -a rates <"$directory/extrapolated"
    print_rates "${rates[@]}"
    echo "(the last line is extrapolated)"
fi
echo "with $replicas replicas $memory; a value has $length bytes and takes $usage"
