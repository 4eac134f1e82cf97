#!/usr/bin/env bash
# What 5,000 subscribers of one chain cost, and how long a new value takes to the last of them, with a new
# value twice a second. Usage: benches/streams.sh [subscribers] [values]
#
# Fails when a subscriber misses the newest value, when the median of those times reaches 100 ms, or when a
# subscriber takes 20 KB of the service's resident memory, or when one that never reads takes three times that or
# is not dropped. The other side runs on the same machine and has a good part of that time. Takes a minute once
# everything is built.

cd "$(dirname "$0")/.."
. benches/common.sh
subscribers=${1:-5000}
values=${2:-60}

need curl "apt-get install curl"
need_files $((subscribers + 1000))

cargo build --release --quiet
bench=$(executable streams)

directory=$(mktemp -d)
service=
trap '[ -z "$service" ] || stop_service; rm -r "$directory"' EXIT

wait_for_drops() { # how many stay
    local open
    until open=$(curl -sSf -m 5 "$admin/metrics" | sed -n 's/^gas_suggestion_streams //p') && [ "$open" -le "$1" ]; do
        [ $((SECONDS - began)) -lt 60 ] || { echo "$open streams are still open" >&2; exit 1; }
        sleep 0.2
    done
    echo "those that never read were dropped $((SECONDS - began)) s after the subscribing began"
}

run() { # subscribers, those that never read, values, the chain's name
    local process told say node line
    coproc subscribing { "$bench" "$1" "$2" "$3"; }
    process=$subscribing_PID
    exec {told}<&"${subscribing[0]}" {say}>&"${subscribing[1]}"
    read -r -u "$told" node
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
    echo "${url#http://} $service" >&"$say"
    while read -r -u "$told" line; do
        if [ "$line" = holding ]; then
            wait_for_drops "$1"
            echo >&"$say"
        else
            echo "$line"
        fi
    done
    wait "$process"
    stop_service
    service=
    exec {told}<&- {say}>&-
}

run "$subscribers" 0 "$values" ronin
# With a long name an event has 16 KiB, so that the system's buffers are full after a few of them.
printf '\n500 more that never read, with a write_timeout of 10 s:\n'
run 1 500 10 "$(printf '%16384s' | tr ' ' a)"
