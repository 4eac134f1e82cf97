# What the scripts of this folder share. To be sourced from the repository's root.

set -euo pipefail

need() { # command, how to get it
    command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }
}

# The service needs a file for each connection, and so does the other side.
need_files() { # how many
    ulimit -n "$(ulimit -Hn)"
    if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt "$1" ]; then
        echo "$1 open files are needed, $(ulimit -n) are allowed: raise the hard limit (ulimit -Hn)" >&2
        exit 1
    fi
}

# Builds a bench and prints where its program is.
executable() { # of the bench with this name
    cargo bench --no-run --bench "$1" --message-format=json 2>/dev/null |
        sed -n "s/.*\"executable\":\"\([^\"]*$1-[^\"]*\)\".*/\1/p"
}

# Starts the release build of the service, without arguments on recorded chains, on free loopback
# ports; sets `service` to its process id and `url` and `admin` to where it answers.
start_service() { # its arguments
    local log
    [ $# -gt 0 ] || set -- demo
    log=$(mktemp)
    # The limits are in force, and above what one client can ask.
    GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT=10000000 \
        GAS_LIMITS__REQUEST_BURST_PER_CLIENT=10000000 \
        GAS_LOG__FORMAT=json GAS_SERVER__LISTEN=127.0.0.1:0 GAS_SERVER__ADMIN_LISTEN=127.0.0.1:0 \
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

# A folder of the script's own, `directory`, and the processes that it has `started`: both are gone when it ends.
keep_house() {
    directory=$(mktemp -d)
    started=()
    trap end_all EXIT
}

end_started() {
    local process
    for process in "${started[@]}"; do
        kill "$process" && wait "$process" || true
    done 2>/dev/null
    started=()
}

end_all() {
    end_started
    rm -r "$directory"
}

# Starts a command that tells where it listens, last in a line; sets `address` to that. Its input is this one's.
start_listener() { # command and its arguments
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
