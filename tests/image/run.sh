#!/usr/bin/env bash
# Runs the file system of an image like a container engine: as the image's user, read-only, without privileges, and
# with its own /etc/hosts and /etc/resolv.conf. Started by tests/image.sh in separate namespaces.

set -euo pipefail

readonly IMAGE_ROOT=$1 work=$2
readonly PUBLIC=http://127.0.0.1:8080
here=$(dirname "$0")

fail() {
    echo "tests/image.sh: $1" >&2
    cat "$work"/*.log >&2 || true
    exit 1
}

step() {
    printf '\n== %s\n' "$*"
}

running=()
trap 'kill "${running[@]}" 2>/dev/null || true' EXIT

# Names that only this hosts file and this name server resolve.
cat >"$work/hosts" <<'HOSTS'
127.0.0.1 localhost
127.0.0.1 node-in-hosts.test
HOSTS
echo 'nameserver 127.0.0.1' >"$work/resolv.conf"
certificate() { # name, options …
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -keyout "$work/$1-key.pem" -out "$work/$1.pem" "${@:2}" \
        2>"$work/openssl.txt" || fail "openssl: $(cat "$work/openssl.txt")"
}
certificate authority -subj '/CN=authority'
certificate node -subj '/CN=node' -CA "$work/authority.pem" -CAkey "$work/authority-key.pem" \
    -addext 'basicConstraints=critical,CA:FALSE' \
    -addext 'subjectAltName=DNS:node-in-hosts.test,DNS:node-in-dns.test'
chmod 644 "$work"/*.pem
chmod 755 "$work"

ip link set lo up
readonly root=$work/root
mkdir "$root"
mount --bind "$IMAGE_ROOT" "$root"
for file in hosts resolv.conf; do
    mount --bind "$work/$file" "$root/etc/$file"
done
mount --bind "$work/authority.pem" "$root/etc/ssl/certs/ca-certificates.crt"
mount -o remount,bind,ro,nosuid,nodev "$root"
! touch "$root/tmp/file" 2>/dev/null || fail "the file system is writable"

# Runs the image's program with only the environment variables given before `--`.
in_image() { # VARIABLE=value … -- argument …
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    exec env -i "${variables[@]}" setpriv --no-new-privs \
        /usr/sbin/chroot --userspec=65532:65532 --groups= "$root" /gas-suggestion "$@"
}

start() { # log, VARIABLE=value … -- argument …
    local log=$work/$1.log
    shift
    in_image "$@" >"$log" 2>&1 &
    service=$!
    running+=("$service")
}

get() { # path
    curl --silent --show-error --fail --retry 100 --retry-delay 1 --retry-max-time 30 --retry-all-errors \
        "$PUBLIC$1" 2>"$work/curl.log" || fail "GET $1 failed"
}

stop() {
    kill -TERM "$service"
    local code=0
    wait "$service" || code=$?
    [ "$code" = 0 ] || fail "the service exited with $code after SIGTERM"
}

step "demo"
start demo -- demo
get /readyz
echo
get /v1/ethereum/gas-suggestion
echo
grep -E '^(Uid|Gid|CapEff|NoNewPrivs|VmRSS):' "/proc/$service/status"
awk '/^Uid:/ && $2 != 65532 { exit 1 }' "/proc/$service/status" || fail "the service does not run as user 65532"
(in_image -- healthcheck) || fail "healthcheck exited with $? while the service was ready"
stop
code=0
(in_image -- healthcheck) >"$work/healthcheck.log" 2>&1 || code=$?
[ "$code" = 1 ] || fail "healthcheck exited with $code without a service"
written=$(find "$IMAGE_ROOT" -newer "$work/hosts" -type f)
[ -z "$written" ] || fail "the service wrote $written"

step "nodes from /etc/hosts and DNS, over TLS with the image's authorities"
python3 "$here/node.py" "$work/node.pem" "$work/node-key.pem" >"$work/node.log" 2>&1 &
running+=("$!")
# The built-in chains stay configured; their nodes are unreachable here.
start names \
    'GAS_CHAINS__HOSTS__CHAIN_ID=7' 'GAS_CHAINS__HOSTS__RPC_URLS=["https://node-in-hosts.test:8545"]' \
    'GAS_CHAINS__DNS__CHAIN_ID=8' 'GAS_CHAINS__DNS__RPC_URLS=["https://node-in-dns.test:8546"]' -- serve
get /v1/hosts/gas-suggestion
echo
get /v1/dns/gas-suggestion
echo
get /v1/chains
echo
stop
