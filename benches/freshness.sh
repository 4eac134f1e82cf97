#!/usr/bin/env bash
# Delay from a node's new block to the service's first response for it, and the polls per block. The nodes are anvil and
# the recorded chains of `demo`, with blocks every 2 s and every 250 ms, regular or with 20 % jitter. With anvil, a
# second service uses announcements (ws_urls). Plain tickers that start at different times poll each node too.
# Prints a Markdown table.
# Usage: benches/freshness.sh [blocks of 2 s] [blocks of 250 ms]
#
# PEER="NAME PATH MEMBER COMMAND" adds another service: COMMAND runs with RPC_URL and PORT in its environment, polls
# anvil with regular blocks of 2 s, and serves at PATH a JSON object with its block number in MEMBER.
#
# Fails if a limit is exceeded with regular blocks. Without announcements: a median of 20 ms, a 99th percentile of
# 100 ms, 1.5 polls per block. With announcements every 2 s: a median of 15 ms, 1.0 polls per block. All nodes of one
# block time run concurrently. Counts from the sixth block on. Takes seven minutes once everything is built.

cd "$(dirname "$0")/.."
. benches/common.sh
blocks_of_2s=${1:-150}
blocks_of_250ms=${2:-400}
anvil_binary=${ANVIL:-tests/node/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil}

need curl "apt-get install curl"
need "$anvil_binary" "run tests/run.sh, or set ANVIL to the path of Foundry's anvil"

build_service
bench=$(build_bench freshness)

create_workspace
# Processes that read this FIFO end with this script, even if it is killed.
mkfifo "$directory/alive"
exec {alive}<>"$directory/alive"

start_watched_service() { # name, chain, node, chain id, block time in ms, more configuration; extends `services`
    local config=$directory/$1.toml
    cat >"$config" <<TOML
[chains.$2]
chain_id = $4
rpc_urls = ["http://$3"]
block_time = "$5ms"
$6
TOML
    start_service --config "$config"
    started+=("$service")
    services+=("$1=${url#http://},${admin#http://},$2")
}

start_peer() { # name, path, member, command
    local port deadline=$((SECONDS + 60))
    port=$(free_port)
    RPC_URL=http://$node PORT=$port "${@:4}" >"$directory/peer" 2>&1 &
    started+=($!)
    until curl -sf "http://127.0.0.1:$port$2" | grep -q "\"$3\":[0-9]"; do
        [ $SECONDS -lt $deadline ] || { cat "$directory/peer" >&2; echo "$1 did not start" >&2; exit 1; }
        sleep 0.2
    done
    services+=("$1=127.0.0.1:$port$2,$3")
}

watch() { # kind, blocks, node, block time in ms
    local kind=$1
    { "$bench" watch "$2" "$3" "$4" 60 "${services[@]}" | sed "s/^/$kind,/" >"$directory/rows-$kind.csv"; } &
    watching+=($!)
}

measure() { # block time in ms, blocks
    local block=$1 blocks=$2 jitter services watching=() node
    for jitter in 0 20; do
        if [ $jitter = 0 ]; then
            start_listener "$anvil_binary" --port 0 --chain-id 31337 --block-time "$(awk "BEGIN { print $block / 1000 }")" <"$directory/alive"
            node=$address
        else
            start_listener "$anvil_binary" --port 0 --chain-id 31337 --no-mining <"$directory/alive"
            node=$address
            "$bench" mine "$node" "$block" $jitter <"$directory/alive" &
            started+=($!)
        fi
        services=()
        start_watched_service "by-schedule" anvil "$node" 31337 "$block" ""
        start_watched_service "by-announcements" anvil "$node" 31337 "$block" "ws_urls = [\"ws://$node\"]"
        [ "$block-$jitter" != 2000-0 ] || [ -z "${PEER:-}" ] || start_peer $PEER
        watch "anvil-$block-$jitter" "$blocks" "$node" "$block"
        start_listener "$bench" node "$block" $jitter <"$directory/alive"
        services=()
        start_watched_service "by-schedule" ethereum "$address/ethereum" 1 "$block" ""
        watch "demo-$block-$jitter" "$blocks" "$address/ethereum" "$block"
    done
    for process in "${watching[@]}"; do
        wait "$process"
    done
    stop_started
}

measure 2000 "$blocks_of_2s"
measure 250 "$blocks_of_250ms"

printf '| Node | Blocks | Polled | Polls per block | Median | 90 %% | 99 %% | Maximum |\n|---|---|---|---|---|---|---|---|\n'
awk -F, '
    {
        split($1, node, "-")
        irregular = node[3] > 0 ? " ± " node[3] " %" : ""
        gsub("-", " ", $2)
        printf "| %s | %d every %s ms%s | %s | %s | %s ms | %s ms | %s ms | %s ms |\n",
            node[1], $3, node[2], irregular, $2, $4, $5, $6, $7, $8
        if (node[3] == 0 && $2 == "by schedule" && ($4 > 1.5 || $5 > 20 || $7 > 100)) failed = 1
        if (node[2] == 2000 && node[3] == 0 && $2 == "by announcements" && ($4 > 1.0 || $5 > 15)) failed = 1
    }
    END { exit failed }' "$directory"/rows-{anvil,demo}-{2000,250}-{0,20}.csv ||
    { echo "A limit is exceeded" >&2; exit 1; }
