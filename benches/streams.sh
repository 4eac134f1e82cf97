#!/usr/bin/env bash
# Memory of 5,000 subscribers of one chain, and the time until the last of them has a new value, with two values per
# second. Usage: benches/streams.sh [subscribers] [values]
#
# Fails if a subscriber misses the newest value, if the median time reaches 100 ms, if a subscriber takes 20 KB of the
# service's resident memory, or if one that never reads takes 60 KB or is not disconnected. The subscribers run on the
# same machine and account for much of the time. Takes a minute once everything is built.

cd "$(dirname "$0")/.."
. benches/common.sh
subscribers=${1:-5000}
values=${2:-60}

need curl "apt-get install curl"
need_files $((subscribers + 1000))

build_service
bench=$(build_bench streams)

directory=$(mktemp -d)
service=
trap '[ -z "$service" ] || stop_service; rm -r "$directory"' EXIT

wait_for_disconnects() { # number of streams that stay
    local open
    until open=$(curl -sSf -m 5 "$admin/metrics" | sed -n 's/^gas_suggestion_streams //p') && [ "$open" -le "$1" ]; do
        [ $((SECONDS - began)) -lt 60 ] || { echo "$open streams are still open" >&2; exit 1; }
        sleep 0.2
    done
    echo "subscribers that never read were disconnected $((SECONDS - began)) s after the first subscription"
}

run() { # subscribers, subscribers that never read, values, the chain's name
    local process bench_output bench_input node line
    coproc subscribing { "$bench" "$1" "$2" "$3"; }
    process=$subscribing_PID
    exec {bench_output}<&"${subscribing[0]}" {bench_input}>&"${subscribing[1]}"
    read -r -u "$bench_output" node
    cat >"$directory/chains.toml" <<TOML
[limits]
write_timeout = "10s"

[chains.ronin]
name = "$4"
chain_id = 2020
block_time = "500ms"
rpc_urls = ["http://$node"]
TOML
    start_service --config "$directory/chains.toml"
    began=$SECONDS
    echo "${url#http://} $service" >&"$bench_input"
    while read -r -u "$bench_output" line; do
        if [ "$line" = holding ]; then
            wait_for_disconnects "$1"
            echo >&"$bench_input"
        else
            echo "$line"
        fi
    done
    wait "$process"
    stop_service
    service=
    exec {bench_output}<&- {bench_input}>&-
}

run "$subscribers" 0 "$values" ronin
# A long chain name makes events of 16 KiB, so that a few of them fill the socket buffers.
printf '\n500 subscribers that never read, with a write_timeout of 10 s:\n'
run 1 500 10 "$(printf '%16384s' | tr ' ' a)"
