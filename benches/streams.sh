#!/usr/bin/env bash
# What 5,000 subscribers of one chain cost, and how long a new value takes to the last of them, with a new
# value twice a second. Usage: benches/streams.sh [subscribers] [values]
#
# Fails when a subscriber misses the newest value, when the median of those times reaches 100 ms, or when a
# subscriber takes 20 KB of the service's resident memory. The other side runs on the same machine and has a
# good part of that time. Takes a minute once everything is built.

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

coproc subscribing { "$bench" "$subscribers" "$values"; }
process=$subscribing_PID
exec {told}<&"${subscribing[0]}" {say}>&"${subscribing[1]}"
read -r -u "$told" node
cat >"$directory/chains.toml" <<TOML
[chains.ronin]
chain_id = 2020
block_time = "500ms"
rpc_urls = ["http://$node"]
TOML
start_service --config "$directory/chains.toml"
echo "${url#http://} $service" >&"$say"
cat <&"$told"
wait "$process"
