#!/usr/bin/env bash
# Builds the container image and checks its contents, its size, and that it runs as a non-root user on a read-only
# file system.
#
# Needs no container engine and no image registry: the script builds both base images from Debian's packages and this
# machine's Rust. Needs root. On Debian it installs what is missing. PROFILE=dev builds faster.

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

readonly MAX_BYTES=25000000
readonly IMAGE=localhost/gas-suggestion:test

expect_equal() { # name, found, expected
    [ "$2" = "$3" ] || fail "$1 is \"$2\", not \"$3\""
}

[ "$(id -u)" = 0 ] || fail "Run this as root: it creates file systems and namespaces."
command -v cargo >/dev/null || fail "cargo is missing. Install Rust."
install_package buildah buildah
install_package debootstrap debootstrap
install_package curl curl
install_package ip iproute2
install_package openssl openssl
install_package python3 python3

default_argument() { # argument of the Dockerfile
    sed -n "s/^ARG $1=//p" Dockerfile
}
# chroot instead of a container for build steps, because this script may run in a container itself.
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

suite=$(default_argument BUILDER | sed 's/.*-//')
readonly builder=localhost/gas-suggestion-builder:$suite
readonly runtime=localhost/gas-suggestion-runtime:$suite
# The certificate authorities that this machine trusts.
readonly authorities=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

if ! buildah inspect --type image "$builder" >/dev/null 2>&1; then
    step "builder image with Debian $suite"
    container=$(buildah from scratch)
    containers+=("$container")
    root=$(buildah mount "$container")
    debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev "$suite" "$root" >"$work/log" 2>&1 ||
        fail "debootstrap: $(tail "$work/log")"
    cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"
    buildah config --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin --env CARGO_HOME=/usr/local/cargo "$container"
    buildah commit --quiet "$container" "$builder" >/dev/null
fi

step "base image with host names, certificate authorities and /tmp"
container=$(buildah from scratch)
containers+=("$container")
root=$(buildah mount "$container")
mkdir -p "$root/etc/ssl/certs"
mkdir -m 1777 "$root/tmp"
echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$root/etc/passwd"
echo 'nonroot:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"
# Container engines mount their own files over these.
touch "$root/etc/hosts" "$root/etc/resolv.conf"
buildah commit --quiet "$container" "$runtime" >/dev/null

step "build of the image"
volumes=(--volume "$(rustc --print sysroot):/usr/local/rust:ro")
# The build uses this machine's source of crates, if one is configured.
for name in config.toml config; do
    configuration=${CARGO_HOME:-$HOME/.cargo}/$name
    [ ! -e "$configuration" ] || volumes+=(--volume "$configuration:/usr/local/cargo/$name:ro")
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
revision=$(git rev-parse HEAD)
nice -n 10 buildah bud --format docker --layers "${volumes[@]}" \
    --build-arg BUILDER="$builder" --build-arg RUNTIME="$runtime" --build-arg PROFILE="${PROFILE:-release}" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" --tag "$IMAGE" .

step "image configuration"
image_config() { # expression over the configuration
    buildah inspect --type image "$IMAGE" |
        python3 -c "import json, sys; c = json.load(sys.stdin)['Docker']['config']; print($1)"
}
image_label() {
    image_config "c['Labels']['org.opencontainers.image.$1']"
}
expect_equal title "$(image_label title)" gas-suggestion
expect_equal description "$(image_label description)" "$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)"
expect_equal licenses "$(image_label licenses)" "$(sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml)"
expect_equal version "$(image_label version)" "$version"
expect_equal revision "$(image_label revision)" "$revision"
expect_equal user "$(image_config "c['User']")" 65532:65532
expect_equal entrypoint "$(image_config "c['Entrypoint']")" "['/gas-suggestion']"
expect_equal command "$(image_config "c['Cmd'] or None")" None
expect_equal "health check" "$(image_config "c['Healthcheck']['Test']")" "['CMD', '/gas-suggestion', 'healthcheck']"
expect_equal ports "$(image_config "sorted(c['ExposedPorts'])")" "['8080/tcp', '9090/tcp']"
expect_equal "stop signal" "$(image_config "c['StopSignal']")" SIGTERM

step "image contents"
container=$(buildah from --pull-never "$IMAGE")
containers+=("$container")
root=$(buildah mount "$container")
expect_equal "list of executables" "$(cd "$root" && find . -type f -perm /111)" ./gas-suggestion
expect_equal "owner of the history's folder" "$(stat --format=%u:%g:%a "$root/var/lib/gas-suggestion")" 65532:65532:700
notices=$(zcat "$root/usr/share/doc/gas-suggestion/NOTICES.gz")
for part in "tokio $(sed -n '/^name = "tokio"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock) " "GNU C library" "uplot"; do
    [[ "$notices" == *"$part"* ]] || fail "NOTICES.gz does not name $part"
done
bytes=$(du --summarize --bytes "$root" | cut -f 1)
buildah push --quiet "$IMAGE" "oci:$work/pushed:test"
compressed=$(du --summarize --bytes "$work/pushed/blobs" | cut -f 1)
echo "$bytes bytes; $compressed compressed for a pull"
if [ "${PROFILE:-release}" = release ] && [ "$bytes" -ge "$MAX_BYTES" ]; then
    fail "the image has $bytes bytes; it must have fewer than $MAX_BYTES"
fi

# The network namespace has only a loopback interface.
unshare --net --mount tests/image/run.sh "$root" "$work"

step "all checks passed"
