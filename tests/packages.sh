#!/usr/bin/env bash
# Installs every package from scratch, starts the demo from it, and ends it: by npx, uvx, pip, and from the packages for
# Debian and RPM systems, each unpacked into an empty root. Checks sizes, checksums, contents and the chart.
# Usage: [BINARY=PATH] tests/packages.sh [FOLDER]    default: makes the packages with packaging/build.sh
#
# FOLDER has the output of packaging/build.sh. tests/debian.sh installs the Debian package in a whole Debian. Needs root, for
# chroot, Node.js and Python. On Debian it installs cpio and rpm2cpio. Uses no network beside that of the tools.

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

readonly MAX_BYTES=12000000
# From the command, with empty caches, to the first suggestion.
readonly MAX_SECONDS=10

[ "$(id -u)" = 0 ] || fail "Run this as root: it changes the root folder of processes."
install_package npx npm
install_package cpio cpio
install_package rpm2cpio rpm2cpio

work=$(mktemp -d)
registry=
cleanup() {
    [ -z "$registry" ] || kill "$registry" || true
    rm -rf "$work"
}
trap cleanup EXIT

out=${1:-}
if [ -z "$out" ]; then
    step "packages"
    out=$work/out
    packaging/build.sh "$out"
fi
out=$(realpath "$out")
tools=$(realpath "${TOOLS:-target/packaging}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
case $machine in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) fail "there are no packages for $machine" ;;
esac

step "checksums and sizes"
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
diff <(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort) <(cut -d ' ' -f 3- "$out/SHA256SUMS" | sort) ||
    fail "SHA256SUMS does not list every file"
while read -r bytes file; do
    printf '%10d  %s\n' "$bytes" "${file#"$out"/}"
    [ "$bytes" -le $MAX_BYTES ] || fail "$file has more than $MAX_BYTES bytes"
done < <(find "$out" -type f ! -name SHA256SUMS -printf '%s %p\n' | sort -k 2)

only() { # pattern
    local files
    mapfile -t files < <(compgen -G "$out/$1")
    [ "${#files[@]}" = 1 ] || fail "not one file: $1"
    echo "${files[0]}"
}
deb=$(only "deb/*_$debian.deb")
rpm=$(only "rpm/*.$machine.rpm")
wheel=$(only "pypi/*_$machine.whl")

# Runs with nothing of this user: no caches, no configuration, and no packages but those of the folder.
clean() { # command
    local home
    home=$(mktemp -d -p "$work")
    (cd "$home" && exec env -i HOME="$home" TMPDIR="$home" PATH="$PATH" TERM=xterm LANG=C.UTF-8 \
        npm_config_registry="http://127.0.0.1:$port" npm_config_update_notifier=false \
        UV_PYTHON_DOWNLOADS=never PIP_NO_INDEX=1 PIP_FIND_LINKS="$out/pypi" PIP_DISABLE_PIP_VERSION_CHECK=1 "$@")
}
start() { # name, command
    clean python3 "$start" "$1" $MAX_SECONDS "${@:2}"
}
# The statuses of the program are those of the starter: 0, and 2 for wrong arguments.
check_status() { # command
    local status=0
    [ "$(clean "$@" --version)" = "gas-suggestion $version" ] || fail "$*: another version"
    clean "$@" check-config --config /nonexistent >"$work/log" 2>&1 || status=$?
    [ $status = 2 ] || fail "$*: status $status instead of 2: $(cat "$work/log")"
}
start=$PWD/tests/packages/start.py
coproc REGISTRY { exec python3 tests/packages/registry.py "$out/npm"; }
registry=$REGISTRY_PID
read -r -u "${REGISTRY[0]}" port

step "demo from each package"
start npx npx --yes gas-suggestion-cli
check_status npx --yes gas-suggestion-cli
# A newer Node.js replaces itself by the program.
if [ -n "${NODE_22:-}" ]; then
    folder=$work/npm
    mkdir "$folder"
    clean npm install --silent --prefix "$folder" gas-suggestion-cli
    start node "$NODE_22" "$folder/node_modules/gas-suggestion-cli/gas-suggestion.js"
fi
uvx=("$tools/bin/uvx" --quiet --no-index --find-links "$out/pypi" gas-suggestion)
start uvx "${uvx[@]}"
check_status "${uvx[@]}"
python3 -m venv "$work/venv"
clean "$work/venv/bin/pip" install --quiet gas-suggestion
start pip "$work/venv/bin/gas-suggestion"
# The client needs web3.py, which is not in the folder. tests/weekly.sh installs both.
clean "$work/venv/bin/pip" install --quiet --no-deps gas-suggestion-web3
[ -e "$work"/venv/lib/python3*/site-packages/gas_suggestion_web3/py.typed ] || fail "gas-suggestion-web3 has no types"
scripts=$(tar --list --gzip --file "$(only "npm/gas-suggestion-cli-$version.tgz")" | wc -l)
[ "$scripts" -le 4 ] || fail "gas-suggestion-cli has $scripts files"
if tar --extract --gzip --to-stdout --file "$out/npm/gas-suggestion-cli-$version.tgz" package/package.json | grep '"scripts"'; then
    fail "gas-suggestion-cli has scripts, which npm 12 does not run"
fi

# The root folder has the files of the package and the certificate authorities of the package that it depends on.
root() { # name
    echo "$work/root-$1"
}
mkdir "$(root deb)" "$(root rpm)"
dpkg-deb --extract "$deb" "$(root deb)"
(cd "$(root rpm)" && rpm2cpio "$rpm" | cpio --extract --make-directories --quiet)
for format in deb rpm; do
    root=$(root $format)
    install -D --mode 644 "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
    start $format chroot "$root" /usr/bin/gas-suggestion
    check_status chroot "$root" /usr/bin/gas-suggestion
    chroot "$root" /usr/bin/gas-suggestion check-config --config /etc/gas-suggestion/config.toml >/dev/null
    for file in etc/gas-suggestion/config.toml usr/share/man/man1/gas-suggestion.1.gz usr/share/doc/gas-suggestion/NOTICES.gz; do
        [ -s "$root/$file" ] || fail "the $format package does not have $file"
    done
    cmp "$root/usr/bin/gas-suggestion" "$(root deb)/usr/bin/gas-suggestion"
    cmp "$root/usr/lib/systemd/system/gas-suggestion.service" config/debian/gas-suggestion.service
done

step "metadata"
dpkg-deb --field "$deb" Package Version Architecture Depends Maintainer
for script in postinst prerm postrm conffiles; do
    dpkg-deb --info "$deb" $script >/dev/null || fail "the Debian package has no $script"
done
python3 -m zipfile --list "$wheel"

step "chart"
options=()
[ ! -x target/python/bin/kubernetes-validate ] || options=(--kubernetes-validate target/python/bin/kubernetes-validate)
"$tools/bin/python" tests/chart.py "$(only 'helm/*.tgz')" "${options[@]}"

step "all checks passed"
