#!/usr/bin/env bash
# GET /v1/{chain}/gas-suggestion with every feature enabled, compared with hyper, which sends the same headers and body, and
# with nginx, which serves the same body as a static file and from its memory. Measures requests per second, the 99th
# percentile of the latency and processor time per request on 64 and on 1,000 keep-alive connections, and also 304, HEAD,
# and with a log line per request. The own share is the processor time per request beyond hyper's. Prints Markdown tables.
# Usage: benches/serving.sh [rounds]
#
# wrk runs on the same processors. Absolute figures drift with the machine, so the results are ratios of interleaved
# runs: median, minimum and maximum of the rounds. The last table compares other routes with the price. The script fails if
# one takes more than twice its processor time, or if the own share exceeds 1.0 µs, or 1.5 µs on 1,000 connections.

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
routes=(/v1/gas-suggestions /v1/ethereum/fee-market /v1/ethereum/score "/v1/ethereum/fees?within=3&probability=0.95"
    "/v1/ethereum/fees?within=30s&hold=60s" "/v1/ethereum/cost?gas=21000&hold=30s&probability=0.999" /v1/ethereum/fee-trend
    /networks/1/suggestedGasFees "/gasprices/blockprices?chainid=1" "/api?module=gastracker&action=gasoracle&chainid=1"
    /compat/flat/1 /v1/ethereum/badge.svg /openapi.json /)
seconds=${SECONDS_PER_RUN:-4}
PATH=$PATH:/usr/sbin

need wrk "apt-get install wrk"
need curl "apt-get install curl"
need nginx "apt-get install nginx"
need ab "apt-get install apache2-utils"
need_files 5000

build_service
bare_binary=$(build_bench bare_hyper)

create_workspace

start_service demo --block-time 1h
started+=("$service")
logging=$service logging_url=$url
# No access log, as with nginx; rate limits stay enabled.
export GAS_LOG__FILTER="info,gas_suggestion::requests=warn"
start_service demo --block-time 1h
started+=("$service")
path=/v1/ethereum/gas-suggestion
curl -sSf --include "$url$path" >"$directory/response"
coproc BARE { exec "$bare_binary" "$directory/response"; }
started+=("$BARE_PID")
read -r -u "${BARE[0]}" bare_address
bare_url=http://$bare_address$path

mkdir -p "$directory/files$(dirname "$path")"
# nginx reads the files as another user.
chmod 755 "$directory"
curl -sSf "$url$path" >"$directory/files$path"
# Starts nginx. Sets `nginx_url` and `nginx_processes`.
start_nginx() { # value of access_log
    local port folder deadline
    port=$(free_port)
    folder=$(mktemp -d -p "$directory")
    cat >"$folder/nginx.conf" <<CONF
worker_processes $(nproc);
worker_rlimit_nofile 8192;
daemon off;
pid $folder/nginx.pid;
error_log $folder/nginx.log;
events { worker_connections 4096; }
http {
    access_log $1;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    keepalive_requests 100000000;
    keepalive_timeout 1h;
    default_type application/json;
    client_body_temp_path $folder; proxy_temp_path $folder; fastcgi_temp_path $folder;
    uwsgi_temp_path $folder; scgi_temp_path $folder;
    server {
        listen 127.0.0.1:$port backlog=4096;
        root $directory/files;
        location = /memory { return 200 '$(cat "$directory/files$path")'; }
    }
}
CONF
    nginx -c "$folder/nginx.conf" 2>/dev/null &
    nginx_processes=$!
    started+=("$nginx_processes")
    nginx_url=http://127.0.0.1:$port$path
    deadline=$((SECONDS + 10))
    until curl -sf "$nginx_url" >/dev/null; do
        [ $SECONDS -lt $deadline ] || { tail -n 3 "$folder/nginx.log" >&2; echo "nginx did not start" >&2; exit 1; }
        sleep 0.05
    done
    cmp "$directory/files$path" <(curl -sSf "$nginx_url")
    cmp "$directory/files$path" <(curl -sSf "http://127.0.0.1:$port/memory")
    cmp "$directory/files$path" <(curl -sSf "$bare_url")
    nginx_processes="$nginx_processes $(pgrep -P "$nginx_processes" | tr '\n' ' ')"
}
start_nginx "$directory/access.log"
logging_nginx=$nginx_processes logging_nginx_url=$nginx_url
start_nginx off
memory_url=${nginx_url%"$path"}/memory

tag=$(curl -sSf -D- -o/dev/null "$url$path" | tr -d '\r' | sed -n 's/^etag: //ip')

ticks() { # processes
    local process total=0
    for process in "$@"; do
        total=$((total + $(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$process/stat")))
    done
    echo "$total"
}

declare -A processes=([service]=$service [bare]=$BARE_PID [nginx]=$nginx_processes
    [logging]=$logging [logging-nginx]=$logging_nginx)

# One run. Appends requests per second, 99th percentile in ms and processor time per request in µs to the result file.
run() { # result file, server, connections, URL, more arguments for wrk
    local result=$1 server_processes=${processes[$2]} connections=$3 target=$4 before after output
    shift 4
    before=$(ticks $server_processes)
    output=$(wrk -t2 -c"$connections" -d"${seconds}s" --latency "$@" "$target")
    after=$(ticks $server_processes)
    if grep -qE 'Socket errors|Non-2xx or 3xx' <<<"$output"; then
        echo "$result: $output" >&2
        exit 1
    fi
    awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" '
        $1 == "99%" { unit = $2; sub(/[0-9.]+/, "", unit); p99 = $2 * (unit == "us" ? 0.001 : unit == "s" ? 1000 : 1) }
        / requests in / { requests = $1 }
        $1 == "Requests/sec:" { rate = $2 }
        END { printf "%.0f %.3f %.2f\n", rate, p99, ticks / hz * 1e6 / requests }' <<<"$output" >>"$directory/$result"
}

# wrk waits for a body after HEAD, so this uses ab. ab is too slow to saturate the service; only the processor time is
# meaningful.
run_ab() { # result file, more arguments for ab
    local result=$1 before after requests=100000
    shift
    before=$(ticks "$service")
    ab -q -k -c 64 -n $requests "$@" "$url$path" >"$directory/ab" 2>&1
    after=$(ticks "$service")
    grep -qx 'Failed requests: *0' "$directory/ab" || { cat "$directory/ab" >&2; exit 1; }
    awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" -v requests=$requests '
        $1 == "99%" { p99 = $2 }
        $1 == "Requests" && $2 == "per" { rate = $4 }
        END { printf "%.0f %.3f %.2f\n", rate, p99, ticks / hz * 1e6 / requests }' "$directory/ab" >>"$directory/$result"
}

served() { # number of suggestion responses
    curl -sSf "$admin/metrics" |
        awk '/^gas_suggestion_suggestion_responses_total.*chain="ethereum"/ { sum += $2 } END { printf "%.0f\n", sum }'
}

run warm service 64 "$url$path"
before=$(served)
for _ in $(seq "$rounds"); do
    run service-64 service 64 "$url$path"
    run nginx-64 nginx 64 "$nginx_url"
    run memory-64 nginx 64 "$memory_url"
    run bare-64 bare 64 "$bare_url"
    run not-modified-64 service 64 "$url$path" -H "If-None-Match: $tag"
    run logging-64 logging 64 "$logging_url$path"
    run logging-nginx-64 logging-nginx 64 "$logging_nginx_url"
    for index in "${!routes[@]}"; do
        run "route-$index" service 64 "$url${routes[index]}"
    done
    : >"$directory/access.log"
    run_ab head-64 -i
    run_ab get-64
    run service-1000 service 1000 "$url$path"
    run nginx-1000 nginx 1000 "$nginx_url"
    run memory-1000 nginx 1000 "$memory_url"
    run bare-1000 bare 1000 "$bare_url"
done
[ $(($(served) - before)) -gt 1000 ] || { echo "the requests did not reach the service" >&2; exit 1; }

# `median` prints the median of a column, `ratio` the median, minimum and maximum of the ratios of two files' lines.
median() { # file, column
    awk -v column="$2" '{ print $column }' "$directory/$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
ratio() { # file, other file, column
    paste -d' ' "$directory/$1" "$directory/$2" | awk -v c="$3" '{ printf "%.3f\n", $c / $(c + 3) }' | sort -n |
        awk '{ v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
row() { # name, file, file to compare with
    printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$(median "$2" 1)" "$(ratio "$2" "$3" 1)" \
        "$(median "$2" 2) ms" "$(ratio "$2" "$3" 2)" "$(median "$2" 3) µs"
}
for connections in 64 1000; do
    printf '\n| %s connections | Requests/s | Ratio to nginx | 99 %% | Ratio | Processor time |\n|---|---|---|---|---|---|\n' $connections
    row "the service" "service-$connections" "nginx-$connections"
    row "nginx, the same body as a file" "nginx-$connections" "nginx-$connections"
    row "nginx, the same body from memory" "memory-$connections" "nginx-$connections"
    row "hyper, the same headers and body" "bare-$connections" "nginx-$connections"
    [ $connections = 64 ] || continue
    row "304" not-modified-64 nginx-64
    row "the service with its log, to nginx with its access log" logging-64 logging-nginx-64
done
# Prints median, minimum and maximum of how much more processor time a request takes.
share() { # file, other file
    paste -d' ' "$directory/$1" "$directory/$2" | awk '{ printf "%.2f\n", $3 - $6 }' | sort -n |
        awk '{ v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
passed=true
budget() { # what, figure, limit
    printf '| %s | %s | %s |\n' "$1" "$2" "$3"
    awk -v figure="${2%% *}" -v limit="$3" 'BEGIN { exit !(figure <= limit) }' || passed=false
}
printf '\n| Processor time | Measured | Allowed |\n|---|---|---|\n'
budget "a price, beyond hyper, µs" "$(share service-64 bare-64)" 1.0
budget "the same on 1,000 connections" "$(share service-1000 bare-1000)" 1.5
budget "304, to a price" "$(ratio not-modified-64 service-64 3)" 1.0
budget "HEAD, to GET (ab)" "$(ratio head-64 get-64 3)" 1.1
for index in "${!routes[@]}"; do
    budget "\`${routes[index]}\`, to a price" "$(ratio "route-$index" service-64 3)" 2
done
$passed || { echo "A budget is exceeded." >&2; exit 1; }
