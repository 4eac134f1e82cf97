# Shared by the scripts of this folder; sourced from the repository root.

set -euo pipefail

need() { # command, how to get it
    command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }
}

# Raises the limit of open files: the service and the client each need one per connection.
need_files() { # how many
    ulimit -n "$(ulimit -Hn)"
    if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt "$1" ]; then
        echo "$1 open files are needed, $(ulimit -n) are allowed: raise the hard limit (ulimit -Hn)" >&2
        exit 1
    fi
}

# Builds the service as in packages, at target/release/gas-suggestion.
build_service() {
    cargo build --release --quiet
}

# Builds a bench and prints the path of its executable. Its build of the service has what tests need, so it is replaced.
build_bench() { # name
    cargo bench --no-run --bench "$1" --message-format=json 2>/dev/null |
        sed -n "s/.*\"executable\":\"\([^\"]*$1-[^\"]*\)\".*/\1/p"
    build_service
}

# Starts the release build of the service on free loopback ports; without arguments, the command `demo`. Sets `service`
# to its process id, and `url` and `admin` to its URLs.
start_service() { # arguments of the service
    local log
    [ $# -gt 0 ] || set -- demo
    log=$(mktemp)
    # Rate limits stay enabled, above what one client can send.
    GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT=10000000 \
        GAS_LIMITS__REQUEST_BURST_PER_CLIENT=10000000 \
        GAS_HISTORY__REFILL=false GAS_LOG__FORMAT=json GAS_SERVER__LISTEN=127.0.0.1:0 GAS_SERVER__ADMIN_LISTEN=127.0.0.1:0 \
        target/release/gas-suggestion "$@" 2>"$log" &
    service=$!
    local deadline=$((SECONDS + 10))
    until url=http://$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$log" | grep .) &&
        curl -sf "$url/readyz" >/dev/null; do
        [ $SECONDS -lt $deadline ] || { cat "$log" >&2; echo "the service did not start" >&2; exit 1; }
        sleep 0.05
    done
    admin=http://$(sed -n 's/.*"admin":"\([^"]*\)".*/\1/p' "$log")
    rm "$log"
}

stop_service() {
    kill "$service" && wait "$service" || true
}

print_median() { # ratios
    printf '%s\n' "$@" | sort -n | awk '
        { ratio[NR] = $1 }
        END { printf "median ratio %.3f (from %.3f to %.3f)\n", ratio[int((NR + 1) / 2)], ratio[1], ratio[NR] }'
}

# Creates the temporary folder `directory` and the list `started` of processes; both are cleaned up on exit.
create_workspace() {
    directory=$(mktemp -d)
    started=()
    trap clean_up EXIT
}

stop_started() {
    local process
    for process in "${started[@]}"; do
        kill "$process" && wait "$process" || true
    done 2>/dev/null
    started=()
}

clean_up() {
    stop_started
    rm -r "$directory"
}

# Starts a command that prints the address on which it listens at the end of a line; sets `address`. The command
# inherits stdin.
start_listener() { # command, its arguments
    local output deadline=$((SECONDS + 20))
    output=$(mktemp -p "$directory")
    "$@" >>"$output" 2>&1 <&0 &
    started+=($!)
    until address=$(sed -n 's/^\(Listening on \)\?\(127\.0\.0\.1:[0-9]*\)$/\2/p' "$output" | grep .); do
        [ $SECONDS -lt $deadline ] || { cat "$output" >&2; echo "$1 did not start" >&2; exit 1; }
        sleep 0.05
    done
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
