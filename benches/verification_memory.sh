#!/usr/bin/env bash
# Resident memory of the service while uploads of 25 MiB pass through it: in chunks and with a length, to
# an upstream that takes them at once and to one that takes its time. Takes half a minute once everything
# is built.
#
# Fails when one upload takes 4 MiB or more at any moment; what many at once take is told.

cd "$(dirname "$0")/.."
. benches/common.sh
size=$((25 * 1024 * 1024))
most=4096
many=16

need curl "apt-get install curl"

cargo build --release --quiet
upstream_binary=$(executable verification_memory)
node_binary=$(executable reads)

directory=$(mktemp -d)
service=
node=
upstream=
end_all() {
    for process in $service $node $upstream; do
        kill "$process" && wait "$process" || true
    done 2>/dev/null
    service= node= upstream=
}
trap 'end_all; rm -r "$directory"' EXIT
head -c $size /dev/urandom >"$directory/input.json"

wait_for() { # file with an address; prints that
    local deadline=$((SECONDS + 10))
    until grep '^127' "$1"; do
        [ $SECONDS -lt $deadline ] || { echo "nobody told an address" >&2; exit 1; }
        sleep 0.05
    done
}

# Starts all anew: what one upload has left behind would hide what the next one takes.
start_all() { # milliseconds between two reads of the upstream
    end_all
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

upload() { # further arguments of curl
    local taken
    taken=$(curl -sSf -m 60 -H 'Expect:' -F chain=2020 -F "files=@$directory/input.json" "$@" "$url/verification/")
    [ "$taken" -ge $size ] || { echo "the upstream got $taken bytes" >&2; exit 1; }
}

is_well=true
printf '%-36s %8s %8s %8s %8s (KiB)\n' "25 MiB" before peak after growth
measure() { # what it is, the upstream's pause, how many at once, further arguments of curl
    local what=$1 count=$3 before peak uploads=()
    start_all "$2"
    shift 3
    before=$(kib VmRSS)
    echo 5 >"/proc/$service/clear_refs"
    for _ in $(seq "$count"); do
        upload "$@" &
        uploads+=($!)
    done
    for one in "${uploads[@]}"; do
        wait "$one" || { echo "$what: an upload failed" >&2; exit 1; }
    done
    peak=$(kib VmHWM)
    printf '%-36s %8d %8d %8d %8d\n' "$what" "$before" "$peak" "$(kib VmRSS)" $((peak - before))
    [ "$count" -gt 1 ] || [ $((peak - before)) -lt $most ] || is_well=false
}

chunked='Transfer-Encoding: chunked'
measure "in chunks, taken at once" 0 1 -H "$chunked"
measure "with a length, taken at once" 0 1
measure "in chunks, taken slowly" 5 1 -H "$chunked"
measure "with a length, taken slowly" 5 1
measure "$many at once, in chunks, slowly" 5 $many -H "$chunked"
measure "$many at once, with a length, slowly" 5 $many

$is_well || { echo "one upload took 4 MiB or more" >&2; exit 1; }
