#!/usr/bin/env bash
# Peak memory of the service while it forwards uploads of 25 MiB: chunked and with a length, to a fast and to a slow
# upstream. Takes half a minute once everything is built.
#
# Fails if a single upload adds 4 MiB or more at the peak. Concurrent uploads are only reported.

cd "$(dirname "$0")/.."
. benches/common.sh
size=$((25 * 1024 * 1024))
max_growth=4096
many=16

need curl "apt-get install curl"

build_service
upstream_binary=$(build_bench verification_memory)
node_binary=$(build_bench reads)

directory=$(mktemp -d)
service=
node=
upstream=
clean_up() {
    for process in $service $node $upstream; do
        kill "$process" && wait "$process" || true
    done 2>/dev/null
    service= node= upstream=
}
trap 'clean_up; rm -r "$directory"' EXIT
head -c $size /dev/urandom >"$directory/input.json"

wait_for() { # file with an address; prints the address
    local deadline=$((SECONDS + 10))
    until grep '^127' "$1"; do
        [ $SECONDS -lt $deadline ] || { echo "no address in $1" >&2; exit 1; }
        sleep 0.05
    done
}

# Restarts everything: memory retained after one upload would hide the next one's growth.
start_all() { # milliseconds between two reads of the upstream
    clean_up
    "$upstream_binary" "$1" >"$directory/upstream" &
    upstream=$!
    "$node_binary" node >"$directory/node" &
    node=$!
    cat >"$directory/chains.toml" <<TOML
[verification]
url = "http://$(wait_for "$directory/upstream")/server"

[chains.ronin]
chain_id = 2020
rpc_urls = ["http://$(wait_for "$directory/node")"]
TOML
    start_service --config "$directory/chains.toml"
}

kib() { # VmRSS or VmHWM
    awk -v name="$1:" '$1 == name { print $2 }' "/proc/$service/status"
}

upload() { # more arguments for curl
    local received
    received=$(curl -sSf -m 60 -H 'Expect:' -F chain=2020 -F "files=@$directory/input.json" "$@" "$url/verification/")
    [ "$received" -ge $size ] || { echo "the upstream got $received bytes" >&2; exit 1; }
}

passed=true
printf '%-36s %8s %8s %8s %8s (KiB)\n' "25 MiB" before peak after growth
measure() { # label, the upstream's pause in ms, concurrent uploads, more arguments for curl
    local label=$1 count=$3 before peak uploads=()
    start_all "$2"
    shift 3
    before=$(kib VmRSS)
    echo 5 >"/proc/$service/clear_refs"
    for _ in $(seq "$count"); do
        upload "$@" &
        uploads+=($!)
    done
    for one in "${uploads[@]}"; do
        wait "$one" || { echo "$label: an upload failed" >&2; exit 1; }
    done
    peak=$(kib VmHWM)
    printf '%-36s %8d %8d %8d %8d\n' "$label" "$before" "$peak" "$(kib VmRSS)" $((peak - before))
    [ "$count" -gt 1 ] || [ $((peak - before)) -lt $max_growth ] || passed=false
}

chunked='Transfer-Encoding: chunked'
measure "chunked, fast upstream" 0 1 -H "$chunked"
measure "with a length, fast upstream" 0 1
measure "chunked, slow upstream" 5 1 -H "$chunked"
measure "with a length, slow upstream" 5 1
measure "$many at once, chunked, slow" 5 $many -H "$chunked"
measure "$many at once, with a length, slow" 5 $many

$passed || { echo "an upload added 4 MiB or more" >&2; exit 1; }
