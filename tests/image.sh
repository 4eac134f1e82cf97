#!/usr/bin/env bash
# Builds the container image and checks what is in it, how large it is, and that it runs as somebody who is
# not root, on a file system that cannot be written to.
#
# No engine and no registry of images is needed: the two base images are made here, from Debian's packages
# and this machine's Rust. Needs root, on Debian it installs the rest by itself. PROFILE=dev builds faster.

set -euo pipefail
cd "$(dirname "$0")/.."

readonly MOST_BYTES=25000000
readonly IMAGE=localhost/gas-suggestion:test

fail() {
    echo "tests/image.sh: $1" >&2
    exit 1
}

step() {
    printf '\n== %s\n' "$*"
}

equal() { # what, found, expected
    [ "$2" = "$3" ] || fail "$1 is \"$2\", not \"$3\""
}

[ "$(id -u)" = 0 ] || fail "Run this as root: it makes file systems and namespaces."
command -v cargo >/dev/null || fail "cargo is missing. Install Rust."
install_package() { # command, package
    command -v "$1" >/dev/null && return
    command -v apt-get >/dev/null || fail "$1 is missing. Install it (Debian: apt-get install $2)."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2"
}
install_package buildah buildah
install_package debootstrap debootstrap
install_package curl curl
install_package ip iproute2
install_package openssl openssl
install_package python3 python3

default_of() { # argument of the Dockerfile
    sed -n "s/^ARG $1=//p" Dockerfile
}
# What a builder runs needs no container around it, which a container around this script would not allow.
export BUILDAH_ISOLATION=chroot
work=$(mktemp -d)
containers=()
cleanup() {
    for container in "${containers[@]}"; do
        buildah rm "$container" >/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

suite=$(default_of BUILDER | sed 's/.*-//')
readonly builder=localhost/gas-suggestion-builder:$suite
readonly runtime=localhost/gas-suggestion-runtime:$suite
# Whose signatures this machine believes.
readonly authorities=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

if ! buildah inspect --type image "$builder" >/dev/null 2>&1; then
    step "a builder of Debian $suite"
    container=$(buildah from scratch)
    containers+=("$container")
    root=$(buildah mount "$container")
    debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev "$suite" "$root" >"$work/log" 2>&1 ||
        fail "debootstrap: $(tail "$work/log")"
    cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"
    buildah config --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin --env CARGO_HOME=/usr/local/cargo "$container"
    buildah commit --quiet "$container" "$builder" >/dev/null
fi

step "a base with nothing but names, authorities and a place for temporary files"
container=$(buildah from scratch)
containers+=("$container")
root=$(buildah mount "$container")
mkdir -p "$root/etc/ssl/certs"
mkdir -m 1777 "$root/tmp"
echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$root/etc/passwd"
echo 'nonroot:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"
# An engine lays its own over these.
touch "$root/etc/hosts" "$root/etc/resolv.conf"
buildah commit --quiet "$container" "$runtime" >/dev/null

step "the image"
volumes=(--volume "$(rustc --print sysroot):/usr/local/rust:ro")
# Where this machine gets its crates from.
for name in config.toml config; do
    configuration=${CARGO_HOME:-$HOME/.cargo}/$name
    [ ! -e "$configuration" ] || volumes+=(--volume "$configuration:/usr/local/cargo/$name:ro")
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
revision=$(git rev-parse HEAD)
nice -n 10 buildah bud --format docker --layers "${volumes[@]}" \
    --build-arg BUILDER="$builder" --build-arg RUNTIME="$runtime" --build-arg PROFILE="${PROFILE:-release}" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" --tag "$IMAGE" .

step "what it says of itself"
of_image() { # expression over the configuration
    buildah inspect --type image "$IMAGE" |
        python3 -c "import json, sys; c = json.load(sys.stdin)['Docker']['config']; print($1)"
}
of_label() {
    of_image "c['Labels']['org.opencontainers.image.$1']"
}
equal title "$(of_label title)" gas-suggestion
equal description "$(of_label description)" "$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)"
equal licenses "$(of_label licenses)" "$(sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml)"
equal version "$(of_label version)" "$version"
equal revision "$(of_label revision)" "$revision"
equal user "$(of_image "c['User']")" 65532:65532
equal entrypoint "$(of_image "c['Entrypoint']")" "['/gas-suggestion']"
equal command "$(of_image "c['Cmd'] or None")" None
equal "health check" "$(of_image "c['Healthcheck']['Test']")" "['CMD', '/gas-suggestion', 'healthcheck']"
equal ports "$(of_image "sorted(c['ExposedPorts'])")" "['8080/tcp', '9090/tcp']"
equal "stop signal" "$(of_image "c['StopSignal']")" SIGTERM

step "what is in it"
container=$(buildah from --pull-never "$IMAGE")
containers+=("$container")
root=$(buildah mount "$container")
equal "what can be run in it" "$(cd "$root" && find . -type f -perm /111)" ./gas-suggestion
bytes=$(du --summarize --bytes "$root" | cut -f 1)
buildah push --quiet "$IMAGE" "oci:$work/pushed:test"
compressed=$(du --summarize --bytes "$work/pushed/blobs" | cut -f 1)
echo "$bytes bytes; $compressed compressed, as it is pulled"
if [ "${PROFILE:-release}" = release ] && [ "$bytes" -ge "$MOST_BYTES" ]; then
    fail "the image has $bytes bytes, which is not below $MOST_BYTES"
fi

# Without a network beyond its own loopback.
unshare --net --mount tests/image/run.sh "$root" "$work"

step "the image is as it should be"
