#!/usr/bin/env bash
# The service behind software that operators put in front of it: HAProxy with health checks, an Express proxy that
# compresses, and nginx as a cache. Prints what each lets through, and fails if a client got something wrong.
# Usage: benches/intermediaries.sh [program]    default: builds the service as in images
#
# Needs Node.js 20 with npm. As root on Debian it installs HAProxy and nginx. Listens on free loopback ports only.

cd "$(dirname "$0")/.."
. benches/common.sh

install_package() { # command, package
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        need "$1" "apt-get install $2"
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}
PATH=$PATH:/usr/sbin
need npm "install Node.js 20"
need curl "apt-get install curl"
install_package haproxy haproxy
install_package nginx nginx
program=${1:-}
if [ -z "$program" ]; then
    build_service
    program=target/release/gas-suggestion
fi
create_workspace

# Starts an instance; sets `instance` to its process id and `address`.
start_instance() { # arguments of the service
    local log deadline=$((SECONDS + 20))
    log=$(mktemp -p "$directory")
    GAS_LOG__FORMAT=json GAS_SERVER__LISTEN=127.0.0.1:0 GAS_SERVER__ADMIN_LISTEN=127.0.0.1:0 \
        GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT=100000 GAS_LIMITS__REQUEST_BURST_PER_CLIENT=100000 \
        GAS_HISTORY__REFILL=false "$program" "$@" 2>"$log" &
    instance=$!
    started+=("$instance")
    until address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$log" | grep .); do
        [ $SECONDS -lt $deadline ] || { cat "$log" >&2; echo "the service did not start" >&2; exit 1; }
        sleep 0.05
    done
}

wait_for() { # what, command
    local what=$1 deadline=$((SECONDS + 20))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || { echo "$what: not within 20 s" >&2; exit 1; }
        sleep 0.1
    done
}

is_ready() { # address
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$1/readyz")" = 200 ]
}

wrong=0
row() { # in front, check, expected, got
    local mark=
    [ "$3" = "$4" ] || { mark='  WRONG'; wrong=1; }
    printf '%-9s %-66s %-18s %s%s\n' "$1" "$2" "$3" "$4" "$mark"
}
printf '%-9s %-66s %-18s %s\n' "" "" expected got

start_instance demo --block-time 1s
ready=$address
start_instance demo --block-time 1s
second=$address second_instance=$instance
# Its only node refuses connections, so it never becomes ready.
cat >"$directory/unready.toml" <<END
[chains.ethereum]
chain_id = 1
rpc_urls = ["http://127.0.0.1:$(free_port)"]
END
start_instance --config "$directory/unready.toml"
unready=$address
wait_for "an instance is not ready" is_ready "$ready"
wait_for "an instance is not ready" is_ready "$second"

# HAProxy: without a method, `option httpchk` sends OPTIONS.
balancer=127.0.0.1:$(free_port) statistics=127.0.0.1:$(free_port)
cat >"$directory/haproxy.cfg" <<END
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend clients
  bind $balancer
  default_backend instances
backend instances
  balance roundrobin
  option httpchk /readyz
  http-response set-header x-instance %s
  default-server check inter 200ms fall 1 rise 1
  server ready $ready
  server second $second
  server unready $unready
frontend statistics
  bind $statistics
  stats enable
  stats uri /
END
haproxy -db -f "$directory/haproxy.cfg" >"$directory/haproxy.log" 2>&1 &
started+=($!)
states() {
    curl -s "http://$statistics/;csv" | awk -F , '$1 == "instances" && $2 != "BACKEND" { printf "%s%s=%s", (n++ ? " " : ""), $2, $18 }'
}
is_checked() {
    [[ "$(states)" == *unready=DOWN* ]]
}
wait_for "HAProxy finds the unready instance" is_checked
row HAProxy "instances after health checks by OPTIONS /readyz" "UP UP DOWN" "$(states | sed 's/[a-z]*=//g')"
suggestion=/v1/ethereum/gas-suggestion
row HAProxy "the unready instance itself" 503 "$(curl -s -o /dev/null -w '%{http_code}' "http://$unready$suggestion")"
ask() { # how often
    curl -s -o /dev/null -w '%{http_code} %header{x-instance}\n' "http://$balancer$suggestion?n=[1-$1]"
}
ask 300 >"$directory/answers"
row HAProxy "of 300 requests, answered 200" 300 "$(grep -c '^200 ' "$directory/answers")"
row HAProxy "of 300 requests, sent to the unready instance" 0 "$(grep -c ' unready$' "$directory/answers" || true)"
# An instance drains while requests arrive: HAProxy has to see it within drain_delay.
(for _ in $(seq 40); do ask 25; sleep 0.05; done) >"$directory/answers" &
asking=$!
sleep 1
kill -TERM "$second_instance"
wait "$asking"
row HAProxy "of 1000 requests while an instance shuts down, answered 200" 1000 "$(grep -c '^200 ' "$directory/answers")"
row HAProxy "the last request went to" ready "$(tail -n 1 "$directory/answers" | cut -d ' ' -f 2)"

# Express: `compression` compresses what its proxy passes on, and holds back what it has not filled a block with.
npm install --prefix "$directory" --silent --no-audit --no-fund --ignore-scripts \
    express@5.3.0 compression@1.8.2 http-proxy-middleware@3.0.11
cat >"$directory/proxy.mjs" <<'END'
import compression from 'compression'
import express from 'express'
import { createProxyMiddleware } from 'http-proxy-middleware'

const app = express()
app.use(compression())
// A stream that allows compression, to see that it is held back.
app.get('/control', (_, response) => {
  response.set({ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  setInterval(() => response.write('data: 1\n\n'), 500)
})
app.use(createProxyMiddleware({ target: process.argv[2], changeOrigin: true }))
const server = app.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`))
END
start_listener node "$directory/proxy.mjs" "http://$ready"
express=$address
stream() { # path; reads for 4 seconds
    timeout 4 curl -sN --compressed -D "$directory/headers" "http://$express$1" >"$directory/events" || true
    grep -c '^data: ' "$directory/events" || true
}
events=$(stream "$suggestion/stream")
row Express "events of a stream in 4 s, gzip accepted: at least 3" yes "$([ "$events" -ge 3 ] && echo yes || echo "no, $events")"
row Express "content-encoding of the stream" none "$(sed -n 's/^content-encoding: \(.*\)\r/\1/Ip' "$directory/headers" | grep . || echo none)"
row Express "events in 4 s of a stream that allows compression (the trial works)" 0 "$(stream /control)"
market=$(curl -s --compressed "http://$express/v1/ethereum/fee-market" | python3 -c 'import json, sys; print(json.load(sys.stdin)["chain_name"])')
row Express "fee-market, gzip accepted: its chain_name" ethereum "$market"
tag=$(curl -s -o /dev/null -w '%header{etag}' "http://$express/v1")
row Express "/v1 with its ETag" 304 "$(curl -s -o /dev/null -w '%{http_code}' -H "if-none-match: $tag" "http://$express/v1")"

# nginx: the cache of docs/examples. nginx counts whole seconds and keeps a copy for up to a second and a half longer than the
# service says.
start_instance demo --block-time 2s
cached=$address
wait_for "an instance is not ready" is_ready "$cached"
cache=127.0.0.1:$(free_port)
mkdir "$directory/nginx"
sed -e "s/127.0.0.1:8080/$cached/; s/listen 8082/listen $cache/; s/^error_log.*/error_log error.log;/" \
    -e 's/add_header Age/add_header X-Cache $upstream_cache_status always; &/' \
    docs/examples/nginx/nginx.conf >"$directory/nginx/nginx.conf"
nginx -p "$directory/nginx" -c nginx.conf -e error.log -g "daemon off; master_process off;" &
started+=($!)
wait_for "nginx listens" is_ready "$cache"
hits=0 gzip=0 behind=0 late=0 blocks=()
for number in $(seq 60); do
    headers=()
    [ $((number % 2)) = 1 ] && headers=(-H "accept-encoding: gzip")
    blocks[number]=$(curl -s -o /dev/null -w '%header{x-newest-block}' "http://$cached/v1/ethereum/fee-market")
    read -r status block answer encoding < <(curl -s -o /dev/null "${headers[@]}" \
        -w '%{http_code} %header{x-newest-block} %header{x-cache} %header{content-encoding}\n' "http://$cache/v1/ethereum/fee-market")
    [ "$status" = 200 ] || wrong=1
    [ "$answer" != HIT ] || hits=$((hits + 1))
    [ "${#headers[@]}" -gt 0 ] || [ -z "$encoding" ] || gzip=$((gzip + 1))
    [ "$block" -ge "${blocks[number]}" ] || behind=$((behind + 1))
    # Eight rounds take more than a second and a half.
    [ "$block" -ge "${blocks[number > 8 ? number - 8 : number]}" ] || late=$((late + 1))
    sleep 0.2
done
row nginx "of 60 responses, from the cache: more than 20" yes "$([ $hits -gt 20 ] && echo yes || echo "no, $hits")"
row nginx "of 30 responses without Accept-Encoding, compressed" 0 "$gzip"
row nginx "of 60 responses, older than what the service had 1.6 s before" 0 "$late"
echo "nginx     of 60 responses, $behind were older than what the service had at that moment"
events=$(timeout 10 curl -sN "http://$cache$suggestion/stream" | grep -c '^data: ' || true)
row nginx "events of a stream in 10 s: at least 2" yes "$([ "$events" -ge 2 ] && echo yes || echo "no, $events")"

haproxy -v | awk 'NR == 1 { print $1, $3 }'
nginx -v 2>&1
exit "$wrong"
